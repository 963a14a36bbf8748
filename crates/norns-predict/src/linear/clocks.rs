//! For every event what must be in a schedule that has it, as a vector clock.
//!
//! A set of events that holds with every event all that the event needs is an *ideal*: a prefix
//! of every thread, written as the number of events of each. The clock of an event is the smallest
//! ideal with it when locks are left aside (`critical.rs` has those). An event needs
//!
//! - the events before it in its thread, and the fork of its thread;
//! - what the model's `needed_before` says (join, allocation before use, `free` before reuse);
//! - in the faithful meaning, the write that it read (atomic operations included), in both
//!   meanings what keeps the state of a semaphore, barrier, condition or `once` such that the
//!   event can happen as it did. This is on the safe side: a semaphore gives its tokens in the
//!   order in which they were posted, a wait needs every earlier signal of its condition, and
//!   everything at a barrier needs everything earlier there;
//! - a failed try or timed lock needs the acquisitions that stood in its way.
//!
//! All needs point back in the trace. So the events of an ideal, in the order of the trace, are a
//! legal schedule as far as these rules go: every operation finds what it found in the trace.
//!
//! Idea: vector clocks (Mattern 1989) over the reads-from order of SHB (Mathur et al. 2018).

use std::collections::VecDeque;

use norns_model::Model;
use norns_trace::{EventIndex, ObjectId, Op, ThreadId};

use super::critical::CriticalSections;

/// One number of events for each thread.
pub type Ideal = Vec<u32>;

pub struct Clocks {
    width: usize,
    /// Clocks one after the other, `width` numbers each. The number of the event's own thread
    /// is not kept up to date: it follows from the event.
    rows: Vec<u32>,
    /// For every event its row.
    row_of: Vec<u32>,
    /// For every thread the row that its first event finds.
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

    /// Raises the ideal so that it holds this event and all that it needs.
    pub fn include(&self, model: &Model, ideal: &mut [u32], event: EventIndex) {
        let thread = model.thread_of(event).index();
        self.raise(ideal, self.row_of[event.index()]);
        ideal[thread] = ideal[thread].max(model.position[event.index()] + 1);
    }

    /// Raises the ideal so that this event is the next one of its thread, or behind that.
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
    /// The row that each thread has now.
    current: Vec<u32>,
    scratch: Ideal,
    /// For every object the join of the clocks of all its events so far; empty before the first.
    objects: Vec<Ideal>,
    /// For every semaphore its tokens: the event that gave it, `None` for the first value.
    tokens: Vec<VecDeque<Option<EventIndex>>>,
}

impl<'m> Builder<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        let width = model.threads.len();
        let objects = model.trace.objects.len();
        let mut tokens = vec![VecDeque::new(); objects];
        for event in &model.trace.events {
            if let Op::SemInit { sem, value } = event.op {
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
        let t = thread.index();
        let mut row = match self.current[t] {
            NO_ROW => self.clocks.first_row[t],
            row => row,
        };
        // The clock so far is copied only once something may change it.
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
        match op {
            Op::Read(_) | Op::Atomic { .. } => {
                for (_, writer) in model.must_see(event) {
                    if let Some(writer) = writer {
                        need(self, writer);
                    }
                }
            }
            Op::FailedLock(_) | Op::FailedReadLock(_) => {
                for &acquisition in sections.obstacles(event) {
                    need(self, acquisition);
                }
            }
            Op::SemWait(sem) => match self.tokens[sem.index()].pop_front() {
                Some(Some(post)) => need(self, post),
                Some(None) => {}
                // The trace does not say where this token came from.
                None => self.need_object(&mut raised, row, sem),
            },
            Op::SemPost(sem) => self.tokens[sem.index()].push_back(Some(event)),
            Op::SemInit { sem, .. } | Op::FailedSemWait(sem) => {
                self.need_object(&mut raised, row, sem);
            }
            Op::Wait(object)
            | Op::FailedWait(object)
            | Op::OnceBegin(object)
            | Op::OnceEnd(object)
            | Op::OncePass(object)
            | Op::BarrierInit {
                barrier: object, ..
            }
            | Op::BarrierEnter(object)
            | Op::BarrierExit(object) => self.need_object(&mut raised, row, object),
            _ => {}
        }
        if raised && self.scratch != self.clocks.row(row) {
            row = self.clocks.push(&self.scratch);
        }
        self.current[t] = row;
        self.clocks.row_of.push(row);
        self.note_object(event, op);
        if let Op::Fork(child) = op {
            self.scratch.clear();
            self.scratch.resize(self.clocks.width, 0);
            let mut scratch = std::mem::take(&mut self.scratch);
            self.clocks.include(model, &mut scratch, event);
            self.clocks.first_row[child.index()] = self.clocks.push(&scratch);
            self.scratch = scratch;
        }
    }

    fn load(&mut self, raised: &mut bool, row: u32) {
        if !*raised {
            *raised = true;
            self.scratch.clear();
            self.scratch.extend_from_slice(self.clocks.row(row));
        }
    }

    fn need_object(&mut self, raised: &mut bool, row: u32, object: ObjectId) {
        self.load(raised, row);
        for (have, &need) in self.scratch.iter_mut().zip(&self.objects[object.index()]) {
            *have = (*have).max(need);
        }
    }

    /// Adds the event to the history of its object. Locks need none: `critical.rs` has them.
    fn note_object(&mut self, event: EventIndex, op: Op) {
        let object = match op {
            Op::Lock(_)
            | Op::FailedLock(_)
            | Op::ReadLock(_)
            | Op::FailedReadLock(_)
            | Op::Unlock(_) => None,
            _ => op.object(),
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
