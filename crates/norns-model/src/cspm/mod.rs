//! The model as CSPM: what `norns csp` and FDR can check.
//!
//! One process for each thread and one for each object, after Figures 4.13 and 5.8 of Carril
//! (2017), a check for races for each shared location, and one check for deadlocks. Only events
//! that occur in the trace are in an alphabet: sets over whole channels would grow with the number
//! of threads times the number of objects. The process of a thread is a chain of short named
//! pieces, since a parser may recurse into a prefix. Threads and objects are numbers, and the channels
//! that the dissertation has are named as there, so that its properties can be used as they are.
//!
//! Differences from the dissertation: a wait on a condition releases its mutex and falls asleep in
//! one event; a signal is lost when no thread is asleep; barriers may be entered again before all
//! threads have left; a race is two accesses that have both begun, so that its monitor need not
//! see the synchronisation. Events whose outcome follows from the thread's own past are left out:
//! the holder of a recursive mutex locking it again, an unlock of what is not held, and a try that
//! fails on a lock that the thread itself holds.
//!
//! A thread that would do something else than in the trace may do `leaves`, and so may a thread
//! that holds locks where the trace ends; after `leaves` no deadlock is looked for. The exact
//! search also finds deadlocks of the remaining threads then, so on traces with failed operations,
//! and in the faithful meaning, it may find more than the assertion; it never finds less. In the
//! faithful meaning an access of several locations is more than one step here. The state of a
//! barrier or condition is a set of threads, which is large where there are many threads.

mod checks;
mod objects;
mod threads;

use std::collections::{BTreeMap, BTreeSet};

use norns_trace::{EventIndex, Op, ThreadId, Trace};

use crate::Meaning;
use crate::location::{LocationId, Touch, TouchKind};
use crate::lock_set::LockSets;
use crate::model::Model;

/// Which checks to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    pub deadlock: bool,
    pub race: bool,
    /// Whether custom events are events of the model, for assertions that a user adds. Their channels
    /// are for the user to declare.
    pub events: bool,
}

/// A model as CSPM.
pub struct Cspm {
    pub text: String,
    /// The location of each race assertion in the order of the assertions. The deadlock assertion, if
    /// asked for, is the first of all.
    pub cells: Vec<LocationId>,
    /// For every thread the CSP events of its process in order, each with the event of the trace that it
    /// belongs to. An event of the trace may have several, or none.
    pub steps: Vec<Vec<(String, EventIndex)>>,
}

pub fn cspm(model: &Model, checks: Checks) -> Cspm {
    let mut writer = Writer::new(model, checks);
    writer.write();
    Cspm {
        text: writer.out,
        cells: writer.cells,
        steps: writer.steps,
    }
}

/// One run as it happened, for the same properties as a model: `PROGRAM` does these events and no
/// others, and then nothing more.
pub fn cspm_of_run(trace: &Trace, events: &[String]) -> String {
    let model = Model::new(trace, Meaning::Optimistic);
    let none = Checks {
        deadlock: false,
        race: false,
        events: true,
    };
    let mut writer = Writer::new(&model, none);
    writer.head();
    writer.line("sync_set = {}");
    let pieces: Vec<&[String]> = events.chunks(threads::PIECE).collect();
    for (i, piece) in pieces.iter().enumerate() {
        writer.line(format!("RUN_{i} = {} -> RUN_{}", piece.join(" -> "), i + 1));
    }
    writer.line(format!("RUN_{} = STOP", pieces.len()));
    writer.line("PROGRAM = RUN_0");
    writer.out
}

/// A custom event as a CSP event: its name, the thread, its fields.
pub fn custom_event(name: &str, thread: usize, fields: &[String]) -> String {
    let mut event = format!("{name}.{thread}");
    for field in fields {
        // A minus sign would bind the dot before it.
        match field.starts_with('-') {
            true => event += &format!(".({field})"),
            false => event += &format!(".{field}"),
        }
    }
    event
}

/// The locations that two threads access, one of them with a write.
fn cells(model: &Model) -> Vec<LocationId> {
    let mut users: BTreeMap<LocationId, (BTreeSet<ThreadId>, bool)> = BTreeMap::new();
    for i in 0..model.trace.events.len() {
        let event = EventIndex::from_index(i);
        let Some(touch) = Touch::of(model.op(event)) else {
            continue;
        };
        if touch.kind == TouchKind::Allocate {
            continue;
        }
        for location in model.locations.of_event(event).map(LocationId) {
            let (threads, written) = users.entry(location).or_default();
            threads.insert(model.thread_of(event));
            *written |= touch.writes;
        }
    }
    let shared = users
        .into_iter()
        .filter(|(_, (threads, written))| threads.len() > 1 && *written);
    shared.map(|(cell, _)| cell).collect()
}

