//! Threads that wait when the process ends.
//!
//! The workers of a pool wait for more work until the process ends. Which of them gets the last job
//! depends on the schedule, so that a wait of any of them can be one that nothing ends. The recorded
//! run shows that this is meant so: it ended by itself while a thread waited at that very place.
//! Such a wait is no bug. Only waits on condition variables are known here: a wait that has not
//! returned is in the trace as the release of its mutex, where a semaphore leaves nothing.

use std::collections::BTreeSet;

use norns_model::{Bug, Witness};
use norns_trace::{EventIndex, Op, PlaceId, Trace};

/// The places at which threads waited on conditions when the recorded run ended.
pub struct LeftWaiting {
    places: BTreeSet<PlaceId>,
}

impl LeftWaiting {
    pub fn of(trace: &Trace) -> Self {
        let mut last = vec![None; trace.threads.len()];
        for event in &trace.events {
            last[event.thread.index()] = Some(event);
        }
        let last = last.into_iter().flatten();
        // A wait releases its mutex at its own place; no other release has the place of a wait.
        let places = last.filter(|event| matches!(event.op, Op::Unlock(_)));
        LeftWaiting {
            places: places.map(|event| event.place).collect(),
        }
    }

    /// Whether all threads of an endless wait are in waits that the recorded run left as well.
    pub fn explains(&self, trace: &Trace, witness: &Witness) -> bool {
        let Bug::Stuck { blocked } = &witness.bug else {
            return false;
        };
        let is_left = |event: &EventIndex| {
            let event = trace.events[event.index()];
            matches!(event.op, Op::Wait(_)) && self.places.contains(&event.place)
        };
        blocked.iter().all(is_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T1 waits on a condition at one place and is woken; T2 has as its last event a release of the
    /// mutex at the place of event `last`. Whether that explains an endless wait of T1.
    fn is_explained(last: usize) -> bool {
        let mut trace = norns_model::script::trace(
            "T1: lock m, unlock m
             T3: signal c
             T1: wait c, lock m, unlock m
             T2: lock m, unlock m",
        );
        trace.events[3].place = trace.events[1].place;
        trace.events[7].place = trace.events[last].place;
        let witness = Witness {
            schedule: Vec::new(),
            bug: Bug::Stuck {
                blocked: vec![EventIndex(3)],
            },
        };
        LeftWaiting::of(&trace).explains(&trace, &witness)
    }

    #[test]
    fn a_wait_at_which_another_thread_was_left_is_explained() {
        assert!(is_explained(1));
        assert!(!is_explained(5), "that release is no wait");
    }
}
