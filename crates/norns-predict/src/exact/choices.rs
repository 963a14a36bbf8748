//! The states of a depth-first search at which it had a choice, and how to return to them.

use std::cmp::Reverse;

use norns_model::state::Mark;
use norns_model::{Model, State, Step};
use norns_trace::EventIndex;

/// A state with several steps to try.
struct Choice {
    mark: Mark,
    /// The length of the schedule that leads to the state.
    length: usize,
    /// The steps not tried yet. The next one to try is the last.
    steps: Vec<Step>,
}

#[derive(Default)]
pub struct Choices {
    stack: Vec<Choice>,
}

impl Choices {
    /// Remembers the current state. Its steps are tried in the order in which the trace has their
    /// events.
    pub fn push(&mut self, model: &Model, state: &State, length: usize, mut steps: Vec<Step>) {
        let event = |step: &Step| model.next(state, step.thread);
        steps.sort_by_key(|step| Reverse((event(step), step.wakes)));
        self.stack.push(Choice {
            mark: state.mark(),
            length,
            steps,
        });
    }

    /// Returns to the last state that has a step left and gives that step. `None` if every step has
    /// been tried.
    pub fn next(&mut self, state: &mut State, schedule: &mut Vec<EventIndex>) -> Option<Step> {
        loop {
            let choice = self.stack.last_mut()?;
            state.back_to(choice.mark);
            schedule.truncate(choice.length);
            match choice.steps.pop() {
                Some(step) => return Some(step),
                None => self.stack.pop(),
            };
        }
    }
}
