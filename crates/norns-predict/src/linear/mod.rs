//! Near-linear sound prediction over the whole trace, without windows.
//!
//! A candidate is a set of events that are all to be next in their threads: two conflicting
//! accesses, or acquisitions that wait for each other. `ideal` finds the smallest set of events that
//! must have happened before (an ideal, see `clocks`, that respects the `critical` sections), and
//! `reversal` orders it where the order of the trace is not a legal schedule. What is found has a
//! schedule, which the caller gives to the independent checker. A candidate for which none is found
//! is undecided; only `is_impossible` proves that there is none.
//!
//! `races` and `deadlocks` go through all candidates of a trace with ideals that only grow, so that
//! the work stays close to the length of the trace: it is done for each location and pair of classes
//! of accesses, not for each pair of accesses. The memory needed is a few numbers for each event and
//! one clock for every event that depends on another thread.

mod accesses;
mod clocks;
pub(crate) mod critical;
mod deadlocks;
mod ideal;
mod races;
mod reversal;

use norns_budget::Budget;
use norns_model::{Bug, Model, State, Witness};
use norns_trace::effect::{OnLock, OnThread};
use norns_trace::{Effect, EventIndex, ObjectKind};

use accesses::Accesses;
use clocks::Clocks;
use critical::CriticalSections;
pub use deadlocks::{DeadlockReport, FoundDeadlock};
use ideal::Others;
pub use races::{Cut, FoundRace, OpenRace, RaceReport};
use reversal::Reordering;

/// How much is tried where the algorithm itself has no bound. Counted in steps, never in seconds, so
/// that the same trace always gives the same answer.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// With how many of the nearest accesses of each class an access is tried when critical sections
    /// are reversed. 0 turns reversal off.
    pub nearest: usize,
    /// How many events a schedule may have in another order than the trace.
    pub longest_tail: usize,
    /// How many pairs of accesses are tried, for each access of the trace, to find a race for pairs of
    /// places that have none yet.
    pub pairs_per_access: usize,
    /// How many steps the search for cycles of locks may take.
    pub cycle_steps: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nearest: 3,
            longest_tail: 1 << 14,
            pairs_per_access: 32,
            cycle_steps: 1 << 22,
        }
    }
}

/// A trace, prepared for questions about any number of candidates.
pub struct Linear<'m> {
    model: &'m Model<'m>,
    sections: CriticalSections,
    clocks: Clocks,
    accesses: Accesses,
    /// For every object that is not a lock, its events.
    object_events: Vec<Vec<EventIndex>>,
    /// Whether the clocks contain only what every schedule needs. Otherwise they are conservative.
    exact_clocks: bool,
    /// For every thread, how many of its events the rules of the model allow in the order of the
    /// trace.
    limits: Vec<u32>,
    /// The work of all questions together. One that has begun is finished; `races` and
    /// `lock_deadlocks` stop when it is spent.
    work: Budget,
}

/// A set of events with an order, in compact form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    ideal: Box<[u32]>,
    /// `None`: all events of the ideal in the order of the trace.
    reordering: Option<Reordering>,
}

impl Plan {
    /// About how many numbers it takes to keep it.
    fn size(&self) -> usize {
        let tail = self
            .reordering
            .as_ref()
            .map_or(0, |change| change.tail.len());
        self.ideal.len() + tail
    }

    /// Whether some critical sections are not in the order of the trace.
    pub fn is_reordered(&self) -> bool {
        self.reordering.is_some()
    }
}

