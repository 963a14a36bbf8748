//! The formats of `printf`.

use super::Call;
use super::process::Arguments;
use crate::machine::{Stop, give_up};

#[derive(Default)]
struct Directive {
    is_left: bool,
    has_plus: bool,
    has_space: bool,
    is_alternate: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// The bytes of an integer.
    bytes: u32,
}

/// The text that a format and its arguments make.
pub(super) fn format(
    call: &mut Call<'_, '_>,
    format: &[u8],
    arguments: &mut Arguments,
) -> Result<Vec<u8>, Stop> {
    let mut out = Vec::new();
    let mut rest = format.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut directive = Directive {
            bytes: 4,
            ..Directive::default()
        };
        while let Some(flag) = rest.next_if(|flag| b"-+ #0'".contains(flag)) {
            match flag {
                b'-' => directive.is_left = true,
                b'+' => directive.has_plus = true,
                b' ' => directive.has_space = true,
                b'#' => directive.is_alternate = true,
                b'0' => directive.has_zeros = true,
                _ => return give_up("the flag ' of a format"),
            }
        }
        let mut number =
            |call: &mut Call<'_, '_>, arguments: &mut Arguments| -> Result<i64, Stop> {
                if rest.next_if_eq(&b'*').is_some() {
                    return Ok(i64::from(arguments.take(call)? as i32));
                }
                let mut value = 0;
                while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
                    value = value * 10 + i64::from(digit - b'0');
                }
                Ok(value.min(1 << 20))
            };
        let width = number(call, arguments)?;
        directive.is_left |= width < 0;
        directive.width = width.unsigned_abs() as usize;
        if rest.next_if_eq(&b'.').is_some() {
            let mut number =
                |call: &mut Call<'_, '_>, arguments: &mut Arguments| -> Result<i64, Stop> {
                    if rest.next_if_eq(&b'*').is_some() {
                        return Ok(i64::from(arguments.take(call)? as i32));
                    }
                    let mut value = 0;
                    while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
                        value = value * 10 + i64::from(digit - b'0');
                    }
                    Ok(value.min(1 << 20))
                };
            directive.precision = usize::try_from(number(call, arguments)?).ok();
        }
        while let Some(length) = rest.next_if(|length| b"hlqjzt".contains(length)) {
            directive.bytes = match (length, directive.bytes) {
                (b'h', 2) => 1,
                (b'h', _) => 2,
                _ => 8,
            };
        }
        let Some(conversion) = rest.next() else {
            return give_up("a format that ends in a directive");
        };
        convert(call, &directive, conversion, arguments, &mut out)?;
    }
    Ok(out)
}

fn convert(
    call: &mut Call<'_, '_>,
    directive: &Directive,
    conversion: u8,
    arguments: &mut Arguments,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    match conversion {
        b'%' => out.push(b'%'),
        b'd' | b'i' => {
            let shift = 64 - 8 * directive.bytes;
            let value = ((arguments.take(call)? << shift) as i64) >> shift;
            let sign = match value {
                ..0 => "-",
                _ if directive.has_plus => "+",
                _ if directive.has_space => " ",
                _ => "",
            };
            put_integer(out, directive, sign, value.unsigned_abs().to_string());
        }
        b'u' | b'x' | b'X' | b'o' => {
            let shift = 64 - 8 * directive.bytes;
            let value = arguments.take(call)? << shift >> shift;
            let (prefix, digits) = match conversion {
                b'x' => ("0x", format!("{value:x}")),
                b'X' => ("0X", format!("{value:X}")),
                b'o' => ("0", format!("{value:o}")),
                _ => ("", value.to_string()),
            };
            let prefix = if directive.is_alternate && value != 0 {
                prefix
            } else {
                ""
            };
            put_integer(out, directive, prefix, digits);
        }
        b'p' => {
            let value = arguments.take(call)?;
            let text = if value == 0 {
                "(nil)".to_owned()
            } else {
                format!("0x{value:x}")
            };
            pad(out, directive, text.as_bytes());
        }
        b'c' => {
            let byte = arguments.take(call)? as u8;
            pad(out, directive, &[byte]);
        }
        b's' => {
            let address = arguments.take(call)?;
            let text = match (address, directive.precision) {
                (0, _) => b"(null)".to_vec(),
                (_, None) => call.machine.state.memory.string(address)?.to_vec(),
                (_, Some(limit)) => {
                    let mut text = Vec::new();
                    while text.len() < limit {
                        match call.load(address + text.len() as u64, 1)? as u8 {
                            0 => break,
                            byte => text.push(byte),
                        }
                    }
                    text
                }
            };
            pad(out, directive, &text);
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' => {
            let value = f64::from_bits(arguments.take(call)?);
            put_float(out, directive, conversion, value);
        }
        b'm' => {
            let address = call.machine.errno();
            let error = call.load(address, 4)? as i32;
            pad(out, directive, super::stdio::error_text(error).as_bytes());
        }
        _ => {
            return give_up(format!(
                "the directive %{} of a format",
                char::from(conversion)
            ));
        }
    }
    Ok(())
}

fn pad(out: &mut Vec<u8>, directive: &Directive, text: &[u8]) {
    let missing = directive.width.saturating_sub(text.len());
    if directive.is_left {
        out.extend_from_slice(text);
    }
    out.extend(std::iter::repeat_n(b' ', missing));
    if !directive.is_left {
        out.extend_from_slice(text);
    }
}

fn put_integer(out: &mut Vec<u8>, directive: &Directive, prefix: &str, mut digits: String) {
    if directive.precision == Some(0) && digits == "0" {
        digits.clear();
    }
    let mut zeros = directive
        .precision
        .unwrap_or(1)
        .saturating_sub(digits.len());
    if directive.has_zeros && directive.precision.is_none() && !directive.is_left {
        zeros = directive.width.saturating_sub(prefix.len() + digits.len());
    }
    let text = format!("{prefix}{}{digits}", "0".repeat(zeros));
    pad(out, directive, text.as_bytes());
}

fn put_float(out: &mut Vec<u8>, directive: &Directive, conversion: u8, value: f64) {
    let sign = match value.is_sign_negative() {
        true => "-",
        false if directive.has_plus => "+",
        false if directive.has_space => " ",
        false => "",
    };
    let magnitude = value.abs();
    let precision = directive.precision.unwrap_or(6);
    let mut text = match conversion.to_ascii_lowercase() {
        _ if magnitude.is_nan() => "nan".to_owned(),
        _ if magnitude.is_infinite() => "inf".to_owned(),
        b'f' => format!("{magnitude:.precision$}"),
        b'e' => scientific(magnitude, precision),
        _ => general(magnitude, precision.max(1), directive.is_alternate),
    };
    if conversion.is_ascii_uppercase() {
        text.make_ascii_uppercase();
    }
    let mut zeros = 0;
    if directive.has_zeros && !directive.is_left && magnitude.is_finite() {
        zeros = directive.width.saturating_sub(sign.len() + text.len());
    }
    let text = format!("{sign}{}{text}", "0".repeat(zeros));
    pad(out, directive, text.as_bytes());
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn general(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let text = scientific(value, precision - 1);
    let exponent = text
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let exponent = exponent.unwrap_or_default();
    let trim = |text: &str| match keeps_zeros || !text.contains('.') {
        true => text.to_owned(),
        false => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{exponent}", trim(mantissa));
    }
    let digits = (precision as i32 - 1 - exponent).max(0) as usize;
    trim(&format!("{value:.digits$}"))
}
