//! Is there a total order under these constraints?
//!
//! The constraints are fixed edges, and clauses over literals "a before b" and plain Booleans
//! (`formula`). `solver` decides them with a CDCL core whose theory is acyclicity (`graph`, which
//! finds paths by `chains`). It starts from an order that is already known and changes only what a
//! query requires. `smtlib` writes the same formula for any other solver; `reference` asks Z3
//! (feature `z3`).
//!
//! Nothing here knows of programs: what the nodes are and why they are constrained is up to the
//! caller.
#![forbid(unsafe_code)]

mod chains;
pub mod formula;
mod graph;
#[cfg(feature = "z3")]
pub mod reference;
pub mod smtlib;
mod solver;

pub use formula::{Atom, Count, Formula, Literal, Node, Sum};
pub use graph::Order;
pub use solver::{Answer, Lazy, NoLazyClauses, Query, Solver, Statistics, View};
