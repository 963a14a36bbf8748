//! Where a program's instructions come from, and the names that its author gave.

use crate::instruction::Operand;
use crate::program::id;

id! {
    /// A source file of a program.
    FileId
}
id! {
    /// A place in the source, with what it was inlined into.
    PlaceId
}
id! {
    /// A type as the source has it.
    DebugTypeId
}

/// A source file, as the compiler was given it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct File {
    pub name: String,
    /// The folder in which the compiler ran.
    pub folder: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub file: FileId,
    /// Counted from 1; 0 for code that the compiler made up.
    pub line: u32,
    pub column: u32,
    /// The function as the source has it, before inlining.
    pub function: Option<String>,
    /// The call that this place was inlined into.
    pub inlined_at: Option<PlaceId>,
}

/// A type with the names of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugType {
    Base(String),
    /// A pointer or reference; `None` points to `void`.
    Pointer(Option<DebugTypeId>),
    Array(DebugTypeId),
    Record {
        name: Option<String>,
        fields: Vec<DebugField>,
    },
    /// A `typedef`, or a qualifier if there is no name.
    Alias {
        name: Option<String>,
        target: Option<DebugTypeId>,
    },
    Function,
    Other(Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugField {
    /// Empty for a base class or an anonymous member.
    pub name: String,
    /// In bits from the start of the record.
    pub offset: u64,
    /// In bits.
    pub size: u64,
    pub r#type: Option<DebugTypeId>,
}

/// A local variable or parameter of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub r#type: Option<DebugTypeId>,
    /// The address of the variable (a stack slot or a pointer that was passed) or, if it has none, its value.
    pub value: Operand,
    pub is_address: bool,
}
