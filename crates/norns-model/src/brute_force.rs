//! Every state of a small trace: the judge of all engines in tests.
//!
//! Nothing is left out and nothing is clever here. The number of states is exponential in the
//! number of threads; `enumerate` gives up at a limit.

use std::collections::{BTreeSet, VecDeque};

use norns_trace::{EventIndex, Trace};
use rustc_hash::FxHashSet;

use crate::Meaning;
use crate::model::Model;
use crate::state::State;

/// Everything that the schedules of a trace can show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enumeration {
    /// The earlier event of the trace first.
    pub races: BTreeSet<(EventIndex, EventIndex)>,
    /// The blocked acquisitions of every cycle of locks, sorted.
    pub lock_deadlocks: BTreeSet<Vec<EventIndex>>,
    /// The blocked events of every other minimal set of threads that nothing can free, sorted.
    pub stuck: BTreeSet<Vec<EventIndex>>,
    pub states: usize,
}

/// All racy pairs and all deadlocks, or `None` when there are more states than `limit`.
pub fn enumerate(trace: &Trace, meaning: Meaning, limit: usize) -> Option<Enumeration> {
    let model = Model::new(trace, meaning);
    let mut found = Enumeration::default();
    let start = State::initial(&model);
    let mut seen = FxHashSet::default();
    seen.insert(start.key());
    let mut queue = VecDeque::from([start]);
    let mut steps = Vec::new();
    while let Some(state) = queue.pop_front() {
        found.races.extend(model.races_at(&state));
        for mut cycle in model.lock_cycles_at(&state) {
            cycle.sort_unstable();
            found.lock_deadlocks.insert(cycle);
        }
        found.stuck.extend(model.stuck_at(&state));
        for thread in model.thread_ids() {
            steps.clear();
            model.steps(&state, thread, &mut steps);
            for &step in &steps {
                let mut next = state.clone();
                model.take(&mut next, step);
                next.forget_trail();
                if seen.insert(next.key()) {
                    queue.push_back(next);
                }
            }
        }
        if seen.len() > limit {
            return None;
        }
    }
    found.states = seen.len();
    Some(found)
}
