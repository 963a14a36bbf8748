//! The engines against brute force on small traces, and on the scenarios of the dissertation.

mod csp;
mod random;
mod scenarios;
