//! The table of operations: for each its number and word in trace files, its operands, the code
//! that the runtime gives it, whether a replay decides when it happens, and its effect.
//!
//! A new operation is a variant of `Op` and a row here; the compiler asks for the row. What
//! follows from these facts is asked of `Effect`, so that most analyses never name an operation.

use crate::effect::{
    Effect, Mode, OnBarrier, OnChannel, OnCondition, OnLock, OnOnce, OnSemaphore, OnThread, Touch,
    TouchKind,
};
use crate::event::{Access, AtomicKind, MemoryOrder, ObjectId, Op, ThreadId};
use norns_wire::Code;

/// What an operation works on, apart from its kind: the part that the file and the text form
/// write for every kind of the same shape in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    None,
    Thread(ThreadId),
    Object(ObjectId),
    Counted(ObjectId, u32),
    Memory(Access),
    Atomic {
        address: u64,
        size: u8,
        order: MemoryOrder,
    },
    Order(MemoryOrder),
    Custom(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    None,
    Thread,
    Object,
    Counted,
    Memory,
    Atomic,
    Order,
    Custom,
}

/// Who decides when an operation happens in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The schedule: the operation is a scheduling point.
    Scheduled,
    /// The thread itself, between two of its scheduling points.
    Free,
}

/// What is true of every operation of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The name in the text form.
    pub word: &'static str,
    pub shape: Shape,
    pub code: Code,
    pub turn: Turn,
}

macro_rules! operations {
    ($(
        $number:literal $word:literal
        $op:ident $(($($given:ident),*))? $({$($named:tt)*})?
        = $shape:ident $(($($operand:ident),*))? $({$($field:ident),*})?,
        $code:ident, $turn:ident, $effect:expr;
    )*) => {
        /// Every kind of operation. The position is its number in trace files.
        pub const OPERATIONS: [Operation; [$($number),*].len()] = [$(Operation {
            word: $word,
            shape: Shape::$shape,
            code: Code::$code,
            turn: Turn::$turn,
        }),*];

        #[allow(unused_variables, reason = "not every column of a row uses all operands")]
        impl Op {
            /// The position in `OPERATIONS`.
            #[inline]
            pub fn number(self) -> u8 {
                match self {
                    $(Op::$op $(($($given),*))? $({$($named)*})? => $number,)*
                }
            }

            pub fn operands(self) -> Operands {
                match self {
                    $(Op::$op $(($($given),*))? $({$($named)*})? =>
                        Operands::$shape $(($($operand),*))? $({$($field),*})?,)*
                }
            }

            /// The operation with this number; `None` when the operands do not have its shape.
            pub fn with_operands(number: u8, operands: Operands) -> Option<Op> {
                Some(match (number, operands) {
                    $(($number, Operands::$shape $(($($operand),*))? $({$($field),*})?) =>
                        Op::$op $(($($given),*))? $({$($named)*})?,)*
                    _ => return None,
                })
            }

            /// Which rules the operation follows.
            #[inline]
            pub fn effect(self) -> Effect {
                match self {
                    $(Op::$op $(($($given),*))? $({$($named)*})? => $effect,)*
                }
            }
        }
    };
}

