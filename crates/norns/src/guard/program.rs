//! What the agent knows of one build: its task, what came of it, and what is to be reported.
//!
//! A task ends with the first process in which something came of it. Where a process ends and nothing came of the
//! task in any, it was not seen. A race is kept back for a while as long as its process runs, since a crash or a hang
//! that follows belongs into the same report: the hive takes one report a task.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use norns_hive::protocol::{Build, MAX_REPORTS};
use norns_hive::{
    Candidate, Consequence, Frame, Outcome, Report, RunFigures, SiteNumber, Task, TaskReport,
};
use norns_wire::guarding::{self, NOTHING};

use super::process::HANG;

/// How long a race waits for what follows from it.
const FOLLOWS: Duration = HANG.saturating_add(Duration::from_secs(5));
/// How long a task is tried in processes that go on, until it counts as not seen.
const LONGEST: Duration = Duration::from_secs(600);
/// How often contexts and figures are handed in.
const EVERY: Duration = Duration::from_secs(60);
/// How many tasks are remembered, for processes that have not seen the last ones.
const REMEMBERED: usize = 64;

pub struct Program {
    pub build: Build,
    /// What processes are to have; a task without sites where there is nothing to do.
    pub task: guarding::Task,
    /// Which task processes were given last.
    distributed: u64,
    active: Option<Active>,
    /// Tasks by their serial numbers, the newest last.
    given: Vec<(u64, Task)>,
    /// The tasks of which the result is known.
    concluded: BTreeSet<u64>,
    held_back: Vec<HeldBack>,
    reports: Vec<Report>,
    reported: Instant,
    is_urgent: bool,
    pairs: BTreeSet<[u32; 2]>,
    pub asking: Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// The hive is to be asked then.
    At(Instant),
    /// It has not answered yet.
    Asked,
}

struct Active {
    serial: u64,
    since: Instant,
}

/// A report that a failure of its process may complete.
struct HeldBack {
    serial: u64,
    process: u32,
    report: TaskReport,
    since: Instant,
}

impl Program {
    /// Serial numbers begin above `serial`. `given` are tasks of an agent before this one, which processes may still
    /// have.
    pub fn new(build: Build, serial: u64, given: Vec<(u64, Task)>) -> Self {
        let now = Instant::now();
        Self {
            build,
            task: guarding::Task::none(serial),
            distributed: serial,
            active: None,
            given,
            concluded: BTreeSet::new(),
            held_back: Vec::new(),
            reports: Vec::new(),
            reported: now,
            is_urgent: false,
            pairs: BTreeSet::new(),
            asking: Asking::At(now),
        }
    }

    /// The tasks that processes may have, by their serial numbers.
    pub fn given(&self) -> &[(u64, Task)] {
        &self.given
    }

    /// The task that is tried now.
    pub fn active(&self) -> Option<&Task> {
        let active = self.active.as_ref()?;
        self.task_of(active.serial)
    }

