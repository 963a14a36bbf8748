//! Which plan the next run gets, and when enough is known: decisions from what runs have reported.

use norns_replay::Disturbance;
use norns_trace::Trace;

use super::plan::{Plan, Trackable, plans};
use super::{Means, SIGMA};
use crate::failure::{Failure, Signs};
use crate::found::Found;
use crate::search::{Seen, Sketch};
use crate::slice::Slice;

/// A plan is tried until it has seen so many failures and good runs.
const FAILURES: usize = 3;
const GOOD: usize = 3;
/// A plan that has seen so many runs without is given up.
const MOST_RUNS: usize = 60;
/// Predictors that are right at least so often end the search.
const CONVINCING: f64 = 0.95;

/// What is wanted next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A run under this plan, by its number.
    Run { plan: u32, watches: Plan },
    /// What the code says about this failure.
    Slice(Failure),
    /// Nothing: the failure can be explained.
    Enough,
}

/// How far the slice was tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// How many statements were tracked in the end, and how many the slice has.
    pub sigma: usize,
    pub statements: usize,
    /// How many statements outside of the slice watchpoints have caught.
    pub added: usize,
}

/// The state of a search. Runs may come from anywhere, and late: what counts is the plan that they had.
pub struct Tracking {
    means: Means,
    signs: Signs,
    found: Found,
    code: Option<Code>,
    /// The plans so far; the first one watches nothing.
    plans: Vec<Plan>,
    /// Where the plans of the current sigma begin.
    first: usize,
    sigma: usize,
}

struct Code {
    lines: Slice,
    statements: Vec<Trackable>,
}

impl Tracking {
    pub fn new(means: Means, signs: Signs) -> Self {
        Self {
            means,
            signs,
            found: Found::default(),
            code: None,
            plans: vec![Plan::nothing()],
            first: 0,
            sigma: 0,
        }
    }

    /// How many runs were reported.
    pub fn runs(&self) -> u32 {
        self.found.runs.len() as u32
    }

    pub fn next_step(&mut self) -> Next {
        let Some(failure) = self.found.failure() else {
            return self.run(0);
        };
        let Some(code) = &self.code else {
            return Next::Slice(failure.clone());
        };
        let statements = code.statements.len();
        if statements == 0 {
            return Next::Enough;
        }
        while self.sigma < statements || self.first == 0 {
            if let Some(plan) = self.wanted() {
                return self.run(plan);
            }
            if self.first > 0 && self.f(self.best()) >= CONVINCING {
                return Next::Enough;
            }
            self.widen();
        }
        match self.wanted() {
            Some(plan) => self.run(plan),
            None => Next::Enough,
        }
    }

    fn run(&self, plan: usize) -> Next {
        Next::Run {
            plan: plan as u32,
            watches: self.plans[plan].clone(),
        }
    }

    /// A plan of the current sigma that has not seen enough runs.
    fn wanted(&self) -> Option<usize> {
        let current = (self.first > 0).then_some(self.first..self.plans.len());
        current
            .into_iter()
            .flatten()
            .find(|&plan| !self.is_enough(plan))
    }

    fn is_enough(&self, plan: usize) -> bool {
        let (failed, good) = self.found.counts(plan as u32);
        failed >= FAILURES && good >= GOOD || failed + good >= MOST_RUNS
    }

    /// Goes on with twice as many statements.
    fn widen(&mut self) {
        let statements = self.code.as_ref().map_or(&[][..], |code| &code.statements);
        self.sigma = match self.sigma {
            // Sites see only the statements that they are at, and both sides of an order are wanted.
            0 if !self.means.watchpoints => statements.len(),
            0 => SIGMA.min(statements.len()),
            sigma => (2 * sigma).min(statements.len()),
        };
        self.first = self.plans.len();
        let plans = plans(statements, self.sigma, self.means);
        self.plans.extend(plans);
    }

    /// What the code says about the failure that `next_step` has named; empty if that is not known.
    pub fn slice(&mut self, lines: Slice, statements: Vec<Trackable>) {
        self.code = Some(Code { lines, statements });
    }

    /// A run under a plan that `next_step` has named. `number` is the caller's. A run under any other plan does
    /// not count.
    pub fn add(&mut self, number: u32, plan: u32, seen: &Seen) {
        if plan as usize >= self.plans.len() {
            return;
        }
        self.found
            .add(number, Disturbance::Nothing, seen, &self.signs);
        self.found.of_plan(plan);
    }

    fn f(&self, plan: usize) -> f64 {
        self.found.best_of(plan as u32)
    }

    /// The plan whose runs tell most: of those that have seen enough, if there are any.
    fn best(&self) -> usize {
        let rank = |plan: &usize| (self.is_enough(*plan), self.f(*plan));
        let better = |one: &usize, other: &usize| {
            let ((enough, f), (other_enough, other_f)) = (rank(one), rank(other));
            // Of equal ones the first.
            enough
                .cmp(&other_enough)
                .then(f.total_cmp(&other_f))
                .then(other.cmp(one))
        };
        let watching = (1..self.plans.len()).filter(|&plan| self.f(plan) > 0.0);
        watching.max_by(better).unwrap_or(0)
    }

    /// What predicts the most frequent failure. `trace` reads again what a run has seen.
    pub fn explain<E>(
        mut self,
        core: Option<&Failure>,
        trace: impl FnMut(u32) -> Result<Trace, E>,
    ) -> Result<(Sketch, Reach), E> {
        let best = self.best();
        self.found.sort(core);
        let (mut lines, statements) = match self.code {
            Some(code) => (code.lines, code.statements.len()),
            None => (Slice::default(), 0),
        };
        let added = add_caught(&self.found, &mut lines);
        let reach = Reach {
            sigma: self.sigma,
            statements,
            added,
        };
        let sketch = self.found.explain(best as u32, &lines, trace)?;
        Ok((sketch, reach))
    }
}

/// Adds the lines to the slice at which watched memory was accessed; how many were not in it.
fn add_caught(found: &Found, slice: &mut Slice) -> usize {
    if slice.lines.is_empty() {
        return 0;
    }
    let before = slice.lines.len();
    for run in &found.runs {
        let facts = &run.facts;
        let accesses =
            { facts.statements.iter() }.filter(|(pc, _)| !facts.branches.contains_key(pc));
        for (_, statement) in accesses {
            if statement.line > 0 && !slice.contains(statement) {
                slice.lines.push((statement.file.clone(), statement.line));
            }
        }
    }
    slice.lines.len() - before
}
