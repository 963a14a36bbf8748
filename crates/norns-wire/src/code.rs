//! The codes of events, and what the `detail` byte of an event means for each of them.

/// Defines an enum whose variants have the bytes that stand for them in the stream.
macro_rules! bytes {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[$about:meta])* $variant:ident = $byte:literal,)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$about])* $variant = $byte,)* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            #[inline]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use bytes;

bytes! {
    /// What an event is. The comments give the meaning of its address, of its detail and of its
    /// operands, in this order; "ordered" events have a sequence number.
    pub enum Code {
        /// Address; size in bytes (1 to 16).
        Read = 1,
        /// As `Read`.
        Write = 2,
        /// Address; 0; size in bytes.
        ReadRange = 3,
        /// As `ReadRange`.
        WriteRange = 4,
        /// Address; `atomic_detail`. Ordered.
        Atomic = 5,
        /// 0; the memory order. Ordered.
        Fence = 6,
        /// Address of the block; 0; size in bytes. Ordered; the number is taken after `malloc` has
        /// returned.
        Allocate = 7,
        /// As `Allocate`; the number is taken before `free` is called.
        Free = 8,
        /// 0; 0. The program counter is that of the call.
        Enter = 9,
        /// The number of functions that were left; 0.
        Leave = 10,
        /// 0; 0; number of the parent thread, and which of its children this is (from 1). Ordered.
        /// The first event of every thread; both operands are 0 for the main thread.
        Start = 11,
        /// 0; 0. Ordered.
        End = 12,
        /// Number of the other thread; 0. Ordered.
        Fork = 13,
        /// As `Fork`.
        Join = 14,
        /// As `Fork`.
        FailedJoin = 15,
        /// As `Fork`.
        Detach = 16,
        /// Object; its kind (module `object`). Ordered. The codes from here to `SemPost` are alike.
        Lock = 17,
        FailedLock = 18,
        ReadLock = 19,
        FailedReadLock = 20,
        Unlock = 21,
        OnceBegin = 22,
        OnceEnd = 23,
        OncePass = 24,
        Wait = 25,
        FailedWait = 26,
        Signal = 27,
        Broadcast = 28,
        BarrierEnter = 29,
        BarrierExit = 30,
        SemWait = 31,
        FailedSemWait = 32,
        SemPost = 33,
        /// Object; its kind; the count of a barrier, the value of a semaphore, otherwise 0. Ordered.
        /// From here on a new object is at this address. For a lock 1 if it goes on in the same object,
        /// after the thread that held it has died.
        Init = 34,
        /// Object; its kind. Ordered. The object at this address ends here.
        Destroy = 35,
        /// 0; 0; bytes: the name, then the fields, each followed by a zero byte.
        Custom = 36,
        /// Address; 0; bytes: what the last access of this thread read.
        ValueRead = 37,
        /// Address; 0; bytes: what the last access of this thread wrote.
        ValueWritten = 38,
        /// 0; why (module `lost`); how many events are missing here.
        Lost = 39,
        /// 0; how (module `ended`); exit status or signal number. Ordered. The process ends here.
        ProcessEnd = 40,
        /// 0; 0. Ordered. In a recording of one thread at a time: another thread runs from here on.
        /// What this thread did before is before whatever others do after.
        Turn = 41,
        /// A message of a channel (`channel_object`); kind `CHANNEL`. Ordered; the number is taken
        /// before the system call that sends.
        Send = 42,
        /// As `Send`, or all messages of a channel so far; the number is taken after the system call
        /// that received.
        Receive = 43,
        /// Object; its kind; how it is misused (module `misuse`). Ordered, just before the operation that
        /// misuses it.
        Misuse = 44,
        /// Address; 0. Ordered, before the call: uses what is there, which must not end meanwhile.
        Use = 45,
        /// The number of a system call; 0. Ordered. It may order threads in a way that the runtime does
        /// not know. Only the first call of each number is told.
        UnknownCall = 46,
        /// A condition; its kind. Ordered. The thread leaves a loop that waits on this condition.
        LoopExit = 47,
    }
}

impl Code {
    /// Whether the event has a sequence number.
    #[inline(always)]
    pub const fn ordered(self) -> bool {
        !matches!(
            self,
            Code::Read
                | Code::Write
                | Code::ReadRange
                | Code::WriteRange
                | Code::Enter
                | Code::Leave
                | Code::Custom
                | Code::ValueRead
                | Code::ValueWritten
                | Code::Lost
        )
    }

    /// How many operands the event has (at most 2).
    #[inline(always)]
    pub const fn operands(self) -> usize {
        match self {
            Code::Start => 2,
            Code::ReadRange
            | Code::WriteRange
            | Code::Allocate
            | Code::Free
            | Code::Init
            | Code::Misuse
            | Code::Lost
            | Code::ProcessEnd => 1,
            _ => 0,
        }
    }

