//! The exit statuses of `norns`.

/// Norns could not do its job: bad usage, a build that failed, a program that could not be run.
pub const CANNOT: u8 = 2;

/// `check` confirmed a finding, `predict` predicted one, or `csp check` found an assertion that
/// fails.
pub const FOUND: u8 = 1;

/// `csp check`: no assertion fails, but the budget ended before all were decided.
pub const UNDECIDED: u8 = 3;
