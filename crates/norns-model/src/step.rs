//! The step rules: when a thread can take its next step, and what the step changes.
//!
//! The processes of Carril (2017), section 4.4, are the specification; the table in
//! `tests/model/step_rules.rs` fixes the rules case by case, also those beyond it:
//!
//! - A mutex that is not recursive blocks its own holder for ever. A robust mutex is free again
//!   when its holder has ended. Releasing a lock that the thread does not hold has no effect.
//! - A reader-writer lock has no preference: a waiting writer does not keep readers out.
//! - A failed operation needs a state in which it fails. Where it would succeed, the thread has
//!   left the trace: it is not blocked, and what it does next is unknown.
//! - A signal is lost when no thread is asleep; otherwise it wakes any one of the sleepers. A wait
//!   that woke spuriously in the trace may do so at any time. A wait that timed out never counts
//!   as asleep.
//! - A barrier may be entered again before all threads have left it.
//! - The initialiser of a `once` is run by the thread that ran it in the trace.
//! - A receive comes after every send on its channel that came before it in the trace. Where one of
//!   them is missing, the thread would receive something else, or wait: it has left the trace.
//! - In the faithful meaning a read needs the write that it saw as the last one.

use norns_trace::effect::{OnBarrier, OnCondition, OnLock, OnOnce, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, Mode, ObjectId, ObjectKind, Op, ThreadId};

use crate::model::Model;
use crate::state::{Hold, OnceState, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// In a blocking operation that cannot complete now.
    Blocked,
    /// Not forked yet.
    Unborn,
    /// The thread would do something else here than in the trace.
    Diverged,
    /// No event is left.
    Finished,
}

/// A step: the thread, and for a signal whom it wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step {
    pub thread: ThreadId,
    pub wakes: Option<ThreadId>,
}

