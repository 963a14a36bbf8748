//! The independent checker of witnesses: is a schedule legal, and does it end with its bug?
//!
//! Written from the rules in the table of `tests/model/step_rules.rs` and the definitions in
//! ARCHITECTURE.md, "What counts as a bug", alone. It shares no code with the model, its step
//! rules or any engine, and reads operations itself instead of asking for their `Effect`, so that
//! a mistake there cannot vouch for itself. Nothing is reported that the checker does not accept.
//!
//! - `gather`: what the trace says before any schedule: the sizes of barriers, which waits were
//!   signalled, which block an access belongs to, which write a read saw.
//! - `run`: whether the events of a schedule can happen one after the other. A schedule does not
//!   say whom a signal wakes, so a run follows all possibilities at once and asks that one remains.
//! - `shows`: whether the state after the schedule has the bug.

mod gather;
mod run;
mod shows;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use norns_trace::{EventIndex, ObjectId, Op, ThreadId, Trace};

use self::run::Run;
use crate::witness::{Meaning, Witness};

/// In place of an event: none.
const NOBODY: u32 = u32::MAX;

/// Why a witness is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The first event of the schedule that cannot happen there; `None` when the whole schedule
    /// can, but the bug is not there afterwards.
    pub event: Option<EventIndex>,
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(f, "event {} cannot happen there: {}", event.0, self.reason),
            None => write!(f, "the schedule does not end with the bug: {}", self.reason),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks one witness. For many witnesses of one trace, make one `Checker`.
pub fn check_witness(trace: &Trace, meaning: Meaning, witness: &Witness) -> Result<(), Refusal> {
    Checker::new(trace, meaning).check(witness)
}

/// What a trace says about its events, gathered once.
pub struct Checker<'t> {
    trace: &'t Trace,
    meaning: Meaning,
    /// For every thread its events in order.
    lines: Vec<Vec<usize>>,
    /// The first fork of every thread that was forked.
    forker: HashMap<ThreadId, usize>,
    barrier_size: HashMap<ObjectId, usize>,
    semaphore_start: HashMap<ObjectId, i64>,
    /// Waits that no signal or broadcast of the trace explains.
    unexplained: HashSet<usize>,
    /// For every event the allocation that its access belongs to, or `NOBODY`.
    allocation: Vec<u32>,
    /// The sends on each channel, in order, by thread.
    sends: HashMap<ObjectId, HashMap<ThreadId, Vec<usize>>>,
    /// How many cells there are: bytes of one allocation that are never accessed in part.
    cells: usize,
    /// For every event its cells, from and to; empty in the optimistic meaning, like the rest.
    cells_of: Vec<(u32, u32)>,
    /// For every event where its part of `saw` begins: what each cell that it reads was written
    /// by, or `NOBODY`.
    saw_from: Vec<u32>,
    saw: Vec<u32>,
}

impl<'t> Checker<'t> {
    pub fn new(trace: &'t Trace, meaning: Meaning) -> Checker<'t> {
        let mut checker = Checker {
            trace,
            meaning,
            lines: vec![Vec::new(); trace.threads.len()],
            forker: HashMap::new(),
            barrier_size: HashMap::new(),
            semaphore_start: HashMap::new(),
            unexplained: HashSet::new(),
            allocation: vec![NOBODY; trace.events.len()],
            sends: HashMap::new(),
            cells: 0,
            cells_of: Vec::new(),
            saw_from: Vec::new(),
            saw: Vec::new(),
        };
        for (i, event) in trace.events.iter().enumerate() {
            checker.lines[event.thread.index()].push(i);
            if let Op::Fork(child) = event.op {
                checker.forker.entry(child).or_insert(i);
            }
        }
        checker.gather_numbers();
        checker.gather_waits();
        checker.gather_blocks();
        checker.gather_sends();
        if meaning == Meaning::Faithful {
            checker.gather_reads();
        }
        checker
    }

    pub fn check(&self, witness: &Witness) -> Result<(), Refusal> {
        let run = self.run(&witness.schedule)?;
        self.shows(&run, witness).map_err(|reason| Refusal {
            event: None,
            reason,
        })
    }

    /// Whether the events can happen in this order, whatever they lead to.
    pub fn check_schedule(&self, schedule: &[EventIndex]) -> Result<(), Refusal> {
        self.run(schedule).map(|_| ())
    }

    fn run(&self, schedule: &[EventIndex]) -> Result<Run, Refusal> {
        let mut run = Run {
            done: vec![0; self.lines.len()],
            written: vec![Vec::new(); self.trace.objects.len()],
            read: vec![Vec::new(); self.trace.objects.len()],
            semaphores: self.semaphore_start.clone(),
            once_runner: HashMap::new(),
            once_done: HashSet::new(),
            in_barrier: HashMap::new(),
            sleepers: BTreeSet::from([BTreeSet::new()]),
            last_write: vec![NOBODY; self.cells],
        };
        for &event in schedule {
            self.happen(&mut run, event.index())
                .map_err(|reason| Refusal {
                    event: Some(event),
                    reason,
                })?;
        }
        Ok(run)
    }

    fn op(&self, event: usize) -> Op {
        self.trace.events[event].op
    }

    fn thread(&self, event: usize) -> ThreadId {
        self.trace.events[event].thread
    }

    fn next(&self, run: &Run, thread: ThreadId) -> Option<usize> {
        self.lines[thread.index()]
            .get(run.done[thread.index()])
            .copied()
    }

    fn happened(&self, run: &Run, event: usize) -> bool {
        let line = &self.lines[self.thread(event).index()];
        line[..run.done[self.thread(event).index()]]
            .last()
            .is_some_and(|&last| last >= event)
    }

    fn all_happened(&self, run: &Run, thread: ThreadId) -> bool {
        run.done[thread.index()] == self.lines[thread.index()].len()
    }

    fn ended(&self, run: &Run, thread: ThreadId) -> bool {
        let last = self.lines[thread.index()].last();
        self.all_happened(run, thread) && last.is_some_and(|&last| self.op(last) == Op::End)
    }

    fn is_born(&self, run: &Run, thread: ThreadId) -> bool {
        run.done[thread.index()] > 0
            || self
                .forker
                .get(&thread)
                .is_none_or(|&fork| self.happened(run, fork))
    }
}

/// The reason, unless the condition holds.
fn need(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_string())
    }
}
