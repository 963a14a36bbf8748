//! The exit statuses of `norns`.

/// Norns could not do its job: bad usage, a build that failed, a program that could not be run.
pub const CANNOT: u8 = 2;

/// `check` confirmed a finding, or `predict` predicted one.
pub const FOUND: u8 = 1;