/// The events, as text, that a process takes part in.
type Alphabet = BTreeSet<String>;

struct Writer<'a> {
    model: &'a Model<'a>,
    checks: Checks,
    locks: LockSets,
    cells: Vec<LocationId>,
    /// The alphabet of each process, by its name.
    alphabets: BTreeMap<String, Alphabet>,
    /// `(later, earlier)`: orders between events that no process of an object makes.
    marks: Vec<(EventIndex, EventIndex)>,
    /// The threads that some thread joins, or tries to.
    joined: BTreeSet<ThreadId>,
    /// All events of threads but `leaves`.
    all_steps: Alphabet,
    /// What `Cspm::steps` will be.
    steps: Vec<Vec<(String, EventIndex)>>,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(model: &'a Model<'a>, checks: Checks) -> Self {
        let orders = model.orders_between_threads();
        let marks = orders.iter().filter(|&&(later, earlier)| {
            !matches!(model.op(later), Op::Join(_)) && !matches!(model.op(earlier), Op::Fork(_))
        });
        Writer {
            model,
            checks,
            locks: LockSets::of(model.trace),
            cells: cells(model),
            alphabets: BTreeMap::new(),
            marks: marks.copied().collect(),
            joined: BTreeSet::new(),
            all_steps: BTreeSet::new(),
            steps: Vec::new(),
            out: String::new(),
        }
    }

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
            self.line(format!("-- {i} is thread {}", printable(&thread.name)));
        }
        for (i, object) in trace.objects.iter().enumerate() {
            self.line(format!(
                "-- {i} is {} {}",
                object.kind.word(),
                printable(&object.name)
            ));
        }
        for (i, cell) in self.cells.clone().into_iter().enumerate() {
            let (address, size) = self.model.locations.bytes(cell);
            let name = trace
                .symbol_at(address)
                .map_or("", |symbol| symbol.name.as_str());
            self.line(format!(
                "-- k{i} is {size} bytes at {address:#x} {}",
                printable(name)
            ));
        }
        self.line("");
        let last = |count: usize| count.max(1) - 1;
        let (threads, objects) = (last(trace.threads.len()), last(trace.objects.len()));
        self.line(format!("thread = {{0..{threads}}}"));
        self.line(format!("object = {{0..{objects}}}"));
        self.line("channel fork, join, tryjoin : thread.thread");
        self.line("channel start, end, leaves : thread");
        self.line("channel lock, rdlock, unlock, trylock, tryrdlock : thread.object");
        self.line(
            "channel sleep : thread.object.object  -- unlocks the first, waits on the second",
        );
        self.line("channel wake, spurious, signal, broadcast : thread.object");
        self.line(
            "channel barrier_enter, barrier_exit, sem_post, sem_wait, sem_try : thread.object",
        );
        self.line("channel oncebegin, onceend, oncepass, unbegun : thread.object");
        self.line(format!(
            "channel mark, marked : {{0..{}}}",
            self.marks.len()
        ));
        self.line("channel endthreads");
        if self.checks.deadlock {
            self.line("channel live");
        }
        let faithful = self.model.meaning == Meaning::Faithful;
        if self.checks.race || faithful {
            let cells: Vec<String> = (0..self.cells.len().max(1))
                .map(|i| format!("k{i}"))
                .collect();
            self.line(format!("datatype Cell = {}", cells.join(" | ")));
        }
        if self.checks.race {
            self.line("datatype Access = R | W | AR | AW  -- AR, AW: atomic");
            self.line("channel at, access : thread.Cell.Access");
            self.line("channel race");
        }
        if faithful {
            let events = trace.events.len();
            self.line(format!("channel read, write : thread.Cell.{{0..{events}}}"));
            self.line(format!(
                "channel update : thread.Cell.{{0..{events}}}.{{0..{events}}}"
            ));
        }
        self.line("");
    }

    /// Notes that a process takes part in an event.
    fn joins_in(&mut self, process: impl Into<String>, event: &str) {
        self.alphabets
            .entry(process.into())
            .or_default()
            .insert(event.to_string());
    }

    /// All threads and all objects together.
    fn program(&mut self) {
        let threads: Vec<String> = self
            .model
            .thread_ids()
            .map(|thread| format!("THREAD_{}", thread.0))
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
            format!("sync_set = {}", set(&sync)),
            "PROGRAM = INTER [| sync_set |] SYNC".to_string(),
            String::new(),
        ];
        text.iter().for_each(|line| self.line(line));
    }
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
