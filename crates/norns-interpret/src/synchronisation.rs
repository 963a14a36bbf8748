//! Mutexes, conditions and the like: who holds what, who waits for what.
//!
//! They are kept by address beside the program's memory; an object that was never initialised by a call
//! gets its kind from memory, as the static initialisers leave it.

use std::collections::BTreeMap;

use crate::files::Direction;

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Synchronisation {
    pub(crate) mutexes: BTreeMap<u64, Mutex>,
    pub(crate) reader_writer: BTreeMap<u64, ReaderWriter>,
    pub(crate) conditions: BTreeMap<u64, Condition>,
    pub(crate) semaphores: BTreeMap<u64, u64>,
    pub(crate) barriers: BTreeMap<u64, Barrier>,
    pub(crate) onces: BTreeMap<u64, Once>,
    /// The threads that wait for a futex, in the order in which they came.
    pub(crate) futexes: BTreeMap<u64, Vec<usize>>,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Mutex {
    pub(crate) owner: Option<usize>,
    pub(crate) count: u32,
    pub(crate) kind: MutexKind,
    pub(crate) is_robust: bool,
    pub(crate) remains: Remains,
}

/// What the end of its owner left of a robust mutex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Remains {
    #[default]
    Nothing,
    /// The owner ended; the next one is told.
    OfDead,
    /// Its owner was told, and has not said that the data is consistent.
    Inconsistent,
    Unusable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum MutexKind {
    #[default]
    Normal,
    Recursive,
    ErrorChecking,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct ReaderWriter {
    pub(crate) writer: Option<usize>,
    /// A thread is in it as often as it reads.
    pub(crate) readers: Vec<usize>,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Condition {
    /// The threads that wait, in the order in which they came.
    pub(crate) waiters: Vec<usize>,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Barrier {
    pub(crate) needed: u64,
    pub(crate) waiters: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Once {
    Running(usize),
    Done,
}

/// What a blocked thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    Mutex(u64),
    Read(u64),
    Write(u64),
    Condition(u64),
    /// The end of all waits for a condition that is destroyed.
    Destruction(u64),
    Semaphore(u64),
    Barrier(u64),
    Once(u64),
    Thread(usize),
    Sleep,
    /// Any of these open descriptions is ready.
    Ready(Vec<(usize, Direction)>),
    /// The lock of a file through a description, perhaps to have it alone.
    FileLock(usize, bool),
    /// A word in memory that another thread says it has changed.
    Futex(u64),
    /// Any handler: `pause` and the like.
    Signal,
    /// A signal of a set.
    Signals(u64),
    /// An initialiser that waits for its own end.
    Itself,
}

impl Synchronisation {
    /// Whether a thread that waits for this could go on by itself. Conditions, barriers and sleeps are
    /// ended by others or by time.
    pub(crate) fn is_over(&self, wait: &Wait, thread: usize) -> bool {
        match wait {
            Wait::Mutex(address) => {
                let owner = self.mutexes.get(address).and_then(|mutex| mutex.owner);
                owner.is_none()
            }
            Wait::Read(address) => {
                let lock = self.reader_writer.get(address);
                lock.is_none_or(|lock| lock.writer.is_none())
            }
            Wait::Write(address) => {
                let lock = self.reader_writer.get(address);
                lock.is_none_or(|lock| lock.writer.is_none() && lock.readers.is_empty())
            }
            Wait::Semaphore(address) => {
                self.semaphores.get(address).is_some_and(|&count| count > 0)
            }
            Wait::Destruction(address) => {
                let condition = self.conditions.get(address);
                condition.is_none_or(|condition| condition.waiters.is_empty())
            }
            Wait::Once(address) => !matches!(
                self.onces.get(address),
                Some(Once::Running(runner)) if *runner != thread
            ),
            Wait::Condition(_)
            | Wait::Barrier(_)
            | Wait::Thread(_)
            | Wait::Sleep
            | Wait::Ready(_)
            | Wait::FileLock(..)
            | Wait::Futex(_)
            | Wait::Signal
            | Wait::Signals(_)
            | Wait::Itself => false,
        }
    }
}

impl Wait {
    pub(crate) fn describe(&self) -> String {
        match self {
            Wait::Mutex(_) => "a mutex".to_owned(),
            Wait::Read(_) => "a reader-writer lock, for reading".to_owned(),
            Wait::Write(_) => "a reader-writer lock, for writing".to_owned(),
            Wait::Condition(_) => "a condition variable".to_owned(),
            Wait::Destruction(_) => "those who wait for the condition that it destroys".to_owned(),
            Wait::Semaphore(_) => "a semaphore".to_owned(),
            Wait::Barrier(_) => "a barrier".to_owned(),
            Wait::Once(_) => "an initialisation".to_owned(),
            Wait::Thread(thread) => format!("the end of thread {thread}"),
            Wait::Sleep => "time".to_owned(),
            Wait::Ready(all) => match all.iter().all(|one| one.1 == Direction::Write) {
                true => "room in a pipe".to_owned(),
                false => "bytes from a pipe or another descriptor".to_owned(),
            },
            Wait::FileLock(..) => "the lock of a file".to_owned(),
            Wait::Futex(_) => "a futex".to_owned(),
            Wait::Signal | Wait::Signals(_) => "a signal".to_owned(),
            Wait::Itself => "the initialisation that it is in".to_owned(),
        }
    }
}
