//! A tracked run: what it is to watch, and what it saw. Both are files of lines.
//!
//! The plan (`environment::TRACK` names its file):
//!
//! ```text
//! norns-plan 2                              first in the file
//! most COUNT                                accesses after which a watchpoint is switched off
//! watch NUMBER global ADDRESS SIZE          a variable of the program
//! watch NUMBER allocated FROM TO NTH OFFSET SIZE
//!                                           part of the nth block whose allocation was called from there
//! site branch LINE FILE                     where a branch of this line leads to
//! site access LINE FILE                     accesses of this line, where there are no watchpoints
//! end                                       last in the file: a plan without it was cut
//! ```
//!
//! What the run saw (`environment::REPORT`):
//!
//! ```text
//! norns-observations 1                      first in the file
//! map TEXT                                  a line of /proc/self/maps
//! refused ERROR                             there are no watchpoints: the kernel's number
//! armed NUMBER ADDRESS                      a watchpoint was set
//! off NUMBER                                it was switched off after `most` accesses
//! thread ORDER THREAD CHILD ORDINAL PC      a thread created its next one
//! access ORDER THREAD PC ADDRESS SIZE VALUE a watchpoint was hit; VALUE was there after the access, or -
//! passed ORDER THREAD PC ACT ADDRESS SIZE VALUE
//!                                           an access (ACT: read or write) with a site, VALUE as above
//! branch ORDER THREAD PC                    a branch with a site led there
//! freed ORDER THREAD PC ADDRESS             a block with a watchpoint is freed
//! failed ORDER THREAD PC HOW ADDRESS DETAIL the program fails
//! ```
//!
//! Addresses of the plan are those of the program's file, all others those of the run; they are
//! hexadecimal. Threads are the runtime's numbers, 0 is main. Lines of different threads may stand in
//! another order than `ORDER`, by which the reader sorts them. A last line without line end is not read: a run that
//! is killed leaves such a file. An access has 1 to 8 bytes.
//! Sites are those of `norns-instrument`; the folder of their file does not count.

use core::fmt;

use crate::environment::Failing;
use crate::fields::{Fields, words};

pub const PLAN_HEADER: &str = "norns-plan 2";
pub const OBSERVATIONS_HEADER: &str = "norns-observations 1";

/// How many watchpoints a processor has.
pub const WATCHPOINTS: usize = 4;
/// The number of a thread that the runtime does not know.
pub const UNKNOWN_THREAD: u32 = u32::MAX;

/// How many sites a plan can name.
pub const SITES: usize = 512;
/// A plan is shorter than this.
pub const LONGEST_PLAN: usize = 64 * 1024;

/// A line of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned<'a> {
    Begin,
    Most(u32),
    /// Several lines may have the same number: whichever comes first is watched.
    Watch {
        number: u32,
        target: Target,
    },
    Site {
        of: SiteOf,
        line: u32,
        file: &'a str,
    },
    End,
}

words! {
    /// What the sites of a line look at.
    pub enum SiteOf {
        Branch = "branch",
        Access = "access",
    }
}

words! {
    /// What an access with a site does.
    pub enum Act {
        Read = "read",
        Write = "write",
    }
}

/// The name of a file without its folder.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Memory that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Global {
        address: u64,
        size: u32,
    },
    Allocated {
        /// The calls of the allocation return to addresses above `from`, up to `to`.
        from: u64,
        to: u64,
        /// Counted from 1.
        nth: u32,
        offset: u64,
        size: u32,
    },
}

impl<'a> Planned<'a> {
    pub fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Planned::Begin => writeln!(out, "{PLAN_HEADER}"),
            Planned::Most(count) => writeln!(out, "most {count}"),
            Planned::Watch { number, target } => match target {
                Target::Global { address, size } => {
                    writeln!(out, "watch {number} global {address:x} {size}")
                }
                Target::Allocated {
                    from,
                    to,
                    nth,
                    offset,
                    size,
                } => writeln!(
                    out,
                    "watch {number} allocated {from:x} {to:x} {nth} {offset:x} {size}"
                ),
            },
            Planned::Site { of, line, file } => writeln!(out, "site {} {line} {file}", of.word()),
            Planned::End => writeln!(out, "end"),
        }
    }

    /// A line without its end.
    pub fn parse(line: &'a str) -> Option<Self> {
        if line == PLAN_HEADER {
            return Some(Planned::Begin);
        }
        let mut fields = Fields::of(line);
        let planned = match fields.word()? {
            "most" => Planned::Most(fields.number()?),
            "watch" => Planned::Watch {
                number: fields.number()?,
                target: match fields.word()? {
                    "global" => Target::Global {
                        address: fields.hexadecimal()?,
                        size: fields.number()?,
                    },
                    "allocated" => Target::Allocated {
                        from: fields.hexadecimal()?,
                        to: fields.hexadecimal()?,
                        nth: fields.number()?,
                        offset: fields.hexadecimal()?,
                        size: fields.number()?,
                    },
                    _ => return None,
                },
            },
            "site" => Planned::Site {
                of: SiteOf::parse(fields.word()?)?,
                line: fields.number()?,
                file: fields.rest()?,
            },
            "end" => Planned::End,
            _ => return None,
        };
        fields.end(planned)
    }
}

