//! Who answers: our solver, or Z3 for a second opinion.

use norns_model::Bug;
use norns_order::Answer;

use super::{Engine, Outcome};

/// Decides bugs of one trace.
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

/// The whole formula at once, in Z3. Its encoding of values, signals and counts differs from the
/// one that our solver gets piece by piece.
#[cfg(feature = "z3")]
pub struct SecondOpinion<'z> {
    problem: super::Problem,
    bugs: Vec<Bug>,
    reference: norns_order::reference::Reference<'z>,
}

#[cfg(feature = "z3")]
impl<'z> SecondOpinion<'z> {
    /// On these bugs, under the constraints that the engine has now.
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
        let query = known.expect("the bug is one of those that the opinion was asked on");
        self.reference
            .ask(&self.problem.formula, &self.problem.queries[query])
    }
}
