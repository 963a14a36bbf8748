//! What participants, developers and the hive say to each other, in JSON.
//!
//! Every message begins with its version; a reader refuses another one. `check` (in `refused.rs`) refuses what
//! is too large or does not fit together, so that what has passed it can be stored.
//!
//! | who says it | request | answer |
//! | --- | --- | --- |
//! | `norns hive add` | `POST /v1/programs/{program}/builds`: [`Build`] | 201 |
//! | a participant | `POST /v1/programs/{program}/task`: [`TaskRequest`] | [`TaskResponse`] |
//! | a participant | `POST /v1/programs/{program}/reports`: [`Batch`] | 200 once it cannot be lost any more |
//! | people | `GET /v1/programs/{program}/races` | [`crate::races::Races`] |
//!
//! What a participant sends is in [`TaskRequest`] and [`Batch`], and nothing else: docs/hive.md lists it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{BatchId, BuildId, CandidateId, ParticipantId, ProgramName, SiteNumber, TaskId};

/// The version of all messages. It is also part of every address (`/v1/`).
pub const VERSION: u32 = 1;

/// The largest body of a request of a participant, in bytes.
pub const MAX_BATCH_BYTES: usize = 256 * 1024;
/// The largest body that describes a build, in bytes.
pub const MAX_BUILD_BYTES: usize = 64 * 1024 * 1024;
/// The most reports in one batch.
pub const MAX_REPORTS: usize = 500;
/// The most frames of one stack.
pub const MAX_FRAMES: usize = 64;
/// The longest name of a file, function or module, in bytes.
pub const MAX_NAME: usize = 1024;
/// The most candidates and the most sites of one build.
pub const MAX_CANDIDATES: usize = 200_000;

/// One build of a program: what can be validated in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    pub format: u32,
    pub program: ProgramName,
    pub id: BuildId,
    /// What a person calls it, such as a version or a commit; may be empty.
    #[serde(default)]
    pub label: String,
    pub sites: Vec<Site>,
    pub candidates: Vec<Candidate>,
    /// The sources that the candidates name, by the path that their places have.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// A point of the program at which the runtime can be asked to look at an access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    pub number: SiteNumber,
    /// Relative to the folder of the sources.
    pub file: String,
    pub line: u32,
    /// 0 where it is not known.
    #[serde(default)]
    pub column: u32,
    pub function: String,
    pub access: Access,
    /// How many bytes the access has; 0 where it is not constant.
    #[serde(default)]
    pub size: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    Read,
    Write,
    /// Reads and writes in one operation.
    Update,
}

impl Access {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Update => "update",
        }
    }
}

/// Two accesses that could race.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    pub id: CandidateId,
    pub origin: Origin,
    /// How likely it is a race, by whoever found it: higher is likelier.
    #[serde(default)]
    pub rank: u32,
    /// The variable or block of memory.
    #[serde(default)]
    pub object: String,
    /// The two accesses; twice the same where a statement races with itself.
    pub places: [Place; 2],
    /// The sites of each place, in ascending order: several where the compiler copied the access or where
    /// the line has several. A candidate without sites at one of its places is listed, but not validated.
    pub sites: [Vec<SiteNumber>; 2],
}

/// Who suspects a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `norns scan`, from the code alone.
    Scan,
    /// `norns check`, from a run: a schedule shows it.
    Predicted,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Relative to the folder of the sources.
    pub file: String,
    pub line: u32,
    /// 0 where it is not known.
    #[serde(default)]
    pub column: u32,
    pub function: String,
    pub access: Access,
}

/// Which of the two accesses of a candidate is to come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The first of the candidate's places before the second.
    Primary,
    /// The second before the first.
    Alternate,
}

/// What one run is asked to try: to see whether nothing orders two accesses, with a particular one first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub id: TaskId,
    pub candidate: CandidateId,
    /// The sites of the candidate's first and second place; the same site twice where a statement races
    /// with itself.
    pub sites: [SiteNumber; 2],
    pub order: Order,
    /// How long a thread may be made to wait for the order, in milliseconds.
    pub tau_ms: u32,
}

