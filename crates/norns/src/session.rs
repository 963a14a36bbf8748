//! The options for programs that run until they are stopped and that others talk to: servers.

use std::ffi::OsString;
use std::time::Duration;

use norns_replay::{Session, Visit};

#[derive(clap::Args)]
pub struct Arguments {
    /// A shell command that talks to the program while it is recorded: started as soon as the program
    /// listens, with the port in NORNS_PORT. When it has ended, the program is stopped (SIGTERM, and
    /// SIGKILL five seconds later). Replays of `check` repeat what it said
    #[arg(long, value_name = "COMMAND")]
    client: Option<OsString>,
    /// Stop the program after this time, also if its client still runs
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    until: Option<Duration>,
}

impl Arguments {
    pub fn session(&self) -> Session {
        Session {
            client: self.client.clone(),
            until: self.until,
        }
    }
}

/// Reads a time that is given to an option.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse();
    let time = seconds
        .ok()
        .and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "it must be a number of seconds above 0".into())
}

/// What went wrong with the client, to complete "the client …".
pub fn problem(visit: &Visit) -> Option<String> {
    match visit {
        Visit::NotStarted => Some("was not started, since the program did not listen".into()),
        Visit::Failed(how) => Some(how.clone()),
        Visit::Ended | Visit::Stopped => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_fraction_and_a_unit() {
        for (text, milliseconds) in [("2", Some(2000)), ("0.5", Some(500)), ("3s", Some(3000))] {
            let expected = milliseconds.map(Duration::from_millis);
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
        for text in ["", "0", "-1", "two", "inf", "nan", "1e300"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
