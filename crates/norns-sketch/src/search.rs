//! Runs the program until its failure has come often enough, and says what predicts it.
//!
//! Undisturbed runs show how the program behaves by itself; runs with delays and runs in which one thread
//! runs at a time, with other places where it may lose its turn, make rare failures come (Burckhardt et
//! al. 2010, PCT). Only the last know the order and values of all accesses.

use norns_replay::{Constraint, Disturbance, Ended, ForFailure};
use norns_trace::Trace;

use crate::facts::Facts;
use crate::failure::{self, Failure, Signs};
use crate::predictor::{self, Predictor};
use crate::proof::{self, Experiment, Proof};
use crate::steps::{self, Step};

/// After so many failures, and so many good runs, more would not tell much more.
const FAILURES: usize = 5;
const GOOD: usize = 10;
/// A program that failed so often without a good run always fails.
const ALWAYS: usize = 20;
/// How many orders are tried that predict the failure as well as the best one.
const TRIED: usize = 4;
/// The part of the time, in percent, after which a failure is explained with what is known.
const SEARCH: u32 = 60;
/// What counts as equally good.
const NEARLY: f64 = 0.05;
/// About how often threads lose their turn in a run, as far as the last one tells.
const SWITCHES: [u32; 5] = [4, 16, 2, 64, 8];
/// How many accesses a run is taken to have before one has been seen.
const ACCESSES: u32 = 256;
/// The seeds of the runs with constraints are above those of the others.
const PROOF_SEEDS: u64 = 1 << 20;

/// A program that can be run many times.
pub trait Program {
    type Error;

    /// Runs it and keeps its trace under this number.
    fn run(&mut self, number: u32, how: ForFailure) -> Result<Seen, Self::Error>;

    /// The trace of an earlier run.
    fn trace(&mut self, number: u32) -> Result<Trace, Self::Error>;

    /// Whether there is time for another run before this part of the time, in percent, is over.
    fn has_time(&self, part: u32) -> bool;
}

/// A run as it was seen.
pub struct Seen {
    pub ended: Ended,
    pub output: String,
    pub trace: Trace,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The most runs, without those of the proof.
    pub runs: u32,
    /// Leave the schedule to the machine.
    pub undisturbed: bool,
    pub signs: Signs,
    /// How often the order is forced, and how often forbidden.
    pub proofs: u32,
}

/// One run, and what came of it.
#[derive(Clone, Debug)]
pub struct Run {
    pub number: u32,
    pub disturbance: Disturbance,
    /// Which of `Sketch::failures` it was.
    pub failure: Option<usize>,
    /// Whether the order of its accesses is known.
    pub is_ordered: bool,
    pub facts: Facts,
}

/// What was found out.
pub struct Sketch {
    pub runs: Vec<Run>,
    /// The failures that were seen, each with how often, the most frequent first.
    pub failures: Vec<(Failure, usize)>,
    /// What predicts the first of them, best first.
    pub predictors: Vec<Predictor>,
    /// The failing run that is shown, and a good one.
    pub failing: Option<Shown>,
    pub good: Option<Shown>,
    /// For the best predictor.
    pub proof: Option<Proof>,
    /// Whether the runs knew the order of their accesses.
    pub is_ordered: bool,
    /// What forces the order that is the cause, if that was proved.
    pub cause: Option<Constraint>,
    /// How many accesses a run has, about.
    accesses: u32,
}

/// A run of which steps are shown.
pub struct Shown {
    pub number: u32,
    pub trace: Trace,
    pub steps: Vec<Step>,
}

/// Runs the program, and explains its most frequent failure.
pub fn sketch<P: Program>(program: &mut P, options: &Options) -> Result<Sketch, P::Error> {
    let mut found = Found::default();
    for number in 0..options.runs {
        // A proof is worth more than further failures.
        let part = if found.failures.is_empty() {
            100
        } else {
            SEARCH
        };
        if number > 0 && (!program.has_time(part) || found.is_enough(options)) {
            break;
        }
        let disturbance = match options.undisturbed {
            true => Disturbance::Nothing,
            false => disturbance(number, found.stretch(number)),
        };
        let how = ForFailure {
            disturbance,
            constraint: None,
        };
        let seen = program.run(number, how)?;
        if seen.ended == Ended::Interrupted {
            break;
        }
        found.add(number, disturbance, &seen, &options.signs);
    }
    found.sort();
    let mut sketch = found.explain(program)?;
    prove(program, options, &mut sketch)?;
    Ok(sketch)
}

