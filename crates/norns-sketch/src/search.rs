//! Runs the program until its failure has come often enough, and says what predicts it.
//!
//! Undisturbed runs show how the program behaves by itself; runs with delays and runs in which one thread
//! runs at a time, with other places where it may lose its turn, make rare failures come (Burckhardt et
//! al. 2010, PCT). Only the last know the order and values of all accesses.

use norns_replay::{Constraint, Disturbance, Ended, ForFailure};
use norns_trace::Trace;

use crate::facts::Facts;
use crate::failure::{self, Failure, Signs};
use crate::found::{Found, best_of_kinds};
use crate::predictor::Predictor;
use crate::proof::{self, Experiment, Proof};
use crate::slice::Slice;
use crate::steps::{self, Step};

/// How many orders are tried that predict the failure as well as the best one.
const TRIED: usize = 4;
/// The part of the time, in percent, after which a failure is explained with what is known.
const SEARCH: u32 = 60;
/// What counts as equally good.
const NEARLY: f64 = 0.05;
/// About how often threads lose their turn in a run, as far as the last one tells.
const SWITCHES: [u32; 5] = [4, 16, 2, 64, 8];
/// The seeds of the runs with constraints are above those of the others.
const PROOF_SEEDS: u64 = 1 << 20;

/// A program that can be run many times.
pub trait Program {
    type Error;

    /// Runs it and keeps its trace under this number.
    fn run(&mut self, number: u32, how: ForFailure) -> Result<Seen, Self::Error>;

    /// The trace of an earlier run.
    fn trace(&mut self, number: u32) -> Result<Trace, Self::Error>;

    /// The lines that the failure depends on, from the code.
    fn slice(&mut self, failure: &Failure) -> Result<Slice, Self::Error>;

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
    /// The failure of a core file: it is explained, and others are not.
    pub core: Option<Failure>,
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
    /// Whether it ended in another way than the first run without a failure, such as by another status: it
    /// is neither a failing run nor a good one.
    pub is_unlike: bool,
    /// Whether the order of its accesses is known.
    pub is_ordered: bool,
    /// The plan under which it was tracked; 0 for other runs and for those that watched nothing.
    pub plan: u32,
    pub facts: Facts,
}

impl Run {
    pub fn is_good(&self) -> bool {
        self.failure.is_none() && !self.is_unlike
    }
}

/// What was found out.
#[derive(Debug)]
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
    pub accesses: u32,
    /// How many lines the failure depends on; 0 if the code was not sliced.
    pub sliced: usize,
    /// How the first run without a failure ended.
    pub usual: Option<Ended>,
}

/// A run of which steps are shown.
#[derive(Debug)]
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
            false => disturbance(number, stretch(found.accesses(), number)),
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
    found.sort(options.core.as_ref());
    let slice = match found.failures.first() {
        Some((failure, _)) => program.slice(failure)?,
        None => Slice::default(),
    };
    let mut sketch = found.explain(0, &slice, |number| program.trace(number))?;
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

/// One in so many accesses lets others run, so that a run with so many has some switches.
fn stretch(accesses: u32, number: u32) -> u32 {
    let switches = SWITCHES[number as usize % SWITCHES.len()];
    (accesses / switches).max(2)
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
            shown.steps = steps::of_failing(&shown.trace, &best, self.failures[0].0.kind);
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
