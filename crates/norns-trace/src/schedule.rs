//! Schedules: the sequence of scheduling points that a replay enforces, as a file.
//!
//! Only `core` is used, nothing is allocated and nothing panics: the runtime includes this very
//! file. A line is a record; fields are separated by one space; numbers are decimal, addresses
//! hexadecimal without prefix. A reader refuses what it does not understand.
//!
//! ```text
//! norns-schedule 1
//! thread T0.1                               threads are numbered from 0 in the order of these lines
//! point THREAD CODE OBJECT PC EVENT         a synchronisation operation; CODE as in `wire::Code`
//! atomic THREAD KIND ADDRESS PC EVENT       KIND as in `wire::atomic_detail`
//! access THREAD r|w ADDRESS SIZE PC EVENT   a plain access that others must wait for
//! hold THREAD POINTS r|w ADDRESS SIZE PC EVENT   stop the thread before this access, which follows
//!                                           its first POINTS points
//! hunt PC                                   any thread that comes here lingers, for another to
//!                                           come into its way
//! ```
//!
//! OBJECT of `Fork` and `Join` is the number of the other thread. An OBJECT or ADDRESS of 0 in a
//! point or atomic is any: memory that can lie elsewhere in another run. EVENT is the position in the
//! trace that the schedule was made from; messages name it.

use core::fmt;

pub const HEADER: &str = "norns-schedule 1";

/// One record of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    Thread(&'a str),
    Step(Step),
    Hold(Hold),
    /// A program counter.
    Hunt(u64),
}

/// One thing that a thread may do only when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub thread: u32,
    pub what: What,
    pub address: u64,
    pub pc: u64,
    pub event: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A code of `wire::Code`.
    Point(u8),
    /// 0 load, 1 store, 2 read-modify-write, 3 failed exchange.
    Atomic(u8),
    Access {
        size: u32,
        write: bool,
    },
}

/// An access of a predicted race: its thread stops just before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub thread: u32,
    pub points: u32,
    pub write: bool,
    pub address: u64,
    pub size: u32,
    pub pc: u64,
    pub event: u32,
}

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn mode(write: bool) -> char {
            if write { 'w' } else { 'r' }
        }
        match self {
            Record::Thread(name) => write!(f, "thread {name}"),
            Record::Step(step) => {
                let Step {
                    thread,
                    address,
                    pc,
                    event,
                    ..
                } = step;
                match step.what {
                    What::Point(code) => {
                        write!(f, "point {thread} {code} {address:x} {pc:x} {event}")
                    }
                    What::Atomic(kind) => {
                        write!(f, "atomic {thread} {kind} {address:x} {pc:x} {event}")
                    }
                    What::Access { size, write } => {
                        let mode = mode(write);
                        write!(
                            f,
                            "access {thread} {mode} {address:x} {size} {pc:x} {event}"
                        )
                    }
                }
            }
            Record::Hunt(pc) => write!(f, "hunt {pc:x}"),
            Record::Hold(hold) => write!(
                f,
                "hold {} {} {} {:x} {} {:x} {}",
                hold.thread,
                hold.points,
                mode(hold.write),
                hold.address,
                hold.size,
                hold.pc,
                hold.event
            ),
        }
    }
}

/// Which line of a schedule is not understood, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine(pub usize);

/// Reads a schedule and hands its records to `take` in file order.
pub fn parse<'a>(text: &'a [u8], mut take: impl FnMut(Record<'a>)) -> Result<(), BadLine> {
    let mut rest = text;
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        let (line, tail) = rest.split_at(end);
        rest = tail.split_first().map_or(tail, |(_, tail)| tail);
        let line = core::str::from_utf8(line).map_err(|_| BadLine(number))?;
        if number == 1 {
            if line != HEADER {
                return Err(BadLine(1));
            }
            continue;
        }
        take(parse_line(line).ok_or(BadLine(number))?);
    }
    if number == 0 { Err(BadLine(1)) } else { Ok(()) }
}

fn parse_line(line: &str) -> Option<Record<'_>> {
    let mut fields = line.split(' ');
    let tag = fields.next()?;
    let mut next = || fields.next();
    let record = match tag {
        "thread" => Record::Thread(next()?),
        "point" | "atomic" => {
            let thread = next()?.parse().ok()?;
            let code = next()?.parse().ok()?;
            Record::Step(Step {
                thread,
                what: if tag == "point" {
                    What::Point(code)
                } else {
                    What::Atomic(code)
                },
                address: hexadecimal(next()?)?,
                pc: hexadecimal(next()?)?,
                event: next()?.parse().ok()?,
            })
        }
        "access" => {
            let thread = next()?.parse().ok()?;
            let write = mode(next()?)?;
            let address = hexadecimal(next()?)?;
            let size = next()?.parse().ok()?;
            Record::Step(Step {
                thread,
                what: What::Access { size, write },
                address,
                pc: hexadecimal(next()?)?,
                event: next()?.parse().ok()?,
            })
        }
        "hunt" => Record::Hunt(hexadecimal(next()?)?),
        "hold" => Record::Hold(Hold {
            thread: next()?.parse().ok()?,
            points: next()?.parse().ok()?,
            write: mode(next()?)?,
            address: hexadecimal(next()?)?,
            size: next()?.parse().ok()?,
            pc: hexadecimal(next()?)?,
            event: next()?.parse().ok()?,
        }),
        _ => return None,
    };
    fields.next().is_none().then_some(record)
}

fn mode(field: &str) -> Option<bool> {
    match field {
        "r" => Some(false),
        "w" => Some(true),
        _ => None,
    }
}

fn hexadecimal(field: &str) -> Option<u64> {
    u64::from_str_radix(field, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    const SCHEDULE: &str = "norns-schedule 1
thread T0
thread T0.1
point 0 13 1 555555555200 0
point 1 11 0 0 1
atomic 1 2 555555558010 555555555234 2
access 0 w 555555558014 4 555555555240 3
hold 1 2 r 555555558014 4 555555555250 5
hunt 555555555250
";

    #[test]
    fn what_is_written_is_read_back() {
        let mut records = Vec::new();
        parse(SCHEDULE.as_bytes(), |record| records.push(record)).expect("a good schedule");
        let mut text = format!("{HEADER}\n");
        records
            .iter()
            .for_each(|record| text.push_str(&format!("{record}\n")));
        assert_eq!(text, SCHEDULE);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (text, line) in [
            ("", 1),
            ("norns-schedule 2\n", 1),
            ("norns-schedule 1\npoint 0 13 1 5 0 7\n", 2),
            ("norns-schedule 1\nthread T0\nhold 0 x\n", 3),
            ("norns-schedule 1\nthread T0\n\n", 3),
        ] {
            let text = String::from(text);
            assert_eq!(parse(text.as_bytes(), |_| ()), Err(BadLine(line)), "{text}");
        }
    }
}
