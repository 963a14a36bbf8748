//! Races by happens-before alone: accesses that no synchronisation of the trace orders.
//!
//! Vector clocks as in DJIT+ (Pozniansky and Schuster 2003), with the last access of each thread
//! to each location. Like every detector of this kind it follows the order in which locks were
//! taken, so it misses what another order would show, and after the first race of a location it
//! may name accesses that no schedule brings together: this is a quick look and a yardstick, not
//! a prediction. Locks, forks and joins, and all other objects order as they are used; atomic
//! operations order from write to read.

use norns_model::Model;
use norns_model::location::{LocationId, Touch, TouchKind};
use norns_trace::EventIndex;

use crate::happens_before::{HappensBefore, Rules};

/// Every access that is not ordered after some earlier conflicting one. Sorted.
pub fn unordered_accesses(model: &Model) -> Vec<EventIndex> {
    let mut before = HappensBefore::new(model, Rules::Everything);
    let mut last = LastAccesses::new(model);
    let mut racy = Vec::new();
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        let thread = event.thread.index();
        before.acquire(event);
        if let Some(touch) = Touch::of(event.op)
            && touch.kind != TouchKind::Allocate
            && last.is_unordered(here, thread, touch, before.clock(thread))
        {
            racy.push(here);
        }
        before.release(event);
    }
    racy
}

struct LastAccesses<'m> {
    model: &'m Model<'m>,
    /// Of every location, for each thread how far it was at its last plain write, plain read,
    /// atomic write and atomic read; empty before the first access.
    last: Vec<Box<[[u32; 4]]>>,
}

const PLAIN_WRITE: usize = 0;
const PLAIN_READ: usize = 1;
const ATOMIC_WRITE: usize = 2;
const ATOMIC_READ: usize = 3;

impl<'m> LastAccesses<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        Self {
            model,
            last: vec![Box::default(); model.locations.len()],
        }
    }

    /// Takes in an access; whether some conflicting one before it is not ordered before it.
    fn is_unordered(
        &mut self,
        event: EventIndex,
        thread: usize,
        touch: Touch,
        clock: &[u32],
    ) -> bool {
        let atomic = touch.kind == TouchKind::Atomic;
        let mut racy = false;
        for location in self.model.locations.of_event(event) {
            if !self
                .model
                .locations
                .is_shared_and_written(LocationId(location))
            {
                continue;
            }
            let last = &mut self.last[location as usize];
            if last.is_empty() {
                *last = vec![[0; 4]; clock.len()].into_boxed_slice();
            }
            for (other, (known, accesses)) in clock.iter().zip(last.iter()).enumerate() {
                let unordered = |kind: usize| accesses[kind] > *known;
                racy |= other != thread
                    && (unordered(PLAIN_WRITE)
                        || touch.writes && unordered(PLAIN_READ)
                        || !atomic && unordered(ATOMIC_WRITE)
                        || !atomic && touch.writes && unordered(ATOMIC_READ));
            }
            let kind = match (atomic, touch.writes) {
                (false, true) => PLAIN_WRITE,
                (false, false) => PLAIN_READ,
                (true, true) => ATOMIC_WRITE,
                (true, false) => ATOMIC_READ,
            };
            last[thread][kind] = clock[thread];
        }
        racy
    }
}

#[cfg(test)]
mod tests {
    use norns_model::script::trace;
    use norns_model::{Meaning, Model};

    fn check(script: &str, expected: &[u32]) {
        let trace = trace(script);
        let model = Model::new(&trace, Meaning::Faithful);
        let racy: Vec<u32> = super::unordered_accesses(&model)
            .iter()
            .map(|e| e.0)
            .collect();
        assert_eq!(racy, expected);
    }

    #[test]
    fn unordered_writes_race() {
        check("T1: write x\nT2: read x, write x", &[1, 2]);
    }

    #[test]
    fn a_lock_orders_even_what_it_does_not_guard() {
        check(
            "T1: write x, lock m, unlock m\nT2: lock m, unlock m, write x",
            &[],
        );
    }

    #[test]
    fn other_objects_order_too() {
        check("T1: write x, post s\nT2: sem-wait s, write x", &[]);
        check("T1: write x, store a\nT2: load a, write x", &[]);
        check("T1: load a, write x\nT2: store a, write x", &[3]);
        check("T1: fork T2\nT2: write x\nT1: join T2, write x", &[]);
    }
}
