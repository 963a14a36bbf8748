//! The bugs that a state shows: races, cycles of locks, and waits that nothing can end.
//!
//! A wait that nothing can end is shown by a closed set of blocked threads: only threads of the
//! set could do what would unblock one of them. A closed set stays closed, so every such bug is
//! still visible in a state in which no thread can step; the minimal closed sets are reported. A
//! cycle of locks is a closed set as well, but is reported as a lock deadlock.
//!
//! A thread that has left the trace (`Readiness::Diverged`) is assumed to still do what it does in
//! the trace, and a thread whose end is not in the trace to release the locks that it holds.

use std::collections::BTreeSet;

use norns_trace::effect::{OnBarrier, OnCondition, OnLock, OnOnce, OnSemaphore};
use norns_trace::{Effect, EventIndex, Op, ThreadId};

use crate::model::Model;
use crate::state::{OnceState, State};
use crate::step::Readiness;

/// The subsets of at most this many blocked threads are enumerated to find the minimal closed
/// ones. Of more threads only the largest closed set is reported.
const MOST_LISTED: usize = 14;

/// What keeps a blocked thread blocked.
enum Unblocking {
    /// Blocked as long as at least one of these threads is: each holds something against it.
    AnyOf(Vec<ThreadId>),
    /// Blocked as long as all of these threads are: any of them could let it go on.
    AllOf(Vec<ThreadId>),
    /// Blocked as long as fewer than `than` of these threads can still act.
    Fewer { than: usize, of: Vec<ThreadId> },
    /// Nothing can unblock it.
    Nothing,
}

