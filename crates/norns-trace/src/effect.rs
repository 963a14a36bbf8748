//! What an operation does that other threads can see: the classification that analyses match.
//!
//! An `Op` says what the program called; its `Effect` says which rules it follows. There is one
//! variant for each family of objects, with a small enum of what can be done to such an object, so
//! that an analysis of locks matches the three acts of `OnLock` and not five operations.
//!
//! An analysis of one family asks for it with `let Effect::Lock(lock, act) = … else`; one of
//! several families matches them without a wildcard arm (`tests/trace_files/wildcards.rs` holds
//! this). A new operation of a known family is then a row in `operation.rs`, and the compiler
//! names every place that a new family concerns.

use crate::event::{Access, AtomicKind, ObjectId, Op, ThreadId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Thread(OnThread),
    Lock(ObjectId, OnLock),
    Once(ObjectId, OnOnce),
    Condition(ObjectId, OnCondition),
    Barrier(ObjectId, OnBarrier),
    Semaphore(ObjectId, OnSemaphore),
    Channel(ObjectId, OnChannel),
    Memory(Touch),
    /// Nothing that lets another thread go on or that this thread could wait for: calls, fences,
    /// custom events.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnThread {
    Start,
    End,
    Fork(ThreadId),
    Join(ThreadId),
    FailedJoin(ThreadId),
    Detach(ThreadId),
}

/// How a lock is held. Mutexes and spin locks know `Write` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLock {
    Acquire(Mode),
    /// Was refused the lock, and did not wait for it or gave up.
    FailedAcquire(Mode),
    /// Releases one level of whichever mode the thread holds.
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOnce {
    /// Begins to run the initialiser.
    Begin,
    /// Has run the initialiser.
    End,
    /// Found that the initialiser has been run.
    Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCondition {
    /// Was woken. The thread has been in the queue since the `Unlock` just before.
    Wait,
    TimedOut,
    /// Wakes one thread of the queue.
    Signal,
    /// Wakes all threads of the queue.
    Broadcast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBarrier {
    /// From here on so many threads make a round.
    Init(u32),
    Enter,
    /// Its round was full.
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSemaphore {
    /// The value from here on.
    Init(u32),
    /// The value was positive, and is now one less.
    Wait,
    /// The value was not positive.
    FailedWait,
    Post,
}

/// What passes through the kernel. Every schedule keeps who received from whom: another message
/// would make the program do something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChannel {
    Send,
    /// Got what all earlier sends gave. Where one of them is missing, the thread has left the trace.
    Receive,
}

/// How an event touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub access: Access,
    pub reads: bool,
    pub writes: bool,
    pub kind: TouchKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TouchKind {
    Plain,
    Atomic,
    /// A write to the whole block, which ends its lifetime.
    Free,
    /// Gives the block new contents, but is no access that could race.
    Allocate,
    /// Uses an object that lies here, such as a mutex: a read of its first byte.
    Use,
    /// Ends the object that lies here: a write to its first byte.
    Destroy,
    /// Begins an object that lies here: a write to its first byte.
    Initialise,
}

impl Touch {
    pub(crate) fn read(access: Access) -> Touch {
        Touch::new(access, true, false, TouchKind::Plain)
    }

    pub(crate) fn write(access: Access) -> Touch {
        Touch::new(access, false, true, TouchKind::Plain)
    }

    pub(crate) fn free(access: Access) -> Touch {
        Touch::new(access, false, true, TouchKind::Free)
    }

    pub(crate) fn allocate(access: Access) -> Touch {
        Touch::new(access, false, true, TouchKind::Allocate)
    }

    pub(crate) fn of_use(access: Access) -> Touch {
        Touch::new(access, true, false, TouchKind::Use)
    }

    pub(crate) fn destroy(access: Access) -> Touch {
        Touch::new(access, false, true, TouchKind::Destroy)
    }

    pub(crate) fn initialise(access: Access) -> Touch {
        Touch::new(access, false, true, TouchKind::Initialise)
    }

    pub(crate) fn atomic(address: u64, size: u8, kind: AtomicKind) -> Touch {
        let size = u32::from(size);
        let (reads, writes) = match kind {
            AtomicKind::Load | AtomicKind::FailedExchange => (true, false),
            AtomicKind::Store => (false, true),
            AtomicKind::ReadModifyWrite => (true, true),
        };
        Touch::new(Access { address, size }, reads, writes, TouchKind::Atomic)
    }

    fn new(access: Access, reads: bool, writes: bool, kind: TouchKind) -> Touch {
        Touch {
            access,
            reads,
            writes,
            kind,
        }
    }

    /// `None` for an operation that touches no memory.
    #[inline]
    pub fn of(op: Op) -> Option<Touch> {
        let Effect::Memory(touch) = op.effect() else {
            return None;
        };
        Some(touch)
    }

    /// Whether two accesses of different threads would race if nothing kept them apart.
    pub fn conflicts(self, other: Touch) -> bool {
        (self.writes || other.writes)
            && self.kind != TouchKind::Allocate
            && other.kind != TouchKind::Allocate
            && !(self.kind == TouchKind::Atomic && other.kind == TouchKind::Atomic)
            && self.access.overlaps(other.access)
    }
}

/// Through what one thread lets another go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// From the fork of a thread to its first event.
    Start(ThreadId),
    /// From the last event of a thread to its join.
    End(ThreadId),
    /// From what frees, signals or counts up an object to what waited for that.
    Object(ObjectId),
}

/// The part of an operation in a synchronisation between two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handoff {
    /// What others receive through this channel happens after this operation.
    Sends(Channel),
    /// This operation happens after what was sent through this channel.
    Receives(Channel),
    /// Orders nothing by itself. Atomic operations are here as well: what they order depends on
    /// their memory order and on what they read.
    None,
}

