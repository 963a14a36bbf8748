//! Which pairs of accesses the recorded run itself leaves unordered, as the memory model of C has it.
//!
//! Such a pair is a race whatever values say: a detector shows it in this very order. Vector clocks
//! (Mattern 1989). A release store orders before the acquire loads that come after it; relaxed
//! operations, fences and signals order nothing here, so that a pair that a detector may report is
//! never taken for ordered; the other way round a replay finds out.

use norns_model::Model;
use norns_trace::{AtomicKind, EventIndex, MemoryOrder, Op};
use rustc_hash::{FxHashMap, FxHashSet};

type Clock = Vec<u32>;

/// Of these pairs, the earlier event first, those that nothing orders.
pub fn unordered(
    model: &Model,
    pairs: &FxHashSet<(EventIndex, EventIndex)>,
) -> FxHashSet<(EventIndex, EventIndex)> {
    let wanted: FxHashSet<EventIndex> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    let width = model.threads.len();
    let mut threads: Vec<Clock> = (0..width)
        .map(|thread| (0..width).map(|other| u32::from(other == thread)).collect())
        .collect();
    let mut objects: Vec<Clock> = vec![vec![0; width]; model.trace.objects.len()];
    let mut atomics: FxHashMap<u64, Clock> = FxHashMap::default();
    let mut clocks: FxHashMap<EventIndex, Clock> = FxHashMap::default();
    for (i, event) in model.trace.events.iter().enumerate() {
        let thread = event.thread.index();
        let here = EventIndex::from_index(i);
        if wanted.contains(&here) {
            clocks.insert(here, threads[thread].clone());
        }
        match event.op {
            Op::Fork(child) => {
                let clock = threads[thread].clone();
                raise(&mut threads[child.index()], &clock);
                threads[thread][thread] += 1;
            }
            Op::Join(child) => {
                let clock = threads[child.index()].clone();
                raise(&mut threads[thread], &clock);
            }
            Op::Lock(o)
            | Op::ReadLock(o)
            | Op::OncePass(o)
            | Op::BarrierExit(o)
            | Op::SemWait(o) => {
                raise(&mut threads[thread], &objects[o.index()]);
            }
            Op::Unlock(o) | Op::OnceEnd(o) | Op::BarrierEnter(o) | Op::SemPost(o) => {
                raise(&mut objects[o.index()], &threads[thread]);
                threads[thread][thread] += 1;
            }
            Op::Atomic {
                address,
                kind,
                order,
                ..
            } => {
                use MemoryOrder::{AcqRel, Acquire, Consume, Release, SeqCst};
                let reads = kind != AtomicKind::Store;
                let writes = matches!(kind, AtomicKind::Store | AtomicKind::ReadModifyWrite);
                if reads
                    && matches!(order, Acquire | Consume | AcqRel | SeqCst)
                    && let Some(clock) = atomics.get(&address)
                {
                    raise(&mut threads[thread], clock);
                }
                if writes {
                    let clock = atomics.entry(address).or_default();
                    if kind == AtomicKind::Store {
                        clock.clear();
                    }
                    if matches!(order, Release | AcqRel | SeqCst) {
                        raise(clock, &threads[thread]);
                        threads[thread][thread] += 1;
                    }
                }
            }
            _ => {}
        }
    }
    let is_unordered = |&&(first, second): &&(EventIndex, EventIndex)| {
        let thread = model.thread_of(first).index();
        clocks[&second][thread] < clocks[&first][thread]
    };
    pairs.iter().filter(is_unordered).copied().collect()
}

fn raise(clock: &mut Clock, other: &[u32]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (have, &new) in clock.iter_mut().zip(other) {
        *have = (*have).max(new);
    }
}