// Number and word, operation and operands, code in the raw stream, turn, effect. Numbers are part
// of the file format: a new row goes to the end.
operations! {
    0 "start" Start = None, Start, Scheduled, Effect::Thread(OnThread::Start);
    1 "end" End = None, End, Scheduled, Effect::Thread(OnThread::End);
    2 "fork" Fork(t) = Thread(t), Fork, Scheduled, Effect::Thread(OnThread::Fork(t));
    3 "join" Join(t) = Thread(t), Join, Scheduled, Effect::Thread(OnThread::Join(t));
    4 "failed-join" FailedJoin(t) = Thread(t), FailedJoin, Scheduled,
        Effect::Thread(OnThread::FailedJoin(t));
    5 "detach" Detach(t) = Thread(t), Detach, Free, Effect::Thread(OnThread::Detach(t));
    6 "lock" Lock(o) = Object(o), Lock, Scheduled,
        Effect::Lock(o, OnLock::Acquire(Mode::Write));
    7 "failed-lock" FailedLock(o) = Object(o), FailedLock, Scheduled,
        Effect::Lock(o, OnLock::FailedAcquire(Mode::Write));
    8 "read-lock" ReadLock(o) = Object(o), ReadLock, Scheduled,
        Effect::Lock(o, OnLock::Acquire(Mode::Read));
    9 "failed-read-lock" FailedReadLock(o) = Object(o), FailedReadLock, Scheduled,
        Effect::Lock(o, OnLock::FailedAcquire(Mode::Read));
    10 "unlock" Unlock(o) = Object(o), Unlock, Scheduled, Effect::Lock(o, OnLock::Release);
    11 "once-begin" OnceBegin(o) = Object(o), OnceBegin, Scheduled,
        Effect::Once(o, OnOnce::Begin);
    12 "once-end" OnceEnd(o) = Object(o), OnceEnd, Scheduled, Effect::Once(o, OnOnce::End);
    13 "once-pass" OncePass(o) = Object(o), OncePass, Scheduled, Effect::Once(o, OnOnce::Pass);
    14 "wait" Wait(o) = Object(o), Wait, Scheduled, Effect::Condition(o, OnCondition::Wait);
    15 "failed-wait" FailedWait(o) = Object(o), FailedWait, Scheduled,
        Effect::Condition(o, OnCondition::TimedOut);
    16 "signal" Signal(o) = Object(o), Signal, Scheduled,
        Effect::Condition(o, OnCondition::Signal);
    17 "broadcast" Broadcast(o) = Object(o), Broadcast, Scheduled,
        Effect::Condition(o, OnCondition::Broadcast);
    18 "barrier-init" BarrierInit { barrier: o, count: n } = Counted(o, n), Init, Free,
        Effect::Barrier(o, OnBarrier::Init(n));
    19 "barrier-enter" BarrierEnter(o) = Object(o), BarrierEnter, Scheduled,
        Effect::Barrier(o, OnBarrier::Enter);
    20 "barrier-exit" BarrierExit(o) = Object(o), BarrierExit, Scheduled,
        Effect::Barrier(o, OnBarrier::Exit);
    21 "sem-init" SemInit { sem: o, value: n } = Counted(o, n), Init, Free,
        Effect::Semaphore(o, OnSemaphore::Init(n));
    22 "sem-wait" SemWait(o) = Object(o), SemWait, Scheduled,
        Effect::Semaphore(o, OnSemaphore::Wait);
    23 "failed-sem-wait" FailedSemWait(o) = Object(o), FailedSemWait, Scheduled,
        Effect::Semaphore(o, OnSemaphore::FailedWait);
    24 "sem-post" SemPost(o) = Object(o), SemPost, Scheduled,
        Effect::Semaphore(o, OnSemaphore::Post);
    25 "atomic-load" Atomic { address, size, order, kind: AtomicKind::Load }
        = Atomic { address, size, order }, Atomic, Scheduled,
        Effect::Memory(Touch::atomic(address, size, AtomicKind::Load));
    26 "atomic-store" Atomic { address, size, order, kind: AtomicKind::Store }
        = Atomic { address, size, order }, Atomic, Scheduled,
        Effect::Memory(Touch::atomic(address, size, AtomicKind::Store));
    27 "atomic-rmw" Atomic { address, size, order, kind: AtomicKind::ReadModifyWrite }
        = Atomic { address, size, order }, Atomic, Scheduled,
        Effect::Memory(Touch::atomic(address, size, AtomicKind::ReadModifyWrite));
    28 "atomic-failed" Atomic { address, size, order, kind: AtomicKind::FailedExchange }
        = Atomic { address, size, order }, Atomic, Scheduled,
        Effect::Memory(Touch::atomic(address, size, AtomicKind::FailedExchange));
    29 "fence" Fence(order) = Order(order), Fence, Free, Effect::Local;
    30 "read" Read(access) = Memory(access), Read, Free, Effect::Memory(Touch::read(access));
    31 "write" Write(access) = Memory(access), Write, Free, Effect::Memory(Touch::write(access));
    32 "allocate" Allocate(access) = Memory(access), Allocate, Free,
        Effect::Memory(Touch::allocate(access));
    33 "free" Free(access) = Memory(access), Free, Free, Effect::Memory(Touch::free(access));
    34 "enter" Enter = None, Enter, Free, Effect::Local;
    35 "leave" Leave = None, Leave, Free, Effect::Local;
    36 "custom" Custom(custom) = Custom(custom), Custom, Scheduled, Effect::Local;
    37 "send" Send(o) = Object(o), Send, Free, Effect::Channel(o, OnChannel::Send);
    38 "receive" Receive(o) = Object(o), Receive, Free, Effect::Channel(o, OnChannel::Receive);
    39 "use" Use(access) = Memory(access), Use, Free, Effect::Memory(Touch::of_use(access));
    40 "destroy" Destroy(access) = Memory(access), Destroy, Free,
        Effect::Memory(Touch::destroy(access));
    41 "initialise" Initialise(access) = Memory(access), Init, Free,
        Effect::Memory(Touch::initialise(access));
    42 "take" Take(o) = Object(o), Lock, Scheduled, Effect::Semaphore(o, OnSemaphore::Wait);
    43 "failed-take" FailedTake(o) = Object(o), FailedLock, Scheduled,
        Effect::Semaphore(o, OnSemaphore::FailedWait);
    44 "give" Give(o) = Object(o), Unlock, Scheduled, Effect::Semaphore(o, OnSemaphore::Post);
    45 "misuse" Misuse { object: o, how: n } = Counted(o, n), Misuse, Free, Effect::Local;
    46 "loop-exit" LoopExit(o) = Object(o), LoopExit, Free, Effect::Local;
}

