//! A happens-before detector: accesses that no synchronisation of the trace orders.
//!
//! Vector clocks as in DJIT+ (Pozniansky and Schuster 2003), with the last access of each thread
//! to each location. Like every detector of this kind it follows the order in which locks were
//! acquired, so it misses what another order would show, and after the first race of a location it
//! may report accesses that no schedule brings together. It is a yardstick for benchmarks, not a
//! prediction. Locks, forks and joins, and all other objects order as they are used; atomic
//! operations order from write to read.

use norns_model::Model;
use norns_model::location::LocationId;
use norns_trace::{EventIndex, Touch, TouchKind};

use super::HappensBefore;

/// Every access that is not ordered after some earlier conflicting one, in the order of the trace.
pub fn unordered_accesses(model: &Model) -> Vec<EventIndex> {
    let mut before = HappensBefore::new(model.trace);
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

/// The entry of a thread in its own clock at its last access of each kind; 0 before the first.
#[derive(Clone, Copy, Default)]
struct LastAccess {
    plain_write: u32,
    plain_read: u32,
    atomic_write: u32,
    atomic_read: u32,
}

struct LastAccesses<'m> {
    model: &'m Model<'m>,
    /// For every location and thread; empty before the first access to the location.
    last: Vec<Box<[LastAccess]>>,
}

impl<'m> LastAccesses<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        Self {
            model,
            last: vec![Box::default(); model.locations.len()],
        }
    }

    /// Adds an access. Returns whether an earlier conflicting one is not ordered before it.
    fn is_unordered(
        &mut self,
        event: EventIndex,
        thread: usize,
        touch: Touch,
        clock: &[u32],
    ) -> bool {
        let atomic = touch.kind == TouchKind::Atomic;
        let locations = &self.model.locations;
        let mut racy = false;
        for location in locations.of_event(event) {
            if !locations.is_shared_and_written(LocationId(location)) {
                continue;
            }
            let last = &mut self.last[location as usize];
            if last.is_empty() {
                *last = vec![LastAccess::default(); clock.len()].into_boxed_slice();
            }
            for (other, (known, accesses)) in clock.iter().zip(last.iter()).enumerate() {
                let unordered = |access: u32| access > *known;
                racy |= other != thread
                    && (unordered(accesses.plain_write)
                        || touch.writes && unordered(accesses.plain_read)
                        || !atomic && unordered(accesses.atomic_write)
                        || !atomic && touch.writes && unordered(accesses.atomic_read));
            }
            let own = &mut last[thread];
            let access = match (atomic, touch.writes) {
                (false, true) => &mut own.plain_write,
                (false, false) => &mut own.plain_read,
                (true, true) => &mut own.atomic_write,
                (true, false) => &mut own.atomic_read,
            };
            *access = clock[thread];
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
