//! The variables of the environment with which the tool tells the runtime what to do.
//!
//! The runtime reads them once, when it is loaded into the program. Without `MODE` it does nothing.

use core::fmt;

use crate::fields::{Fields, words};

/// Which mode the runtime is in: a word of `Mode`.
pub const MODE: &str = "NORNS_MODE";
/// The absolute path of the file to which a recording is appended.
pub const TRACE: &str = "NORNS_TRACE";
/// A decimal number. In a recording with values it decides which thread runs when; in another
/// recording it asks for random delays.
pub const SEED: &str = "NORNS_SEED";
/// A decimal number: the recording may end when it has more than so many events. The program goes on.
pub const MOST_EVENTS: &str = "NORNS_MOST_EVENTS";
/// If set, a recording makes timed operations give up early and holds back what others wait for, so
/// that it shows what the program does then. With `CREATORS` whoever creates a thread is held back, otherwise
/// the thread.
pub const IMPATIENT: &str = "NORNS_IMPATIENT";
pub const CREATORS: &str = "creators";
/// The path of the schedule that a replay enforces.
pub const SCHEDULE: &str = "NORNS_SCHEDULE";
/// The path of the file to which the report is appended.
pub const REPORT: &str = "NORNS_REPORT";
/// If set, the runtime calls `norns_stop_here` when the bug is there to see; debuggers stop there.
pub const STOP: &str = "NORNS_STOP";
/// `Priorities`: the threads of a replay run by random priorities.
pub const PRIORITIES: &str = "NORNS_PRIORITIES";
/// What is to become of files that the program changes: a word of `FilesAre`, a space, and the absolute
/// path of a folder.
pub const FILES: &str = "NORNS_FILES";
/// The absolute path of the file to which a recording writes what other processes say (`inputs`). It
/// must not exist.
pub const INPUTS: &str = "NORNS_INPUTS";
/// The path of such a file, from which a replay takes the time and random bytes.
pub const SERVED: &str = "NORNS_SERVED";
/// The absolute path of a file to which everything is appended that is sent through sockets.
pub const SENT: &str = "NORNS_SENT";
/// The plan: which sites are on, as names of events with a space between them. `*` is all events, and
/// `wait-loop` the sites of loops that wait on a condition. Without it all sites sleep.
pub const PLAN: &str = "NORNS_PLAN";
/// `Sketching`: the recording is one of many that look for the cause of a failure.
pub const SKETCH: &str = "NORNS_SKETCH";
/// `Constraint`: an order that a recording with values keeps as long as the program can.
pub const CONSTRAINT: &str = "NORNS_CONSTRAINT";
/// The path of the plan of a tracked run (`tracking`); what it sees goes to `REPORT`.
pub const TRACK: &str = "NORNS_TRACK";
/// The absolute path of the folder in which the agent keeps files for guarded programs (`guarding`). It
/// needs no `MODE`.
pub const GUARD: &str = "NORNS_GUARD";
/// Variables without meaning. They keep the size of the environment the same in all runs, and with
/// it the addresses on the stack.
pub const PADDING: [&str; 9] = [
    "NORNS_PAD_1",
    "NORNS_PAD_2",
    "NORNS_PAD_3",
    "NORNS_PAD_4",
    "NORNS_PAD_5",
    "NORNS_PAD_6",
    "NORNS_PAD_7",
    "NORNS_PAD_8",
    "NORNS_PAD_9",
];

words! {
    /// What a run of the program is for: the value of `MODE`.
    pub enum Mode {
        Record = "record",
        /// One thread runs at a time, and accesses are recorded with their values.
        RecordValues = "record-values",
        Replay = "replay",
        Detect = "detect",
        ReplayDetect = "replay+detect",
        /// Nothing but what a plan names is looked at: `tracking`.
        Track = "track",
    }
}

words! {
    /// What the runtime does with the folder that `FILES` names.
    pub enum FilesAre {
        /// Puts copies there of the files that the program changes, as they were before.
        Kept = "kept",
        /// Changes files there and leaves the real ones alone.
        Private = "private",
    }
}

impl FilesAre {
    /// The word and the folder of a value of `FILES`.
    pub fn parse_value(value: &[u8]) -> Option<(Self, &[u8])> {
        let space = value.iter().position(|byte| *byte == b' ')?;
        let word = core::str::from_utf8(&value[..space]).ok()?;
        Some((Self::parse(word)?, &value[space + 1..]))
    }
}

/// The value of `PRIORITIES`: `SEED POINTS`, both decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    pub seed: u64,
    /// About how many scheduling points the run will have.
    pub points: u64,
}

impl Priorities {
    pub fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} {}", self.seed, self.points)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = Fields::of(text);
        let priorities = Priorities {
            seed: fields.number()?,
            points: fields.number()?,
        };
        fields.end(priorities)
    }
}

