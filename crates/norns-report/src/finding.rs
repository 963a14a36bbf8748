//! The data type behind every view of a finding, and its JSON form: format 1, described by
//! `docs/schema/findings.json`.

use std::path::Path;

use norns_model::NotAnalysed;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::consequence::{Class, Consequence};
use crate::judged::Judged;
use crate::kind::{Kind, Severity};

/// The version of the JSON form.
pub const FORMAT: u32 = 1;

/// The names of an enum's variants in JSON, said once: `ALL`, `name` and the serialisation.
macro_rules! named {
    ($type:ident $what:literal: $($variant:ident = $name:literal),* $(,)?) => {
        impl $type {
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant),*];

            /// The name in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let name = String::deserialize(deserializer)?;
                let found = $type::ALL.into_iter().find(|one| one.name() == name);
                let unknown = || <D::Error as serde::de::Error>::custom(format!(concat!("{:?} is not ", $what), name));
                found.ok_or_else(unknown)
            }
        }
    };
}

pub(crate) use named;

/// Everything that one `check` or `predict` has to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    pub format: u32,
    pub findings: Vec<Finding>,
    /// How many candidates ran out of budget.
    pub undecided: usize,
    #[serde(with = "crate::not_analysed")]
    pub not_analysed: Vec<NotAnalysed>,
    /// The recordings of a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recordings: Option<Recordings>,
    /// With `--scan`: the candidates of the scan beside what the runs say of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<Judged>,
}

/// How often a check recorded the program, and what that brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recordings {
    /// For each recording, how much it showed that no earlier one had: operations at places, orders
    /// of locks, and pairs of places at which threads followed each other.
    pub new: Vec<usize>,
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
    /// The rule of the user that is broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What was probably meant to be atomic, where that is the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Whether the baseline has it, so that it does not fail a build.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// The variable, the block of memory or the locks that it is about, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// What it does to the program, for a race that was classified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<Consequence>,
    /// The same places and object, where only what is done there differs. A variant has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Finding>,
}

impl Finding {
    /// Puts the places in the order in which they are shown; the same as that of `bug_events`.
    pub fn arrange(&mut self) {
        let key = |place: &Place| {
            let at =
                (place.line > 0).then(|| (place.file.clone(), place.line, place.function.clone()));
            let reads = place.access == AccessKind::Read;
            (reads, at, place.thread.clone())
        };
        self.kind.definition().order.arrange(&mut self.places, key);
    }

    pub fn severity(&self) -> Severity {
        severity(self.kind, self.status, self.consequence.as_ref())
    }

    /// Whether it makes `norns check` fail, by itself or by a variant.
    pub fn fails(&self) -> bool {
        self.with_variants().any(Finding::fails_alone)
    }

    /// Whether it makes `norns check` fail whatever its variants are.
    pub fn fails_alone(&self) -> bool {
        self.status == Status::Confirmed && !self.known
    }

    /// Itself, then its variants.
    pub fn with_variants(&self) -> impl Iterator<Item = &Finding> {
        std::iter::once(self).chain(&self.variants)
    }
}

/// How bad a finding is. What a loop keeps from happening does nothing.
pub(crate) fn severity(kind: Kind, status: Status, consequence: Option<&Consequence>) -> Severity {
    match (status, consequence.map(|consequence| consequence.class)) {
        (Status::OrderedBySpinLoop, _) => Severity::Low,
        (Status::Confirmed | Status::Predicted, class) => match class {
            None => kind.definition().severity,
            Some(Class::SpecViolated) => Severity::High,
            Some(Class::OutputDiffers) => Severity::Medium,
            Some(Class::SingleOrdering | Class::Harmless) => Severity::Low,
        },
    }
}

/// How far a finding is proved. Sorted from the most to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// A run has shown it.
    Confirmed,
    /// There is a schedule that shows it, and no run has.
    Predicted,
    /// A race that a loop waiting for a value keeps from happening.
    OrderedBySpinLoop,
}

named! { Status "a status":
    Confirmed = "confirmed",
    Predicted = "predicted",
    OrderedBySpinLoop = "ordered-by-spin-loop",
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
    pub function: String,
    pub thread: String,
    pub access: AccessKind,
}

impl Status {
    /// In plain words.
    pub fn words(self) -> &'static str {
        match self {
            Status::Confirmed => "confirmed",
            Status::Predicted => "predicted",
            Status::OrderedBySpinLoop => "ordered by a spin loop",
        }
    }
}

/// What an operation of a finding does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    Read,
    Write,
    Free,
    /// Uses a synchronisation object.
    Use,
    Destroy,
    Initialise,
    Lock,
    Unlock,
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

named! { AccessKind "an access":
    Read = "read",
    Write = "write",
    Free = "free",
    Use = "use",
    Destroy = "destroy",
    Initialise = "initialise",
    Lock = "lock",
    Unlock = "unlock",
    ReadLock = "read-lock",
    Wait = "wait",
    SemWait = "sem-wait",
    Barrier = "barrier",
    Join = "join",
    Once = "once",
    AtomicRead = "atomic-read",
    AtomicWrite = "atomic-write",
    Event = "event",
}

impl AccessKind {
    /// In plain words.
    pub fn words(self) -> String {
        match self {
            AccessKind::SemWait => "semaphore".into(),
            other => other.name().replace('-', " "),
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
    /// The recorded run itself had it. What showed it there, and in a replay as well if one did.
    Observed(String),
    /// The recorded run had two accesses that nothing known orders, but this may have ordered them.
    NotUnderstood(String),
    /// What the replay saw: the two threads stopped with both accesses next, the detector's
    /// report, or the cycle.
    Confirmed(String),
    NoBug,
    /// Where and why the program left the schedule.
    Infeasible(String),
    TimedOut,
}

impl Findings {
    /// All findings, each followed by its variants.
    pub fn with_variants(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().flat_map(Finding::with_variants)
    }

    /// Puts the findings with the worst consequence first; otherwise their order stays. What has no class
    /// comes behind what violates the specification.
    pub fn sort_by_class(&mut self) {
        let class = |finding: &Finding| match finding.consequence.as_ref().map(|found| found.class)
        {
            Some(Class::SpecViolated) => 0,
            None => 1,
            Some(Class::OutputDiffers) => 2,
            Some(Class::SingleOrdering) => 3,
            Some(Class::Harmless) => 4,
        };
        (self.findings).sort_by_key(|finding| (finding.status, class(finding)));
    }

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
        if let Some(scan) = &mut self.scan {
            scan.relative_to(folder);
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
