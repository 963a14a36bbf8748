//! The engines against brute force on small traces, and on the scenarios of the dissertation.

mod budget;
mod csp;
mod random;
mod scenarios;
