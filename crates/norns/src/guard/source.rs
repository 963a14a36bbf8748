//! Where the tasks of a session come from: a hive on the network, one in a file, or nowhere, to see what would be sent.

use norns_hive::protocol::{Build, VERSION};
use norns_hive::{ParticipantId, Report, TaskId, TaskRequest};
use serde::Serialize;

use super::agent::{Answer, Hive};
use super::local::Local;
use super::remote::{Remote, batches};

pub enum Source {
    /// What was seen in this session is counted here as well.
    Remote {
        hive: Remote,
        seen: Local,
    },
    Local(Local),
    /// Tasks as a hive that knows nothing would give them. Nothing is sent.
    Dry {
        local: Local,
        participant: ParticipantId,
    },
}

impl Source {
    /// What is known of the builds that were run.
    pub fn seen(&self) -> &Local {
        match self {
            Source::Remote { seen, .. } => seen,
            Source::Local(local) | Source::Dry { local, .. } => local,
        }
    }
}

impl Hive for Source {
    fn ask(&mut self, build: &Build, active: Option<&TaskId>) {
        match self {
            Source::Remote { hive, seen } => {
                seen.knows(build);
                hive.ask(build, active);
            }
            Source::Local(local) => local.ask(build, active),
            Source::Dry { local, participant } => {
                let request = TaskRequest {
                    format: VERSION,
                    participant: participant.clone(),
                    build: build.id.clone(),
                    active: active.cloned(),
                };
                show(&format!("/v1/programs/{}/task", build.program), &request);
                local.ask(build, active);
            }
        }
    }

    fn report(&mut self, build: &Build, reports: Vec<Report>) {
        match self {
            Source::Remote { hive, seen } => {
                seen.report(build, reports.clone());
                hive.report(build, reports);
            }
            Source::Local(local) => local.report(build, reports),
            Source::Dry { local, participant } => {
                local.report(build, reports.clone());
                for batch in batches(build, participant, reports) {
                    show(&format!("/v1/programs/{}/reports", build.program), &batch);
                }
            }
        }
    }

    fn answers(&mut self) -> Vec<Answer> {
        match self {
            Source::Remote { hive, .. } => hive.answers(),
            Source::Local(local) | Source::Dry { local, .. } => local.answers(),
        }
    }
}

/// On standard error: the program has standard output for itself.
fn show(path: &str, message: &impl Serialize) {
    let text = serde_json::to_string_pretty(message).expect("messages have text keys");
    eprintln!("norns: would send to {path}\n{text}");
}
