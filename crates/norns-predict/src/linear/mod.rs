//! Near-linear sound prediction over the whole trace, without windows.
//!
//! A candidate is a set of events that shall all be the next ones of their threads: two
//! conflicting accesses, or acquisitions that wait for each other. `ideal.rs` finds the least that
//! must have happened before; `reversal.rs` orders it where the order of the trace does not do.
//! What is found has a schedule, which the caller gives to the independent checker; what is not
//! found is undecided, never impossible.
//!
//! `races.rs` and `deadlocks.rs` go over all candidates of a trace with ideals that only grow, so
//! that the work stays close to the length of the trace: per location and pair of classes of
//! accesses, not per pair of accesses. Memory is a few numbers an event and one clock for every
//! event that learns something from another thread.

mod accesses;
mod clocks;
mod critical;
mod deadlocks;
pub mod happens_before;
mod ideal;
mod races;
mod reversal;

use norns_model::{Bug, Model, State, Witness};
use norns_trace::{EventIndex, ObjectKind, Op};

use accesses::Accesses;
use clocks::Clocks;
use critical::CriticalSections;
pub use deadlocks::{DeadlockReport, FoundDeadlock};
use ideal::Others;
pub use races::{FoundRace, OpenRace, RaceReport, Side};
use reversal::Reordering;

/// How much is tried where there is no bound from the algorithm. Counted in steps, never in
/// seconds: the same trace gives the same answer.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// With how many of the nearest accesses of each class an access is tried with reversed
    /// critical sections; 0 leaves reversal out.
    pub nearest: usize,
    /// How many events may change their order in a schedule.
    pub longest_tail: usize,
    /// How many pairs of accesses are looked at for pairs of places that have no race yet, for
    /// each access of the trace.
    pub pairs_per_access: usize,
    /// How many steps the search for cycles of locks takes.
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

/// A trace made ready for any number of candidates.
pub struct Linear<'m> {
    model: &'m Model<'m>,
    sections: CriticalSections,
    clocks: Clocks,
    accesses: Accesses,
    /// For objects that are no locks, their events.
    object_events: Vec<Vec<EventIndex>>,
    /// The clocks hold only what every schedule needs, nothing to be on the safe side.
    exact_clocks: bool,
    /// For every thread how many of its events the rules of the model allow in the trace itself.
    limits: Vec<u32>,
}

/// A set of events and an order for them, in short form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    ideal: Box<[u32]>,
    /// `None`: all events of the ideal in the order of the trace.
    reordering: Option<Reordering>,
}

impl Plan {
    /// Whether critical sections change places in it.
    pub fn is_reordered(&self) -> bool {
        self.reordering.is_some()
    }
}

impl<'m> Linear<'m> {
    pub fn new(model: &'m Model<'m>) -> Linear<'m> {
        let sections = CriticalSections::of(model);
        let clocks = Clocks::of(model, &sections);
        let mut object_events = vec![Vec::new(); model.trace.objects.len()];
        for (i, event) in model.trace.events.iter().enumerate() {
            if let Some(object) = event.op.object()
                && !is_lock_operation(event.op)
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
            exact_clocks: !model
                .trace
                .events
                .iter()
                .any(|event| is_approximated(event.op)),
        }
    }

    /// A schedule after which these conflicting accesses are next.
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

    /// A schedule after which these acquisitions wait for each other in a cycle: each for a lock
    /// that the thread of the next one holds, the first being the smallest.
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

    /// Whether no schedule brings the threads of these events, which are different, to them all
    /// at once: one of them is needed by another, or its locks are. `false` says nothing.
    pub fn is_impossible(&self, events: &[EventIndex]) -> bool {
        let targets: Vec<_> = events.iter().map(|&event| self.target(event)).collect();
        let mut ideal = self.approaching(events);
        self.exact_clocks && self.close_needed(&mut ideal, &targets).is_err()
    }

    /// Brings the threads of all targets, which are different, to them.
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

    fn approaching(&self, events: &[EventIndex]) -> Vec<u32> {
        let mut ideal = vec![0; self.model.threads.len()];
        for &event in events {
            self.clocks.approach(self.model, &mut ideal, event);
        }
        ideal
    }

    /// The plan as a list of all its events.
    pub fn schedule(&self, plan: &Plan) -> Vec<EventIndex> {
        let events = &self.model.trace.events;
        let from = plan
            .reordering
            .as_ref()
            .map_or(events.len(), |change| change.from.index());
        let inside = |&i: &usize| self.model.position[i] < plan.ideal[events[i].thread.index()];
        let length = plan.ideal.iter().map(|&count| count as usize).sum();
        let mut schedule: Vec<EventIndex> = Vec::with_capacity(length);
        schedule.extend((0..from).filter(inside).map(EventIndex::from_index));
        if let Some(change) = &plan.reordering {
            schedule.extend(&change.tail);
        }
        schedule
    }
}

/// Follows the trace by the rules of the model. A thread whose next event they do not allow there
/// (the recorded order of a failed lock and the release before it can be the wrong one) stops.
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
    let fails = |op| matches!(op, Op::FailedLock(_) | Op::FailedJoin(_));
    if model.trace.objects.iter().all(|object| simple(object.kind))
        && !model.trace.events.iter().any(|event| fails(event.op))
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
        // A signal woke the thread that was the first to leave its wait.
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

/// Whether the clocks ask for more than every schedule needs.
fn is_approximated(op: Op) -> bool {
    let fails = matches!(
        op,
        Op::FailedLock(_) | Op::FailedReadLock(_) | Op::FailedJoin(_)
    );
    fails || op.object().is_some() && !is_lock_operation(op)
}

fn is_lock_operation(op: Op) -> bool {
    matches!(
        op,
        Op::Lock(_) | Op::ReadLock(_) | Op::FailedLock(_) | Op::FailedReadLock(_) | Op::Unlock(_)
    )
}
