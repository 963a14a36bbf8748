//! Which pairs of accesses the recorded run itself leaves unordered, as the memory model of C has it.
//!
//! Such a pair is a race whatever values say: a detector shows it in this very order.

use norns_model::Model;
use norns_trace::EventIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::happens_before::{Clock, HappensBefore, Rules};

/// Of these pairs, the earlier event first, those that nothing orders.
pub fn unordered(
    model: &Model,
    pairs: &FxHashSet<(EventIndex, EventIndex)>,
) -> FxHashSet<(EventIndex, EventIndex)> {
    let wanted: FxHashSet<EventIndex> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    let mut before = HappensBefore::new(model, Rules::MemoryModel);
    let mut clocks: FxHashMap<EventIndex, Clock> = FxHashMap::default();
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        // Before an atomic access has learned anything: so does a detector look at it.
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
