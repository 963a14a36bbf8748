//! The cone of influence of a goal: how far each thread must go, and how far it may.
//!
//! A goal is a set of events of different threads that are all to be next at the same time. It
//! determines what must have happened in any schedule that reaches it: the events before them in
//! their threads, what those need of other threads (forks, ends of joined threads, the writes that
//! their reads saw), and the critical sections of other threads that have to be over before a goal
//! thread enters the section in which it stops. That is `need`. If it asks a goal thread to go past
//! its goal, the goal cannot be reached.
//!
//! `limit` is how far it makes sense to go. A thread that has done what is needed and holds no lock
//! need not continue, unless it does something that another thread may wait for: a post, a signal,
//! an entry to a barrier, a lock that makes a try-lock fail. A schedule stays legal if every thread
//! is cut at its limit: what the remaining events need lies below the limits, and cut threads hold
//! no locks.

use norns_model::Model;
use norns_model::lock_set::Mode;
use norns_trace::effect::{OnBarrier, OnCondition, OnLock, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, ObjectKind, ThreadId};
use rustc_hash::FxHashSet;

use crate::exact::index::{Class, Index, ThreadPositions};

pub struct Cone {
    /// For every thread, how many of its events must take place.
    pub need: Vec<u32>,
    /// For every thread, how many of its events may take place.
    pub limit: Vec<u32>,
    /// The locks that the goal threads hold at the goal.
    pub held_at_goal: Vec<HeldAtGoal>,
}

/// A lock that a goal thread acquires and holds until it stops.
#[derive(Clone, Copy, Debug)]
pub struct HeldAtGoal {
    pub thread: ThreadId,
    /// The position of the acquisition.
    pub position: u32,
    pub lock: ObjectId,
    pub mode: Mode,
}

impl Cone {
    /// `None` if no schedule reaches the goal.
    pub fn of(model: &Model, index: &Index, goal: &[EventIndex]) -> Option<Cone> {
        let mut builder = Builder {
            model,
            index,
            goal,
            targets: vec![None; model.threads.len()],
        };
        for &event in goal {
            let thread = model.thread_of(event).index();
            builder.targets[thread] = Some(model.position_of(event) as u32);
        }
        let held_at_goal = builder.held_at_goal();
        let need = builder.need(&held_at_goal)?;
        let limit = builder.limit(&need);
        Some(Cone {
            need,
            limit,
            held_at_goal,
        })
    }
}

struct Builder<'a, 't> {
    model: &'a Model<'t>,
    index: &'a Index,
    goal: &'a [EventIndex],
    /// For every goal thread, the position of its goal.
    targets: Vec<Option<u32>>,
}

impl Builder<'_, '_> {
    fn held_at_goal(&self) -> Vec<HeldAtGoal> {
        let mut found = Vec::new();
        for &event in self.goal {
            let thread = self.model.thread_of(event);
            let position = self.model.position_of(event) as u32;
            let sets = &self.index.lock_sets;
            for &(lock, mode) in sets.set(sets.before(event)) {
                let acquisitions = self.index.operations(lock, Class::Acquire);
                let own = acquisitions.iter().find(|of| of.thread == thread);
                let Some(own) = own else { continue };
                let before = own.positions.partition_point(|&p| p < position);
                if before > 0 {
                    let last = own.positions[before - 1];
                    let last = self.model.threads[thread.index()][last as usize];
                    let outermost = sets.outermost(last);
                    found.push(HeldAtGoal {
                        thread,
                        position: self.model.position_of(outermost) as u32,
                        lock,
                        mode,
                    });
                }
            }
        }
        found
    }

    fn need(&self, held_at_goal: &[HeldAtGoal]) -> Option<Vec<u32>> {
        let mut need = vec![0; self.targets.len()];
        let mut done = vec![0; self.targets.len()];
        for &event in self.goal {
            let thread = self.model.thread_of(event);
            need[thread.index()] = self.model.position_of(event) as u32;
            // A join can be next before the thread that it waits for has ended.
            let effect = self.model.op(event).effect();
            if !matches!(effect, Effect::Thread(OnThread::Join(_))) {
                for earlier in self.model.needed_before(event) {
                    self.raise(&mut need, earlier);
                }
            }
        }
        loop {
            let mut changed = false;
            for thread in 0..need.len() {
                while done[thread] < need[thread] {
                    let event = self.model.threads[thread][done[thread] as usize];
                    done[thread] += 1;
                    self.for_needs_of(event, &mut |earlier| self.raise(&mut need, earlier));
                    changed = true;
                }
            }
            for held in held_at_goal {
                changed |= self.end_sections(&mut need, held)?;
            }
            let past = |(t, target): (usize, &Option<u32>)| target.is_some_and(|at| need[t] > at);
            if self.targets.iter().enumerate().any(past) {
                return None;
            }
            if !changed {
                return Some(need);
            }
        }
    }

