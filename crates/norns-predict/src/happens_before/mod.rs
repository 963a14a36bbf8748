//! Happens-before in the recorded run, as vector clocks (Mattern 1989).
//!
//! A walk over the trace calls `acquire` and then `release` for every event; between the two calls
//! the clock of the event's thread is that of the event. Which operations order others depends on
//! the purpose (`Rules`): `detector` finds accesses that nothing orders, `pairs` decides which of
//! some given pairs are ordered.

mod detector;
mod pairs;

pub use detector::unordered_accesses;
pub use pairs::unordered_pairs;

use norns_model::Model;
use norns_trace::effect::{Channel, Handoff};
use norns_trace::{AtomicKind, Effect, Event, MemoryOrder, Op};
use rustc_hash::FxHashMap;

/// For every thread a count that its releases increment; 0 if nothing of the thread comes before.
pub type Clock = Vec<u32>;

/// What orders events of different threads, in addition to locks, forks and joins, semaphores,
/// barriers and `once`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// An atomic write is ordered before the reads that follow it, and a signal before the waits.
    Everything,
    /// A release store is ordered before the acquire loads that follow it, as in the memory model of
    /// C. Relaxed operations, fences and signals order nothing, so that a pair that a detector may
    /// report is never taken for ordered.
    MemoryModel,
}

pub struct HappensBefore {
    rules: Rules,
    threads: Vec<Clock>,
    /// For every object, the join of the clocks of its releases; empty before the first.
    objects: Vec<Clock>,
    /// The same for atomic writes, by the address of the first byte.
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

    /// The clock of the thread now.
    pub fn clock(&self, thread: usize) -> &Clock {
        &self.threads[thread]
    }

    /// Adds to the clock of the event's thread what the event acquires.
    pub fn acquire(&mut self, event: &Event) {
        let thread = event.thread.index();
        if let Op::Atomic {
            address,
            kind,
            order,
            ..
        } = event.op
        {
            if kind != AtomicKind::Store
                && self.acquires(order)
                && let Some(clock) = self.atomics.get(&address)
            {
                raise(&mut self.threads[thread], clock);
            }
            return;
        }
        match self.handoff(event) {
            Handoff::Receives(Channel::End(child)) => {
                let clock = self.threads[child.index()].clone();
                raise(&mut self.threads[thread], &clock);
            }
            Handoff::Receives(Channel::Object(object)) => {
                raise(&mut self.threads[thread], &self.objects[object.index()]);
            }
            // The fork has already set the clock of the thread.
            Handoff::Receives(Channel::Start(_)) | Handoff::Sends(_) | Handoff::None => {}
        }
    }

    /// Makes the clock of the event's thread available to what the event releases.
    pub fn release(&mut self, event: &Event) {
        let thread = event.thread.index();
        if let Op::Atomic {
            address,
            kind: kind @ (AtomicKind::Store | AtomicKind::ReadModifyWrite),
            order,
            ..
        } = event.op
        {
            let releases = self.releases(order);
            let clock = self.atomics.entry(address).or_default();
            if kind == AtomicKind::Store && self.rules == Rules::MemoryModel {
                clock.clear();
            }
            if releases {
                raise(clock, &self.threads[thread]);
                self.threads[thread][thread] += 1;
            }
            return;
        }
        match self.handoff(event) {
            Handoff::Sends(Channel::Start(child)) => {
                let clock = self.threads[thread].clone();
                raise(&mut self.threads[child.index()], &clock);
            }
            Handoff::Sends(Channel::Object(object)) => {
                raise(&mut self.objects[object.index()], &self.threads[thread]);
            }
            // A join reads the clock of the ended thread itself.
            Handoff::Sends(Channel::End(_)) | Handoff::Receives(_) | Handoff::None => return,
        }
        self.threads[thread][thread] += 1;
    }

    /// The part of an event in a synchronisation, as far as these rules count it.
    fn handoff(&self, event: &Event) -> Handoff {
        let effect = event.op.effect();
        match self.rules {
            Rules::MemoryModel if matches!(effect, Effect::Condition(..)) => Handoff::None,
            Rules::MemoryModel | Rules::Everything => effect.handoff(event.thread),
        }
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
