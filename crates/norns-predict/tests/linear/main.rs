//! The near-linear stage against brute force and the independent checker.

mod against_brute_force;
mod generated;
