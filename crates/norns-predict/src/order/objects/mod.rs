//! The objects of a trace, each with the rules that it imposes on the order of its events.
//!
//! Every object states its rules twice: `check` (or `Constraint::violated`) adds a clause that the
//! current order violates, which is how our solver learns of the rules, and `all` adds the complete
//! encoding at once, for another solver.

pub mod barriers;
pub mod clause;
pub mod conditions;
pub mod joins;
pub mod locks;
pub mod memory;
pub mod once;
pub mod registers;
pub mod relevance;
pub mod semaphores;
pub mod thread_chains;
