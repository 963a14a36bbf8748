//! What comes back from a run on another machine: plain data with a version.

use norns_replay::Ended;
use norns_trace::Trace;
use serde::{Deserialize, Serialize};

use crate::search::Seen;

const FORMAT: u32 = 1;

/// One run under a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    format: u32,
    /// The number of the plan that it had.
    pub plan: u32,
    pub ended: End,
    /// What it printed, as far as it was kept.
    #[serde(default)]
    pub output: String,
    /// The text of `norns_wire::tracking`.
    pub observations: String,
}

/// How the run ended, as far as whoever ran it can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Exited(i32),
    Signalled(i32),
    /// It ran longer than it may.
    TimedOut,
}

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("a report of format {0} is of another version of Norns")]
    Format(u32),
    #[error("the report is damaged")]
    Damaged(#[source] serde_json::Error),
}

impl Report {
    pub fn new(plan: u32, ended: End, output: String, observations: String) -> Self {
        Self {
            format: FORMAT,
            plan,
            ended,
            output,
            observations,
        }
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a report is numbers and strings")
    }

    pub fn parse(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = serde_json::from_str(text).map_err(ReportError::Damaged)?;
        if format != FORMAT {
            return Err(ReportError::Format(format));
        }
        serde_json::from_str(text).map_err(ReportError::Damaged)
    }

    /// The run, with what `norns_trace::read_observations_of` makes of its observations.
    pub fn seen(&self, trace: Trace) -> Seen {
        Seen {
            ended: match self.ended {
                End::Exited(status) => Ended::Exited(status),
                End::Signalled(signal) => Ended::Signalled(signal),
                End::TimedOut => Ended::TimedOut,
            },
            output: self.output.clone(),
            trace,
        }
    }
}
