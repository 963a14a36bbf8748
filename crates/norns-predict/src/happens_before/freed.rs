//! Uses of freed memory that the recorded run orders: in one thread, or behind a lock, a join or
//! whatever else was handed over.
//!
//! Where nothing orders the free and the use, they are a race (`observed`). Where the use comes first,
//! the run did nothing wrong. Long blocks are left out: the allocator unmaps them, and what is mapped
//! there next need not be an allocation that is recorded. So are the stacks of threads, which have no
//! place of a free.
//!
//! An access stands in a recording where its thread last did something that has a number, which may be
//! before an allocation that it follows. So an access is in doubt until its thread's next such event: if
//! another thread allocates the bytes before that, the access may be one to the new block.

use std::collections::BTreeMap;

use norns_trace::effect::{OnBarrier, OnCondition, OnSemaphore};
use norns_trace::{
    Access, Effect, Event, EventIndex, Op, PlaceId, ThreadId, Touch, TouchKind, Trace,
};
use rustc_hash::FxHashSet;

use super::HappensBefore;

/// The longest block that is followed.
const LONGEST: u32 = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UseAfterFree {
    pub free: EventIndex,
    /// An access, a second free, or an operation on an object that lies there.
    pub usage: EventIndex,
}

/// The first use for every pair of places, in the order of the trace.
pub fn uses_after_free(trace: &Trace) -> Vec<UseAfterFree> {
    let mut events = trace.events.iter();
    if !events.any(|event| matches!(event.op, Op::Free(_))) {
        return Vec::new();
    }
    let mut search = Search {
        trace,
        before: HappensBefore::new(trace),
        freed: BTreeMap::new(),
        doubtful: Vec::new(),
        seen: FxHashSet::default(),
        found: Vec::new(),
    };
    search.walk();
    search.found.sort_by_key(|found| found.usage);
    search.found
}

struct Freed {
    end: u64,
    event: EventIndex,
    thread: ThreadId,
    /// The entry of the thread in its own clock.
    epoch: u32,
}

struct Search<'t> {
    trace: &'t Trace,
    before: HappensBefore,
    /// By their first address, the blocks that were freed and not allocated again.
    freed: BTreeMap<u64, Freed>,
    /// Uses that may still turn out to be those of a new block, with their bytes.
    doubtful: Vec<(UseAfterFree, ThreadId, Access)>,
    seen: FxHashSet<(PlaceId, PlaceId)>,
    found: Vec<UseAfterFree>,
}

impl Search<'_> {
    fn walk(&mut self) {
        let trace = self.trace;
        for (i, event) in trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            self.before.acquire(event);
            let has_number = event.op.kind().code.ordered();
            if has_number && !self.doubtful.is_empty() {
                self.settle(event.thread);
            }
            if let Op::Allocate(block) = event.op {
                self.allocate(event.thread, block);
            } else if let Some(access) = used(trace, event)
                && let Some(found) = self.use_after_free(here, event.thread, access)
            {
                if has_number {
                    self.add(found);
                } else {
                    self.doubtful.push((found, event.thread, access));
                }
            }
            if let Op::Free(block) = event.op {
                self.free(here, event, block);
            }
            self.before.release(event);
        }
        for (found, ..) in std::mem::take(&mut self.doubtful) {
            self.add(found);
        }
    }

    fn add(&mut self, found: UseAfterFree) {
        let place = |event: EventIndex| self.trace.events[event.index()].place;
        if self.seen.insert((place(found.free), place(found.usage))) {
            self.found.push(found);
        }
    }

    /// The thread does something that has a number: what it did before that is no longer in doubt.
    fn settle(&mut self, thread: ThreadId) {
        let doubtful = std::mem::take(&mut self.doubtful);
        for (found, by, access) in doubtful {
            if by == thread {
                self.add(found);
            } else {
                self.doubtful.push((found, by, access));
            }
        }
    }

    fn allocate(&mut self, thread: ThreadId, block: Access) {
        self.doubtful
            .retain(|(_, by, access)| *by == thread || !access.overlaps(block));
        let end = block.address + u64::from(block.size);
        while let Some((&start, freed)) = self.freed.range(..end).next_back()
            && freed.end > block.address
        {
            self.freed.remove(&start);
        }
    }

    fn free(&mut self, here: EventIndex, event: &Event, block: Access) {
        let has_place = self.trace.places[event.place.index()].pc != 0;
        if !has_place || block.size == 0 || block.size > LONGEST {
            return;
        }
        let epoch = self.before.clock(event.thread.index())[event.thread.index()];
        let freed = Freed {
            end: block.address + u64::from(block.size),
            event: here,
            thread: event.thread,
            epoch,
        };
        self.freed.insert(block.address, freed);
    }

    fn use_after_free(
        &self,
        here: EventIndex,
        thread: ThreadId,
        access: Access,
    ) -> Option<UseAfterFree> {
        let (_, freed) = self.freed.range(..=access.address).next_back()?;
        let clock = self.before.clock(thread.index());
        let is_ordered = freed.thread == thread || freed.epoch <= clock[freed.thread.index()];
        (freed.end > access.address && is_ordered).then_some(UseAfterFree {
            free: freed.event,
            usage: here,
        })
    }
}

