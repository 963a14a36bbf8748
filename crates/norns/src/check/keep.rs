//! What a check keeps of every finding for the commands that come after it, and what it shows
//! while it runs.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use anyhow::Result;
use norns_check::{Evidence, Observer, Progress};
use norns_report::{Finding, Sketch, Status, fingerprint};
use norns_trace::Trace;

use super::program::trace_name;
use super::witness::SavedWitness;
use crate::deadline::Deadline;
use crate::progress::Stage;
use crate::runs::{self, Run};

pub struct Keeper<'a> {
    run: &'a Run,
    deadline: Deadline,
    stage: Option<Stage>,
    /// The fingerprints of the findings that are confirmed so far.
    confirmed: BTreeSet<String>,
}

impl<'a> Keeper<'a> {
    pub fn new(run: &'a Run, deadline: Deadline) -> Self {
        Self {
            run,
            deadline,
            stage: None,
            confirmed: BTreeSet::new(),
        }
    }

    /// How many findings are confirmed so far, to follow what is being done.
    fn so_far(&self) -> String {
        match self.confirmed.len() {
            0 => String::new(),
            confirmed => format!(", {confirmed} confirmed so far"),
        }
    }
}

impl Observer for Keeper<'_> {
    type Error = anyhow::Error;

    fn progress(&mut self, progress: Progress) {
        let name = match progress {
            Progress::Recorded { number, ended } => {
                // The line of a stage must be gone before another one is written.
                self.stage = None;
                if number == 1 && std::io::stderr().is_terminal() {
                    eprintln!("recorded: the program {}", ended.describe());
                }
                return;
            }
            Progress::Recording { of: 1, .. } => "recording".into(),
            Progress::Recording { number, of } => format!("recording {number} of at most {of}"),
            Progress::Predicting { events } => format!("predicting from {events} events"),
            Progress::Steering { races } => format!("steering to the places of {races} races"),
            Progress::Watching => "watching a whole run with the race detector".into(),
            Progress::ReplayingRecording => "replaying the recording".into(),
            Progress::Replaying { number, of } => {
                if let Some(stage) = &self.stage {
                    stage.now(|| {
                        let left = self.deadline.left().as_secs();
                        let so_far = self.so_far();
                        format!("replaying witness {number} of {of}{so_far}, at most {left} s more")
                    });
                }
                return;
            }
        };
        self.stage = None;
        self.stage = Some(Stage::begin(&(name + &self.so_far())));
    }

    fn found(
        &mut self,
        run: u32,
        process: Option<u32>,
        trace: &Trace,
        finding: &Finding,
        evidence: Evidence,
    ) -> Result<()> {
        let folder = self.run.about()?.folder;
        let sources = |file: &str| runs::source(&folder, file);
        let named = Finding {
            id: fingerprint::fingerprint(finding.kind, &finding.places, &sources),
            ..finding.clone()
        };
        if finding.status == Status::Confirmed {
            self.confirmed.insert(named.id.clone());
        }
        let sketch: Option<Sketch> = match evidence {
            Evidence::Tried(tried) => {
                let saved = SavedWitness::of(tried, &trace_name(run, process));
                let name = format!("{}.witness.json", finding.id);
                self.run.save_compact(&name, &saved)?;
                // What is shown of a prediction is made of its witness when somebody asks: there
                // can be thousands of them.
                let witness = &tried.witness;
                (finding.status == Status::Confirmed)
                    .then(|| norns_report::sketch(trace, witness, &named, &sources))
            }
            Evidence::Places => None,
            Evidence::Hang(trace) => trace.map(|trace| {
                norns_report::sketch_of_hang(trace, named.places.len(), &named, &sources)
            }),
        };
        if let Some(sketch) = sketch {
            self.run
                .save(&format!("{}.sketch.json", finding.id), &sketch)?;
        }
        Ok(())
    }
}