    /// Whether bytes of any length follow the operands.
    #[inline(always)]
    pub const fn has_bytes(self) -> bool {
        matches!(self, Code::Custom | Code::ValueRead | Code::ValueWritten)
    }
}

/// Kinds of synchronisation objects, as the detail of an event.
pub mod object {
    pub const MUTEX: u8 = 1;
    pub const RECURSIVE_MUTEX: u8 = 2;
    pub const ERROR_CHECKING_MUTEX: u8 = 3;
    pub const ROBUST_MUTEX: u8 = 4;
    pub const READER_WRITER_LOCK: u8 = 5;
    pub const SPIN_LOCK: u8 = 6;
    pub const ONCE: u8 = 7;
    pub const CONDITION: u8 = 8;
    pub const BARRIER: u8 = 9;
    pub const SEMAPHORE: u8 = 10;
    pub const CHANNEL: u8 = 11;
    /// Added to the kind when other processes can use the object too.
    pub const SHARED: u8 = 0x80;
}

/// Descriptors have addresses from here on, where no memory is.
pub const DESCRIPTORS: u64 = 0xfd << 56;

/// What stands for a descriptor: its number, and how often that number was closed before.
#[inline(always)]
pub const fn descriptor_address(number: u32, generation: u16) -> u64 {
    DESCRIPTORS | (generation as u64) << 32 | number as u64
}

/// The number of the descriptor that the address stands for.
pub const fn descriptor_number(address: u64) -> Option<u32> {
    if address >> 56 == DESCRIPTORS >> 56 {
        Some(address as u32)
    } else {
        None
    }
}

/// How an object is misused: the operand of `Code::Misuse`.
pub mod misuse {
    /// An unlock of a lock that nobody holds.
    pub const UNLOCK_NOT_LOCKED: u64 = 1;
    /// An unlock of a lock that another thread holds.
    pub const UNLOCK_OF_OTHER: u64 = 2;
    /// A wait on a condition with a mutex that the thread does not hold.
    pub const WAIT_NOT_LOCKED: u64 = 3;
    /// The destruction of a lock that is held.
    pub const DESTROY_LOCKED: u64 = 4;
    /// The use of a mutex or condition that was destroyed, or never initialised.
    pub const USE_DESTROYED: u64 = 5;
    /// The destruction of a condition on which a thread waits that nobody has woken.
    pub const DESTROY_WAITED: u64 = 6;
    /// What the program says of a lock of its own contradicts what it has said before.
    pub const CONTRADICTED: u64 = 7;
    /// A wait on a condition after which what is waited for is not tested again.
    pub const WAIT_ONCE: u64 = 16;
    /// What a wait on a condition waits for was tested without the mutex.
    pub const TEST_UNLOCKED: u64 = 17;
}

/// The detail of `Code::Atomic`: bits 0-2 are the binary logarithm of the size, bits 3-4 the kind
/// (load, store, read-modify-write, failed exchange), bits 5-7 the order (relaxed, consume,
/// acquire, release, acq_rel, seq_cst, as C numbers them).
#[inline(always)]
pub const fn atomic_detail(size_log2: u8, kind: u8, order: u8) -> u8 {
    (size_log2 & 7) | (kind & 3) << 3 | (order & 7) << 5
}

/// The detail of `Code::Lost`.
pub mod lost {
    /// A signal handler interrupted the recorder more often than it has room for.
    pub const SIGNAL_HANDLER: u8 = 1;
    /// The file could not be written.
    pub const DISK: u8 = 2;
}

/// The detail of `Code::ProcessEnd`.
pub mod ended {
    pub const EXIT: u8 = 1;
    /// `_exit`, `_Exit`, `quick_exit`.
    pub const IMMEDIATE_EXIT: u8 = 2;
    pub const ABORT: u8 = 3;
    /// A fatal signal: a crash.
    pub const SIGNAL: u8 = 4;
    /// Another program took the place of this one.
    pub const EXEC: u8 = 5;
}

/// The addresses of channels: no memory of a program is there. A channel has a number of its own in
/// its process, and so has each of its messages; number 0 is all messages of the channel together.
pub mod channel_object {
    const BASE: u64 = 1 << 62;
    const MESSAGE_BITS: u32 = 29;

    pub const fn address(channel: u32, message: u32) -> u64 {
        let message = message as u64 & ((1 << MESSAGE_BITS) - 1);
        BASE | (channel as u64) << MESSAGE_BITS | message
    }

    /// The address of all messages of the channel that this one belongs to.
    pub const fn all(address: u64) -> u64 {
        address & !((1 << MESSAGE_BITS) - 1)
    }
}
