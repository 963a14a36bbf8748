//! How a check sees the program: something that can be recorded, and run again under a schedule.

use std::collections::BTreeSet;

use norns_model::{Bug, NotAnalysed, Unwatched, Witness};
use norns_replay::schedule::Way;
use norns_replay::{Behaviour, Course, Ended, Proof, Sighting};
use norns_report::Finding;
use norns_rules::Observed;
use norns_trace::{EventIndex, Trace, Warning};

use crate::observed::Hang;
use crate::other_process::OtherProcess;

/// A program under test.
pub trait Program {
    type Error;

    /// Runs the program and records it; `run` counts the recordings of one check from 0.
    fn record(&mut self, run: u32) -> Result<Recorded, Self::Error>;

    /// Records the program once more, with every access in the trace, also those that earlier ones cover.
    fn record_every_access(&mut self, run: u32) -> Result<Recorded, Self::Error>;

    /// Whether there is time for another recording, as far as the last one tells, without taking
    /// much from the replays.
    fn has_time_for_another(&self) -> bool;

    /// Runs the program under the schedule of the last recording itself.
    fn replay_recording(&mut self, trace: &Trace) -> Result<Rerun, Self::Error>;

    /// Runs the program in a way that is to show the bug of a witness from the last recording.
    fn replay(
        &mut self,
        trace: &Trace,
        witness: &Witness,
        way: Way,
    ) -> Result<Replayed, Self::Error>;

    /// Runs the program once more, a witness and the recording being of the last one, and says how it
    /// behaved.
    fn behave(&mut self, trace: &Trace, course: Course) -> Result<Behaviour, Self::Error>;

    /// Runs the program as it is, with what the last recording got from outside, under the detector.
    fn detect(&mut self, trace: &Trace) -> Result<WholeRun, Self::Error>;

    /// Runs the program nearly free, with threads that linger at the places of all these races of the
    /// last recording, and returns the races that this showed. A seed asks for random priorities.
    fn steer(
        &mut self,
        trace: &Trace,
        races: &[&Bug],
        seed: Option<u64>,
    ) -> Result<Vec<Sighting>, Self::Error>;
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub trace: Trace,
    pub ended: Ended,
    /// Waits gave up before their time-outs.
    pub is_impatient: bool,
    pub warnings: Vec<Warning>,
    /// What may have ordered threads unseen in this run, to complete "nothing known orders it, but
    /// …"; `None` if everything that can is understood. A race is then proved only by stopping both
    /// threads before their accesses.
    pub unseen_order: Option<String>,
    /// The last lines that the program printed.
    pub last_lines: Vec<String>,
    /// What else could not be seen.
    pub not_analysed: Vec<NotAnalysed>,
    /// Further processes of the same run.
    pub others: Vec<OtherProcess>,
}

/// How a recorded run ended.
pub(crate) struct End {
    pub ended: Ended,
    pub is_impatient: bool,
    pub last_lines: Vec<String>,
}

impl Recorded {
    pub(crate) fn end(&self) -> End {
        End {
            ended: self.ended.clone(),
            is_impatient: self.is_impatient,
            last_lines: self.last_lines.clone(),
        }
    }

    /// Whether a further recording is worth an analysis: one that was stopped shows how Norns made
    /// the program slow, not how the program runs.
    pub(crate) fn is_usable(&self) -> bool {
        !matches!(self.ended, Ended::TimedOut | Ended::Interrupted)
    }

    /// Where objects are that other processes may use as well.
    pub(crate) fn shared_objects(&self) -> BTreeSet<u64> {
        let shared = self.warnings.iter().filter_map(|warning| match warning {
            Warning::ProcessShared { addresses } => Some(addresses),
            _ => None,
        });
        shared.flatten().copied().collect()
    }

    /// Whether the run had to be stopped because it did not end by itself.
    pub(crate) fn hung(&self) -> bool {
        matches!(self.ended, Ended::Hung | Ended::TimedOut)
    }

    /// What may have ordered threads unseen: what the caller knows of, or events that are missing.
    pub(crate) fn unseen_order(&self) -> Option<String> {
        let misses_events = |warning: &&Warning| match warning {
            Warning::DamagedRecording { .. }
            | Warning::DamagedChunk { .. }
            | Warning::Skipped { .. }
            | Warning::Lost { .. }
            | Warning::Inconsistent { .. } => true,
            Warning::Cut { .. }
            | Warning::UnknownCall { .. }
            | Warning::UnknownCounter { .. }
            | Warning::Unfinished { .. }
            | Warning::NothingRecorded
            | Warning::ProcessShared { .. }
            | Warning::StillRunning { .. }
            | Warning::OtherProcesses { .. }
            | Warning::OtherProcess { .. }
            | Warning::NoDebugInformation { .. }
            | Warning::ValuesDiffer { .. }
            | Warning::Rebuilt { .. }
            | Warning::Shortened { .. }
            | Warning::Ignored { .. } => false,
        };
        self.unseen_order.clone().or_else(|| {
            if let Some(missing) = self.warnings.iter().find(misses_events) {
                return Some(format!("events are missing ({missing})"));
            }
            self.warnings.iter().find_map(|warning| match warning {
                Warning::UnknownCall { call, thread } => {
                    Some(format!("{thread} has called `{call}`, which may"))
                }
                _ => None,
            })
        })
    }
}

/// What the detector saw of a run without a schedule.
#[derive(Clone, Debug, Default)]
pub struct WholeRun {
    /// Empty if something may have ordered threads that the detector does not know.
    pub races: Vec<Watched>,
    /// Why not all of the run was watched; `None` if it was.
    pub unwatched: Option<Unwatched>,
}

/// A race that the detector saw in a run without a schedule.
#[derive(Clone, Debug)]
pub struct Watched {
    pub finding: Finding,
    /// The program counters of its accesses.
    pub pcs: [u64; 2],
    /// What the detector's report proves.
    pub proof: Proof,
}

/// A run under the schedule of the recording.
#[derive(Clone, Debug, Default)]
pub struct Rerun {
    /// Why the program did not follow its own recording, in words; `None` when it did.
    pub left: Option<String>,
    /// The deadlock that it ran into.
    pub hang: Option<Hang>,
}

/// A run that was to show the bug of a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    pub outcome: Outcome,
    /// The program counter of the read that a loop repeats to wait for a variable, if the run had
    /// such a loop.
    pub wait_loop: Option<u64>,
    /// The races that it showed, its own or others.
    pub sightings: Vec<Sighting>,
    /// Whether the program made a child process, which nobody watched.
    pub forked: bool,
    /// Whether a place of the bug is in code that the program loads while it runs (`dlopen`), which can
    /// lie elsewhere in another run and is then not recognised.
    pub loaded_later: bool,
    /// The custom events in the order in which they happened.
    pub events: Vec<Observed>,
}

/// What such a run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Confirmed(Proof),
    /// A thread waits in a loop for what the other thread of the race writes.
    OrderedBySpinLoop,
    /// The schedule was followed to its end, and the bug did not show.
    NoBug,
    /// The program left the schedule.
    Infeasible {
        /// The event of the trace that it could not do, where that is known.
        event: Option<EventIndex>,
        /// The reason in words.
        why: String,
    },
    TimedOut,
}
