//! Replaying a witness and judging what was seen.
//!
//! A confirmation is never inferred: a race is confirmed by both accesses being next at one
//! moment, or by the detector's report of the same two places in that run; a deadlock by the
//! cycle, or by the state without a running thread, that the runtime saw. Everything else is
//! something else.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use norns_model::{Bug, Witness};
use norns_trace::{EventIndex, Trace};

use norns_wire::environment::{self, Mode, Priorities};
use norns_wire::report::Shape;

use crate::process::{Ended, Error, Limits, Output, Program, Run};
use crate::report::{Deadlock, Diverged, Race, Report};
use crate::schedule::{self, Way};

/// What the replay of a witness showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Confirmed(Proof),
    /// A thread waits in a loop for what the other writes: the accesses are in order.
    OrderedBySpinLoop,
    NoBug,
    Infeasible(Left),
    TimedOut,
}

/// How the program left its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// A thread cannot do what the schedule expects.
    Diverged(Diverged),
    /// The program ended before the schedule was done.
    Ended(Ended),
}

impl Left {
    /// The event of the trace that could not be done, where that is known.
    pub fn event(&self) -> Option<EventIndex> {
        match self {
            Left::Diverged(diverged) => diverged.expected_event,
            Left::Ended(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Two threads stopped with both accesses next.
    BothHeld,
    /// The detector's report of the same two places.
    Detector,
    /// A cycle of threads, each waiting for a lock that the next one has.
    Cycle,
    /// No thread of the program can go on.
    NobodyRuns,
}

impl Proof {
    pub fn describe(self) -> &'static str {
        match self {
            Proof::BothHeld => "both threads were stopped with their accesses next",
            Proof::Detector => "the race detector saw both accesses, unordered, in one run",
            Proof::Cycle => "the runtime saw the cycle of waiting threads",
            Proof::NobodyRuns => "the runtime saw that no thread can go on",
        }
    }
}

/// One replay: what was seen, and what it means for the witness.
#[derive(Clone, Debug)]
pub struct Replay {
    pub outcome: Outcome,
    pub report: Report,
    pub ended: Ended,
}

/// Runs a program again and again, in a folder of its own for schedules and reports.
pub struct Replayer<'a> {
    pub program: &'a Program,
    pub trace: &'a Trace,
    pub folder: PathBuf,
    pub limits: Limits,
}

impl Replayer<'_> {
    /// Runs the program under a schedule.
    pub fn run(&self, schedule: &str, name: &str, mode: Mode) -> Result<(Report, Ended), Error> {
        self.run_with(schedule, name, mode, None)
    }

    fn run_with(
        &self,
        schedule: &str,
        name: &str,
        mode: Mode,
        more: Option<(&'static str, OsString)>,
    ) -> Result<(Report, Ended), Error> {
        let schedule_path = self.folder.join(format!("{name}.schedule"));
        fs::write(&schedule_path, schedule).map_err(Error::file("write", &schedule_path))?;
        let report_path = self.folder.join(format!("{name}.report"));
        remove(&report_path)?;
        let mut variables = vec![
            (environment::SCHEDULE, schedule_path.into_os_string()),
            (environment::REPORT, OsString::from(&report_path)),
        ];
        variables.extend(more);
        let run = Run {
            program: self.program,
            mode,
            limits: self.limits,
            variables,
            output: Output::Nowhere,
            keep_input: None,
        };
        let ended = run.run()?;
        let text = fs::read(&report_path).unwrap_or_default();
        Ok((Report::parse(&text)?, ended))
    }

    /// Runs the recorded schedule itself.
    pub fn replay_recording(&self) -> Result<(Report, Ended), Error> {
        let schedule = schedule::of_recording(self.trace);
        self.run(&schedule, "recording", Mode::ReplayDetect)
    }

    /// Runs the program in a way that is to show the bug of the witness.
    pub fn replay(&self, witness: &Witness, name: &str, way: Way) -> Result<Replay, Error> {
        let schedule = schedule::of(self.trace, witness, way);
        let more = self.variable(way);
        let (mut report, ended) = self.run_with(&schedule, name, Mode::ReplayDetect, more)?;
        if matches!(way, Way::Hunt | Way::Priorities(_)) {
            // There was nothing to follow.
            report.followed = true;
        }
        let outcome = self.judge(witness, &report, &ended);
        Ok(Replay {
            outcome,
            report,
            ended,
        })
    }

    /// What the runtime must know besides the schedule.
    pub fn variable(&self, way: Way) -> Option<(&'static str, OsString)> {
        let Way::Priorities(seed) = way else {
            return None;
        };
        let points = schedule::count_points(self.trace);
        let mut value = String::new();
        let priorities = Priorities {
            seed,
            points: points as u64,
        };
        let _ = priorities.encode(&mut value);
        Some((environment::PRIORITIES, value.into()))
    }

    fn judge(&self, witness: &Witness, report: &Report, ended: &Ended) -> Outcome {
        match &witness.bug {
            Bug::Race { first, second } => {
                let held = report.held.as_ref();
                let both_held = held.is_some_and(|(one, other)| {
                    self.are_these_places([one.pc, other.pc], *first, *second)
                });
                let mut races = report.races.iter();
                let proof = if both_held {
                    Some(Proof::BothHeld)
                } else if races.any(|race| self.is_this_race(race, *first, *second)) {
                    Some(Proof::Detector)
                } else {
                    None
                };
                // A loop that orders accesses which are ordered anyway is not worth a word.
                match (proof, &report.spin) {
                    (Some(_), Some(_)) => return Outcome::OrderedBySpinLoop,
                    (Some(proof), None) => return Outcome::Confirmed(proof),
                    (None, _) => {}
                }
            }
            Bug::LockDeadlock { .. } | Bug::Stuck { .. } => {
                if let Some(deadlock) = &report.deadlock
                    && self.is_this_deadlock(deadlock, &witness.bug)
                {
                    return Outcome::Confirmed(match deadlock.shape {
                        Shape::Cycle => Proof::Cycle,
                        Shape::Stuck => Proof::NobodyRuns,
                    });
                }
            }
        }
        if let Some(diverged) = &report.diverged {
            return Outcome::Infeasible(Left::Diverged(diverged.clone()));
        }
        match ended {
            Ended::TimedOut | Ended::OutOfMemory | Ended::Hung => Outcome::TimedOut,
            _ if report.followed => Outcome::NoBug,
            _ => Outcome::Infeasible(Left::Ended(ended.clone())),
        }
    }

    /// Whether the detector's race is at the two places of the prediction.
    fn is_this_race(&self, race: &Race, first: EventIndex, second: EventIndex) -> bool {
        self.are_these_places([race.earlier.pc, race.later.pc], first, second)
    }

    /// Whether the threads of the prediction wait where it says; others may wait for them.
    fn is_this_deadlock(&self, seen: &Deadlock, bug: &Bug) -> bool {
        let (Bug::LockDeadlock { blocked } | Bug::Stuck { blocked }) = bug else {
            return false;
        };
        blocked.iter().all(|event| {
            let event = self.trace.events[event.index()];
            let pc = self.trace.place(event.place).pc;
            let name = &self.trace.thread(event.thread).name;
            seen.waits
                .iter()
                .any(|waits| waits.pc == pc && waits.thread == *name)
        })
    }

    fn are_these_places(&self, seen: [u64; 2], first: EventIndex, second: EventIndex) -> bool {
        let pc = |event: EventIndex| {
            let event = self.trace.events[event.index()];
            self.trace.place(event.place).pc
        };
        let predicted = [pc(first), pc(second)];
        seen == predicted || seen == [predicted[1], predicted[0]]
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}
