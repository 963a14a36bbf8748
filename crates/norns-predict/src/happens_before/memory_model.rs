//! Happens-before as C11 and POSIX define it, in the recorded run.
//!
//! The same rules as the detector of the runtime (`norns-rt/src/detect`): creating and joining
//! threads, mutexes, reader-writer locks (a reader's release only orders later writers), spin locks,
//! semaphores (every post before every later wait), barriers by rounds, `once`, atomic operations by
//! their memory order with release sequences of C++20, and fences. A signal on a condition orders
//! nothing, its mutex does. A `MemoryOrder::Consume` load is an acquire.
//!
//! A walk over the trace calls `acquire` and then `release` for every event; between the two calls
//! the clock of the event's thread is that of the event. Only the order of synchronisation and atomic
//! operations matters, which is the true one in every recording.

use norns_model::Model;
use norns_trace::effect::{Channel, Handoff, Mode, OnBarrier, OnLock};
use norns_trace::{AtomicKind, Effect, Event, MemoryOrder, ObjectId, Op};
use rustc_hash::FxHashMap;

use super::{Clock, raise};

pub struct MemoryModel {
    threads: Vec<Thread>,
    objects: Vec<Object>,
    /// By the address of the first byte: what a read that acquires receives from the last release
    /// sequence. Empty if its head released nothing.
    atomics: FxHashMap<u64, Clock>,
    /// How often each thread holds a reader-writer lock for reading.
    reading: FxHashMap<(usize, ObjectId), u32>,
    /// The round of a barrier that the thread has entered and not left.
    rounds: FxHashMap<(usize, ObjectId), u32>,
}

struct Thread {
    clock: Clock,
    /// What relaxed reads have seen: an acquire fence receives it.
    acquire_fence: Clock,
    /// The clock of the last release fence: relaxed writes release it.
    release_fence: Clock,
}

#[derive(Default)]
struct Object {
    /// What was released through the object; for a barrier, in its even rounds.
    released: Clock,
    /// What readers released; for a barrier, what was released in its odd rounds.
    other: Clock,
    /// How many threads make a round of a barrier; 0 while that is not known.
    count: u32,
    entered: u32,
}

impl MemoryModel {
    pub fn new(model: &Model) -> Self {
        let width = model.threads.len();
        let beginning = |thread| Thread {
            clock: (0..width).map(|other| u32::from(other == thread)).collect(),
            acquire_fence: Clock::new(),
            release_fence: Clock::new(),
        };
        let objects = 0..model.trace.objects.len();
        Self {
            threads: (0..width).map(beginning).collect(),
            objects: objects.map(|_| Object::default()).collect(),
            atomics: FxHashMap::default(),
            reading: FxHashMap::default(),
            rounds: FxHashMap::default(),
        }
    }

    /// The clock of the thread now.
    pub fn clock(&self, thread: usize) -> &Clock {
        &self.threads[thread].clock
    }

