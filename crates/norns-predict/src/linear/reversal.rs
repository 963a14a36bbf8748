//! A schedule for an ideal in which some critical sections are not in the order of the trace.
//!
//! A section that is open at the end of the schedule has to come after all other sections of its
//! lock. If the trace has it before one of them, it is delayed, and with it everything that needs
//! it. The events before the first delayed one keep the order of the trace; the others are scheduled
//! one by one, always the earliest in the trace that can happen now:
//!
//! - an acquisition waits until the lock is free, and one that stays open waits for all other
//!   sections of its lock;
//! - in the faithful meaning a read waits for its write, and a write waits for all reads of the
//!   value that it overwrites;
//! - operations on semaphores, barriers, conditions and `once` keep their order in the trace.
//!
//! There is no backtracking, so a schedule may be missed; one that is found is legal. OSR (Shi et al.
//! 2024) is content with an acyclic graph of orders, which does not always have a legal schedule.

use norns_model::Meaning;
use norns_model::location::LocationId;
use norns_trace::effect::{OnLock, OnThread};
use norns_trace::{Effect, EventIndex, Mode, ObjectId, ObjectKind, ThreadId};
use rustc_hash::FxHashMap;

use super::Linear;
use super::accesses::{reads, writes};
use super::critical::Section;
use crate::candidate::excludes;

/// The order of an ideal: its events before `from` as in the trace, then `tail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reordering {
    pub from: EventIndex,
    pub tail: Vec<EventIndex>,
}

/// A lock that a thread holds.
struct Held {
    thread: usize,
    lock: ObjectId,
    mode: Mode,
    depth: u32,
}

struct Scheduler<'a, 't> {
    linear: &'a Linear<'t>,
    ideal: &'a [u32],
    from: EventIndex,
    /// For every thread, how many of its events are scheduled.
    done: Vec<u32>,
    held: Vec<Held>,
    /// The sections that are still open at the end of the schedule.
    open: Vec<Section>,
    /// The last scheduled write of the locations looked at so far.
    writers: FxHashMap<LocationId, Option<EventIndex>>,
    tail: Vec<EventIndex>,
}

impl Linear<'_> {
    /// Orders the ideal. `None` if no order is found, or if more than `most` events would not be in
    /// the order of the trace.
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
        self.work.count((10 * left * ideal.len()) as u64);
        let mut held = Vec::new();
        for thread in 0..ideal.len() {
            for section in self.open_sections(&done, thread) {
                let Section { lock, mode, .. } = section;
                held.push(Held {
                    thread,
                    lock,
                    mode,
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
        match model.op(event).effect() {
            Effect::Lock(lock, act) => match act {
                OnLock::Acquire(mode) => self.can_acquire(event, thread, lock, mode),
                OnLock::FailedAcquire(mode) => {
                    let mut holds = self.held.iter().filter(|held| held.lock == lock);
                    holds.any(|held| excludes(held.mode, mode))
                }
                OnLock::Release => true,
            },
            Effect::Once(object, _)
            | Effect::Condition(object, _)
            | Effect::Barrier(object, _)
            | Effect::Semaphore(object, _) => self.object_in_order(event, object),
            Effect::Memory(_) => model.meaning != Meaning::Faithful || self.memory_allows(event),
            Effect::Thread(_) | Effect::Channel(..) | Effect::Local => true,
        }
    }

    fn can_acquire(&self, event: EventIndex, thread: usize, lock: ObjectId, mode: Mode) -> bool {
        let mut holders = self.held.iter().filter(|held| held.lock == lock);
        if holders.clone().any(|held| held.thread == thread) {
            return true;
        }
        let stays_open = self.open.iter().find(|section| section.acquired == event);
        !holders.any(|held| excludes(held.mode, mode))
            && stays_open.is_none_or(|section| {
                let (linear, ideal) = (self.linear, self.ideal);
                linear
                    .sections
                    .others_done(linear.model, ideal, &self.done, section)
            })
    }

    /// Whether the previous operation on the object, as far as it is in the ideal, is scheduled.
    fn object_in_order(&self, event: EventIndex, object: ObjectId) -> bool {
        let events = &self.linear.object_events[object.index()];
        let here = events.partition_point(|&other| other < event);
        let before = events[..here]
            .iter()
            .rev()
            .find(|&&other| self.in_ideal(other));
        before.is_none_or(|&other| self.is_done(other))
    }

    /// Whether the event reads what it read in the trace, and overwrites nothing that another event
    /// must still read.
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
                let is_missing = other != event
                    && reads(model, other)
                    && self.in_ideal(other)
                    && !self.is_done(other);
                if is_missing {
                    return false;
                }
                if writes(model, other) {
                    break;
                }
            }
        }
        true
    }

    /// The last scheduled write to the location.
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
        match model.op(event).effect() {
            Effect::Lock(lock, OnLock::Acquire(mode)) => {
                let own = |held: &&mut Held| held.lock == lock && held.thread == thread;
                match self.held.iter_mut().find(own) {
                    Some(held) => held.depth += 1,
                    None => self.held.push(Held {
                        thread,
                        lock,
                        mode,
                        depth: 1,
                    }),
                }
            }
            Effect::Lock(lock, OnLock::Release) => {
                let own = |held: &Held| held.lock == lock && held.thread == thread;
                if let Some(i) = self.held.iter().position(own) {
                    self.held[i].depth -= 1;
                    if self.held[i].depth == 0 {
                        self.held.swap_remove(i);
                    }
                }
            }
            Effect::Thread(OnThread::End) => self.held.retain(|held| {
                held.thread != thread || model.kind(held.lock) != ObjectKind::RobustMutex
            }),
            Effect::Memory(_) => {
                if model.meaning == Meaning::Faithful {
                    for location in model.written_locations(event) {
                        self.writers.insert(location, Some(event));
                    }
                }
            }
            Effect::Lock(_, OnLock::FailedAcquire(_))
            | Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Local => {}
        }
        self.done[thread] += 1;
        self.tail.push(event);
    }
}
