//! The part of a trace that can matter for deadlocks, in the optimistic meaning.
//!
//! Accesses and other local events are left out. So are locks that no thread ever holds while it
//! does something that may block: a thread that holds such a lock can continue until it releases it,
//! so in a deadlock the lock is free. A lock is erased only after the locks that are acquired inside
//! its critical sections, so cycles are kept. Everything else in a section of an erased lock only
//! lets other threads continue (a post, a fork, an unlock). A whole section can therefore be put
//! where its first event was, which turns a schedule of the projection into one of the full trace.

use norns_model::lock_set::LockSets;
use norns_model::{Bug, Model, Witness};
use norns_trace::effect::{OnLock, OnOnce, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectKind, ThreadId, Trace};
use rustc_hash::FxHashSet;

pub struct Projection {
    pub trace: Trace,
    /// For every event of the projection, the same event in the full trace.
    events: Vec<EventIndex>,
    /// For every object, whether it is an erased lock.
    erased: Vec<bool>,
}

impl Projection {
    /// `model` has to be optimistic.
    pub fn of(model: &Model, lock_sets: &LockSets) -> Projection {
        let mut ordered: FxHashSet<EventIndex> = FxHashSet::default();
        for &(later, earlier) in model.orders_between_threads() {
            // Forks and joins are kept in any case.
            let is_join = matches!(model.op(later).effect(), Effect::Thread(OnThread::Join(_)));
            let is_fork = matches!(
                model.op(earlier).effect(),
                Effect::Thread(OnThread::Fork(_))
            );
            if !is_join && !is_fork {
                ordered.extend([later, earlier]);
            }
        }
        let erased = erased(model, lock_sets, &ordered);
        let mut events = Vec::new();
        let mut trace = Trace {
            events: Vec::new(),
            values: Vec::new(),
            origins: Vec::new(),
            ..model.trace.clone()
        };
        for (i, &event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let effect = event.op.effect();
            let is_left_out = match effect {
                Effect::Lock(lock, OnLock::Acquire(_) | OnLock::Release) => erased[lock.index()],
                Effect::Lock(_, OnLock::FailedAcquire(_))
                | Effect::Thread(_)
                | Effect::Once(..)
                | Effect::Condition(..)
                | Effect::Barrier(..)
                | Effect::Semaphore(..)
                | Effect::Channel(..)
                | Effect::Memory(_)
                | Effect::Local => is_local(effect),
            };
            if !is_left_out || ordered.contains(&here) {
                trace.events.push(event);
                events.push(here);
            }
        }
        Projection {
            trace,
            events,
            erased,
        }
    }

    pub fn erased_locks(&self) -> usize {
        self.erased.iter().filter(|&&erased| erased).count()
    }

    /// The same witness for the full trace.
    pub fn restore(&self, model: &Model, lock_sets: &LockSets, witness: &Witness) -> Witness {
        let mut restored = Restored {
            model,
            lock_sets,
            erased: &self.erased,
            positions: vec![0; model.threads.len()],
            schedule: Vec::new(),
        };
        let original = |event: EventIndex| self.events[event.index()];
        for &event in &witness.schedule {
            let event = original(event);
            if let Effect::Thread(OnThread::Join(child)) = model.op(event).effect() {
                restored.go_to(child, model.threads[child.index()].len());
            }
            restored.go_to(model.thread_of(event), model.position_of(event) + 1);
            restored.finish_sections(model.thread_of(event));
        }
        let bug = witness.bug.map_events(|&event| original(event));
        if let Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } = &bug {
            for &event in blocked {
                restored.go_to(model.thread_of(event), model.position_of(event));
            }
        }
        Witness {
            schedule: restored.schedule,
            bug,
        }
    }
}

struct Restored<'a> {
    model: &'a Model<'a>,
    lock_sets: &'a LockSets,
    erased: &'a [bool],
    positions: Vec<usize>,
    schedule: Vec<EventIndex>,
}

impl Restored<'_> {
    fn go_to(&mut self, thread: ThreadId, position: usize) {
        let events = &self.model.threads[thread.index()];
        let now = self.positions[thread.index()];
        if now < position {
            self.schedule.extend(&events[now..position]);
            self.positions[thread.index()] = position;
        }
    }

    /// Advances the thread until it holds no erased lock.
    fn finish_sections(&mut self, thread: ThreadId) {
        loop {
            let now = self.positions[thread.index()];
            let Some(&next) = self.model.threads[thread.index()].get(now) else {
                return;
            };
            let held = self.lock_sets.set(self.lock_sets.before(next));
            if !held.iter().any(|&(lock, _)| self.erased[lock.index()]) {
                return;
            }
            self.go_to(thread, now + 1);
        }
    }
}