    /// Adds to the clock of the event's thread what the event acquires.
    pub fn acquire(&mut self, event: &Event) {
        let thread = event.thread.index();
        let own = &mut self.threads[thread];
        if let Op::Fence(order) = event.op
            && acquires(order)
        {
            raise(&mut own.clock, &own.acquire_fence);
        }
        if let Op::Atomic {
            address,
            kind,
            order,
            ..
        } = event.op
            && kind != AtomicKind::Store
            && let Some(released) = self.atomics.get(&address)
        {
            let learns = match acquires(order) {
                true => &mut own.clock,
                false => &mut own.acquire_fence,
            };
            raise(learns, released);
        }
        let effect = event.op.effect();
        match effect {
            Effect::Condition(..) => {}
            Effect::Lock(lock, OnLock::Acquire(mode)) => {
                let object = &self.objects[lock.index()];
                let clock = &mut self.threads[thread].clock;
                raise(clock, &object.released);
                match mode {
                    Mode::Write => raise(clock, &object.other),
                    Mode::Read => *self.reading.entry((thread, lock)).or_default() += 1,
                }
            }
            Effect::Barrier(barrier, OnBarrier::Exit) => {
                let round = self.rounds.remove(&(thread, barrier)).unwrap_or(0);
                let object = &self.objects[barrier.index()];
                let clock = match round.is_multiple_of(2) {
                    true => &object.released,
                    false => &object.other,
                };
                raise(&mut self.threads[thread].clock, clock);
            }
            Effect::Thread(_)
            | Effect::Lock(..)
            | Effect::Once(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => match effect.handoff(event.thread) {
                Handoff::Receives(Channel::End(child)) => {
                    let clock = self.threads[child.index()].clock.clone();
                    raise(&mut self.threads[thread].clock, &clock);
                }
                Handoff::Receives(Channel::Object(object)) => {
                    let released = &self.objects[object.index()].released;
                    raise(&mut self.threads[thread].clock, released);
                }
                // The fork has already set the clock of the thread.
                Handoff::Receives(Channel::Start(_)) | Handoff::Sends(_) | Handoff::None => {}
            },
        }
    }

    /// Makes the clock of the event's thread available to what the event releases.
    pub fn release(&mut self, event: &Event) {
        let thread = event.thread.index();
        let own = &mut self.threads[thread];
        if let Op::Fence(order) = event.op
            && releases(order)
        {
            own.release_fence.clone_from(&own.clock);
            own.clock[thread] += 1;
        }
        if let Op::Atomic {
            address,
            kind,
            order,
            ..
        } = event.op
        {
            self.release_atomic(thread, address, kind, order);
        }
        let effect = event.op.effect();
        match effect {
            Effect::Condition(..) => return,
            Effect::Lock(lock, OnLock::Release) => {
                let reads = self.reading.get_mut(&(thread, lock));
                let object = &mut self.objects[lock.index()];
                let clock = match reads.filter(|count| **count > 0) {
                    Some(count) => {
                        *count -= 1;
                        &mut object.other
                    }
                    None => &mut object.released,
                };
                raise(clock, &self.threads[thread].clock);
            }
            Effect::Barrier(barrier, OnBarrier::Init(count)) => {
                self.objects[barrier.index()] = Object {
                    count,
                    ..Object::default()
                };
                return;
            }
            Effect::Barrier(barrier, OnBarrier::Enter) => {
                self.enter_round(thread, barrier);
            }
            Effect::Thread(_)
            | Effect::Lock(..)
            | Effect::Once(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => match effect.handoff(event.thread) {
                Handoff::Sends(Channel::Start(child)) => {
                    let clock = self.threads[thread].clock.clone();
                    raise(&mut self.threads[child.index()].clock, &clock);
                }
                Handoff::Sends(Channel::Object(object)) => {
                    let released = &mut self.objects[object.index()].released;
                    raise(released, &self.threads[thread].clock);
                }
                // A join reads the clock of the ended thread itself.
                Handoff::Sends(Channel::End(_)) | Handoff::Receives(_) | Handoff::None => return,
            },
        }
        self.threads[thread].clock[thread] += 1;
    }

    fn release_atomic(
        &mut self,
        thread: usize,
        address: u64,
        kind: AtomicKind,
        order: MemoryOrder,
    ) {
        let released = match kind {
            AtomicKind::Load | AtomicKind::FailedExchange => return,
            // A store begins a new release sequence, a read-modify-write continues the one it read.
            AtomicKind::Store => {
                let released = self.atomics.entry(address).or_default();
                released.clear();
                released
            }
            AtomicKind::ReadModifyWrite => self.atomics.entry(address).or_default(),
        };
        let own = &mut self.threads[thread];
        if releases(order) {
            raise(released, &own.clock);
            own.clock[thread] += 1;
        } else {
            raise(released, &own.release_fence);
        }
    }

    fn enter_round(&mut self, thread: usize, barrier: ObjectId) {
        let object = &mut self.objects[barrier.index()];
        let count = object.count;
        // Without a count all rounds are one, which only orders more.
        let round = object.entered.checked_div(count).unwrap_or(0);
        let clock = match round.is_multiple_of(2) {
            true => &mut object.released,
            false => &mut object.other,
        };
        if count > 0 && object.entered.is_multiple_of(count) {
            clock.clear();
        }
        raise(clock, &self.threads[thread].clock);
        object.entered += 1;
        self.rounds.insert((thread, barrier), round);
    }
}

fn acquires(order: MemoryOrder) -> bool {
    use MemoryOrder::{AcqRel, Acquire, Consume, SeqCst};
    matches!(order, Acquire | Consume | AcqRel | SeqCst)
}

fn releases(order: MemoryOrder) -> bool {
    use MemoryOrder::{AcqRel, Release, SeqCst};
    matches!(order, Release | AcqRel | SeqCst)
}
