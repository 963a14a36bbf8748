//! What the runtime counted in a recording: the payload of a statistics chunk.
//!
//! A line is the name of a counter and its value, decimal, with one space between them.

use crate::fields::{Fields, words};

words! {
    /// What is counted.
    pub enum Counter {
        AccessesLogged = "accesses-logged",
        /// Accesses that an earlier one of the same segment covers, and which are not in the trace.
        AccessesCovered = "accesses-covered-in-segment",
        AccessesBeforeFirstThread = "accesses-before-first-thread",
        AccessesIgnored = "accesses-ignored-by-annotation",
        EventsLost = "events-lost",
        ThreadsEnded = "threads-ended",
        /// With values: how often a thread slept in a call that the runtime does not know, and had
        /// its turn taken away.
        TurnsTakenAway = "turns-taken-away",
        /// 1 if some code of the program is instrumented; with 0 only synchronisation is recorded.
        Instrumented = "instrumented",
        SequenceNumbers = "sequence-numbers",
        /// Objects that were initialised before the first thread and found no room in the table.
        EarlyObjectsLost = "early-objects-lost",
        /// Threads that still ran when the process ended, although they were given time to end.
        RunningAtExit = "threads-running-at-exit",
        /// The recording had as many events as it was to have (`environment::MOST_EVENTS`): it is complete
        /// up to this sequence number.
        StoppedAt = "stopped-at",
    }
}

impl Counter {
    /// Writes the line of this counter, with its line end, byte by byte.
    pub fn encode(self, value: u64, mut put: impl FnMut(u8)) {
        self.word().bytes().for_each(&mut put);
        put(b' ');
        let mut power = 1;
        while value / power >= 10 {
            power *= 10;
        }
        while power > 0 {
            put(b'0' + (value / power % 10) as u8);
            power /= 10;
        }
        put(b'\n');
    }

    /// Reads one line, given without its line end.
    pub fn parse_line(line: &[u8]) -> Option<(Self, u64)> {
        let mut fields = Fields::of(core::str::from_utf8(line).ok()?);
        let counter = Counter::parse(fields.word()?)?;
        let value = fields.number()?;
        fields.end((counter, value))
    }
}

/// The counters of a chunk, in file order; a line that is no counter is an error.
pub fn parse(payload: &[u8]) -> impl Iterator<Item = Result<(Counter, u64), &[u8]>> {
    payload
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| Counter::parse_line(line).ok_or(line))
}