/// A line of what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed<'a> {
    Begin,
    Map(&'a str),
    Refused {
        error: i32,
    },
    Armed {
        number: u32,
        address: u64,
    },
    Off {
        number: u32,
    },
    Thread {
        at: At,
        child: u32,
        ordinal: u32,
    },
    Access {
        at: At,
        address: u64,
        size: u32,
        /// `None` if the memory could not be read.
        value: Option<u64>,
    },
    /// An access that was seen by a site.
    Passed {
        at: At,
        act: Act,
        address: u64,
        size: u32,
        value: Option<u64>,
    },
    Branch {
        at: At,
    },
    Freed {
        at: At,
        address: u64,
    },
    Failed {
        at: At,
        how: Failing,
        address: u64,
        /// The number of the signal, the condition of an assertion, or nothing.
        detail: &'a str,
    },
}

/// When, by whom and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub order: u64,
    pub thread: u32,
    pub pc: u64,
}

impl At {
    fn parse(fields: &mut Fields) -> Option<Self> {
        Some(At {
            order: fields.number()?,
            thread: fields.number()?,
            pc: fields.hexadecimal()?,
        })
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {} {:x}", self.order, self.thread, self.pc)
    }
}

impl<'a> Observed<'a> {
    pub fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Observed::Begin => writeln!(out, "{OBSERVATIONS_HEADER}"),
            Observed::Map(text) => writeln!(out, "map {text}"),
            Observed::Refused { error } => writeln!(out, "refused {error}"),
            Observed::Armed { number, address } => writeln!(out, "armed {number} {address:x}"),
            Observed::Off { number } => writeln!(out, "off {number}"),
            Observed::Thread { at, child, ordinal } => writeln!(
                out,
                "thread {} {} {child} {ordinal} {:x}",
                at.order, at.thread, at.pc
            ),
            Observed::Access {
                at,
                address,
                size,
                value,
            } => {
                write!(out, "access {at} {address:x} {size} ")?;
                encode_value(*value, out)
            }
            Observed::Passed {
                at,
                act,
                address,
                size,
                value,
            } => {
                write!(out, "passed {at} {} {address:x} {size} ", act.word())?;
                encode_value(*value, out)
            }
            Observed::Branch { at } => writeln!(out, "branch {at}"),
            Observed::Freed { at, address } => writeln!(out, "freed {at} {address:x}"),
            Observed::Failed {
                at,
                how,
                address,
                detail,
            } => {
                write!(out, "failed {at} {} {address:x} ", how.word())?;
                // One line, whatever an assertion contains.
                for letter in detail.chars() {
                    out.write_char(if letter == '\n' { ' ' } else { letter })?;
                }
                out.write_char('\n')
            }
        }
    }

    /// A line without its end.
    pub fn parse(line: &'a str) -> Option<Self> {
        if line == OBSERVATIONS_HEADER {
            return Some(Observed::Begin);
        }
        let mut fields = Fields::of(line);
        let observed = match fields.word()? {
            "map" => Observed::Map(fields.rest()?),
            "refused" => Observed::Refused {
                error: fields.number()?,
            },
            "armed" => Observed::Armed {
                number: fields.number()?,
                address: fields.hexadecimal()?,
            },
            "off" => Observed::Off {
                number: fields.number()?,
            },
            "thread" => {
                let (order, thread) = (fields.number()?, fields.number()?);
                let (child, ordinal) = (fields.number()?, fields.number()?);
                let pc = fields.hexadecimal()?;
                let at = At { order, thread, pc };
                Observed::Thread { at, child, ordinal }
            }
            "access" => {
                let at = At::parse(&mut fields)?;
                let (address, size) = parse_memory(&mut fields)?;
                Observed::Access {
                    at,
                    address,
                    size,
                    value: parse_value(&mut fields)?,
                }
            }
            "passed" => {
                let at = At::parse(&mut fields)?;
                let act = Act::parse(fields.word()?)?;
                let (address, size) = parse_memory(&mut fields)?;
                Observed::Passed {
                    at,
                    act,
                    address,
                    size,
                    value: parse_value(&mut fields)?,
                }
            }
            "branch" => Observed::Branch {
                at: At::parse(&mut fields)?,
            },
            "freed" => Observed::Freed {
                at: At::parse(&mut fields)?,
                address: fields.hexadecimal()?,
            },
            "failed" => Observed::Failed {
                at: At::parse(&mut fields)?,
                how: Failing::parse(fields.word()?)?,
                address: fields.hexadecimal()?,
                detail: fields.rest()?,
            },
            _ => return None,
        };
        fields.end(observed)
    }
}

