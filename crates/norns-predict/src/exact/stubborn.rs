//! Stubborn sets with threads as units: which threads' next steps are enough to look at.
//!
//! The stubborn sets of Valmari (1991), for threads that are straight lines of events. A
//! set of threads is grown from one that has to move: a thread whose next step is possible pulls
//! in the threads that later do something that does not commute with it; a thread whose next
//! step is not possible pulls in threads of which one has to move first. What is later than a
//! thread's limit never happens and pulls in nobody.
//!
//! A step that only tests and changes nothing (a read, a join, a failed try) commutes with all
//! that may come before it, once it is possible.

use std::cell::Cell;

use norns_model::lock_set::Mode;
use norns_model::{Meaning, Model, Readiness, State, Step};
use norns_trace::{EventIndex, ObjectId, ObjectKind, Op, ThreadId};

use crate::exact::index::{Class, Index, first_in};

/// What limits a search, beside the step rules.
pub struct Limits<'a> {
    pub model: &'a Model<'a>,
    pub index: &'a Index,
    /// A thread does not go past this position.
    pub limit: &'a [u32],
    /// Every thread has to get to this position: what would make that impossible is not done.
    pub need: &'a [u32],
    pub last_acquisitions: &'a [(ThreadId, u32, ObjectId, Mode)],
    /// How many threads were looked at for what they do later, since `cost` was asked.
    pub looked: Cell<usize>,
}

/// So many looks cost as much as a step.
const LOOKS: usize = 256;

/// Why a thread does or does not move.
enum Move {
    Possible,
    /// One of these has to move first.
    After(Vec<ThreadId>),
    /// It never will.
    Never,
}

