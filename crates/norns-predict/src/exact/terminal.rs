//! Every deadlock, of whatever kind: the states in which nothing moves any more.
//!
//! What is deadlocked stays so, hence every deadlock can be seen in a state in which no thread
//! can step. A depth-first search visits such states; at each state it looks only at the steps of
//! one stubborn set grown from a thread that can step. Not every last state is visited: a step
//! that only tests is always taken when it can be, although another thread might prevent it. That
//! loses no deadlock, since the testing thread is in none, and what it does later is still to come.

use std::cell::Cell;
use std::collections::BTreeMap;

use norns_model::{Bug, Model, Readiness, State, Step, Witness};
use norns_trace::EventIndex;
use rustc_hash::FxHashSet;

use crate::exact::index::Index;
use crate::exact::stubborn::Limits;

/// The deadlocks found, and whether these are all.
#[derive(Clone, Debug, Default)]
pub struct Deadlocks {
    /// For every set of blocked acquisitions, sorted, the shortest schedule seen.
    pub cycles: BTreeMap<Vec<EventIndex>, Witness>,
    /// For every other minimal set of blocked events, sorted.
    pub stuck: BTreeMap<Vec<EventIndex>, Witness>,
    pub complete: bool,
}

/// So many threads are tried as the beginning of a small stubborn set.
const SEEDS: usize = 16;

/// Searches all of the model, as far as the budget of steps goes.
pub fn deadlocks(model: &Model, index: &Index, budget: &mut usize) -> Deadlocks {
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
            last_acquisitions: &[],
            looked: Cell::default(),
        },
        state: State::initial(model),
        schedule: Vec::new(),
        seen: FxHashSet::default(),
        found: Deadlocks::default(),
    };
    search.found.complete = search.run(budget);
    search.found
}

struct Choice {
    mark: norns_model::state::Mark,
    length: usize,
    steps: Vec<Step>,
}

struct Search<'a> {
    limits: Limits<'a>,
    state: State,
    schedule: Vec<EventIndex>,
    seen: FxHashSet<Box<[u32]>>,
    found: Deadlocks,
}

impl Search<'_> {
    /// Whether everything was searched.
    fn run(&mut self, budget: &mut usize) -> bool {
        let mut choices: Vec<Choice> = Vec::new();
        loop {
            let mut steps = self.steps();
            if steps.is_empty() {
                self.note_deadlocks();
            }
            if steps.len() > 1 {
                if self.seen.insert(self.key()) {
                    let model = self.limits.model;
                    let event = |step: &Step| model.next(&self.state, step.thread);
                    steps.sort_by_key(|step| std::cmp::Reverse((event(step), step.wakes)));
                    let (mark, length) = (self.state.mark(), self.schedule.len());
                    choices.push(Choice {
                        mark,
                        length,
                        steps: std::mem::take(&mut steps),
                    });
                }
                steps.clear();
            }
            let step = match steps.pop() {
                Some(step) => step,
                None => loop {
                    let Some(choice) = choices.last_mut() else {
                        return true;
                    };
                    self.state.back_to(choice.mark);
                    self.schedule.truncate(choice.length);
                    match choice.steps.pop() {
                        Some(step) => break step,
                        None => choices.pop(),
                    };
                },
            };
            if *budget == 0 {
                return false;
            }
            *budget = budget.saturating_sub(self.limits.cost());
            let event = self.limits.model.take(&mut self.state, step);
            self.schedule.push(event);
        }
    }

    /// The steps of a small stubborn set; none when nothing moves.
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

    fn key(&self) -> Box<[u32]> {
        let mut key = self.state.positions.clone();
        self.state.write_waiting(&mut key);
        // No thread and no location has this number.
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
