//! Where threads can be at the same time, given how they wait for each other.
//!
//! The trace is abstracted to its operations on condition variables, semaphores and barriers
//! (`operations`), and all states of this abstraction are explored once (`state_space`). Threads
//! that wait for each other often cannot get far apart, so the states are few, however long the
//! trace is. If they are too many, the exploration gives up and proves nothing. Otherwise a bug is
//! impossible if no state has the threads at its events. (The solver can prove the same by search,
//! but in far more steps, one cut of the schedule at a time.)
//!
//! For a bug that may be possible there is a path to a state that has it, which guides the search
//! (`search::plan`). The path leads through the explored states, or, if there are none, it comes
//! from a short search that starts where the trace was when it reached the first event of the bug.

mod operations;
mod state_space;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use norns_budget::Budget;
use norns_model::{Model, State};
use norns_trace::{EventIndex, ObjectId};
use rustc_hash::FxHashSet;

use super::clocks::Clocks;
use operations::{ThreadOps, Transitions, WaitOp, WaitState, thread_ops};
use state_space::StateSpace;

/// One step of a path: an event, and the waits that it ends.
#[derive(Clone, Debug)]
pub struct PathStep {
    pub event: EventIndex,
    pub wakes: Vec<EventIndex>,
}

/// How to get to a state.
pub struct Path {
    /// Signals and broadcasts that wake no thread are left out.
    pub steps: Vec<PathStep>,
    /// For each thread, how many events it may have done in that state.
    pub ranges: Vec<Range>,
}

/// The least and the greatest number of events (or of operations) that a thread may have done.
#[derive(Clone, Copy, Debug)]
pub struct Range<N = u32> {
    pub least: N,
    pub most: N,
}

impl Range<usize> {
    fn contains(self, count: usize) -> bool {
        self.least <= count && count <= self.most
    }
}

/// What is asked of a schedule, as numbers of events for each thread.
pub struct Target {
    /// At least these take place.
    pub needed: Vec<u32>,
    /// At most these take place.
    pub limits: Vec<u32>,
    /// Between the two: where the threads would stop if nothing else were asked.
    pub preferred: Vec<u32>,
}

/// What the abstraction says about a bug.
pub enum Feasibility {
    Impossible,
    Unknown,
    Path(Path),
}

pub struct WaitStates {
    threads: Vec<ThreadOps>,
    /// For every object: the initial value of a semaphore, the count of a barrier.
    initial: Vec<i64>,
    /// The steps of the trace itself, with the state after each.
    observed: Vec<(EventIndex, WaitState)>,
    /// All states, unless they are too many.
    space: Option<StateSpace>,
}

/// How many states a search for a path may visit.
const SHORT_SEARCH: usize = 500;
/// The weight of missing operations against the steps of a path in such a search.
const PER_MISSING: usize = 3;

impl WaitStates {
    /// Explores at most `most` states, with half of the budget. `None` if no thread waits for
    /// another, or if the threads have too many operations.
    pub fn new(model: &Model<'_>, clocks: &Clocks, most: usize, budget: &Budget) -> Option<Self> {
        let threads = thread_ops(model, clocks)?;
        if threads.iter().all(|ops| ops.ops.is_empty()) {
            return None;
        }
        let start = State::initial(model);
        let objects = (0..model.trace.objects.len()).map(ObjectId::from_index);
        let mut states = WaitStates {
            threads,
            initial: objects.map(|o| start.value(o)).collect(),
            observed: Vec::new(),
            space: None,
        };
        states.observed = states.observe(model);
        states.space = budget.share(1, 2, || {
            StateSpace::explore(&states.transitions(), most, budget)
        });
        Some(states)
    }

