//! From a predicted finding to a verdict: replays, and what to try when one does not follow.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use norns_model::{NotAnalysed, Witness};
use norns_replay::schedule::{self, Accesses, Way};
use norns_replay::{Ended, Limits, Outcome, Program, Proof, Recorded, Replay, Replayer};
use norns_report::{Finding, Sketch, Sources, Status, Verdict};
use norns_trace::Trace;
use norns_trace::symbolise::Symboliser;

use super::refine::{Before, Refinement};
use super::wait_loops::WaitLoops;
use super::{describe, divergence, hang};

pub struct Confirmation<'a> {
    replayer: Replayer<'a>,
    refinement: Refinement<'a>,
    loops: WaitLoops,
    number: usize,
    best_effort: bool,
    /// Some run made a child process.
    pub forked: bool,
    /// How many bugs the last tries did not find.
    fruitless: usize,
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
        let time = limits
            .time
            .min(recorded.time * 20 + Duration::from_secs(10));
        Self {
            replayer: Replayer {
                program,
                trace,
                folder,
                limits: Limits { time, ..limits },
            },
            refinement: Refinement::new(trace),
            loops: WaitLoops::default(),
            number: 0,
            best_effort: false,
            fruitless: 0,
            forked: false,
        }
    }

    /// Whether the program follows its own recording. A deadlock that it runs into again, as it
    /// did while it was recorded, is a finding.
    pub fn replay_recording(
        &mut self,
        reasons: &mut Vec<NotAnalysed>,
        sources: Sources,
    ) -> Result<Option<(Finding, Option<Sketch>)>> {
        let (mut report, mut ended) = self.replayer.replay_recording()?;
        if report.diverged.is_some() || matches!(ended, Ended::TimedOut | Ended::Hung) {
            let first = divergence::of_run(self.replayer.trace, &report, &ended);
            (report, ended) = self.replayer.replay_recording()?;
            if report.diverged.is_some() || matches!(ended, Ended::TimedOut | Ended::Hung) {
                let second = divergence::of_run(self.replayer.trace, &report, &ended);
                reasons.push(NotAnalysed::UnfaithfulReplays {
                    next_time: (first != second).then_some(second),
                    why: first,
                });
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
        let trace = self.replayer.trace;
        let sketch = hang::sketch(trace, deadlock, &finding, &mut symbols, sources);
        Ok(Some((finding, sketch)))
    }

    /// Replays a witness, and others of the same bug if the program does not follow it, and
    /// writes what came of it into the finding. Returns the witness that was replayed last.
    pub fn confirm(
        &mut self,
        witness: &Witness,
        finding: &mut Finding,
        deadline: Instant,
    ) -> Result<Tried> {
        let mut tried = Tried::not_replayed(witness);
        let mut learned: Option<String> = None;
        let mut rounds = 0..ROUNDS;
        let mut most_fruitless = MOST_FRUITLESS;
        match self.refinement.before(witness) {
            Before::Fits => {}
            Before::Other(again) => {
                tried.witness = again.witness;
                learned = Some(again.because);
            }
            Before::Impossible(why) => {
                finding.verdict = Some(Verdict::Infeasible(why));
                rounds = 0..0;
                most_fruitless = MOST_FRUITLESS_IF_IMPOSSIBLE;
            }
        }
        for round in rounds {
            let mut event = None;
            for way in self.ways(&tried.witness) {
                if Instant::now() >= deadline {
                    return Ok(tried);
                }
                let replay = self.replay(&tried.witness, way)?;
                if let Outcome::Infeasible(left) = &replay.outcome {
                    event = left.event();
                }
                tried.way = way;
                let by_detector = replay.outcome == Outcome::Confirmed(Proof::Detector);
                let settled = self.decide(finding, &replay, learned.as_deref());
                // The stronger proof, if it is to be had.
                if by_detector && way != Way::Near && self.may_lie_elsewhere(&tried.witness) {
                    let replay = self.replay(&tried.witness, Way::Near)?;
                    if replay.outcome == Outcome::Confirmed(Proof::BothHeld) {
                        tried.way = Way::Near;
                        self.decide(finding, &replay, learned.as_deref());
                    }
                }
                if settled {
                    return Ok(tried);
                }
            }
            let again = (round + 1 < ROUNDS)
                .then(|| self.refinement.again(&tried.witness, event))
                .flatten();
            match again {
                Some(again) => {
                    tried.witness = again.witness;
                    learned = Some(again.because);
                }
                None => break,
            }
        }
        if self.fruitless >= most_fruitless {
            return Ok(tried);
        }
        let last = [Way::Hunt].into_iter();
        for way in last.chain((1..=RANDOM_TRIES).map(Way::Priorities)) {
            if Instant::now() >= deadline {
                break;
            }
            let before = finding.verdict.clone();
            let replay = self.replay(&tried.witness, way)?;
            let because = match way {
                Way::Priorities(seed) => format!("found with random priorities, seed {seed}"),
                _ => "found without a schedule, by waiting at its places".into(),
            };
            if self.decide(finding, &replay, Some(&because)) {
                tried.way = way;
                return Ok(tried);
            }
            finding.verdict = before;
        }
        self.fruitless += 1;
        Ok(tried)
    }

    /// Writes what a replay showed into the finding, with what had to be learned before; whether
    /// that settles it.
    fn decide(&self, finding: &mut Finding, replay: &Replay, learned: Option<&str>) -> bool {
        let (status, verdict) = match &replay.outcome {
            Outcome::Confirmed(proof) => {
                let learned = learned.map_or(String::new(), |learned| format!("; {learned}"));
                let how = format!("{}{learned}", proof.describe());
                (Status::Confirmed, Verdict::Confirmed(how))
            }
            Outcome::OrderedBySpinLoop => (Status::OrderedBySpinLoop, Verdict::NoBug),
            Outcome::NoBug => (Status::Predicted, Verdict::NoBug),
            Outcome::Infeasible(left) => {
                let why = divergence::of_replay(self.replayer.trace, &replay.report, left);
                (Status::Predicted, Verdict::Infeasible(why))
            }
            Outcome::TimedOut => (Status::Predicted, Verdict::TimedOut),
        };
        finding.verdict = Some(verdict);
        let settled = status != Status::Predicted;
        if settled {
            finding.status = status;
        }
        settled
    }

    /// How to replay a witness, one after the other until one way settles it.
    fn ways(&self, witness: &Witness) -> Vec<Way> {
        let mut ways = vec![
            Way::Schedule(Accesses::Free),
            Way::Schedule(Accesses::Ordered),
        ];
        if self.may_lie_elsewhere(witness) {
            ways.push(Way::Near);
        }
        ways
    }

    fn may_lie_elsewhere(&self, witness: &Witness) -> bool {
        schedule::may_lie_elsewhere(self.replayer.trace, &witness.bug)
    }

    fn replay(&mut self, witness: &Witness, way: Way) -> Result<Replay> {
        let name = self.next_name();
        let mut replay = self.replayer.replay(witness, &name, way)?;
        self.forked |= replay.report.forked;
        self.loops.learn(&replay.report);
        if let Outcome::Confirmed(proof) = replay.outcome
            && self.loops.order(self.replayer.trace, &witness.bug, proof)
        {
            replay.outcome = Outcome::OrderedBySpinLoop;
        }
        Ok(replay)
    }

    fn next_name(&mut self) -> String {
        self.number += 1;
        format!("{:03}", self.number)
    }

    /// Whether the program follows its own recording; if not, nothing is refuted by a replay.
    pub fn is_reliable(&self) -> bool {
        !self.best_effort
    }
}

/// How many witnesses of one bug are tried, and how often it is looked for with random priorities.
const ROUNDS: usize = 5;
const RANDOM_TRIES: u64 = 3;
/// After so many bugs that the last tries did not find, there are no more of them: what remains
/// has most often the same reason.
const MOST_FRUITLESS: usize = 6;
/// The same for bugs that cannot be, as far as was learned.
const MOST_FRUITLESS_IF_IMPOSSIBLE: usize = 2;

/// What was replayed last.
pub struct Tried {
    pub witness: Witness,
    pub way: Way,
}

impl Tried {
    /// Before any replay.
    pub fn not_replayed(witness: &Witness) -> Self {
        Tried {
            witness: witness.clone(),
            way: Way::Schedule(Accesses::Free),
        }
    }
}
