//! Exact search over position vectors, within a budget of steps.
//!
//! `search` decides whether one goal can be reached; `terminal` finds every state in which no thread
//! can step. Both look only at the steps of `stubborn` sets and return to earlier states through
//! `choices`. `cone` bounds how far each thread has to go for a goal, `projection` leaves out of a
//! trace what cannot matter for deadlocks, and `index` answers where each thread uses an object.

mod choices;
pub mod cone;
pub mod index;
pub mod projection;
pub mod search;
pub mod stubborn;
pub mod terminal;
