//! Functions on strings and characters.

use super::{Call, Done, Flow, Model, int};
use crate::machine::Stop;
use crate::memory::{Region, address_of};

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "strlen" => length,
        "strnlen" => length_up_to,
        "strcpy" | "__strcpy_chk" => copy,
        "stpcpy" => copy_to_end,
        "strncpy" | "__strncpy_chk" => copy_up_to,
        "strcat" | "__strcat_chk" => append,
        "strncat" => append_up_to,
        "strcmp" => |call| compare(call, usize::MAX, false),
        "strncmp" => |call| compare(call, call.argument(2) as usize, false),
        "strcasecmp" => |call| compare(call, usize::MAX, true),
        "strncasecmp" => |call| compare(call, call.argument(2) as usize, true),
        "strchr" | "index" => first,
        "strrchr" | "rindex" => last,
        "strstr" => part,
        "strdup" | "__strdup" => duplicate,
        "strndup" => duplicate_up_to,
        "strspn" => |call| span(call, true),
        "strcspn" => |call| span(call, false),
        "strpbrk" => first_of,
        "strtok_r" | "__strtok_r" => next_token,
        "strerror" => error_text,
        "__ctype_b_loc" => |call| table(call, 2, classes),
        "__ctype_toupper_loc" => |call| table(call, 4, |byte| byte.to_ascii_uppercase().into()),
        "__ctype_tolower_loc" => |call| table(call, 4, |byte| byte.to_ascii_lowercase().into()),
        _ if of_byte(name).is_some() => character,
        _ => return None,
    })
}

/// What a function of one character makes of it: another one, or 1 if it is in a class and 0 if not.
pub(super) fn of_byte(name: &str) -> Option<fn(u8) -> u8> {
    Some(match name {
        "toupper" => |byte| byte.to_ascii_uppercase(),
        "tolower" => |byte| byte.to_ascii_lowercase(),
        "isdigit" => |byte| byte.is_ascii_digit().into(),
        "isalpha" => |byte| byte.is_ascii_alphabetic().into(),
        "isalnum" => |byte| byte.is_ascii_alphanumeric().into(),
        "isspace" => |byte| (byte.is_ascii_whitespace() || byte == 11).into(),
        "isupper" => |byte| byte.is_ascii_uppercase().into(),
        "islower" => |byte| byte.is_ascii_lowercase().into(),
        "isprint" => |byte| (32..127).contains(&byte).into(),
        "isxdigit" => |byte| byte.is_ascii_hexdigit().into(),
        "ispunct" => |byte| byte.is_ascii_punctuation().into(),
        _ => return None,
    })
}

/// The bits of glibc's table of classes, in the byte order of x86.
fn classes(byte: u8) -> u32 {
    let has = |name: &str, bit: u32| of_byte(name).map_or(0, |is_in| u32::from(is_in(byte)) << bit);
    let blank = u32::from(byte == b' ' || byte == b'\t');
    let (is_control, is_graphic) = (byte.is_ascii_control(), byte.is_ascii_graphic());
    has("isupper", 8)
        | has("islower", 9)
        | has("isalpha", 10)
        | has("isdigit", 11)
        | has("isxdigit", 12)
        | has("isspace", 13)
        | has("isprint", 14)
        | u32::from(is_graphic) << 15
        | blank
        | u32::from(is_control) << 1
        | has("ispunct", 2)
        | has("isalnum", 3)
}

/// The address of a pointer into a table that goes from -128 to 255.
fn table(call: &mut Call<'_, '_>, bytes: usize, entry: fn(u8) -> u32) -> Done {
    let name = call.name.as_bytes().to_vec();
    if let Some(&object) = call.machine.state.named.get(&name) {
        return Ok(Flow::Return(address_of(object)));
    }
    let entries = (-128..=255).flat_map(|number: i32| {
        let value = u8::try_from(number).map_or(0, entry);
        value.to_le_bytes()[..bytes].to_vec()
    });
    let entries: Vec<u8> = entries.collect();
    let memory = &mut call.machine.state.memory;
    let object = memory.allocate(entries.len() as u64, Region::Library, true);
    memory.initialise(object, entries);
    let middle = address_of(object) + 128 * bytes as u64;
    let pointer = memory.allocate(8, Region::Library, true);
    memory.initialise(pointer, middle.to_le_bytes().to_vec());
    call.machine.state.named.insert(name, pointer);
    Ok(Flow::Return(address_of(pointer)))
}

fn length(call: &mut Call<'_, '_>) -> Done {
    Ok(Flow::Return(call.string(0)?.len() as u64))
}

/// At most `limit` bytes of a string that may have no end within them.
fn bounded(call: &Call<'_, '_>, index: usize, limit: u64) -> Result<Vec<u8>, Stop> {
    let start = call.argument(index);
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < limit {
        match call.load(start + bytes.len() as u64, 1)? as u8 {
            0 => break,
            byte => bytes.push(byte),
        }
    }
    Ok(bytes)
}

fn length_up_to(call: &mut Call<'_, '_>) -> Done {
    Ok(Flow::Return(
        bounded(call, 0, call.argument(1))?.len() as u64
    ))
}

fn copy(call: &mut Call<'_, '_>) -> Done {
    let mut text = call.string(1)?;
    text.push(0);
    call.write(call.argument(0), &text)?;
    Ok(Flow::Return(call.argument(0)))
}

