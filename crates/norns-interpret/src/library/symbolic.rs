//! What functions of the library do with bytes that depend on the input, beside what their models do.
//!
//! Followed are reading, comparing, searching, copying and measuring of strings, numbers and characters, and
//! what is printed. Any other function gets and returns constants, which is noted by its name.

use super::strings::of_byte;
use super::{Call, Flow};
use crate::files::Open;
use crate::outcome::Channel;
use crate::symbolic::{Expression, Expressions, Operator, Part, Sent, Source, Symbolic};

/// What is known before a call.
pub(crate) struct Before {
    arguments: Vec<Option<Expression>>,
    /// The descriptor that is read from, with what it reads and from where.
    reading: Option<(usize, Source, usize)>,
    /// The length of the first string.
    length: u64,
}

impl Before {
    /// `None` if the run has no variables.
    pub(crate) fn of(call: &Call<'_, '_>, arguments: &[Option<Expression>]) -> Option<Self> {
        call.machine.symbolic.as_ref()?;
        let reading = match call.name {
            "read" => Some(call.int(0) as usize),
            "fgets" | "fread" => descriptor(call, if call.name == "fgets" { 2 } else { 3 }),
            "getline" => descriptor(call, 2),
            "fgetc" | "getc" => descriptor(call, 0),
            "getchar" => Some(0),
            _ => None,
        };
        let reading = reading.and_then(|number| {
            let (source, position) = position(call, number)?;
            Some((number, source, position))
        });
        let length = match call.name {
            "strcat" | "strncat" | "__strcat_chk" => {
                let text = call.machine.state.memory.string(call.argument(0));
                text.map_or(0, |text| text.len() as u64)
            }
            _ => 0,
        };
        Some(Self {
            arguments: arguments.to_vec(),
            reading,
            length,
        })
    }

    /// What the result is as a function of the input, after the call.
    pub(crate) fn follow(mut self, call: &mut Call<'_, '_>, flow: &Flow) -> Option<Expression> {
        let result = match flow {
            Flow::Return(value) | Flow::Yield(value) => *value,
            // The call is executed again, or goes on elsewhere.
            Flow::Two(..) | Flow::Wait(..) | Flow::Elsewhere | Flow::Ended => {
                if matches!(call.name, "exit" | "_exit") {
                    call.machine
                        .follow_status(self.arguments.first().copied().flatten());
                }
                return None;
            }
        };
        if let Some((descriptor, source, from)) = self.reading.take() {
            return read(call, descriptor, &source, from, result);
        }
        let [first, second] = [call.argument(0), call.argument(1)];
        match call.name {
            "strlen" => walk(call, first, u64::MAX),
            "strnlen" => walk(call, first, second),
            "strcmp" => return compare(call, u64::MAX, true),
            "strncmp" => return compare(call, call.argument(2), true),
            "memcmp" | "bcmp" => return compare(call, call.argument(2), false),
            "strchr" | "index" => search(call, result, None),
            "memchr" => search(call, result, Some(call.argument(2))),
            "strcpy" | "stpcpy" | "__strcpy_chk" => copy(call, first, second, u64::MAX),
            "strncpy" | "__strncpy_chk" => copy(call, first, second, call.argument(2)),
            "strcat" | "__strcat_chk" => copy(call, first + self.length, second, u64::MAX),
            "strncat" => copy(call, first + self.length, second, call.argument(2)),
            "strdup" | "__strdup" => copy(call, result, first, u64::MAX),
            "strndup" => copy(call, result, first, second),
            "atoi" => {
                let number = number(call, first, None)?;
                return with(call, |all| all.narrow(32, number));
            }
            "atol" | "atoll" => return number(call, first, None),
            "strtol" | "strtoll" | "strtoul" | "strtoull" | "__isoc23_strtol"
            | "__isoc23_strtoul" | "__isoc23_strtoll" | "__isoc23_strtoull" => {
                let base = call.int(2);
                if base == 10 || base == 0 {
                    let end = if second == 0 {
                        None
                    } else {
                        call.load(second, 8).ok()
                    };
                    return number(call, first, end);
                }
                self.pin(call);
            }
            name if of_byte(name).is_some() => {
                let argument = self.arguments.first().copied().flatten()?;
                return character(call, argument);
            }
            "abs" => {
                let argument = self.arguments.first().copied().flatten()?;
                return with(call, |all| {
                    let zero = all.constant(0);
                    let extended = all.sign_extend(32, argument);
                    let is_negative = all.binary(Operator::SignedLess, extended, zero);
                    let negated = all.binary(Operator::Subtract, zero, argument);
                    let negated = all.narrow(32, negated);
                    all.choose(is_negative, negated, argument)
                });
            }
            "printf" | "fprintf" | "puts" | "fputs" | "putchar" | "fputc" | "putc" | "write"
            | "fwrite" | "dprintf" | "__printf_chk" | "__fprintf_chk" | "perror" => {
                self.send(call);
            }
            _ => self.pin(call),
        }
        None
    }

