//! Deadlock, race and property prediction: stages, budgets and the refinement loop.
//!
//! Every module is an engine or a stage; all of them take a trace and give witnesses, and
//! nothing leaves this crate that `norns_model::check_witness` does not accept.
#![forbid(unsafe_code)]

pub mod candidate;
pub mod csp;
pub mod exact;
pub mod generate;
pub mod happens_before;
pub mod linear;
pub mod order;
pub mod stage;
pub mod values;

pub use stage::{Detail, Engine, Options, Prediction, predict};
