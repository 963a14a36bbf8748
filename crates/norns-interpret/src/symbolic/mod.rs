//! Runs in which parts of the input are variables: beside each value stands what it is as a function of them.
//!
//! A run takes one path, that of its concrete input, and collects the conditions of the branches on it. An
//! input for another path meets the same conditions up to a branch, and the other one there
//! (Godefroid et al. 2005). Chosen over states that split at branches, as in KLEE: the run, its schedule
//! and the functions of the library stay those of a concrete run, and a library function that is not
//! followed makes its result a constant, where a path that the solver promised may then not come. That is
//! counted ([`Path::concretised`]); an input counts for nothing before a run with it has shown what it does.

mod expression;
mod mark;
mod smt;
mod solve;

use std::collections::BTreeSet;

pub use expression::{Expression, Expressions};
pub use mark::{Mark, Marks, Source};
pub use smt::{answer, question, script};
pub use solve::{Answer, Condition, Inputs, Solver};

pub(crate) use expression::Operator;

use crate::outcome::Channel;

/// So many conditions of one run are kept; the branches after them are not turned round.
const MAX_STEPS: usize = 4_000;

/// A condition that held in a run.
#[derive(Clone, Debug)]
pub struct Step {
    pub condition: Condition,
    /// Whether another path begins where it does not hold. If not, the value was only made a constant.
    pub is_branch: bool,
    /// The function and the operation in it.
    pub at: (u32, u32),
}

/// Something that left the process and depends on the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub to: Channel,
    /// In order, what is not a constant.
    pub values: Vec<Expression>,
}

/// What a run did with the variables.
#[derive(Clone, Debug, Default)]
pub struct Path {
    pub expressions: Expressions,
    pub steps: Vec<Step>,
    pub sent: Vec<Sent>,
    /// The exit status.
    pub status: Option<Expression>,
    /// Where values became constants, in words.
    pub concretised: BTreeSet<String>,
}

impl Path {
    /// The conditions of the first `count` steps, the last one turned round.
    #[must_use]
    pub fn turned(&self, last: usize) -> Vec<Condition> {
        let steps = &self.steps[..=last];
        let mut conditions: Vec<Condition> = steps.iter().map(|step| step.condition).collect();
        if let Some(last) = conditions.last_mut() {
            *last = last.negated();
        }
        conditions
    }

    pub(crate) fn add(&mut self, condition: Condition, is_branch: bool, at: (u32, u32)) {
        if self.steps.len() >= MAX_STEPS || self.expressions.inputs(condition.expression).is_empty()
        {
            return;
        }
        self.steps.push(Step {
            condition,
            is_branch,
            at,
        });
    }
}

/// The variables of a run, and what became of them so far.
#[derive(Clone, Debug)]
pub(crate) struct Symbolic {
    pub(crate) marks: Marks,
    pub(crate) path: Path,
}

/// A byte of memory that depends on the input: byte `at` of a value that was stored as `of` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) whole: Expression,
    pub(crate) at: u8,
    pub(crate) of: u8,
}