    /// Notes what is printed.
    fn send(&mut self, call: &mut Call<'_, '_>) {
        let to = channel(call);
        let mut values = Vec::new();
        for (at, &argument) in call.arguments.iter().enumerate() {
            match self.arguments.get(at).copied().flatten() {
                Some(expression) => values.push(expression),
                None => values.extend(bytes_at(call, argument)),
            }
        }
        if let Some(symbolic) = &mut call.machine.symbolic
            && !values.is_empty()
        {
            symbolic.path.sent.push(Sent { to, values });
        }
    }

    /// The function takes the arguments as constants.
    fn pin(&mut self, call: &mut Call<'_, '_>) {
        let arguments = std::mem::take(&mut self.arguments);
        let known = arguments.iter().zip(call.arguments.clone());
        let mut has_pinned = false;
        for (expression, value) in known {
            if let Some(expression) = expression {
                call.machine.note_value(*expression, value, false);
                has_pinned = true;
            }
        }
        const COPIES: [&str; 6] = [
            "memcpy", "memmove", "realloc", "free", "llvm.mem", "pthread_",
        ];
        let reads = !COPIES.iter().any(|known| call.name.starts_with(known))
            && (call.arguments.clone().into_iter()).any(|one| !bytes_at(call, one).is_empty());
        if (has_pinned || reads)
            && let Some(symbolic) = &mut call.machine.symbolic
        {
            symbolic
                .path
                .concretised
                .insert(format!("the function {}", call.name));
        }
    }
}

/// Computes with the expressions of the run.
fn with<T>(call: &mut Call<'_, '_>, compute: impl FnOnce(&mut Expressions) -> T) -> Option<T> {
    let symbolic: &mut Symbolic = call.machine.symbolic.as_mut()?;
    Some(compute(&mut symbolic.path.expressions))
}

/// The descriptor of the stream in an argument.
fn descriptor(call: &Call<'_, '_>, argument: usize) -> Option<usize> {
    let number = call.load(call.argument(argument), 8).ok()? as usize;
    let stream = call.machine.state.files.streams.get(number)?.as_ref()?;
    Some(stream.descriptor)
}

/// What a descriptor reads, and where it stands.
fn position(call: &Call<'_, '_>, descriptor: usize) -> Option<(Source, usize)> {
    let files = &call.machine.state.files;
    match files.open(descriptor)? {
        Open::Input => Some((Source::StandardInput, files.input_position)),
        Open::File { path, position, .. } => Some((Source::File(path.clone()), *position)),
        _ => None,
    }
}

fn channel(call: &Call<'_, '_>) -> Channel {
    let descriptor = match call.name {
        "printf" | "puts" | "putchar" | "__printf_chk" => Some(1),
        "perror" => Some(2),
        "write" | "dprintf" => Some(call.int(0) as usize),
        "fputs" | "fputc" | "putc" => descriptor(call, 1),
        "fwrite" => descriptor(call, 3),
        _ => descriptor(call, 0),
    };
    let files = &call.machine.state.files;
    let open = descriptor.and_then(|number| files.open(number));
    match open {
        Some(Open::Error) => Channel::Error,
        Some(Open::File { path, .. }) => Channel::File(path.clone()),
        _ => Channel::Output,
    }
}

