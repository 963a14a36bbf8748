//! The search for a schedule: what the solver starts from and how it learns of violated rules.
//!
//! `encoding` gathers the objects of a trace and serves the solver, `simulation` runs the current
//! order to find what it violates, and `relevant_reads` is the part of the simulation for traces
//! with branch events. `plan` chooses the order that a search starts from; where threads wait for
//! each other, `guided_run` constructs it, keeping out of `critical_sections` that it cannot leave.

mod critical_sections;
pub mod encoding;
mod guided_run;
mod plan;
mod relevant_reads;
pub mod simulation;