impl<'m> Linear<'m> {
    pub fn new(model: &'m Model<'m>) -> Linear<'m> {
        Self::within(model, Budget::unlimited())
    }

    pub fn within(model: &'m Model<'m>, work: Budget) -> Linear<'m> {
        let sections = CriticalSections::of(model);
        let clocks = Clocks::of(model, &sections);
        let mut object_events = vec![Vec::new(); model.trace.objects.len()];
        for (i, event) in model.trace.events.iter().enumerate() {
            let effect = event.op.effect();
            if let Some(object) = effect.object()
                && !is_lock_operation(effect)
            {
                object_events[object.index()].push(EventIndex::from_index(i));
            }
        }
        Linear {
            model,
            sections,
            clocks,
            accesses: Accesses::of(model),
            object_events,
            limits: limits(model),
            work,
            exact_clocks: !model
                .trace
                .events
                .iter()
                .any(|event| is_approximated(event.op.effect())),
        }
    }

    /// Looks for a schedule after which these conflicting accesses are next.
    pub fn race(
        &self,
        first: EventIndex,
        second: EventIndex,
        options: &Options,
    ) -> Option<Witness> {
        if !self.model.conflict(first, second) {
            return None;
        }
        let (first, second) = (first.min(second), first.max(second));
        let plan = self.plan(&[first, second], options)?;
        Some(Witness {
            schedule: self.schedule(&plan),
            bug: Bug::Race { first, second },
        })
    }

    /// Looks for a schedule after which these acquisitions wait for each other: each for a lock that
    /// the thread of the next one holds. The first is the smallest event.
    pub fn lock_deadlock(&self, blocked: &[EventIndex], options: &Options) -> Option<Witness> {
        let plan = self.plan(blocked, options)?;
        let bug = Bug::LockDeadlock {
            blocked: blocked.to_vec(),
        };
        Some(Witness {
            schedule: self.schedule(&plan),
            bug,
        })
    }

    /// Whether there is provably no schedule after which these events, of different threads, are all
    /// next: one of them needs another, or the locks do. `false` proves nothing.
    pub fn is_impossible(&self, events: &[EventIndex]) -> bool {
        let targets: Vec<_> = events.iter().map(|&event| self.target(event)).collect();
        let mut ideal = self.approaching(events);
        self.exact_clocks && self.close_needed(&mut ideal, &targets).is_err()
    }

    /// A plan after which these events, of different threads, are all next.
    fn plan(&self, targets: &[EventIndex], options: &Options) -> Option<Plan> {
        self.plan_in_order(targets)
            .or_else(|| self.plan_with_reversal(targets, options))
    }

    fn plan_in_order(&self, events: &[EventIndex]) -> Option<Plan> {
        let targets: Vec<_> = events.iter().map(|&event| self.target(event)).collect();
        let mut ideal = self.approaching(events);
        self.keep_order(&mut ideal, &targets).ok()?;
        Some(Plan {
            ideal: ideal.into(),
            reordering: None,
        })
    }

    fn plan_with_reversal(&self, events: &[EventIndex], options: &Options) -> Option<Plan> {
        if options.nearest == 0 {
            return None;
        }
        let targets: Vec<_> = events.iter().map(|&event| self.target(event)).collect();
        [Others::KeepOrder, Others::MayWait]
            .into_iter()
            .find_map(|others| {
                let mut ideal = self.approaching(events);
                self.allow_reversal(&mut ideal, &targets, others).ok()?;
                let reordering = Some(self.reorder(&ideal, options.longest_tail)?);
                Some(Plan {
                    ideal: ideal.into(),
                    reordering,
                })
            })
    }

    /// What the events need, without locks.
    fn approaching(&self, events: &[EventIndex]) -> Vec<u32> {
        self.work
            .count((events.len() * self.model.threads.len()) as u64);
        let mut ideal = vec![0; self.model.threads.len()];
        for &event in events {
            self.clocks.approach(self.model, &mut ideal, event);
        }
        ideal
    }

    /// The events of the plan, in its order.
    pub fn schedule(&self, plan: &Plan) -> Vec<EventIndex> {
        let events = &self.model.trace.events;
        let from = plan
            .reordering
            .as_ref()
            .map_or(events.len(), |change| change.from.index());
        let inside = |&i: &usize| self.model.position[i] < plan.ideal[events[i].thread.index()];
        let length = plan.ideal.iter().map(|&count| count as usize).sum();
        self.work.count(from as u64);
        let mut schedule: Vec<EventIndex> = Vec::with_capacity(length);
        schedule.extend((0..from).filter(inside).map(EventIndex::from_index));
        if let Some(change) = &plan.reordering {
            schedule.extend(&change.tail);
        }
        schedule
    }
}

/// Follows the trace by the rules of the model. A thread stops at an event that they do not allow
/// there: the recorded order of a failed lock and the release before it, for example, can be wrong.
fn limits(model: &Model) -> Vec<u32> {
    let all = || {
        model
            .threads
            .iter()
            .map(|events| events.len() as u32)
            .collect()
    };
    let simple = |kind| {
        use ObjectKind::*;
        matches!(kind, Mutex | RecursiveMutex | ErrorCheckingMutex | SpinLock)
    };
    let fails = |effect| {
        matches!(
            effect,
            Effect::Lock(_, OnLock::FailedAcquire(_)) | Effect::Thread(OnThread::FailedJoin(_))
        )
    };
    if model.trace.objects.iter().all(|object| simple(object.kind))
        && !model
            .trace
            .events
            .iter()
            .any(|event| fails(event.op.effect()))
    {
        return all();
    }
    let mut limits: Vec<u32> = all();
    let mut state = State::initial(model);
    let mut steps = Vec::new();
    for (i, event) in model.trace.events.iter().enumerate() {
        let limit = &mut limits[event.thread.index()];
        if model.position[i] >= *limit {
            continue;
        }
        steps.clear();
        model.steps(&state, event.thread, &mut steps);
        // A signal is taken to have woken the thread whose wait ended first.
        let step = steps
            .iter()
            .min_by_key(|step| step.wakes.and_then(|thread| model.next(&state, thread)));
        match step {
            Some(&step) => {
                model.take(&mut state, step);
                state.forget_trail();
            }
            None => *limit = model.position[i],
        }
    }
    limits
}

/// Whether the clocks contain more for this operation than every schedule needs.
fn is_approximated(effect: Effect) -> bool {
    match effect {
        Effect::Lock(_, act) => match act {
            OnLock::FailedAcquire(_) => true,
            OnLock::Acquire(_) | OnLock::Release => false,
        },
        Effect::Thread(act) => match act {
            OnThread::FailedJoin(_) => true,
            OnThread::Start
            | OnThread::End
            | OnThread::Fork(_)
            | OnThread::Join(_)
            | OnThread::Detach(_) => false,
        },
        Effect::Once(..) | Effect::Condition(..) | Effect::Barrier(..) | Effect::Semaphore(..) => {
            true
        }
        Effect::Channel(..) | Effect::Memory(_) | Effect::Local => false,
    }
}

fn is_lock_operation(effect: Effect) -> bool {
    matches!(effect, Effect::Lock(..))
}
