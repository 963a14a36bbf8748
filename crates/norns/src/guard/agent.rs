//! The agent: hands tasks to the programs that run, and takes what came of them.
//!
//! It is driven by `step`, which never blocks: it looks at the folder, at the processes, and at what the hive has
//! answered. A build has one task at a time, in all its processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use norns_hive::embedded::build_of;
use norns_hive::protocol::Build;
use norns_hive::{BuildId, Consequence, ConsequenceKind, Report, RunFigures, Task, TaskId};
use norns_wire::guarding::{Counter, FailureKind, State, View};

use super::folder::{Folder, Taken};
use super::frames::frames;
use super::log::Log;
use super::process::Process;
use super::program::{Asking, Came, Program};

/// How often it is looked whether a process still runs, and its processor time.
const LOOK: Duration = Duration::from_millis(200);
/// How often the figures of a process that goes on are reported.
const FIGURES: Duration = Duration::from_secs(3600);

/// Where tasks come from and reports go.
pub trait Hive {
    /// Asks what a build is to do; `answers` has the answer, perhaps later.
    fn ask(&mut self, build: &Build, active: Option<&TaskId>);
    fn report(&mut self, build: &Build, reports: Vec<Report>);
    fn answers(&mut self) -> Vec<Answer>;
}

/// Tasks by their serial numbers.
type Given = BTreeMap<BuildId, Vec<(u64, Task)>>;

pub struct Answer {
    pub build: BuildId,
    pub task: Option<Task>,
    /// When to ask again.
    pub again: Duration,
}

pub struct Agent<H> {
    folder: Folder,
    pub hive: H,
    log: Log,
    programs: BTreeMap<BuildId, Program>,
    running: Vec<Running>,
    buffer: Vec<u8>,
    /// Where serial numbers begin: above all that an agent before this one has given.
    serial: u64,
    /// The tasks of that agent.
    remembered: Given,
    /// Spare files could not be written when it was last tried.
    has_no_room: bool,
    /// How many processes were guarded.
    pub guarded: u64,
}

/// A process that has taken a file.
struct Running {
    taken: Taken,
    process: Process,
    began: Instant,
    looked: Instant,
    /// To be looked at now.
    is_due: bool,
    /// How many attempts were read.
    read: u64,
    /// The task that is in effect, and whether it has come to its end.
    applied: u64,
    has_ended_task: bool,
    active_since: Option<Instant>,
    active: Duration,
    told: RunFigures,
    told_at: Instant,
    has_failed: bool,
    hangs: bool,
    is_over: bool,
}

