//! Z3 as the reference: the same formula, one integer per node.
//!
//! Ties need not be forbidden, see `smtlib`. Z3 is slow from a few hundred nodes on; it is here for a
//! second opinion and as a yardstick for benchmarks.

use z3::ast::{Bool, Int};
use z3::{Params, SatResult};

use crate::formula::{Atom, Formula, Literal, Node};
use crate::solver::Answer;

/// A Z3 solver, for one formula after the other: creating it costs more than a small formula.
pub struct Z3(z3::Solver);

impl Z3 {
    /// `milliseconds` is the time limit for one question, if there is one.
    pub fn new(milliseconds: Option<u32>) -> Self {
        let solver = z3::Solver::new();
        if let Some(limit) = milliseconds {
            let mut params = Params::new();
            params.set_u32("timeout", limit);
            solver.set_params(&params);
        }
        Z3(solver)
    }
}

/// One formula, which is asserted as long as this value lives.
pub struct Reference<'z> {
    solver: &'z mut z3::Solver,
    nodes: Vec<Int>,
    booleans: Vec<Option<Bool>>,
}

impl Drop for Reference<'_> {
    fn drop(&mut self) {
        self.solver.pop(1);
    }
}

impl<'z> Reference<'z> {
    pub fn new(z3: &'z mut Z3, nodes: usize, edges: &[(Node, Node)], formula: &Formula) -> Self {
        z3.0.push();
        let booleans = formula
            .atoms()
            .iter()
            .enumerate()
            .map(|(variable, atom)| match atom {
                Atom::Boolean(_) => Some(Bool::new_const(format!("b{variable}"))),
                Atom::Before(..) => None,
            });
        let reference = Reference {
            solver: &mut z3.0,
            nodes: (0..nodes)
                .map(|node| Int::new_const(format!("o{node}")))
                .collect(),
            booleans: booleans.collect(),
        };
        for &(a, b) in edges {
            reference.solver.assert(reference.before(a, b));
        }
        for clause in &formula.clauses {
            let parts = reference.literals(formula, clause);
            reference.solver.assert(Bool::or(&parts));
        }
        for count in &formula.counts {
            let mut parts = reference.literals(formula, &count.literals);
            for sum in &count.sums {
                let terms = reference.literals(formula, &sum.terms);
                let terms: Vec<(&Bool, i32)> = terms.iter().map(|term| (term, 1)).collect();
                let at_least = i32::try_from(sum.at_least).expect("sums are small");
                parts.push(match terms.is_empty() {
                    true => Bool::from_bool(at_least == 0),
                    false => Bool::pb_ge(&terms, at_least),
                });
            }
            reference.solver.assert(Bool::or(&parts));
        }
        reference
    }

    pub fn ask(&self, formula: &Formula, query: &[Literal]) -> Answer {
        self.solver.push();
        for part in self.literals(formula, query) {
            self.solver.assert(part);
        }
        let answer = match self.solver.check() {
            SatResult::Sat => Answer::Satisfiable,
            SatResult::Unsat => Answer::Unsatisfiable,
            SatResult::Unknown => Answer::Undecided,
        };
        self.solver.pop(1);
        answer
    }

    fn before(&self, a: Node, b: Node) -> Bool {
        self.nodes[a.index()].lt(&self.nodes[b.index()])
    }

    fn literals(&self, formula: &Formula, literals: &[Literal]) -> Vec<Bool> {
        let one = |&literal: &Literal| match formula.edge(literal) {
            Some((a, b)) => self.before(a, b),
            None => {
                let known = self
                    .booleans
                    .get(literal.variable())
                    .and_then(Option::as_ref);
                let boolean =
                    known.expect("the formula has no more variables than when it was asserted");
                if literal.negated() {
                    boolean.not()
                } else {
                    boolean.clone()
                }
            }
        };
        literals.iter().map(one).collect()
    }
}