fn copy_to_end(call: &mut Call<'_, '_>) -> Done {
    let length = call.string(1)?.len() as u64;
    copy(call)?;
    Ok(Flow::Return(call.argument(0) + length))
}

fn copy_up_to(call: &mut Call<'_, '_>) -> Done {
    let mut text = bounded(call, 1, call.argument(2))?;
    text.resize(call.argument(2) as usize, 0);
    call.write(call.argument(0), &text)?;
    Ok(Flow::Return(call.argument(0)))
}

fn append(call: &mut Call<'_, '_>) -> Done {
    let end = call.argument(0) + call.string(0)?.len() as u64;
    let mut text = call.string(1)?;
    text.push(0);
    call.write(end, &text)?;
    Ok(Flow::Return(call.argument(0)))
}

fn append_up_to(call: &mut Call<'_, '_>) -> Done {
    let end = call.argument(0) + call.string(0)?.len() as u64;
    let mut text = bounded(call, 1, call.argument(2))?;
    text.push(0);
    call.write(end, &text)?;
    Ok(Flow::Return(call.argument(0)))
}

fn compare(call: &mut Call<'_, '_>, limit: usize, ignores_case: bool) -> Done {
    let (left, right) = (call.argument(0), call.argument(1));
    for at in 0..limit as u64 {
        let mut left = call.load(left + at, 1)? as u8;
        let mut right = call.load(right + at, 1)? as u8;
        if ignores_case {
            left.make_ascii_lowercase();
            right.make_ascii_lowercase();
        }
        if left != right {
            return int(i32::from(left) - i32::from(right));
        }
        if left == 0 {
            break;
        }
    }
    int(0)
}

fn found(call: &Call<'_, '_>, position: Option<usize>) -> Done {
    Ok(Flow::Return(
        position.map_or(0, |at| call.argument(0) + at as u64),
    ))
}

fn first(call: &mut Call<'_, '_>) -> Done {
    let mut text = call.string(0)?;
    text.push(0);
    let wanted = call.argument(1) as u8;
    found(call, text.iter().position(|&byte| byte == wanted))
}

fn last(call: &mut Call<'_, '_>) -> Done {
    let mut text = call.string(0)?;
    text.push(0);
    let wanted = call.argument(1) as u8;
    found(call, text.iter().rposition(|&byte| byte == wanted))
}

fn part(call: &mut Call<'_, '_>) -> Done {
    let (text, wanted) = (call.string(0)?, call.string(1)?);
    let position = match wanted.is_empty() {
        true => Some(0),
        false => text
            .windows(wanted.len())
            .position(|window| window == wanted),
    };
    found(call, position)
}

fn new_string(call: &mut Call<'_, '_>, mut text: Vec<u8>) -> Done {
    text.push(0);
    let memory = &mut call.machine.state.memory;
    let object = memory.allocate(text.len() as u64, Region::Heap, true);
    memory.initialise(object, text);
    Ok(Flow::Return(address_of(object)))
}

fn duplicate(call: &mut Call<'_, '_>) -> Done {
    let text = call.string(0)?;
    new_string(call, text)
}

fn duplicate_up_to(call: &mut Call<'_, '_>) -> Done {
    let text = bounded(call, 0, call.argument(1))?;
    new_string(call, text)
}

fn span(call: &mut Call<'_, '_>, is_in: bool) -> Done {
    let (text, set) = (call.string(0)?, call.string(1)?);
    let end = text.iter().position(|byte| set.contains(byte) != is_in);
    Ok(Flow::Return(end.unwrap_or(text.len()) as u64))
}

fn first_of(call: &mut Call<'_, '_>) -> Done {
    let (text, set) = (call.string(0)?, call.string(1)?);
    found(call, text.iter().position(|byte| set.contains(byte)))
}

fn next_token(call: &mut Call<'_, '_>) -> Done {
    let (rest, separators, save) = (call.argument(0), call.string(1)?, call.argument(2));
    let start = if rest == 0 { call.load(save, 8)? } else { rest };
    let text = call.machine.state.memory.string(start)?.to_vec();
    let is_separator = |byte: &u8| separators.contains(byte);
    let Some(first) = text.iter().position(|byte| !is_separator(byte)) else {
        call.store(save, 8, start + text.len() as u64)?;
        return Ok(Flow::Return(0));
    };
    let end = text[first..]
        .iter()
        .position(is_separator)
        .map(|length| first + length);
    let next = match end {
        Some(end) => {
            call.store(start + end as u64, 1, 0)?;
            end + 1
        }
        None => text.len(),
    };
    call.store(save, 8, start + next as u64)?;
    Ok(Flow::Return(start + first as u64))
}

fn error_text(call: &mut Call<'_, '_>) -> Done {
    let text = super::stdio::error_text(call.int(0));
    Ok(Flow::Return(call.machine.library_string(text.as_bytes())))
}

fn character(call: &mut Call<'_, '_>) -> Done {
    let is_class = call.name.starts_with("is");
    match (u8::try_from(call.int(0)), of_byte(call.name)) {
        (Ok(byte), Some(map)) => int(i32::from(map(byte))),
        _ => int(if is_class { 0 } else { call.int(0) }),
    }
}
