//! One thing that a thread did.
//!
//! Follows Tables 4.1 and 5.1 of Carril (2017), with the failed forms as their own
//! events and with what pthreads has beyond them. Every event is a completed operation: `Lock`
//! means that the mutex was acquired, `Wait` that the thread was woken.
//!
//! A wait on a condition is always three neighbouring events of its thread: `Unlock` of the
//! mutex (which also enters the queue of waiters, in the same atomic step), `Wait` or
//! `FailedWait`, and `Lock` of the mutex.

use std::fmt;

/// A thread of the trace: an index into `Trace::threads`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// A synchronisation object: an index into `Trace::objects`. An object that was destroyed and
/// made again at the same address is another object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// Where in the program an event happened: an index into `Trace::places`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub u32);

/// The position of an event in `Trace::events`, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventIndex(pub u32);

macro_rules! index_type {
    ($($name:ident $prefix:literal)*) => {$(
        impl $name {
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Panics when `index` does not fit: no table of a trace is that long.
            #[inline]
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("tables of a trace have fewer than 2^32 entries"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )*};
}

index_type! { ThreadId "t" ObjectId "o" PlaceId "p" EventIndex "e" }

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    pub thread: ThreadId,
    pub place: PlaceId,
    pub op: Op,
}

/// The bytes that a memory access touches. Never empty, never past the end of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    pub address: u64,
    pub size: u32,
}

impl Access {
    pub fn overlaps(self, other: Access) -> bool {
        self.address < other.address + u64::from(other.size)
            && other.address < self.address + u64::from(self.size)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicKind {
    Load,
    Store,
    /// An exchange, a fetch-and-modify, or a compare-exchange that succeeded.
    ReadModifyWrite,
    /// A compare-exchange that failed: it only read.
    FailedExchange,
}

impl AtomicKind {
    /// In the order of their numbers in trace files and in the raw stream.
    const NUMBERED: [AtomicKind; 4] = [
        AtomicKind::Load,
        AtomicKind::Store,
        AtomicKind::ReadModifyWrite,
        AtomicKind::FailedExchange,
    ];

    /// The kind whose number is in the two lowest bits.
    pub fn from_number(number: u8) -> Self {
        Self::NUMBERED[usize::from(number & 3)]
    }

    pub fn number(self) -> u8 {
        match self {
            AtomicKind::Load => 0,
            AtomicKind::Store => 1,
            AtomicKind::ReadModifyWrite => 2,
            AtomicKind::FailedExchange => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryOrder {
    Relaxed,
    Consume,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

/// What a thread did. What is true of each operation stands in `operation.rs`, what it does to
/// other threads in `effect.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// First event of every thread but the main one.
    Start,
    /// Last event of a thread that ended before the run did.
    End,
    Fork(ThreadId),
    Join(ThreadId),
    /// A try- or timed join that gave up.
    FailedJoin(ThreadId),
    Detach(ThreadId),

    /// Acquired a mutex or spin lock, or a reader-writer lock for writing. A recursive mutex gives
    /// one `Lock` for every level.
    Lock(ObjectId),
    /// A try- or timed lock that did not acquire the lock, or an error-checking mutex that returned
    /// EDEADLK.
    FailedLock(ObjectId),
    ReadLock(ObjectId),
    FailedReadLock(ObjectId),
    /// Released one level of a lock that the thread holds, in whichever mode.
    Unlock(ObjectId),

    /// Began to run the initialiser of a `once` (or of a C++ static variable).
    OnceBegin(ObjectId),
    OnceEnd(ObjectId),
    /// Found that the initialiser had run, perhaps after waiting for it.
    OncePass(ObjectId),

    /// Woke from a wait on this condition.
    Wait(ObjectId),
    /// A timed wait that timed out.
    FailedWait(ObjectId),
    Signal(ObjectId),
    Broadcast(ObjectId),

    BarrierInit {
        barrier: ObjectId,
        count: u32,
    },
    BarrierEnter(ObjectId),
    BarrierExit(ObjectId),

    SemInit {
        sem: ObjectId,
        value: u32,
    },
    SemWait(ObjectId),
    FailedSemWait(ObjectId),
    SemPost(ObjectId),

    /// Gave something to the kernel that others can receive: bytes for a pipe, a signal. An event
    /// before the system call.
    Send(ObjectId),
    /// Got from the kernel what every earlier `Send` on this channel gave to it. An event after
    /// the system call.
    Receive(ObjectId),

    Atomic {
        address: u64,
        size: u8,
        kind: AtomicKind,
        order: MemoryOrder,
    },
    Fence(MemoryOrder),

    Read(Access),
    Write(Access),
    Allocate(Access),
    /// A write to the whole block. The size is the block's; 1 when it is not known.
    Free(Access),

    /// Uses the object at these bytes, such as a mutex: the operation that follows does. Shown where
    /// another thread may end the object's life (`life.rs`).
    Use(Access),
    /// Destroys the object at these bytes.
    Destroy(Access),
    /// Makes a new object at these bytes.
    Initialise(Access),

    /// Locks a mutex that is handed over: one that a thread unlocked for another. It has no owner,
    /// and is acquired and released like a semaphore (`handed_over.rs`).
    Take(ObjectId),
    FailedTake(ObjectId),
    Give(ObjectId),

    /// The next operation of the thread misuses the object; `how` is one of `norns_wire::misuse`.
    Misuse {
        object: ObjectId,
        how: u32,
    },

    /// Left a loop that waits on this condition. Where the loop never had to wait, what made its condition
    /// true is known as a `Receive` instead (`wait_loops.rs`).
    LoopExit(ObjectId),

    /// Entered a function whose call is at the event's place.
    Enter,
    Leave,
    /// A user-specified event: an index into `Trace::customs`.
    Custom(u32),
}
