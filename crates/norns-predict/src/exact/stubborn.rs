//! Stubborn sets with threads as units: which threads' next steps are enough to look at.
//!
//! The stubborn sets of Valmari (1991), for threads that are straight lines of events. A set of
//! threads is grown from one that has to move. A thread whose next step is possible pulls in the
//! threads that later do something that does not commute with that step. A thread whose next step
//! is not possible pulls in threads of which one has to move first. Events beyond a thread's limit
//! never happen and are ignored.
//!
//! A step that only tests something and changes nothing (a read, a join, a failed try) commutes,
//! once it is possible, with everything that may come before it.

use std::cell::Cell;
use std::ops::Range;

use norns_model::lock_set::Mode;
use norns_model::{Meaning, Model, Readiness, State, Step};
use norns_trace::effect::{OnBarrier, OnCondition, OnLock, OnOnce, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, ObjectKind, ThreadId};

use crate::exact::cone::HeldAtGoal;
use crate::exact::index::{Class, Index, ThreadPositions, first_in};

/// What limits a search, in addition to the step rules.
pub struct Limits<'a> {
    pub model: &'a Model<'a>,
    pub index: &'a Index,
    /// For every thread, the position that it does not go past.
    pub limit: &'a [u32],
    /// For every thread, the position that it has to get to. A step that would make that impossible
    /// is not taken.
    pub need: &'a [u32],
    pub held_at_goal: &'a [HeldAtGoal],
    /// How many threads were examined for what they do later, since `cost` was last called.
    pub lookups: Cell<usize>,
}

/// This many lookups cost as much as a step.
const LOOKUPS_PER_STEP: usize = 256;

/// Whether a thread can move now.
enum Move {
    Possible,
    /// One of these threads has to move first.
    After(Vec<ThreadId>),
    /// It can never move again.
    Never,
}