    fn raise(&self, need: &mut [u32], event: EventIndex) {
        let thread = self.model.thread_of(event).index();
        need[thread] = need[thread].max(self.model.position_of(event) as u32 + 1);
    }

    /// Calls `then` with the events of other threads that must happen before this one.
    fn for_needs_of(&self, event: EventIndex, then: &mut dyn FnMut(EventIndex)) {
        self.index.order.needed_before(event).for_each(&mut *then);
        self.model
            .must_see(event)
            .filter_map(|(_, writer)| writer)
            .for_each(then);
    }

    /// A thread that must acquire a lock which a goal thread holds at its goal must also have
    /// released it. Returns whether that changed `need`; `None` if such a thread never releases it.
    fn end_sections(&self, need: &mut [u32], held: &HeldAtGoal) -> Option<bool> {
        let mut changed = false;
        for ThreadPositions { thread, positions } in
            self.index.operations(held.lock, Class::Acquire)
        {
            if *thread == held.thread {
                continue;
            }
            let events = &self.model.threads[thread.index()];
            let before = positions.partition_point(|&p| p < need[thread.index()]);
            let Some(&last) = positions[..before].last() else {
                continue;
            };
            let acquisition = self.index.lock_sets.outermost(events[last as usize]);
            let reads = matches!(
                self.model.op(acquisition).effect(),
                Effect::Lock(_, OnLock::Acquire(Mode::Read))
            );
            if held.mode == Mode::Read && reads {
                continue;
            }
            match self.index.lock_sets.release_of(acquisition) {
                Some(release) => {
                    let release = self.model.position_of(release) as u32 + 1;
                    if need[thread.index()] < release {
                        need[thread.index()] = release;
                        changed = true;
                    }
                }
                // The end of a thread releases its robust mutexes.
                None if self.model.kind(held.lock) == ObjectKind::RobustMutex => {}
                None => return None,
            }
        }
        Some(changed)
    }

    fn limit(&self, need: &[u32]) -> Vec<u32> {
        let mut limit: Vec<u32> = need.to_vec();
        let mut done = vec![0; need.len()];
        let mut helped: FxHashSet<(ObjectId, Class)> = FxHashSet::default();
        loop {
            let mut changed = false;
            for thread in 0..limit.len() {
                limit[thread] = match self.targets[thread] {
                    Some(target) => target,
                    None => self
                        .index
                        .free_from(ThreadId::from_index(thread), limit[thread]),
                };
                while done[thread] < limit[thread] {
                    let event = self.model.threads[thread][done[thread] as usize];
                    done[thread] += 1;
                    changed = true;
                    self.for_needs_of(event, &mut |earlier| self.raise(&mut limit, earlier));
                    if let Some((object, class)) = helpers(self.model.op(event).effect())
                        && helped.insert((object, class))
                    {
                        self.reach_all(&mut limit, self.index.operations(object, class));
                    }
                }
            }
            if !changed {
                return limit;
            }
        }
    }

    /// Raises the limits so that all these operations can take place.
    fn reach_all(&self, limit: &mut [u32], operations: &[ThreadPositions]) {
        for ThreadPositions { thread, positions } in operations {
            let last = positions.last().map_or(0, |&last| last + 1);
            limit[thread.index()] = limit[thread.index()].max(last);
        }
    }
}

/// The operations of other threads that may make this one possible.
fn helpers(effect: Effect) -> Option<(ObjectId, Class)> {
    match effect {
        Effect::Semaphore(semaphore, act) => match act {
            OnSemaphore::Wait => Some((semaphore, Class::SemPost)),
            OnSemaphore::FailedWait => Some((semaphore, Class::SemWait)),
            OnSemaphore::Init(_) | OnSemaphore::Post => None,
        },
        Effect::Condition(condition, act) => match act {
            OnCondition::Wait => Some((condition, Class::Wake)),
            OnCondition::TimedOut | OnCondition::Signal | OnCondition::Broadcast => None,
        },
        Effect::Barrier(barrier, act) => match act {
            OnBarrier::Exit => Some((barrier, Class::Enter)),
            OnBarrier::Init(_) | OnBarrier::Enter => None,
        },
        Effect::Lock(lock, act) => match act {
            OnLock::FailedAcquire(_) => Some((lock, Class::Acquire)),
            // Other threads release the lock anyway, since they stop only where they hold none.
            OnLock::Acquire(_) | OnLock::Release => None,
        },
        // Forks, joins, `once`, receives and reads: must-happen-before and `must_see` name the events
        // needed.
        Effect::Thread(_)
        | Effect::Once(..)
        | Effect::Channel(..)
        | Effect::Memory(_)
        | Effect::Local => None,
    }
}
