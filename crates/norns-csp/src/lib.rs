//! Norns' CSP: the machine-readable language CSPM and a refinement checker, useful alone.
//!
//! A script is read by the front end (`syntax`, `types`, `eval`) into process terms
//! (`process`); the engine below compiles a term to a network of components, normalises the
//! specification and searches the product of both. Nothing here knows of traces.
#![forbid(unsafe_code)]

pub mod event;
pub mod process;
