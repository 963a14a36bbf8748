//! Happens-before of the recorded run, as vector clocks (Mattern 1989).
//!
//! A walk over the trace calls `acquire` and `release` for every event, in this order; in between
//! the clock of the event's thread is that of an access. What orders is a matter of opinion:
//! `Rules` has two.

use norns_model::Model;
use norns_trace::{AtomicKind, Event, MemoryOrder, Op};
use rustc_hash::FxHashMap;

/// For every thread, how much of it comes before.
pub type Clock = Vec<u32>;

/// What orders, besides locks, threads, semaphores, barriers and once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Atomic operations from write to read, and signals.
    Everything,
    /// What the memory model of C says of a release store and the acquire loads after it. Relaxed
    /// operations, fences and signals order nothing, so that a pair that a detector may report is
    /// never taken for ordered.
    MemoryModel,
}

pub struct HappensBefore {
    rules: Rules,
    threads: Vec<Clock>,
    /// Of every object what its releases know; empty before the first.
    objects: Vec<Clock>,
    /// Of atomic writes, by the first byte.
    atomics: FxHashMap<u64, Clock>,
}

impl HappensBefore {
    pub fn new(model: &Model, rules: Rules) -> Self {
        let width = model.threads.len();
        let beginning = |thread| (0..width).map(|other| u32::from(other == thread)).collect();
        Self {
            rules,
            threads: (0..width).map(beginning).collect(),
            objects: vec![Clock::new(); model.trace.objects.len()],
            atomics: FxHashMap::default(),
        }
    }

    /// What the thread knows now.
    pub fn clock(&self, thread: usize) -> &Clock {
        &self.threads[thread]
    }

    /// What the thread of this event learns by it.
    pub fn acquire(&mut self, event: &Event) {
        let learned = match event.op {
            Op::Join(child) => {
                let clock = self.threads[child.index()].clone();
                return raise(&mut self.threads[event.thread.index()], &clock);
            }
            Op::Wait(object) if self.rules == Rules::Everything => &self.objects[object.index()],
            Op::Lock(object)
            | Op::ReadLock(object)
            | Op::OncePass(object)
            | Op::BarrierExit(object)
            | Op::SemWait(object) => &self.objects[object.index()],
            Op::Atomic {
                address,
                kind,
                order,
                ..
            } if kind != AtomicKind::Store && self.acquires(order) => {
                match self.atomics.get(&address) {
                    Some(clock) => clock,
                    None => return,
                }
            }
            _ => return,
        };
        raise(&mut self.threads[event.thread.index()], learned);
    }

    /// What others can learn from this event.
    pub fn release(&mut self, event: &Event) {
        let thread = event.thread.index();
        let told = match event.op {
            Op::Fork(child) => {
                let clock = self.threads[thread].clone();
                raise(&mut self.threads[child.index()], &clock);
                self.threads[thread][thread] += 1;
                return;
            }
            Op::Signal(object) | Op::Broadcast(object) if self.rules == Rules::Everything => {
                &mut self.objects[object.index()]
            }
            Op::Unlock(object)
            | Op::OnceEnd(object)
            | Op::BarrierEnter(object)
            | Op::SemPost(object) => &mut self.objects[object.index()],
            Op::Atomic {
                address,
                kind: kind @ (AtomicKind::Store | AtomicKind::ReadModifyWrite),
                order,
                ..
            } => {
                let releases = self.releases(order);
                let clock = self.atomics.entry(address).or_default();
                if kind == AtomicKind::Store && self.rules == Rules::MemoryModel {
                    clock.clear();
                }
                if !releases {
                    return;
                }
                clock
            }
            _ => return,
        };
        raise(told, &self.threads[thread]);
        self.threads[thread][thread] += 1;
    }

    fn acquires(&self, order: MemoryOrder) -> bool {
        use MemoryOrder::{AcqRel, Acquire, Consume, SeqCst};
        self.rules == Rules::Everything || matches!(order, Acquire | Consume | AcqRel | SeqCst)
    }

    fn releases(&self, order: MemoryOrder) -> bool {
        use MemoryOrder::{AcqRel, Release, SeqCst};
        self.rules == Rules::Everything || matches!(order, Release | AcqRel | SeqCst)
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
