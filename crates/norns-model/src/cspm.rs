//! The model as CSPM: what `norns csp` and FDR can check.
//!
//! One process a thread and one an object, after Figures 4.13 and 5.8 of Carril (2017),
//! and for each shared location a check for races, for the whole a check for deadlocks. Only
//! events that occur in the trace are in any alphabet: sets over whole channels would grow with
//! the number of threads times the number of objects. Threads are chains of short named pieces,
//! since a parser may recurse into a prefix.
//!
//! Differences from the dissertation: a wait on a condition releases its mutex and falls asleep
//! in one event, a signal with nobody asleep is lost, barriers may be entered again before all
//! have left; a race is two accesses that are both begun, so its monitor need not see the
//! synchronisation. What a thread's own past decides is decided here: a lock that a recursive
//! mutex's holder takes again, an unlock of what is not held, and a try that fails on one's own
//! lock are left out.
//!
//! A thread that would do something else than in the trace may do `leaves`, after which no
//! deadlock is looked for; so does one that holds locks where the trace ends. The state of a
//! barrier or condition is a set of threads: many threads make it large. The exact search also finds deadlocks of the other threads then, so
//! on traces with failed operations, and in the faithful meaning, it may find more than the
//! assertion; it never finds less. In the faithful meaning an access of several locations is not
//! one step here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use norns_trace::{EventIndex, ObjectId, ObjectKind, Op, ThreadId};

use crate::Meaning;
use crate::location::{LocationId, Touch, TouchKind};
use crate::lock_set::{LockSets, Mode};
use crate::model::Model;

/// Which checks to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    pub deadlock: bool,
    pub race: bool,
}

/// Events of a thread that stand in one named piece.
const PIECE: usize = 24;

/// A location in one lifetime of its block.
pub type Cell = (LocationId, Option<EventIndex>);

/// The text, and the cell of each race assertion in the order of the assertions. The deadlock
/// assertion, if asked for, is the first of all.
pub fn cspm(model: &Model, checks: Checks) -> (String, Vec<Cell>) {
    let mut writer = Writer {
        model,
        checks,
        locks: LockSets::of(model.trace),
        cells: cells(model),
        alphabets: BTreeMap::new(),
        marks: model
            .orders_between_threads()
            .iter()
            .filter(|&&(later, earlier)| {
                !matches!(model.op(later), Op::Join(_)) && !matches!(model.op(earlier), Op::Fork(_))
            })
            .copied()
            .collect(),
        joined: BTreeSet::new(),
        all_steps: BTreeSet::new(),
        out: String::new(),
    };
    writer.write();
    (writer.out, writer.cells)
}

/// The cells that two threads access, one of them with a write.
fn cells(model: &Model) -> Vec<Cell> {
    let mut users: BTreeMap<Cell, (BTreeSet<ThreadId>, bool)> = BTreeMap::new();
    for i in 0..model.trace.events.len() {
        let event = EventIndex::from_index(i);
        let Some(touch) = Touch::of(model.op(event)) else {
            continue;
        };
        if touch.kind == TouchKind::Allocate {
            continue;
        }
        for location in model.locations.of_event(event).map(LocationId) {
            let cell = (location, model.lifetimes.block(event));
            let (threads, written) = users.entry(cell).or_default();
            threads.insert(model.thread_of(event));
            *written |= touch.writes;
        }
    }
    let shared = users
        .into_iter()
        .filter(|(_, (threads, written))| threads.len() > 1 && *written);
    shared.map(|(cell, _)| cell).collect()
}

/// What an object or thread takes part in: events, as text.
type Alphabet = BTreeSet<String>;

struct Writer<'a> {
    model: &'a Model<'a>,
    checks: Checks,
    locks: LockSets,
    cells: Vec<Cell>,
    /// By the name of the process.
    alphabets: BTreeMap<String, Alphabet>,
    /// `(later, earlier)`: orders that no object makes.
    marks: Vec<(EventIndex, EventIndex)>,
    joined: BTreeSet<ThreadId>,
    /// All events of threads but `leaves`.
    all_steps: Alphabet,
    out: String,
}

