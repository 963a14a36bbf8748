//! The model of a trace: its threads as straight lines, and what each step needs.
//!
//! A state is the vector of thread positions and what it does not determine (`state.rs`); the
//! rules of a step are in `step.rs`. Here is everything that is fixed before the first step:
//!
//! - the events of every thread in order;
//! - events that must have happened before another one in every schedule, of other threads only:
//!   the fork before the first event of a thread, the last event of a thread before a join, the
//!   allocation of a block before its use, what was sent before it is received;
//! - what each read saw in the trace, for the faithful meaning;
//! - the count of every barrier and the first value of every semaphore. Where their
//!   initialisation is not in the trace, the smallest that the trace allows is taken;
//! - which waits on conditions woke without a signal.

use std::collections::BTreeMap;

use norns_trace::effect::{OnBarrier, OnChannel, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, ObjectKind, Op, ThreadId, Trace};
use rustc_hash::FxHashMap;

use crate::Meaning;
use crate::condition::spurious_waits;
use crate::lifetime::Lifetimes;
use crate::location::{LocationId, Locations, Touch};

pub struct Model<'t> {
    pub trace: &'t Trace,
    pub meaning: Meaning,
    /// For every thread its events in order.
    pub threads: Vec<Vec<EventIndex>>,
    /// For every event its index within its thread, from 0.
    pub position: Vec<u32>,
    pub lifetimes: Lifetimes,
    pub locations: Locations,
    /// Direct orders `(later, earlier)` between events of different threads that every schedule
    /// keeps; sorted, without duplicates.
    after: Vec<(EventIndex, EventIndex)>,
    /// By object: the count of a barrier, the first value of a semaphore, otherwise 0.
    pub(crate) number: Vec<i64>,
    /// By event: whether it is a wait that woke without a signal.
    pub(crate) spurious: Vec<bool>,
    /// In the faithful meaning, for every event that reads: the index in `writers` of the write
    /// that its first location was read from. Those of its other locations follow.
    reads_from: FxHashMap<EventIndex, u32>,
    writers: Vec<Option<EventIndex>>,
}

