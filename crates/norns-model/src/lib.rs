//! From a raw trace to a model: all reorderings of the trace that its synchronisation allows.
#![forbid(unsafe_code)]

pub mod witness;

pub use witness::{Bug, Meaning, Witness};
