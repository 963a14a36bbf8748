//! The cone of influence of a goal: how far each thread must go, and how far it may.
//!
//! A goal is a set of events of different threads that must all be next at the same time. From
//! it follows what must have happened in any schedule that reaches it: the events before them in
//! their threads, what those need of other threads (forks, ends of joined threads, the writes
//! that their reads saw), and the other threads' critical sections that have to be over before a
//! goal thread enters the section in which it stops. That is `need`; when it asks a goal thread
//! to go past its goal, the goal cannot be reached.
//!
//! `limit` is how far it is of any use to go. A thread that has done what is needed and holds no
//! lock helps nobody by going on, unless it does what somebody may wait for (a post, a signal, an
//! entry to a barrier, a lock that a failed try-lock found held). Cutting every thread of a
//! schedule at its limit leaves a schedule that is still legal: what its events need lies below
//! the limits, and cut threads hold no locks.

use norns_model::Model;
use norns_model::lock_set::Mode;
use norns_trace::{EventIndex, ObjectId, Op, ThreadId};

use crate::exact::index::{Class, Index};

pub struct Cone {
    /// The events that must be next together.
    pub goal: Vec<EventIndex>,
    pub need: Vec<u32>,
    pub limit: Vec<u32>,
    /// For a goal thread the acquisitions after which it holds a lock until it stops: position,
    /// lock, and the mode in which it is held.
    pub last_acquisitions: Vec<(ThreadId, u32, ObjectId, Mode)>,
}

impl Cone {
    /// `None` when the goal cannot be reached in any schedule.
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
        let last_acquisitions = builder.last_acquisitions();
        let need = builder.need(&last_acquisitions)?;
        let limit = builder.limit(&need);
        Some(Cone {
            goal: goal.to_vec(),
            need,
            limit,
            last_acquisitions,
        })
    }
}

struct Builder<'a, 't> {
    model: &'a Model<'t>,
    index: &'a Index,
    goal: &'a [EventIndex],
    targets: Vec<Option<u32>>,
}

impl Builder<'_, '_> {
    fn last_acquisitions(&self) -> Vec<(ThreadId, u32, ObjectId, Mode)> {
        let mut found = Vec::new();
        for &event in self.goal {
            let thread = self.model.thread_of(event);
            let position = self.model.position_of(event) as u32;
            let sets = &self.index.lock_sets;
            for &(lock, mode) in sets.set(sets.before(event)) {
                let acquisitions = self.index.operations(lock, Class::Acquire);
                let own = acquisitions.iter().find(|(t, _)| *t == thread);
                let Some((_, positions)) = own else { continue };
                let before = positions.partition_point(|&p| p < position);
                if before > 0 {
                    let last = self.model.threads[thread.index()][positions[before - 1] as usize];
                    let first = self.model.position_of(sets.outermost(last)) as u32;
                    found.push((thread, first, lock, mode));
                }
            }
        }
        found
    }

    fn need(&self, last_acquisitions: &[(ThreadId, u32, ObjectId, Mode)]) -> Option<Vec<u32>> {
        let mut need = vec![0; self.targets.len()];
        let mut done = vec![0; self.targets.len()];
        for &event in self.goal {
            let thread = self.model.thread_of(event);
            need[thread.index()] = self.model.position_of(event) as u32;
            if !matches!(self.model.op(event), Op::Join(_)) {
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
            for &(holder, _, lock, mode) in last_acquisitions {
                changed |= self.end_sections(&mut need, holder, lock, mode)?;
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

    /// What of other threads must have happened before an event happens.
    fn for_needs_of(&self, event: EventIndex, then: &mut dyn FnMut(EventIndex)) {
        self.index.order.needed_before(event).for_each(&mut *then);
        self.model
            .must_see(event)
            .filter_map(|(_, writer)| writer)
            .for_each(then);
    }

    /// Whoever must acquire a lock that a goal thread holds at its goal, must also have given it
    /// up. `None` when it never does.
    fn end_sections(
        &self,
        need: &mut [u32],
        holder: ThreadId,
        lock: ObjectId,
        mode: Mode,
    ) -> Option<bool> {
        let mut changed = false;
        for (thread, positions) in self.index.operations(lock, Class::Acquire) {
            if *thread == holder {
                continue;
            }
            let events = &self.model.threads[thread.index()];
            let before = positions.partition_point(|&p| p < need[thread.index()]);
            let Some(&last) = positions[..before].last() else {
                continue;
            };
            let acquisition = self.index.lock_sets.outermost(events[last as usize]);
            let reads = matches!(self.model.op(acquisition), Op::ReadLock(_));
            if mode == Mode::Read && reads {
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
                // A robust mutex is given up by the end of its holder.
                None if self.model.kind(lock) == norns_trace::ObjectKind::RobustMutex => {}
                None => return None,
            }
        }
        Some(changed)
    }

    fn limit(&self, need: &[u32]) -> Vec<u32> {
        let mut limit: Vec<u32> = need.to_vec();
        let mut done = vec![0; need.len()];
        let mut helped: rustc_hash::FxHashSet<(ObjectId, Class)> = Default::default();
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
                    if let Some((object, class)) = helpers(self.model.op(event))
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

    fn reach_all(&self, limit: &mut [u32], operations: &[(ThreadId, Vec<u32>)]) {
        for (thread, positions) in operations {
            let last = positions.last().map_or(0, |&last| last + 1);
            limit[thread.index()] = limit[thread.index()].max(last);
        }
    }
}

/// What another thread may do to let this event happen.
fn helpers(op: Op) -> Option<(ObjectId, Class)> {
    match op {
        Op::SemWait(o) => Some((o, Class::SemPost)),
        Op::FailedSemWait(o) => Some((o, Class::SemWait)),
        Op::Wait(o) => Some((o, Class::Wake)),
        Op::BarrierExit(o) => Some((o, Class::Enter)),
        Op::FailedLock(o) | Op::FailedReadLock(o) => Some((o, Class::Acquire)),
        _ => None,
    }
}
