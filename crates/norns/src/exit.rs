//! The exit statuses of `norns`.

use std::process::ExitCode;

use norns_replay::Ended;

/// Norns could not do its job: bad usage, a build that failed, a program that could not be run, that
/// died, hung or did not end in time, or of which nothing could be observed.
pub const CANNOT: u8 = 2;

/// `check` confirmed a finding, `predict` predicted one, or `csp check` found an assertion that
/// fails.
pub const FOUND: u8 = 1;

/// `csp check`: no assertion fails, but the budget ended before all were decided.
pub const UNDECIDED: u8 = 3;

/// The status of a program, for commands that end as the program did: 128 and the signal's number if
/// a signal killed it, as a shell shows it.
pub fn of_program(ended: &Ended) -> ExitCode {
    ExitCode::from(match ended {
        Ended::Exited(status) => *status as u8,
        Ended::Signalled(signal) => 128_u8.wrapping_add(*signal as u8),
        // The program did what it was asked to.
        Ended::Stopped => 0,
        Ended::TimedOut | Ended::OutOfMemory | Ended::Hung | Ended::Interrupted | Ended::Killed => {
            CANNOT
        }
    })
}