impl<H: Hive> Agent<H> {
    pub fn new(folder: Folder, hive: H, log: Log) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let remembered: Given = folder.remembered().unwrap_or_default();
        Self {
            serial: now.map_or(1, |now| now.as_micros() as u64),
            remembered,
            folder,
            hive,
            log,
            programs: BTreeMap::new(),
            running: Vec::new(),
            buffer: Vec::new(),
            has_no_room: false,
            guarded: 0,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// From now on processes of this build are guarded.
    pub fn add(&mut self, build: Build) {
        let program = self.programs.entry(build.id.clone());
        program.or_insert_with(|| {
            let given = self.remembered.remove(&build.id).unwrap_or_default();
            Program::new(build, self.serial, given)
        });
        self.keep_spares();
    }

    pub fn builds(&self) -> impl Iterator<Item = &Build> {
        self.programs.values().map(|program| &program.build)
    }

    /// The processes that hang.
    pub fn hanging(&self) -> impl Iterator<Item = u32> {
        let hanging = self.running.iter().filter(|it| it.hangs);
        hanging.map(|it| it.taken.process)
    }

    /// Looks at all processes in the next step.
    pub fn hurry(&mut self) {
        self.running.iter_mut().for_each(|it| it.is_due = true);
    }

    /// Whether a guarded process runs.
    pub fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Whether the hive was asked something that it has not answered, or is about to be.
    pub fn waits(&self) -> bool {
        let now = Instant::now();
        self.programs.values().any(|program| match program.asking {
            Asking::Asked => true,
            Asking::At(time) => time <= now,
        })
    }

    pub fn step(&mut self) {
        self.look_around();
        for running in &mut self.running {
            if let Some(program) = self.programs.get_mut(&running.taken.build) {
                running.step(program, &mut self.buffer);
            }
        }
        self.bury();
        for program in self.programs.values_mut() {
            program.looks_at_the_clock();
        }
        self.hand_in();
        for answer in self.hive.answers() {
            if let Some(program) = self.programs.get_mut(&answer.build) {
                program.takes(answer.task, answer.again);
            }
        }
        self.ask();
        self.keep_spares();
        self.distribute();
    }

    fn look_around(&mut self) {
        let known: Vec<&Taken> = self.running.iter().map(|it| &it.taken).collect();
        let (taken, wanting) = self.folder.news(&known);
        for taken in taken {
            let Some(program) = self.programs.get(&taken.build) else {
                continue;
            };
            self.guarded += 1;
            let running = Running::new(taken);
            // It may have a task that was replaced while it took the file.
            running.taken.give(&program.task);
            self.running.push(running);
        }
        for program in wanting {
            self.add_program(&program);
        }
    }

    /// Guards the next process of a program, if it was built for that.
    pub fn add_program(&mut self, program: &Path) {
        match build_of(program) {
            Ok(build) => self.add(build),
            Err(error) => self.log.say(format_args!("{error}")),
        }
    }

    /// Takes leave of processes that have ended.
    fn bury(&mut self) {
        let (over, running) = self.running.drain(..).partition(|it: &Running| it.is_over);
        self.running = running;
        let over: Vec<Running> = over;
        for it in over {
            it.taken.remove();
            let Some(program) = self.programs.get_mut(&it.taken.build) else {
                continue;
            };
            let serial = program.active_serial();
            let others = self.running.iter();
            let is_alone = !others
                .filter(|other| other.taken.build == it.taken.build)
                .any(|other| other.applied == serial);
            program.has_ended(it.applied, it.taken.process, is_alone);
        }
    }

    fn hand_in(&mut self) {
        for program in self.programs.values_mut() {
            let reports = program.due();
            if !reports.is_empty() {
                self.hive.report(&program.build, reports);
            }
        }
    }

    fn ask(&mut self) {
        let now = Instant::now();
        for program in self.programs.values_mut() {
            // The hive chooses by what it knows: first it hears of the last task.
            if matches!(program.asking, Asking::At(time) if time <= now) && !program.holds_back() {
                program.asking = Asking::Asked;
                let active = program.active().map(|task| task.id.clone());
                self.hive.ask(&program.build, active.as_ref());
            }
        }
    }

    fn keep_spares(&mut self) {
        let mut failed = None;
        for program in self.programs.values() {
            let kept = self.folder.keep_spares(&program.build.id, &program.task);
            failed = failed.or(kept.err());
        }
        if let Some(error) = &failed
            && !self.has_no_room
        {
            self.log.say(format_args!(
                "programs run unguarded: cannot write their files: {error}"
            ));
        }
        self.has_no_room = failed.is_some();
    }

    /// Gives tasks that have changed to the processes that run.
    fn distribute(&mut self) {
        let mut any = false;
        for program in self.programs.values_mut() {
            if !program.is_changed() {
                continue;
            }
            any = true;
            self.folder.give_spares(&program.build.id, &program.task);
            let its = self.running.iter();
            for running in its.filter(|it| it.taken.build == program.build.id) {
                // Where the last task has come to its end, a failure still belongs to it.
                if !(program.task.is_none() && running.has_ended_task) {
                    running.taken.give(&program.task);
                }
            }
        }
        if any {
            let programs = self.programs.iter();
            let given: Given = programs
                .map(|(id, program)| (id.clone(), program.given().to_vec()))
                .collect();
            self.folder.remember(&given);
        }
    }

    /// Hands in all that is left. Processes that still run go on unguarded.
    pub fn finish(&mut self) {
        self.step();
        for program in self.programs.values_mut() {
            let reports = program.rest();
            if !reports.is_empty() {
                self.hive.report(&program.build, reports);
            }
        }
    }
}

impl Running {
    fn new(taken: Taken) -> Self {
        let now = Instant::now();
        Self {
            process: Process::new(taken.process),
            taken,
            began: now,
            looked: now,
            is_due: true,
            read: 0,
            applied: 0,
            has_ended_task: false,
            active_since: None,
            active: Duration::ZERO,
            told: RunFigures::default(),
            told_at: now,
            has_failed: false,
            hangs: false,
            is_over: false,
        }
    }

