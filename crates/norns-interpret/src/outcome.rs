//! How a run ended and what left the process.

use std::collections::BTreeSet;
use std::fmt;

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub end: End,
    /// The thread that ended the run, by the order of creation; `main` is 0.
    pub thread: usize,
    /// Where that thread was, innermost first.
    pub stack: Vec<Place>,
    /// What left the process, in order.
    pub writes: Vec<Write>,
    /// What became of the order that was asked for; `None` if none was.
    pub order: Option<Enforcement>,
    /// What was decided in the run and could have been decided otherwise, in order.
    pub decisions: Vec<Decision>,
    /// Operations executed.
    pub steps: u64,
    /// How many locks were not taken because of `How::without_lock`.
    pub locks_left_out: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// The program was killed by this signal, or killed itself (`abort` is 6).
    Signal(i32),
    AssertFailed {
        text: String,
    },
    MemoryError(MemoryError),
    /// No thread can go on: each with what it waits for.
    Deadlock(Vec<Waiting>),
    /// The threads that still run change nothing and come back to the same state.
    EndlessLoop,
    /// `Limits::steps` operations were executed.
    OutOfSteps,
    /// The program needs something that the interpreter does not know.
    GaveUp(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryErrorKind {
    Null,
    OutOfBounds,
    /// The memory was freed, or is of a function that has returned.
    Freed,
    /// The address never belonged to anything.
    Wild,
    /// A branch or an address depends on memory that was never written.
    Uninitialised,
    ReadOnly,
    /// `free` of what is not the start of an allocated block.
    InvalidFree,
    DoubleFree,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryError {
    pub kind: MemoryErrorKind,
    pub is_write: bool,
    pub address: u64,
    pub bytes: u64,
    /// What the address belongs or belonged to.
    pub object: Option<String>,
}

/// A thread that waits for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub thread: usize,
    pub what: String,
    pub place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub function: String,
}

/// Bytes that the program wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    pub to: Channel,
    pub bytes: Vec<u8>,
    /// The innermost place of the program that wrote or printed them.
    pub place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    Output,
    Error,
    File(Vec<u8>),
}

/// What became of an order of two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The first access was executed, and then the second by another thread at an overlapping address.
    Enforced,
    /// The second access was kept waiting until nothing else could happen, and the first never came: some
    /// other synchronisation forbids the order.
    Impossible,
    /// No two threads came to the two accesses.
    NotReached,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A thread was interrupted here, and another one went on.
    Switched {
        from: usize,
        to: usize,
        place: Option<Place>,
    },
    /// A read returned an older value than the last one written.
    ReadOld {
        thread: usize,
        place: Option<Place>,
        value: u64,
        /// Where the value was written; `None` for the initial value, and where that is not kept.
        written_at: Option<Place>,
    },
    /// A write of a thread became visible to others.
    Flushed { thread: usize, place: Option<Place> },
}

impl Outcome {
    /// A run that could not begin.
    pub(crate) fn before_start(end: End) -> Self {
        Self {
            end,
            thread: 0,
            stack: Vec::new(),
            writes: Vec::new(),
            order: None,
            decisions: Vec::new(),
            steps: 0,
            locks_left_out: 0,
        }
    }

    /// The places of reads that returned older values than the last one written.
    pub(crate) fn old_reads(&self) -> BTreeSet<&Place> {
        let places = self.decisions.iter().filter_map(|decision| match decision {
            Decision::ReadOld { place, .. } => place.as_ref(),
            Decision::Switched { .. } | Decision::Flushed { .. } => None,
        });
        places.collect()
    }

    /// Everything that went to one channel.
    #[must_use]
    pub fn written(&self, to: &Channel) -> Vec<u8> {
        let writes = self.writes.iter().filter(|write| write.to == *to);
        writes
            .flat_map(|write| write.bytes.iter().copied())
            .collect()
    }

    /// What went to standard output.
    #[must_use]
    pub fn output(&self) -> Vec<u8> {
        self.written(&Channel::Output)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{} ({})", self.file, self.line, self.function)
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.is_write { "write" } else { "read" };
        let bytes = self.bytes;
        match self.kind {
            MemoryErrorKind::Null => write!(to, "{access} through a null pointer")?,
            MemoryErrorKind::OutOfBounds => write!(to, "{access} of {bytes} bytes out of bounds")?,
            MemoryErrorKind::Freed => write!(to, "{access} of freed memory")?,
            MemoryErrorKind::Wild => write!(to, "{access} through an invalid pointer")?,
            MemoryErrorKind::Uninitialised => write!(to, "use of uninitialised memory")?,
            MemoryErrorKind::ReadOnly => write!(to, "write to a constant")?,
            MemoryErrorKind::InvalidFree => write!(to, "free of an invalid pointer")?,
            MemoryErrorKind::DoubleFree => write!(to, "free of freed memory")?,
        }
        match &self.object {
            Some(object) => write!(to, " ({object})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exited(status) => write!(to, "exit status {status}"),
            End::Signal(signal) => write!(to, "signal {signal}"),
            End::AssertFailed { text } => write!(to, "assertion failed: {text}"),
            End::MemoryError(error) => error.fmt(to),
            End::Deadlock(waiting) => write!(to, "deadlock of {} threads", waiting.len()),
            End::EndlessLoop => write!(to, "endless loop"),
            End::OutOfSteps => write!(to, "out of steps"),
            End::GaveUp(reason) => write!(to, "given up: {reason}"),
        }
    }
}
