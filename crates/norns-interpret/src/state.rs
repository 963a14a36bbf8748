//! The state of a run: memory, threads, synchronisation, files. A clone shares what neither side changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use norns_ir::PlaceId;

use crate::files::Files;
use crate::memory::{Memory, ObjectId};
use crate::op::Shape;
use crate::outcome::Write;
use crate::signals::{Signal, Signals};
use crate::symbolic::Expression;
use crate::synchronisation::{Synchronisation, Wait};
use crate::weak::{Clock, Histories, View};

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) memory: Memory,
    pub(crate) threads: Vec<Thread>,
    pub(crate) current: usize,
    pub(crate) synchronisation: Rc<Synchronisation>,
    pub(crate) files: Rc<Files>,
    pub(crate) signals: Rc<Signals>,
    pub(crate) writes: Vec<Rc<Write>>,
    pub(crate) steps: u64,
    /// Nanoseconds that passed while all threads slept.
    pub(crate) slept: u64,
    /// How often the program has asked what time it is.
    pub(crate) asked_for_time: u64,
    /// Raised by what leaves the process and by other effects that are not in memory.
    pub(crate) effects: u64,
    pub(crate) random: u64,
    pub(crate) exit_handlers: Vec<Handler>,
    pub(crate) quick_exit_handlers: Vec<Handler>,
    /// Lines `NAME=value`.
    pub(crate) environment: Rc<Vec<Vec<u8>>>,
    pub(crate) keys: Vec<Option<u64>>,
    pub(crate) exceptions: Rc<BTreeMap<u64, Exception>>,
    pub(crate) histories: Rc<Histories>,
    /// Objects of the C library by name: `stdout`, `environ`, what `getenv` returned.
    pub(crate) named: BTreeMap<Vec<u8>, ObjectId>,
    /// Local variables whose addresses other threads may know; kept by explorations only.
    pub(crate) escaped: Rc<BTreeSet<ObjectId>>,
    /// How many locks were not taken because the run is to do without.
    pub(crate) locks_left_out: u64,
}

/// A function that runs when the process or a thread ends.
#[derive(Clone, Copy, Hash)]
pub(crate) struct Handler {
    pub(crate) function: u64,
    pub(crate) argument: u64,
}

#[derive(Clone, Hash)]
pub(crate) struct Exception {
    pub(crate) r#type: u64,
    pub(crate) destructor: u64,
    pub(crate) handlers: u32,
    pub(crate) references: u32,
}

#[derive(Clone, Hash)]
pub(crate) struct Thread {
    pub(crate) registers: Vec<u64>,
    /// For each register, what it is as a function of the input; registers beyond the end are constants.
    pub(crate) shadow: Vec<Option<Expression>>,
    pub(crate) frames: Vec<Frame>,
    /// The stack slots of its functions.
    pub(crate) stack: Vec<ObjectId>,
    pub(crate) status: Status,
    /// What a call of the library that is executed again has done so far.
    pub(crate) resume: Resume,
    /// What a function returned that the library called.
    pub(crate) returned: u64,
    pub(crate) result: u64,
    pub(crate) is_detached: bool,
    pub(crate) is_joined: bool,
    pub(crate) locals: BTreeMap<u32, ObjectId>,
    pub(crate) errno: Option<ObjectId>,
    pub(crate) specific: BTreeMap<u32, u64>,
    pub(crate) at_end: Vec<Handler>,
    /// Signals that it does not take now.
    pub(crate) mask: u64,
    /// The mask before `sigsuspend`.
    pub(crate) suspended: Option<u64>,
    pub(crate) pending: Vec<Signal>,
    /// What the handlers that run interrupted, innermost last.
    pub(crate) interrupted: Vec<Interrupted>,
    /// By the address of the `jmp_buf`.
    pub(crate) jumps: BTreeMap<u64, Jump>,
    pub(crate) cancellation: Cancellation,
    /// The `jmp_buf`s of handlers that run if the thread is cancelled.
    pub(crate) clean_ups: Vec<u64>,
    /// When the call that waits stops to do so.
    pub(crate) until: Option<u64>,
    /// Mutexes that the run does without, and that the thread would hold.
    pub(crate) left_out: Vec<u64>,
    /// Exceptions that are handled, innermost last.
    pub(crate) caught: Vec<u64>,
    /// The exception that is thrown, and the selector of the landing pad it goes to.
    pub(crate) thrown: (u64, u64),
    /// Since when the thread is kept waiting for the order of two accesses.
    pub(crate) held_since: Option<u64>,
    /// The next access is not kept waiting.
    pub(crate) is_released: bool,
    /// Stores that other threads do not see yet, oldest first.
    pub(crate) buffer: VecDeque<Buffered>,
    pub(crate) clock: Clock,
    pub(crate) view: View,
}

