//! Goal-directed search: can these events all be next at the same time?
//!
//! A depth-first search through the cone of the goal that at each state tries only the steps of one
//! stubborn set, in the order of the trace: where the observed order leads to the goal, the search
//! goes straight there. It remembers the states at which it had a choice, so it explores none of
//! them twice.

use std::cell::Cell;

use norns_budget::Budget;
use norns_model::location::LocationId;
use norns_model::{Model, State, Step};
use norns_trace::{EventIndex, ThreadId};
use rustc_hash::FxHashSet;

use crate::exact::choices::Choices;
use crate::exact::cone::Cone;
use crate::exact::index::Index;
use crate::exact::stubborn::Limits;

/// How a search for one goal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All events of the goal are next after this schedule.
    Reached(Vec<EventIndex>),
    /// No schedule leads there.
    Unreachable,
    /// The budget was spent.
    Undecided,
}

/// Units of work in one step of a search.
pub const UNITS_PER_STEP: u64 = 50;
/// Units of work for each event of a cone.
const UNITS_TO_NEED: u64 = 4;

/// Searches for a schedule after which all events of `goal` are next.
pub fn reach(model: &Model, index: &Index, goal: &[EventIndex], budget: &Budget) -> Outcome {
    // A schedule has at least the steps that are needed, among them those before the goal.
    let is_too_long = |steps: u64| budget.left() / UNITS_PER_STEP < steps;
    let before = goal.iter().map(|&event| model.position_of(event) as u64);
    if is_too_long(before.sum()) {
        return Outcome::Undecided;
    }
    let Some(cone) = Cone::of(model, index, goal) else {
        return Outcome::Unreachable;
    };
    let sum = |counts: &[u32]| counts.iter().map(|&count| u64::from(count)).sum::<u64>();
    budget.count(UNITS_TO_NEED * sum(&cone.limit));
    if is_too_long(sum(&cone.need)) {
        return Outcome::Undecided;
    }
    let limits = Limits {
        model,
        index,
        limit: &cone.limit,
        need: &cone.need,
        held_at_goal: &cone.held_at_goal,
        lookups: Cell::default(),
    };
    Search {
        limits,
        cone: &cone,
        locations: read_locations(model, &cone),
        state: State::initial(model),
        schedule: Vec::new(),
        seen: FxHashSet::default(),
    }
    .run(budget)
}

struct Search<'a> {
    limits: Limits<'a>,
    cone: &'a Cone,
    /// The locations that an event of the cone reads.
    locations: Vec<LocationId>,
    state: State,
    schedule: Vec<EventIndex>,
    /// The keys of the states at which there was a choice.
    seen: FxHashSet<Box<[u32]>>,
}

impl Search<'_> {
    fn run(&mut self, budget: &Budget) -> Outcome {
        let mut choices = Choices::default();
        loop {
            let Some(mut steps) = self.steps() else {
                return Outcome::Reached(std::mem::take(&mut self.schedule));
            };
            let model = self.limits.model;
            if steps.len() > 1 {
                let steps = std::mem::take(&mut steps);
                let key = self.key();
                budget.count(key.len() as u64);
                if self.seen.insert(key) {
                    choices.push(model, &self.state, self.schedule.len(), steps);
                }
            }
            let step = steps.pop();
            let step = step.or_else(|| choices.next(&mut self.state, &mut self.schedule));
            let Some(step) = step else {
                return Outcome::Unreachable;
            };
            if !budget.spend(UNITS_PER_STEP * self.limits.cost() as u64) {
                return Outcome::Undecided;
            }
            let event = model.take(&mut self.state, step);
            self.schedule.push(event);
        }
    }

    /// The steps to try: `None` if the goal is reached, no step if it cannot be reached from here.
    fn steps(&self) -> Option<Vec<Step>> {
        let mut waiting: Vec<(EventIndex, ThreadId)> = Vec::new();
        for thread in self.limits.model.thread_ids() {
            let position = self.state.positions[thread.index()];
            if position < self.cone.need[thread.index()] {
                let next = self.limits.model.next(&self.state, thread);
                waiting.push((next.expect("what is needed is not past the end"), thread));
            }
        }
        if waiting.is_empty() {
            return None;
        }
        waiting.sort_unstable();
        let mut best: Option<Vec<Step>> = None;
        let mut steps = Vec::new();
        for (_, thread) in waiting {
            self.limits.steps_from(&self.state, thread, &mut steps);
            if best.as_ref().is_none_or(|best| steps.len() < best.len()) {
                best = Some(std::mem::take(&mut steps));
            }
            // An empty set proves that this thread cannot get where it has to.
            if best.as_ref().is_some_and(|best| best.len() <= 1) {
                break;
            }
        }
        best
    }

    /// What distinguishes this state from others of the same cone. The last writer of a location
    /// counts only if a later event must see it.
    fn key(&self) -> Box<[u32]> {
        let mut key = self.state.positions.clone();
        self.state.write_waiting(&mut key);
        // A separator: no thread and no location has this number.
        key.push(u32::MAX / 2);
        for &location in &self.locations {
            let writer = self.state.last_writer(location);
            let mut readers = self.limits.index.readers(location, writer).iter();
            if readers.any(|&reader| self.limits.lies_ahead(&self.state, reader)) {
                key.push(location.0);
                key.push(writer.map_or(u32::MAX, |writer| writer.0));
            }
        }
        key.into_boxed_slice()
    }
}

fn read_locations(model: &Model, cone: &Cone) -> Vec<LocationId> {
    let mut locations = Vec::new();
    for (thread, &limit) in cone.limit.iter().enumerate() {
        for &event in &model.threads[thread][..limit as usize] {
            locations.extend(model.must_see(event).map(|(location, _)| location));
        }
    }
    locations.sort_unstable();
    locations.dedup();
    locations
}
