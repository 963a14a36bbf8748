//! What of a trace can matter for deadlocks, in the optimistic meaning.
//!
//! Accesses and other local events are left out. So are locks that no thread ever holds while it
//! does something that may block: whoever holds such a lock can go on until it gives it up, so in
//! a deadlock the lock is free. A lock counts as erased only
//! after the locks taken inside its critical sections are, so cycles stay. What else may happen
//! in a section of an erased lock only ever lets others go on (a post, a fork, an unlock);
//! therefore whole sections can be put where their first event was, which makes a schedule of the
//! full trace from one of the projection.

use norns_model::lock_set::LockSets;
use norns_model::{Bug, Model, Witness};
use norns_trace::{EventIndex, ObjectKind, Op, ThreadId, Trace};
use rustc_hash::FxHashSet;

pub struct Projection {
    pub trace: Trace,
    /// For every event of the projection its event in the full trace.
    events: Vec<EventIndex>,
    /// By lock.
    erased: Vec<bool>,
}

impl Projection {
    /// `model` is optimistic.
    pub fn of(model: &Model, lock_sets: &LockSets) -> Projection {
        let mut ordered: FxHashSet<EventIndex> = FxHashSet::default();
        for &(later, earlier) in model.orders_between_threads() {
            let by_thread =
                matches!(model.op(later), Op::Join(_)) || matches!(model.op(earlier), Op::Fork(_));
            if !by_thread {
                ordered.extend([later, earlier]);
            }
        }
        let erased = erased(model, lock_sets, &ordered);
        let mut events = Vec::new();
        let mut trace = Trace {
            events: Vec::new(),
            values: Vec::new(),
            ..model.trace.clone()
        };
        for (i, &event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let gone = match event.op {
                Op::Lock(lock) | Op::ReadLock(lock) | Op::Unlock(lock) => erased[lock.index()],
                op => is_local(op),
            };
            if !gone || ordered.contains(&here) {
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

    /// The witness for the full trace.
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
            if let Op::Join(child) = model.op(event) {
                restored.go_to(child, model.threads[child.index()].len());
            }
            restored.go_to(model.thread_of(event), model.position_of(event) + 1);
            restored.finish_sections(model.thread_of(event));
        }
        let originals = |events: &[EventIndex]| events.iter().map(|&e| original(e)).collect();
        let bug = match &witness.bug {
            Bug::LockDeadlock { blocked } => Bug::LockDeadlock {
                blocked: originals(blocked),
            },
            Bug::Stuck { blocked } => Bug::Stuck {
                blocked: originals(blocked),
            },
            Bug::Race { first, second } => Bug::Race {
                first: original(*first),
                second: original(*second),
            },
        };
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

    /// Goes on until the thread holds no erased lock.
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

fn is_local(op: Op) -> bool {
    matches!(
        op,
        Op::Read(_)
            | Op::Write(_)
            | Op::Allocate(_)
            | Op::Free(_)
            | Op::Atomic { .. }
            | Op::Fence(_)
            | Op::Enter
            | Op::Leave
            | Op::Custom(_)
            | Op::Detach(_)
    )
}

/// By lock: whether it can be left out.
fn erased(model: &Model, lock_sets: &LockSets, ordered: &FxHashSet<EventIndex>) -> Vec<bool> {
    let objects = &model.trace.objects;
    let mut erased = vec![false; objects.len()];
    // Locks that never can be.
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
        match event.op {
            Op::FailedLock(lock) | Op::FailedReadLock(lock) => kept[lock.index()] = true,
            Op::Unlock(lock) if model.enters_queue(here).is_some() => kept[lock.index()] = true,
            _ => {}
        }
    }
    loop {
        let mut can = kept.iter().map(|kept| !kept).collect::<Vec<bool>>();
        for (i, event) in model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let held = lock_sets.set(lock_sets.before(here));
            if held.is_empty() {
                continue;
            }
            let harmless = match event.op {
                Op::Lock(lock) | Op::ReadLock(lock) => {
                    let again = held.iter().any(|hold| hold.0 == lock)
                        && model.kind(lock) == ObjectKind::RecursiveMutex;
                    again || erased[lock.index()]
                }
                Op::Unlock(_) => model.enters_queue(here).is_none(),
                Op::SemPost(_) | Op::Fork(_) | Op::OnceEnd(_) => true,
                op => is_local(op) && !ordered.contains(&here),
            };
            if !harmless {
                for &(lock, _) in held {
                    can[lock.index()] = false;
                }
            }
        }
        if can == erased {
            return erased;
        }
        erased = can;
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