impl<'t> Model<'t> {
    pub fn new(trace: &'t Trace, meaning: Meaning) -> Model<'t> {
        let mut threads = vec![Vec::new(); trace.threads.len()];
        let mut position = Vec::with_capacity(trace.events.len());
        for (i, event) in trace.events.iter().enumerate() {
            let events: &mut Vec<EventIndex> = &mut threads[event.thread.index()];
            position.push(events.len() as u32);
            events.push(EventIndex::from_index(i));
        }
        let lifetimes = Lifetimes::of(trace);
        let locations = Locations::of(trace, &lifetimes);
        let mut model = Model {
            trace,
            meaning,
            number: numbers(trace),
            spurious: spurious_waits(trace),
            after: Vec::new(),
            threads,
            position,
            lifetimes,
            locations,
            reads_from: FxHashMap::default(),
            writers: Vec::new(),
        };
        model.after = model.orders();
        if meaning == Meaning::Faithful {
            model.note_writers();
        }
        model
    }

    #[inline]
    pub fn op(&self, event: EventIndex) -> Op {
        self.trace.events[event.index()].op
    }

    #[inline]
    pub fn thread_of(&self, event: EventIndex) -> ThreadId {
        self.trace.events[event.index()].thread
    }

    pub fn position_of(&self, event: EventIndex) -> usize {
        self.position[event.index()] as usize
    }

    pub fn kind(&self, object: ObjectId) -> ObjectKind {
        self.trace.object(object).kind
    }

    pub fn thread_ids(&self) -> impl Iterator<Item = ThreadId> + use<> {
        (0..self.threads.len()).map(ThreadId::from_index)
    }

    /// The events of other threads that must be executed before this one in every schedule, as
    /// far as they are direct orders of the model.
    pub fn needed_before(&self, event: EventIndex) -> impl Iterator<Item = EventIndex> {
        let from = self.after.partition_point(|&(later, _)| later < event);
        self.after[from..]
            .iter()
            .take_while(move |edge| edge.0 == event)
            .map(|edge| edge.1)
    }

    /// All direct edges `(later, earlier)` of `needed_before`, sorted.
    pub fn orders_between_threads(&self) -> &[(EventIndex, EventIndex)] {
        &self.after
    }

    /// Whether this wait ends only by a signal or broadcast. One that woke spuriously in the trace
    /// may do so in any schedule.
    pub fn wait_needs_signal(&self, wait: EventIndex) -> bool {
        !self.spurious[wait.index()]
    }

    /// The locations that the event writes, shared ones only.
    pub fn written_locations(&self, event: EventIndex) -> impl Iterator<Item = LocationId> {
        let writes = Touch::of(self.op(event)).is_some_and(|touch| touch.writes);
        let range = if writes {
            self.locations.of_event(event)
        } else {
            0..0
        };
        range
            .map(LocationId)
            .filter(|&location| self.locations.is_shared_and_written(location))
    }

    /// In the faithful meaning, the write that each shared location read by the event must have
    /// been written by last; `None` is the initial value. Empty in the optimistic meaning.
    pub fn must_see(
        &self,
        event: EventIndex,
    ) -> impl Iterator<Item = (LocationId, Option<EventIndex>)> {
        let range = self.locations.of_event(event);
        self.reads_from
            .get(&event)
            .into_iter()
            .flat_map(move |&from| {
                range
                    .clone()
                    .zip(self.writers[from as usize..].iter().copied())
            })
            .map(|(location, writer)| (LocationId(location), writer))
            .filter(|&(location, _)| self.locations.is_shared_and_written(location))
    }

    /// Whether the two events are accesses of different threads that would race if nothing kept
    /// them apart.
    pub fn conflict(&self, one: EventIndex, other: EventIndex) -> bool {
        let (Some(a), Some(b)) = (Touch::of(self.op(one)), Touch::of(self.op(other))) else {
            return false;
        };
        self.thread_of(one) != self.thread_of(other)
            && a.conflicts(b)
            && self.lifetimes.block(one) == self.lifetimes.block(other)
    }

    fn orders(&self) -> Vec<(EventIndex, EventIndex)> {
        let mut after = self.lifetimes.orders(self.trace);
        let mut forked = vec![false; self.threads.len()];
        // The last send of every thread on each channel.
        let mut sends: FxHashMap<ObjectId, BTreeMap<ThreadId, EventIndex>> = FxHashMap::default();
        for (i, event) in self.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let act = match event.op.effect() {
                Effect::Thread(act) => act,
                Effect::Channel(channel, act) => {
                    let sends = sends.entry(channel).or_default();
                    match act {
                        OnChannel::Send => {
                            sends.insert(event.thread, here);
                        }
                        OnChannel::Receive => {
                            let others = sends.iter().filter(|(t, _)| **t != event.thread);
                            after.extend(others.map(|(_, &send)| (here, send)));
                        }
                    }
                    continue;
                }
                Effect::Lock(..)
                | Effect::Once(..)
                | Effect::Condition(..)
                | Effect::Barrier(..)
                | Effect::Semaphore(..)
                | Effect::Memory(_)
                | Effect::Local => continue,
            };
            match act {
                OnThread::Fork(child) => {
                    if !std::mem::replace(&mut forked[child.index()], true) {
                        let first = self.threads[child.index()].first();
                        after.extend(first.map(|&first| (first, here)));
                    }
                }
                OnThread::Join(child) => {
                    after.extend(self.threads[child.index()].last().map(|&last| (here, last)));
                }
                OnThread::Start | OnThread::End | OnThread::FailedJoin(_) | OnThread::Detach(_) => {
                }
            }
        }
        after.sort_unstable();
        after.dedup();
        after
    }

    fn note_writers(&mut self) {
        let mut last = vec![None; self.locations.len()];
        for (i, event) in self.trace.events.iter().enumerate() {
            let Some(touch) = Touch::of(event.op) else {
                continue;
            };
            let here = EventIndex::from_index(i);
            let range = self.locations.of_event(here);
            let range = range.start as usize..range.end as usize;
            if touch.reads {
                self.reads_from.insert(here, self.writers.len() as u32);
                self.writers.extend(&last[range.clone()]);
            }
            if touch.writes {
                last[range].fill(Some(here));
            }
        }
    }
}

/// The count of every barrier and the first value of every semaphore: from its initialisation, or
/// the smallest with which the trace is possible.
fn numbers(trace: &Trace) -> Vec<i64> {
    let mut number = vec![None; trace.objects.len()];
    let mut level = vec![0i64; trace.objects.len()];
    let mut extreme = vec![0i64; trace.objects.len()];
    for event in &trace.events {
        let (object, raises) = match event.op.effect() {
            Effect::Barrier(o, OnBarrier::Init(first))
            | Effect::Semaphore(o, OnSemaphore::Init(first)) => {
                number[o.index()] = Some(i64::from(first));
                continue;
            }
            Effect::Barrier(o, OnBarrier::Enter) | Effect::Semaphore(o, OnSemaphore::Wait) => {
                (o, true)
            }
            Effect::Barrier(o, OnBarrier::Exit) | Effect::Semaphore(o, OnSemaphore::Post) => {
                (o, false)
            }
            Effect::Semaphore(_, OnSemaphore::FailedWait)
            | Effect::Thread(_)
            | Effect::Lock(..)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => continue,
        };
        let level = &mut level[object.index()];
        *level += if raises { 1 } else { -1 };
        let extreme = &mut extreme[object.index()];
        *extreme = (*extreme).max(*level);
    }
    number
        .into_iter()
        .zip(extreme)
        .map(|(known, needed)| known.unwrap_or(needed))
        .collect()
}
