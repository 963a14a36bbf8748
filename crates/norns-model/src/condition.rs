//! Condition instances: which signal or broadcast woke which wait.
//!
//! Carril (2017), section 4.3.2, gives each wait to the nearest earlier signal, since its wait
//! events stand for loops that may not have waited at all. Our `Wait` is one that really slept:
//! it was in the queue from its `Unlock` on, and what woke it happened in between. A signal wakes
//! one waiter, a broadcast all of the queue. A signal is matched with the queued waiter whose
//! `Wait` comes first in the trace; no other matching explains more waits. A wait without a waker
//! woke spuriously, or its waker is not in the trace.

use norns_trace::effect::OnCondition;
use norns_trace::{Effect, EventIndex, ObjectId, Op, Trace};
use rustc_hash::FxHashMap;

/// A wait and what woke it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    pub wait: EventIndex,
    /// A signal or broadcast; `None` for a spurious wake-up.
    pub waker: Option<EventIndex>,
}

/// All waits in the order in which they woke.
pub fn wakeups(trace: &Trace) -> Vec<Wakeup> {
    let waits = queued_waits(trace);
    // For every condition the waiters that nothing woke yet: their waits, as positions.
    let mut queues: FxHashMap<ObjectId, Vec<EventIndex>> = FxHashMap::default();
    let mut wakers: FxHashMap<EventIndex, EventIndex> = FxHashMap::default();
    let mut found = Vec::new();
    for (i, event) in trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        if let Some(&(condition, wait)) = waits.get(&here) {
            queues.entry(condition).or_default().push(wait);
        }
        let Effect::Condition(condition, act) = event.op.effect() else {
            continue;
        };
        match act {
            OnCondition::Signal => {
                let queue = queues.entry(condition).or_default();
                if let Some(first) = (0..queue.len()).min_by_key(|&k| queue[k]) {
                    wakers.insert(queue.swap_remove(first), here);
                }
            }
            OnCondition::Broadcast => {
                for wait in queues.entry(condition).or_default().drain(..) {
                    wakers.insert(wait, here);
                }
            }
            OnCondition::Wait => {
                queues
                    .entry(condition)
                    .or_default()
                    .retain(|&wait| wait != here);
                found.push(Wakeup {
                    wait: here,
                    waker: wakers.get(&here).copied(),
                });
            }
            OnCondition::TimedOut => {}
        }
    }
    found
}

/// For every event whether it is a wait that woke without a signal.
pub(crate) fn spurious_waits(trace: &Trace) -> Vec<bool> {
    let mut spurious = vec![false; trace.events.len()];
    for wakeup in wakeups(trace) {
        spurious[wakeup.wait.index()] = wakeup.waker.is_none();
    }
    spurious
}

/// For every `Unlock` that enters a queue: the condition, and the `Wait` that leaves it.
fn queued_waits(trace: &Trace) -> FxHashMap<EventIndex, (ObjectId, EventIndex)> {
    let mut before: Vec<Option<EventIndex>> = vec![None; trace.threads.len()];
    let mut waits = FxHashMap::default();
    for (i, event) in trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        let last = before[event.thread.index()].replace(here);
        if let Op::Wait(condition) = event.op
            && let Some(unlock) = last
            && matches!(trace.events[unlock.index()].op, Op::Unlock(_))
        {
            waits.insert(unlock, (condition, here));
        }
    }
    waits
}
