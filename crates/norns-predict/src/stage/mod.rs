//! The stages: every candidate goes through them from the cheapest to the most expensive, until one
//! decides it.
//!
//! Filters rule candidates out, near-linear prediction finds witnesses, exact search does both within
//! a budget. What remains undecided is listed. Every candidate has its own budget, and all of them
//! share one, of which each stage gets a part and hands back what it does not need. Budgets count
//! work, so the speed of the machine changes no answer, unless the clock of the caller ends the work.
//!
//! `options` has the question and the answer; `races` and `deadlocks` collect and decide candidates.
//!
//! Every witness goes through the independent checker. One that it refuses is a mistake of the engine
//! that found it: it is not reported, but counted as refused.

mod deadlocks;
mod options;
mod races;

pub use options::{Counts, Detail, Engine, Options, Prediction, Reductions};

use std::cell::Cell;

use norns_budget::Budget;
use norns_model::checker::Checker;
use norns_model::given_up::give_up_objects;
use norns_model::segment::{SegmentId, Segments};
use norns_model::{Bug, Meaning, Model, NotAnalysed, Witness};
use norns_trace::{EventIndex, Trace};
use rustc_hash::FxHashMap;

use crate::exact::index::Index;
use crate::exact::search::{Outcome, UNITS_PER_STEP, reach};
use crate::linear::{Linear, Options as LinearOptions};
use crate::{csp, order, values};

/// The ordering solver is asked only about traces of at most this many events: its formula grows
/// faster than the trace.
const MOST_ORDERED: usize = 20_000;

/// Units of work for each event of the trace before the first candidate.
pub(crate) const UNITS_TO_PREPARE: usize = 20;
/// Units of work for each step of a schedule that is made and checked.
const UNITS_TO_CHECK: usize = 3;
/// The schedules of all witnesses together have at most this many steps; witnesses beyond that are
/// only counted.
const MOST_STEPS_KEPT: usize = 50_000_000;

/// Predicts races and deadlocks, however much work it is.
pub fn predict(trace: &Trace, options: &Options) -> Prediction {
    predict_within(trace, options, &Budget::unlimited())
}

/// Predicts races and deadlocks. When the work is spent, the result has what is known by then, and
/// says what was not looked at.
pub fn predict_within(trace: &Trace, options: &Options, work: &Budget) -> Prediction {
    let (trace, given_up) = give_up_objects(trace);
    let mut found = predict_by_engine(&trace, options, work);
    found.not_analysed.splice(0..0, given_up);
    if work.is_spent() {
        found.not_analysed.push(NotAnalysed::OutOfBudget {
            by_the_clock: work.was_stopped(),
        });
    }
    found
}

fn predict_by_engine(trace: &Trace, options: &Options, work: &Budget) -> Prediction {
    let options = Options {
        meaning: options.answered_meaning(),
        ..*options
    };
    if options.engine == Engine::Csp {
        return csp::predict_by_csp(trace, &options, work);
    }
    if options.meaning != Meaning::SameValues {
        return run_stages(trace, &options, work);
    }
    if options.engine == Engine::Order {
        let by_solver = Options {
            // Two events of one segment may have seen different values.
            reductions: Reductions {
                hybrid: options.reductions.hybrid,
                ..Reductions::NONE
            },
            longest_kept: usize::MAX,
            ..options
        };
        return run_stages(trace, &by_solver, work);
    }
    let optimistic = Options {
        meaning: Meaning::Optimistic,
        longest_kept: usize::MAX,
        // Which events race follows from the pairs that values allow.
        detail: match options.detail {
            Detail::Places => Detail::Places,
            Detail::Events | Detail::Pairs => Detail::Pairs,
        },
        ..options
    };
    let mut found = work.stage(1, 2, || run_stages(trace, &optimistic, work));
    values::sift(trace, &options, &mut found, work);
    found
}

/// All stages, in a meaning that each of them can answer: values only with the ordering solver
/// alone.
fn run_stages(trace: &Trace, options: &Options, work: &Budget) -> Prediction {
    if work.is_out_of_time() {
        return Prediction::default();
    }
    work.count((UNITS_TO_PREPARE * trace.events.len()) as u64);
    let model = Model::new(trace, options.meaning);
    let mut predictor = Predictor {
        model: &model,
        options,
        budget: options.budget,
        index: Index::of(&model),
        linear: matches!(options.engine, Engine::Auto | Engine::Linear)
            .then(|| Linear::within(&model, work.clone())),
        order: None,
        checker: Checker::new(trace, options.meaning),
        segments: Segments::of(&model),
        by_segments: FxHashMap::default(),
        steps_shared: 0,
        found: Prediction::default(),
        work: work.clone(),
        steps_kept: Cell::new(0),
    };
    if options.races {
        let part = if options.deadlocks { 6 } else { 10 };
        work.stage(part, 10, || predictor.races());
    }
    if options.deadlocks {
        predictor.deadlocks();
    }
    let found = &mut predictor.found;
    let findings = found.race_counts.unlisted + found.deadlock_counts.unlisted;
    if findings > 0 {
        found.not_analysed.push(NotAnalysed::Unlisted { findings });
    }
    predictor.found
}

