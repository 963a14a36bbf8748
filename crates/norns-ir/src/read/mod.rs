//! Reads LLVM bitcode, as clang 14 to 19 write it, into a [`crate::Program`].
//!
//! Follows LLVM's own `BitcodeReader.cpp` and `MetadataLoader.cpp`; record codes are those of
//! `LLVMBitCodes.h`. The bitstream is decoded here too, because the crates that do so allocate whatever
//! a length in the input says. Left out: attributes other than `byval`, operand bundles, use lists, fast-math and overflow
//! flags. A record that is not known becomes an [`Omission`](crate::Omission) where it has no effect on the
//! numbers of values; otherwise the rest of its function is left out, and that is an omission too.

mod attributes;
mod bits;
mod constants;
mod debug_types;
mod function;
mod instructions;
mod link;
mod metadata;
mod module;
mod places;
mod record;
mod stream;
mod types;

pub use link::Linker;

/// Why a module cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the bitcode of {module}, at byte {at}: {fault}")]
pub struct Error {
    pub module: String,
    pub at: u64,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is not LLVM bitcode")]
    NotBitcode,
    #[error("it ends too early")]
    End,
    #[error("{0}")]
    Malformed(&'static str),
}