    /// The serial number of the task that is tried now, or 0.
    pub fn active_serial(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.serial)
    }

    fn task_of(&self, serial: u64) -> Option<&Task> {
        let given = self.given.iter().find(|(number, _)| *number == serial);
        given.map(|(_, task)| task)
    }

    /// Whether the task has changed since this was last asked.
    pub fn is_changed(&mut self) -> bool {
        let given = std::mem::replace(&mut self.distributed, self.task.serial);
        given != self.task.serial
    }

    /// Takes what the hive has answered.
    pub fn takes(&mut self, task: Option<Task>, again: Duration) {
        self.asking = Asking::At(Instant::now() + again);
        let known = |task: &Task| {
            let mut candidates = self.build.candidates.iter();
            candidates.any(|it| it.id == task.candidate && it.has(task.sites))
        };
        let task = task.filter(known);
        match (task, self.active()) {
            (Some(task), Some(active)) if task.id == active.id => {}
            (None, None) => {}
            (task, _) => self.give(task),
        }
    }

    fn give(&mut self, task: Option<Task>) {
        let serial = self.task.serial + 1;
        self.task = guarding::Task::none(serial);
        self.active = None;
        let Some(task) = task else { return };
        let (first, second) = task.steered();
        self.task = guarding::Task {
            serial,
            first: first.0,
            second: second.0,
            tau_ms: task.tau_ms,
        };
        self.active = Some(Active {
            serial,
            since: Instant::now(),
        });
        if self.given.len() >= REMEMBERED {
            self.given.remove(0);
        }
        self.given.push((serial, task));
    }

    /// Something came of a task in a process.
    pub fn ends(&mut self, serial: u64, came: Came, process: u32) {
        let Some(task) = self.task_of(serial).cloned() else {
            return;
        };
        if self.active_serial() == serial {
            self.give(None);
            self.asking = Asking::At(Instant::now());
        }
        if !self.concluded.insert(serial) {
            return;
        }
        let report = TaskReport {
            task: task.id,
            candidate: task.candidate,
            sites: task.sites,
            order: task.order,
            tau_ms: task.tau_ms,
            result: came.result,
            stacks: came.stacks,
            consequence: None,
        };
        self.held_back.push(HeldBack {
            serial,
            process,
            report,
            since: Instant::now(),
        });
        if came.result != Outcome::Race {
            self.release(|it| it.serial == serial);
        }
    }

    /// A process fails, under this task or behind it.
    pub fn fails(&mut self, serial: u64, consequence: Consequence, process: u32) {
        let is_its = |it: &&mut HeldBack| it.serial == serial && it.process == process;
        if let Some(held_back) = self.held_back.iter_mut().find(is_its) {
            held_back.report.consequence = Some(consequence);
            self.release(|it| it.serial == serial);
        } else if self.task_of(serial).is_some() && !self.concluded.contains(&serial) {
            self.ends(serial, Came::not_seen(), process);
            let last = self
                .reports
                .iter_mut()
                .rev()
                .find_map(|report| match report {
                    Report::Task(report) => Some(report),
                    _ => None,
                });
            if let Some(report) = last {
                report.consequence = Some(consequence);
            }
        }
    }

    /// A process has ended; `is_alone` if no other has its task.
    pub fn has_ended(&mut self, applied: u64, process: u32, is_alone: bool) {
        self.release(|it| it.process == process);
        let serial = self.active_serial();
        if is_alone && serial != 0 && applied >= serial {
            self.ends(serial, Came::not_seen(), process);
        }
        self.is_urgent = true;
    }

    fn release(&mut self, which: impl Fn(&HeldBack) -> bool) {
        let (released, kept) = self.held_back.drain(..).partition(which);
        self.held_back = kept;
        let released: Vec<HeldBack> = released;
        self.is_urgent |= !released.is_empty();
        self.reports
            .extend(released.into_iter().map(|it| Report::Task(it.report)));
    }

    /// Different threads touched one address at these sites.
    pub fn sees(&mut self, pairs: impl Iterator<Item = [u32; 2]>) {
        let mut new = Vec::new();
        for pair in pairs {
            if self.pairs.insert(pair) {
                let [one, other] = pair.map(SiteNumber);
                let suspects = |it: &Candidate| it.has([one, other]) || it.has([other, one]);
                if self.build.candidates.iter().any(suspects) {
                    new.push([one, other]);
                }
            }
        }
        for pairs in new.chunks(MAX_REPORTS) {
            let pairs = pairs.to_vec();
            self.reports.push(Report::Contexts { pairs });
        }
    }

    pub fn costs(&mut self, figures: RunFigures) {
        self.reports.push(Report::Run(figures));
    }

    /// Once in a while: what was kept back long enough, a task that is tried for too long.
    pub fn looks_at_the_clock(&mut self) {
        self.release(|it| it.since.elapsed() >= FOLLOWS);
        let stale = self.active.as_ref();
        let Some(stale) = stale.filter(|it| it.since.elapsed() >= LONGEST) else {
            return;
        };
        let serial = stale.serial;
        self.ends(serial, Came::not_seen(), 0);
    }

    /// What is to be handed in now.
    pub fn due(&mut self) -> Vec<Report> {
        let is_due = self.is_urgent
            || self.reported.elapsed() >= EVERY
            || self.reports.len() >= MAX_REPORTS / 2;
        if !is_due || self.reports.is_empty() {
            return Vec::new();
        }
        self.is_urgent = false;
        self.reported = Instant::now();
        std::mem::take(&mut self.reports)
    }

    /// Everything that is left, at the end.
    pub fn rest(&mut self) -> Vec<Report> {
        self.release(|_| true);
        std::mem::take(&mut self.reports)
    }

    /// Whether a result waits for what may follow from it.
    pub fn holds_back(&self) -> bool {
        !self.held_back.is_empty()
    }
}

/// What came of a task.
pub struct Came {
    pub result: Outcome,
    pub stacks: Vec<Vec<Frame>>,
}

impl Came {
    fn not_seen() -> Self {
        Self {
            result: Outcome::NotSeen,
            stacks: Vec::new(),
        }
    }