/// What a run is disturbed by: the first not at all.
fn disturbance(number: u32, stretch: u32) -> Disturbance {
    let seed = u64::from(number);
    match number % 8 {
        0 => Disturbance::Nothing,
        4 => Disturbance::Delays { seed },
        _ => Disturbance::Turns { seed, stretch },
    }
}

#[derive(Default)]
struct Found {
    /// How many accesses the last run had in which they were all seen.
    accesses: Option<u32>,
    runs: Vec<Run>,
    failures: Vec<(Failure, usize)>,
}

/// One in so many accesses lets others run, so that a run with so many has some switches.
fn stretch(accesses: u32, number: u32) -> u32 {
    let switches = SWITCHES[number as usize % SWITCHES.len()];
    (accesses / switches).max(2)
}

impl Found {
    fn stretch(&self, number: u32) -> u32 {
        stretch(self.accesses.unwrap_or(ACCESSES), number)
    }

    fn add(&mut self, number: u32, disturbance: Disturbance, seen: &Seen, signs: &Signs) {
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
        self.runs.push(Run {
            number,
            disturbance,
            failure,
            is_ordered: seen.trace.accesses_ordered,
            facts: Facts::of(&seen.trace),
        });
    }

    /// How many runs failed most often in the same way, and how many were good, of those with an order
    /// if there are any.
    fn is_enough(&self, options: &Options) -> bool {
        let counts = |run: &&Run| run.is_ordered || options.undisturbed;
        let runs = || self.runs.iter().filter(counts);
        let good = runs().filter(|run| run.failure.is_none()).count();
        let of = |index| runs().filter(|run| run.failure == Some(index)).count();
        let most = (0..self.failures.len()).map(of).max().unwrap_or(0);
        (most >= FAILURES && good >= GOOD) || (good == 0 && most >= ALWAYS)
    }

    /// Puts the most frequent failure first.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.failures.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.failures[index].1));
        let place = |index: usize| order.iter().position(|&at| at == index);
        for run in &mut self.runs {
            run.failure = run.failure.and_then(place);
        }
        self.failures = order
            .iter()
            .map(|&index| self.failures[index].clone())
            .collect();
    }

    fn explain<P: Program>(self, program: &mut P) -> Result<Sketch, P::Error> {
        let ordered = self
            .runs
            .iter()
            .any(|run| run.failure == Some(0) && run.is_ordered);
        let counts = |run: &&Run| run.is_ordered == ordered;
        let failing: Vec<&Run> = { self.runs.iter().filter(counts) }
            .filter(|run| run.failure == Some(0))
            .collect();
        let good: Vec<&Run> = { self.runs.iter().filter(counts) }
            .filter(|run| run.failure.is_none())
            .collect();
        let mut predictors = Vec::new();
        let (mut failing_run, mut good_run) = (None, None);
        if let Some(first) = failing.first() {
            let failing_facts: Vec<&Facts> = failing.iter().map(|run| &run.facts).collect();
            let good_facts: Vec<&Facts> = good.iter().map(|run| &run.facts).collect();
            let place = self.failures[0].0.place.as_ref().map(|place| place.pc);
            let rank =
                |shown: &Run| predictor::rank(&failing_facts, &good_facts, &shown.facts, place);
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
                let trace = program.trace(number)?;
                let best = best_of_kinds(&predictors);
                let steps = steps::of_failing(&trace, &best);
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
                let trace = program.trace(number)?;
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
        })
    }
}

