//! Prediction by the refinement checker, on the model as CSPM (`norns_model::cspm`).
//!
//! The method of Carril (2017): one assertion that the model is free of deadlock, and one for each
//! shared location that it has no race. A failed assertion says that there is a bug and where; exact
//! search then looks for the schedule, so that two independent engines agree on every finding. Where
//! they disagree, the result says so. This is for small traces only: the checker does not know that
//! states are vectors of positions.

use norns_csp::Budget;
use norns_csp::check::Options as CheckOptions;
use norns_csp::script::{Answer, Script, no_includes};
use norns_model::cspm::{Cell, Checks, cspm};
use norns_model::location::LocationId;
use norns_model::{Bug, Model, NotAnalysed};
use norns_trace::{EventIndex, Trace};

use crate::stage::{Detail, Engine, Options, Prediction, predict};

/// Longer traces are not analysed.
pub const MOST_EVENTS: usize = 2_000;
/// How many states the check of one assertion may visit.
const MOST_STATES: u64 = 5_000_000;

/// The answer of the refinement checker for one assertion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    Fails,
    Undecided,
}

pub(crate) fn predict_by_csp(trace: &Trace, options: &Options) -> Prediction {
    if trace.events.len() > MOST_EVENTS {
        return Prediction {
            not_analysed: vec![NotAnalysed::LongForRefinement {
                events: trace.events.len(),
                most: MOST_EVENTS,
            }],
            ..Prediction::default()
        };
    }
    let model = Model::new(trace, options.meaning);
    let checks = Checks {
        deadlock: options.deadlocks,
        race: options.races,
    };
    let (text, cells) = cspm(&model, checks);
    let verdicts = match verdicts(&text) {
        Ok(verdicts) => verdicts,
        Err(problem) => {
            return Prediction {
                not_analysed: vec![NotAnalysed::Refinement { problem }],
                ..Prediction::default()
            };
        }
    };
    let exact = Options {
        engine: Engine::Exact,
        detail: options.detail.max(Detail::Places),
        ..*options
    };
    let mut found = predict(trace, &exact);
    let (deadlock, races) = verdicts.split_at(usize::from(options.deadlocks));
    let mut disagree = 0;

    let touches = |event: EventIndex, cell: &Cell| {
        let mut locations = model.locations.of_event(event);
        locations.any(|location| LocationId(location) == cell.0)
            && model.lifetimes.block(event) == cell.1
    };
    let verdict = |first, second| {
        let both = cells.iter().zip(races);
        let mut both = both.filter(|(cell, _)| touches(first, cell) && touches(second, cell));
        if both.clone().any(|(_, verdict)| *verdict == Verdict::Fails) {
            Verdict::Fails
        } else if both.any(|(_, verdict)| *verdict == Verdict::Undecided) {
            Verdict::Undecided
        } else {
            Verdict::Holds
        }
    };
    let mut open = Vec::new();
    found.races.retain(|witness| {
        let Bug::Race { first, second } = witness.bug else {
            return false;
        };
        let verdict = verdict(first, second);
        disagree += usize::from(verdict == Verdict::Holds);
        if verdict == Verdict::Undecided {
            open.push(vec![first, second]);
        }
        verdict == Verdict::Fails
    });
    let shown = |cell: &Cell| {
        found.races.iter().any(|witness| match witness.bug {
            Bug::Race { first, second } => touches(first, cell) && touches(second, cell),
            Bug::LockDeadlock { .. } | Bug::Stuck { .. } => false,
        })
    };
    let fails = cells.iter().zip(races);
    let fails = fails.filter(|(_, verdict)| **verdict == Verdict::Fails);
    let unshown = fails.filter(|(cell, _)| !shown(cell)).count();
    let undecided = verdicts
        .iter()
        .filter(|v| **v == Verdict::Undecided)
        .count();
    found.undecided.extend(open);
    match deadlock {
        [Verdict::Holds] => {
            // In a model whose threads may leave the trace, the assertion covers fewer deadlocks.
            let deadlocks = found.deadlocks.len() + found.stuck.len();
            if deadlocks > 0 {
                let reason = NotAnalysed::DeadlocksOutsideTheTrace { deadlocks };
                found.not_analysed.push(reason);
            }
            found.deadlocks.clear();
            found.stuck.clear();
        }
        [Verdict::Undecided] => {
            found.deadlocks.clear();
            found.stuck.clear();
        }
        [Verdict::Fails] | [] | [_, _, ..] => {}
    }
    if undecided > 0 {
        found.race_counts.undecided += undecided;
        found.not_analysed.push(NotAnalysed::Assertions {
            undecided,
            states: MOST_STATES,
        });
    }
    if disagree + unshown > 0 {
        found.not_analysed.push(NotAnalysed::Disagreement {
            races: disagree + unshown,
        });
    }
    found
}

fn verdicts(text: &str) -> Result<Vec<Verdict>, String> {
    let mut script = Script::load("model.csp", text, &mut no_includes)
        .map_err(|error| format!("the model is not accepted: {error}"))?;
    let options = CheckOptions {
        threads: 1,
        budget: Budget {
            states: Some(MOST_STATES),
            ..Budget::default()
        },
        ..CheckOptions::default()
    };
    (0..script.assertions.len())
        .map(|i| match script.check(i, &options, &mut |_| {}) {
            Ok((Answer::Holds, _)) => Ok(Verdict::Holds),
            Ok((Answer::Fails(_), _)) => Ok(Verdict::Fails),
            Ok((Answer::Undecided(_), _)) => Ok(Verdict::Undecided),
            Err(error) => Err(format!("an assertion cannot be checked: {error}")),
        })
        .collect()
}
