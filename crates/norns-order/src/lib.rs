//! Is there a total order under these constraints?
//!
//! The constraints are fixed edges and clauses over literals "a before b" and plain Booleans
//! (`formula`). `solver` decides them with a CDCL core whose theory is acyclicity (`graph`),
//! beginning with an order that is already known and changing only what a query forces.
//! `smtlib` writes the same formula for any other solver; `reference` asks Z3 (feature `z3`).
//!
//! Nothing here knows of programs: what the nodes are and why they are constrained is the
//! caller's business.
#![forbid(unsafe_code)]

mod chains;
pub mod formula;
mod graph;
#[cfg(feature = "z3")]
pub mod reference;
pub mod smtlib;
mod solver;

pub use formula::{Atom, Formula, Literal, Node, Sum};
pub use graph::Order;
pub use solver::{Answer, Lazy, NoMore, Query, Solver, Statistics, View};
