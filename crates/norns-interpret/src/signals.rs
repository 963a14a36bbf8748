//! Signals and timers: what the program does about a signal, which ones are pending, when the next one is due.

use std::collections::BTreeMap;

pub(crate) const SIGABRT: u8 = 6;
pub(crate) const SIGKILL: u8 = 9;
pub(crate) const SIGSEGV: u8 = 11;
pub(crate) const SIGPIPE: u8 = 13;
pub(crate) const SIGALRM: u8 = 14;
const SIGCHLD: u8 = 17;
const SIGCONT: u8 = 18;
pub(crate) const SIGSTOP: u8 = 19;
const SIGTTOU: u8 = 22;
const SIGURG: u8 = 23;
const SIGWINCH: u8 = 28;

/// What `sigaction` calls the default and ignoring.
pub(crate) const DEFAULT: u64 = 0;
pub(crate) const IGNORE: u64 = 1;

pub(crate) const SA_SIGINFO: u32 = 4;
pub(crate) const SA_RESTART: u32 = 0x1000_0000;
pub(crate) const SA_NODEFER: u32 = 0x4000_0000;
pub(crate) const SA_RESETHAND: u32 = 0x8000_0000;

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Signals {
    pub(crate) actions: BTreeMap<u8, Action>,
    /// For whichever thread takes it first.
    pub(crate) pending: Vec<Signal>,
    pub(crate) timers: Vec<Timer>,
    /// The timer of `setitimer` and `alarm`.
    pub(crate) alarm: Option<usize>,
}

/// What `sigaction` sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Action {
    pub(crate) handler: u64,
    pub(crate) mask: u64,
    pub(crate) flags: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signal {
    pub(crate) number: u8,
    /// Where it comes from, as `si_code` says it.
    pub(crate) code: i32,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Timer {
    /// When it expires next, in simulated nanoseconds.
    pub(crate) due: Option<u64>,
    /// 0 for a timer that expires once.
    pub(crate) interval: u64,
    pub(crate) expiration: Expiration,
}

/// What a timer does when it expires.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Expiration {
    Signal(u8),
    /// Calls a function in a thread of its own.
    Thread {
        function: u64,
        argument: u64,
    },
    /// Counts what can be read from its descriptor.
    Count(u64),
    Nothing,
}

impl Signal {
    pub(crate) fn new(number: u8) -> Self {
        Self { number, code: 0 }
    }
}

/// The set with one signal.
pub(crate) fn bit(number: u8) -> u64 {
    1 << (number - 1)
}

/// Signals that can be neither blocked nor handled.
pub(crate) fn unblockable() -> u64 {
    bit(SIGKILL) | bit(SIGSTOP)
}

/// What a signal does to a process that did not ask for anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Ends,
    Stops,
    Nothing,
    Handler(Action),
}

impl Signals {
    pub(crate) fn fate(&self, number: u8) -> Fate {
        let action = self.actions.get(&number).copied().unwrap_or_default();
        match action.handler {
            IGNORE => Fate::Nothing,
            DEFAULT => match number {
                SIGCHLD | SIGCONT | SIGURG | SIGWINCH => Fate::Nothing,
                SIGSTOP..=SIGTTOU => Fate::Stops,
                _ => Fate::Ends,
            },
            _ => Fate::Handler(action),
        }
    }
}
