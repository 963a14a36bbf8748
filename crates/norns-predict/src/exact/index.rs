//! Where in each thread the operations on each object and location are.
//!
//! The searches ask many times whether a thread has such an operation between two positions; here
//! each of these questions is a binary search.

use std::ops::Range;

use norns_model::location::LocationId;
use norns_model::lock_set::LockSets;
use norns_model::must_happen_before::MustHappenBefore;
use norns_model::{Meaning, Model};
use norns_trace::effect::{OnBarrier, OnCondition, OnLock, OnOnce, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, ThreadId};
use rustc_hash::FxHashMap;

/// The operations that the searches distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Acquires a lock, in either mode.
    Acquire,
    FailedAcquire,
    SemWait,
    FailedSemWait,
    SemPost,
    /// Waits on a condition variable.
    Wait,
    /// Signals a condition variable, or broadcasts to it.
    Wake,
    /// Enters a barrier.
    Enter,
    OnceEnd,
}

/// The operations of one thread that are of the same class and on the same object.
pub struct ThreadPositions {
    pub thread: ThreadId,
    /// Positions in the thread, in ascending order.
    pub positions: Vec<u32>,
}

/// One entry for each thread that has any such operation.
type ByThread = Vec<ThreadPositions>;

pub struct Index {
    pub lock_sets: LockSets,
    pub order: MustHappenBefore,
    operations: FxHashMap<(ObjectId, Class), ByThread>,
    writes: FxHashMap<LocationId, ByThread>,
    reads: FxHashMap<LocationId, ByThread>,
    /// In the faithful meaning: the events that must see this write (`None`: the initial value) of a
    /// location.
    readers: FxHashMap<(LocationId, Option<EventIndex>), Vec<EventIndex>>,
    /// For every thread and position, the next position (this one included) at which the thread
    /// holds no lock; the end of the thread if there is none.
    free_from: Vec<Vec<u32>>,
    failed_joins: FxHashMap<ThreadId, ByThread>,
}

impl Index {
    pub fn of(model: &Model) -> Index {
        let lock_sets = LockSets::of(model.trace);
        let mut index = Index {
            order: MustHappenBefore::of(model),
            operations: FxHashMap::default(),
            writes: FxHashMap::default(),
            reads: FxHashMap::default(),
            readers: FxHashMap::default(),
            free_from: Vec::with_capacity(model.threads.len()),
            failed_joins: FxHashMap::default(),
            lock_sets,
        };
        for thread in model.thread_ids() {
            index.add_thread(model, thread);
        }
        index
    }

    fn add_thread(&mut self, model: &Model, thread: ThreadId) {
        let events = &model.threads[thread.index()];
        let mut free_from = vec![events.len() as u32; events.len() + 1];
        for (position, &event) in events.iter().enumerate().rev() {
            let free = self.lock_sets.set(self.lock_sets.before(event)).is_empty();
            free_from[position] = if free {
                position as u32
            } else {
                free_from[position + 1]
            };
        }
        self.free_from.push(free_from);
        for (position, &event) in events.iter().enumerate() {
            let position = position as u32;
            let effect = model.op(event).effect();
            if let Some(key) = class(effect) {
                note(self.operations.entry(key).or_default(), thread, position);
            }
            if let Effect::Thread(OnThread::FailedJoin(child)) = effect {
                let joins = self.failed_joins.entry(child).or_default();
                note(joins, thread, position);
            }
            if model.meaning == Meaning::Faithful {
                for location in model.written_locations(event) {
                    note(self.writes.entry(location).or_default(), thread, position);
                }
                for (location, writer) in model.must_see(event) {
                    note(self.reads.entry(location).or_default(), thread, position);
                    self.readers
                        .entry((location, writer))
                        .or_default()
                        .push(event);
                }
            }
        }
    }

    pub fn operations(&self, object: ObjectId, class: Class) -> &[ThreadPositions] {
        self.operations
            .get(&(object, class))
            .map_or(&[], Vec::as_slice)
    }

    pub fn writes(&self, location: LocationId) -> &[ThreadPositions] {
        self.writes.get(&location).map_or(&[], Vec::as_slice)
    }

    pub fn reads(&self, location: LocationId) -> &[ThreadPositions] {
        self.reads.get(&location).map_or(&[], Vec::as_slice)
    }

    pub fn failed_joins(&self, child: ThreadId) -> &[ThreadPositions] {
        self.failed_joins.get(&child).map_or(&[], Vec::as_slice)
    }

    /// The events that must see this write (`None`: the initial value) at this location.
    pub fn readers(&self, location: LocationId, writer: Option<EventIndex>) -> &[EventIndex] {
        self.readers
            .get(&(location, writer))
            .map_or(&[], Vec::as_slice)
    }

    /// The first position from `position` on at which the thread holds no lock.
    pub fn free_from(&self, thread: ThreadId, position: u32) -> u32 {
        self.free_from[thread.index()][position as usize]
    }
}

/// The first of the positions, which are in ascending order, that lies in the range.
pub fn first_in(positions: &[u32], range: Range<u32>) -> Option<u32> {
    let at = positions.partition_point(|&position| position < range.start);
    positions
        .get(at)
        .copied()
        .filter(|&position| position < range.end)
}

fn note(by_thread: &mut ByThread, thread: ThreadId, position: u32) {
    match by_thread.last_mut() {
        Some(last) if last.thread == thread => last.positions.push(position),
        Some(_) | None => by_thread.push(ThreadPositions {
            thread,
            positions: vec![position],
        }),
    }
}

/// The class of an operation, with its object.
fn class(effect: Effect) -> Option<(ObjectId, Class)> {
    let (object, class) = match effect {
        Effect::Lock(lock, act) => match act {
            OnLock::Acquire(_) => (lock, Class::Acquire),
            OnLock::FailedAcquire(_) => (lock, Class::FailedAcquire),
            OnLock::Release => return None,
        },
        Effect::Semaphore(semaphore, act) => match act {
            OnSemaphore::Wait => (semaphore, Class::SemWait),
            OnSemaphore::FailedWait => (semaphore, Class::FailedSemWait),
            OnSemaphore::Post => (semaphore, Class::SemPost),
            OnSemaphore::Init(_) => return None,
        },
        Effect::Condition(condition, act) => match act {
            OnCondition::Wait => (condition, Class::Wait),
            OnCondition::Signal | OnCondition::Broadcast => (condition, Class::Wake),
            OnCondition::TimedOut => return None,
        },
        Effect::Barrier(barrier, act) => match act {
            OnBarrier::Enter => (barrier, Class::Enter),
            OnBarrier::Init(_) | OnBarrier::Exit => return None,
        },
        Effect::Once(once, act) => match act {
            OnOnce::End => (once, Class::OnceEnd),
            OnOnce::Begin | OnOnce::Pass => return None,
        },
        Effect::Thread(_) | Effect::Channel(..) | Effect::Memory(_) | Effect::Local => return None,
    };
    Some((object, class))
}
