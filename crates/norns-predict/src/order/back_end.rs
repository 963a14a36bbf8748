//! The solvers that can answer: ours, and Z3 for a second opinion.

use norns_model::Bug;
use norns_order::Answer;

#[cfg(feature = "z3")]
use super::engine::Problem;
use super::engine::{Engine, Outcome};

/// Decides whether bugs of one trace are possible.
pub trait BackEnd {
    fn decide(&mut self, bug: &Bug) -> Answer;
}

impl BackEnd for Engine<'_> {
    fn decide(&mut self, bug: &Bug) -> Answer {
        match self.find(bug.clone()) {
            Outcome::Witness(_) => Answer::Satisfiable,
            Outcome::Impossible => Answer::Unsatisfiable,
            Outcome::Undecided => Answer::Undecided,
        }
    }
}

/// Z3, which gets the complete formula at once. Its encoding of values, signals and counts differs
/// from the clauses that our solver gets when they are violated.
#[cfg(feature = "z3")]
pub struct SecondOpinion<'z> {
    problem: Problem,
    bugs: Vec<Bug>,
    reference: norns_order::reference::Reference<'z>,
}

#[cfg(feature = "z3")]
impl<'z> SecondOpinion<'z> {
    /// Can decide these bugs, under the constraints that the engine has now.
    pub fn new(
        z3: &'z mut norns_order::reference::Z3,
        engine: &Engine<'_>,
        bugs: Vec<Bug>,
    ) -> Self {
        let problem = engine.problem(&bugs);
        let reference = norns_order::reference::Reference::new(
            z3,
            problem.nodes,
            &problem.edges,
            &problem.formula,
        );
        SecondOpinion {
            problem,
            bugs,
            reference,
        }
    }
}

#[cfg(feature = "z3")]
impl BackEnd for SecondOpinion<'_> {
    fn decide(&mut self, bug: &Bug) -> Answer {
        let known = self.bugs.iter().position(|other| other == bug);
        let query = known.expect("the bug is one of those given to `new`");
        self.reference
            .ask(&self.problem.formula, &self.problem.queries[query])
    }
}
