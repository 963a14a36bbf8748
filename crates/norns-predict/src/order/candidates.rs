//! Candidates, and those that need no solver.
//!
//! Section 5 of Said et al. (2011): pairs that hold a common lock, or whose lock acquisition
//! histories contradict each other (Kahlon et al. 2005: each thread took, after a lock
//! that it still holds, the lock that the other still holds), or that must happen one before the
//! other, are dropped first.

use std::collections::BTreeSet;

use norns_model::location::{LocationId, Touch};
use norns_model::{Bug, Model};
use norns_trace::{EventIndex, ObjectId, Op};

use super::frame::node;
use super::{Engine, events_of, needed_next};

/// A lock that a thread holds before an event.
#[derive(Clone, Copy, Debug)]
struct Held {
    lock: ObjectId,
    writes: bool,
    /// Where in its thread it was acquired, and how many times since.
    since: usize,
    depth: u32,
}

/// What every thread holds, from one of its lock operations to the next.
pub(super) struct Histories {
    /// Of every thread: the position behind a lock operation and what is held from there on.
    held: Vec<Vec<(usize, Vec<Held>)>>,
    /// Of every thread: its acquisitions, position, lock, whether for writing.
    acquired: Vec<Vec<(usize, ObjectId, bool)>>,
}

/// How many pairs there were at first and after each filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub conflicting: usize,
    pub after_locks: usize,
    pub after_order: usize,
}

impl Histories {
    pub fn of(model: &Model<'_>) -> Self {
        let mut held: Vec<Vec<(usize, Vec<Held>)>> = vec![Vec::new(); model.threads.len()];
        let mut acquired = vec![Vec::new(); model.threads.len()];
        for (thread, events) in model.threads.iter().enumerate() {
            let mut now: Vec<Held> = Vec::new();
            for (position, &event) in events.iter().enumerate() {
                match model.op(event) {
                    Op::Lock(lock) | Op::ReadLock(lock) => {
                        let writes = matches!(model.op(event), Op::Lock(_));
                        acquired[thread].push((position, lock, writes));
                        let again = now
                            .iter_mut()
                            .find(|h| h.lock == lock && h.writes == writes);
                        match again {
                            Some(held) => held.depth += 1,
                            None => now.push(Held {
                                lock,
                                writes,
                                since: position,
                                depth: 1,
                            }),
                        }
                    }
                    Op::Unlock(lock) => {
                        let mine = (0..now.len()).filter(|&k| now[k].lock == lock);
                        let Some(k) = mine.max_by_key(|&k| now[k].writes) else {
                            continue;
                        };
                        now[k].depth -= 1;
                        if now[k].depth == 0 {
                            now.remove(k);
                        }
                    }
                    _ => continue,
                }
                held[thread].push((position + 1, now.clone()));
            }
        }
        Histories { held, acquired }
    }

    fn held_before(&self, model: &Model<'_>, event: EventIndex) -> &[Held] {
        let of_thread = &self.held[model.thread_of(event).index()];
        let position = model.position_of(event);
        let after = of_thread.partition_point(|&(from, _)| from <= position);
        after.checked_sub(1).map_or(&[], |k| &of_thread[k].1)
    }

    /// Whether the thread of `event` acquired `lock` after `since`, against a holder of the mode.
    fn took(
        &self,
        model: &Model<'_>,
        event: EventIndex,
        since: usize,
        lock: ObjectId,
        writes: bool,
    ) -> bool {
        let of_thread = &self.acquired[model.thread_of(event).index()];
        let from = of_thread.partition_point(|&(position, ..)| position <= since);
        let to = of_thread.partition_point(|&(position, ..)| position < model.position_of(event));
        of_thread[from..to.max(from)]
            .iter()
            .any(|&(_, l, w)| l == lock && (w || writes))
    }

    /// Whether locks alone keep the two events from being next at the same time.
    pub fn contradict(&self, model: &Model<'_>, one: EventIndex, other: EventIndex) -> bool {
        self.held_before(model, one).iter().any(|mine| {
            self.held_before(model, other).iter().any(|theirs| {
                if mine.lock == theirs.lock {
                    return mine.writes || theirs.writes;
                }
                self.took(model, one, mine.since, theirs.lock, theirs.writes)
                    && self.took(model, other, theirs.since, mine.lock, mine.writes)
            })
        })
    }
}