impl Writer<'_> {
    fn write(&mut self) {
        for event in &self.model.trace.events {
            if let Op::Join(child) | Op::FailedJoin(child) = event.op {
                self.joined.insert(child);
            }
        }
        self.head();
        let threads: Vec<ThreadId> = self.model.thread_ids().collect();
        for &thread in &threads {
            self.thread(thread);
        }
        self.complete_sleeps();
        self.objects();
        self.program();
        if self.checks.deadlock {
            self.deadlock_check();
        }
        if self.checks.race {
            self.race_checks();
        }
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    fn head(&mut self) {
        let trace = self.model.trace;
        self.line(
            "-- The model of a trace: every order of its events that synchronisation allows.",
        );
        self.line(match self.model.meaning {
            Meaning::Optimistic | Meaning::SameValues => {
                "-- Optimistic: a read may see another write than it saw."
            }
            Meaning::Faithful => "-- Faithful: every read sees the write that it saw.",
        });
        self.line("");
        for (i, thread) in trace.threads.iter().enumerate() {
            self.line(format!("-- t{i} is thread {}", printable(&thread.name)));
        }
        for (i, object) in trace.objects.iter().enumerate() {
            self.line(format!(
                "-- o{i} is {} {}",
                object.kind.word(),
                printable(&object.name)
            ));
        }
        for (i, cell) in self.cells.clone().into_iter().enumerate() {
            let (address, size) = self.model.locations.bytes(cell.0);
            let name = trace
                .symbol_at(address)
                .map_or("", |symbol| symbol.name.as_str());
            self.line(format!(
                "-- k{i} is {size} bytes at {address:#x} {}",
                printable(name)
            ));
        }
        self.line("");
        let list = |prefix: &str, count: usize| {
            let names: Vec<String> = (0..count.max(1)).map(|i| format!("{prefix}{i}")).collect();
            names.join(" | ")
        };
        let cells = self.cells.len();
        self.line(format!(
            "datatype Thread = {}",
            list("t", trace.threads.len())
        ));
        self.line(format!(
            "datatype Object = {}",
            list("o", trace.objects.len())
        ));
        self.line(format!("datatype Cell = {}", list("k", cells)));
        self.line("datatype Access = R | W | AR | AW  -- AR, AW: atomic");
        self.line("channel fork, join, tryjoin : Thread.Thread");
        self.line("channel start, done, leaves : Thread");
        self.line("channel lock, rdlock, unlock, trylock, tryrdlock : Thread.Object");
        self.line(
            "channel sleep : Thread.Object.Object  -- unlocks the first, waits on the second",
        );
        self.line("channel wake, spurious, signal, broadcast : Thread.Object");
        self.line("channel enter, exit, post, semwait, trysemwait : Thread.Object");
        self.line("channel oncebegin, onceend, oncepass, unbegun : Thread.Object");
        self.line(format!(
            "channel mark, marked : {{0..{}}}",
            self.marks.len()
        ));
        self.line("channel at, access : Thread.Cell.Access");
        let events = trace.events.len();
        self.line(format!("channel read, write : Thread.Cell.{{0..{events}}}"));
        self.line(format!(
            "channel update : Thread.Cell.{{0..{events}}}.{{0..{events}}}"
        ));
        self.line("channel endthreads, race, live");
        self.line("");
    }

    /// Notes that a process takes part in an event.
    fn joins_in(&mut self, process: impl Into<String>, event: &str) {
        self.alphabets
            .entry(process.into())
            .or_default()
            .insert(event.to_string());
    }

    fn thread(&mut self, thread: ThreadId) {
        let name = format!("t{}", thread.0);
        let mut steps: Vec<String> = Vec::new();
        let events = self.model.threads[thread.index()].clone();
        if self.is_forked(thread) {
            let event = format!("start.{name}");
            self.joins_in(format!("FORK_{name}"), &event);
            steps.push(event);
        }
        for &event in &events {
            self.steps_of(event, &mut steps);
        }
        if self.joined.contains(&thread) {
            let event = format!("done.{name}");
            self.joins_in(format!("JOIN_{name}"), &event);
            steps.push(event);
        }
        let _ = writeln!(
            self.out,
            "-- thread {}",
            printable(&self.model.trace.thread(thread).name)
        );
        for step in &steps {
            let events = step.split('?').filter(|event| !event.is_empty());
            self.all_steps.extend(events.map(str::to_string));
        }
        // Nobody knows whether a thread whose end was not seen gives its locks back.
        let keeps_locks =
            !self.ends(thread) && !self.locks.set(self.locks.at_end(thread)).is_empty();
        let pieces: Vec<&[String]> = steps.chunks(PIECE).collect();
        for (i, piece) in pieces.iter().enumerate() {
            let this = if i == 0 {
                format!("THREAD_{name}")
            } else {
                format!("THREAD_{name}_{i}")
            };
            let rest = if i + 1 < pieces.len() {
                format!("THREAD_{name}_{}", i + 1)
            } else if keeps_locks {
                format!("leaves.{name} -> STOP")
            } else {
                "SKIP".to_string()
            };
            self.out.push_str(&this);
            self.out.push_str(" =\n");
            let mut open = 0;
            for step in *piece {
                // A step with a way out has the rest of the piece in brackets.
                match step.strip_prefix('?') {
                    None => {
                        let _ = writeln!(self.out, "  {step} ->");
                    }
                    Some(step) => {
                        let (step, way_out) = step.split_once('?').unwrap_or((step, ""));
                        let way_out = if way_out.is_empty() {
                            format!("leaves.{name} -> STOP")
                        } else {
                            format!("{way_out} -> leaves.{name} -> STOP")
                        };
                        let _ = writeln!(self.out, "  ({way_out} [] {step} ->");
                        open += 1;
                    }
                }
            }
            let _ = writeln!(self.out, "  {rest}{}", ")".repeat(open));
        }
        if pieces.is_empty() {
            self.line(format!("THREAD_{name} = SKIP"));
        }
        self.line("");
    }

    fn is_forked(&self, thread: ThreadId) -> bool {
        self.model
            .trace
            .events
            .iter()
            .any(|event| event.op == Op::Fork(thread))
    }

    /// The steps of one event. One that begins with `?` has a way out.
    fn steps_of(&mut self, event: EventIndex, steps: &mut Vec<String>) {
        let op = self.model.op(event);
        let thread = self.model.thread_of(event);
        let t = format!("t{}", thread.0);
        let before: Vec<usize> = self.marks_where(|mark| mark.0 == event);
        for i in before {
            self.joins_in(format!("ORDER_{i}"), &format!("marked.{i}"));
            steps.push(format!("?marked.{i}"));
        }
        let on = |o: ObjectId| format!("{t}.o{}", o.0);
        let process = |prefix: &str, o: ObjectId| format!("{prefix}_o{}", o.0);
        let held = self.held(event, op.object());
        match op {
            Op::Fork(child) => {
                let fork = format!("fork.{t}.t{}", child.0);
                self.joins_in(format!("FORK_t{}", child.0), &fork);
                steps.push(fork);
            }
            Op::Join(child) => {
                let join = format!("join.{t}.t{}", child.0);
                self.joins_in(format!("JOIN_t{}", child.0), &join);
                steps.push(join);
            }
            Op::FailedJoin(child) if self.ends(child) => {
                let join = format!("tryjoin.{t}.t{}", child.0);
                self.joins_in(format!("JOIN_t{}", child.0), &join);
                steps.push(format!("?{join}"));
            }
            Op::Lock(o) => {
                let again = held.is_some() && self.model.kind(o) == ObjectKind::RecursiveMutex;
                if !again {
                    self.locking("lock", o, &on(o), steps);
                }
            }
            Op::ReadLock(o) if held != Some(Mode::Read) => {
                self.locking("rdlock", o, &on(o), steps);
            }
            Op::FailedLock(o) if held.is_none() => self.trying("trylock", o, &on(o), steps),
            Op::FailedReadLock(o) if held != Some(Mode::Write) => {
                self.trying("tryrdlock", o, &on(o), steps);
            }
            Op::Unlock(o) => {
                let gives_up = self.gives_up(event);
                match self.model.enters_queue(event) {
                    Some(condition) => {
                        let sleep = format!("sleep.{}.o{}", on(o), condition.0);
                        if gives_up {
                            self.joins_in(process("LOCK", o), &sleep);
                        }
                        self.joins_in(process("CONDITION", condition), &sleep);
                        steps.push(sleep);
                    }
                    None if gives_up => self.locking("unlock", o, &on(o), steps),
                    None => {}
                }
            }
            Op::Wait(o) => {
                // A wait that was never in the queue is no wait.
                let position = self.model.position_of(event);
                let slept = position > 0
                    && self
                        .model
                        .enters_queue(self.model.threads[thread.index()][position - 1])
                        == Some(o);
                if slept {
                    let needs = self.model.wait_needs_signal(event);
                    let name = if needs { "wake" } else { "spurious" };
                    let wake = format!("{name}.{}", on(o));
                    self.joins_in(process("CONDITION", o), &wake);
                    steps.push(wake);
                }
            }
            Op::Signal(o) | Op::Broadcast(o) => {
                let name = if matches!(op, Op::Signal(_)) {
                    "signal"
                } else {
                    "broadcast"
                };
                let wake = format!("{name}.{}", on(o));
                self.joins_in(process("CONDITION", o), &wake);
                steps.push(wake);
            }
            Op::BarrierEnter(o) | Op::BarrierExit(o) => {
                let name = if matches!(op, Op::BarrierEnter(_)) {
                    "enter"
                } else {
                    "exit"
                };
                let step = format!("{name}.{}", on(o));
                self.joins_in(process("BARRIER", o), &step);
                steps.push(step);
            }
            Op::SemWait(o) | Op::SemPost(o) => {
                let name = if matches!(op, Op::SemWait(_)) {
                    "semwait"
                } else {
                    "post"
                };
                let step = format!("{name}.{}", on(o));
                self.joins_in(process("SEMAPHORE", o), &step);
                steps.push(step);
            }
            Op::FailedSemWait(o) => {
                let step = format!("trysemwait.{}", on(o));
                self.joins_in(process("SEMAPHORE", o), &step);
                steps.push(format!("?{step}"));
            }
            Op::OnceBegin(o) | Op::OnceEnd(o) => {
                let name = if matches!(op, Op::OnceBegin(_)) {
                    "oncebegin"
                } else {
                    "onceend"
                };
                let step = format!("{name}.{}", on(o));
                self.joins_in(process("ONCE", o), &step);
                steps.push(step);
            }
            Op::OncePass(o) => {
                let (pass, unbegun) = (format!("oncepass.{}", on(o)), format!("unbegun.{}", on(o)));
                self.joins_in(process("ONCE", o), &pass);
                self.joins_in(process("ONCE", o), &unbegun);
                steps.push(format!("?{pass}?{unbegun}"));
            }
            Op::End => {
                for (lock, _) in self.locks.set(self.locks.before(event)).clone() {
                    if self.model.kind(lock) == ObjectKind::RobustMutex {
                        self.locking("unlock", lock, &on(lock), steps);
                    }
                }
            }
            _ => self.access(event, &t, steps),
        }
        for i in self.marks_where(|mark| mark.1 == event) {
            self.joins_in(format!("ORDER_{i}"), &format!("mark.{i}"));
            steps.push(format!("mark.{i}"));
        }
    }

    fn access(&mut self, event: EventIndex, t: &str, steps: &mut Vec<String>) {
        let Some(touch) = Touch::of(self.model.op(event)) else {
            return;
        };
        let block = self.model.lifetimes.block(event);
        let seen: BTreeMap<LocationId, Option<EventIndex>> = self.model.must_see(event).collect();
        // What the access does to variables comes after all of these: between them it is next, on
        // each of its cells.
        let (mut begins, mut ends, mut effects) = (Vec::new(), Vec::new(), Vec::new());
        for location in self.model.locations.of_event(event).map(LocationId) {
            let Ok(i) = self.cells.binary_search(&(location, block)) else {
                continue;
            };
            if touch.kind != TouchKind::Allocate && self.checks.race {
                let kind = match (touch.kind == TouchKind::Atomic, touch.writes) {
                    (true, true) => "AW",
                    (true, false) => "AR",
                    (false, true) => "W",
                    (false, false) => "R",
                };
                for channel in ["at", "access"] {
                    self.joins_in(format!("RACE_k{i}"), &format!("{channel}.{t}.k{i}.{kind}"));
                }
                begins.push(format!("at.{t}.k{i}.{kind}"));
                ends.push(format!("access.{t}.k{i}.{kind}"));
            }
            if self.model.meaning == Meaning::Faithful {
                let number = |event: Option<EventIndex>| event.map_or(0, |event| event.0 + 1);
                let here = number(Some(event));
                let saw = number(seen.get(&location).copied().flatten());
                let step = match (touch.reads, touch.writes) {
                    (true, true) => format!("update.{t}.k{i}.{saw}.{here}"),
                    (true, false) => format!("read.{t}.k{i}.{saw}"),
                    _ => format!("write.{t}.k{i}.{here}"),
                };
                self.joins_in(format!("VARIABLE_k{i}"), &step);
                effects.push(if touch.reads {
                    format!("?{step}")
                } else {
                    step
                });
            }
        }
        steps.extend(begins.into_iter().chain(ends).chain(effects));
    }

    fn locking(&mut self, name: &str, lock: ObjectId, on: &str, steps: &mut Vec<String>) {
        let step = format!("{name}.{on}");
        self.joins_in(format!("LOCK_o{}", lock.0), &step);
        // The lock offers this to its holder, who may never do it.
        self.joins_in(format!("LOCK_o{}", lock.0), &format!("unlock.{on}"));
        steps.push(step);
    }

    /// A lock and a condition offer `sleep` to more threads than do it; whatever either offers
    /// must be something that the threads have to agree to.
    fn complete_sleeps(&mut self) {
        let sleeps: Alphabet = self.events_of("CONDITION", "sleep");
        let lockers: Alphabet = self.events_of("LOCK", "lock");
        let mut all = sleeps.clone();
        for sleep in &sleeps {
            let parts: Vec<&str> = sleep.split('.').collect();
            for other in &sleeps {
                let others: Vec<&str> = other.split('.').collect();
                if parts[3] == others[3] {
                    all.insert(format!("sleep.{}.{}.{}", parts[1], others[2], parts[3]));
                }
            }
        }
        for sleep in all.clone() {
            let parts: Vec<&str> = sleep.split('.').collect();
            for locker in &lockers {
                let lock: Vec<&str> = locker.split('.').collect();
                if lock[2] == parts[2] {
                    all.insert(format!("sleep.{}.{}.{}", lock[1], parts[2], parts[3]));
                }
            }
        }
        for sleep in all {
            let parts: Vec<String> = sleep.split('.').map(str::to_string).collect();
            self.joins_in(format!("LOCK_{}", parts[2]), &sleep);
            self.joins_in(format!("CONDITION_{}", parts[3]), &sleep);
        }
    }

    fn events_of(&self, process: &str, channel: &str) -> Alphabet {
        let processes = self
            .alphabets
            .iter()
            .filter(|(name, _)| name.starts_with(process));
        let events = processes.flat_map(|(_, alphabet)| alphabet);
        let prefix = format!("{channel}.");
        events
            .filter(|event| event.starts_with(&prefix))
            .cloned()
            .collect()
    }

    fn trying(&mut self, name: &str, lock: ObjectId, on: &str, steps: &mut Vec<String>) {
        let step = format!("{name}.{on}");
        self.joins_in(format!("LOCK_o{}", lock.0), &step);
        steps.push(format!("?{step}"));
    }

    /// How the thread of the event holds the lock just before it.
    fn held(&self, event: EventIndex, lock: Option<ObjectId>) -> Option<Mode> {
        let set = self.locks.set(self.locks.before(event));
        set.iter()
            .find(|held| Some(held.0) == lock)
            .map(|held| held.1)
    }

    /// Whether the thread holds the lock before this unlock and not after it.
    fn gives_up(&self, unlock: EventIndex) -> bool {
        let events = &self.model.threads[self.model.thread_of(unlock).index()];
        let after = match events.get(self.model.position_of(unlock) + 1) {
            Some(&next) => self.locks.before(next),
            None => self.locks.at_end(self.model.thread_of(unlock)),
        };
        let lock = self.model.op(unlock).object();
        let holds = |set| self.locks.set(set).iter().any(|held| Some(held.0) == lock);
        holds(self.locks.before(unlock)) && !holds(after)
    }

    fn ends(&self, thread: ThreadId) -> bool {
        let last = self.model.threads[thread.index()].last();
        last.is_some_and(|&last| self.model.op(last) == Op::End)
    }

    fn marks_where(&self, wanted: impl Fn(&(EventIndex, EventIndex)) -> bool) -> Vec<usize> {
        (0..self.marks.len())
            .filter(|&i| wanted(&self.marks[i]))
            .collect()
    }

    /// One process for each object, fork, join and order.
    fn objects(&mut self) {
        self.line("-- objects");
        for (name, alphabet) in self.alphabets.clone() {
            let threads = |channel: &str| -> String {
                let prefix = format!("{channel}.");
                let events = alphabet
                    .iter()
                    .filter_map(|event| event.strip_prefix(&prefix));
                let threads: BTreeSet<&str> = events
                    .map(|event| event.split('.').next().unwrap_or(""))
                    .collect();
                format!("{{{}}}", threads.into_iter().collect::<Vec<_>>().join(", "))
            };
            let (kind, id) = name.split_once('_').expect("names are KIND_id");
            let text = match kind {
                "FORK" => format!(
                    "{name} = fork?t:{}!{id} -> start.{id} -> STOP",
                    threads("fork")
                ),
                "JOIN" => {
                    let (tries, joins) = (threads("tryjoin"), threads("join"));
                    let first = choice(&[
                        (id.to_string(), format!("done.{id} -> {name}_DONE")),
                        (tries.clone(), format!("tryjoin?t:{tries}!{id} -> {name}")),
                    ]);
                    let then = if joins == "{}" {
                        "STOP".to_string()
                    } else {
                        format!("join?t:{joins}!{id} -> {name}_DONE")
                    };
                    format!("{name} =\n  {first}\n{name}_DONE = {then}")
                }
                "LOCK" => lock_text(&name, id, &threads, &alphabet),
                "CONDITION" => condition_text(&name, id, &threads, &alphabet),
                "BARRIER" => {
                    let (enters, exits) = (threads("enter"), threads("exit"));
                    let enter = format!(
                        "enter?t:{enters}!{id} -> {name}_WAITING(if card(waiting) + 1 >= {} then \
                         {{}} else union(waiting, {{t}}))",
                        self.number(id)
                    );
                    let exit =
                        format!("exit?t:diff({exits}, waiting)!{id} -> {name}_WAITING(waiting)");
                    let choice = choice(&[(enters, enter), (exits, exit)]);
                    format!("{name} = {name}_WAITING({{}})\n{name}_WAITING(waiting) =\n  {choice}")
                }
                "SEMAPHORE" => {
                    let (posts, waits) = (threads("post"), threads("semwait"));
                    let tries = threads("trysemwait");
                    let value = self.number(id);
                    let most = value + self.posts(id);
                    let post = format!("n < {most} & post?t:{posts}!{id} -> {name}_VALUE(n + 1)");
                    let wait = format!("n > 0 & semwait?t:{waits}!{id} -> {name}_VALUE(n - 1)");
                    let fail = format!("n == 0 & trysemwait?t:{tries}!{id} -> {name}_VALUE(n)");
                    let choice = choice(&[(posts, post), (waits, wait), (tries, fail)]);
                    format!("{name} = {name}_VALUE({value})\n{name}_VALUE(n) =\n  {choice}")
                }
                "ONCE" => {
                    let (begins, passes) = (threads("oncebegin"), threads("oncepass"));
                    let (ends, unbegun) = (threads("onceend"), threads("unbegun"));
                    let step = |threads: &str, channel: &str, then: &str| {
                        let text = format!("{channel}?t:{threads}!{id} -> {name}{then}");
                        if threads == "{}" {
                            "STOP".to_string()
                        } else {
                            text
                        }
                    };
                    let first = choice(&[
                        (begins.clone(), step(&begins, "oncebegin", "_RUNS")),
                        (unbegun.clone(), step(&unbegun, "unbegun", "")),
                    ]);
                    let first = if first.is_empty() {
                        "STOP".to_string()
                    } else {
                        first
                    };
                    format!(
                        "{name} =\n  {first}\n{name}_RUNS = {}\n{name}_DONE = {}",
                        step(&ends, "onceend", "_DONE"),
                        step(&passes, "oncepass", "_DONE")
                    )
                }
                "ORDER" => format!(
                    "{name} = mark.{id} -> {name}_DONE\n{name}_DONE = marked.{id} -> {name}_DONE"
                ),
                "VARIABLE" => variable_text(&name, &alphabet),
                _ => continue,
            };
            self.line(text);
        }
        self.line("");
    }

    /// The count of a barrier or the first value of a semaphore.
    fn number(&self, id: &str) -> i64 {
        let object: usize = id[1..].parse().expect("objects are named o and a number");
        self.model.number[object]
    }

    /// How often a semaphore is posted: it has no more states than that.
    fn posts(&self, id: &str) -> i64 {
        let object: u32 = id[1..].parse().expect("objects are named o and a number");
        let posts = self.model.trace.events.iter();
        posts
            .filter(|event| event.op == Op::SemPost(ObjectId(object)))
            .count() as i64
    }

    fn program(&mut self) {
        let threads: Vec<String> = self
            .model
            .thread_ids()
            .map(|thread| format!("THREAD_t{}", thread.0))
            .collect();
        self.line(format!(
            "INTER = ({}) ; endthreads -> SKIP",
            threads.join(" ||| ")
        ));
        let mut locks = Vec::new();
        let mut conditions = Vec::new();
        let mut others = Vec::new();
        let mut sync: Alphabet = BTreeSet::new();
        for (name, alphabet) in &self.alphabets {
            match name.split('_').next() {
                Some("RACE") => continue,
                Some("LOCK") => locks.push(name.clone()),
                Some("CONDITION") => conditions.push(name.clone()),
                _ => others.push(name.clone()),
            }
            sync.extend(alphabet.iter().cloned());
        }
        let sleeps: Alphabet = self
            .alphabets
            .iter()
            .filter(|(name, _)| name.starts_with("LOCK"))
            .flat_map(|(_, alphabet)| alphabet.iter())
            .filter(|event| event.starts_with("sleep."))
            .cloned()
            .collect();
        let side = |names: &[String]| {
            if names.is_empty() {
                "STOP".to_string()
            } else {
                names.join(" ||| ")
            }
        };
        let text = [
            format!("LOCKS = {}", side(&locks)),
            format!("CONDITIONS = {}", side(&conditions)),
            format!("OTHERS = {}", side(&others)),
            format!("sleeps = {}", set(&sleeps)),
            "SYNC = (LOCKS [| sleeps |] CONDITIONS) ||| OTHERS".to_string(),
            format!("sync_events = {}", set(&sync)),
            "PROGRAM = INTER [| sync_events |] SYNC".to_string(),
            String::new(),
        ];
        text.iter().for_each(|line| self.line(line));
    }

    fn deadlock_check(&mut self) {
        let leaves: Alphabet = self
            .model
            .thread_ids()
            .map(|thread| format!("leaves.t{}", thread.0))
            .collect();
        self.line("-- deadlock: a schedule that gets stuck before all threads have ended");
        self.line("LIVE = live -> LIVE");
        self.line(format!("ends = union({{endthreads}}, {})", set(&leaves)));
        let steps = set(&self.all_steps);
        self.line(format!("steps = union(ends, {steps})"));
        self.line("assert LIVE [F= ((PROGRAM [| ends |> SKIP) \\ steps) ; LIVE");
        self.line("");
    }

    fn race_checks(&mut self) {
        self.line("-- race: two conflicting accesses of a cell that are both begun");
        self.line("writes(a) = a == W or a == AW");
        self.line("atomic(a) = a == AR or a == AW");
        self.line("conflict(a, b) = (writes(a) or writes(b)) and not (atomic(a) and atomic(b))");
        self.line("RACE(k, threads, begun) =");
        self.line("  at?t:threads!k?a -> (if empty({ u | (u, b) <- begun, conflict(a, b) })");
        self.line(
            "               then RACE(k, threads, union(begun, {(t, a)})) else race -> STOP)",
        );
        self.line("  [] access?t:threads!k?a -> RACE(k, threads, diff(begun, {(t, a)}))");
        for i in 0..self.cells.len() {
            let name = format!("RACE_k{i}");
            let alphabet = self.alphabets.get(&name).cloned().unwrap_or_default();
            let threads: BTreeSet<String> = alphabet
                .iter()
                .filter_map(|event| event.split('.').nth(1))
                .map(str::to_string)
                .collect();
            let mut all = BTreeSet::new();
            for thread in &threads {
                for kind in ["R", "W", "AR", "AW"] {
                    all.insert(format!("at.{thread}.k{i}.{kind}"));
                    all.insert(format!("access.{thread}.k{i}.{kind}"));
                }
            }
            self.line(format!("events_k{i} = {}", set(&all)));
            let threads = set(&threads);
            self.line(format!(
                "assert STOP [T= (PROGRAM [| events_k{i} |] RACE(k{i}, {threads}, {{}})) |\\ {{race}}"
            ));
        }
    }
}