struct Predictor<'a> {
    model: &'a Model<'a>,
    options: &'a Options,
    /// How many steps of exact search one candidate may take.
    budget: usize,
    index: Index,
    linear: Option<Linear<'a>>,
    /// Built when it is first needed.
    order: Option<order::Engine<'a>>,
    checker: Checker<'a>,
    segments: Segments,
    /// The pairs of segments that have been decided: the schedule, or `None` if there is none.
    by_segments: FxHashMap<(SegmentId, SegmentId), Option<Vec<EventIndex>>>,
    /// How many steps the schedules in `by_segments` have.
    steps_shared: usize,
    found: Prediction,
    /// What is left for all candidates.
    work: Budget,
    /// How many steps the schedules of the witnesses in `found` have.
    steps_kept: Cell<usize>,
}

/// The decision of the engines about one candidate.
enum Decision {
    Shown(Witness),
    Impossible,
    Open,
}

impl<'a> Predictor<'a> {
    /// Tries the engines from the cheapest to the most expensive, and checks the witness.
    fn decide(&mut self, counts: &mut Counts, goal: &[EventIndex], bug: Bug) -> Decision {
        counts.candidates += 1;
        if self.work.is_spent() {
            counts.undecided += 1;
            return Decision::Open;
        }
        if let Some(linear) = &self.linear {
            let options = LinearOptions::default();
            let witness = match &bug {
                Bug::Race { first, second } => linear.race(*first, *second, &options),
                Bug::LockDeadlock { blocked } => linear.lock_deadlock(blocked, &options),
                Bug::Stuck { .. } | Bug::Order { .. } | Bug::Atomicity { .. } => None,
            };
            if let Some(witness) = witness.filter(|witness| self.accepts(counts, witness)) {
                counts.linear += 1;
                return Decision::Shown(witness);
            }
        }
        if let Some(linear) = &self.linear
            && !matches!(bug, Bug::Stuck { .. })
            && linear.is_impossible(goal)
        {
            counts.impossible += 1;
            return Decision::Impossible;
        }
        if self.options.engine == Engine::Linear {
            counts.undecided += 1;
            return Decision::Open;
        }
        let mut outcome = Outcome::Undecided;
        if self.options.engine != Engine::Order {
            let most = UNITS_PER_STEP.saturating_mul(self.budget as u64);
            let work = &self.work;
            outcome = work.within(most, || reach(self.model, &self.index, goal, work));
        }
        match outcome {
            Outcome::Reached(schedule) => {
                let witness = Witness { schedule, bug };
                if self.accepts(counts, &witness) {
                    counts.exact += 1;
                    return Decision::Shown(witness);
                }
            }
            Outcome::Unreachable => {
                counts.impossible += 1;
                return Decision::Impossible;
            }
            Outcome::Undecided if self.options.engine == Engine::Exact => {}
            Outcome::Undecided => match self.ask_solver(bug) {
                order::Outcome::Witness(witness) if self.accepts(counts, &witness) => {
                    counts.order += 1;
                    return Decision::Shown(witness);
                }
                order::Outcome::Impossible => {
                    counts.impossible += 1;
                    return Decision::Impossible;
                }
                order::Outcome::Witness(_) | order::Outcome::Undecided => {}
            },
        }
        counts.undecided += 1;
        Decision::Open
    }

    fn ask_solver(&mut self, bug: Bug) -> order::Outcome {
        let trace = self.model.trace;
        if trace.events.len() > MOST_ORDERED {
            return order::Outcome::Undecided;
        }
        self.order
            .get_or_insert_with(|| {
                order::Engine::within(trace, self.options.meaning, self.work.clone())
            })
            .find(bug)
    }

    /// The witness, with its schedule shortened to what the result keeps; `None`, and counted, if
    /// the result has no room for it.
    fn kept(&self, counts: &mut Counts, mut witness: Witness) -> Option<Witness> {
        let length = witness.schedule.len();
        let steps = length.min(self.options.longest_kept);
        let kept = self.steps_kept.get() + steps;
        if kept > MOST_STEPS_KEPT {
            counts.unlisted += 1;
            return None;
        }
        self.steps_kept.set(kept);
        witness.schedule = witness.schedule.split_off(length - steps);
        Some(witness)
    }

    fn accepts(&self, counts: &mut Counts, witness: &Witness) -> bool {
        self.work
            .count((UNITS_TO_CHECK * witness.schedule.len()) as u64);
        let accepted = self.checker.check(witness).is_ok();
        counts.refused += usize::from(!accepted);
        accepted
    }
}