impl Task {
    /// The site that is to be passed first, and the one that waits for it.
    #[must_use]
    pub fn steered(&self) -> (SiteNumber, SiteNumber) {
        let [one, other] = self.sites;
        match self.order {
            Order::Primary => (one, other),
            Order::Alternate => (other, one),
        }
    }
}

/// A participant asks what to do: at the start of a run, after each result, and every so often in a run
/// that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    pub format: u32,
    pub participant: ParticipantId,
    pub build: BuildId,
    /// The task that is active now. It is answered with itself, or is to be switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<TaskId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskResponse {
    pub format: u32,
    /// What is to be active from now on; with `null` nothing.
    pub task: Option<Task>,
    /// When to ask again, unless the task ends before.
    pub again_in_seconds: u32,
}

/// Reports that are sent, stored and acknowledged together. A batch is composed once and then sent,
/// unchanged, until it is acknowledged: the hive counts a batch of the same participant and id only once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    pub format: u32,
    pub id: BatchId,
    pub participant: ParticipantId,
    pub build: BuildId,
    pub reports: Vec<Report>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Report {
    /// What came of a task.
    Task(TaskReport),
    /// Pairs of sites at which different threads touched the same address (3.3.1 of the paper).
    Contexts { pairs: Vec<[SiteNumber; 2]> },
    /// What a run, or an hour of one that goes on, has cost.
    Run(RunFigures),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    pub task: TaskId,
    pub candidate: CandidateId,
    pub sites: [SiteNumber; 2],
    pub order: Order,
    pub tau_ms: u32,
    pub result: Outcome,
    /// With a race, the stacks of the two accesses, in the order in which they came, innermost frame first;
    /// otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Vec<Frame>>,
    /// How the program failed while the task was active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<Consequence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Both accesses came, from different threads to the same address, and nothing ordered them.
    Race,
    /// After the first access, everything was ordered after it before the second came.
    NoRace,
    /// A thread waited for `tau_ms`, and the order asked for did not come.
    Timeout,
    /// The run, or the time given to the task, ended before both accesses had come.
    NotSeen,
}

/// How a program failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consequence {
    pub kind: ConsequenceKind,
    /// The signal that ended the program; 0 where none did.
    #[serde(default)]
    pub signal: u32,
    /// The innermost frame first. The text of an assertion is not sent: its place is.
    pub stack: Vec<Frame>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsequenceKind {
    Signal,
    Abort,
    Assertion,
    Hang,
}

impl ConsequenceKind {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ConsequenceKind::Signal => "signal",
            ConsequenceKind::Abort => "abort",
            ConsequenceKind::Assertion => "assertion",
            ConsequenceKind::Hang => "hang",
        }
    }
}

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// The file name of the program or library, without its folder.
    pub module: String,
    pub offset: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// Relative to the folder of the sources, or the last part of the path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The cost of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFigures {
    /// How long the program has run since the last figures, in milliseconds.
    pub wall_ms: u64,
    /// CPU time of the program in it.
    pub cpu_ms: u64,
    /// CPU time that the runtime took of it.
    pub runtime_cpu_us: u64,
    /// How long a task was active.
    pub active_ms: u64,
    /// How long threads were made to wait for an order, over all threads.
    pub waited_ms: u64,
    /// Whether this is the end of a run.
    pub ended: bool,
}

/// The answer to a batch: it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub format: u32,
    /// How many of its reports count.
    pub accepted: u32,
    /// How many do not, because no such task was given to this participant, or was reported before.
    pub refused: u32,
    /// Whether the batch had been stored before.
    pub known: bool,
}

