//! The few steps of a run that are shown: those of the predictor and of the failure, the writes that the
//! first of them saw, and where the threads were created.

use std::collections::BTreeSet;

use norns_trace::{EventIndex, Op, ThreadId, Touch, TouchKind, Trace};
use norns_wire::environment::FAILURE;

use crate::facts::Statement;
use crate::predictor::Predictor;

/// How many steps are shown at most besides those of the predictor.
const MOST: usize = 12;

/// One step of a run that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    pub event: EventIndex,
    /// Whether it is part of the best predictor.
    pub predicts: bool,
}

/// The steps of the failing run.
pub fn of_failing(trace: &Trace, best: &[&Predictor]) -> Vec<Step> {
    let events: Vec<u32> = best.first().map_or(Vec::new(), |best| best.events.clone());
    let further = best
        .iter()
        .skip(1)
        .flat_map(|predictor| predictor.events.iter());
    let further: BTreeSet<EventIndex> = further.map(|&event| EventIndex(event)).collect();
    let mut shown: BTreeSet<EventIndex> = events.iter().map(|&event| EventIndex(event)).collect();
    let core = shown.clone();
    let failure = trace
        .events
        .iter()
        .rposition(|event| is_failure(trace, event.op));
    shown.extend(failure.map(EventIndex::from_index));
    let threads: BTreeSet<ThreadId> = shown
        .iter()
        .map(|event| trace.events[event.index()].thread)
        .collect();
    shown.extend(origins(trace, &core));
    shown.extend(forks(trace, &threads));
    shown.extend(further);
    if shown.len() <= 1 {
        shown.extend(last_accesses(trace, failure));
    }
    shown
        .into_iter()
        .map(|event| Step {
            event,
            predicts: core.contains(&event),
        })
        .collect()
}

/// The same statements in a good run.
pub fn of_good(trace: &Trace, best: &Predictor) -> Vec<Step> {
    let mut core = BTreeSet::new();
    for statement in best.statements() {
        let found = trace.events.iter().rposition(|event| {
            trace.place(event.place).pc == statement && Touch::of(event.op).is_some()
        });
        core.extend(found.map(EventIndex::from_index));
    }
    let threads: BTreeSet<ThreadId> = core
        .iter()
        .map(|event: &EventIndex| trace.events[event.index()].thread)
        .collect();
    let mut shown = core.clone();
    shown.extend(origins(trace, &core));
    shown.extend(forks(trace, &threads));
    shown
        .into_iter()
        .map(|event| Step {
            event,
            predicts: core.contains(&event),
        })
        .collect()
}

pub fn is_failure(trace: &Trace, op: Op) -> bool {
    let Op::Custom(custom) = op else {
        return false;
    };
    trace.customs[custom as usize].name == FAILURE
}

/// The last writes to the same memory before: what the first access saw.
fn origins(trace: &Trace, core: &BTreeSet<EventIndex>) -> Vec<EventIndex> {
    let mut found = Vec::new();
    let Some(first) = core.first() else {
        return found;
    };
    for event in core {
        let Some(touch) = Touch::of(trace.events[event.index()].op) else {
            continue;
        };
        let before = trace.events[..first.index()].iter().rposition(|earlier| {
            Touch::of(earlier.op).is_some_and(|other| {
                other.kind != TouchKind::Allocate
                    && other.writes
                    && other.access.overlaps(touch.access)
            })
        });
        found.extend(before.map(EventIndex::from_index));
    }
    found
}

fn forks(trace: &Trace, threads: &BTreeSet<ThreadId>) -> Vec<EventIndex> {
    let events = trace.events.iter().enumerate();
    let found =
        events.filter(|(_, event)| matches!(event.op, Op::Fork(child) if threads.contains(&child)));
    found
        .map(|(index, _)| EventIndex::from_index(index))
        .take(MOST / 2)
        .collect()
}

/// The last accesses before the failure of the thread that failed, or of all threads.
fn last_accesses(trace: &Trace, failure: Option<usize>) -> Vec<EventIndex> {
    let thread = failure.map(|index| trace.events[index].thread);
    let before = &trace.events[..failure.unwrap_or(trace.events.len())];
    let events = before.iter().enumerate().rev();
    let found = events.filter(|(_, event)| {
        let touch = Touch::of(event.op);
        touch.is_some_and(|touch| touch.kind != TouchKind::Allocate)
            && thread.is_none_or(|thread| thread == event.thread)
            && Statement::of(trace, event.place).line > 0
    });
    found
        .map(|(index, _)| EventIndex::from_index(index))
        .take(MOST)
        .collect()
}