impl Limits<'_> {
    /// What a step takes from a budget: with many threads it costs more to choose it.
    pub fn cost(&self) -> usize {
        1 + self.looked.take() / LOOKS
    }

    /// Whether some schedule lets this thread move next, from here on.
    fn may_move(&self, state: &State, thread: ThreadId) -> bool {
        state.positions[thread.index()] < self.limit[thread.index()]
    }

    /// The steps of a stubborn set grown from `seed`. Empty when the seed can never move.
    pub fn steps_from(&self, state: &State, seed: ThreadId, steps: &mut Vec<Step>) {
        let mut inside = vec![false; self.limit.len()];
        inside[seed.index()] = true;
        // How many could still be pulled in.
        let others = self.model.thread_ids().filter(|&thread| thread != seed);
        let mut outside = others.filter(|&t| self.may_move(state, t)).count();
        let mut work = vec![seed];
        steps.clear();
        while let Some(thread) = work.pop() {
            if outside == 0 {
                if self.is_possible(state, thread) {
                    self.model.steps(state, thread, steps);
                }
                continue;
            }
            let mut pull = |other: ThreadId| {
                if !inside[other.index()] {
                    inside[other.index()] = true;
                    outside -= usize::from(self.may_move(state, other));
                    work.push(other);
                }
            };
            match self.movement(state, thread) {
                Move::Possible => {
                    self.model.steps(state, thread, steps);
                    self.for_dependent(state, thread, &mut pull);
                }
                Move::After(threads) => threads.into_iter().for_each(pull),
                Move::Never => {}
            }
        }
    }

    fn is_possible(&self, state: &State, thread: ThreadId) -> bool {
        let ready = || self.model.readiness(state, thread) == Readiness::Ready;
        self.may_move(state, thread)
            && ready()
            && matches!(self.movement(state, thread), Move::Possible)
    }

    fn movement(&self, state: &State, thread: ThreadId) -> Move {
        if !self.may_move(state, thread) {
            return Move::Never;
        }
        let event = self
            .model
            .next(state, thread)
            .expect("the limit is at most the end");
        match self.model.readiness(state, thread) {
            Readiness::Ready => self.harm(state, thread, event),
            Readiness::Finished => Move::Never,
            _ => self.enabling(state, thread, event),
        }
    }

    /// A step that would make it impossible for some thread to get where it has to, waits.
    fn harm(&self, state: &State, thread: ThreadId, event: EventIndex) -> Move {
        let position = state.positions[thread.index()];
        for &(holder, last, lock, mode) in self.last_acquisitions {
            if holder != thread || last != position {
                continue;
            }
            for (other, positions) in self.index.operations(lock, Class::Acquire) {
                let o = other.index();
                let mut from = state.positions[o];
                while let Some(at) = first_in(positions, from..self.need[o]) {
                    let op = self.model.op(self.model.threads[o][at as usize]);
                    if *other != thread && (mode == Mode::Write || matches!(op, Op::Lock(_))) {
                        return Move::After(vec![*other]);
                    }
                    from = at + 1;
                }
            }
        }
        if self.model.meaning == Meaning::Faithful {
            for location in self.model.written_locations(event) {
                let last = state.last_writer(location);
                for &reader in self.index.readers(location, last) {
                    let other = self.model.thread_of(reader);
                    let at = self.model.position_of(reader) as u32;
                    let o = other.index();
                    // A read-modify-write sees what it overwrites.
                    if reader != event && at >= state.positions[o] && at < self.need[o] {
                        return if other == thread {
                            Move::Never
                        } else {
                            Move::After(vec![other])
                        };
                    }
                }
            }
        }
        Move::Possible
    }

    /// Who has to move before this thread can: one of the threads returned.
    fn enabling(&self, state: &State, thread: ThreadId, event: EventIndex) -> Move {
        for earlier in self.model.needed_before(event) {
            if !self.model.executed(state, earlier) {
                return Move::After(vec![self.model.thread_of(earlier)]);
            }
        }
        let with = |object, class| {
            let mut threads = Vec::new();
            self.for_future(state, thread, object, class, &mut |other| {
                threads.push(other);
            });
            Move::After(threads)
        };
        match self.model.op(event) {
            Op::Lock(_) | Op::ReadLock(_) => {
                let holders = self.model.holders_against(state, event);
                Move::After(
                    holders
                        .into_iter()
                        .take(1)
                        .filter(|&h| h != thread)
                        .collect(),
                )
            }
            Op::FailedLock(lock) | Op::FailedReadLock(lock) => with(lock, Class::Acquire),
            Op::SemWait(semaphore) => with(semaphore, Class::SemPost),
            Op::FailedSemWait(semaphore) => with(semaphore, Class::SemWait),
            Op::Wait(condition) => with(condition, Class::Wake),
            Op::BarrierExit(barrier) => with(barrier, Class::Enter),
            Op::OncePass(once) => with(once, Class::OnceEnd),
            Op::Read(_) | Op::Atomic { .. } => {
                let mut first = None;
                for (location, writer) in self.model.must_see(event) {
                    if state.last_writer(location) == writer {
                        continue;
                    }
                    match writer {
                        Some(writer) if !self.model.executed(state, writer) => {
                            first = first.or(Some(self.model.thread_of(writer)));
                        }
                        // It was overwritten.
                        _ => return Move::Never,
                    }
                }
                Move::After(first.into_iter().collect())
            }
            _ => Move::Never,
        }
    }

    /// The threads that later do something that does not commute with the next step of this one.
    fn for_dependent(&self, state: &State, thread: ThreadId, pull: &mut dyn FnMut(ThreadId)) {
        let event = self
            .model
            .next(state, thread)
            .expect("a thread that moves has a next event");
        let mut with = |object, class| self.for_future(state, thread, object, class, pull);
        match self.model.op(event) {
            Op::Lock(lock) | Op::ReadLock(lock) => {
                with(lock, Class::Acquire);
                with(lock, Class::FailedAcquire);
            }
            Op::Unlock(lock) => {
                with(lock, Class::FailedAcquire);
                if let Some(condition) = self.model.enters_queue(event) {
                    with(condition, Class::Wake);
                }
            }
            Op::SemWait(semaphore) => {
                with(semaphore, Class::SemWait);
                with(semaphore, Class::FailedSemWait);
            }
            Op::SemPost(semaphore) => with(semaphore, Class::FailedSemWait),
            Op::BarrierEnter(barrier) => with(barrier, Class::Enter),
            Op::Wait(condition) if state.asleep(condition).contains(&thread) => {
                with(condition, Class::Wake);
            }
            Op::Signal(condition) | Op::Broadcast(condition) => {
                with(condition, Class::Wake);
                with(condition, Class::Wait);
            }
            Op::End => {
                for (other, positions) in self.index.failed_joins(thread) {
                    if first_in(positions, self.rest(state, *other)).is_some() {
                        pull(*other);
                    }
                }
                let sets = &self.index.lock_sets;
                for &(lock, _) in sets.set(sets.before(event)) {
                    if self.model.kind(lock) == ObjectKind::RobustMutex {
                        self.for_future(state, thread, lock, Class::FailedAcquire, pull);
                    }
                }
            }
            Op::Write(_) | Op::Free(_) | Op::Allocate(_) | Op::Atomic { .. }
                if self.model.meaning == Meaning::Faithful =>
            {
                self.for_dependent_on_write(state, thread, event, pull);
            }
            _ => {}
        }
    }

    fn for_dependent_on_write(
        &self,
        state: &State,
        thread: ThreadId,
        event: EventIndex,
        pull: &mut dyn FnMut(ThreadId),
    ) {
        for location in self.model.written_locations(event) {
            for (other, positions) in self.index.reads(location) {
                let mut rest = self.rest(state, *other);
                while *other != thread
                    && let Some(at) = first_in(positions, rest.clone())
                {
                    let read = self.model.threads[other.index()][at as usize];
                    let sees = |(l, writer)| l == location && writer == Some(event);
                    if !self.model.must_see(read).any(sees) {
                        pull(*other);
                        break;
                    }
                    rest.start = at + 1;
                }
            }
            let matters = |write| {
                let readers = self.index.readers(location, Some(write)).iter();
                readers
                    .copied()
                    .any(|reader| self.lies_ahead(state, reader))
            };
            let own = matters(event);
            for (other, positions) in self.index.writes(location) {
                let mut rest = self.rest(state, *other);
                while *other != thread
                    && let Some(at) = first_in(positions, rest.clone())
                {
                    if own || matters(self.model.threads[other.index()][at as usize]) {
                        pull(*other);
                        break;
                    }
                    rest.start = at + 1;
                }
            }
        }
    }

    /// Whether the event has not happened and lies below its thread's limit.
    pub fn lies_ahead(&self, state: &State, event: EventIndex) -> bool {
        let at = self.model.position_of(event) as u32;
        self.rest(state, self.model.thread_of(event)).contains(&at)
    }

    fn rest(&self, state: &State, thread: ThreadId) -> std::ops::Range<u32> {
        state.positions[thread.index()]..self.limit[thread.index()]
    }

    fn for_future(
        &self,
        state: &State,
        thread: ThreadId,
        object: ObjectId,
        class: Class,
        pull: &mut dyn FnMut(ThreadId),
    ) {
        let operations = self.index.operations(object, class);
        self.looked.set(self.looked.get() + operations.len());
        for (other, positions) in operations {
            let mut rest = self.rest(state, *other);
            // The step before a wait already enters the queue.
            rest.end += u32::from(class == Class::Wait);
            if *other != thread && first_in(positions, rest).is_some() {
                pull(*other);
            }
        }
    }
}
