//! A whole program: the functions, globals and constants of all its modules.
//!
//! Everything is in tables and named by numbers. A declaration that another module defines is bound to
//! the definition; one that no module defines has no blocks and keeps its name.

use crate::debug::{DebugType, DebugTypeId, File, FileId, Place, PlaceId, Variable};
use crate::instruction::{Instruction, Operand};
use crate::types::{Type, TypeId, Types};

/// Defines a number that names an entry of one table.
#[macro_export]
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            #[must_use]
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("there are fewer than four thousand million of anything"))
            }

            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub use id;

id! {
    /// A function of a program.
    FunctionId
}
id! {
    /// A global variable of a program.
    GlobalId
}
id! {
    /// A constant of a program.
    ConstantId
}
id! {
    /// A block of a function; the entry is 0.
    BlockId
}
id! {
    /// An instruction of a function.
    InstructionId
}

#[derive(Clone, Debug, Default)]
pub struct Program {
    pub types: Types,
    pub functions: Vec<Function>,
    pub globals: Vec<Global>,
    pub constants: Vec<Constant>,
    pub files: Vec<File>,
    pub places: Vec<Place>,
    pub debug_types: Vec<DebugType>,
    /// The sources of its modules.
    pub modules: Vec<String>,
    /// Global constructors in the order in which they run.
    pub constructors: Vec<FunctionId>,
    pub omissions: Vec<Omission>,
}

/// Something of the program that was not read: what the reader did not understand, a source or library
/// without bitcode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Omission {
    /// The module, source, library or function that it is about.
    pub module: String,
    pub what: String,
    pub count: u64,
}

#[derive(Clone, Debug)]
pub struct Function {
    /// The linker's name.
    pub name: String,
    pub linkage: Linkage,
    /// A `Type::Function`.
    pub r#type: TypeId,
    /// Indexed by `InstructionId`. An instruction that no block lists was removed by a pass.
    pub instructions: Vec<Instruction>,
    /// Indexed by `BlockId`; empty for a declaration.
    pub blocks: Vec<Block>,
    /// Parameters, counted from 0, whose pointer stands for a copy of a value of the type (`byval`).
    pub by_value: Vec<(u32, TypeId)>,
    pub variables: Vec<Variable>,
    /// Where the source defines it.
    pub place: Option<PlaceId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Phis first, the terminator last.
    pub instructions: Vec<InstructionId>,
}

#[derive(Clone, Debug)]
pub struct Global {
    /// The linker's name.
    pub name: String,
    pub linkage: Linkage,
    /// The type of the variable itself.
    pub r#type: TypeId,
    /// `None` for a declaration that no module defines.
    pub initial: Option<ConstantId>,
    pub is_constant: bool,
    pub is_thread_local: bool,
    /// The name and type that the source gives it.
    pub source_name: Option<String>,
    pub debug_type: Option<DebugTypeId>,
    pub place: Option<PlaceId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// Seen by other modules, defined once.
    External,
    /// Seen by its own module only (`static`).
    Internal,
    /// Several modules may define it, the linker takes one: inline functions, templates, `weak`, `common`.
    Weak,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    Integer(TypeId, u128),
    /// The bits of a floating-point number.
    Float(TypeId, u128),
    Null(TypeId),
    /// `undef` and `poison`.
    Undefined(TypeId),
    /// All zero, of a type with parts.
    Zero(TypeId),
    /// An array, vector or structure by its parts.
    Aggregate(TypeId, Vec<ConstantId>),
    /// An array of integers of one byte.
    Bytes(TypeId, Vec<u8>),
    /// An array or vector of other numbers, by their bits.
    Numbers(TypeId, Vec<u64>),
    Global(GlobalId),
    Function(FunctionId),
    /// An address or number that is computed from other constants. Its operands are constants.
    Computed(Box<Instruction>),
    /// The address of a block, inline assembler as a value, and other rare ones, by name.
    Other(TypeId, String),
}

impl Function {
    #[must_use]
    pub fn is_declaration(&self) -> bool {
        self.blocks.is_empty()
    }

    #[must_use]
    pub fn instruction(&self, id: InstructionId) -> &Instruction {
        &self.instructions[id.index()]
    }

    /// The instructions that its blocks list, block by block.
    pub fn listed(&self) -> impl Iterator<Item = (BlockId, InstructionId, &Instruction)> {
        self.blocks
            .iter()
            .enumerate()
            .flat_map(move |(block, list)| {
                let block = BlockId::from_index(block);
                let ids = list.instructions.iter();
                ids.map(move |&id| (block, id, self.instruction(id)))
            })
    }
}

impl Program {
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    #[must_use]
    pub fn global(&self, id: GlobalId) -> &Global {
        &self.globals[id.index()]
    }

    #[must_use]
    pub fn constant(&self, id: ConstantId) -> &Constant {
        &self.constants[id.index()]
    }

    #[must_use]
    pub fn place(&self, id: PlaceId) -> &Place {
        &self.places[id.index()]
    }

    #[must_use]
    pub fn file(&self, id: FileId) -> &File {
        &self.files[id.index()]
    }

    #[must_use]
    pub fn debug_type(&self, id: DebugTypeId) -> &DebugType {
        &self.debug_types[id.index()]
    }

    /// The type of an operand of one of the function's instructions.
    #[must_use]
    pub fn operand_type(&self, function: &Function, operand: Operand) -> Option<TypeId> {
        match operand {
            Operand::Parameter(index) => match self.types.get(function.r#type) {
                Type::Function { parameters, .. } => parameters.get(index as usize).copied(),
                _ => None,
            },
            Operand::Result(id) => Some(function.instruction(id).r#type),
            Operand::Constant(id) => self.constant_type(id),
        }
    }

    #[must_use]
    pub fn constant_type(&self, id: ConstantId) -> Option<TypeId> {
        match self.constant(id) {
            Constant::Integer(id, _)
            | Constant::Float(id, _)
            | Constant::Null(id)
            | Constant::Undefined(id)
            | Constant::Zero(id)
            | Constant::Aggregate(id, _)
            | Constant::Bytes(id, _)
            | Constant::Numbers(id, _)
            | Constant::Other(id, _) => Some(*id),
            Constant::Global(_) | Constant::Function(_) => self.types.find(&Type::Pointer),
            Constant::Computed(instruction) => Some(instruction.r#type),
        }
    }

    /// The function that an operand names directly.
    #[must_use]
    pub fn called(&self, operand: Operand) -> Option<FunctionId> {
        let Operand::Constant(id) = operand else {
            return None;
        };
        match self.constant(id) {
            Constant::Function(function) => Some(*function),
            _ => None,
        }
    }
}