/// The bytes of a string that depend on the input, if an argument is its address.
fn bytes_at(call: &Call<'_, '_>, address: u64) -> Vec<Expression> {
    let memory = &call.machine.state.memory;
    let length = match memory.string(address) {
        Ok(text) => text.len() as u64,
        Err(_) => memory.size_at(address).unwrap_or_default(),
    };
    let parts = memory.shadow_of(address, length.min(4096));
    parts.into_iter().map(|(_, part)| part.whole).collect()
}

/// A byte that was read, and its value.
fn byte(call: &mut Call<'_, '_>, address: u64) -> Option<(Option<Expression>, u8)> {
    let value = call.load(address, 1).ok()? as u8;
    Some((call.machine.loaded(address, 1), value))
}

fn read(
    call: &mut Call<'_, '_>,
    descriptor: usize,
    source: &Source,
    from: usize,
    result: u64,
) -> Option<Expression> {
    let (_, to) = position(call, descriptor)?;
    let count = to.saturating_sub(from) as u64;
    match call.name {
        "fgetc" | "getc" | "getchar" => {
            let symbolic = call.machine.symbolic.as_mut()?;
            let (first, length) = symbolic.marks.find(source)?;
            let is_variable = count == 1 && from < length as usize;
            return is_variable.then(|| symbolic.path.expressions.input(first + from as u32));
        }
        "getline" => {
            let buffer = call.load(call.argument(0), 8).ok()?;
            call.machine.put_input(buffer, source, from as u64, count);
            line_ends(call, buffer, count);
        }
        name => {
            let buffer = call.argument(usize::from(name == "read"));
            call.machine.put_input(buffer, source, from as u64, count);
            if name == "fgets" && result != 0 {
                line_ends(call, buffer, count);
            }
        }
    }
    None
}

/// A line ends at its first line feed.
fn line_ends(call: &mut Call<'_, '_>, buffer: u64, count: u64) {
    for at in 0..count {
        equals(call, buffer + at, b'\n');
    }
}

/// Notes whether a byte of memory equals a constant, which it does not have to depend on the input for.
fn equals(call: &mut Call<'_, '_>, address: u64, wanted: u8) {
    let Some((Some(expression), value)) = byte(call, address) else {
        return;
    };
    let equal = with(call, |all| {
        let wanted = all.constant(wanted.into());
        all.binary(Operator::Equal, expression, wanted)
    });
    if let Some(equal) = equal {
        call.machine.note_condition(equal, value == wanted, true);
    }
}

