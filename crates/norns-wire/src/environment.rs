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
/// If set, a recording makes timed operations give up early and holds back what others wait for, so
/// that it shows what the program does then.
pub const IMPATIENT: &str = "NORNS_IMPATIENT";
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
/// The plan: which sites are on, as names of events with a space between them. `*` is all events, and
/// `wait-loop` the sites of loops that wait on a condition. Without it all sites sleep.
pub const PLAN: &str = "NORNS_PLAN";
/// Variables without meaning. They keep the size of the environment the same in all runs, and with
/// it the addresses on the stack.
pub const PADDING: [&str; 7] = [
    "NORNS_PAD_1",
    "NORNS_PAD_2",
    "NORNS_PAD_3",
    "NORNS_PAD_4",
    "NORNS_PAD_5",
    "NORNS_PAD_6",
    "NORNS_PAD_7",
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