/// The value of `SKETCH`: `STRETCH`, decimal. Such a recording begins with the program, not with its
/// first thread, and a failure is an event of it, named `FAILURE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sketching {
    /// With values: about how many accesses a thread makes before another one may run.
    pub stretch: u32,
}

/// The name of the event that stands for a failure. Its first field is a word of `Failing`.
pub const FAILURE: &str = "failure";

words! {
    /// How a program fails, and what the second field of the event is.
    pub enum Failing {
        /// By a signal: its number. The third field is the address that could not be accessed, or 0.
        Signal = "signal",
        /// By an assertion: its condition.
        Assertion = "assertion",
        /// By a call of `abort`; there is no second field.
        Abort = "abort",
        /// By `exit`: its status, which is not 0. Whether that is a failure is for others to say.
        Exit = "exit",
    }
}

impl Sketching {
    pub fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", self.stretch)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = Fields::of(text);
        let stretch = fields.number()?;
        fields.end(Sketching { stretch })
    }
}

/// A place of a constraint: `WAIT PASS FROM`, of which the last is decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The program counter before which a thread waits: that of the operation, or where the thread takes
    /// the lock under which it does it.
    pub wait: u64,
    /// The program counter of the operation, or of the program's call of the library's function that does it.
    pub pass: u64,
    /// From which time on a thread waits there, counted from 1.
    pub from: u32,
}

impl Point {
    /// The same point, where a thread waits whenever it comes there.
    pub fn every_time(self) -> Self {
        Point { from: 1, ..self }
    }

    fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, " {:x} {:x} {}", self.wait, self.pass, self.from)
    }

    fn parse(fields: &mut Fields) -> Option<Self> {
        Some(Point {
            wait: fields.hexadecimal()?,
            pass: fields.hexadecimal()?,
            from: fields.number()?,
        })
    }
}

/// The value of `CONSTRAINT`: a word and points. A thread that comes to one of them waits while the
/// constraint asks for it and other threads can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// The second waits until another thread has passed the first.
    Order { first: Point, second: Point },
    /// As `Order`, and the thread that has passed the first lets others run before it goes on, as long as they
    /// do something.
    Held { first: Point, second: Point },
    /// The first waits until no other thread can go on.
    Last { first: Point },
    /// The thread that has passed `first` waits before `last` until another one has passed `other`, which
    /// waits for `first`.
    Between {
        first: Point,
        other: Point,
        last: Point,
    },
    /// `other` waits while another thread has come to `first` and has not yet passed `last`.
    Apart {
        first: Point,
        other: Point,
        last: Point,
    },
}

impl Constraint {
    pub fn encode(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(self.word())?;
        self.points()
            .into_iter()
            .flatten()
            .try_for_each(|point| point.encode(out))
    }

    fn word(&self) -> &'static str {
        match self {
            Constraint::Order { .. } => "order",
            Constraint::Held { .. } => "held",
            Constraint::Last { .. } => "last",
            Constraint::Between { .. } => "between",
            Constraint::Apart { .. } => "apart",
        }
    }

    /// Its points in their order.
    pub fn points(&self) -> [Option<Point>; 3] {
        match *self {
            Constraint::Order { first, second } | Constraint::Held { first, second } => {
                [Some(first), Some(second), None]
            }
            Constraint::Last { first } => [Some(first), None, None],
            Constraint::Between { first, other, last }
            | Constraint::Apart { first, other, last } => [Some(first), Some(other), Some(last)],
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = Fields::of(text);
        let word = fields.word()?;
        let first = Point::parse(&mut fields)?;
        let mut next = || Point::parse(&mut fields);
        let constraint = match word {
            "order" => Constraint::Order {
                first,
                second: next()?,
            },
            "held" => Constraint::Held {
                first,
                second: next()?,
            },
            "last" => Constraint::Last { first },
            "between" => Constraint::Between {
                first,
                other: next()?,
                last: next()?,
            },
            "apart" => Constraint::Apart {
                first,
                other: next()?,
                last: next()?,
            },
            _ => return None,
        };
        fields.end(constraint)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;

    use super::*;

    #[test]
    fn constraints_are_read_as_they_are_written() {
        let point = |pass| Point {
            wait: pass - 8,
            pass,
            from: 2,
        };
        let (first, other, last) = (point(0x40_1000), point(0x40_1010), point(0x40_1020));
        for constraint in [
            Constraint::Order {
                first,
                second: last,
            },
            Constraint::Held {
                first,
                second: last,
            },
            Constraint::Last { first },
            Constraint::Between { first, other, last },
            Constraint::Apart { first, other, last },
        ] {
            let mut text = String::new();
            constraint.encode(&mut text).expect("a string takes all");
            assert_eq!(Constraint::parse(&text), Some(constraint));
        }
        for wrong in ["", "order 1 2 3", "last 1 2", "last 1 2 3 4", "never 1 2 3"] {
            assert_eq!(Constraint::parse(wrong), None, "{wrong}");
        }
    }
}
