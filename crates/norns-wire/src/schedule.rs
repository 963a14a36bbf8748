//! Schedules: the sequence of scheduling points that a replay enforces, as a file.
//!
//! A line is a record; fields are separated by one space; numbers are decimal, addresses and
//! program counters hexadecimal without prefix. A reader refuses what it does not understand.
//!
//! ```text
//! norns-schedule 1
//! thread T0.1                               threads are numbered from 0 in the order of these lines
//! point THREAD CODE OBJECT PC EVENT         a synchronisation operation; CODE is a byte of `Code`
//! atomic THREAD KIND ADDRESS PC EVENT       KIND as in `atomic_detail`
//! access THREAD r|w ADDRESS SIZE PC EVENT   a plain access that other threads have to wait for
//! hold THREAD POINTS r|w ADDRESS SIZE PC EVENT   stop the thread before this access, which follows
//!                                           its first POINTS points
//! hunt PC                                   a thread that comes here lingers until another one
//!                                           comes to a conflicting access
//! module START END PATH                     where a file of the program lay in the recorded process: if it
//!                                           lies elsewhere now, so do the addresses in it
//! pace NANOSECONDS                          how long the recorded run took: who waits for a thread
//!                                           that sleeps or polls gives up after a time of this order
//! events                                    only custom events wait for their turn; whatever else a
//!                                           thread does runs free
//! ```
//!
//! OBJECT of `Fork` and `Join` is the number of the other thread. An OBJECT or ADDRESS of 0 in a
//! point or atomic matches any: it is memory that can lie elsewhere in another run. EVENT is the
//! position in the trace that the schedule was made from; messages name it.

use core::fmt;

use crate::fields::Fields;

pub const HEADER: &str = "norns-schedule 1";

/// One record of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    Thread(&'a str),
    Step(Step),
    Hold(Hold),
    /// A program counter.
    Hunt(u64),
    /// Where the program, or a library, lay in the recorded process.
    Module {
        start: u64,
        end: u64,
        path: &'a str,
    },
    /// The duration of the recorded run in nanoseconds.
    Pace(u64),
    EventsOnly,
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
    /// A byte of `Code`.
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

impl<'a> Record<'a> {
    /// Writes the record as one line, without its line end.
    pub fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match *self {
            Record::Thread(name) => write!(out, "thread {name}"),
            Record::Step(Step {
                thread,
                what,
                address,
                pc,
                event,
            }) => match what {
                What::Point(code) => {
                    write!(out, "point {thread} {code} {address:x} {pc:x} {event}")
                }
                What::Atomic(kind) => {
                    write!(out, "atomic {thread} {kind} {address:x} {pc:x} {event}")
                }
                What::Access { size, write } => {
                    let mode = mode(write);
                    write!(
                        out,
                        "access {thread} {mode} {address:x} {size} {pc:x} {event}"
                    )
                }
            },
            Record::Hold(Hold {
                thread,
                points,
                write,
                address,
                size,
                pc,
                event,
            }) => {
                let mode = mode(write);
                write!(
                    out,
                    "hold {thread} {points} {mode} {address:x} {size} {pc:x} {event}"
                )
            }
            Record::Hunt(pc) => write!(out, "hunt {pc:x}"),
            Record::Module { start, end, path } => write!(out, "module {start:x} {end:x} {path}"),
            Record::Pace(nanoseconds) => write!(out, "pace {nanoseconds}"),
            Record::EventsOnly => write!(out, "events"),
        }
    }

    /// Reads one line.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut fields = Fields::of(line);
        let tag = fields.word()?;
        let record = match tag {
            "thread" => Record::Thread(fields.word()?),
            "point" | "atomic" => {
                let thread = fields.number()?;
                let code = fields.number()?;
                Record::Step(Step {
                    thread,
                    what: if tag == "point" {
                        What::Point(code)
                    } else {
                        What::Atomic(code)
                    },
                    address: fields.hexadecimal()?,
                    pc: fields.hexadecimal()?,
                    event: fields.number()?,
                })
            }
            "access" => {
                let thread = fields.number()?;
                let write = is_write(fields.word()?)?;
                let address = fields.hexadecimal()?;
                let size = fields.number()?;
                Record::Step(Step {
                    thread,
                    what: What::Access { size, write },
                    address,
                    pc: fields.hexadecimal()?,
                    event: fields.number()?,
                })
            }
            "hold" => Record::Hold(Hold {
                thread: fields.number()?,
                points: fields.number()?,
                write: is_write(fields.word()?)?,
                address: fields.hexadecimal()?,
                size: fields.number()?,
                pc: fields.hexadecimal()?,
                event: fields.number()?,
            }),
            "hunt" => Record::Hunt(fields.hexadecimal()?),
            "module" => {
                return Some(Record::Module {
                    start: fields.hexadecimal()?,
                    end: fields.hexadecimal()?,
                    path: fields.rest()?,
                });
            }
            "pace" => Record::Pace(fields.number()?),
            "events" => Record::EventsOnly,
            _ => return None,
        };
        fields.end(record)
    }
}

fn mode(write: bool) -> char {
    if write { 'w' } else { 'r' }
}

fn is_write(mode: &str) -> Option<bool> {
    match mode {
        "r" => Some(false),
        "w" => Some(true),
        _ => None,
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
        take(Record::parse(line).ok_or(BadLine(number))?);
    }
    if number == 0 { Err(BadLine(1)) } else { Ok(()) }
}