fn lock_text(
    name: &str,
    id: &str,
    threads: &dyn Fn(&str) -> String,
    alphabet: &Alphabet,
) -> String {
    let sleeps = alphabet.iter().filter(|event| event.starts_with("sleep."));
    let conditions: BTreeSet<String> = sleeps
        .filter_map(|event| event.rsplit('.').next())
        .map(str::to_string)
        .collect();
    let conditions = set(&conditions);
    let (locks, reads) = (threads("lock"), threads("rdlock"));
    let (tries, read_tries) = (threads("trylock"), threads("tryrdlock"));
    let free = if reads == "{}" {
        name.to_string()
    } else {
        format!("{name}_READ(0)")
    };
    let held = choice(&[
        ("held".to_string(), format!("unlock.t.{id} -> {free}")),
        (
            conditions.clone(),
            format!("sleep.t.{id}?c:{conditions} -> {free}"),
        ),
        (
            tries.clone(),
            format!("trylock?u:diff({tries}, {{t}})!{id} -> {name}_HELD(t)"),
        ),
        (
            read_tries.clone(),
            format!("tryrdlock?u:diff({read_tries}, {{t}})!{id} -> {name}_HELD(t)"),
        ),
    ]);
    let lock = format!("lock?t:{locks}!{id} -> {name}_HELD(t)");
    if reads == "{}" {
        let lock = if locks == "{}" {
            "STOP".to_string()
        } else {
            lock
        };
        return format!("{name} = {lock}\n{name}_HELD(t) =\n  {held}");
    }
    // Every thread reads at most once at a time, so counting is enough.
    let most = reads.split(',').count();
    let readers = choice(&[
        (locks, format!("n == 0 & {lock}")),
        (
            reads.clone(),
            format!("n < {most} & rdlock?t:{reads}!{id} -> {name}_READ(n + 1)"),
        ),
        (
            "held".to_string(),
            format!("n > 0 & unlock?t:{reads}!{id} -> {name}_READ(n - 1)"),
        ),
        (
            tries.clone(),
            format!("n > 0 & trylock?u:{tries}!{id} -> {name}_READ(n)"),
        ),
    ]);
    format!("{name} = {name}_READ(0)\n{name}_READ(n) =\n  {readers}\n{name}_HELD(t) =\n  {held}")
}

