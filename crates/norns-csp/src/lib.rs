//! Norns' CSP: the machine-readable language CSPM and a refinement checker, useful alone.
//!
//! A script is read by the front end (`syntax`, `types`, `eval`) into process terms
//! (`process`); the engine below compiles a term to a network of components, normalises the
//! specification and searches the product of both. Nothing here knows of traces.
#![forbid(unsafe_code)]

pub mod builtin;
pub mod check;
pub mod compress;
pub mod counterexample;
mod cycles;
pub mod diagnostic;
mod error;
pub mod eval;
pub mod event;
mod layout;
pub mod lts;
mod machine;
mod network;
pub mod normal;
pub mod process;
mod reduce;
pub mod resolve;
pub mod script;
mod search;
pub mod semantics;
mod shape;
mod store;
pub mod syntax;
pub mod types;
pub mod vocabulary;

pub use error::CheckError;
pub use reduce::Reduction;
pub use search::{Budget, Progress};
pub use shape::DONE;
