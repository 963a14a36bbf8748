//! `scanf` and its relatives.

use super::arithmetic::parse;
use super::process::Arguments;
use super::{Call, Flow, int};
use crate::machine::{Stop, give_up};

/// Where the bytes come from; `None` at the end.
type Next<'a> = &'a mut dyn FnMut(&mut Call<'_, '_>) -> Result<Option<u8>, Stop>;

/// The text that is read, one byte ahead.
struct Text<'a> {
    next: Next<'a>,
    ahead: Option<u8>,
    read: u64,
}

impl Text<'_> {
    fn peek(&mut self, call: &mut Call<'_, '_>) -> Result<Option<u8>, Stop> {
        if self.ahead.is_none() {
            self.ahead = (self.next)(call)?;
        }
        Ok(self.ahead)
    }

    fn take(&mut self) {
        self.ahead = None;
        self.read += 1;
    }

    fn skip_space(&mut self, call: &mut Call<'_, '_>) -> Result<(), Stop> {
        while self.peek(call)?.is_some_and(is_space) {
            self.take();
        }
        Ok(())
    }

    /// The longest text, up to a width, whose bytes are accepted at their positions.
    fn collect(
        &mut self,
        call: &mut Call<'_, '_>,
        width: usize,
        accepts: impl Fn(&[u8], u8) -> bool,
    ) -> Result<Vec<u8>, Stop> {
        let mut found = Vec::new();
        while found.len() < width
            && let Some(byte) = self.peek(call)?
            && accepts(&found, byte)
        {
            found.push(byte);
            self.take();
        }
        Ok(found)
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 11
}

/// Whether a byte can follow the start of a number.
fn continues_number(found: &[u8], byte: u8, base: u32) -> bool {
    let digits = found.strip_prefix(b"-").or(found.strip_prefix(b"+"));
    let digits = digits.unwrap_or(found);
    match byte {
        b'-' | b'+' => found.is_empty(),
        b'x' | b'X' => digits == b"0" && (base == 0 || base == 16),
        _ => {
            let is_hexadecimal =
                base == 16 || (base == 0 && digits.len() > 1 && digits[1] | 32 == b'x');
            let base = if is_hexadecimal {
                16
            } else {
                base.max(if base == 8 { 8 } else { 10 })
            };
            char::from(byte).is_digit(base)
        }
    }
}

/// Scans by the format in argument `at`; how the call goes on, and a byte that was read but not used.
pub(super) fn scan(
    call: &mut Call<'_, '_>,
    at: usize,
    next: Next<'_>,
) -> Result<(Flow, Option<u8>), Stop> {
    let format = call.string(at)?;
    let mut arguments = Arguments::of_call(call, at + 1);
    let mut text = Text {
        next,
        ahead: None,
        read: 0,
    };
    let mut assigned = 0;
    let mut is_at_end = false;
    let mut rest = &format[..];
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if is_space(byte) {
            text.skip_space(call)?;
            continue;
        }
        if byte != b'%' || rest.first() == Some(&b'%') {
            if byte == b'%' {
                rest = &rest[1..];
                text.skip_space(call)?;
            }
            match text.peek(call)? {
                Some(found) if found == byte => text.take(),
                found => {
                    is_at_end = found.is_none();
                    break;
                }
            }
            continue;
        }
        let is_kept = rest.first() != Some(&b'*');
        rest = rest.strip_prefix(b"*").unwrap_or(rest);
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let width = match digits {
            0 => usize::MAX,
            _ => parse(&rest[..digits], 10).0 as usize,
        };
        rest = &rest[digits..];
        let mut bytes = 4;
        while let Some((&modifier, after)) = rest.split_first()
            && b"hlzjqtL".contains(&modifier)
        {
            bytes = match (modifier, bytes) {
                (b'h', 2) => 1,
                (b'h', _) => 2,
                _ => 8,
            };
            rest = after;
        }
        let Some((&conversion, after)) = rest.split_first() else {
            return give_up("a format that ends in a directive");
        };
        rest = after;
        if conversion == b'n' {
            let to = arguments.take(call)?;
            call.store(to, bytes, text.read)?;
            continue;
        }
        if !matches!(conversion, b'c' | b'[') {
            text.skip_space(call)?;
        }
        if text.peek(call)?.is_none() {
            is_at_end = true;
            break;
        }
        let base = match conversion {
            b'd' | b'u' => 10,
            b'x' | b'X' | b'p' => 16,
            b'o' => 8,
            _ => 0,
        };
        let (found, is_text) = match conversion {
            b'd' | b'u' | b'x' | b'X' | b'o' | b'i' => {
                let found = text.collect(call, width, |found, byte| {
                    continues_number(found, byte, base)
                })?;
                (found, false)
            }
            b's' => (text.collect(call, width, |_, byte| !is_space(byte))?, true),
            b'c' => {
                let width = if digits == 0 { 1 } else { width };
                let found = text.collect(call, width, |_, _| true)?;
                if found.len() < width {
                    is_at_end = true;
                    break;
                }
                if is_kept {
                    let to = arguments.take(call)?;
                    call.write(to, &found)?;
                    assigned += 1;
                }
                continue;
            }
            b'[' => {
                let is_negated = rest.first() == Some(&b'^');
                rest = rest.strip_prefix(b"^").unwrap_or(rest);
                let first = rest.first().copied().unwrap_or_default();
                let length = rest.iter().skip(1).position(|&byte| byte == b']');
                let Some(length) = length else {
                    return give_up("a format with a set that does not end");
                };
                let set = rest[..=length].to_vec();
                debug_assert_eq!(set.first(), Some(&first));
                rest = &rest[length + 2..];
                let is_member = |byte: u8| {
                    let is_single = set.contains(&byte);
                    let ranges = set.windows(3).filter(|window| window[1] == b'-');
                    is_single
                        || ranges
                            .into_iter()
                            .any(|range| (range[0]..=range[2]).contains(&byte))
                };
                let found = text.collect(call, width, |_, byte| is_member(byte) != is_negated)?;
                (found, true)
            }
            other => {
                return give_up(format!("scanf with the conversion {}", char::from(other)));
            }
        };
        let (number, used) = parse(&found, base);
        if found.is_empty() || (!is_text && used == 0) {
            break;
        }
        if !is_kept {
            continue;
        }
        let to = arguments.take(call)?;
        match is_text {
            true => call.write(to, &[&found[..], &[0]].concat())?,
            false => call.store(to, bytes, number as u64)?,
        }
        assigned += 1;
    }
    let result = match assigned == 0 && is_at_end {
        true => int(-1)?,
        false => int(assigned)?,
    };
    Ok((result, text.ahead))
}