    pub fn of(attempt: &guarding::Attempt, stacks: impl FnOnce() -> Vec<Vec<Frame>>) -> Self {
        let result = match attempt.outcome {
            guarding::Outcome::Race => Outcome::Race,
            guarding::Outcome::NoRace => Outcome::NoRace,
            guarding::Outcome::Timeout => Outcome::Timeout,
        };
        let has_sides = attempt.sides.iter().all(|side| side.site != NOTHING);
        let stacks = match result {
            Outcome::Race if has_sides => stacks(),
            _ => Vec::new(),
        };
        Self { result, stacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_hive::{
        Access, BuildId, CandidateId, ConsequenceKind, Order, Origin, Place, ProgramName, Site,
        TaskId,
    };

    fn place(line: u32) -> Place {
        Place {
            file: "a.c".into(),
            line,
            column: 1,
            function: "f".into(),
            access: Access::Write,
        }
    }

    fn program() -> Program {
        let site = |number: u32| Site {
            number: SiteNumber(number),
            file: "a.c".into(),
            line: number,
            column: 1,
            function: "f".into(),
            access: Access::Write,
            size: 4,
        };
        let build = Build {
            format: 1,
            program: ProgramName::new("server").expect("a name"),
            id: BuildId::new("00112233").expect("digits"),
            label: String::new(),
            sites: vec![site(1), site(2)],
            candidates: vec![Candidate {
                id: CandidateId::new("0".repeat(16)).expect("digits"),
                origin: Origin::Scan,
                rank: 0,
                object: String::new(),
                places: [place(1), place(2)],
                sites: [vec![SiteNumber(1)], vec![SiteNumber(2)]],
            }],
            sources: Default::default(),
        };
        Program::new(build, 100, Vec::new())
    }

    fn task(name: &str) -> Task {
        Task {
            id: TaskId::new(name).expect("printable"),
            candidate: CandidateId::new("0".repeat(16)).expect("digits"),
            sites: [1, 2].map(SiteNumber),
            order: Order::Alternate,
            tau_ms: 50,
        }
    }

    fn came(result: Outcome) -> Came {
        Came {
            result,
            stacks: Vec::new(),
        }
    }

    /// The tasks, results and consequences of what is to be handed in now.
    fn due(program: &mut Program) -> Vec<(String, Outcome, bool)> {
        let reports = program.due().into_iter();
        let tasks = reports.filter_map(|report| match report {
            Report::Task(it) => Some((it.task.to_string(), it.result, it.consequence.is_some())),
            _ => None,
        });
        tasks.collect()
    }

    fn given(program: &mut Program, name: &str) -> u64 {
        program.takes(Some(task(name)), EVERY);
        assert!(program.is_changed());
        program.task.serial
    }

    fn abort() -> Consequence {
        Consequence {
            kind: ConsequenceKind::Abort,
            signal: 6,
            stack: Vec::new(),
        }
    }

    #[test]
    fn a_task_says_which_site_waits_and_ends_with_its_first_result() {
        let mut program = program();
        let serial = given(&mut program, "t");
        assert_eq!((program.task.first, program.task.second), (2, 1));
        program.takes(Some(task("t")), EVERY);
        assert!(!program.is_changed(), "the same task goes on");
        program.ends(serial, came(Outcome::NoRace), 7);
        program.ends(serial, came(Outcome::Race), 8);
        assert!(program.is_changed() && program.task.is_none());
        assert_eq!(due(&mut program), [("t".into(), Outcome::NoRace, false)]);
    }

    #[test]
    fn a_race_waits_for_what_its_process_does_then() {
        let mut program = program();
        let serial = given(&mut program, "t");
        program.ends(serial, came(Outcome::Race), 7);
        assert!(program.holds_back() && due(&mut program).is_empty());
        program.fails(serial, abort(), 8);
        assert!(due(&mut program).is_empty(), "another process");
        program.fails(serial, abort(), 7);
        assert_eq!(due(&mut program), [("t".into(), Outcome::Race, true)]);
        let serial = given(&mut program, "u");
        program.ends(serial, came(Outcome::Race), 7);
        program.has_ended(serial, 7, true);
        assert_eq!(due(&mut program), [("u".into(), Outcome::Race, false)]);
    }

    #[test]
    fn what_ends_without_a_result_was_not_seen() {
        let mut program = program();
        let serial = given(&mut program, "t");
        program.has_ended(serial - 1, 7, true);
        program.has_ended(serial, 8, false);
        assert!(
            due(&mut program).is_empty(),
            "it had no task, or others have it"
        );
        program.has_ended(serial, 9, true);
        assert_eq!(due(&mut program), [("t".into(), Outcome::NotSeen, false)]);
        let serial = given(&mut program, "u");
        program.fails(serial, abort(), 9);
        assert_eq!(due(&mut program), [("u".into(), Outcome::NotSeen, true)]);
    }

    #[test]
    fn what_nobody_was_given_is_no_result() {
        let mut program = program();
        let serial = given(&mut program, "t");
        program.ends(serial + 7, came(Outcome::Race), 7);
        program.fails(serial + 7, abort(), 7);
        assert!(due(&mut program).is_empty());
        let mut foreign = task("v");
        foreign.sites = [1, 9].map(SiteNumber);
        program.takes(Some(foreign), EVERY);
        assert!(program.task.is_none(), "the build has no such site");
        program.sees([[1, 2], [1, 2], [1, 1]].into_iter());
        let pairs = vec![[1, 2].map(SiteNumber)];
        assert_eq!(program.rest(), [Report::Contexts { pairs }]);
    }
}
