//! What a replay that did not follow its witness teaches.
//!
//! The program left the schedule because a read before that point saw something else than in
//! the recording. The nearest such read is found: one whose last write, in the recording by
//! another thread, the witness puts later or leaves out. That write must come before that read;
//! the ordering solver is asked for a witness under this constraint. When no such read is found,
//! only the very order of the witness is ruled out.
//!
//! The order of plain accesses in a recording is known only between synchronisation operations,
//! so the constraint can be wrong: it can cost a finding, never make one.

use norns_model::{Bug, Witness};
use norns_predict::order::{Constraint, Engine, Outcome, Reads};
use norns_trace::{Access, AtomicKind, EventIndex, Op, Trace};

/// Longer traces are not asked about again: the solver would cost more than the finding.
const MOST_EVENTS: usize = 100_000;
/// How many events of the thread before the point of divergence are looked at.
const LOOK_BACK: usize = 400;

pub struct Refinement<'t> {
    trace: &'t Trace,
    engine: Option<Engine<'t>>,
}

impl<'t> Refinement<'t> {
    pub fn new(trace: &'t Trace) -> Self {
        Self {
            trace,
            engine: None,
        }
    }

    /// Another witness of the same bug, after the program could not do `event` where `witness`
    /// has it (or did not come to the bug at all).
    pub fn again(&mut self, witness: &Witness, event: Option<EventIndex>) -> Option<Witness> {
        if self.trace.events.len() > MOST_EVENTS || matches!(witness.bug, Bug::Stuck { .. }) {
            return None;
        }
        let goals = match (event, &witness.bug) {
            (Some(event), _) => vec![event],
            (None, Bug::Race { first, second }) => vec![*first, *second],
            (None, Bug::LockDeadlock { blocked } | Bug::Stuck { blocked }) => blocked.clone(),
        };
        let constraint = goals
            .iter()
            .find_map(|&goal| missing_write(self.trace, &witness.schedule, goal))
            .map_or_else(
                || Constraint::NotInThisOrder(witness.schedule.clone()),
                |(write, read)| Constraint::Before(write, read),
            );
        let trace = self.trace;
        let engine = self
            .engine
            .get_or_insert_with(|| Engine::new(trace, Reads::Anything));
        engine.add(constraint);
        match engine.find(witness.bug.clone()) {
            Outcome::Witness(witness) => Some(witness),
            Outcome::Impossible | Outcome::Undecided => None,
        }
    }
}

/// The bytes that an event reads, or writes.
fn read_by(op: Op) -> Option<Access> {
    match op {
        Op::Read(access) => Some(access),
        Op::Atomic {
            address,
            size,
            kind: AtomicKind::Load | AtomicKind::ReadModifyWrite | AtomicKind::FailedExchange,
            ..
        } => Some(Access {
            address,
            size: u32::from(size),
        }),
        _ => None,
    }
}

fn written_by(op: Op) -> Option<Access> {
    match op {
        Op::Write(access) => Some(access),
        Op::Atomic {
            address,
            size,
            kind: AtomicKind::Store | AtomicKind::ReadModifyWrite,
            ..
        } => Some(Access {
            address,
            size: u32::from(size),
        }),
        _ => None,
    }
}

/// A write and a read before `goal`, in its thread, that saw it in the recording but does not in
/// the schedule. The nearest read first.
fn missing_write(
    trace: &Trace,
    schedule: &[EventIndex],
    goal: EventIndex,
) -> Option<(EventIndex, EventIndex)> {
    let mut position = vec![usize::MAX; trace.events.len()];
    for (at, event) in schedule.iter().enumerate() {
        position[event.index()] = at;
    }
    let thread = trace.events[goal.index()].thread;
    let before = (0..goal.index()).rev();
    let own = before.filter(|&index| trace.events[index].thread == thread);
    for read in own.take(LOOK_BACK) {
        let Some(access) = read_by(trace.events[read].op) else {
            continue;
        };
        let write = (0..read).rev().find(|&index| {
            let event = trace.events[index];
            written_by(event.op).is_some_and(|written| written.overlaps(access))
        });
        let Some(write) = write else { continue };
        if trace.events[write].thread != thread && position[write] > position[read] {
            return Some((EventIndex::from_index(write), EventIndex::from_index(read)));
        }
    }
    None
}