/// The bytes that an event uses: of a lock and the like the first one. The end of a wait uses nothing
/// that its beginning has not used.
fn used(trace: &Trace, event: &Event) -> Option<Access> {
    if let Some(touch) = Touch::of(event.op) {
        let is_use = !matches!(touch.kind, TouchKind::Allocate | TouchKind::Initialise);
        return is_use.then_some(touch.access);
    }
    match event.op.effect() {
        Effect::Lock(object, _)
        | Effect::Condition(object, OnCondition::Signal | OnCondition::Broadcast)
        | Effect::Barrier(object, OnBarrier::Enter)
        | Effect::Semaphore(
            object,
            OnSemaphore::Wait | OnSemaphore::FailedWait | OnSemaphore::Post,
        ) => Some(Access {
            address: trace.object(object).address,
            size: 1,
        }),
        Effect::Condition(_, OnCondition::Wait | OnCondition::TimedOut)
        | Effect::Barrier(_, OnBarrier::Init(_) | OnBarrier::Exit)
        | Effect::Semaphore(_, OnSemaphore::Init(_))
        | Effect::Once(..)
        | Effect::Channel(..)
        | Effect::Thread(_)
        | Effect::Memory(_)
        | Effect::Local => None,
    }
}

#[cfg(test)]
mod tests {
    use norns_model::script::trace;

    fn check(script: &str, expected: &[(u32, u32)]) {
        let found: Vec<(u32, u32)> = super::uses_after_free(&trace(script))
            .iter()
            .map(|found| (found.free.0, found.usage.0))
            .collect();
        assert_eq!(found, expected, "{script}");
    }

    #[test]
    fn what_one_thread_uses_after_its_free() {
        check("T1: write b, free b, write b", &[(1, 2)]);
        check("T1: free b, free b", &[(0, 1)]);
        check("T1: read b, write b, free b", &[]);
    }

    #[test]
    fn what_another_thread_uses_later() {
        check(
            "T1: lock m, free b, unlock m\nT2: lock m, read b, unlock m",
            &[(1, 4)],
        );
        check("T1: fork T2\nT2: free b\nT1: join T2, read b", &[(1, 3)]);
        // A race, which is not found here.
        check("T1: free b\nT2: read b", &[]);
    }

    #[test]
    fn a_block_that_is_allocated_again_is_another_one() {
        check("T1: free b, alloc b, write b", &[]);
        // The write may have followed the allocation.
        check("T1: free b, write b\nT2: alloc b", &[]);
        check("T1: free b, write b, lock m\nT2: alloc b", &[(0, 1)]);
    }
}