/// The bytes of a string are not zero, and its end is.
fn walk(call: &mut Call<'_, '_>, start: u64, limit: u64) {
    for at in 0..limit {
        equals(call, start + at, 0);
        match call.load(start + at, 1) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// The result of a comparison is the difference of the first bytes that differ.
fn compare(call: &mut Call<'_, '_>, limit: u64, ends_at_zero: bool) -> Option<Expression> {
    let (left, right) = (call.argument(0), call.argument(1));
    for at in 0..limit {
        let (a, a_value) = byte(call, left + at)?;
        let (b, b_value) = byte(call, right + at)?;
        if a.is_some() || b.is_some() {
            let (equal, difference) = with(call, |all| {
                let a = a.unwrap_or_else(|| all.constant(a_value.into()));
                let b = b.unwrap_or_else(|| all.constant(b_value.into()));
                let difference = all.binary(Operator::Subtract, a, b);
                (
                    all.binary(Operator::Equal, a, b),
                    all.narrow(32, difference),
                )
            })?;
            call.machine.note_condition(equal, a_value == b_value, true);
            if a_value != b_value {
                return Some(difference);
            }
        }
        if a_value != b_value {
            return None;
        }
        if ends_at_zero {
            equals(call, left + at, 0);
            if a_value == 0 {
                return None;
            }
        }
    }
    None
}

/// No byte before the one that was found is the wanted one; without a limit, none is zero either.
fn search(call: &mut Call<'_, '_>, found: u64, limit: Option<u64>) {
    let (start, wanted) = (call.argument(0), call.argument(1) as u8);
    for at in start..start.saturating_add(limit.unwrap_or(u64::from(u32::MAX))) {
        equals(call, at, wanted);
        if at == found {
            return;
        }
        if limit.is_none() {
            equals(call, at, 0);
            match call.load(at, 1) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

fn copy(call: &mut Call<'_, '_>, to: u64, from: u64, limit: u64) {
    walk(call, from, limit);
    let length = match call.machine.state.memory.string(from) {
        Ok(text) => (text.len() as u64 + 1).min(limit),
        Err(_) => return,
    };
    let parts: Vec<(u64, Part)> = call.machine.state.memory.shadow_of(from, length);
    call.machine.state.memory.put_shadow(to, length, &parts);
}

/// A decimal number: each of its bytes is a digit, and the one behind it is none. `end`: where it ends.
fn number(call: &mut Call<'_, '_>, start: u64, end: Option<u64>) -> Option<Expression> {
    let mut at = start;
    while let Ok(b' ' | b'\t'..=b'\r') = call.load(at, 1).map(|byte| byte as u8) {
        let (expression, _) = byte(call, at)?;
        if let Some(expression) = expression {
            let value = call.load(at, 1).ok()?;
            call.machine.note_value(expression, value, true);
        }
        at += 1;
    }
    let (sign, value) = byte(call, at)?;
    let is_negative = value == b'-';
    if sign.is_some() {
        equals(call, at, b'-');
    }
    if is_negative || value == b'+' {
        at += 1;
    }
    let mut result = with(call, |all| all.constant(0))?;
    let mut is_variable = sign.is_some();
    for _ in 0..20 {
        let (expression, value) = byte(call, at)?;
        let digit = with(call, |all| {
            let byte = expression.unwrap_or_else(|| all.constant(value.into()));
            let zero = all.constant(b'0'.into());
            let digit = all.binary(Operator::Subtract, byte, zero);
            let nine = all.constant(9);
            let is_digit = all.binary(Operator::UnsignedLessOrEqual, digit, nine);
            (digit, is_digit)
        })?;
        if expression.is_some() {
            is_variable = true;
            call.machine
                .note_condition(digit.1, value.is_ascii_digit(), true);
        }
        if !value.is_ascii_digit() || end == Some(at) {
            break;
        }
        result = with(call, |all| {
            let ten = all.constant(10);
            let shifted = all.binary(Operator::Multiply, result, ten);
            all.binary(Operator::Add, shifted, digit.0)
        })?;
        at += 1;
    }
    if is_negative {
        result = with(call, |all| {
            let zero = all.constant(0);
            all.binary(Operator::Subtract, zero, result)
        })?;
    }
    is_variable.then_some(result)
}

/// A function of one character, as the ranges of bytes in which it changes nothing or adds the same.
fn character(call: &mut Call<'_, '_>, argument: Expression) -> Option<Expression> {
    let map = of_byte(call.name)?;
    let is_class = call.name.starts_with("is");
    with(call, |all| {
        let outside = all.constant(0);
        let mut result = if is_class { outside } else { argument };
        let mut start = 0_u32;
        while start < 256 {
            let change = |byte: u32| match is_class {
                true => u64::from(map(byte as u8)),
                false => u64::from(map(byte as u8)).wrapping_sub(u64::from(byte)),
            };
            let of_range = change(start);
            let end = (start..256)
                .find(|&byte| change(byte) != of_range)
                .unwrap_or(256);
            if of_range != 0 {
                let (low, high) = (all.constant(start.into()), all.constant((end - 1).into()));
                let above = all.binary(Operator::UnsignedLessOrEqual, low, argument);
                let below = all.binary(Operator::UnsignedLessOrEqual, argument, high);
                let inside = all.binary(Operator::And, above, below);
                let changed = all.constant(of_range);
                let changed = match is_class {
                    true => changed,
                    false => all.binary(Operator::Add, argument, changed),
                };
                result = all.choose(inside, changed, result);
            }
            start = end;
        }
        result
    })
}