impl Model<'_> {
    /// The racy pairs of this state, the earlier event first.
    pub fn races_at(&self, state: &State) -> Vec<(EventIndex, EventIndex)> {
        let next: Vec<EventIndex> = self
            .thread_ids()
            .filter_map(|thread| self.poised(state, thread))
            .filter(|&event| crate::location::Touch::of(self.op(event)).is_some())
            .collect();
        let mut races = Vec::new();
        for (i, &one) in next.iter().enumerate() {
            for &other in &next[i + 1..] {
                if self.conflict(one, other) {
                    races.push((one.min(other), one.max(other)));
                }
            }
        }
        races
    }

    /// The cycles of threads that wait for each other's locks, each beginning with its smallest
    /// event.
    pub fn lock_cycles_at(&self, state: &State) -> Vec<Vec<EventIndex>> {
        let blocked: Vec<(EventIndex, Vec<ThreadId>)> = self
            .thread_ids()
            .filter_map(|thread| self.poised(state, thread))
            .map(|event| (event, self.holders_against(state, event)))
            .filter(|(_, holders)| !holders.is_empty())
            .collect();
        let mut cycles = Vec::new();
        for start in 0..blocked.len() {
            self.extend_cycle(&blocked, &mut vec![start], &mut cycles);
        }
        cycles
    }

    fn extend_cycle(
        &self,
        blocked: &[(EventIndex, Vec<ThreadId>)],
        path: &mut Vec<usize>,
        cycles: &mut Vec<Vec<EventIndex>>,
    ) {
        let (start, last) = (path[0], path[path.len() - 1]);
        for next in 0..blocked.len() {
            let (event, _) = blocked[next];
            if !blocked[last].1.contains(&self.thread_of(event)) || event < blocked[start].0 {
                continue;
            }
            if next == start {
                cycles.push(path.iter().map(|&i| blocked[i].0).collect());
            } else if !path.contains(&next) {
                path.push(next);
                self.extend_cycle(blocked, path, cycles);
                path.pop();
            }
        }
    }

    /// The minimal closed sets of blocked threads that are no cycles of locks: their next events,
    /// sorted.
    pub fn stuck_at(&self, state: &State) -> BTreeSet<Vec<EventIndex>> {
        let closed = self.largest_closed_set(state);
        let mut found = BTreeSet::new();
        if closed
            .iter()
            .all(|&(thread, _)| self.acquires_lock(state, thread))
        {
            // Every minimal closed set among these is a cycle, or waits for a thread that ended.
            for (thread, unblocking) in &closed {
                if matches!(unblocking, Unblocking::Nothing) {
                    found.insert(self.next(state, *thread).into_iter().collect());
                }
            }
            return found;
        }
        if closed.len() > MOST_LISTED {
            let events = closed
                .iter()
                .filter(|(thread, _)| self.is_blocked(state, *thread));
            let mut events: Vec<_> = events
                .filter_map(|&(thread, _)| self.next(state, thread))
                .collect();
            events.sort_unstable();
            found.insert(events);
            return found;
        }
        let mut minimal: Vec<u32> = Vec::new();
        let mut sets: Vec<u32> = (1..1u32 << closed.len()).collect();
        sets.sort_by_key(|set| set.count_ones());
        for set in sets {
            let members: Vec<ThreadId> = members(&closed, set);
            if minimal.iter().any(|&smaller| smaller & !set == 0)
                || !closed
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| set & 1 << i != 0)
                    .all(|(_, (_, unblocking))| unblocking.stays_blocked(&members))
            {
                continue;
            }
            minimal.push(set);
            // Threads that are not born are in a closed set only as the reason of a join.
            let blocked: Vec<ThreadId> = members
                .into_iter()
                .filter(|&thread| self.is_blocked(state, thread))
                .collect();
            let ended_holder = |&thread: &ThreadId| {
                closed
                    .iter()
                    .any(|(t, u)| *t == thread && matches!(u, Unblocking::Nothing))
            };
            let cycle = blocked
                .iter()
                .all(|&thread| self.acquires_lock(state, thread))
                && !blocked.iter().any(ended_holder);
            if !cycle && !blocked.is_empty() {
                let mut events: Vec<_> = blocked
                    .iter()
                    .filter_map(|&thread| self.next(state, thread))
                    .collect();
                events.sort_unstable();
                found.insert(events);
            }
        }
        found
    }

    fn is_blocked(&self, state: &State, thread: ThreadId) -> bool {
        self.readiness(state, thread) == Readiness::Blocked
    }

    fn acquires_lock(&self, state: &State, thread: ThreadId) -> bool {
        let next = self.next(state, thread);
        next.is_some_and(|event| self.op(event).acquires().is_some())
    }

    fn largest_closed_set(&self, state: &State) -> Vec<(ThreadId, Unblocking)> {
        let mut set: Vec<(ThreadId, Unblocking)> = self
            .thread_ids()
            .filter(|&thread| {
                let readiness = self.readiness(state, thread);
                matches!(readiness, Readiness::Blocked | Readiness::Unborn)
            })
            .map(|thread| (thread, self.unblocking(state, thread)))
            .collect();
        loop {
            let members: Vec<ThreadId> = set.iter().map(|member| member.0).collect();
            set.retain(|(_, unblocking)| unblocking.stays_blocked(&members));
            if set.len() == members.len() {
                return set;
            }
        }
    }

    fn unblocking(&self, state: &State, thread: ThreadId) -> Unblocking {
        let event = self
            .next(state, thread)
            .expect("a blocked thread has a next event");
        for earlier in self.needed_before(event) {
            if !self.executed(state, earlier) {
                return Unblocking::AnyOf(vec![self.thread_of(earlier)]);
            }
        }
        let with_future = |wanted: &dyn Fn(Op) -> bool| -> Vec<ThreadId> {
            self.thread_ids()
                .filter(|&other| other != thread)
                .filter(|&other| {
                    let rest = &self.threads[other.index()][state.position(other)..];
                    rest.iter().any(|&event| wanted(self.op(event)))
                })
                .collect()
        };
        let never = Unblocking::AnyOf(Vec::new());
        match self.op(event).effect() {
            Effect::Lock(_, act) => match act {
                OnLock::Acquire(_) => {
                    let holders = self.holders_against(state, event);
                    if holders.iter().any(|&holder| self.has_ended(state, holder)) {
                        Unblocking::Nothing
                    } else {
                        Unblocking::AnyOf(holders)
                    }
                }
                OnLock::FailedAcquire(_) | OnLock::Release => never,
            },
            Effect::Semaphore(semaphore, act) => match act {
                OnSemaphore::Wait => Unblocking::AllOf(with_future(&|op| {
                    op.effect() == Effect::Semaphore(semaphore, OnSemaphore::Post)
                })),
                OnSemaphore::Init(_) | OnSemaphore::FailedWait | OnSemaphore::Post => never,
            },
            Effect::Condition(condition, act) => match act {
                OnCondition::Wait => Unblocking::AllOf(with_future(&|op| {
                    op == Op::Signal(condition) || op == Op::Broadcast(condition)
                })),
                OnCondition::TimedOut | OnCondition::Signal | OnCondition::Broadcast => never,
            },
            Effect::Barrier(barrier, act) => match act {
                OnBarrier::Exit => Unblocking::Fewer {
                    than: self.number[barrier.index()] as usize - state.arrived(barrier).len(),
                    of: with_future(&|op| op == Op::BarrierEnter(barrier)),
                },
                OnBarrier::Init(_) | OnBarrier::Enter => never,
            },
            Effect::Once(once, act) => match (act, state.once(once)) {
                (OnOnce::Pass, OnceState::RunBy(runner)) => Unblocking::AnyOf(vec![runner]),
                (OnOnce::Pass | OnOnce::Begin | OnOnce::End, _) => never,
            },
            // A join that needs the end of a thread was answered above.
            Effect::Thread(_) | Effect::Channel(..) | Effect::Memory(_) | Effect::Local => never,
        }
    }
}

impl Unblocking {
    fn stays_blocked(&self, members: &[ThreadId]) -> bool {
        match self {
            Unblocking::AnyOf(threads) => threads.iter().any(|t| members.contains(t)),
            Unblocking::AllOf(threads) => threads.iter().all(|t| members.contains(t)),
            Unblocking::Fewer { than, of } => {
                of.iter().filter(|t| !members.contains(t)).count() < *than
            }
            Unblocking::Nothing => true,
        }
    }
}

fn members(closed: &[(ThreadId, Unblocking)], set: u32) -> Vec<ThreadId> {
    let chosen = closed.iter().enumerate().filter(|(i, _)| set & 1 << i != 0);
    chosen.map(|(_, member)| member.0).collect()
}
