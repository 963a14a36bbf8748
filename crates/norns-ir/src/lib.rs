//! A program as data: what its compiler's front end made of it, for analyses that know nothing of LLVM.
#![forbid(unsafe_code)]

mod control_flow;
mod debug;
mod executable;
mod fold;
mod front_end;
mod instruction;
mod operands;
mod print;
mod program;
mod promote;
mod read;
mod section;
mod types;

pub use control_flow::{ControlFlow, Loop};
pub use debug::{DebugField, DebugType, DebugTypeId, File, FileId, Place, PlaceId, Variable};
pub use executable::{ExecutableError, is_elf};
pub use front_end::{CompileError, FrontEnd};
pub use instruction::{
    AtomicOrder, AtomicUpdate, BinaryOperator, Callee, Cast, Instruction, Kind, LandingClause,
    Operand, Predicate,
};
pub use program::{
    Block, BlockId, Constant, ConstantId, Function, FunctionId, Global, GlobalId, InstructionId,
    Linkage, Omission, Program,
};
pub use read::{Error, Fault, Linker};
pub use section::{Content, Piece, PieceError, SECTION};
pub use types::{Type, TypeId, Types};
