//! The data type behind every view of a finding, and its JSON form (format 1, `docs/schema/findings.json`).

use std::path::Path;

use norns_model::NotAnalysed;
use serde::{Deserialize, Serialize};

use crate::build::begin_with_smallest;

/// The version of the JSON form.
pub const FORMAT: u32 = 1;

/// Everything that one `check` or `predict` has to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    pub format: u32,
    pub findings: Vec<Finding>,
    /// How many candidates ran out of budget.
    pub undecided: usize,
    #[serde(with = "crate::not_analysed")]
    pub not_analysed: Vec<NotAnalysed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Short, stable for the same finding in the same program.
    pub id: String,
    pub kind: Kind,
    pub status: Status,
    /// For a race the two accesses; for a deadlock the blocked operations.
    pub places: Vec<Place>,
    pub witness: Option<Vec<WitnessStep>>,
    pub verdict: Option<Verdict>,
    /// Whether the baseline has it, so that it does not fail a build.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
}

impl Finding {
    /// Puts the places in the order that `bug_events` gives them.
    pub fn arrange(&mut self) {
        let key = |place: &Place| {
            let at =
                (place.line > 0).then(|| (place.file.clone(), place.line, place.function.clone()));
            let reads = place.access == AccessKind::Read;
            (reads, at, place.thread.clone())
        };
        match self.kind {
            Kind::Deadlock => begin_with_smallest(&mut self.places, key),
            _ => self.places.sort_by_key(key),
        }
    }

    /// Whether it makes `norns check` fail.
    pub fn fails(&self) -> bool {
        self.status == Status::Confirmed && !self.known
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    DataRace,
    UseAfterFree,
    DoubleFree,
    Deadlock,
    /// A wait that nothing will end: condition, semaphore, barrier or join.
    Stuck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Confirmed,
    Predicted,
    OrderedBySpinLoop,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub function: String,
    pub thread: String,
    pub access: AccessKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    Read,
    Write,
    Free,
    Lock,
    ReadLock,
    Wait,
    SemWait,
    Barrier,
    Join,
    Once,
    AtomicRead,
    AtomicWrite,
    Event,
}

impl AccessKind {
    pub fn words(self) -> &'static str {
        match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Free => "free",
            AccessKind::Lock => "lock",
            AccessKind::ReadLock => "read lock",
            AccessKind::Wait => "wait",
            AccessKind::SemWait => "semaphore",
            AccessKind::Barrier => "barrier",
            AccessKind::Join => "join",
            AccessKind::Once => "once",
            AccessKind::AtomicRead => "atomic read",
            AccessKind::AtomicWrite => "atomic write",
            AccessKind::Event => "event",
        }
    }
}

/// One step of a witness, in schedule order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessStep {
    pub thread: String,
    pub op: String,
    pub file: String,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// What the replay saw: the two threads stopped with both accesses next, the detector's
    /// report, or the cycle.
    Confirmed(String),
    NoBug,
    /// Where and why the program left the schedule.
    Infeasible(String),
    TimedOut,
}

impl Findings {
    /// Writes the paths of files below `folder` relative to it: what the user typed, and what a
    /// repository's own tools call them.
    pub fn relative_to(&mut self, folder: &Path) {
        for finding in &mut self.findings {
            for place in &mut finding.places {
                make_relative(&mut place.file, folder);
            }
            for step in finding.witness.iter_mut().flatten() {
                make_relative(&mut step.file, folder);
            }
        }
    }
}

pub(crate) fn make_relative(file: &mut String, folder: &Path) {
    if let Ok(inside) = Path::new(file).strip_prefix(folder)
        && let Some(inside) = inside.to_str()
    {
        *file = inside.to_string();
    }
}
