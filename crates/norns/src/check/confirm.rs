//! From a predicted finding to a verdict: replays, and what to try when one does not follow.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use norns_model::Witness;
use norns_replay::schedule::Accesses;
use norns_replay::{Ended, Limits, Outcome, Program, Recorded, Replayer};
use norns_report::{Finding, Status, Verdict};
use norns_trace::Trace;
use norns_trace::symbolise::Symboliser;

use super::describe;

pub struct Confirmation<'a> {
    replayer: Replayer<'a>,
    number: usize,
    best_effort: bool,
}

impl<'a> Confirmation<'a> {
    pub fn new(
        program: &'a Program,
        trace: &'a Trace,
        folder: PathBuf,
        limits: Limits,
        recorded: &Recorded,
    ) -> Self {
        // A replay serialises the program's synchronisation and watches every access.
        let time = limits.time.min(recorded.time * 20 + Duration::from_secs(5));
        Self {
            replayer: Replayer {
                program,
                trace,
                folder,
                limits: Limits { time, ..limits },
            },
            number: 0,
            best_effort: false,
        }
    }

    /// Whether the program follows its own recording. A deadlock that it runs into again, as it
    /// did while it was recorded, is a finding.
    pub fn replay_recording(&mut self, notes: &mut Vec<String>) -> Result<Option<Finding>> {
        let (mut report, mut ended) = self.replayer.replay_recording()?;
        if report.diverged.is_some() || matches!(ended, Ended::TimedOut | Ended::Hung) {
            let first = self.replayer.explain_run(&report, &ended);
            (report, ended) = self.replayer.replay_recording()?;
            if report.diverged.is_some() || matches!(ended, Ended::TimedOut | Ended::Hung) {
                let second = self.replayer.explain_run(&report, &ended);
                let differs = if first == second {
                    String::new()
                } else {
                    format!(" (the next time: {second})")
                };
                notes.push(format!(
                    "the program does not follow its own recording, so replays are best effort: \
                     {first}{differs}"
                ));
                self.best_effort = true;
            }
        }
        let Some(deadlock) = &report.deadlock else {
            return Ok(None);
        };
        let mut symbols = Symboliser::new([report.maps.as_str()]);
        let mut finding = describe::deadlock(deadlock, &mut symbols);
        finding.verdict = Some(Verdict::Confirmed(
            "the program ran into it while it was recorded, and again in the replay of that run"
                .into(),
        ));
        Ok(Some(finding))
    }

    /// Replays a witness and writes what came of it into the finding. Returns what the schedule
    /// that showed it does with plain accesses.
    pub fn confirm(
        &mut self,
        witness: &Witness,
        finding: &mut Finding,
        deadline: Instant,
    ) -> Result<Accesses> {
        let mut verdict = None;
        for accesses in [Accesses::Free, Accesses::Ordered] {
            if Instant::now() >= deadline {
                break;
            }
            self.number += 1;
            let name = format!("{:03}", self.number);
            let replay = self.replayer.replay(witness, &name, accesses)?;
            match replay.outcome {
                Outcome::Confirmed(proof) => {
                    finding.status = Status::Confirmed;
                    finding.verdict = Some(Verdict::Confirmed(proof.describe().into()));
                    return Ok(accesses);
                }
                Outcome::OrderedBySpinLoop { .. } => {
                    finding.status = Status::OrderedBySpinLoop;
                    finding.verdict = Some(Verdict::NoBug);
                    return Ok(accesses);
                }
                Outcome::NoBug => verdict = Some(Verdict::NoBug),
                Outcome::Infeasible { why, .. } => verdict = Some(Verdict::Infeasible(why)),
                Outcome::TimedOut => verdict = Some(Verdict::TimedOut),
            }
        }
        finding.verdict = verdict;
        Ok(Accesses::Free)
    }
}
