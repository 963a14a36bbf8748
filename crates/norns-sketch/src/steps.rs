//! The few steps of a run that are shown: those of the predictor and of the failure, what gave them their values,
//! and where the threads were created.

use std::collections::BTreeSet;

use norns_trace::{EventIndex, Op, ThreadId, Touch, TouchKind, Trace};
use norns_wire::environment::FAILURE;

use crate::facts::{Statement, places};
use crate::failure::{FailureKind, event_of, own_place};
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

/// The steps of a run that failed in this way.
pub fn of_failing(trace: &Trace, best: &[&Predictor], kind: FailureKind) -> Vec<Step> {
    let events: Vec<u32> = best.first().map_or(Vec::new(), |best| best.events.clone());
    let further = best
        .iter()
        .skip(1)
        .flat_map(|predictor| predictor.events.iter());
    let further: BTreeSet<EventIndex> = further.map(|&event| EventIndex(event)).collect();
    let mut shown: BTreeSet<EventIndex> = events.iter().map(|&event| EventIndex(event)).collect();
    let core = shown.clone();
    let failure = event_of(kind, trace);
    shown.extend(failure);
    let failure = failure.map(EventIndex::index);
    let threads: BTreeSet<ThreadId> = shown
        .iter()
        .map(|event| trace.events[event.index()].thread)
        .collect();
    shown.extend(origins(trace, &core));
    shown.extend(failure.and_then(|failure| origin_of_failing(trace, failure)));
    shown.extend(forks(trace, &threads));
    shown.extend(further);
    if best.is_empty() {
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
    let places = places(trace);
    for statement in best.statements() {
        let found = trace
            .events
            .iter()
            .zip(&places)
            .rposition(|(event, &place)| {
                trace.place(place).pc == statement && Touch::of(event.op).is_some()
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

/// What gave the memory of these events its values before the first of them.
fn origins(trace: &Trace, core: &BTreeSet<EventIndex>) -> Vec<EventIndex> {
    let Some(first) = core.first() else {
        return Vec::new();
    };
    core.iter()
        .filter_map(|event| origin(trace, trace.events[event.index()].op, first.index()))
        .collect()
}

/// The last write to the same memory before, or the allocation that it has its bytes from.
fn origin(trace: &Trace, op: Op, before: usize) -> Option<EventIndex> {
    let access = Touch::of(op)?.access;
    let last = trace.events[..before].iter().rposition(|earlier| {
        Touch::of(earlier.op).is_some_and(|other| other.writes && other.access.overlaps(access))
    });
    last.map(EventIndex::from_index)
}

/// What gave the failing statement the value that it failed with: that of its last read. What led there, such as
/// pointers to pointers, it read before.
fn origin_of_failing(trace: &Trace, failure: usize) -> Option<EventIndex> {
    let thread = trace.events[failure].thread;
    let place = own_place(trace, EventIndex::from_index(failure))?;
    let own = trace.events[..failure].iter().enumerate().rev();
    own.filter(|(_, event)| event.thread == thread)
        .map(|(index, event)| (index, event, Statement::of(trace, event.place)))
        .take_while(|(_, _, at)| at.line == 0 || (at.line, &at.file) == (place.line, &place.file))
        .filter(|(_, event, _)| Touch::of(event.op).is_some_and(|touch| !touch.writes))
        .find_map(|(index, event, _)| origin(trace, event.op, index))
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
