//! What replay and detection know about one thread of the program.
//!
//! Everything here is changed under the monitor's lock, or by the thread itself where the comment
//! says so. The block of a thread is never used again for another.

use core::fmt;
use core::sync::atomic::AtomicU32;

use super::serial::SerialThread;
use super::spin::Spin;
use crate::detect;
use crate::wire::Code;

const PATH: usize = 96;
const MOST_HELD: usize = 128;

/// `T0.1.2`; the end of a name that does not fit is lost.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; PATH],
    length: usize,
}

impl Path {
    pub const fn main() -> Self {
        let mut bytes = [0; PATH];
        bytes[0] = b'T';
        bytes[1] = b'0';
        Self { bytes, length: 2 }
    }

    pub fn child(&self, ordinal: u32) -> Self {
        let mut path = *self;
        let _ = fmt::Write::write_fmt(&mut path, format_args!(".{ordinal}"));
        path
    }

    /// A thread whose creation was not seen.
    pub fn unknown(number: u32) -> Self {
        let mut path = Self {
            bytes: [0; PATH],
            length: 0,
        };
        let _ = fmt::Write::write_fmt(&mut path, format_args!("?{number}"));
        path
    }

    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("?")
    }
}

impl fmt::Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.length < PATH {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// A synchronisation operation that a thread is about to do.
#[derive(Clone, Copy)]
pub struct Operation {
    pub code: Code,
    /// For `Code::Atomic`: 0 load, 1 store, 2 read-modify-write or exchange that may fail.
    pub atomic: u8,
    /// Whether it may fail: a try- or timed form.
    pub may_fail: bool,
    /// Whether the schedule may let it fail all the same, since its thread is cancelled in it.
    pub fails_by_cancel: bool,
    pub address: usize,
    pub pc: usize,
}

impl Operation {
    /// Whether a cancelled thread ends in it, of what the monitor lets threads wait for.
    pub fn is_cancellation_point(&self) -> bool {
        matches!(self.code, Code::SemWait | Code::Wait | Code::Join)
    }
}

#[derive(Clone, Copy)]
pub enum Activity {
    /// Runs the program's own code, or sleeps in something that the runtime does not control.
    Running,
    /// Waits for its turn in the schedule.
    AtPoint,
    /// Waits for its turn before an access or the end of the program, or is not yet created.
    Waits,
    /// Cannot go on before another thread does something. `timed` ends by itself.
    Blocked {
        operation: Operation,
        timed: bool,
    },
    /// Stopped before an access of a predicted race.
    Held,
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
}

/// A lock that a thread has.
#[derive(Clone, Copy)]
pub struct Held {
    pub address: usize,
    pub pc: usize,
    pub mode: Mode,
    /// How often, for recursive mutexes and readers.
    pub depth: u32,
}

pub struct ControlThread {
    pub number: u32,
    pub path: Path,
    pub children: u32,
    /// Its number in the schedule.
    pub scheduled: Option<u32>,
    /// Scheduling points passed since the first thread was created.
    pub points: u32,
    pub activity: Activity,
    /// Among threads with random priorities.
    pub priority: u32,
    /// Sleeps on this word; changed to wake it.
    pub wake: AtomicU32,
    held: [Held; MOST_HELD],
    held_count: usize,
    /// On which condition it waits, since when, and whether it was signalled.
    pub condition: usize,
    pub condition_order: u64,
    pub signalled: bool,
    /// Non-zero while inside the monitor: a signal handler that interrupts it must not enter.
    pub inside: u32,
    /// Between `before` and `after` of an operation in replay.
    pub keeps_monitor: bool,
    pub spin: Spin,
    pub serial: SerialThread,
    /// The thread whose loop may have waited for what this one is writing; null for none.
    pub wrote_for: *mut ControlThread,
    /// Index into the schedule of an access whose turn was given and that is done at the
    /// thread's next hook, plus one; 0 for none.
    pub pending_access: usize,
    /// `pthread_t`; 0 when not known.
    pub handle: usize,
    pub detached: bool,
    pub joined: bool,
    /// Somebody has asked it to end.
    pub cancelled: bool,
    /// It is in a cancellation point and is to end now: the real function sees to that.
    pub ends_here: bool,
    pub detect: Option<detect::Thread>,
    /// What the runtime keeps of this thread in every mode; null once it has ended.
    pub runtime: *mut crate::thread::Thread,
}

impl ControlThread {
    /// Turns zeroed memory into a thread.
    pub fn begin(&mut self, number: u32, path: Path) {
        self.number = number;
        self.path = path;
        self.activity = Activity::Running;
        self.detect = None;
        self.scheduled = None;
    }

    pub fn held(&self) -> &[Held] {
        &self.held[..self.held_count]
    }

    pub fn got(&mut self, address: usize, pc: usize, mode: Mode) {
        let held = &mut self.held[..self.held_count];
        if let Some(held) = held.iter_mut().find(|held| held.address == address) {
            held.depth += 1;
            return;
        }
        if self.held_count < MOST_HELD {
            self.held[self.held_count] = Held {
                address,
                pc,
                mode,
                depth: 1,
            };
            self.held_count += 1;
        }
    }

    /// Gave one level back; the mode in which it was held, if it was.
    pub fn gave(&mut self, address: usize) -> Option<Mode> {
        let held = &mut self.held[..self.held_count];
        let index = held.iter().position(|held| held.address == address)?;
        let mode = held[index].mode;
        held[index].depth -= 1;
        if held[index].depth == 0 {
            // By hand: a copy by `memmove` would be seen as an access of the program.
            for at in index + 1..held.len() {
                held[at - 1] = held[at];
            }
            self.held_count -= 1;
        }
        Some(mode)
    }
}