impl Effect {
    /// The object that the operation works on, unless that is a thread or memory.
    #[inline]
    pub fn object(self) -> Option<ObjectId> {
        match self {
            Effect::Lock(object, _)
            | Effect::Once(object, _)
            | Effect::Condition(object, _)
            | Effect::Barrier(object, _)
            | Effect::Semaphore(object, _)
            | Effect::Channel(object, _) => Some(object),
            Effect::Thread(_) | Effect::Memory(_) | Effect::Local => None,
        }
    }

    /// Whether the operation gave up or was refused: it shows a state and changes nothing.
    #[inline]
    pub fn has_failed(self) -> bool {
        match self {
            Effect::Thread(act) => match act {
                OnThread::FailedJoin(_) => true,
                OnThread::Start
                | OnThread::End
                | OnThread::Fork(_)
                | OnThread::Join(_)
                | OnThread::Detach(_) => false,
            },
            Effect::Lock(_, act) => match act {
                OnLock::FailedAcquire(_) => true,
                OnLock::Acquire(_) | OnLock::Release => false,
            },
            Effect::Condition(_, act) => match act {
                OnCondition::TimedOut => true,
                OnCondition::Wait | OnCondition::Signal | OnCondition::Broadcast => false,
            },
            Effect::Semaphore(_, act) => match act {
                OnSemaphore::FailedWait => true,
                OnSemaphore::Init(_) | OnSemaphore::Wait | OnSemaphore::Post => false,
            },
            Effect::Once(..)
            | Effect::Barrier(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => false,
        }
    }

    /// Whether the operation can keep its thread blocked until another thread acts.
    #[inline]
    pub fn can_block(self) -> bool {
        match self {
            Effect::Thread(act) => match act {
                OnThread::Join(_) => true,
                OnThread::Start
                | OnThread::End
                | OnThread::Fork(_)
                | OnThread::FailedJoin(_)
                | OnThread::Detach(_) => false,
            },
            Effect::Lock(_, act) => match act {
                OnLock::Acquire(_) => true,
                OnLock::FailedAcquire(_) | OnLock::Release => false,
            },
            Effect::Once(_, act) => match act {
                OnOnce::Pass => true,
                OnOnce::Begin | OnOnce::End => false,
            },
            Effect::Condition(_, act) => match act {
                OnCondition::Wait => true,
                OnCondition::TimedOut | OnCondition::Signal | OnCondition::Broadcast => false,
            },
            Effect::Barrier(_, act) => match act {
                OnBarrier::Exit => true,
                OnBarrier::Init(_) | OnBarrier::Enter => false,
            },
            Effect::Semaphore(_, act) => match act {
                OnSemaphore::Wait => true,
                OnSemaphore::Init(_) | OnSemaphore::FailedWait | OnSemaphore::Post => false,
            },
            Effect::Channel(..) | Effect::Memory(_) | Effect::Local => false,
        }
    }

    /// The part of the operation, done by `thread`, in the synchronisation with other threads.
    #[inline]
    pub fn handoff(self, thread: ThreadId) -> Handoff {
        use Handoff::{Receives, Sends};
        match self {
            Effect::Thread(act) => match act {
                OnThread::Fork(child) => Sends(Channel::Start(child)),
                OnThread::Start => Receives(Channel::Start(thread)),
                OnThread::End => Sends(Channel::End(thread)),
                OnThread::Join(child) => Receives(Channel::End(child)),
                OnThread::FailedJoin(_) | OnThread::Detach(_) => Handoff::None,
            },
            Effect::Lock(lock, act) => match act {
                OnLock::Acquire(_) => Receives(Channel::Object(lock)),
                OnLock::Release => Sends(Channel::Object(lock)),
                OnLock::FailedAcquire(_) => Handoff::None,
            },
            Effect::Once(once, act) => match act {
                OnOnce::End => Sends(Channel::Object(once)),
                OnOnce::Pass => Receives(Channel::Object(once)),
                OnOnce::Begin => Handoff::None,
            },
            Effect::Condition(condition, act) => match act {
                OnCondition::Signal | OnCondition::Broadcast => Sends(Channel::Object(condition)),
                OnCondition::Wait => Receives(Channel::Object(condition)),
                OnCondition::TimedOut => Handoff::None,
            },
            Effect::Barrier(barrier, act) => match act {
                OnBarrier::Enter => Sends(Channel::Object(barrier)),
                OnBarrier::Exit => Receives(Channel::Object(barrier)),
                OnBarrier::Init(_) => Handoff::None,
            },
            Effect::Semaphore(semaphore, act) => match act {
                OnSemaphore::Post => Sends(Channel::Object(semaphore)),
                OnSemaphore::Wait => Receives(Channel::Object(semaphore)),
                OnSemaphore::Init(_) | OnSemaphore::FailedWait => Handoff::None,
            },
            Effect::Channel(channel, act) => match act {
                OnChannel::Send => Sends(Channel::Object(channel)),
                OnChannel::Receive => Receives(Channel::Object(channel)),
            },
            Effect::Memory(_) | Effect::Local => Handoff::None,
        }
    }
}
