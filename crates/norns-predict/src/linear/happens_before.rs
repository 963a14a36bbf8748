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
use norns_trace::{EventIndex, Op};
use rustc_hash::FxHashMap;

type Clock = Vec<u32>;

/// Every access that is not ordered after some earlier conflicting one. Sorted.
pub fn unordered_accesses(model: &Model) -> Vec<EventIndex> {
    let mut pass = Pass::new(model);
    for (i, event) in model.trace.events.iter().enumerate() {
        pass.event(EventIndex::from_index(i), event.thread.index(), event.op);
    }
    pass.racy
}

struct Pass<'m> {
    model: &'m Model<'m>,
    threads: Vec<Clock>,
    /// Of every object what its releases know; empty before the first.
    objects: Vec<Clock>,
    /// Of atomic writes, by the first byte.
    atomics: FxHashMap<u64, Clock>,
    /// Of every location, for each thread how far it was at its last plain write, plain read,
    /// atomic write and atomic read; empty before the first access.
    last: Vec<Box<[[u32; 4]]>>,
    racy: Vec<EventIndex>,
}

const PLAIN_WRITE: usize = 0;
const PLAIN_READ: usize = 1;
const ATOMIC_WRITE: usize = 2;
const ATOMIC_READ: usize = 3;

impl<'m> Pass<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        let width = model.threads.len();
        let mut threads = vec![vec![0; width]; width];
        for (thread, clock) in threads.iter_mut().enumerate() {
            clock[thread] = 1;
        }
        Self {
            model,
            threads,
            objects: vec![Vec::new(); model.trace.objects.len()],
            atomics: FxHashMap::default(),
            last: vec![Box::default(); model.locations.len()],
            racy: Vec::new(),
        }
    }

    fn event(&mut self, event: EventIndex, thread: usize, op: Op) {
        match op {
            Op::Fork(child) => self.order(thread, child.index()),
            Op::Join(child) => self.order(child.index(), thread),
            Op::Lock(object) | Op::ReadLock(object) | Op::OncePass(object) => {
                raise(&mut self.threads[thread], &self.objects[object.index()]);
            }
            Op::Unlock(object)
            | Op::OnceEnd(object)
            | Op::Signal(object)
            | Op::Broadcast(object)
            | Op::BarrierEnter(object)
            | Op::SemPost(object) => self.release(thread, object.index()),
            Op::Wait(object) | Op::BarrierExit(object) | Op::SemWait(object) => {
                raise(&mut self.threads[thread], &self.objects[object.index()]);
            }
            _ => {}
        }
        if let Some(touch) = Touch::of(op)
            && touch.kind != TouchKind::Allocate
        {
            self.access(event, thread, touch);
        }
    }

    /// What the one did so far is before what the other does from now on.
    fn order(&mut self, one: usize, other: usize) {
        let clock = self.threads[one].clone();
        raise(&mut self.threads[other], &clock);
        self.threads[one][one] += 1;
    }

    fn release(&mut self, thread: usize, object: usize) {
        raise(&mut self.objects[object], &self.threads[thread]);
        self.threads[thread][thread] += 1;
    }

    fn access(&mut self, event: EventIndex, thread: usize, touch: Touch) {
        let atomic = touch.kind == TouchKind::Atomic;
        if atomic
            && touch.reads
            && let Some(clock) = self.atomics.get(&touch.access.address)
        {
            raise(&mut self.threads[thread], clock);
        }
        let clock = &self.threads[thread];
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
        if racy {
            self.racy.push(event);
        }
        if atomic && touch.writes {
            let address = touch.access.address;
            raise(
                self.atomics.entry(address).or_default(),
                &self.threads[thread],
            );
            self.threads[thread][thread] += 1;
        }
    }
}

fn raise(clock: &mut Clock, other: &[u32]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (have, &new) in clock.iter_mut().zip(other) {
        *have = (*have).max(new);
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
