//! What can happen to a thread, and what the core answers.

use norns_wire::Code;
use norns_wire::report::{Unheld, Why};

use crate::{Mode, Slot};

/// A synchronisation operation that a thread is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub code: Code,
    /// For `Code::Atomic`: 0 load, 1 store, 2 read-modify-write or exchange that may fail.
    pub atomic: u8,
    /// A try- or timed form.
    pub may_fail: bool,
    /// The schedule may let the operation fail because its thread is cancelled in it.
    pub fails_by_cancel: bool,
    /// The object; for `Fork` and `Join` the number of the other thread. Numbers are small, so no
    /// object has such an address.
    pub address: usize,
    pub pc: usize,
}

impl Operation {
    pub const fn new(code: Code, address: usize, pc: usize) -> Self {
        Operation {
            code,
            atomic: 0,
            may_fail: false,
            fails_by_cancel: false,
            address,
            pc,
        }
    }

    /// Whether a cancelled thread ends in it, of the operations that a thread can be blocked in.
    pub fn is_cancellation_point(&self) -> bool {
        matches!(self.code, Code::SemWait | Code::Wait | Code::Join)
    }
}

/// When a wait ends by itself: nanoseconds of the monotonic clock.
pub type Deadline = Option<i64>;

/// When an operation that a thread has come to is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As soon as its turn has come: the caller does it then, and it cannot block.
    AtItsTurn,
    /// When the caller has tried it with success (`Act::Try`).
    Tried { deadline: Deadline },
    /// As `Tried` if the schedule says that it succeeds; without a schedule the caller does it as
    /// soon as its turn has come, since it ends by itself.
    TriedIfScheduled,
    /// When the thread is signalled; it is a waiter since `Happened::BeginsWait`.
    Signalled { deadline: Deadline },
    /// When the barrier has left the round that the thread entered.
    RoundOver { round: u32 },
    /// When the thread has ended.
    Ended { thread: Slot, deadline: Deadline },
}

/// A plain or atomic access that is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub address: usize,
    pub size: usize,
    pub write: bool,
    pub atomic: bool,
    pub pc: usize,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It succeeded, and the thread holds this lock from now on.
    Got(Mode),
    /// It is over without a lock: a unit of a semaphore, a once, or an error other than "busy".
    Over,
    /// It would have to block.
    Busy,
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    Woken,
    TimeOut,
    /// By a signal handler.
    Interrupted,
}

/// What happened to a thread: the subject of every name is the thread that `Core::step` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Comes to an operation.
    Arrives(Operation, How),
    /// The operation that had its turn is in effect.
    Completes,
    /// An atomic operation that had its turn is done; a failed compare-exchange has not succeeded.
    CompletesAtomic {
        address: usize,
        pc: usize,
        succeeded: bool,
    },
    /// Has made a change that may let threads go on that are blocked on this object.
    Changes(usize),
    Tried(Tried),
    /// The sleep that the core asked for is over.
    Woke(Waking),
    Answers(Answer),
    /// Has done what `Act::Again` or `Act::TestCancel` asked for, and is still there.
    Again,

    /// Took a lock outside of an attempt.
    Takes {
        lock: usize,
        pc: usize,
        mode: Mode,
    },
    /// Is about to release a lock.
    Releases(usize),
    /// Signals a condition, or all its waiters.
    Signals {
        condition: usize,
        all: bool,
    },
    /// Waits on the condition from the moment at which it releases the mutex.
    BeginsWait {
        condition: usize,
    },
    EndsWait,
    /// A failed wait without time-out: is the thread about to be cancelled?
    ExpectsCancellation,

    /// Passes a hook while the thread is watched or a loop is suspected; `reads` is a size.
    Passes {
        pc: usize,
        address: usize,
        reads: Option<usize>,
    },
    /// Is about to write while a loop is suspected.
    Writes {
        address: usize,
        size: usize,
    },
    /// Is about to access memory at a place that the schedule names.
    Accesses(Access),
    /// Is about to take a lock at this place.
    LingersBeforeLock {
        pc: usize,
    },

    /// The call that creates it has returned; it may run.
    Created,
    /// Its creation failed.
    NotCreated,
    /// Runs its first instructions.
    Begins,
    Ends,
    /// Another thread cancels it.
    IsCancelled,
    /// Is about to end the process.
    EndsProcess,

    /// Serial mode: needs the turn.
    WantsTurn,
    /// Serial mode: has run for so long (in nanoseconds) and lets others go on.
    Yields {
        ran_for: i64,
    },
    /// Serial mode: makes a call that may sleep in the kernel.
    Leaves,
    /// Serial mode: sleeps for so many nanoseconds, until a signal comes.
    Sleeps {
        duration: i64,
        until: i64,
    },
    /// Serial mode: left the core by `longjmp` out of a signal handler, or by cancellation.
    Jumped,
}