    fn transitions(&self) -> Transitions<'_> {
        Transitions {
            threads: &self.threads,
            initial: &self.initial,
        }
    }

    /// The operation of an event, if it is one of the abstraction.
    fn operation(&self, model: &Model<'_>, event: EventIndex) -> Option<WaitOp> {
        let ops = &self.threads[model.thread_of(event).index()];
        let k = ops.positions.binary_search(&model.position[event.index()]);
        k.ok().map(|k| ops.ops[k])
    }

    /// Whether the event is a wait on a condition variable that needs a signal.
    pub fn is_wait(&self, model: &Model<'_>, event: EventIndex) -> bool {
        matches!(self.operation(model, event), Some(WaitOp::Wait(_)))
    }

    /// What can be said about a schedule after which `events` are next and which meets `target`.
    /// Among the possible paths it is one that ends near what is preferred.
    pub fn feasibility(
        &self,
        model: &Model<'_>,
        events: &[EventIndex],
        target: &Target,
        budget: &Budget,
    ) -> Feasibility {
        let ranges = self.ranges(model, events, target);
        if ranges.iter().any(|range| range.least > range.most) {
            return Feasibility::Impossible;
        }
        let Some(space) = &self.space else {
            budget.count((SHORT_SEARCH * self.threads.len()) as u64);
            return match self.search(events, &ranges) {
                Some(states) => Feasibility::Path(self.path(model, &states)),
                None => Feasibility::Unknown,
            };
        };
        if !space.allows(&self.threads, events, model) {
            return Feasibility::Impossible;
        }
        let preferred = self.threads.iter().zip(&target.preferred).zip(&ranges);
        let preferred: Vec<usize> = preferred
            .map(|((ops, &count), range)| ops.count_before(count).clamp(range.least, range.most))
            .collect();
        budget.count((space.len() * self.threads.len()) as u64);
        match space.nearest(&self.threads, &ranges, &preferred) {
            Some(goal) => {
                let states = space.path(self, model, goal);
                Feasibility::Path(self.path(model, &states))
            }
            None => Feasibility::Impossible,
        }
    }

    /// The same target as numbers of operations.
    fn ranges(
        &self,
        model: &Model<'_>,
        events: &[EventIndex],
        target: &Target,
    ) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for (t, ops) in self.threads.iter().enumerate() {
            let limit = target.limits[t];
            // Includes the exit of a barrier after the last event.
            let is_unlimited = limit as usize == model.threads[t].len();
            ranges.push(Range {
                least: ops.count_before(target.needed[t]),
                most: match is_unlimited {
                    true => ops.ops.len(),
                    false => ops.count_before(limit),
                },
            });
        }
        for &event in events {
            let thread = model.thread_of(event).index();
            let done = self.threads[thread].count_before(model.position[event.index()]);
            ranges[thread] = Range {
                least: done,
                most: done,
            };
        }
        ranges
    }

    /// The steps of the trace. Which thread a signal woke is not recorded; it is taken to be the
    /// one whose wait ended first.
    fn observe(&self, model: &Model<'_>) -> Vec<(EventIndex, WaitState)> {
        let transitions = self.transitions();
        let mut state = WaitState::INITIAL;
        let mut observed = Vec::new();
        let mut next = Vec::new();
        for i in 0..model.trace.events.len() {
            let event = EventIndex::from_index(i);
            let Some(op) = self.operation(model, event).filter(|op| !op.is_passive()) else {
                continue;
            };
            let thread = model.thread_of(event).index();
            next.clear();
            transitions.after(state, thread, &mut next);
            let likeliest = next.iter().copied().min_by_key(|&after| {
                let step = self.step(model, state, after);
                // Waits that were not going on at the event.
                let wrong = step.wakes.iter().filter(|&&wait| {
                    let own = &model.threads[model.thread_of(wait).index()];
                    wait < event || event < own[model.position_of(wait) - 1]
                });
                let wakes: u32 = step.wakes.iter().map(|wait| wait.0).sum();
                let unlikely = match op {
                    WaitOp::Broadcast(_) => usize::MAX - step.wakes.len(),
                    _ => usize::from(step.wakes.is_empty()),
                };
                (wrong.count(), unlikely, wakes)
            });
            let Some(likeliest) = likeliest else {
                // The recorded order is not quite the true one.
                break;
            };
            state = likeliest;
            observed.push((event, state));
        }
        observed
    }

    /// A path as states from the initial one to one within the ranges: the states of the trace up to
    /// the first of the events, then what a best-first search finds.
    fn search(&self, events: &[EventIndex], ranges: &[Range<usize>]) -> Option<Vec<WaitState>> {
        /// A state that the search has found, by which state, and in how many steps.
        struct Found {
            state: WaitState,
            from: u32,
            depth: usize,
        }
        let first = events.iter().min()?;
        let before = self.observed.partition_point(|(event, _)| event < first);
        let mut path = vec![WaitState::INITIAL];
        path.extend(self.observed[..before].iter().map(|&(_, state)| state));
        let transitions = self.transitions();
        let start = path[path.len() - 1];
        let mut found = vec![Found {
            state: start,
            from: 0,
            depth: 0,
        }];
        let mut known = FxHashSet::from_iter([start]);
        let mut open = BinaryHeap::new();
        open.push((Reverse(self.missing(start, ranges)?), Reverse(0), 0u32));
        let mut next = Vec::new();
        while let Some((_, _, number)) = open.pop() {
            let Found { state, depth, .. } = found[number as usize];
            if self.missing(state, ranges) == Some(0) {
                let mut at = number;
                let mut steps = Vec::new();
                while at != 0 {
                    steps.push(found[at as usize].state);
                    at = found[at as usize].from;
                }
                path.extend(steps.iter().rev());
                return Some(path);
            }
            if found.len() > SHORT_SEARCH {
                return None;
            }
            next.clear();
            for thread in 0..self.threads.len() {
                transitions.after(state, thread, &mut next);
            }
            for &after in &next {
                if let Some(missing) = self.missing(after, ranges)
                    && known.insert(after)
                {
                    let depth = depth + 1;
                    let cost = Reverse(depth + PER_MISSING * missing);
                    open.push((cost, Reverse(found.len()), found.len() as u32));
                    found.push(Found {
                        state: after,
                        from: number,
                        depth,
                    });
                }
            }
        }
        None
    }

    /// How many operations are missing until the state is within the ranges. `None` if a thread has
    /// already done too many.
    fn missing(&self, state: WaitState, ranges: &[Range<usize>]) -> Option<usize> {
        let mut missing = 0;
        for (ops, range) in self.threads.iter().zip(ranges) {
            let done = ops.done(state);
            if done > range.most {
                return None;
            }
            missing += range.least.saturating_sub(done);
        }
        Some(missing)
    }

    /// The path through these states.
    fn path(&self, model: &Model<'_>, states: &[WaitState]) -> Path {
        let steps = states.windows(2).map(|s| self.step(model, s[0], s[1]));
        let steps = steps.filter(|step| {
            let op = self.operation(model, step.event);
            !step.wakes.is_empty() || !matches!(op, Some(WaitOp::Signal(_) | WaitOp::Broadcast(_)))
        });
        let last = states.last().copied().unwrap_or(WaitState::INITIAL);
        let ranges = self.threads.iter().map(|ops| {
            let done = ops.done(last);
            Range {
                least: done.checked_sub(1).map_or(0, |k| ops.positions[k] + 1),
                most: ops.positions.get(done).copied().unwrap_or(u32::MAX),
            }
        });
        Path {
            steps: steps.collect(),
            ranges: ranges.collect(),
        }
    }

    /// The step that leads from one state to the next.
    fn step(&self, model: &Model<'_>, before: WaitState, after: WaitState) -> PathStep {
        let mut event = None;
        let mut wakes = Vec::new();
        for (ops, thread) in self.threads.iter().zip(&model.threads) {
            let (from, to) = (ops.done(before), ops.done(after));
            if from == to {
                continue;
            }
            match ops.ops[from] {
                WaitOp::Wait(_) => wakes.push(thread[ops.positions[from] as usize]),
                WaitOp::LeaveBarrier(_) => {}
                WaitOp::Signal(_)
                | WaitOp::Broadcast(_)
                | WaitOp::Post(_)
                | WaitOp::Acquire(_)
                | WaitOp::EnterBarrier(_) => event = Some(thread[ops.positions[from] as usize]),
            }
        }
        let event = event.expect("each step has exactly one operation that is not passive");
        PathStep { event, wakes }
    }
}
