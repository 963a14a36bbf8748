//! The candidates of a scan beside what the runs of a check say of each: `norns check --scan`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::escape;
use crate::finding::named;
use crate::scan::{summary_of, title, word};

/// A scan, with a judgement of every candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// In the order of the scan.
    pub candidates: Vec<JudgedCandidate>,
    /// What the scan left out.
    pub not_analysed: Vec<String>,
    /// The ids of confirmed races and deadlocks that are no candidates.
    pub unforeseen: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedCandidate {
    pub judgement: Judgement,
    pub reason: Reason,
    /// The finding that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// As `norns scan --format json` prints it.
    #[serde(flatten)]
    pub candidate: Value,
}

/// What the runs of a check say of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Judgement {
    /// A run has shown it.
    Confirmed,
    Undecided,
    /// No run came to all of its places.
    NotReached,
    /// Not in these runs, in whatever order their events happen.
    Refuted,
}

named! { Judgement "a judgement":
    Confirmed = "confirmed",
    Undecided = "undecided",
    NotReached = "not-reached",
    Refuted = "refuted",
}

/// Why a candidate is judged as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Shown,
    /// A schedule shows it, and no run has.
    Predicted,
    /// A budget ended before it was decided.
    Budget,
    /// Only schedules in which a read sees another write could show it, and no run has.
    OtherReads,
    /// The program's accesses are not recorded.
    NotSeen,
    /// All of its places were reached. What else it takes is not something that a run can show.
    Reached,
    NoPlace,
    /// Only one of its places was reached.
    OnePlace,
    OneThread,
    OtherMemory,
    /// In every order of the events something keeps its places apart.
    Ordered,
    SpinLoop,
    /// Replays of the schedule that would show it did not.
    Replays,
}

named! { Reason "a reason":
    Shown = "shown",
    Predicted = "predicted",
    Budget = "budget",
    OtherReads = "other-reads",
    NotSeen = "not-seen",
    Reached = "reached",
    NoPlace = "no-place",
    OnePlace = "one-place",
    OneThread = "one-thread",
    OtherMemory = "other-memory",
    Ordered = "ordered",
    SpinLoop = "spin-loop",
    Replays = "replays",
}

impl Reason {
    #[must_use]
    pub fn judgement(self) -> Judgement {
        match self {
            Self::Shown => Judgement::Confirmed,
            Self::Predicted | Self::Budget | Self::OtherReads | Self::NotSeen | Self::Reached => {
                Judgement::Undecided
            }
            Self::NoPlace | Self::OnePlace => Judgement::NotReached,
            Self::OneThread
            | Self::OtherMemory
            | Self::Ordered
            | Self::SpinLoop
            | Self::Replays => Judgement::Refuted,
        }
    }

    /// In plain words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Shown => "a run has shown it",
            Self::Predicted => "a schedule shows it, no run has",
            Self::Budget => "the budget ended before it was decided",
            Self::OtherReads => "it takes a read that sees another value, and no run has shown it",
            Self::NotSeen => "the accesses of the program are not recorded",
            Self::Reached => "its places were reached, and nothing was seen",
            Self::NoPlace => "no run came there",
            Self::OnePlace => "runs came to one of its places only",
            Self::OneThread => "only one thread came there",
            Self::OtherMemory => "the threads used different memory there",
            Self::Ordered => "the runs keep it from happening in every order of their events",
            Self::SpinLoop => "a loop waits until the other thread is done",
            Self::Replays => "replays that should show it did not",
        }
    }
}

/// How many candidates that no run reached are listed.
const MOST_LISTED: usize = 20;

impl JudgedCandidate {
    /// In one line, for a list of candidates.
    fn line(&self) -> String {
        let places = self.candidate["places"].as_array().into_iter().flatten();
        let places: Vec<String> = places
            .map(|at| {
                let (file, function) = (word(&at["file"]), word(&at["function"]));
                format!("{file}:{} in {function}", at["line"])
            })
            .collect();
        let title = title(
            word(&self.candidate["kind"]),
            word(&self.candidate["object"]),
        );
        format!("{title}: {} ({})", places.join(" ↔ "), self.reason.words())
    }
}