/// Whether an operation neither waits for other threads nor lets them continue, apart from the direct
/// orders of the model.
fn is_local(effect: Effect) -> bool {
    match effect {
        Effect::Channel(..) | Effect::Memory(_) | Effect::Local => true,
        Effect::Thread(act) => match act {
            OnThread::Detach(_) => true,
            OnThread::Start
            | OnThread::End
            | OnThread::Fork(_)
            | OnThread::Join(_)
            | OnThread::FailedJoin(_) => false,
        },
        Effect::Lock(..)
        | Effect::Once(..)
        | Effect::Condition(..)
        | Effect::Barrier(..)
        | Effect::Semaphore(..) => false,
    }
}

/// For every object, whether it is a lock that can be left out.
fn erased(model: &Model, lock_sets: &LockSets, ordered: &FxHashSet<EventIndex>) -> Vec<bool> {
    let objects = &model.trace.objects;
    let mut erased = vec![false; objects.len()];
    // What can never be left out.
    let mut kept: Vec<bool> = objects
        .iter()
        .map(|object| {
            matches!(
                object.kind,
                ObjectKind::RobustMutex
                    | ObjectKind::Once
                    | ObjectKind::Condition
                    | ObjectKind::Barrier
                    | ObjectKind::Semaphore
                    | ObjectKind::Channel
            )
        })
        .collect();
    for thread in model.thread_ids() {
        for &(lock, _) in lock_sets.set(lock_sets.at_end(thread)) {
            kept[lock.index()] = true;
        }
    }
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        if let Effect::Lock(lock, act) = event.op.effect() {
            kept[lock.index()] |= match act {
                OnLock::FailedAcquire(_) => true,
                OnLock::Release => model.enters_queue(here).is_some(),
                OnLock::Acquire(_) => false,
            };
        }
    }
    loop {
        let mut erasable = kept.iter().map(|kept| !kept).collect::<Vec<bool>>();
        for (i, event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let held = lock_sets.set(lock_sets.before(here));
            if held.is_empty() {
                continue;
            }
            let effect = event.op.effect();
            let is_harmless = match effect {
                Effect::Lock(lock, OnLock::Acquire(_)) => {
                    let again = held.iter().any(|hold| hold.0 == lock)
                        && model.kind(lock) == ObjectKind::RecursiveMutex;
                    again || erased[lock.index()]
                }
                Effect::Lock(_, OnLock::Release) => model.enters_queue(here).is_none(),
                Effect::Semaphore(_, OnSemaphore::Post)
                | Effect::Thread(OnThread::Fork(_))
                | Effect::Once(_, OnOnce::End) => true,
                Effect::Lock(_, OnLock::FailedAcquire(_))
                | Effect::Semaphore(..)
                | Effect::Thread(_)
                | Effect::Once(..)
                | Effect::Condition(..)
                | Effect::Barrier(..)
                | Effect::Channel(..)
                | Effect::Memory(_)
                | Effect::Local => is_local(effect) && !ordered.contains(&here),
            };
            if !is_harmless {
                for &(lock, _) in held {
                    erasable[lock.index()] = false;
                }
            }
        }
        if erasable == erased {
            return erased;
        }
        erased = erasable;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_model::Meaning;
    use norns_model::script::trace;

    #[track_caller]
    fn check(script: &str, expected: &str) {
        let trace = trace(script);
        let model = Model::new(&trace, Meaning::Optimistic);
        let projection = Projection::of(&model, &LockSets::of(&trace));
        let locks = projection.erased.iter().zip(&trace.objects);
        let names: Vec<_> = locks
            .filter(|(erased, _)| **erased)
            .map(|(_, lock)| lock.name.as_str())
            .collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn locks_that_no_deadlock_needs() {
        check("A: lock m, write x, unlock m", "m");
        check("A: lock m, lock n, unlock n, unlock m", "m n");
        check(
            "A: lock m, lock n, unlock n, unlock m\nB: lock n, lock m, unlock m, unlock n",
            "",
        );
        check(
            "A: lock m, sem-wait s, lock n, unlock n, unlock m, post s",
            "n",
        );
        check("A: lock m, signal c, unlock m", "");
        check("A: lock m, post s, unlock m", "m");
        check("A: lock m", "");
    }
}
