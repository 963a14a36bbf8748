//! Errors, which stop the reading or writing of a trace, and warnings, which do not.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::item::Invalid;

#[derive(Debug, Error)]
pub enum Error {
    #[error("cannot read {path}: {cause}", path = path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("cannot write {path}: {cause}", path = path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("{path} is not a trace file", path = path.display())]
    NotATrace { path: PathBuf },
    #[error(
        "{path} has version {found} of the trace format; this norns reads version {known}\n help: record it again, or use the norns that recorded it",
        path = path.display(), known = crate::container::VERSION
    )]
    Version { path: PathBuf, found: u32 },
    #[error(
        "{path} was recorded by a runtime of version {found}; this norns reads version {known}\n help: build the program again with this version of norns-cc",
        path = path.display(), known = norns_wire::STREAM_VERSION
    )]
    StreamVersion { path: PathBuf, found: u8 },
    #[error("cannot write item {number} of a trace: {problem}")]
    Item { number: u64, problem: Invalid },
    #[error("{path}:{line}: {problem}", path = path.display())]
    Text {
        path: PathBuf,
        line: u64,
        problem: String,
    },
}

/// A defect of a trace that does not prevent reading it. Something may be missing, or the trace ends
/// early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The file ends before the end mark.
    Cut { events: u64 },
    /// A chunk is damaged; the trace ends before it.
    DamagedChunk {
        number: u64,
        offset: u64,
        problem: String,
        events: u64,
    },
    /// A chunk of a raw recording is damaged or missing; the events after it are left out.
    DamagedRecording {
        process: u32,
        thread: u32,
        chunk: u32,
        problem: String,
    },
    /// The runtime counted something that this version does not know.
    UnknownCounter { line: String },
    /// Bytes of a raw recording that belong to no chunk.
    Skipped { offset: u64, bytes: u64 },
    /// The recorder itself says that events are missing.
    Lost {
        thread: String,
        events: u64,
        why: &'static str,
    },
    /// A system call that may order threads in a way that is not known, and who made it first.
    UnknownCall { call: String, thread: String },
    /// Where objects are that other processes may use as well, each of which was used.
    ProcessShared { addresses: BTreeSet<u64> },
    /// The events of the threads do not fit together from here on, since some are missing.
    Inconsistent { events: u64, problem: String },
    /// The trace stays a raw recording, larger and slower to read.
    Unfinished { problem: String },
    /// Threads that still ran when the process ended, although they were given time to end.
    StillRunning { threads: u64 },
    /// The runtime wrote nothing.
    NothingRecorded,
    /// The file holds more than one process; only one is shown.
    OtherProcesses { shown: u32, others: Vec<u32> },
    /// Where the trace of another process of the same recording was put.
    OtherProcess { number: u32, path: PathBuf },
    /// No debug information, or none that could be read.
    NoDebugInformation { path: String, problem: String },
    /// Reads that saw something else than what the writes before them left there.
    ValuesDiffer {
        differ: u64,
        reads: u64,
        first: String,
    },
    /// The file has changed since the recording: its lines may be wrong.
    Rebuilt { path: String },
    /// Only the beginning of the recording is kept.
    Shortened { events: u64 },
    /// Lines of a text that cannot have happened, and are taken for events that do nothing.
    Ignored {
        lines: usize,
        first: usize,
        problem: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Shortened { events } => write!(
                f,
                "the recording is long for the budget: only its first {events} events are kept"
            ),
            Warning::Ignored {
                lines,
                first,
                problem,
            } => write!(
                f,
                "{lines} lines of the text cannot have happened and were ignored; the first is \
                 line {first}: {problem}"
            ),
            Warning::Cut { events } => {
                write!(
                    f,
                    "the trace is cut: it has no end mark; {events} events could be read"
                )
            }
            Warning::DamagedChunk {
                number,
                offset,
                problem,
                events,
            } => write!(
                f,
                "chunk {number} (at byte {offset}) is damaged: {problem}; the trace ends before it, after {events} events"
            ),
            Warning::DamagedRecording {
                process,
                thread,
                chunk,
                problem,
            } => write!(
                f,
                "chunk {chunk} of thread {thread} (process {process}) is damaged: {problem}; what happened after it is left out"
            ),
            Warning::UnknownCounter { line } => write!(
                f,
                "a counter of the recorder is not understood: {}",
                line.escape_debug()
            ),
            Warning::Skipped { offset, bytes } => {
                write!(
                    f,
                    "{bytes} bytes at {offset} belong to no chunk and are left out"
                )
            }
            Warning::Lost {
                thread,
                events,
                why,
            } => {
                write!(f, "{events} events of {thread} are missing: {why}")
            }
            Warning::UnknownCall { call, thread } => write!(
                f,
                "{thread} has called `{call}`, which may order threads in a way that Norns does not know"
            ),
            Warning::Inconsistent { events, problem } => write!(
                f,
                "the recording is incomplete: {problem}; the trace ends there, after {events} events"
            ),
            Warning::Unfinished { problem } => {
                write!(
                    f,
                    "the trace stays as it was recorded, uncompressed: {problem}"
                )
            }
            Warning::ProcessShared { .. } => write!(
                f,
                "some objects may be shared with other processes: what those do with them is not \
                 seen, and no wait on them is predicted to be endless"
            ),
            Warning::StillRunning { threads: 1 } => write!(
                f,
                "one thread was still running when the program ended: what it would have done \
                 after that is not seen"
            ),
            Warning::StillRunning { threads } => write!(
                f,
                "{threads} threads were still running when the program ended: what they would \
                 have done after that is not seen"
            ),
            Warning::NothingRecorded => {
                write!(
                    f,
                    "nothing was recorded: the program started no thread, or could not be observed"
                )
            }
            Warning::OtherProcesses { shown, others } => write!(
                f,
                "{} processes were recorded; this is process {shown}, not {}",
                others.len() + 1,
                others
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Warning::OtherProcess { number, path } => write!(
                f,
                "process {number} is in {}",
                path.to_string_lossy().escape_debug()
            ),
            Warning::NoDebugInformation { path, problem } => {
                write!(f, "no source lines for {}: {problem}", path.escape_debug())
            }
            Warning::ValuesDiffer {
                differ,
                reads,
                first,
            } => write!(
                f,
                "{differ} of {reads} reads saw something else than the last recorded write (the first in {}): code that is not instrumented writes there too",
                first.escape_debug()
            ),
            Warning::Rebuilt { path } => write!(
                f,
                "{} has changed since the recording: source lines may be wrong",
                path.escape_debug()
            ),
        }
    }
}
