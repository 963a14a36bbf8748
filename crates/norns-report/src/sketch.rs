//! What is shown of one finding. Every view is a rendering of this.
//!
//! The picture is that of failure sketches (Kasikci 2015, chapter 4): what ran beside what can run,
//! only the steps that matter, time going down, arrows only for synchronisation, and the order that
//! is missing between the two.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::consequence::Consequence;
use crate::describe::Mark;
use crate::finding::{Finding, Status, make_relative, severity};
use crate::kind::{Kind, Severity};

/// The version of a sketch's JSON form.
pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch {
    pub format: u32,
    pub id: String,
    pub kind: Kind,
    pub status: Status,
    /// One sentence: who can do what to whom.
    pub title: String,
    /// Short facts: how it was confirmed, how much differs from the recorded run.
    pub facts: Vec<String>,
    /// Why nothing prevents it.
    pub why: String,
    pub lanes: Vec<Lane>,
    /// How many threads of the run have no lane because they have no part in this.
    pub other_threads: usize,
    /// What ran.
    pub ran: Panel,
    /// What can run.
    pub can: Panel,
    /// The operations of the bug, numbered (1), (2), … in this order.
    pub operations: Vec<Operation>,
    /// What it is about; empty when that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// What a race does to the program, if it was classified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<Consequence>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
}

/// A finding at the same places and on the same object, where something else is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    pub id: String,
    pub status: Status,
    /// `write ↔ read`.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub thread: String,
    /// The function that the thread runs; empty when not known.
    pub function: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Panel {
    pub caption: String,
    pub rows: Vec<Row>,
    /// Synchronisation between lanes, both ends visible.
    pub edges: Vec<Edge>,
    /// The order that does not exist.
    pub missing: Option<Edge>,
    /// How many steps the schedule has before folding.
    pub steps: usize,
    /// Whether this is what can run: only there does "earlier" mean something.
    pub reordered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    Step(Step),
    /// Steps that have no part in the bug, counted for each lane that has some.
    Folded(Vec<Fold>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The position of the event in the trace: the same in both panels.
    pub event: u32,
    /// The number of the step in its schedule, from 1.
    pub number: usize,
    pub lane: usize,
    pub mark: Mark,
    pub what: String,
    pub value: String,
    /// `file:line`, the file's last part only.
    pub place: String,
    /// Comes earlier in the witness than in the recorded run, relative to a step that is shown.
    pub moved: bool,
    /// Part of the bug: 1 for (1), 2 for (2), 0 for none.
    pub operation: usize,
    /// Has not happened: the thread is stopped before it.
    pub pending: bool,
}

impl Step {
    /// The value for where there is little room: of an address only its last digits.
    pub fn short_value(&self) -> String {
        const LAST: usize = 5;
        let short = |value: &str| match value.strip_prefix("0x") {
            Some(digits) if digits.len() > LAST + 1 && digits.is_ascii() => {
                format!("0x…{}", &digits[digits.len() - LAST..])
            }
            _ => value.to_string(),
        };
        let parts: Vec<String> = self.value.split(" → ").map(short).collect();
        parts.join(" → ")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    pub lane: usize,
    pub steps: usize,
    pub what: String,
}

/// From one row to a later one, as indices into `Panel::rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
}

/// One operation of the bug, in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub thread: String,
    /// "reads 4 bytes of `balance`", "waits for `b`".
    pub what: String,
    pub file: String,
    pub line: u32,
    pub function: String,
    /// Innermost first.
    pub stack: Vec<Frame>,
    pub locks_held: Vec<HeldLock>,
    /// How the memory came to be; empty for operations on locks.
    pub origin: String,
    /// The lines around the operation; empty when the source could not be read.
    pub snippet: Vec<SourceLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub function: String,
    pub file: String,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    pub name: String,
    /// `file:line` of the acquisition.
    pub taken_at: String,
    /// `file:line` of the call that made the lock; empty when that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub made_at: String,
}

impl HeldLock {
    /// Where it was made, unless its name says so, and where it was taken.
    pub(crate) fn places(&self) -> String {
        let taken_at = &self.taken_at;
        match self.made_at.as_str() {
            "" => format!("taken at {taken_at}"),
            made_at if self.name.contains(made_at) => format!("taken at {taken_at}"),
            made_at => format!("made at {made_at}, taken at {taken_at}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    pub number: u32,
    pub text: String,
}

impl Sketch {
    /// Takes over what is known of a finding only when all of them are: its name, what it is
    /// about, and its variants.
    pub fn complete(&mut self, finding: &Finding) {
        self.id.clone_from(&finding.id);
        self.object = finding.object.clone().unwrap_or_default();
        let variants = finding.variants.iter().map(|variant| Variant {
            id: variant.id.clone(),
            status: variant.status,
            what: accesses(variant),
        });
        self.variants = variants.collect();
        self.consequence.clone_from(&finding.consequence);
    }

    pub fn severity(&self) -> Severity {
        severity(self.kind, self.status, self.consequence.as_ref())
    }

    /// The facts, with what the finding does to the program in front of them.
    pub fn all_facts(&self) -> impl Iterator<Item = String> {
        let consequence = self.consequence.iter();
        let consequence = consequence.flat_map(|consequence| {
            let class = consequence.words();
            let first = format!("{class}: {}", consequence.sentence());
            std::iter::once(first).chain(consequence.evidence.notes.iter().cloned())
        });
        consequence.chain(self.facts.iter().cloned())
    }

    /// Why it happens, or why it is expected to: only what was shown "can happen".
    pub fn why_title(&self) -> &'static str {
        match self.status {
            _ if self.kind == Kind::Failure => "What predicts it",
            Status::Confirmed => "Why it can happen",
            Status::Predicted => "Why it is predicted",
            Status::OrderedBySpinLoop => "Why it does not happen",
        }
    }

    /// The schedules with their titles, without those that have no steps.
    pub fn panels(&self) -> impl Iterator<Item = (&'static str, &Panel)> {
        let (ran, can) = match self.kind {
            Kind::Failure => ("A good run", "A failing run"),
            _ => ("What ran", self.can_title()),
        };
        let all = [(ran, &self.ran), (can, &self.can)];
        all.into_iter().filter(|(_, panel)| !panel.rows.is_empty())
    }

    fn can_title(&self) -> &'static str {
        match self.status {
            Status::Confirmed => "What can run",
            Status::Predicted => "What is predicted",
            Status::OrderedBySpinLoop => "What the loop prevents",
        }
    }

    /// A sentence on the threads without a lane, if there are some.
    pub fn others(&self) -> Option<String> {
        match self.other_threads {
            0 => None,
            1 => Some("1 other thread has no part in this".into()),
            others => Some(format!("{others} other threads have no part in this")),
        }
    }

    /// Writes the paths of files below `folder` relative to it.
    pub fn relative_to(&mut self, folder: &Path) {
        for operation in &mut self.operations {
            make_relative(&mut operation.file, folder);
            for frame in &mut operation.stack {
                make_relative(&mut frame.file, folder);
            }
        }
    }
}

impl Panel {
    /// The row of this event.
    pub fn row_of(&self, event: u32) -> Option<usize> {
        self.rows
            .iter()
            .position(|row| matches!(row, Row::Step(step) if step.event == event))
    }
}

/// What the places of a finding do: `write ↔ read`.
pub(crate) fn accesses(finding: &Finding) -> String {
    let places = finding.places.iter();
    let words: Vec<String> = places.map(|place| place.access.words()).collect();
    words.join(" ↔ ")
}

/// A count with its thousands apart: `134,344`.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