impl Limits<'_> {
    /// What the last step takes from a budget. Choosing a step costs more with many threads.
    pub fn cost(&self) -> usize {
        1 + self.lookups.take() / LOOKUPS_PER_STEP
    }

    /// Whether the thread is below its limit.
    fn may_move(&self, state: &State, thread: ThreadId) -> bool {
        state.positions[thread.index()] < self.limit[thread.index()]
    }

    /// Sets `steps` to those of a stubborn set grown from `seed`; none if the seed can never move.
    pub fn steps_from(&self, state: &State, seed: ThreadId, steps: &mut Vec<Step>) {
        let mut inside = vec![false; self.limit.len()];
        inside[seed.index()] = true;
        // How many threads could still be pulled in.
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
            Readiness::Blocked | Readiness::Unborn | Readiness::Diverged => {
                self.enabling(state, thread, event)
            }
        }
    }

    /// Whether a thread that is ready can move: a step after which some thread cannot get where it
    /// has to is delayed.
    fn harm(&self, state: &State, thread: ThreadId, event: EventIndex) -> Move {
        let position = state.positions[thread.index()];
        for held in self.held_at_goal {
            if held.thread != thread || held.position != position {
                continue;
            }
            for of in self.index.operations(held.lock, Class::Acquire) {
                let ThreadPositions { thread: other, .. } = of;
                let o = other.index();
                let mut from = state.positions[o];
                while let Some(at) = first_in(&of.positions, from..self.need[o]) {
                    let effect = self.model.op(self.model.threads[o][at as usize]).effect();
                    let writes = matches!(effect, Effect::Lock(_, OnLock::Acquire(Mode::Write)));
                    if *other != thread && (held.mode == Mode::Write || writes) {
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

    /// For a thread that is not ready: the threads of which one has to move first.
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
        match self.model.op(event).effect() {
            Effect::Lock(lock, act) => match act {
                OnLock::Acquire(_) => {
                    let holders = self.model.holders_against(state, event);
                    let first = holders.into_iter().take(1);
                    Move::After(first.filter(|&holder| holder != thread).collect())
                }
                OnLock::FailedAcquire(_) => with(lock, Class::Acquire),
                OnLock::Release => Move::Never,
            },
            Effect::Semaphore(semaphore, act) => match act {
                OnSemaphore::Wait => with(semaphore, Class::SemPost),
                OnSemaphore::FailedWait => with(semaphore, Class::SemWait),
                OnSemaphore::Init(_) | OnSemaphore::Post => Move::Never,
            },
            Effect::Condition(condition, act) => match act {
                OnCondition::Wait => with(condition, Class::Wake),
                OnCondition::TimedOut | OnCondition::Signal | OnCondition::Broadcast => Move::Never,
            },
            Effect::Barrier(barrier, act) => match act {
                OnBarrier::Exit => with(barrier, Class::Enter),
                OnBarrier::Init(_) | OnBarrier::Enter => Move::Never,
            },
            Effect::Once(once, act) => match act {
                OnOnce::Pass => with(once, Class::OnceEnd),
                OnOnce::Begin | OnOnce::End => Move::Never,
            },
            Effect::Memory(_) => self.enabling_writer(state, event),
            Effect::Thread(_) | Effect::Channel(..) | Effect::Local => Move::Never,
        }
    }

    /// For an access that does not see the write that it must see: the thread of that write.
    fn enabling_writer(&self, state: &State, event: EventIndex) -> Move {
        let mut first = None;
        for (location, writer) in self.model.must_see(event) {
            if state.last_writer(location) == writer {
                continue;
            }
            match writer {
                Some(writer) if !self.model.executed(state, writer) => {
                    first = first.or(Some(self.model.thread_of(writer)));
                }
                // The right write, or the initial value, has been overwritten.
                Some(_) | None => return Move::Never,
            }
        }
        Move::After(first.into_iter().collect())
    }

    /// Calls `pull` with the threads that later do something that does not commute with the next
    /// step of this one.
    fn for_dependent(&self, state: &State, thread: ThreadId, pull: &mut dyn FnMut(ThreadId)) {
        let event = self
            .model
            .next(state, thread)
            .expect("a thread that moves has a next event");
        let mut with = |object, class| self.for_future(state, thread, object, class, pull);
        match self.model.op(event).effect() {
            Effect::Lock(lock, act) => match act {
                OnLock::Acquire(_) => {
                    with(lock, Class::Acquire);
                    with(lock, Class::FailedAcquire);
                }
                OnLock::Release => {
                    with(lock, Class::FailedAcquire);
                    if let Some(condition) = self.model.enters_queue(event) {
                        with(condition, Class::Wake);
                    }
                }
                OnLock::FailedAcquire(_) => {}
            },
            Effect::Semaphore(semaphore, act) => match act {
                OnSemaphore::Wait => {
                    with(semaphore, Class::SemWait);
                    with(semaphore, Class::FailedSemWait);
                }
                OnSemaphore::Post => with(semaphore, Class::FailedSemWait),
                OnSemaphore::Init(_) | OnSemaphore::FailedWait => {}
            },
            Effect::Barrier(barrier, act) => match act {
                OnBarrier::Enter => with(barrier, Class::Enter),
                OnBarrier::Init(_) | OnBarrier::Exit => {}
            },
            Effect::Condition(condition, act) => match act {
                OnCondition::Wait => {
                    if state.asleep(condition).contains(&thread) {
                        with(condition, Class::Wake);
                    }
                }
                OnCondition::Signal | OnCondition::Broadcast => {
                    with(condition, Class::Wake);
                    with(condition, Class::Wait);
                }
                OnCondition::TimedOut => {}
            },
            Effect::Thread(act) => match act {
                OnThread::End => self.for_dependent_on_end(state, thread, event, pull),
                OnThread::Start
                | OnThread::Fork(_)
                | OnThread::Join(_)
                | OnThread::FailedJoin(_)
                | OnThread::Detach(_) => {}
            },
            Effect::Memory(_) => {
                if self.model.meaning == Meaning::Faithful {
                    self.for_dependent_on_write(state, thread, event, pull);
                }
            }
            Effect::Once(..) | Effect::Channel(..) | Effect::Local => {}
        }
    }

    /// The end of a thread makes joins succeed and releases its robust mutexes.
    fn for_dependent_on_end(
        &self,
        state: &State,
        thread: ThreadId,
        event: EventIndex,
        pull: &mut dyn FnMut(ThreadId),
    ) {
        for joins in self.index.failed_joins(thread) {
            if first_in(&joins.positions, self.rest(state, joins.thread)).is_some() {
                pull(joins.thread);
            }
        }
        let sets = &self.index.lock_sets;
        for &(lock, _) in sets.set(sets.before(event)) {
            if self.model.kind(lock) == ObjectKind::RobustMutex {
                self.for_future(state, thread, lock, Class::FailedAcquire, pull);
            }
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
            for ThreadPositions {
                thread: other,
                positions,
            } in self.index.reads(location)
            {
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
            for ThreadPositions {
                thread: other,
                positions,
            } in self.index.writes(location)
            {
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

    /// Whether the event has not happened yet and is below its thread's limit.
    pub fn lies_ahead(&self, state: &State, event: EventIndex) -> bool {
        let at = self.model.position_of(event) as u32;
        self.rest(state, self.model.thread_of(event)).contains(&at)
    }

    /// The positions of the thread that are still ahead.
    fn rest(&self, state: &State, thread: ThreadId) -> Range<u32> {
        state.positions[thread.index()]..self.limit[thread.index()]
    }

    /// Calls `pull` with the other threads that have such an operation ahead of them.
    fn for_future(
        &self,
        state: &State,
        thread: ThreadId,
        object: ObjectId,
        class: Class,
        pull: &mut dyn FnMut(ThreadId),
    ) {
        let operations = self.index.operations(object, class);
        self.lookups.set(self.lookups.get() + operations.len());
        for ThreadPositions {
            thread: other,
            positions,
        } in operations
        {
            let mut rest = self.rest(state, *other);
            // The event before a wait enters the queue, so it counts as part of the wait.
            rest.end += u32::from(class == Class::Wait);
            if *other != thread && first_in(positions, rest).is_some() {
                pull(*other);
            }
        }
    }
}
