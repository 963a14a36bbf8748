//! Instructions, in the form of LLVM's: values are assigned once, each block ends in one terminator.

use crate::debug::PlaceId;
use crate::program::{BlockId, ConstantId, FunctionId, InstructionId};
use crate::types::TypeId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub kind: Kind,
    /// The type of its result; `Type::Void` where there is none.
    pub r#type: TypeId,
    pub place: Option<PlaceId>,
}

/// What an instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operand {
    /// A parameter of the function, counted from 0.
    Parameter(u32),
    /// The result of an instruction of the same function.
    Result(InstructionId),
    Constant(ConstantId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Binary(BinaryOperator, Operand, Operand),
    /// The only unary operator: negation of a floating-point number.
    Negate(Operand),
    Cast(Cast, Operand),
    Compare(Predicate, Operand, Operand),
    Select {
        condition: Operand,
        then: Operand,
        otherwise: Operand,
    },
    Freeze(Operand),
    Phi(Vec<(BlockId, Operand)>),
    /// A stack slot.
    Allocate {
        r#type: TypeId,
        count: Operand,
    },
    Load {
        address: Operand,
        is_volatile: bool,
        order: Option<AtomicOrder>,
    },
    Store {
        address: Operand,
        value: Operand,
        is_volatile: bool,
        order: Option<AtomicOrder>,
    },
    /// Reads, computes and writes in one step.
    Update {
        update: AtomicUpdate,
        address: Operand,
        value: Operand,
        is_volatile: bool,
        order: AtomicOrder,
    },
    CompareExchange {
        address: Operand,
        expected: Operand,
        new: Operand,
        is_volatile: bool,
        success: AtomicOrder,
        failure: AtomicOrder,
    },
    Fence(AtomicOrder),
    /// The address of a part (`getelementptr`). The first index steps over whole values of `source`, each
    /// further one selects a field or an element.
    ElementAddress {
        source: TypeId,
        base: Operand,
        indices: Vec<Operand>,
    },
    ExtractValue(Operand, Vec<u32>),
    InsertValue {
        aggregate: Operand,
        value: Operand,
        indices: Vec<u32>,
    },
    ExtractElement(Operand, Operand),
    InsertElement {
        vector: Operand,
        value: Operand,
        index: Operand,
    },
    Shuffle(Operand, Operand, Operand),
    VariadicArgument(Operand),
    Call {
        callee: Callee,
        signature: TypeId,
        arguments: Vec<Operand>,
    },
    LandingPad {
        is_cleanup: bool,
        clauses: Vec<LandingClause>,
    },
    /// An instruction of another kind (exception handling of other systems): its name and operands.
    Other(String, Vec<Operand>),

    // Terminators.
    Return(Option<Operand>),
    Jump(BlockId),
    Branch {
        condition: Operand,
        then: BlockId,
        otherwise: BlockId,
    },
    Switch {
        value: Operand,
        default: BlockId,
        cases: Vec<(ConstantId, BlockId)>,
    },
    IndirectJump(Operand, Vec<BlockId>),
    /// A call that goes on in one of two blocks: C++ in a scope with something to clean up or catch.
    Invoke {
        callee: Callee,
        signature: TypeId,
        arguments: Vec<Operand>,
        normal: BlockId,
        unwind: BlockId,
    },
    /// An `asm goto`.
    CallBranch {
        callee: Callee,
        arguments: Vec<Operand>,
        default: BlockId,
        others: Vec<BlockId>,
    },
    Resume(Operand),
    Unreachable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    Function(FunctionId),
    /// Through a pointer.
    Indirect(Operand),
    /// The text of the assembler and its constraints.
    Assembler(String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LandingClause {
    Catch(Operand),
    Filter(Operand),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    DivideUnsigned,
    DivideSigned,
    RemainderUnsigned,
    RemainderSigned,
    ShiftLeft,
    ShiftRightLogical,
    ShiftRightArithmetic,
    And,
    Or,
    Xor,
    AddFloat,
    SubtractFloat,
    MultiplyFloat,
    DivideFloat,
    RemainderFloat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cast {
    Truncate,
    ZeroExtend,
    SignExtend,
    FloatToUnsigned,
    FloatToSigned,
    UnsignedToFloat,
    SignedToFloat,
    FloatTruncate,
    FloatExtend,
    PointerToInteger,
    IntegerToPointer,
    Bits,
    AddressSpace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    Equal,
    NotEqual,
    UnsignedGreater,
    UnsignedGreaterOrEqual,
    UnsignedLess,
    UnsignedLessOrEqual,
    SignedGreater,
    SignedGreaterOrEqual,
    SignedLess,
    SignedLessOrEqual,
    /// A comparison of floating-point numbers, by LLVM's number: bit 0 equal, 1 greater, 2 less, 3 unordered.
    Float(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AtomicOrder {
    /// LLVM's `unordered` (Java) counts as relaxed.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
    SequentiallyConsistent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicUpdate {
    Exchange,
    Add,
    Subtract,
    And,
    Nand,
    Or,
    Xor,
    MaximumSigned,
    MinimumSigned,
    MaximumUnsigned,
    MinimumUnsigned,
    /// One of the rare others, by LLVM's number.
    Other(u8),
}
