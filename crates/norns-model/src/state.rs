//! A state of the model: thread positions and the objects that they use.
//!
//! The states of locks, semaphores and `once` follow from the positions and are kept so that a
//! step need not recompute them. What does not follow is which sleeping threads were woken, which
//! threads have passed a barrier, and, in the faithful meaning, the last writer of each location:
//! together with the positions these make the `Key`, and two states with equal keys are equal.
//!
//! Every change is noted on a trail, so that a search can step back.

use norns_trace::{EventIndex, ObjectId, ThreadId};

use crate::location::LocationId;
use crate::model::Model;

/// Who holds a lock. A mutex is only ever held for writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// The thread that holds it for writing, and how many times it locked it.
    pub writer: Option<(ThreadId, u32)>,
    /// The threads that hold it for reading, and how many times.
    pub readers: Vec<(ThreadId, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnceState {
    #[default]
    Idle,
    RunBy(ThreadId),
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub positions: Vec<u32>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) values: Vec<i64>,
    pub(crate) onces: Vec<OnceState>,
    /// By object: the threads that wait in a barrier's round that is not full yet, sorted.
    pub(crate) arrived: Vec<Vec<ThreadId>>,
    /// By object: the threads that sleep on a condition and were not woken, sorted.
    pub(crate) asleep: Vec<Vec<ThreadId>>,
    /// By location: its last writer. Empty in the optimistic meaning.
    pub(crate) writers: Vec<Option<EventIndex>>,
    trail: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Position(ThreadId),
    Hold(ObjectId, Hold),
    Value(ObjectId, i64),
    Once(ObjectId, OnceState),
    Arrived(ObjectId, Vec<ThreadId>),
    Asleep(ObjectId, Vec<ThreadId>),
    Writer(LocationId, Option<EventIndex>),
}

/// A place to step back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

/// Equal for two states exactly when the states are equal.
pub type Key = Box<[u32]>;

impl State {
    pub fn initial(model: &Model) -> State {
        let objects = model.trace.objects.len();
        let faithful = model.meaning == crate::Meaning::Faithful;
        State {
            positions: vec![0; model.threads.len()],
            holds: vec![Hold::default(); objects],
            values: model.number.clone(),
            onces: vec![OnceState::Idle; objects],
            arrived: vec![Vec::new(); objects],
            asleep: vec![Vec::new(); objects],
            writers: if faithful {
                vec![None; model.locations.len()]
            } else {
                Vec::new()
            },
            trail: Vec::new(),
        }
    }

    pub fn position(&self, thread: ThreadId) -> usize {
        self.positions[thread.index()] as usize
    }

    pub fn hold(&self, lock: ObjectId) -> &Hold {
        &self.holds[lock.index()]
    }

    /// The threads in the queue of the condition that were not woken, sorted.
    pub fn asleep(&self, condition: ObjectId) -> &[ThreadId] {
        &self.asleep[condition.index()]
    }

    /// The threads that wait in the round of the barrier that is not full yet, sorted.
    pub fn arrived(&self, barrier: ObjectId) -> &[ThreadId] {
        &self.arrived[barrier.index()]
    }

    pub fn value(&self, semaphore: ObjectId) -> i64 {
        self.values[semaphore.index()]
    }

    pub fn once(&self, once: ObjectId) -> OnceState {
        self.onces[once.index()]
    }

    pub fn last_writer(&self, location: LocationId) -> Option<EventIndex> {
        self.writers[location.0 as usize]
    }

    pub fn mark(&self) -> Mark {
        Mark(self.trail.len())
    }

    pub fn back_to(&mut self, mark: Mark) {
        while self.trail.len() > mark.0 {
            match self.trail.pop().expect("the trail is longer than the mark") {
                Change::Position(thread) => self.positions[thread.index()] -= 1,
                Change::Hold(object, old) => self.holds[object.index()] = old,
                Change::Value(object, old) => self.values[object.index()] = old,
                Change::Once(object, old) => self.onces[object.index()] = old,
                Change::Arrived(object, old) => self.arrived[object.index()] = old,
                Change::Asleep(object, old) => self.asleep[object.index()] = old,
                Change::Writer(location, old) => self.writers[location.0 as usize] = old,
            }
        }
    }

    /// Makes this the state that cannot be stepped back from: frees the trail.
    pub fn forget_trail(&mut self) {
        self.trail.clear();
    }

    pub(crate) fn advance(&mut self, thread: ThreadId) {
        self.positions[thread.index()] += 1;
        self.trail.push(Change::Position(thread));
    }

    pub(crate) fn change_hold(&mut self, lock: ObjectId, change: impl FnOnce(&mut Hold)) {
        let hold = &mut self.holds[lock.index()];
        self.trail.push(Change::Hold(lock, hold.clone()));
        change(hold);
    }

    pub(crate) fn set_value(&mut self, semaphore: ObjectId, value: i64) {
        let old = std::mem::replace(&mut self.values[semaphore.index()], value);
        self.trail.push(Change::Value(semaphore, old));
    }

    pub(crate) fn set_once(&mut self, once: ObjectId, state: OnceState) {
        let old = std::mem::replace(&mut self.onces[once.index()], state);
        self.trail.push(Change::Once(once, old));
    }

    pub(crate) fn set_arrived(&mut self, barrier: ObjectId, threads: Vec<ThreadId>) {
        let old = std::mem::replace(&mut self.arrived[barrier.index()], threads);
        self.trail.push(Change::Arrived(barrier, old));
    }

    pub(crate) fn set_asleep(&mut self, condition: ObjectId, threads: Vec<ThreadId>) {
        let old = std::mem::replace(&mut self.asleep[condition.index()], threads);
        self.trail.push(Change::Asleep(condition, old));
    }

    pub(crate) fn set_writer(&mut self, location: LocationId, writer: EventIndex) {
        let old = self.writers[location.0 as usize].replace(writer);
        self.trail.push(Change::Writer(location, old));
    }

    /// Appends the threads that wait at barriers and conditions to a key.
    pub fn write_waiting(&self, key: &mut Vec<u32>) {
        for (i, threads) in self.arrived.iter().chain(&self.asleep).enumerate() {
            if !threads.is_empty() {
                key.push(u32::MAX - i as u32);
                key.extend(threads.iter().map(|thread| thread.0));
            }
        }
    }

    /// Appends the last writers that matter to the caller, each with its location.
    pub fn write_writers(
        &self,
        key: &mut Vec<u32>,
        matters: impl Fn(LocationId, Option<EventIndex>) -> bool,
    ) {
        for (i, &writer) in self.writers.iter().enumerate() {
            if matters(LocationId(i as u32), writer) {
                key.push(i as u32);
                key.push(writer.map_or(u32::MAX, |event| event.0));
            }
        }
    }

    pub fn key(&self) -> Key {
        let mut key = self.positions.clone();
        self.write_waiting(&mut key);
        let writer = |writer: &Option<EventIndex>| writer.map_or(u32::MAX, |event| event.0);
        key.extend(self.writers.iter().map(writer));
        key.into_boxed_slice()
    }
}
