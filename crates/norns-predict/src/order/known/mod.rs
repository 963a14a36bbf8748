//! Preprocessing: what is known about all schedules of a trace before any search.
//!
//! `must_happen_before` computes which events precede an event in every schedule, and `clocks`
//! holds the result as vector clocks. `resources` and `waits` answer for one question: the former
//! bounds how far threads can get by counting, the latter explores how threads wait for each other.
//! All three only prove impossibility; that a schedule exists is for the search to show.

pub mod clocks;
pub mod must_happen_before;
pub mod resources;
pub mod waits;
