//! Which threads and steps of a schedule are worth showing.

use std::collections::BTreeSet;

use norns_trace::effect::{OnLock, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, Op, ThreadId, TouchKind, Trace};

use crate::describe::is_call;

/// At most this many threads get a lane.
const MOST_LANES: usize = 8;
/// Synchronisation shown before and after each operation of the bug.
const CONTEXT_BEFORE: usize = 3;
const CONTEXT_AFTER: usize = 2;
/// With more operations than this there is room for one step before each of them only.
const FEW_OPERATIONS: usize = 3;

/// The threads of the bug, then the threads that created them, in the order of their ids.
pub(super) fn lanes(trace: &Trace, bug: &[EventIndex]) -> Vec<ThreadId> {
    let mut lanes: Vec<ThreadId> = Vec::new();
    for &event in bug {
        let thread = trace.events[event.index()].thread;
        if !lanes.contains(&thread) && lanes.len() < MOST_LANES {
            lanes.push(thread);
        }
    }
    for thread in lanes.clone() {
        if let Some(parent) = trace.thread(thread).parent
            && !lanes.contains(&parent)
            && lanes.len() < MOST_LANES
        {
            lanes.push(parent);
        }
    }
    lanes.sort_unstable();
    lanes
}

/// The operations of the bug, the locks held there, the creation of the threads, and the nearest
/// synchronisation of each thread before and after its operation.
pub(super) fn steps(
    trace: &Trace,
    bug: &[EventIndex],
    lanes: &[ThreadId],
    histories: &[Vec<EventIndex>],
) -> BTreeSet<EventIndex> {
    let (before, after) = match bug.len() {
        0..=FEW_OPERATIONS => (CONTEXT_BEFORE, CONTEXT_AFTER),
        _ => (1, 0),
    };
    let mut visible: BTreeSet<EventIndex> = bug.iter().copied().collect();
    for history in histories {
        for &index in history {
            let Effect::Thread(act) = trace.events[index.index()].op.effect() else {
                continue;
            };
            let begins = match act {
                OnThread::Fork(child) => lanes.contains(&child),
                OnThread::Start => true,
                OnThread::End
                | OnThread::Join(_)
                | OnThread::FailedJoin(_)
                | OnThread::Detach(_) => false,
            };
            if begins {
                visible.insert(index);
            }
        }
    }
    for &event in bug {
        let thread = trace.events[event.index()].thread;
        let Some(lane) = lanes.iter().position(|&lane| lane == thread) else {
            continue;
        };
        let history = &histories[lane];
        visible.extend(
            held_at(trace, history, event)
                .into_iter()
                .map(|(_, taken)| taken),
        );
        let at = history.partition_point(|&index| index < event);
        let is_sync = |index: &&EventIndex| is_synchronisation(trace.events[index.index()].op);
        visible.extend(history[..at].iter().rev().filter(is_sync).take(before));
        visible.extend(history[at + 1..].iter().filter(is_sync).take(after));
    }
    visible
}

/// Whether a step is of interest for how threads are ordered, or is said by the user: neither a
/// plain access nor a call.
pub(super) fn is_synchronisation(op: Op) -> bool {
    match op.effect() {
        Effect::Thread(_)
        | Effect::Lock(..)
        | Effect::Once(..)
        | Effect::Condition(..)
        | Effect::Barrier(..)
        | Effect::Semaphore(..)
        | Effect::Channel(..) => true,
        Effect::Memory(touch) => touch.kind == TouchKind::Atomic,
        Effect::Local => !is_call(op),
    }
}

/// The locks that the thread of `history` holds just before `event`, outermost first, each with
/// its acquisition.
pub(super) fn held_at(
    trace: &Trace,
    history: &[EventIndex],
    event: EventIndex,
) -> Vec<(ObjectId, EventIndex)> {
    let mut held: Vec<(ObjectId, EventIndex)> = Vec::new();
    for &index in history.iter().take_while(|&&index| index < event) {
        let Effect::Lock(lock, act) = trace.events[index.index()].op.effect() else {
            continue;
        };
        match act {
            OnLock::Acquire(_) => held.push((lock, index)),
            OnLock::Release => {
                if let Some(at) = held.iter().rposition(|&(held, _)| held == lock) {
                    held.remove(at);
                }
            }
            OnLock::FailedAcquire(_) => {}
        }
    }
    held
}