    fn step(&mut self, program: &mut Program, buffer: &mut Vec<u8>) {
        let is_due = std::mem::take(&mut self.is_due) || self.looked.elapsed() >= LOOK;
        // Asked before the file is read: what the process has written before it ended is then in the file.
        let is_there = if is_due {
            self.looked = Instant::now();
            self.process.is_there()
        } else {
            true
        };
        if self.taken.read(buffer).is_err() {
            self.is_over = true;
            return;
        }
        let Some(view) = View::of(buffer) else {
            self.is_over = true;
            return;
        };
        self.has_ended_task &= self.applied == view.applied();
        self.applied = view.applied();
        self.reads_attempts(program, &view);
        program.sees(view.pairs());
        self.reads_failure(program, &view, is_due && is_there);
        let state = view.process().map_or(State::Spare, |process| process.state);
        let has_ended = matches!(state, State::Ended | State::Replaced);
        self.is_over = has_ended || !is_there || state == State::Dying && !self.process.is_there();
        self.measures(program);
        if self.is_over || self.told_at.elapsed() >= FIGURES {
            program.costs(self.figures(&view));
        }
    }

    fn measures(&mut self, program: &Program) {
        let serial = program.active_serial();
        let is_active = serial != 0 && self.applied == serial;
        match (self.active_since, is_active) {
            (None, true) => self.active_since = Some(Instant::now()),
            (Some(since), false) => {
                self.active += since.elapsed();
                self.active_since = None;
            }
            _ => {}
        }
    }

    fn reads_attempts(&mut self, program: &mut Program, view: &View) {
        for attempt in view.attempts(self.read) {
            let stacks = || {
                let sides = attempt.sides.iter();
                let stacks = sides.map(|side| frames(&program.build, view.maps(), &side.stack));
                stacks.collect()
            };
            let came = Came::of(&attempt, stacks);
            program.ends(attempt.serial, came, self.taken.process);
            self.has_ended_task |= attempt.serial == self.applied;
        }
        let written = view.written();
        if written != self.read {
            self.read = written;
            self.taken.has_read(written);
        }
    }

    fn reads_failure(&mut self, program: &mut Program, view: &View, looks_for_hang: bool) {
        if self.has_failed {
            return;
        }
        let consequence = |kind, signal: u8, stack| Consequence {
            kind,
            signal: signal.into(),
            stack: frames(&program.build, view.maps(), stack),
        };
        if let Some(failure) = view.failure() {
            self.has_failed = true;
            let kind = match failure.kind {
                FailureKind::Signal => ConsequenceKind::Signal,
                FailureKind::Abort => ConsequenceKind::Abort,
                FailureKind::Assertion => ConsequenceKind::Assertion,
            };
            let consequence = consequence(kind, failure.signal, &failure.stack);
            program.fails(failure.serial, consequence, self.taken.process);
        } else if looks_for_hang && self.applied != 0 && self.process.hangs() {
            (self.has_failed, self.hangs) = (true, true);
            let seen = self.process.stack();
            let (maps, stack) = match &seen {
                Some((maps, stack)) => (maps.as_str(), *stack),
                // Where the thread stood that was last made to wait.
                None => (view.maps(), view.held().1),
            };
            let consequence = Consequence {
                kind: ConsequenceKind::Hang,
                signal: 0,
                stack: frames(&program.build, maps, &stack),
            };
            program.fails(self.applied, consequence, self.taken.process);
        }
    }

    /// The figures since the last ones.
    fn figures(&mut self, view: &View) -> RunFigures {
        let active = self.active + self.active_since.map_or(Duration::ZERO, |it| it.elapsed());
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let total = RunFigures {
            wall_ms: milliseconds(self.began.elapsed()),
            cpu_ms: self.process.cpu_ms(),
            runtime_cpu_us: view.counter(Counter::RuntimeNs) / 1000,
            active_ms: milliseconds(active),
            waited_ms: view.counter(Counter::WaitedNs) / 1_000_000,
            ended: self.is_over,
        };
        let told = std::mem::replace(&mut self.told, total);
        self.told_at = Instant::now();
        RunFigures {
            wall_ms: total.wall_ms.saturating_sub(told.wall_ms),
            cpu_ms: total.cpu_ms.saturating_sub(told.cpu_ms),
            runtime_cpu_us: total.runtime_cpu_us.saturating_sub(told.runtime_cpu_us),
            active_ms: total.active_ms.saturating_sub(told.active_ms),
            waited_ms: total.waited_ms.saturating_sub(told.waited_ms),
            ended: total.ended,
        }
    }
}
