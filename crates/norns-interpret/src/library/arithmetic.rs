//! Numbers: conversions from text, random ones, and LLVM's functions on them.

use super::{Call, Done, Flow, Model, int};
use crate::machine::give_up;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "atoi" => |call| {
            let (value, _) = parse(&call.string(0)?, 10);
            int(value as i32)
        },
        "atol" | "atoll" => |call| {
            let (value, _) = parse(&call.string(0)?, 10);
            Ok(Flow::Return(value as u64))
        },
        "strtol" | "strtoll" | "strtoul" | "strtoull" | "__isoc23_strtol" | "__isoc23_strtoul"
        | "__isoc23_strtoll" | "__isoc23_strtoull" => to_number,
        "atof" => |call| {
            let text = call.string(0)?;
            Ok(Flow::Return(parse_float(&text).0.to_bits()))
        },
        "strtod" => to_float,
        "abs" => |call| int(call.int(0).wrapping_abs()),
        "labs" | "llabs" => |call| Ok(Flow::Return((call.argument(0) as i64).unsigned_abs())),
        "rand" | "random" => |call| {
            let value = draw(&mut call.machine.state.random);
            Ok(Flow::Return(value & 0x7fff_ffff))
        },
        "rand_r" => |call| {
            let mut state = call.load(call.argument(0), 4)?;
            let value = draw(&mut state) & 0x7fff_ffff;
            call.store(call.argument(0), 4, state)?;
            Ok(Flow::Return(value))
        },
        "srand" | "srandom" => |call| {
            call.machine.state.random = call.argument(0);
            Ok(Flow::Return(0))
        },
        "htonl" | "ntohl" => |call| Ok(Flow::Return((call.argument(0) as u32).swap_bytes().into())),
        "htons" | "ntohs" => |call| Ok(Flow::Return((call.argument(0) as u16).swap_bytes().into())),
        _ if name.starts_with("llvm.") => return intrinsic(name),
        _ => return mathematics(name),
    })
}

fn mathematics(name: &str) -> Option<Model> {
    macro_rules! unary {
        ($function:expr) => {
            |call| {
                let function: fn(f64) -> f64 = $function;
                Ok(Flow::Return(
                    function(f64::from_bits(call.argument(0))).to_bits(),
                ))
            }
        };
    }
    // Only functions whose result is exact or correctly rounded: others may differ in the last digit.
    Some(match name {
        "sqrt" => unary!(f64::sqrt),
        "fabs" => unary!(f64::abs),
        "floor" => unary!(f64::floor),
        "ceil" => unary!(f64::ceil),
        "trunc" => unary!(f64::trunc),
        "round" => unary!(f64::round),
        "fmod" => |call| {
            let (a, b) = (
                f64::from_bits(call.argument(0)),
                f64::from_bits(call.argument(1)),
            );
            Ok(Flow::Return((a % b).to_bits()))
        },
        _ => return None,
    })
}

/// LLVM's functions on integers and floating-point numbers, whose width is in the shape of an argument.
fn intrinsic(name: &str) -> Option<Model> {
    let name = name.strip_prefix("llvm.")?;
    if name.contains(".v") {
        return None;
    }
    let (name, _) = name.rsplit_once('.').unwrap_or((name, ""));
    macro_rules! unary {
        ($function:expr) => {
            |call| {
                let function: fn(u64, u32) -> u64 = $function;
                let bits = u32::from(call.shapes[0].bytes) * 8;
                Ok(Flow::Return(function(call.argument(0), bits)))
            }
        };
    }
    macro_rules! binary {
        ($function:expr) => {
            |call| {
                let function: fn(u64, u64, u32) -> u64 = $function;
                let bits = u32::from(call.shapes[0].bytes) * 8;
                Ok(Flow::Return(function(
                    call.argument(0),
                    call.argument(1),
                    bits,
                )))
            }
        };
    }
    macro_rules! overflow {
        ($function:expr) => {
            |call| {
                let function: fn(i128, i128) -> i128 = $function;
                let bits = u32::from(call.shapes[0].bytes) * 8;
                let is_signed = call.name.starts_with("llvm.s");
                let extend = |value: u64| match is_signed {
                    true => i128::from(signed(value, bits)),
                    false => i128::from(value),
                };
                let exact = function(extend(call.argument(0)), extend(call.argument(1)));
                let value = mask(exact as u64, bits);
                Ok(Flow::Two(value, u64::from(exact != extend(value))))
            }
        };
    }
    macro_rules! float {
        ($function:expr) => {
            |call| {
                let function: fn(f64) -> f64 = $function;
                Ok(Flow::Return(match call.shapes[0].bytes {
                    8 => function(f64::from_bits(call.argument(0))).to_bits(),
                    _ => {
                        let value = f32::from_bits(call.argument(0) as u32);
                        (function(value.into()) as f32).to_bits().into()
                    }
                }))
            }
        };
    }
    Some(match name {
        "ctpop" => unary!(|value, _| value.count_ones().into()),
        "ctlz" => unary!(|value, bits| u64::from(value.leading_zeros() - (64 - bits))),
        "cttz" => unary!(|value, bits| value.trailing_zeros().min(bits).into()),
        "bswap" => unary!(|value, bits| value.swap_bytes() >> (64 - bits)),
        "abs" => unary!(|value, bits| mask(signed(value, bits).unsigned_abs(), bits)),
        "umin" => binary!(|a, b, _| a.min(b)),
        "umax" => binary!(|a, b, _| a.max(b)),
        "smin" => binary!(|a, b, bits| mask(signed(a, bits).min(signed(b, bits)) as u64, bits)),
        "smax" => binary!(|a, b, bits| mask(signed(a, bits).max(signed(b, bits)) as u64, bits)),
        "sadd.with.overflow" | "uadd.with.overflow" => overflow!(|a, b| a + b),
        "ssub.with.overflow" | "usub.with.overflow" => overflow!(|a, b| a - b),
        "smul.with.overflow" | "umul.with.overflow" => overflow!(i128::wrapping_mul),
        "fabs" => float!(f64::abs),
        "sqrt" => float!(f64::sqrt),
        "floor" => float!(f64::floor),
        "ceil" => float!(f64::ceil),
        "trunc" => float!(f64::trunc),
        "fmuladd" => |call| {
            let double = |index| f64::from_bits(call.argument(index));
            if call.shapes[0].bytes != 8 {
                let single = |index| f32::from_bits(call.argument(index) as u32);
                return Ok(Flow::Return(
                    (single(0) * single(1) + single(2)).to_bits().into(),
                ));
            }
            Ok(Flow::Return((double(0) * double(1) + double(2)).to_bits()))
        },
        _ => return None,
    })
}

