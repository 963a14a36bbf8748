//! Every deadlock, of whatever kind: the states in which no thread can step.
//!
//! Deadlocked threads stay deadlocked, so every deadlock shows in a state in which no thread can
//! step. A depth-first search visits such states; at each state it tries only the steps of one
//! stubborn set grown from a thread that can step. It does not visit every terminal state: a step
//! that only tests something is taken whenever it is possible, although another thread might prevent
//! it. That loses no deadlock, since the testing thread is in none, and what it does later is still
//! explored.

use std::cell::Cell;
use std::collections::BTreeMap;

use norns_budget::Budget;
use norns_model::{Bug, Model, Readiness, State, Step, Witness};
use norns_trace::EventIndex;
use rustc_hash::FxHashSet;

use crate::exact::choices::Choices;
use crate::exact::index::Index;
use crate::exact::search::UNITS_PER_STEP;
use crate::exact::stubborn::Limits;

/// The deadlocks found.
#[derive(Clone, Debug, Default)]
pub struct Deadlocks {
    /// For every set of acquisitions that block each other, sorted, the shortest schedule found.
    pub cycles: BTreeMap<Vec<EventIndex>, Witness>,
    /// The same for every other minimal set of blocked events.
    pub stuck: BTreeMap<Vec<EventIndex>, Witness>,
    /// Whether all states were searched.
    pub complete: bool,
}

/// How many threads are tried as the seed of a small stubborn set.
const SEEDS: usize = 16;

/// Searches all states of the model, until the budget is spent.
pub fn deadlocks(model: &Model, index: &Index, budget: &Budget) -> Deadlocks {
    let limit: Vec<u32> = model
        .threads
        .iter()
        .map(|events| events.len() as u32)
        .collect();
    let need = vec![0; limit.len()];
    let mut search = Search {
        limits: Limits {
            model,
            index,
            limit: &limit,
            need: &need,
            held_at_goal: &[],
            lookups: Cell::default(),
        },
        state: State::initial(model),
        schedule: Vec::new(),
        seen: FxHashSet::default(),
        found: Deadlocks::default(),
    };
    search.found.complete = search.run(budget);
    search.found
}

struct Search<'a> {
    limits: Limits<'a>,
    state: State,
    schedule: Vec<EventIndex>,
    /// The keys of the states at which there was a choice.
    seen: FxHashSet<Box<[u32]>>,
    found: Deadlocks,
}

impl Search<'_> {
    /// Returns whether all states were searched.
    fn run(&mut self, budget: &Budget) -> bool {
        let mut choices = Choices::default();
        loop {
            let mut steps = self.steps();
            if steps.is_empty() {
                self.note_deadlocks();
            }
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
                return true;
            };
            if !budget.spend(UNITS_PER_STEP * self.limits.cost() as u64) {
                return false;
            }
            let event = model.take(&mut self.state, step);
            self.schedule.push(event);
        }
    }

    /// The steps of a small stubborn set; none if no thread can step.
    fn steps(&self) -> Vec<Step> {
        let mut best = Vec::new();
        let mut steps = Vec::new();
        let model = self.limits.model;
        let mut tried = 0;
        for thread in model.thread_ids() {
            if model.readiness(&self.state, thread) != Readiness::Ready {
                continue;
            }
            self.limits.steps_from(&self.state, thread, &mut steps);
            if best.is_empty() || steps.len() < best.len() {
                best = std::mem::take(&mut steps);
            }
            tried += usize::from(!best.is_empty());
            if best.len() == 1 || tried == SEEDS {
                break;
            }
        }
        best
    }

    /// What distinguishes this state from others; see `search::Search::key`.
    fn key(&self) -> Box<[u32]> {
        let mut key = self.state.positions.clone();
        self.state.write_waiting(&mut key);
        // A separator: no thread and no location has this number.
        key.push(u32::MAX / 2);
        self.state.write_writers(&mut key, |location, writer| {
            let mut readers = self.limits.index.readers(location, writer).iter();
            readers.any(|&reader| self.limits.lies_ahead(&self.state, reader))
        });
        key.into_boxed_slice()
    }

    fn note_deadlocks(&mut self) {
        let model = self.limits.model;
        for cycle in model.lock_cycles_at(&self.state) {
            let mut sorted = cycle.clone();
            sorted.sort_unstable();
            let bug = Bug::LockDeadlock { blocked: cycle };
            note(&mut self.found.cycles, sorted, &self.schedule, bug);
        }
        for blocked in model.stuck_at(&self.state) {
            let bug = Bug::Stuck {
                blocked: blocked.clone(),
            };
            note(&mut self.found.stuck, blocked, &self.schedule, bug);
        }
    }
}

fn note(
    found: &mut BTreeMap<Vec<EventIndex>, Witness>,
    key: Vec<EventIndex>,
    schedule: &[EventIndex],
    bug: Bug,
) {
    let shorter = found
        .get(&key)
        .is_none_or(|known| schedule.len() < known.schedule.len());
    if shorter {
        found.insert(
            key,
            Witness {
                schedule: schedule.to_vec(),
                bug,
            },
        );
    }
}
