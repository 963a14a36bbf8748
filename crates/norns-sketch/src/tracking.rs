//! Tracking a part of the slice at a time: adaptive slice tracking (Kasikci 2015, section 4.3.1).
//!
//! The first plan names the statements closest to the failure, two of them; if what they access does not
//! tell failing runs from good ones, the next plan names twice as many. Of memory a plan watches four
//! pieces, as many as there are watchpoints; more are shared over several runs, and only runs that watched
//! the same are compared. What a watchpoint catches at statements outside of the slice counts like the rest.
//!
//! All runs are ordinary ones, so a rare failure needs many of them, and nothing is forced.

use norns_replay::{Disturbance, Ended};
use norns_trace::Trace;
use norns_wire::tracking::{Planned, Target, WATCHPOINTS};

use crate::failure::Failure;
use crate::found::Found;
use crate::search::{Options, Seen, Sketch};
use crate::slice::Slice;

/// How many statements are tracked at first.
pub const SIGMA: usize = 2;
/// So many accesses of a run are seen through one watchpoint.
const MOST: u32 = 500;
/// A plan is tried until it has seen so many failures and good runs.
const FAILURES: usize = 3;
const GOOD: usize = 3;
/// A plan that has seen so many runs without is given up.
const MOST_RUNS: usize = 60;
/// Predictors that are right at least so often end the search.
const CONVINCING: f64 = 0.95;

/// What one run is to watch: plain data, in the form of `norns_wire::tracking`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// For each watchpoint the memory that it watches, whichever comes first.
    pub watches: Vec<Vec<Target>>,
    /// Of how many accesses a watchpoint tells at most.
    pub most: u32,
}

impl Plan {
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut put = |planned: Planned| {
            let written = planned.encode(&mut text);
            written.expect("a string takes everything");
        };
        put(Planned::Begin);
        put(Planned::Most(self.most));
        for (number, targets) in (0..).zip(&self.watches) {
            for &target in targets {
                put(Planned::Watch { number, target });
            }
        }
        text
    }

    /// `None` if the text is none of this version.
    pub fn parse(text: &str) -> Option<Plan> {
        let mut lines = text.lines();
        if lines.next().and_then(Planned::parse) != Some(Planned::Begin) {
            return None;
        }
        let mut plan = Plan::default();
        for line in lines {
            match Planned::parse(line)? {
                Planned::Begin => return None,
                Planned::Most(most) => plan.most = most,
                Planned::Watch { number, target } => {
                    let number = number as usize;
                    if number >= WATCHPOINTS {
                        return None;
                    }
                    if plan.watches.len() <= number {
                        plan.watches.resize(number + 1, Vec::new());
                    }
                    plan.watches[number].push(target);
                }
            }
        }
        Some(plan)
    }
}

/// A statement of the slice, as far as it can be tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trackable {
    /// The memory that it accesses; of each piece all places where it can be.
    pub memory: Vec<Vec<Target>>,
}

/// The plans for the first `sigma` statements: together they watch all of their memory.
pub fn plans(slice: &[Trackable], sigma: usize) -> Vec<Plan> {
    let tracked = &slice[..sigma.min(slice.len())];
    let mut memory: Vec<Vec<Target>> = Vec::new();
    for piece in tracked.iter().flat_map(|statement| &statement.memory) {
        if !memory.contains(piece) {
            memory.push(piece.clone());
        }
    }
    let mut plans: Vec<Plan> = { memory.chunks(WATCHPOINTS) }
        .map(|watches| Plan {
            watches: watches.to_vec(),
            most: MOST,
        })
        .collect();
    if plans.is_empty() {
        plans.push(Plan {
            watches: Vec::new(),
            most: MOST,
        });
    }
    plans
}

/// A program that can be run under a plan.
pub trait Tracked {
    type Error;

    /// Runs it and keeps what it saw under this number.
    fn track(&mut self, number: u32, plan: &Plan) -> Result<Seen, Self::Error>;

    /// The lines that the failure depends on, the closest first, and how each can be tracked; empty if they
    /// are not known.
    fn slice(&mut self, failure: &Failure) -> Result<(Slice, Vec<Trackable>), Self::Error>;

    /// What an earlier run saw.
    fn trace(&mut self, number: u32) -> Result<Trace, Self::Error>;

    fn has_time(&self) -> bool;
}

/// How far the slice was tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// How many statements were tracked in the end, and how many the slice has.
    pub sigma: usize,
    pub statements: usize,
}

/// Runs the program under plans and explains its most frequent failure.
pub fn track<P: Tracked>(program: &mut P, options: &Options) -> Result<(Sketch, Reach), P::Error> {
    let mut found = Found::default();
    let mut number = 0;
    let mut run = |program: &mut P, found: &mut Found, plan: &Plan, group: u32| {
        if number >= options.runs || (number > 0 && !program.has_time()) {
            return Ok(false);
        }
        let seen = program.track(number, plan)?;
        if seen.ended == Ended::Interrupted {
            return Ok(false);
        }
        found.add(number, Disturbance::Nothing, &seen, &options.signs);
        found.of_plan(group);
        number += 1;
        Ok(true)
    };
    let nothing = Plan {
        most: MOST,
        ..Plan::default()
    };
    while found.failure().is_none() {
        if !run(program, &mut found, &nothing, 0)? {
            break;
        }
    }
    let mut reach = Reach::default();
    let (mut best, mut all) = (0, Slice::default());
    if let Some(failure) = found.failure().cloned() {
        let (lines, slice) = program.slice(&failure)?;
        all = lines;
        reach.statements = slice.len();
        let mut group = 0;
        let mut sigma = SIGMA;
        let mut goes_on = !slice.is_empty();
        while goes_on {
            reach.sigma = sigma.min(slice.len());
            let first = group + 1;
            let plans = plans(&slice, sigma);
            for plan in &plans {
                group += 1;
                while goes_on && !is_enough(found.counts(group)) {
                    goes_on = run(program, &mut found, plan, group)?;
                }
            }
            let f = |group: &u32| found.best_of(*group);
            let ranked = (first..=group).max_by(|one, other| f(one).total_cmp(&f(other)));
            if let Some(ranked) = ranked.filter(|ranked| f(ranked) > f(&best)) {
                best = ranked;
            }
            goes_on = goes_on && f(&best) < CONVINCING && sigma < slice.len();
            sigma *= 2;
        }
    }
    found.sort(options.core.as_ref());
    let sketch = found.explain(best, &all, |number| program.trace(number))?;
    Ok((sketch, reach))
}

fn is_enough((failed, good): (usize, usize)) -> bool {
    failed >= FAILURES && good >= GOOD || failed + good >= MOST_RUNS
}
