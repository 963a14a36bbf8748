//! The code that the interpreter executes: dense operations on the registers of a frame.
//!
//! Every operand is the number of a register. Constants are registers, too: a frame begins as a copy of
//! its function's template, which holds them. An integer of `n` bits is kept zero-extended in 64; `s` is
//! `64 - n`, so that shifting left and right by it extends a result again. A value of an aggregate or
//! vector type is one register for each scalar in it.

use norns_ir::{
    AtomicOrder, AtomicUpdate, BinaryOperator, FunctionId, GlobalId, PlaceId, Predicate,
};
use rustc_hash::FxHashMap;

use crate::library::Model;

pub(crate) type Register = u32;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    Subtract {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    Multiply {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    DivideUnsigned {
        d: Register,
        a: Register,
        b: Register,
    },
    DivideSigned {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    RemainderUnsigned {
        d: Register,
        a: Register,
        b: Register,
    },
    RemainderSigned {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    ShiftLeft {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    ShiftRightLogical {
        d: Register,
        a: Register,
        b: Register,
    },
    ShiftRightArithmetic {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    And {
        d: Register,
        a: Register,
        b: Register,
    },
    Or {
        d: Register,
        a: Register,
        b: Register,
    },
    Xor {
        d: Register,
        a: Register,
        b: Register,
    },
    Float {
        operator: FloatOperator,
        is_double: bool,
        d: Register,
        a: Register,
        b: Register,
    },
    /// On numbers of 128 bits, in two registers each.
    Wide {
        operator: BinaryOperator,
        d: Register,
        a: Register,
        b: Register,
    },
    CompareWide {
        predicate: Predicate,
        d: Register,
        a: Register,
        b: Register,
    },
    Negate {
        is_double: bool,
        d: Register,
        a: Register,
    },
    Equal {
        d: Register,
        a: Register,
        b: Register,
    },
    NotEqual {
        d: Register,
        a: Register,
        b: Register,
    },
    UnsignedLess {
        d: Register,
        a: Register,
        b: Register,
    },
    UnsignedLessOrEqual {
        d: Register,
        a: Register,
        b: Register,
    },
    SignedLess {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    SignedLessOrEqual {
        s: u8,
        d: Register,
        a: Register,
        b: Register,
    },
    CompareFloats {
        predicate: u8,
        is_double: bool,
        d: Register,
        a: Register,
        b: Register,
    },
    Select {
        d: Register,
        condition: Register,
        a: Register,
        b: Register,
    },
    Move {
        d: Register,
        a: Register,
    },
    /// Keeps the low `64 - s` bits.
    Truncate {
        s: u8,
        d: Register,
        a: Register,
    },
    /// Sign-extends `64 - from` bits to `64 - to` bits.
    SignExtend {
        from: u8,
        to: u8,
        d: Register,
        a: Register,
    },
    ToFloat {
        is_signed: bool,
        s: u8,
        is_double: bool,
        d: Register,
        a: Register,
    },
    FromFloat {
        is_signed: bool,
        s: u8,
        is_double: bool,
        d: Register,
        a: Register,
    },
    /// From `float` to `double`.
    FloatExtend {
        d: Register,
        a: Register,
    },
    FloatTruncate {
        d: Register,
        a: Register,
    },
    /// `d = base + sign-extended index * scale`.
    Address {
        s: u8,
        d: Register,
        base: Register,
        index: Register,
        scale: u32,
    },
    /// The address of the current thread's instance of a thread-local variable.
    ThreadLocal {
        d: Register,
        global: GlobalId,
    },
    /// Copies bytes of memory to a stack slot.
    Copy {
        to: Register,
        from: Register,
        bytes: u32,
    },
    /// A stack slot of `size * count` bytes.
    Allocate {
        d: Register,
        count: Register,
        size: u32,
    },
    Load {
        bytes: u8,
        is_strict: bool,
        d: Register,
        address: Register,
    },
    Store {
        bytes: u8,
        address: Register,
        value: Register,
    },
    AtomicLoad {
        bytes: u8,
        order: AtomicOrder,
        d: Register,
        address: Register,
    },
    AtomicStore {
        bytes: u8,
        order: AtomicOrder,
        address: Register,
        value: Register,
    },
    Update {
        bytes: u8,
        update: AtomicUpdate,
        order: AtomicOrder,
        d: Register,
        address: Register,
        value: Register,
    },
    /// `d` gets the old value, the register after it whether the exchange happened.
    CompareExchange {
        bytes: u8,
        order: AtomicOrder,
        d: Register,
        address: Register,
        expected: Register,
        new: Register,
    },
    Fence(AtomicOrder),
    Jump(u32),
    Branch {
        condition: Register,
        then: u32,
        otherwise: u32,
    },
    Switch {
        value: Register,
        table: u32,
    },
    Call {
        call: u32,
    },
    Return {
        first: Register,
        count: u32,
    },
    /// The registers `d` and `d + 1` get the exception and the selector of the clause that caught it.
    LandingPad {
        d: Register,
    },
    Resume {
        exception: Register,
    },
    /// What the interpreter cannot do; the number is one of the function's reasons.
    GiveUp(u32),
    Unreachable,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum FloatOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A program that can be run.
pub(crate) struct Code {
    /// Indexed by `FunctionId`.
    pub(crate) functions: Vec<CodeFunction>,
    pub(crate) main: Option<FunctionId>,
    pub(crate) constructors: Vec<FunctionId>,
}

#[derive(Default)]
pub(crate) struct CodeFunction {
    /// Empty for a declaration.
    pub(crate) ops: Vec<Op>,
    /// For each operation, where the source has it.
    pub(crate) places: Vec<Option<PlaceId>>,
    pub(crate) template: Vec<u64>,
    pub(crate) calls: Vec<CallSite>,
    pub(crate) switches: Vec<SwitchTable>,
    /// By the position of the `LandingPad`.
    pub(crate) pads: FxHashMap<u32, Pad>,
    pub(crate) reasons: Vec<String>,
    /// What a declaration does, if that is known.
    pub(crate) library: Option<Model>,
    /// How many registers the fixed parameters take.
    pub(crate) parameters: u32,
    pub(crate) is_variadic: bool,
}

pub(crate) struct CallSite {
    pub(crate) callee: Target,
    pub(crate) arguments: Box<[Register]>,
    /// For each argument: the size in bytes, and whether it is a floating-point number.
    pub(crate) shapes: Box<[Shape]>,
    pub(crate) d: Register,
    /// How many registers the result takes.
    pub(crate) results: u32,
    /// Where to go on if the callee throws.
    pub(crate) unwind: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) bytes: u8,
    pub(crate) is_float: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Target {
    Function(FunctionId),
    Register(Register),
}

pub(crate) struct SwitchTable {
    /// Sorted by value.
    pub(crate) cases: Vec<(u64, u32)>,
    pub(crate) default: u32,
}

/// What a landing pad catches.
#[derive(Default)]
pub(crate) struct Pad {
    pub(crate) is_cleanup: bool,
    /// Addresses of type descriptions; 0 catches everything.
    pub(crate) catches: Vec<u64>,
    pub(crate) has_filter: bool,
}
