//! Happens-before in the recorded run, as vector clocks (Mattern 1989).
//!
//! A walk over the trace calls `acquire` and then `release` for every event; between the two calls
//! the clock of the event's thread is that of the event. `HappensBefore` counts everything that can
//! have ordered two events in the run; `memory_model` only what C and POSIX define as order, which
//! is what makes two accesses a race: `observed` has the races of the run itself, `flows` the
//! variables that a loop may wait for between two accesses, `pairs` decides some given pairs, `freed`
//! has the uses of freed memory that the run orders.

mod detector;
mod flows;
mod freed;
mod memory_model;
mod observed;
mod pairs;

pub use detector::unordered_accesses;
pub use flows::{Flows, Link};
pub use freed::{UseAfterFree, uses_after_free};
pub use memory_model::MemoryModel;
pub use observed::{Observed, observed_races};
pub use pairs::unordered_pairs;

use norns_trace::effect::{Channel, Handoff};
use norns_trace::{AtomicKind, Event, Op, Trace};
use rustc_hash::FxHashMap;

/// For every thread a count that its releases increment; 0 if nothing of the thread comes before.
pub type Clock = Vec<u32>;

/// An order that keeps every handover of the run: of locks, semaphores, barriers and `once`, from
/// fork to start and from end to join, from a signal to the waits that follow it, and from an atomic
/// write to the reads that follow it.
pub struct HappensBefore {
    threads: Vec<Clock>,
    /// For every object, the join of the clocks of its releases; empty before the first.
    objects: Vec<Clock>,
    /// The same for atomic writes, by the address of the first byte.
    atomics: FxHashMap<u64, Clock>,
}

impl HappensBefore {
    pub fn new(trace: &Trace) -> Self {
        let width = trace.threads.len();
        let beginning = |thread| (0..width).map(|other| u32::from(other == thread)).collect();
        Self {
            threads: (0..width).map(beginning).collect(),
            objects: vec![Clock::new(); trace.objects.len()],
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
        if let Op::Atomic { address, kind, .. } = event.op {
            if kind != AtomicKind::Store
                && let Some(clock) = self.atomics.get(&address)
            {
                raise(&mut self.threads[thread], clock);
            }
            return;
        }
        match event.op.effect().handoff(event.thread) {
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
            kind: AtomicKind::Store | AtomicKind::ReadModifyWrite,
            ..
        } = event.op
        {
            let clock = self.atomics.entry(address).or_default();
            raise(clock, &self.threads[thread]);
            self.threads[thread][thread] += 1;
            return;
        }
        match event.op.effect().handoff(event.thread) {
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
}

fn raise(clock: &mut Clock, other: &[u32]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (have, &new) in clock.iter_mut().zip(other) {
        *have = (*have).max(new);
    }
}