fn condition_text(
    name: &str,
    id: &str,
    threads: &dyn Fn(&str) -> String,
    alphabet: &Alphabet,
) -> String {
    let slept = alphabet.iter().filter(|event| event.starts_with("sleep."));
    let mutexes: BTreeSet<String> = slept
        .filter_map(|event| event.split('.').nth(2))
        .map(str::to_string)
        .collect();
    let mutexes = set(&mutexes);
    let asleep = |then: &str| format!("{name}_ASLEEP({then})");
    let (sleeps, wakes, spurious) = (threads("sleep"), threads("wake"), threads("spurious"));
    let (broadcasts, signals) = (threads("broadcast"), threads("signal"));
    let sleep = format!(
        "sleep?t:{sleeps}?m:{mutexes}!{id} -> {}",
        asleep("union(asleep, {t})")
    );
    let wake = format!("wake?t:diff({wakes}, asleep)!{id} -> {}", asleep("asleep"));
    let by_itself = format!(
        "spurious?t:{spurious}!{id} -> {}",
        asleep("diff(asleep, {t})")
    );
    let all = format!("broadcast?t:{broadcasts}!{id} -> {}", asleep("{}"));
    let one = format!(
        "signal?t:{signals}!{id} -> (if empty(asleep) then {} else |~| w:asleep @ {})",
        asleep("asleep"),
        asleep("diff(asleep, {w})")
    );
    let choice = choice(&[
        (sleeps, sleep),
        (wakes, wake),
        (spurious, by_itself),
        (broadcasts, all),
        (signals, one),
    ]);
    format!(
        "{name} = {}\n{} =\n  {choice}",
        asleep("{}"),
        asleep("asleep")
    )
}

/// The branches of a choice whose set of threads is not empty. At least one is not.
fn choice(branches: &[(String, String)]) -> String {
    let open = branches.iter().filter(|(threads, _)| threads != "{}");
    open.map(|(_, text)| text.as_str())
        .collect::<Vec<_>>()
        .join("\n  [] ")
}

/// The last write of a cell: a read needs the write that it saw.
fn variable_text(name: &str, alphabet: &Alphabet) -> String {
    let mut branches = Vec::new();
    for event in alphabet {
        let parts: Vec<&str> = event.split('.').collect();
        branches.push(match parts[0] {
            "read" => format!("last == {} & {event} -> {name}_LAST(last)", parts[3]),
            "write" => format!("{event} -> {name}_LAST({})", parts[3]),
            _ => format!(
                "last == {} & {event} -> {name}_LAST({})",
                parts[3], parts[4]
            ),
        });
    }
    format!(
        "{name} = {name}_LAST(0)\n{name}_LAST(last) =\n  {}",
        branches.join("\n  [] ")
    )
}

fn set(events: &Alphabet) -> String {
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    format!("{{{}}}", events.join(", "))
}

/// Names of a recorded program, in a comment.
fn printable(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
