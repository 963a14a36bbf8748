//! The runs so far, the failures that they had, and what tells failing runs from good ones.

use norns_replay::{Disturbance, Ended};
use norns_trace::Trace;

use crate::facts::Facts;
use crate::failure::{self, Failure, Signs};
use crate::predictor::{self, Predictor};
use crate::search::{Options, Run, Seen, Shown, Sketch};
use crate::slice::Slice;
use crate::steps;

/// After so many failures, and so many good runs, more would not tell much more. Further failures are
/// counted, and not looked at.
const FAILURES: usize = 5;
const GOOD: usize = 10;
/// Of a program that has failed so often few good runs must do.
const OFTEN: usize = 20;
const FEW_GOOD: usize = 3;
/// A program that failed so often without a good run always fails.
const ALWAYS: usize = 20;
/// How many accesses a run is taken to have before one has been seen.
const ACCESSES: u32 = 256;

#[derive(Default)]
pub struct Found {
    /// How many accesses the last run had in which they were all seen.
    accesses: Option<u32>,
    /// How the first run without a failure ended.
    usual: Option<Ended>,
    pub runs: Vec<Run>,
    pub failures: Vec<(Failure, usize)>,
}

impl Found {
    /// How many accesses a run has, about.
    pub fn accesses(&self) -> u32 {
        self.accesses.unwrap_or(ACCESSES)
    }

    pub fn add(&mut self, number: u32, disturbance: Disturbance, seen: &Seen, signs: &Signs) {
        let failure = failure::of_run(&seen.ended, &seen.output, &seen.trace, signs);
        let failure = failure.map(|failure| {
            let known = self
                .failures
                .iter()
                .position(|(known, _)| known.is_same(&failure));
            let index = known.unwrap_or_else(|| {
                self.failures.push((failure, 0));
                self.failures.len() - 1
            });
            self.failures[index].1 += 1;
            index
        });
        if seen.trace.accesses_ordered {
            let accesses = seen.trace.events.iter();
            let accesses = accesses.filter(|event| event.op.plain_access().is_some());
            self.accesses = u32::try_from(accesses.count()).ok();
        }
        if failure.is_none() && self.usual.is_none() {
            self.usual = Some(seen.ended.clone());
        }
        self.runs.push(Run {
            number,
            disturbance,
            failure,
            is_unlike: failure.is_none() && self.usual.as_ref() != Some(&seen.ended),
            is_ordered: seen.trace.accesses_ordered,
            plan: 0,
            facts: Facts::of(&seen.trace),
        });
    }

    /// The last run was tracked under the plan with this number.
    pub fn of_plan(&mut self, plan: u32) {
        if let Some(run) = self.runs.last_mut() {
            run.plan = plan;
        }
    }

    /// The failure that was seen most often so far.
    pub fn failure(&self) -> Option<&Failure> {
        let most = self.failures.iter().rev().max_by_key(|(_, count)| *count);
        most.map(|(failure, _)| failure)
    }

    /// How many runs under a plan had the failure that was seen most often, and how many were good.
    pub fn counts(&self, plan: u32) -> (usize, usize) {
        let failure = self.failure();
        let index = { self.failures.iter() }.position(|(known, _)| Some(known) == failure);
        let runs = || self.runs.iter().filter(|run| run.plan == plan);
        let failed = runs().filter(|run| run.failure.is_some() && run.failure == index);
        let good = runs().filter(|run| run.is_good());
        (failed.count(), good.count())
    }

    /// How well the best predictor of the runs under a plan predicts the failure.
    pub fn best_of(&self, plan: u32) -> f64 {
        let failure = self.failure();
        let index = { self.failures.iter() }.position(|(known, _)| Some(known) == failure);
        let facts = |wanted: Option<usize>| -> Vec<&Facts> {
            let runs = self.runs.iter().filter(|run| run.plan == plan);
            let runs = runs.filter(|run| run.failure == wanted && !run.is_unlike);
            runs.map(|run| &run.facts).collect()
        };
        let (failing, good) = (facts(index), facts(None));
        let Some(shown) = failing.first().filter(|_| !good.is_empty()) else {
            return 0.0;
        };
        let ranked = predictor::rank(&failing, &good, shown, None, &Slice::default());
        ranked.first().map_or(0.0, Predictor::f)
    }

    /// Whether the most frequent failure, or the one of the core file, and good runs were seen often enough,
    /// in runs with an order unless no run has one.
    pub fn is_enough(&self, options: &Options) -> bool {
        let counts = |run: &&Run| run.is_ordered || options.undisturbed;
        let runs = || self.runs.iter().filter(counts);
        let good = runs().filter(|run| run.is_good()).count();
        let of = |index| runs().filter(|run| run.failure == Some(index)).count();
        let is_wanted = |index: &usize| {
            let core = options.core.as_ref();
            core.is_none_or(|core| self.failures[*index].0.is_of_core(core))
        };
        let wanted = (0..self.failures.len()).filter(is_wanted);
        let most = wanted.map(of).max().unwrap_or(0);
        (most >= FAILURES && good >= GOOD)
            || (most >= OFTEN && good >= FEW_GOOD)
            || (good == 0 && most >= ALWAYS)
    }