/// The best predictor, and the best of each other kind that predicts as well.
fn best_of_kinds(predictors: &[Predictor]) -> Vec<&Predictor> {
    let mut best: Vec<&Predictor> = Vec::new();
    for predictor in predictors {
        let is_new = best.iter().all(|known| known.kind() != predictor.kind());
        if is_new && best.first().is_none_or(|first| predictor.f() >= first.f()) {
            best.push(predictor);
        }
    }
    best
}

/// Forces and forbids the orders that predict the failure best, until one of them is its cause.
fn prove<P: Program>(
    program: &mut P,
    options: &Options,
    sketch: &mut Sketch,
) -> Result<(), P::Error> {
    let Some(best) = sketch.predictors.first().map(Predictor::f) else {
        return Ok(());
    };
    if !sketch.is_ordered || options.undisturbed || options.proofs == 0 {
        return Ok(());
    }
    let Some(failing) = &sketch.failing else {
        return Ok(());
    };
    let good = sketch.good.as_ref().map(|shown| &shown.trace);
    let candidates: Vec<(usize, Vec<Experiment>)> = { sketch.predictors.iter().enumerate() }
        .filter(|(_, predictor)| predictor.f() >= best - NEARLY)
        .map(|(index, one)| (index, proof::experiments(one, &failing.trace, good)))
        .filter(|(_, experiments)| !experiments.is_empty())
        .take(TRIED)
        .collect();
    let mut first = None;
    for (index, experiments) in candidates {
        for experiment in experiments {
            let all = index == 0 && first.is_none();
            let Some(proof) = tried(program, options, sketch, experiment, all)? else {
                sketch.proof = first;
                return Ok(());
            };
            if proof.is_confirmed() {
                let cause = sketch.predictors.remove(index);
                sketch.predictors.insert(0, cause);
                sketch.proof = Some(proof);
                sketch.cause = Some(experiment.force);
                sketch.show_again();
                return Ok(());
            }
            if index == 0 && first.is_none_or(|known: Proof| known.forced.0 < proof.forced.0) {
                first = Some(proof);
            }
        }
    }
    sketch.proof = first;
    Ok(())
}

impl Sketch {
    /// Shows the steps of the predictor that turned out to be the cause.
    fn show_again(&mut self) {
        let best = best_of_kinds(&self.predictors);
        if let Some(shown) = &mut self.failing {
            shown.steps = steps::of_failing(&shown.trace, &best);
        }
        if let (Some(shown), Some(best)) = (&mut self.good, best.first()) {
            shown.steps = steps::of_good(&shown.trace, best);
        }
    }
}

/// How often the program fails with the order, and without; `None` if there is no time left. Any failure
/// counts: the same cause can show at several places, and without it the program must not fail at all.
/// Unless `all` are wanted, the first run that contradicts the cause is the last one.
fn tried<P: Program>(
    program: &mut P,
    options: &Options,
    sketch: &Sketch,
    experiment: Experiment,
    all: bool,
) -> Result<Option<Proof>, P::Error> {
    let mut counts = [(0, 0); 2];
    let mut number = sketch.runs.last().map_or(0, |run| run.number) + 1;
    let constraints = [experiment.force, experiment.forbid];
    for (at, constraint) in constraints.into_iter().enumerate() {
        for attempt in 0..options.proofs {
            if !program.has_time(100) {
                return Ok(None);
            }
            let how = ForFailure {
                disturbance: Disturbance::Turns {
                    seed: PROOF_SEEDS + u64::from(attempt),
                    stretch: stretch(sketch.accesses, attempt),
                },
                constraint: Some(constraint),
            };
            let seen = program.run(number, how)?;
            if seen.ended == Ended::Interrupted {
                return Ok(None);
            }
            number += 1;
            let failure = failure::of_run(&seen.ended, &seen.output, &seen.trace, &options.signs);
            counts[at].0 += usize::from(failure.is_some());
            counts[at].1 += 1;
            let contradicts = failure.is_some() != (at == 0);
            if contradicts && !all {
                return Ok(Some(Proof {
                    forced: counts[0],
                    forbidden: counts[1],
                }));
            }
        }
    }
    let [forced, forbidden] = counts;
    Ok(Some(Proof { forced, forbidden }))
}
