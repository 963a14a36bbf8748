//! The step rules: when a thread can take its next step, and what the step changes.
//!
//! The processes of Carril (2017), section 4.4, are the specification; the table in
//! `tests/model/step_rules.rs` fixes the rules case by case, also those beyond it:
//!
//! - A mutex that is not recursive blocks its own holder for ever. A robust mutex is free again
//!   when its holder has ended. What a thread does not hold it can release without effect.
//! - A reader-writer lock prefers nobody: a waiting writer does not keep readers out.
//! - A failed operation needs a state in which it fails. Where it would succeed, the thread has
//!   left the trace: it is not blocked, and nobody knows what it does next.
//! - A signal with nobody asleep is lost; otherwise it wakes one of the sleepers, whichever. A
//!   wait that woke spuriously in the trace may do so at any time. A wait that timed out never
//!   counts as asleep.
//! - A barrier may be entered again before everybody has left it.
//! - The initialiser of a `once` is run by the thread that ran it in the trace.
//! - In the faithful meaning a read needs the write that it saw as the last one.

use norns_trace::{EventIndex, ObjectId, ObjectKind, Op, ThreadId};

use crate::model::Model;
use crate::state::{OnceState, State};

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

    /// The next event of a thread that has come to it: born, and with its memory allocated.
    /// Whether it can take the step is another question.
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
        match self.op(event) {
            Op::Lock(lock) => ready_or(self.can_lock(state, thread, lock), Readiness::Blocked),
            Op::FailedLock(lock) => {
                ready_or(!self.can_lock(state, thread, lock), Readiness::Diverged)
            }
            Op::ReadLock(lock) => ready_or(self.can_read_lock(state, lock), Readiness::Blocked),
            Op::FailedReadLock(lock) => {
                ready_or(!self.can_read_lock(state, lock), Readiness::Diverged)
            }
            Op::OnceBegin(once) => {
                ready_or(state.once(once) == OnceState::Idle, Readiness::Diverged)
            }
            Op::OncePass(once) => match state.once(once) {
                OnceState::Done => Readiness::Ready,
                OnceState::RunBy(_) => Readiness::Blocked,
                OnceState::Idle => Readiness::Diverged,
            },
            Op::Wait(condition) => {
                let asleep = state.asleep(condition).contains(&thread);
                ready_or(
                    !asleep || !self.wait_needs_signal(event),
                    Readiness::Blocked,
                )
            }
            Op::BarrierExit(barrier) => ready_or(
                !state.arrived(barrier).contains(&thread),
                Readiness::Blocked,
            ),
            Op::SemWait(semaphore) => ready_or(state.value(semaphore) > 0, Readiness::Blocked),
            Op::FailedSemWait(semaphore) => {
                ready_or(state.value(semaphore) <= 0, Readiness::Diverged)
            }
            Op::FailedJoin(child) => ready_or(!self.has_ended(state, child), Readiness::Diverged),
            Op::Read(_) | Op::Atomic { .. } => {
                let same = self
                    .must_see(event)
                    .all(|(l, writer)| state.last_writer(l) == writer);
                ready_or(same, Readiness::Diverged)
            }
            Op::Start
            | Op::End
            | Op::Fork(_)
            | Op::Join(_)
            | Op::Detach(_)
            | Op::Unlock(_)
            | Op::OnceEnd(_)
            | Op::FailedWait(_)
            | Op::Signal(_)
            | Op::Broadcast(_)
            | Op::BarrierInit { .. }
            | Op::BarrierEnter(_)
            | Op::SemInit { .. }
            | Op::SemPost(_)
            | Op::Fence(_)
            | Op::Write(_)
            | Op::Allocate(_)
            | Op::Free(_)
            | Op::Enter
            | Op::Leave
            | Op::Custom(_) => Readiness::Ready,
        }
    }

    /// All steps that the thread can take now: none or one, or for a signal one a sleeper.
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

    /// Takes a step that `steps` gave.
    pub fn take(&self, state: &mut State, step: Step) -> EventIndex {
        let thread = step.thread;
        let event = self
            .next(state, thread)
            .expect("only a thread with a next event steps");
        match self.op(event) {
            Op::Lock(lock) => state.change_hold(lock, |hold| {
                let depth = match hold.writer {
                    Some((holder, depth)) if holder == thread => depth,
                    // A robust mutex whose holder has ended.
                    _ => 0,
                };
                hold.writer = Some((thread, depth + 1));
            }),
            Op::ReadLock(lock) => state.change_hold(lock, |hold| {
                match hold.readers.iter_mut().find(|reader| reader.0 == thread) {
                    Some(reader) => reader.1 += 1,
                    None => hold.readers.push((thread, 1)),
                }
            }),
            Op::Unlock(lock) => {
                state.change_hold(lock, |hold| release(hold, thread));
                if let Some(condition) = self.enters_queue(event) {
                    let mut asleep = state.asleep(condition).to_vec();
                    insert_sorted(&mut asleep, thread);
                    state.set_asleep(condition, asleep);
                }
            }
            Op::OnceBegin(once) => state.set_once(once, OnceState::RunBy(thread)),
            Op::OnceEnd(once) => state.set_once(once, OnceState::Done),
            Op::Wait(condition) if state.asleep(condition).contains(&thread) => {
                let rest = without(state.asleep(condition), thread);
                state.set_asleep(condition, rest);
            }
            Op::Signal(condition) => {
                if let Some(woken) = step.wakes {
                    let rest = without(state.asleep(condition), woken);
                    state.set_asleep(condition, rest);
                }
            }
            Op::Broadcast(condition) if !state.asleep(condition).is_empty() => {
                state.set_asleep(condition, Vec::new());
            }
            Op::BarrierEnter(barrier) => {
                let mut arrived = state.arrived(barrier).to_vec();
                insert_sorted(&mut arrived, thread);
                if arrived.len() as i64 >= self.number[barrier.index()] {
                    arrived.clear();
                }
                state.set_arrived(barrier, arrived);
            }
            Op::SemWait(semaphore) => state.set_value(semaphore, state.value(semaphore) - 1),
            Op::SemPost(semaphore) => state.set_value(semaphore, state.value(semaphore) + 1),
            Op::Write(_) | Op::Free(_) | Op::Allocate(_) | Op::Atomic { .. }
                if !state.writers.is_empty() =>
            {
                for location in self.written_locations(event) {
                    state.set_writer(location, event);
                }
            }
            _ => {}
        }
        state.advance(thread);
        event
    }

    /// The threads that hold the lock against this acquisition. Empty when it could be acquired.
    pub fn holders_against(&self, state: &State, event: EventIndex) -> Vec<ThreadId> {
        let thread = self.thread_of(event);
        match self.op(event) {
            Op::Lock(lock) => {
                let hold = state.hold(lock);
                let mut holders: Vec<_> = hold.readers.iter().map(|reader| reader.0).collect();
                holders.extend(self.writer_against(state, lock).filter(|&holder| {
                    holder != thread || self.kind(lock) != ObjectKind::RecursiveMutex
                }));
                holders
            }
            Op::ReadLock(lock) => self.writer_against(state, lock).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn can_lock(&self, state: &State, thread: ThreadId, lock: ObjectId) -> bool {
        let free = match self.writer_against(state, lock) {
            None => true,
            Some(holder) => holder == thread && self.kind(lock) == ObjectKind::RecursiveMutex,
        };
        free && state.hold(lock).readers.is_empty()
    }

    fn can_read_lock(&self, state: &State, lock: ObjectId) -> bool {
        self.writer_against(state, lock).is_none()
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
        match self.op(*events.get(self.position_of(unlock) + 1)?) {
            Op::Wait(condition) => Some(condition),
            _ => None,
        }
    }
}

fn release(hold: &mut crate::state::Hold, thread: ThreadId) {
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
