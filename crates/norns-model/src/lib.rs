//! From a raw trace to a model: all reorderings of the trace that its synchronisation allows.
#![forbid(unsafe_code)]

pub mod brute_force;
pub mod bug;
pub mod checker;
pub mod condition;
pub mod cspm;
pub mod given_up;
pub mod lifetime;
pub mod location;
pub mod lock_set;
pub mod misuse;
pub mod model;
pub mod must_happen_before;
pub mod not_analysed;
pub mod random_trace;
pub mod reduction;
pub mod script;
pub mod segment;
pub mod state;
pub mod step;
pub mod witness;

pub use checker::{Refusal, check_witness};
pub use model::Model;
pub use not_analysed::{NotAnalysed, Unwatched};
pub use state::State;
pub use step::{Readiness, Step};
pub use witness::{Bug, Meaning, Witness};