impl Judged {
    /// Writes the paths of files below `folder` relative to it.
    pub(crate) fn relative_to(&mut self, folder: &Path) {
        for judged in &mut self.candidates {
            make_relative(&mut judged.candidate, folder);
        }
    }

    /// Gives a finding another id.
    pub fn rename(&mut self, old: &str, new: &str) {
        for judged in &mut self.candidates {
            if judged.finding.as_deref() == Some(old) {
                judged.finding = Some(new.to_owned());
            }
        }
        for id in &mut self.unforeseen {
            if id == old {
                new.clone_into(id);
            }
        }
    }

    /// How many candidates of each judgement each file has. A candidate counts for the file of its first
    /// place.
    #[must_use]
    pub fn by_file(&self) -> BTreeMap<&str, [usize; Judgement::ALL.len()]> {
        let mut files: BTreeMap<&str, [usize; Judgement::ALL.len()]> = BTreeMap::new();
        for judged in &self.candidates {
            let file = word(&judged.candidate["places"][0]["file"]);
            let all = Judgement::ALL.iter();
            let column = { all }.position(|&judgement| judgement == judged.judgement);
            if let Some(column) = column {
                files.entry(file).or_default()[column] += 1;
            }
        }
        files
    }

    /// The candidates that no run reached, the likeliest first: what to test next.
    pub fn not_reached(&self) -> impl Iterator<Item = &JudgedCandidate> {
        let all = self.candidates.iter();
        all.filter(|judged| judged.judgement == Judgement::NotReached)
    }

    /// The table by file and what to test next.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut put = |line: &str| {
            writeln!(out, "{}", escape::terminal(line)).expect("a string takes all text");
        };
        let count = |judgement| {
            let all = self.candidates.iter();
            all.filter(|judged| judged.judgement == judgement).count()
        };
        put(&format!(
            "scan: {}: {} confirmed, {} undecided, {} not reached, {} refuted for these runs",
            summary_of(self.candidates.len()),
            count(Judgement::Confirmed),
            count(Judgement::Undecided),
            count(Judgement::NotReached),
            count(Judgement::Refuted),
        ));
        let files = self.by_file();
        if !files.is_empty() {
            put("  confirmed  undecided  not reached  refuted  file");
        }
        for (file, [confirmed, undecided, not_reached, refuted]) in files {
            put(&format!(
                "  {confirmed:>9}  {undecided:>9}  {not_reached:>11}  {refuted:>7}  {file}"
            ));
        }
        let mut left: Vec<String> = self.not_reached().map(JudgedCandidate::line).collect();
        // The read and the write of one line are two candidates.
        let mut seen = BTreeSet::new();
        left.retain(|line| seen.insert(line.clone()));
        if !left.is_empty() {
            put("not reached by any run, to be tested next:");
        }
        for line in left.iter().take(MOST_LISTED) {
            put(&format!("  {line}"));
        }
        if left.len() > MOST_LISTED {
            put(&format!(
                "  and {} more (--format json)",
                left.len() - MOST_LISTED
            ));
        }
        for id in &self.unforeseen {
            put(&format!("{id} is no candidate: the scan has missed it"));
        }
        for what in &self.not_analysed {
            put(&format!("not scanned: {what}"));
        }
        out
    }
}

fn make_relative(value: &mut Value, folder: &Path) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(file)) = fields.get_mut("file") {
                crate::finding::make_relative(file, folder);
            }
            for part in fields.values_mut() {
                make_relative(part, folder);
            }
        }
        Value::Array(parts) => {
            for part in parts {
                make_relative(part, folder);
            }
        }
        _ => {}
    }
}
