//! Candidates, and the filters that decide many of them without the solver.
//!
//! As in section 5 of Said et al. (2011), pairs of events are dropped whose locks exclude each other
//! (`lock_history`), or of which one must happen before the other.

use std::collections::BTreeSet;

use norns_model::Bug;
use norns_model::location::LocationId;
use norns_trace::{EventIndex, Touch};

use super::engine::Engine;
use super::objects::clause::node;
use super::query::predecessors;
use crate::candidate::{Listing, excludes};

/// How many pairs there were before the filters and after each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub conflicting: usize,
    pub after_locks: usize,
    pub after_order: usize,
}

impl Engine<'_> {
    /// Whether locks alone or must-happen-before rule the bug out.
    pub(super) fn is_surely_impossible(&self, bug: &Bug) -> bool {
        let events = bug.pending();
        events.iter().enumerate().any(|(i, &one)| {
            events[i + 1..].iter().any(|&other| {
                self.is_ordered(one, other) || self.locks.contradict(&self.model, one, other)
            })
        })
    }

    /// Whether one of the events has to take place before the other can be next.
    fn is_ordered(&self, one: EventIndex, other: EventIndex) -> bool {
        let clocks = &self.encoding.frame.clocks;
        let precedes = |a: EventIndex, b: EventIndex| {
            predecessors(&self.model, b).any(|p| p == a || clocks.ordered(node(a), node(p)))
        };
        precedes(one, other) || precedes(other, one)
    }

    /// The conflicting pairs that the filters do not rule out, sorted, the earlier event of each
    /// first. Only the first `limit` conflicting pairs are considered, so there may be more if
    /// `Counts::conflicting` has reached the limit.
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
            // Every pair has an access that writes, and most accesses only read.
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
        pairs.retain(|&(one, other)| !self.locks.contradict(model, one, other));
        counts.after_locks = pairs.len();
        pairs.retain(|&(one, other)| !self.is_ordered(one, other));
        counts.after_order = pairs.len();
        (pairs.into_iter().collect(), counts)
    }

    /// Cycles of acquisitions by different threads, each of a lock that the next thread holds. Each
    /// cycle begins with its smallest event. There are at most `limit`, found in at most `steps`
    /// steps of the search; incomplete if there may be more.
    pub fn deadlock_candidates(&self, limit: usize, mut steps: usize) -> Listing<Vec<EventIndex>> {
        let model = &self.model;
        let all = (0..model.trace.events.len()).map(EventIndex::from_index);
        let acquisitions: Vec<EventIndex> = all
            .filter(|&event| model.op(event).acquires().is_some())
            .filter(|&event| !self.locks.held_before(model, event).is_empty())
            .collect();
        let mut found = Vec::new();
        for &start in &acquisitions {
            let path = &mut vec![start];
            self.extend_cycle(&acquisitions, path, &mut found, limit, &mut steps);
        }
        Listing {
            is_complete: found.len() < limit && steps > 0,
            items: found,
        }
    }

    /// Whether the thread of `other` holds, just before that event, the lock that `event` acquires.
    fn waits_for(&self, event: EventIndex, other: EventIndex) -> bool {
        let Some((lock, mode)) = self.model.op(event).acquires() else {
            return false;
        };
        let held = self.locks.held_before(&self.model, other);
        held.iter()
            .any(|held| held.lock == lock && excludes(held.mode, mode))
    }

    /// Whether each event acquires a lock that the thread of the next one holds.
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
        steps: &mut usize,
    ) {
        let model = &self.model;
        let last = path[path.len() - 1];
        if path.len() > 1 && self.waits_for(last, path[0]) {
            found.push(path.clone());
        }
        let first = path[0];
        for &next in acquisitions.iter().filter(|&&next| next > first) {
            if found.len() >= limit || *steps == 0 {
                return;
            }
            *steps -= 1;
            let fits = |&event: &EventIndex| {
                model.thread_of(event) != model.thread_of(next)
                    && !self.is_ordered(event, next)
                    && !self.locks.contradict(model, event, next)
            };
            if self.waits_for(last, next) && path.iter().all(fits) {
                path.push(next);
                self.extend_cycle(acquisitions, path, found, limit, steps);
                path.pop();
            }
        }
    }
}