impl Engine<'_> {
    /// Whether locks alone, or must-happen-before, rule the bug out.
    pub(super) fn is_surely_impossible(&self, bug: &Bug) -> bool {
        let events = events_of(bug);
        events.iter().enumerate().any(|(i, &one)| {
            events[i + 1..].iter().any(|&other| {
                self.is_ordered(one, other) || self.histories.contradict(&self.model, one, other)
            })
        })
    }

    /// Whether one has to take place before the other can be next.
    fn is_ordered(&self, one: EventIndex, other: EventIndex) -> bool {
        let clocks = &self.encoding.frame.clocks;
        let precedes = |a: EventIndex, b: EventIndex| {
            needed_next(&self.model, b).any(|p| p == a || clocks.ordered(node(a), node(p)))
        };
        precedes(one, other) || precedes(other, one)
    }

    /// The conflicting pairs that the filters leave, the earlier event first, sorted. When there
    /// are more conflicting pairs than `limit`, the rest is left out and the counts say so.
    pub fn race_candidates(&self, limit: usize) -> (Vec<(EventIndex, EventIndex)>, Counts) {
        let model = &self.model;
        let mut by_location: Vec<Vec<EventIndex>> = vec![Vec::new(); model.locations.len()];
        for i in 0..model.trace.events.len() {
            let event = EventIndex::from_index(i);
            if Touch::of(model.op(event)).is_some() {
                for location in model.locations.of_event(event) {
                    if model.locations.is_shared_and_written(LocationId(location)) {
                        by_location[location as usize].push(event);
                    }
                }
            }
        }
        let mut pairs = BTreeSet::new();
        'all: for events in &by_location {
            // Most accesses only read: every pair has one that writes.
            let writes = |&event: &EventIndex| Touch::of(model.op(event)).is_some_and(|t| t.writes);
            for (i, &write) in events.iter().enumerate().filter(|(_, event)| writes(event)) {
                let earlier = events[..i].iter().filter(|event| !writes(event));
                for &other in earlier.chain(&events[i + 1..]) {
                    if model.conflict(write, other) {
                        pairs.insert((write.min(other), write.max(other)));
                        if pairs.len() >= limit {
                            break 'all;
                        }
                    }
                }
            }
        }
        let mut counts = Counts {
            conflicting: pairs.len(),
            ..Counts::default()
        };
        pairs.retain(|&(one, other)| !self.histories.contradict(model, one, other));
        counts.after_locks = pairs.len();
        pairs.retain(|&(one, other)| !self.is_ordered(one, other));
        counts.after_order = pairs.len();
        (pairs.into_iter().collect(), counts)
    }

    /// Cycles of acquisitions of different threads, each of a lock that the next thread holds;
    /// each begins with its smallest event. At most `limit`.
    pub fn deadlock_candidates(&self, limit: usize) -> Vec<Vec<EventIndex>> {
        let model = &self.model;
        let all = (0..model.trace.events.len()).map(EventIndex::from_index);
        let acquisitions: Vec<EventIndex> = all
            .filter(|&event| matches!(model.op(event), Op::Lock(_) | Op::ReadLock(_)))
            .filter(|&event| !self.histories.held_before(model, event).is_empty())
            .collect();
        let mut found = Vec::new();
        for &start in &acquisitions {
            self.extend_cycle(&acquisitions, &mut vec![start], &mut found, limit);
        }
        found
    }

    /// Whether the thread of `other` holds, just before it, what `event` wants to acquire.
    fn waits_for(&self, event: EventIndex, other: EventIndex) -> bool {
        let (lock, writes) = match self.model.op(event) {
            Op::Lock(lock) => (lock, true),
            Op::ReadLock(lock) => (lock, false),
            _ => return false,
        };
        let held = self.histories.held_before(&self.model, other);
        held.iter()
            .any(|held| held.lock == lock && (held.writes || writes))
    }

    /// Whether each event wants a lock that the thread of the next one holds.
    pub fn is_cycle(&self, events: &[EventIndex]) -> bool {
        let next = events.iter().cycle().skip(1);
        events.len() > 1
            && events.iter().zip(next).all(|(&one, &other)| {
                self.model.thread_of(one) != self.model.thread_of(other)
                    && self.waits_for(one, other)
            })
    }

    fn extend_cycle(
        &self,
        acquisitions: &[EventIndex],
        path: &mut Vec<EventIndex>,
        found: &mut Vec<Vec<EventIndex>>,
        limit: usize,
    ) {
        let model = &self.model;
        let last = path[path.len() - 1];
        if path.len() > 1 && self.waits_for(last, path[0]) {
            found.push(path.clone());
        }
        let first = path[0];
        for &next in acquisitions.iter().filter(|&&next| next > first) {
            if found.len() >= limit {
                return;
            }
            let fits = |&event: &EventIndex| {
                model.thread_of(event) != model.thread_of(next)
                    && !self.is_ordered(event, next)
                    && !self.histories.contradict(model, event, next)
            };
            if self.waits_for(last, next) && path.iter().all(fits) {
                path.push(next);
                self.extend_cycle(acquisitions, path, found, limit);
                path.pop();
            }
        }
    }
}
