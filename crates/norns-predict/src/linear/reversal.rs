//! A schedule for an ideal in which some critical sections change places.
//!
//! A section that is open at the end of the schedule must come after all the others of its lock.
//! Where the trace has it before one of them, it is held back, and with it all that needs it. The
//! events before the first one that is held back keep the order of the trace; the rest are taken
//! one by one, always the earliest in the trace that can happen now:
//!
//! - a lock must be free, and an acquisition that stays open waits for the others of its lock;
//! - in the faithful meaning a read waits for its write, and a write waits for all reads of the
//!   value that it replaces;
//! - semaphores, barriers, conditions and `once` keep their order in the trace.
//!
//! There is no way back from a choice, so a schedule may be missed; one that is found is legal. OSR
//! (Shi et al. 2024) stops at an acyclic graph of orders, which is not always one.

use norns_model::Meaning;
use norns_model::location::{LocationId, Touch};
use norns_trace::{EventIndex, ObjectId, Op, ThreadId};
use rustc_hash::FxHashMap;

use super::Linear;
use super::accesses::{reads, writes};
use super::critical::Section;

/// The order of an ideal: its events before `from` as in the trace, then `tail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordering {
    pub from: EventIndex,
    pub tail: Vec<EventIndex>,
}

struct Held {
    thread: usize,
    lock: ObjectId,
    exclusive: bool,
    depth: u32,
}

struct Scheduler<'a, 't> {
    linear: &'a Linear<'t>,
    ideal: &'a [u32],
    from: EventIndex,
    done: Vec<u32>,
    held: Vec<Held>,
    /// Sections that are still open when the ideal is done.
    open: Vec<Section>,
    writers: FxHashMap<LocationId, Option<EventIndex>>,
    tail: Vec<EventIndex>,
}

impl Linear<'_> {
    /// Orders the ideal, with at most so many events in another order than in the trace.
    pub fn reorder(&self, ideal: &[u32], most: usize) -> Option<Reordering> {
        let open: Vec<Section> = (0..ideal.len())
            .flat_map(|thread| self.open_sections(ideal, thread))
            .collect();
        let from = open
            .iter()
            .filter(|section| {
                self.sections
                    .conflicting_later(self.model, ideal, section)
                    .is_some()
            })
            .map(|section| section.acquired)
            .min();
        let Some(from) = from else {
            let end = EventIndex::from_index(self.model.trace.events.len());
            return Some(Reordering {
                from: end,
                tail: Vec::new(),
            });
        };
        let done: Vec<u32> = self
            .model
            .threads
            .iter()
            .zip(ideal)
            .map(|(events, &count)| {
                events[..count as usize].partition_point(|&event| event < from) as u32
            })
            .collect();
        let left: usize = ideal
            .iter()
            .zip(&done)
            .map(|(all, done)| (all - done) as usize)
            .sum();
        if left > most {
            return None;
        }
        let mut held = Vec::new();
        for thread in 0..ideal.len() {
            for section in self.open_sections(&done, thread) {
                let Section {
                    lock, exclusive, ..
                } = section;
                held.push(Held {
                    thread,
                    lock,
                    exclusive,
                    depth: 1,
                });
            }
        }
        let scheduler = Scheduler {
            linear: self,
            ideal,
            from,
            done,
            held,
            open,
            writers: FxHashMap::default(),
            tail: Vec::with_capacity(left),
        };
        scheduler.run()
    }
}

impl Scheduler<'_, '_> {
    fn run(mut self) -> Option<Reordering> {
        let model = self.linear.model;
        while self.done != self.ideal {
            let mut next: Vec<(EventIndex, usize)> = (0..self.done.len())
                .filter(|&thread| self.done[thread] < self.ideal[thread])
                .map(|thread| (model.threads[thread][self.done[thread] as usize], thread))
                .collect();
            next.sort_unstable();
            let (event, thread) = next
                .into_iter()
                .find(|&(event, t)| self.can_happen(event, t))?;
            self.take(event, thread);
        }
        Some(Reordering {
            from: self.from,
            tail: self.tail,
        })
    }