impl Model<'_> {
    pub fn next(&self, state: &State, thread: ThreadId) -> Option<EventIndex> {
        self.threads[thread.index()]
            .get(state.position(thread))
            .copied()
    }

    pub fn executed(&self, state: &State, event: EventIndex) -> bool {
        state.position(self.thread_of(event)) > self.position_of(event)
    }

    /// The next event of the thread, if the thread has been forked and the memory that the event
    /// touches is allocated. Whether the thread can take this step is said by `readiness`.
    pub fn poised(&self, state: &State, thread: ThreadId) -> Option<EventIndex> {
        let event = self.next(state, thread)?;
        let joins = matches!(self.op(event), Op::Join(_));
        // The fork may be needed by a join as well, so the order of the test matters.
        let ready = self.needed_before(event).all(|earlier| {
            self.executed(state, earlier) || (joins && !self.is_fork_of(earlier, thread))
        });
        ready.then_some(event)
    }

    pub fn readiness(&self, state: &State, thread: ThreadId) -> Readiness {
        let Some(event) = self.next(state, thread) else {
            return Readiness::Finished;
        };
        for earlier in self.needed_before(event) {
            if !self.executed(state, earlier) {
                return if self.is_fork_of(earlier, thread) {
                    Readiness::Unborn
                } else if matches!(self.op(event), Op::Join(_)) {
                    Readiness::Blocked
                } else {
                    Readiness::Diverged
                };
            }
        }
        let ready_or = |ready: bool, otherwise| if ready { Readiness::Ready } else { otherwise };
        match self.op(event).effect() {
            Effect::Thread(act) => match act {
                OnThread::FailedJoin(child) => {
                    ready_or(!self.has_ended(state, child), Readiness::Diverged)
                }
                // A start needs its fork, and a join the end, as direct orders: see above.
                OnThread::Start
                | OnThread::End
                | OnThread::Fork(_)
                | OnThread::Join(_)
                | OnThread::Detach(_) => Readiness::Ready,
            },
            Effect::Lock(lock, act) => match act {
                OnLock::Acquire(mode) => {
                    let can = self.can_acquire(state, thread, lock, mode);
                    ready_or(can, Readiness::Blocked)
                }
                OnLock::FailedAcquire(mode) => {
                    let can = self.can_acquire(state, thread, lock, mode);
                    ready_or(!can, Readiness::Diverged)
                }
                OnLock::Release => Readiness::Ready,
            },
            Effect::Once(once, act) => match (act, state.once(once)) {
                (OnOnce::Begin, OnceState::Idle)
                | (OnOnce::End, _)
                | (OnOnce::Pass, OnceState::Done) => Readiness::Ready,
                (OnOnce::Pass, OnceState::RunBy(_)) => Readiness::Blocked,
                (OnOnce::Begin, OnceState::RunBy(_) | OnceState::Done)
                | (OnOnce::Pass, OnceState::Idle) => Readiness::Diverged,
            },
            Effect::Condition(condition, act) => match act {
                OnCondition::Wait => {
                    let asleep = state.asleep(condition).contains(&thread);
                    ready_or(
                        !asleep || !self.wait_needs_signal(event),
                        Readiness::Blocked,
                    )
                }
                OnCondition::TimedOut | OnCondition::Signal | OnCondition::Broadcast => {
                    Readiness::Ready
                }
            },
            Effect::Barrier(barrier, act) => match act {
                OnBarrier::Exit => ready_or(
                    !state.arrived(barrier).contains(&thread),
                    Readiness::Blocked,
                ),
                OnBarrier::Init(_) | OnBarrier::Enter => Readiness::Ready,
            },
            Effect::Semaphore(semaphore, act) => match act {
                OnSemaphore::Wait => ready_or(state.value(semaphore) > 0, Readiness::Blocked),
                OnSemaphore::FailedWait => {
                    ready_or(state.value(semaphore) <= 0, Readiness::Diverged)
                }
                OnSemaphore::Init(_) | OnSemaphore::Post => Readiness::Ready,
            },
            Effect::Memory(_) => {
                let same = self
                    .must_see(event)
                    .all(|(l, writer)| state.last_writer(l) == writer);
                ready_or(same, Readiness::Diverged)
            }
            // What a receive needs are direct orders: see above.
            Effect::Channel(..) | Effect::Local => Readiness::Ready,
        }
    }

    /// Appends all steps that the thread can take now: at most one, or for a signal one for each
    /// sleeping thread.
    pub fn steps(&self, state: &State, thread: ThreadId, steps: &mut Vec<Step>) {
        if self.readiness(state, thread) != Readiness::Ready {
            return;
        }
        let event = self
            .next(state, thread)
            .expect("a ready thread has a next event");
        if let Op::Signal(condition) = self.op(event)
            && !state.asleep(condition).is_empty()
        {
            let wakes = state.asleep(condition).iter();
            steps.extend(wakes.map(|&sleeper| Step {
                thread,
                wakes: Some(sleeper),
            }));
        } else {
            steps.push(Step {
                thread,
                wakes: None,
            });
        }
    }

    /// Takes a step that `steps` has listed for this state.
    pub fn take(&self, state: &mut State, step: Step) -> EventIndex {
        let thread = step.thread;
        let event = self
            .next(state, thread)
            .expect("only a thread with a next event steps");
        match self.op(event).effect() {
            Effect::Lock(lock, act) => match act {
                OnLock::Acquire(mode) => {
                    state.change_hold(lock, |hold| acquire(hold, thread, mode));
                }
                OnLock::Release => {
                    state.change_hold(lock, |hold| release(hold, thread));
                    if let Some(condition) = self.enters_queue(event) {
                        let mut asleep = state.asleep(condition).to_vec();
                        insert_sorted(&mut asleep, thread);
                        state.set_asleep(condition, asleep);
                    }
                }
                OnLock::FailedAcquire(_) => {}
            },
            Effect::Once(once, act) => match act {
                OnOnce::Begin => state.set_once(once, OnceState::RunBy(thread)),
                OnOnce::End => state.set_once(once, OnceState::Done),
                OnOnce::Pass => {}
            },
            Effect::Condition(condition, act) => match act {
                OnCondition::Wait => {
                    if state.asleep(condition).contains(&thread) {
                        let rest = without(state.asleep(condition), thread);
                        state.set_asleep(condition, rest);
                    }
                }
                OnCondition::Signal => {
                    if let Some(woken) = step.wakes {
                        let rest = without(state.asleep(condition), woken);
                        state.set_asleep(condition, rest);
                    }
                }
                OnCondition::Broadcast => {
                    if !state.asleep(condition).is_empty() {
                        state.set_asleep(condition, Vec::new());
                    }
                }
                OnCondition::TimedOut => {}
            },
            Effect::Barrier(barrier, act) => match act {
                OnBarrier::Enter => {
                    let mut arrived = state.arrived(barrier).to_vec();
                    insert_sorted(&mut arrived, thread);
                    if arrived.len() as i64 >= self.number[barrier.index()] {
                        arrived.clear();
                    }
                    state.set_arrived(barrier, arrived);
                }
                // The count is known from the beginning: see `Model::new`.
                OnBarrier::Init(_) | OnBarrier::Exit => {}
            },
            Effect::Semaphore(semaphore, act) => match act {
                OnSemaphore::Wait => state.set_value(semaphore, state.value(semaphore) - 1),
                OnSemaphore::Post => state.set_value(semaphore, state.value(semaphore) + 1),
                // The first value is known from the beginning: see `Model::new`.
                OnSemaphore::Init(_) | OnSemaphore::FailedWait => {}
            },
            Effect::Memory(touch) => {
                if touch.writes && !state.writers.is_empty() {
                    for location in self.written_locations(event) {
                        state.set_writer(location, event);
                    }
                }
            }
            Effect::Thread(_) | Effect::Channel(..) | Effect::Local => {}
        }
        state.advance(thread);
        event
    }

    /// The threads whose holds keep this event from acquiring its lock. Empty when it could be
    /// acquired, or the event acquires none.
    pub fn holders_against(&self, state: &State, event: EventIndex) -> Vec<ThreadId> {
        let thread = self.thread_of(event);
        let Some((lock, mode)) = self.op(event).acquires() else {
            return Vec::new();
        };
        match mode {
            Mode::Write => {
                let hold = state.hold(lock);
                let mut holders: Vec<_> = hold.readers.iter().map(|reader| reader.0).collect();
                holders.extend(self.writer_against(state, lock).filter(|&holder| {
                    holder != thread || self.kind(lock) != ObjectKind::RecursiveMutex
                }));
                holders
            }
            Mode::Read => self.writer_against(state, lock).into_iter().collect(),
        }
    }

    fn can_acquire(&self, state: &State, thread: ThreadId, lock: ObjectId, mode: Mode) -> bool {
        let writer = self.writer_against(state, lock);
        match mode {
            Mode::Write => {
                let free = match writer {
                    None => true,
                    Some(holder) => {
                        holder == thread && self.kind(lock) == ObjectKind::RecursiveMutex
                    }
                };
                free && state.hold(lock).readers.is_empty()
            }
            Mode::Read => writer.is_none(),
        }
    }

    fn writer_against(&self, state: &State, lock: ObjectId) -> Option<ThreadId> {
        let (holder, _) = state.hold(lock).writer?;
        let given_up = self.kind(lock) == ObjectKind::RobustMutex && self.has_ended(state, holder);
        (!given_up).then_some(holder)
    }

    /// Whether the thread's last event is its end, and has happened.
    pub fn has_ended(&self, state: &State, thread: ThreadId) -> bool {
        let events = &self.threads[thread.index()];
        state.position(thread) == events.len()
            && events.last().is_some_and(|&last| self.op(last) == Op::End)
    }

    fn is_fork_of(&self, event: EventIndex, thread: ThreadId) -> bool {
        self.op(event) == Op::Fork(thread)
    }

    /// The condition that this `Unlock` begins to wait for, if it does.
    pub fn enters_queue(&self, unlock: EventIndex) -> Option<ObjectId> {
        let events = &self.threads[self.thread_of(unlock).index()];
        let next = self.op(*events.get(self.position_of(unlock) + 1)?);
        let Effect::Condition(condition, OnCondition::Wait) = next.effect() else {
            return None;
        };
        Some(condition)
    }
}

