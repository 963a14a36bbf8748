//! Prediction by the refinement checker, on the model as CSPM (`norns_model::cspm`).
//!
//! The method of Carril (2017): one assertion that the model is free of deadlock, and one for each
//! shared location that it has no race. A failed assertion says that there is a bug and where; exact
//! search then looks for the schedule, so that two independent engines agree on every finding. Where
//! they disagree, the result says so. This is for small traces only: the checker does not know that
//! states are vectors of positions.

use norns_budget::Budget;
use norns_csp::check::Options as CheckOptions;
use norns_csp::script::{Answer, Script, no_includes};
use norns_model::cspm::{Checks, Cspm, cspm};
use norns_model::location::LocationId;
use norns_model::{Bug, Model, NotAnalysed, Witness};
use norns_trace::{EventIndex, Trace};

use crate::stage::{Detail, Engine, Options, Prediction, predict_within};

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

pub(crate) fn predict_by_csp(trace: &Trace, options: &Options, work: &Budget) -> Prediction {
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
        events: false,
    };
    let Cspm { text, cells, .. } = cspm(&model, checks);
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
    let mut found = predict_within(trace, &exact, work);
    let (deadlock, races) = verdicts.split_at(usize::from(options.deadlocks));
    let races = Races {
        model: &model,
        cells: &cells,
        verdicts: races,
    };
    let disagreements = races.compare(&mut found);
    if let Some(&verdict) = deadlock.first() {
        compare_deadlocks(verdict, &mut found);
    }
    let undecided = verdicts.iter().filter(|&&v| v == Verdict::Undecided);
    let undecided = undecided.count();
    if undecided > 0 {
        found.race_counts.undecided += undecided;
        found.not_analysed.push(NotAnalysed::Assertions {
            undecided,
            states: MOST_STATES,
        });
    }
    if disagreements > 0 {
        found.not_analysed.push(NotAnalysed::Disagreement {
            races: disagreements,
        });
    }
    found
}

/// The assertions about races.
struct Races<'a> {
    model: &'a Model<'a>,
    cells: &'a [LocationId],
    /// One for each location.
    verdicts: &'a [Verdict],
}

impl Races<'_> {
    fn touches(&self, event: EventIndex, cell: LocationId) -> bool {
        self.model.locations.of_event(event).contains(&cell.0)
    }

    /// Whether the witness is a race on this location.
    fn is_on(&self, witness: &Witness, cell: LocationId) -> bool {
        match witness.bug {
            Bug::Race { first, second } => self.touches(first, cell) && self.touches(second, cell),
            Bug::LockDeadlock { .. }
            | Bug::Stuck { .. }
            | Bug::Order { .. }
            | Bug::Atomicity { .. } => false,
        }
    }

    /// The verdict about the cells that both accesses of a race touch.
    fn verdict(&self, witness: &Witness) -> Verdict {
        let cells = self.cells.iter().zip(self.verdicts);
        let mut cells = cells.filter(|(cell, _)| self.is_on(witness, **cell));
        if cells.clone().any(|(_, verdict)| *verdict == Verdict::Fails) {
            Verdict::Fails
        } else if cells.any(|(_, verdict)| *verdict == Verdict::Undecided) {
            Verdict::Undecided
        } else {
            Verdict::Holds
        }
    }

    /// Keeps the races on which the checker agrees with exact search. Returns on how many races or
    /// cells they disagree.
    fn compare(&self, found: &mut Prediction) -> usize {
        let mut disagreements = 0;
        let undecided = &mut found.undecided;
        found.races.retain(|witness| {
            let verdict = self.verdict(witness);
            disagreements += usize::from(verdict == Verdict::Holds);
            if let (Verdict::Undecided, Bug::Race { first, second }) = (verdict, &witness.bug) {
                undecided.push(vec![*first, *second]);
            }
            verdict == Verdict::Fails
        });
        let fails = self.cells.iter().zip(self.verdicts);
        let fails = fails.filter(|(_, verdict)| **verdict == Verdict::Fails);
        let is_shown = |cell| found.races.iter().any(|witness| self.is_on(witness, cell));
        disagreements + fails.filter(|(cell, _)| !is_shown(**cell)).count()
    }
}

/// Keeps the deadlocks of exact search if the checker finds one, too.
fn compare_deadlocks(verdict: Verdict, found: &mut Prediction) {
    if verdict == Verdict::Fails {
        return;
    }
    let deadlocks = found.deadlocks.len() + found.stuck.len();
    if verdict == Verdict::Holds && deadlocks > 0 {
        // In a model whose threads may leave the trace, the assertion covers fewer deadlocks.
        let reason = NotAnalysed::DeadlocksOutsideTheTrace { deadlocks };
        found.not_analysed.push(reason);
    }
    found.deadlocks.clear();
    found.stuck.clear();
}

fn verdicts(text: &str) -> Result<Vec<Verdict>, String> {
    let mut script = Script::load("model.csp", text, &mut no_includes)
        .map_err(|error| format!("the model is not accepted: {error}"))?;
    let options = CheckOptions {
        threads: 1,
        budget: norns_csp::Budget {
            states: Some(MOST_STATES),
            ..norns_csp::Budget::default()
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
