//! For every event, what must be in a schedule that contains it, as a vector clock.
//!
//! An *ideal* is a set of events that contains, with every event, all that the event needs. It is a
//! prefix of every thread, written as the number of events of each. The clock of an event is the
//! smallest ideal that contains it, leaving locks aside (`critical.rs` has those). An event needs
//!
//! - the events before it in its thread, and the fork of its thread;
//! - what the model's `needed_before` returns (join, allocation before use);
//! - in the faithful meaning, the write that it read (atomic operations included);
//! - in both meanings, the events that bring a semaphore, barrier, condition or `once` into a state
//!   in which the event can happen as it did. This is conservative: a semaphore hands out its tokens
//!   in the order in which they were posted, a wait needs every earlier signal of its condition, and
//!   every operation on a barrier needs all earlier ones;
//! - for a failed try-lock or timed lock, the acquisitions that made it fail.
//!
//! All needs point back in the trace. So the events of an ideal, in the order of the trace, are a
//! legal schedule as far as these rules go: every operation finds the state that it found in the
//! trace.
//!
//! The idea combines vector clocks (Mattern 1989) with the reads-from order of SHB (Mathur et al. 2018).

use std::collections::VecDeque;

use norns_model::Model;
use norns_trace::effect::{OnCondition, OnLock, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, Op, ThreadId};

use super::critical::CriticalSections;

/// For each thread, how many of its events are in the ideal.
pub type Ideal = Vec<u32>;

pub struct Clocks {
    width: usize,
    /// Clocks one after the other, `width` numbers each. The entry of the event's own thread is not
    /// kept up to date: it follows from the event.
    rows: Vec<u32>,
    /// For every event its row.
    row_of: Vec<u32>,
    /// For every thread, the row before its first event.
    first_row: Vec<u32>,
}

impl Clocks {
    pub fn of(model: &Model, sections: &CriticalSections) -> Clocks {
        let mut builder = Builder::new(model);
        for (i, event) in model.trace.events.iter().enumerate() {
            builder.event(EventIndex::from_index(i), event.thread, event.op, sections);
        }
        builder.clocks
    }

    /// Raises the ideal so that it contains this event and all that it needs.
    pub fn include(&self, model: &Model, ideal: &mut [u32], event: EventIndex) {
        let thread = model.thread_of(event).index();
        self.raise(ideal, self.row_of[event.index()]);
        ideal[thread] = ideal[thread].max(model.position[event.index()] + 1);
    }

    /// Raises the ideal so that this event is the next one of its thread, unless the ideal already
    /// contains it.
    pub fn approach(&self, model: &Model, ideal: &mut [u32], event: EventIndex) {
        let thread = model.thread_of(event).index();
        let position = model.position_of(event);
        let row = match position.checked_sub(1) {
            None => self.first_row[thread],
            Some(before) => self.row_of[model.threads[thread][before].index()],
        };
        self.raise(ideal, row);
        ideal[thread] = ideal[thread].max(position as u32);
        for earlier in model.needed_before(event) {
            self.include(model, ideal, earlier);
        }
    }

    /// Whether all that the event needs of other threads has happened.
    pub fn allows(&self, done: &[u32], event: EventIndex, thread: ThreadId) -> bool {
        let row = self.row(self.row_of[event.index()]);
        let enough = |t: usize| t == thread.index() || row[t] <= done[t];
        (0..self.width).all(enough)
    }

    fn row(&self, row: u32) -> &[u32] {
        let from = row as usize * self.width;
        &self.rows[from..from + self.width]
    }

    fn raise(&self, ideal: &mut [u32], row: u32) {
        for (have, &need) in ideal.iter_mut().zip(self.row(row)) {
            *have = (*have).max(need);
        }
    }
}

const NO_ROW: u32 = u32::MAX;

struct Builder<'m> {
    model: &'m Model<'m>,
    clocks: Clocks,
    /// For each thread, the row of its last event; `NO_ROW` before the first.
    current: Vec<u32>,
    scratch: Ideal,
    /// For every object, the join of the clocks of its events so far; empty before the first.
    objects: Vec<Ideal>,
    /// For every semaphore its tokens, each with the event that posted it (`None` for the initial
    /// value).
    tokens: Vec<VecDeque<Option<EventIndex>>>,
}

