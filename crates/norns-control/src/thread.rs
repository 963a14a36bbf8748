//! What the core knows of one thread.

use norns_wire::Code;

use crate::event::{Access, How, Operation, Waking};
use crate::held::HeldLocks;
use crate::policy::patience::Wait;
use crate::policy::serial::SerialThread;
use crate::spin::Spin;

/// How many threads one process can have in all, ended ones included.
pub const MOST_THREADS: usize = 1 << 15;

/// The place of a thread in the core's table, which is the runtime's number of the thread: 0 is the
/// main thread, others count up in the order of creation. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

impl Slot {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a thread does, as far as others are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Runs the program's own code, or sleeps in something that the runtime does not control.
    Running,
    /// Waits for its turn in the schedule.
    AtPoint,
    /// Waits for its turn before an access or the end of the program, or is not yet created.
    Waits,
    /// Cannot go on before another thread does something; `timed`: or before its time is over.
    Blocked {
        operation: Operation,
        timed: bool,
    },
    /// Stopped before an access of a predicted race.
    Held,
    Ended,
}

/// What a thread that is inside the core waits for, or has been asked to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stage {
    /// Not inside the core: the last answer was `Act::Go`.
    Outside,
    /// Lets threads of higher priority go first, at most until this time.
    Yields {
        until: i64,
    },
    /// Waits for the turn of `Request`.
    Turn(HeadWait),
    /// Was told to try; what a failure means depends on why.
    Tries(Trying),
    /// Blocked, until something changes.
    Blocked,
    /// Blocked like all others: looks again before that is called a deadlock.
    Confirms {
        looks: u32,
        progress: u64,
    },
    /// Waits for another thread to cancel this one.
    Cancellation {
        until: i64,
        met: Met,
    },
    /// Waits for the turn of an access.
    AccessTurn(Access, HeadWait),
    /// Lingers at a place of a predicted race, in this entry of the table of held threads.
    Hunts(Access, usize),
    /// Is held before an access of the race, in this entry of the table of held threads.
    Holds(Access, usize),
    /// As a writer of the race, watches the reader; `hunts` tells which of the two stages follows.
    WatchesReader {
        access: Access,
        index: usize,
        hunts: bool,
    },
    LingersBeforeLock(Wait),
    /// Waits before it ends the process.
    EndsProcess {
        until: i64,
        head: HeadWait,
    },
    /// Serial mode: sleeps until it gets the turn.
    /// `slept`: how its last sleep ended, until that was acted on.
    SerialTurn {
        then: Then,
        watches: bool,
        slept: Option<Waking>,
    },
    /// Serial mode: has the turn and sleeps on until its time-out, which came early.
    SleepsOut {
        until: i64,
        then: Then,
    },
    /// Serial mode: the C library may end the thread.
    TestsCancel {
        then: Then,
    },
}

/// What a thread remembers that waits for another thread to do the next step of the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeadWait {
    /// The position in the schedule when the thread went to sleep; `None` before.
    pub cursor: Option<usize>,
    /// How often no thread was seen to run since.
    pub looks: u32,
    /// Since when the position has been the same, in nanoseconds.
    pub since: i64,
    /// At how many looks, up to the last one, the thread of the next step was asleep in the kernel.
    pub idle: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trying {
    /// The schedule says that it succeeds.
    Scheduled,
    Free,
    /// The time of the wait is over; one last time.
    Last,
}

/// Where a thread waits for its own cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// At an operation that the schedule does not have.
    AnotherOperation,
    /// After a wait that the schedule lets fail.
    FailedWait,
}

/// What follows when a thread of serial mode has the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Goes,
    /// It had come to a point: the operation goes on.
    Operates,
    /// It was blocked.
    Unblocks,
    /// Its sleep is over.
    Sleeps,
}

/// What the kernel told in answer to questions since the thread last woke.
#[derive(Clone, Copy, Default)]
pub(crate) struct Facts {
    pub all_asleep: Option<bool>,
    pub signal_could_help: Option<bool>,
    pub processor_time: Option<i64>,
    /// Events, whether it sleeps, hundredths of a second of processor time.
    pub turn_holder: Option<(u64, bool, u64)>,
}

/// What the runtime has to do for a thread; taken by `Core::next_effect`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pending {
    pub wake: bool,
    pub watch: Option<bool>,
    pub gives_turn: bool,
    pub gets_turn: bool,
    pub lost_turn: bool,
    /// Whether the thread is in the list of threads that have effects.
    pub listed: bool,
    /// The next one in that list.
    pub next: Option<Slot>,
}

pub struct Thread {
    pub(crate) activity: Activity,
    pub(crate) stage: Stage,
    pub(crate) operation: Operation,
    pub(crate) how: How,
    pub(crate) facts: Facts,
    pub(crate) pending: Pending,
    /// Runs, or has run: its creation is over. False again once it has ended.
    pub(crate) alive: bool,
    /// Its number in the schedule.
    pub(crate) scheduled: Option<u32>,
    /// The last step of the schedule that is its own.
    pub(crate) last_step: Option<usize>,
    /// No step of the schedule is left for it, and it does not wait for those of the others.
    pub(crate) is_outside: bool,
    /// What it remembers of the schedule's next step while it is blocked outside the schedule.
    pub(crate) outside_wait: HeadWait,
    /// Since when its step has found its lock taken, by a thread that the schedule does not bind, in
    /// nanoseconds; 0 when it has not.
    pub(crate) busy_since: i64,
    /// Scheduling points passed since the first thread was created.
    pub(crate) points: u32,
    pub(crate) priority: u32,
    pub(crate) held: HeldLocks,
    /// The condition that it waits on, 0 for none; since when; and whether it was signalled.
    pub(crate) condition: usize,
    pub(crate) condition_order: u64,
    pub(crate) signalled: bool,
    /// Another thread has asked it to end.
    pub(crate) cancelled: bool,
    /// An access of the schedule had its turn, and is done at the thread's next hook.
    pub(crate) pending_access: bool,
    pub(crate) spin: Spin,
    /// The thread whose loop may have waited for what this one is writing.
    pub(crate) wrote_for: Option<Slot>,
    pub(crate) serial: SerialThread,
}

impl Thread {
    pub const fn new() -> Self {
        let nothing = Operation::new(Code::Start, 0, 0);
        Thread {
            activity: Activity::Running,
            stage: Stage::Outside,
            operation: nothing,
            how: How::AtItsTurn,
            facts: Facts {
                all_asleep: None,
                signal_could_help: None,
                processor_time: None,
                turn_holder: None,
            },
            pending: Pending {
                wake: false,
                watch: None,
                gives_turn: false,
                gets_turn: false,
                lost_turn: false,
                listed: false,
                next: None,
            },
            alive: false,
            scheduled: None,
            last_step: None,
            is_outside: false,
            outside_wait: HeadWait {
                cursor: None,
                looks: 0,
                since: 0,
                idle: 0,
            },
            busy_since: 0,
            points: 0,
            priority: 0,
            held: HeldLocks::new(),
            condition: 0,
            condition_order: 0,
            signalled: false,
            cancelled: false,
            pending_access: false,
            spin: Spin::new(),
            wrote_for: None,
            serial: SerialThread::new(),
        }
    }

    /// Whether it waits for another thread and no time-out ends that.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self.activity, Activity::Blocked { timed: false, .. })
    }

    /// Whether it waits on this condition and was not signalled yet.
    pub(crate) fn waits_on(&self, condition: usize) -> bool {
        self.condition == condition && condition != 0 && !self.signalled
    }
}

impl Default for Thread {
    fn default() -> Self {
        Self::new()
    }
}
