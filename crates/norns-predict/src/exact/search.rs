//! Goal-directed search: can these events all be next at the same time?
//!
//! Depth first through the cone of the goal, at each state only the steps of one stubborn set,
//! and of those the step that comes first in the trace before the others: where the observed
//! order leads to the goal, the search goes straight there. States at which it has a choice are
//! remembered, so none is left twice.

use std::cell::Cell;

use norns_model::{Model, State, Step};
use norns_trace::{EventIndex, ThreadId};
use rustc_hash::FxHashSet;

use crate::exact::cone::Cone;
use crate::exact::index::Index;
use crate::exact::stubborn::Limits;

/// How a search for one goal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The schedule after which the goal is there.
    Reached(Vec<EventIndex>),
    /// No schedule leads there.
    Unreachable,
    /// The budget of steps was spent.
    Undecided,
}

/// A state with a choice: the steps not yet tried, and how to come back.
struct Choice {
    mark: norns_model::state::Mark,
    length: usize,
    // The next one to try is the last.
    steps: Vec<Step>,
}

/// Searches for a schedule after which all events of `goal` are next. Takes from `budget` what it
/// spends.
pub fn reach(model: &Model, index: &Index, goal: &[EventIndex], budget: &mut usize) -> Outcome {
    let Some(cone) = Cone::of(model, index, goal) else {
        return Outcome::Unreachable;
    };
    let limits = Limits {
        model,
        index,
        limit: &cone.limit,
        need: &cone.need,
        last_acquisitions: &cone.last_acquisitions,
        looked: Cell::default(),
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
    /// Locations that something in the cone reads.
    locations: Vec<norns_model::location::LocationId>,
    state: State,
    schedule: Vec<EventIndex>,
    seen: FxHashSet<Box<[u32]>>,
}

impl Search<'_> {
    fn run(&mut self, budget: &mut usize) -> Outcome {
        let mut choices: Vec<Choice> = Vec::new();
        loop {
            let Some(mut steps) = self.steps() else {
                return Outcome::Reached(std::mem::take(&mut self.schedule));
            };
            if steps.len() > 1 && !self.seen.insert(self.key()) {
                steps.clear();
            }
            if steps.len() > 1 {
                let event = |step: &Step| {
                    self.limits
                        .model
                        .next(&self.state, step.thread)
                        .map(|e| e.0)
                };
                steps.sort_by_key(|step| std::cmp::Reverse((event(step), step.wakes)));
                let (mark, length) = (self.state.mark(), self.schedule.len());
                choices.push(Choice {
                    mark,
                    length,
                    steps,
                });
            } else if let Some(step) = steps.pop() {
                if *budget == 0 {
                    return Outcome::Undecided;
                }
                *budget = budget.saturating_sub(self.limits.cost());
                self.take(step);
                continue;
            }
            let step = loop {
                let Some(choice) = choices.last_mut() else {
                    return Outcome::Unreachable;
                };
                self.state.back_to(choice.mark);
                self.schedule.truncate(choice.length);
                match choice.steps.pop() {
                    Some(step) => break step,
                    None => choices.pop(),
                };
            };
            if *budget == 0 {
                return Outcome::Undecided;
            }
            *budget = budget.saturating_sub(self.limits.cost());
            self.take(step);
        }
    }

    fn take(&mut self, step: Step) {
        let event = self.limits.model.take(&mut self.state, step);
        self.schedule.push(event);
    }

    /// The steps worth trying; none when the goal is out of reach; `None` when it is reached.
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
            // An empty set proves that this thread cannot get where it must.
            if best.as_ref().is_some_and(|best| best.len() <= 1) {
                break;
            }
        }
        best
    }

    /// What tells this state from others of the same cone: who wrote last matters only where
    /// somebody must still see it.
    fn key(&self) -> Box<[u32]> {
        let mut key = self.state.positions.clone();
        self.state.write_waiting(&mut key);
        // No thread and no location has this number.
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

fn read_locations(model: &Model, cone: &Cone) -> Vec<norns_model::location::LocationId> {
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