impl<'m> Builder<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        let width = model.threads.len();
        let objects = model.trace.objects.len();
        let mut tokens = vec![VecDeque::new(); objects];
        for event in &model.trace.events {
            if let Effect::Semaphore(sem, OnSemaphore::Init(value)) = event.op.effect() {
                tokens[sem.index()].extend(std::iter::repeat_n(None, value as usize));
            }
        }
        Self {
            model,
            clocks: Clocks {
                width,
                rows: vec![0; width],
                row_of: Vec::with_capacity(model.trace.events.len()),
                first_row: vec![0; width],
            },
            current: vec![NO_ROW; width],
            scratch: vec![0; width],
            objects: vec![Vec::new(); objects],
            tokens,
        }
    }

    fn event(&mut self, event: EventIndex, thread: ThreadId, op: Op, sections: &CriticalSections) {
        let model = self.model;
        let effect = op.effect();
        let t = thread.index();
        let mut row = match self.current[t] {
            NO_ROW => self.clocks.first_row[t],
            row => row,
        };
        // The clock of the previous event is copied only if something may change it.
        self.scratch.clear();
        let mut raised = false;
        let mut need = |builder: &mut Self, other: EventIndex| {
            if model.thread_of(other) == thread {
                return;
            }
            builder.load(&mut raised, row);
            let mut scratch = std::mem::take(&mut builder.scratch);
            builder.clocks.include(model, &mut scratch, other);
            builder.scratch = scratch;
        };
        for earlier in model.needed_before(event) {
            need(self, earlier);
        }
        match effect {
            Effect::Memory(touch) if touch.reads => {
                for (_, writer) in model.must_see(event) {
                    if let Some(writer) = writer {
                        need(self, writer);
                    }
                }
            }
            Effect::Lock(_, OnLock::FailedAcquire(_)) => {
                for &acquisition in sections.obstacles(event) {
                    need(self, acquisition);
                }
            }
            Effect::Semaphore(sem, act) => match act {
                OnSemaphore::Wait => match self.tokens[sem.index()].pop_front() {
                    Some(Some(post)) => need(self, post),
                    Some(None) => {}
                    // The trace does not say where this token came from.
                    None => self.need_object(&mut raised, row, sem),
                },
                OnSemaphore::Post => self.tokens[sem.index()].push_back(Some(event)),
                OnSemaphore::Init(_) | OnSemaphore::FailedWait => {
                    self.need_object(&mut raised, row, sem);
                }
            },
            Effect::Condition(condition, OnCondition::Wait | OnCondition::TimedOut) => {
                self.need_object(&mut raised, row, condition);
            }
            Effect::Once(object, _) | Effect::Barrier(object, _) => {
                self.need_object(&mut raised, row, object);
            }
            Effect::Memory(_)
            | Effect::Lock(_, OnLock::Acquire(_) | OnLock::Release)
            | Effect::Condition(_, OnCondition::Signal | OnCondition::Broadcast)
            | Effect::Thread(_)
            | Effect::Channel(..)
            | Effect::Local => {}
        }
        if raised && self.scratch != self.clocks.row(row) {
            row = self.clocks.push(&self.scratch);
        }
        self.current[t] = row;
        self.clocks.row_of.push(row);
        self.note_object(event, effect);
        if let Effect::Thread(OnThread::Fork(child)) = effect {
            self.scratch.clear();
            self.scratch.resize(self.clocks.width, 0);
            let mut scratch = std::mem::take(&mut self.scratch);
            self.clocks.include(model, &mut scratch, event);
            self.clocks.first_row[child.index()] = self.clocks.push(&scratch);
            self.scratch = scratch;
        }
    }

    /// Copies the row to the scratch clock, unless that has been done for this event.
    fn load(&mut self, raised: &mut bool, row: u32) {
        if !*raised {
            *raised = true;
            self.scratch.clear();
            self.scratch.extend_from_slice(self.clocks.row(row));
        }
    }

    /// The event needs all earlier events of the object.
    fn need_object(&mut self, raised: &mut bool, row: u32, object: ObjectId) {
        self.load(raised, row);
        for (have, &need) in self.scratch.iter_mut().zip(&self.objects[object.index()]) {
            *have = (*have).max(need);
        }
    }

    /// Adds the event to the clock of its object. Locks have none: `critical.rs` treats them. Nor have
    /// channels, whose orders are direct ones of the model.
    fn note_object(&mut self, event: EventIndex, effect: Effect) {
        let object = match effect {
            Effect::Lock(..) | Effect::Channel(..) => None,
            Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Memory(_)
            | Effect::Local => effect.object(),
        };
        if let Some(object) = object {
            let mut clock = std::mem::take(&mut self.objects[object.index()]);
            clock.resize(self.clocks.width, 0);
            self.clocks.include(self.model, &mut clock, event);
            self.objects[object.index()] = clock;
        }
    }
}

impl Clocks {
    fn push(&mut self, row: &[u32]) -> u32 {
        let index = self.rows.len() / self.width;
        self.rows.extend_from_slice(row);
        u32::try_from(index).expect("there are fewer clocks than events and threads")
    }
}