    /// Puts the most frequent failure first. That of a core file stands before all others, also if no run
    /// has shown it.
    pub fn sort(&mut self, core: Option<&Failure>) {
        let is_core = |failure: &Failure| core.is_some_and(|core| failure.is_of_core(core));
        if let Some(core) = core
            && !self.failures.iter().any(|(failure, _)| is_core(failure))
        {
            self.failures.push((core.clone(), 0));
        }
        let mut order: Vec<usize> = (0..self.failures.len()).collect();
        order.sort_by_key(|&index| {
            let (failure, count) = &self.failures[index];
            (!is_core(failure), std::cmp::Reverse(*count))
        });
        let place = |index: usize| order.iter().position(|&at| at == index);
        for run in &mut self.runs {
            run.failure = run.failure.and_then(place);
        }
        self.failures = order
            .iter()
            .map(|&index| self.failures[index].clone())
            .collect();
    }

    /// What predicts the most frequent failure, from the runs under one plan. `trace` reads the trace of a
    /// run again.
    pub fn explain<E>(
        self,
        plan: u32,
        slice: &Slice,
        mut trace: impl FnMut(u32) -> Result<Trace, E>,
    ) -> Result<Sketch, E> {
        let ordered = self
            .runs
            .iter()
            .any(|run| run.failure == Some(0) && run.is_ordered && run.plan == plan);
        let counts = |run: &&Run| run.is_ordered == ordered && run.plan == plan;
        let failing: Vec<&Run> = { self.runs.iter().filter(counts) }
            .filter(|run| run.failure == Some(0))
            .take(FAILURES)
            .collect();
        let good: Vec<&Run> = { self.runs.iter().filter(counts) }
            .filter(|run| run.is_good())
            .collect();
        let mut predictors = Vec::new();
        let (mut failing_run, mut good_run) = (None, None);
        if let Some(first) = failing.first() {
            let failing_facts: Vec<&Facts> = failing.iter().map(|run| &run.facts).collect();
            let good_facts: Vec<&Facts> = good.iter().map(|run| &run.facts).collect();
            let place = self.failures[0].0.place.as_ref().map(|place| place.pc);
            let rank = |shown: &Run| {
                predictor::rank(&failing_facts, &good_facts, &shown.facts, place, slice)
            };
            predictors = rank(first);
            // The shortest failing run in which the best predictor was true.
            let best = predictors.first().map(|best| best.fact.clone());
            let size = |run: &&&Run| (run.facts.orders.len(), run.number);
            let holds = |run: &&&Run| best.as_ref().is_none_or(|best| best.holds(&run.facts));
            let shown = failing
                .iter()
                .filter(holds)
                .min_by_key(size)
                .unwrap_or(first);
            predictors = rank(shown);
            if good.is_empty() {
                // Nothing tells what all runs have from what makes them fail.
                predictors.clear();
            }
            failing_run = Some(shown.number);
            good_run = good
                .iter()
                .filter(|run| !holds(run))
                .min_by_key(size)
                .map(|run| run.number);
        }
        let best = || predictors.first();
        let failing = match failing_run {
            Some(number) => {
                let trace = trace(number)?;
                let best = best_of_kinds(&predictors);
                let steps = steps::of_failing(&trace, &best, self.failures[0].0.kind);
                Some(Shown {
                    number,
                    trace,
                    steps,
                })
            }
            None => None,
        };
        let good = match (good_run, best()) {
            (Some(number), Some(best)) => {
                let trace = trace(number)?;
                let steps = steps::of_good(&trace, best);
                Some(Shown {
                    number,
                    trace,
                    steps,
                })
            }
            _ => None,
        };
        Ok(Sketch {
            runs: self.runs,
            failures: self.failures,
            predictors,
            failing,
            good,
            proof: None,
            is_ordered: ordered,
            cause: None,
            accesses: self.accesses.unwrap_or(ACCESSES),
            sliced: slice.lines.len(),
            usual: self.usual,
        })
    }
}

/// The best predictor, and the best of each other kind that predicts as well.
pub fn best_of_kinds(predictors: &[Predictor]) -> Vec<&Predictor> {
    let mut best: Vec<&Predictor> = Vec::new();
    for predictor in predictors {
        let is_new = best.iter().all(|known| known.kind() != predictor.kind());
        if is_new && best.first().is_none_or(|first| predictor.f() >= first.f()) {
            best.push(predictor);
        }
    }
    best
}