fn acquire(hold: &mut Hold, thread: ThreadId, mode: Mode) {
    match mode {
        Mode::Write => {
            let depth = match hold.writer {
                Some((holder, depth)) if holder == thread => depth,
                // A robust mutex whose holder has ended.
                _ => 0,
            };
            hold.writer = Some((thread, depth + 1));
        }
        Mode::Read => match hold.readers.iter_mut().find(|reader| reader.0 == thread) {
            Some(reader) => reader.1 += 1,
            None => hold.readers.push((thread, 1)),
        },
    }
}

fn release(hold: &mut Hold, thread: ThreadId) {
    if let Some((holder, depth)) = &mut hold.writer
        && *holder == thread
    {
        *depth -= 1;
        if *depth == 0 {
            hold.writer = None;
        }
    } else if let Some(i) = hold.readers.iter().position(|reader| reader.0 == thread) {
        hold.readers[i].1 -= 1;
        if hold.readers[i].1 == 0 {
            hold.readers.swap_remove(i);
        }
    }
}

fn insert_sorted(threads: &mut Vec<ThreadId>, thread: ThreadId) {
    let at = threads.partition_point(|&other| other < thread);
    threads.insert(at, thread);
}

fn without(threads: &[ThreadId], thread: ThreadId) -> Vec<ThreadId> {
    threads
        .iter()
        .copied()
        .filter(|&other| other != thread)
        .collect()
}