/// The answer to a new build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    pub format: u32,
    pub candidates: u32,
    /// How many of them had a verdict other than unknown from an earlier build.
    pub carried_over: u32,
    /// The token for the sites of this program, when the program is new; it is not shown again.
    pub site_token: Option<String>,
}

/// Everything that a hive knows of one candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaceDetail {
    pub format: u32,
    pub race: crate::races::Race,
    pub candidate: Candidate,
    /// The build that the places are of: the newest that has the candidate.
    pub build: BuildId,
    pub context_seen: bool,
    /// The source lines around each place.
    pub excerpts: Vec<Excerpt>,
    /// Reports with a race or with a failure, the first few of each build.
    pub evidence: Vec<Evidence>,
    /// The verdicts it had, the first first.
    pub history: Vec<VerdictChange>,
}

/// Some lines of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    pub file: String,
    /// The number of the first of the lines.
    pub first: u32,
    pub lines: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub build: BuildId,
    /// Seconds since 1970.
    pub received: i64,
    pub report: TaskReport,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictChange {
    pub verdict: crate::verdict::Verdict,
    /// Seconds since 1970.
    pub at: i64,
}

/// The answer to a request that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub format: u32,
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::Refused;

    fn site(number: u32) -> SiteNumber {
        SiteNumber(number)
    }

    fn batch(reports: Vec<Report>) -> Batch {
        Batch {
            format: VERSION,
            id: BatchId::new("0".repeat(32)).expect("32 digits"),
            participant: ParticipantId::new("1".repeat(32)).expect("32 digits"),
            build: BuildId::new("abcdef01").expect("8 digits"),
            reports,
        }
    }

    fn race() -> TaskReport {
        TaskReport {
            task: TaskId::new("t").expect("printable"),
            candidate: CandidateId::new("0123456789abcdef").expect("16 digits"),
            sites: [site(1), site(2)],
            order: Order::Alternate,
            tau_ms: 50,
            result: Outcome::Race,
            stacks: Vec::new(),
            consequence: None,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let reports = vec![
            Report::Task(race()),
            Report::Contexts {
                pairs: vec![[site(1), site(2)]],
            },
            Report::Run(RunFigures {
                wall_ms: 12,
                ended: true,
                ..RunFigures::default()
            }),
        ];
        let batch = batch(reports);
        let text = serde_json::to_string(&batch).expect("a batch is JSON");
        assert_eq!(
            serde_json::from_str::<Batch>(&text).expect("its own text"),
            batch
        );
        assert_eq!(batch.check(), Ok(()));
    }

    #[test]
    fn what_is_unknown_too_large_or_absolute_is_refused() {
        let later = Batch {
            format: 2,
            ..batch(Vec::new())
        };
        assert_eq!(later.check(), Err(Refused::Version(2)));
        let many = batch(vec![Report::Task(race()); MAX_REPORTS + 1]);
        assert!(matches!(many.check(), Err(Refused::TooMany { .. })));
        let frame = |file: &str| Frame {
            module: "server".into(),
            offset: 16,
            function: String::new(),
            file: file.into(),
            line: 3,
        };
        for (file, accepted) in [
            ("src/a.c", true),
            ("/home/someone/a.c", false),
            ("../a.c", false),
        ] {
            let report = TaskReport {
                stacks: vec![vec![frame(file)]],
                ..race()
            };
            assert_eq!(
                batch(vec![Report::Task(report)]).check().is_ok(),
                accepted,
                "{file}"
            );
        }
        let unknown = r#"{"format": 1, "participant": "0", "memory": "contents"}"#;
        assert!(serde_json::from_str::<TaskRequest>(unknown).is_err());
    }

    #[test]
    fn the_order_asked_for_says_which_site_waits() {
        let task = Task {
            id: TaskId::new("t").expect("printable"),
            candidate: race().candidate,
            sites: [site(1), site(2)],
            order: Order::Alternate,
            tau_ms: 1,
        };
        assert_eq!(task.steered(), (site(2), site(1)));
    }
}
