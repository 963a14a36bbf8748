//! Where in each thread the operations on each object and location are.
//!
//! The searches ask again and again whether a thread has such an operation between two
//! positions; each question is a binary search here.

use std::ops::Range;

use norns_model::Model;
use norns_model::location::LocationId;
use norns_model::lock_set::LockSets;
use norns_model::must_happen_before::MustHappenBefore;
use norns_trace::{EventIndex, ObjectId, Op, ThreadId};
use rustc_hash::FxHashMap;

/// Operations that the searches tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `Lock` and `ReadLock`.
    Acquire,
    /// `FailedLock` and `FailedReadLock`.
    FailedAcquire,
    SemWait,
    FailedSemWait,
    SemPost,
    Wait,
    /// `Signal` and `Broadcast`.
    Wake,
    Enter,
    OnceEnd,
}

/// For each thread that has any, the positions of its operations, ascending.
pub type ByThread = Vec<(ThreadId, Vec<u32>)>;

pub struct Index {
    pub lock_sets: LockSets,
    pub order: MustHappenBefore,
    operations: FxHashMap<(ObjectId, Class), ByThread>,
    writes: FxHashMap<LocationId, ByThread>,
    reads: FxHashMap<LocationId, ByThread>,
    /// In the faithful meaning: who must see this write (or the initial value) of a location.
    readers: FxHashMap<(LocationId, Option<EventIndex>), Vec<EventIndex>>,
    /// For every thread and position the next position, this one included, at which the thread
    /// holds no lock; the end when there is none.
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
            let class = match model.op(event) {
                Op::Lock(o) | Op::ReadLock(o) => Some((o, Class::Acquire)),
                Op::FailedLock(o) | Op::FailedReadLock(o) => Some((o, Class::FailedAcquire)),
                Op::SemWait(o) => Some((o, Class::SemWait)),
                Op::FailedSemWait(o) => Some((o, Class::FailedSemWait)),
                Op::SemPost(o) => Some((o, Class::SemPost)),
                Op::Wait(o) => Some((o, Class::Wait)),
                Op::Signal(o) | Op::Broadcast(o) => Some((o, Class::Wake)),
                Op::BarrierEnter(o) => Some((o, Class::Enter)),
                Op::OnceEnd(o) => Some((o, Class::OnceEnd)),
                Op::FailedJoin(child) => {
                    note(
                        self.failed_joins.entry(child).or_default(),
                        thread,
                        position,
                    );
                    None
                }
                _ => None,
            };
            if let Some(key) = class {
                note(self.operations.entry(key).or_default(), thread, position);
            }
            if model.meaning == norns_model::Meaning::Faithful {
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

    pub fn operations(&self, object: ObjectId, class: Class) -> &[(ThreadId, Vec<u32>)] {
        self.operations
            .get(&(object, class))
            .map_or(&[], Vec::as_slice)
    }

    pub fn writes(&self, location: LocationId) -> &[(ThreadId, Vec<u32>)] {
        self.writes.get(&location).map_or(&[], Vec::as_slice)
    }

    pub fn reads(&self, location: LocationId) -> &[(ThreadId, Vec<u32>)] {
        self.reads.get(&location).map_or(&[], Vec::as_slice)
    }

    pub fn failed_joins(&self, child: ThreadId) -> &[(ThreadId, Vec<u32>)] {
        self.failed_joins.get(&child).map_or(&[], Vec::as_slice)
    }

    /// The events that must see this write (or the initial value) at this location.
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

/// The first of the ascending positions that lies in the range.
pub fn first_in(positions: &[u32], range: Range<u32>) -> Option<u32> {
    let at = positions.partition_point(|&position| position < range.start);
    positions
        .get(at)
        .copied()
        .filter(|&position| position < range.end)
}

fn note(by_thread: &mut ByThread, thread: ThreadId, position: u32) {
    match by_thread.last_mut() {
        Some((last, positions)) if *last == thread => positions.push(position),
        _ => by_thread.push((thread, vec![position])),
    }
}