fn encode_value(value: Option<u64>, out: &mut dyn fmt::Write) -> fmt::Result {
    match value {
        Some(value) => writeln!(out, "{value:x}"),
        None => writeln!(out, "-"),
    }
}

/// Memory that one access can have touched: what comes from another machine may say anything.
fn parse_memory(fields: &mut Fields) -> Option<(u64, u32)> {
    let (address, size) = (fields.hexadecimal()?, fields.number()?);
    let is_possible = (1..=8).contains(&size) && address.checked_add(u64::from(size)).is_some();
    is_possible.then_some((address, size))
}

/// `None` if the field is no value; `Some(None)` if the memory could not be read.
fn parse_value(fields: &mut Fields) -> Option<Option<u64>> {
    match fields.word()? {
        "-" => Some(None),
        word => Some(Some(crate::fields::hexadecimal(word)?)),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;

    use super::*;

    #[test]
    fn plans_are_read_as_they_are_written() {
        let allocated = Target::Allocated {
            from: 0x1200,
            to: 0x1210,
            nth: 3,
            offset: 16,
            size: 8,
        };
        for planned in [
            Planned::Begin,
            Planned::Most(200),
            Planned::Watch {
                number: 0,
                target: Target::Global {
                    address: 0x4010,
                    size: 4,
                },
            },
            Planned::Watch {
                number: 3,
                target: allocated,
            },
            Planned::Site {
                of: SiteOf::Branch,
                line: 14,
                file: "a b/queue.c",
            },
            Planned::End,
        ] {
            let mut text = String::new();
            planned.encode(&mut text).expect("a string takes all");
            assert_eq!(Planned::parse(text.trim_end_matches('\n')), Some(planned));
        }
        for wrong in [
            "",
            "norns-plan 1",
            "watch 1 stack 10 4",
            "most",
            "most 1 2",
            "site loop 4 a.c",
        ] {
            assert_eq!(Planned::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn observations_are_read_as_they_are_written() {
        let at = At {
            order: 7,
            thread: 2,
            pc: 0x5555_5555_5189,
        };
        let (address, size) = (0x5555_5555_8010, 8);
        for observed in [
            Observed::Begin,
            Observed::Map("7f00-7f10 r-xp 0 08:01 42  /a b/program"),
            Observed::Refused { error: 13 },
            Observed::Armed { number: 1, address },
            Observed::Off { number: 1 },
            Observed::Thread {
                at,
                child: 3,
                ordinal: 1,
            },
            Observed::Access {
                at,
                address,
                size,
                value: Some(u64::MAX),
            },
            Observed::Access {
                at,
                address,
                size,
                value: None,
            },
            Observed::Passed {
                at,
                act: Act::Write,
                address,
                size,
                value: Some(7),
            },
            Observed::Branch { at },
            Observed::Freed { at, address },
            Observed::Failed {
                at,
                how: Failing::Assertion,
                address: 0,
                detail: "count > 0 && 1",
            },
            Observed::Failed {
                at,
                how: Failing::Abort,
                address: 0,
                detail: "",
            },
        ] {
            let mut text = String::new();
            observed.encode(&mut text).expect("a string takes all");
            let line = text.strip_suffix('\n').expect("a line has an end");
            assert_eq!(Observed::parse(line), Some(observed), "{line}");
        }
        for wrong in [
            "norns-observations 2",
            "access 1 2 3",
            "access 1 2 3 fffffffffffffffd 8 0",
            "access 1 2 3 10 4096 0",
            "passed 1 2 3 read 10 0 0",
            "failed 1 2 3 fire 0 ",
        ] {
            assert_eq!(Observed::parse(wrong), None, "{wrong}");
        }
    }
}
