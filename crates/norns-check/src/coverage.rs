//! What the recordings of a check have shown: whether another one would bring something new.
//!
//! Prediction reorders what a run did, so a further recording is worth its time only if it does
//! something that no earlier one did. Three things are compared: which operations took place at
//! which places, which lock was acquired at which place while another was held, and which place
//! followed which other thread's place at an object or in memory. Places are program counters, so
//! they mean the same in all recordings of one program; objects and addresses are not compared.

use std::collections::BTreeMap;

use norns_trace::{Op, ThreadId, Touch, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shown {
    Operation {
        pc: u64,
        word: &'static str,
    },
    /// The second lock was acquired while the first was held.
    LockOrder {
        held: u64,
        acquired: u64,
    },
    /// Two threads used the same object or memory one after the other.
    HandOver {
        from: u64,
        to: u64,
    },
}

/// What all recordings so far have shown.
#[derive(Default)]
pub struct Coverage {
    shown: FxHashSet<Shown>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shared {
    Object(u32),
    Memory(u64),
}

impl Coverage {
    /// Adds a recording. Returns how much of it no earlier one has shown.
    pub fn add(&mut self, trace: &Trace) -> usize {
        let before = self.shown.len();
        let mut last: FxHashMap<Shared, (ThreadId, u64)> = FxHashMap::default();
        // For each thread, the locks that it holds, with the places where it acquired them.
        let mut held: BTreeMap<ThreadId, Vec<(u32, u64)>> = BTreeMap::new();
        for event in &trace.events {
            let pc = trace.place(event.place).pc;
            let word = event.op.kind().word;
            self.shown.insert(Shown::Operation { pc, word });
            if let Some(shared) = shared(event.op)
                && let Some((thread, from)) = last.insert(shared, (event.thread, pc))
                && thread != event.thread
            {
                self.shown.insert(Shown::HandOver { from, to: pc });
            }
            if let Some((lock, _)) = event.op.acquires() {
                let held = held.entry(event.thread).or_default();
                for &(_, outer) in held.iter() {
                    self.shown.insert(Shown::LockOrder {
                        held: outer,
                        acquired: pc,
                    });
                }
                held.push((lock.0, pc));
            } else if let Op::Unlock(lock) = event.op
                && let Some(held) = held.get_mut(&event.thread)
                && let Some(at) = held.iter().rposition(|&(other, _)| other == lock.0)
            {
                held.remove(at);
            }
        }
        self.shown.len() - before
    }
}

/// What an operation shares with other threads.
fn shared(op: Op) -> Option<Shared> {
    if let Some(touch) = Touch::of(op) {
        return Some(Shared::Memory(touch.access.address));
    }
    let object = op.effect().object();
    object.map(|object| Shared::Object(object.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_run_shows_nothing_new() {
        let run = norns_model::script::trace("T1: lock m, write x, unlock m\nT2: lock m, write x");
        let mut coverage = Coverage::default();
        assert!(coverage.add(&run) > 0);
        assert_eq!(coverage.add(&run), 0);
    }

    #[test]
    fn another_order_of_threads_is_new() {
        let trace = norns_model::script::trace;
        let mut coverage = Coverage::default();
        let mut first = trace("T1: lock m, unlock m\nT2: lock m, unlock m");
        coverage.add(&first);
        first.events.rotate_left(2);
        assert_eq!(coverage.add(&first), 1, "the other hand-over");
    }

    #[test]
    fn a_lock_inside_another_is_new() {
        let run = norns_model::script::trace("T1: lock m, lock n, unlock n, unlock m");
        let mut apart = run.clone();
        apart.events.swap(1, 3);
        let mut coverage = Coverage::default();
        coverage.add(&apart);
        assert!(coverage.add(&run) > 0);
    }
}