fn mask(value: u64, bits: u32) -> u64 {
    value & (u64::MAX >> (64 - bits))
}

fn signed(value: u64, bits: u32) -> i64 {
    ((value << (64 - bits)) as i64) >> (64 - bits)
}

/// Its numbers are not those of the C library, which no standard fixes.
fn draw(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A number at the start of a text, and how many bytes it takes.
pub(super) fn parse(text: &[u8], base: u32) -> (i128, usize) {
    let mut at = text
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace() || **byte == 11)
        .count();
    let is_negative = text.get(at) == Some(&b'-');
    if matches!(text.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    let is_hexadecimal = text.get(at) == Some(&b'0')
        && matches!(text.get(at + 1), Some(b'x' | b'X'))
        && text.get(at + 2).is_some_and(u8::is_ascii_hexdigit);
    let base = match base {
        0 if is_hexadecimal => 16,
        0 if text.get(at) == Some(&b'0') => 8,
        0 => 10,
        given => given,
    };
    if base == 16 && is_hexadecimal {
        at += 2;
    }
    let start = at;
    let mut value = 0_i128;
    while let Some(digit) = text
        .get(at)
        .and_then(|&byte| char::from(byte).to_digit(base))
    {
        value = value
            .saturating_mul(i128::from(base))
            .saturating_add(i128::from(digit));
        at += 1;
    }
    if at == start {
        return (0, 0);
    }
    (if is_negative { -value } else { value }, at)
}

fn to_number(call: &mut Call<'_, '_>) -> Done {
    let text = call.string(0)?;
    let (value, length) = parse(&text, call.argument(2) as u32);
    if call.argument(1) != 0 {
        call.store(call.argument(1), 8, call.argument(0) + length as u64)?;
    }
    let is_unsigned = call.name.contains("toul") || call.name.contains("toull");
    let (low, high) = match is_unsigned {
        true => (-i128::from(u64::MAX), i128::from(u64::MAX)),
        false => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    if !(low..=high).contains(&value) {
        call.set_errno(34)?;
    }
    Ok(Flow::Return(match is_unsigned && value < low {
        true => u64::MAX,
        false => value.clamp(low, high) as u64,
    }))
}

fn parse_float(text: &[u8]) -> (f64, usize) {
    let text = String::from_utf8_lossy(text);
    let start = text.len() - text.trim_start().len();
    let digits = text[start..].find(|letter: char| !"+-.0123456789eE".contains(letter));
    let mut end = digits.map_or(text.len(), |length| start + length);
    while end > start {
        if let Ok(value) = text[start..end].parse() {
            return (value, end);
        }
        end -= 1;
    }
    (0.0, 0)
}

fn to_float(call: &mut Call<'_, '_>) -> Done {
    let text = call.string(0)?;
    let lower = text.to_ascii_lowercase();
    if lower.starts_with(b"0x") || lower.starts_with(b"inf") || lower.starts_with(b"nan") {
        return give_up("strtod of a hexadecimal or special number");
    }
    let (value, length) = parse_float(&text);
    if call.argument(1) != 0 {
        call.store(call.argument(1), 8, call.argument(0) + length as u64)?;
    }
    Ok(Flow::Return(value.to_bits()))
}