/// How an operation goes on when its turn has come, or how a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No schedule binds it: of an attempt, it succeeded.
    Free,
    /// The schedule says that it succeeds now: of an attempt, it did.
    Succeeds,
    /// The schedule says that it fails now; of an attempt, also that its time is over.
    Fails,
    /// The thread is to end here.
    Cancelled,
    /// A signal handler ended the sleep.
    Interrupted,
}

/// What the thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Go(Turn),
    /// Try the operation without blocking, then say `Happened::Tried`.
    Try,
    /// Sleep until woken, at most so many nanoseconds, then say `Happened::Woke`.
    Sleep(Option<i64>),
    /// Sleep for so many nanoseconds whoever wakes the thread, then say `Happened::Woke`.
    SleepOut(i64),
    /// Ask the kernel, then say `Happened::Answers`.
    Ask(Question),
    /// Take the lines of the report, for which there is no more room, then say `Happened::Again`.
    Again,
    /// Let the C library end the thread, if it is to end; otherwise say `Again`.
    TestCancel,
    /// Report this and end the process.
    Stop(Stop),
}

/// What only the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Do all threads of `Core::running` sleep on a futex without time-out, outside of the core, and
    /// could no signal handler of the program end that?
    AllAsleep,
    /// Could a signal handler of the program still run?
    SignalCouldHelp,
    /// How many nanoseconds of processor time has the thread used; `None` is the whole process.
    ProcessorTime(Option<Slot>),
    /// What does the thread that has the turn do?
    TurnHolder(Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    AllAsleep(bool),
    SignalCouldHelp(bool),
    ProcessorTime(i64),
    TurnHolder {
        /// How many accesses it has come to.
        events: u64,
        asleep: bool,
        /// In hundredths of a second.
        processor: u64,
    },
}

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Diverged(Diverged),
    /// A cycle of lock holders through this thread: `Core::cycle`.
    Cycle(Slot),
    /// No thread can go on.
    Stuck,
}

/// The program cannot follow the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// The thread; for one that was never created its number in the schedule.
    pub thread: Result<Slot, u32>,
    /// What the thread came to.
    pub operation: Option<Operation>,
    pub why: Why,
}

/// A line of the report; the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Followed {
        steps: usize,
    },
    Skipped {
        thread: Slot,
        event: u32,
    },
    Held(Side, Side),
    /// `other` is a number of the schedule, or a thread.
    Unheld {
        thread: Slot,
        other: Result<Slot, u32>,
        why: Unheld,
    },
    Spin {
        thread: Slot,
        address: usize,
        pc: usize,
        reads: u64,
    },
}

/// One access of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub thread: Slot,
    pub access: Access,
}

/// What changes for a thread because of another one's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Wake(Slot),
    /// Whether every hook of the thread has to say `Happened::Passes`.
    Watch(Slot, bool),
    /// The thread, which is the one that made the step, gives its turn away.
    GivesTurn(Slot),
    /// The thread, which is the one that made the step, has got the turn.
    GetsTurn(Slot),
    /// The turn was taken from the thread, which does not use it.
    LostTurn(Slot),
}

/// What a thread that comes to a once has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// Run the initialiser.
    Run,
    /// The initialiser has run.
    Pass,
    /// Another thread runs the initialiser.
    Wait,
}