/// What a thread did when a handler began.
#[derive(Clone, Hash)]
pub(crate) struct Interrupted {
    /// The number of the handler's frame.
    pub(crate) depth: usize,
    /// The mask that it gets back.
    pub(crate) mask: u64,
    pub(crate) wait: Option<(Wait, Option<u64>)>,
    /// SA_RESTART
    pub(crate) restarts: bool,
}

/// Where `longjmp` goes on.
#[derive(Clone, Copy, Hash)]
pub(crate) struct Jump {
    pub(crate) depth: usize,
    pub(crate) function: u32,
    pub(crate) base: u32,
    pub(crate) pc: u32,
    pub(crate) mask: Option<u64>,
}

#[derive(Clone, Copy, Default, Hash)]
pub(crate) struct Cancellation {
    pub(crate) is_requested: bool,
    pub(crate) is_disabled: bool,
    pub(crate) is_asynchronous: bool,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Buffered {
    pub(crate) address: u64,
    pub(crate) bytes: u8,
    pub(crate) value: u64,
    pub(crate) place: Option<PlaceId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Ready,
    Waiting { wait: Wait, deadline: Option<u64> },
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resume {
    None,
    /// The wait is over, in time or not.
    Woken {
        timed_out: bool,
    },
    /// A condition was waited for; the mutex is still to be taken.
    Mutex {
        timed_out: bool,
    },
    Called(u64),
    Sort(Box<Sort>),
}

/// Insertion sort by the program's own comparison.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sort {
    pub(crate) outer: u64,
    pub(crate) inner: u64,
}

#[derive(Clone, Hash)]
pub(crate) struct Frame {
    pub(crate) function: u32,
    pub(crate) pc: u32,
    pub(crate) base: u32,
    /// How many stack slots the thread had when the function was entered.
    pub(crate) stack: u32,
    pub(crate) after: After,
    /// What the call of the library that it was called from has done so far.
    pub(crate) saved: Resume,
    /// Arguments beyond the fixed ones.
    pub(crate) variadic: Option<Rc<[(u64, Shape)]>>,
}

/// What happens when a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum After {
    /// The caller gets the result and goes on after its call.
    Caller,
    /// The call of the library that called it is executed again.
    Again,
    /// The frame below goes on where it is.
    Discard,
    Main,
    ExitHandler(i32),
    ThreadStart,
    ThreadHandler,
    /// The thread goes on with what a signal interrupted.
    Handler,
}

impl Thread {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            registers: Vec::new(),
            shadow: Vec::new(),
            frames: Vec::new(),
            stack: Vec::new(),
            status: Status::Ready,
            resume: Resume::None,
            returned: 0,
            result: 0,
            is_detached: false,
            is_joined: false,
            locals: BTreeMap::new(),
            errno: None,
            specific: BTreeMap::new(),
            at_end: Vec::new(),
            mask: 0,
            suspended: None,
            pending: Vec::new(),
            interrupted: Vec::new(),
            jumps: BTreeMap::new(),
            cancellation: Cancellation::default(),
            clean_ups: Vec::new(),
            until: None,
            left_out: Vec::new(),
            caught: Vec::new(),
            thrown: (0, 0),
            held_since: None,
            is_released: false,
            buffer: VecDeque::new(),
            clock,
            view: View::default(),
        }
    }

    pub(crate) fn shadow_of(&self, register: usize) -> Option<Expression> {
        self.shadow.get(register).copied().flatten()
    }

    pub(crate) fn put_shadow(&mut self, register: usize, expression: Option<Expression>) {
        if self.shadow.len() <= register {
            if expression.is_none() {
                return;
            }
            self.shadow.resize(register + 1, None);
        }
        self.shadow[register] = expression;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.status == Status::Ended
    }

    /// Whether the thread is to end where it can be cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_requested && !self.cancellation.is_disabled
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status == Status::Ready
    }
}

impl State {
    /// A day of the year 2023, so that programs find a plausible date.
    pub(crate) const START: u64 = 1_700_000_000_000_000_000;

    /// The simulated time in nanoseconds: each operation takes one.
    pub(crate) fn now(&self) -> u64 {
        Self::START + self.steps + self.slept
    }

    pub(crate) fn synchronisation_mut(&mut self) -> &mut Synchronisation {
        Rc::make_mut(&mut self.synchronisation)
    }

    pub(crate) fn files_mut(&mut self) -> &mut Files {
        Rc::make_mut(&mut self.files)
    }
}
