//! Pairs of accesses that the recorded run leaves unordered according to the memory model of C.
//!
//! Such a pair is a race whatever the values are: a detector reports it in the recorded order.

use norns_model::Model;
use norns_trace::EventIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Clock;
use super::memory_model::MemoryModel;

/// Those of the pairs (the earlier event first) that nothing orders.
pub fn unordered_pairs(
    model: &Model,
    pairs: &FxHashSet<(EventIndex, EventIndex)>,
) -> FxHashSet<(EventIndex, EventIndex)> {
    let wanted: FxHashSet<EventIndex> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    let mut before = MemoryModel::new(model);
    let mut clocks: FxHashMap<EventIndex, Clock> = FxHashMap::default();
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        // A detector looks at an atomic access before that acquires anything.
        if wanted.contains(&here) {
            clocks.insert(here, before.clock(event.thread.index()).clone());
        }
        before.acquire(event);
        before.release(event);
    }
    let is_unordered = |&&(first, second): &&(EventIndex, EventIndex)| {
        let thread = model.thread_of(first).index();
        clocks[&second][thread] < clocks[&first][thread]
    };
    pairs.iter().filter(is_unordered).copied().collect()
}