    fn can_happen(&mut self, event: EventIndex, thread: usize) -> bool {
        let linear = self.linear;
        let model = linear.model;
        if !linear
            .clocks
            .allows(&self.done, event, ThreadId::from_index(thread))
        {
            return false;
        }
        match model.op(event) {
            Op::Lock(lock) => self.can_acquire(event, thread, lock, true),
            Op::ReadLock(lock) => self.can_acquire(event, thread, lock, false),
            Op::FailedLock(lock) => self.held.iter().any(|held| held.lock == lock),
            Op::FailedReadLock(lock) => self
                .held
                .iter()
                .any(|held| held.lock == lock && held.exclusive),
            Op::Unlock(_) => true,
            op => match op.object() {
                Some(object) => self.object_in_order(event, object),
                None => model.meaning != Meaning::Faithful || self.memory_allows(event),
            },
        }
    }

    fn can_acquire(
        &self,
        event: EventIndex,
        thread: usize,
        lock: ObjectId,
        exclusive: bool,
    ) -> bool {
        let mut holders = self.held.iter().filter(|held| held.lock == lock);
        if holders.clone().any(|held| held.thread == thread) {
            return true;
        }
        let stays = self.open.iter().find(|section| section.acquired == event);
        !holders.any(|held| held.exclusive || exclusive)
            && stays.is_none_or(|section| {
                let (linear, ideal) = (self.linear, self.ideal);
                linear
                    .sections
                    .others_done(linear.model, ideal, &self.done, section)
            })
    }

    fn object_in_order(&self, event: EventIndex, object: ObjectId) -> bool {
        let events = &self.linear.object_events[object.index()];
        let here = events.partition_point(|&other| other < event);
        let before = events[..here]
            .iter()
            .rev()
            .find(|&&other| self.in_ideal(other));
        before.is_none_or(|&other| self.is_done(other))
    }

    fn memory_allows(&mut self, event: EventIndex) -> bool {
        let model = self.linear.model;
        for (location, writer) in model.must_see(event) {
            if self.writer(location) != writer {
                return false;
            }
        }
        for location in model.written_locations(event) {
            let writer = self.writer(location);
            let accesses = self.linear.accesses.of_location(location);
            let after = match writer {
                Some(writer) => accesses.partition_point(|&other| other <= writer),
                None => 0,
            };
            for &other in &accesses[after..] {
                let waits = other != event
                    && reads(model, other)
                    && self.in_ideal(other)
                    && !self.is_done(other);
                if waits {
                    return false;
                }
                if writes(model, other) {
                    break;
                }
            }
        }
        true
    }

    /// The last write to the location so far.
    fn writer(&mut self, location: LocationId) -> Option<EventIndex> {
        if let Some(&writer) = self.writers.get(&location) {
            return writer;
        }
        let model = self.linear.model;
        let accesses = self.linear.accesses.of_location(location);
        let before = accesses.partition_point(|&other| other < self.from);
        let writer = accesses[..before]
            .iter()
            .rev()
            .copied()
            .find(|&other| writes(model, other) && self.is_done(other));
        self.writers.insert(location, writer);
        writer
    }

    fn in_ideal(&self, event: EventIndex) -> bool {
        let model = self.linear.model;
        model.position[event.index()] < self.ideal[model.thread_of(event).index()]
    }

    fn is_done(&self, event: EventIndex) -> bool {
        let model = self.linear.model;
        model.position[event.index()] < self.done[model.thread_of(event).index()]
    }

    fn take(&mut self, event: EventIndex, thread: usize) {
        let model = self.linear.model;
        let op = model.op(event);
        match op {
            Op::Lock(lock) | Op::ReadLock(lock) => {
                let exclusive = matches!(op, Op::Lock(_));
                let own = |held: &&mut Held| held.lock == lock && held.thread == thread;
                match self.held.iter_mut().find(own) {
                    Some(held) => held.depth += 1,
                    None => self.held.push(Held {
                        thread,
                        lock,
                        exclusive,
                        depth: 1,
                    }),
                }
            }
            Op::Unlock(lock) => {
                let own = |held: &Held| held.lock == lock && held.thread == thread;
                if let Some(i) = self.held.iter().position(own) {
                    self.held[i].depth -= 1;
                    if self.held[i].depth == 0 {
                        self.held.swap_remove(i);
                    }
                }
            }
            Op::End => self.held.retain(|held| {
                held.thread != thread
                    || model.kind(held.lock) != norns_trace::ObjectKind::RobustMutex
            }),
            _ => {
                if model.meaning == Meaning::Faithful && Touch::of(op).is_some() {
                    for location in model.written_locations(event) {
                        self.writers.insert(location, Some(event));
                    }
                }
            }
        }
        self.done[thread] += 1;
        self.tail.push(event);
    }
}