impl Op {
    /// What is true of every operation of this kind.
    pub fn kind(self) -> Operation {
        OPERATIONS[usize::from(self.number())]
    }

    /// The operation with this code in the raw stream; `None` when the operands do not have the
    /// shape that operations with this code have.
    pub fn with_code(code: Code, operands: Operands) -> Option<Op> {
        let mut numbers = (0..).zip(&OPERATIONS).filter(|(_, kind)| kind.code == code);
        numbers.find_map(|(number, _)| Op::with_operands(number, operands))
    }

    /// The operation that a thread blocked at this code waits to complete; `None` when it does not
    /// wait for an object.
    pub fn blocked_at(code: Code, object: ObjectId) -> Option<Op> {
        let completed = match code {
            Code::BarrierEnter => Code::BarrierExit,
            Code::OnceBegin => Code::OncePass,
            code => code,
        };
        Op::with_code(completed, Operands::Object(object)).filter(|op| op.effect().can_block())
    }

    /// The object that this event works on, unless that is a thread or memory.
    #[inline]
    pub fn object(self) -> Option<ObjectId> {
        self.effect().object()
    }

    /// The lock that this event acquires, and how.
    #[inline]
    pub fn acquires(self) -> Option<(ObjectId, Mode)> {
        let Effect::Lock(lock, OnLock::Acquire(mode)) = self.effect() else {
            return None;
        };
        Some((lock, mode))
    }

    /// The memory that this event reads or writes as a plain access, and whether it writes.
    /// Atomic operations are not plain accesses.
    pub fn plain_access(self) -> Option<(Access, bool)> {
        let touch = Touch::of(self)?;
        match touch.kind {
            TouchKind::Plain | TouchKind::Free => Some((touch.access, touch.writes)),
            TouchKind::Atomic
            | TouchKind::Allocate
            | TouchKind::Use
            | TouchKind::Destroy
            | TouchKind::Initialise => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Handoff;

    fn any(shape: Shape) -> Operands {
        let access = Access {
            address: 64,
            size: 8,
        };
        match shape {
            Shape::None => Operands::None,
            Shape::Thread => Operands::Thread(ThreadId(1)),
            Shape::Object => Operands::Object(ObjectId(2)),
            Shape::Counted => Operands::Counted(ObjectId(3), 4),
            Shape::Memory => Operands::Memory(access),
            Shape::Atomic => Operands::Atomic {
                address: 64,
                size: 8,
                order: MemoryOrder::SeqCst,
            },
            Shape::Order => Operands::Order(MemoryOrder::Acquire),
            Shape::Custom => Operands::Custom(5),
        }
    }

    fn every_operation() -> impl Iterator<Item = (u8, Op)> {
        (0..).zip(&OPERATIONS).map(|(number, kind)| {
            let op = Op::with_operands(number, any(kind.shape));
            (number, op.expect("a row accepts operands of its own shape"))
        })
    }

    #[test]
    fn rows_stand_at_their_numbers_and_are_inverted() {
        for (number, op) in every_operation() {
            assert_eq!(op.number(), number);
            assert_eq!(Op::with_operands(number, op.operands()), Some(op));
            // What is handed over has the codes of a mutex.
            let is_handed_over = matches!(op, Op::Take(_) | Op::FailedTake(_) | Op::Give(_));
            if op.kind().shape == Shape::Object && !is_handed_over {
                assert_eq!(Op::with_code(op.kind().code, op.operands()), Some(op));
            }
        }
    }

    #[test]
    fn words_differ() {
        let words: std::collections::BTreeSet<_> =
            OPERATIONS.iter().map(|kind| kind.word).collect();
        assert_eq!(words.len(), OPERATIONS.len());
    }

    #[test]
    fn what_fails_neither_blocks_nor_orders() {
        for (_, op) in every_operation().filter(|(_, op)| op.effect().has_failed()) {
            assert!(!op.effect().can_block(), "{op:?}");
            assert_eq!(op.effect().handoff(ThreadId(0)), Handoff::None, "{op:?}");
        }
    }

    /// A thread is blocked until another thread sends through the channel that it receives from.
    #[test]
    fn what_blocks_receives() {
        for (_, op) in every_operation().filter(|(_, op)| op.effect().can_block()) {
            let handoff = op.effect().handoff(ThreadId(0));
            assert!(matches!(handoff, Handoff::Receives(_)), "{op:?}");
        }
    }
}
