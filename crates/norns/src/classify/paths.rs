//! Races with other inputs than the recorded one: what the interpreter finds, the real program confirms.

use std::time::Duration;

use anyhow::Result;
use norns_classify::conclude::{self, conclude};
use norns_classify::paths::{Explored, Harm, Search, Visible};
use norns_classify::{Race, Shown};
use norns_interpret::{Access, Input, Interpreter, Invariant};
use norns_ir::Program;
use norns_report::{AccessKind, Class, Consequence, Place};

use super::again::SavedOrders;
use super::program::Executions;
use super::solver::Z3;
use super::variables::{self, SavedInput};
use super::{Classifier, race};
use crate::deadline::Deadline;

/// So many inputs that do harm are given to the real program.
const CONFIRMED: usize = 3;

/// The race that is searched, and what it is named in the run's folder.
pub struct Searched<'a> {
    pub id: &'a str,
    pub places: &'a [Place],
    pub shown: Shown,
}

impl Classifier<'_> {
    /// Looks for inputs with which a race does worse, and for runs that break the invariant.
    pub fn other_inputs(
        &self,
        (program, input): (&Program, &Input),
        searched: &Searched,
        deadline: &Deadline,
        consequence: &mut Consequence,
    ) -> Result<()> {
        let [first, second] = searched.places else {
            return Ok(());
        };
        let invariant = match &self.arguments.invariant {
            Some(text) => Some(Invariant::parse(text).map_err(anyhow::Error::msg)?),
            None => None,
        };
        if let Some(name) = invariant.as_ref().and_then(|one| one.unknown_name(program)) {
            let note =
                format!("the invariant was not looked at: no global variable is called {name}");
            consequence.evidence.notes.push(note);
            return Ok(());
        }
        let mut input = input.clone();
        let folder = &self.program.folder;
        let marks = variables::marks(&self.arguments.symbolic, &mut input, folder)?;
        let accesses = [access(first), access(second)];
        let interpreter = Interpreter::new(program);
        let search = Search {
            interpreter: &interpreter,
            input: &input,
            marks: &marks,
            accesses: &accesses,
            paths: self.arguments.paths,
            schedules: self.arguments.schedules,
            invariant: invariant.as_ref(),
        };
        let mut z3 = Z3::default();
        let until = Deadline::after(deadline.left() / 2);
        let explored = search.explore(&mut z3, &|| until.left() > Duration::ZERO);
        note(&explored, &z3, consequence);
        let better = explored
            .harms
            .iter()
            .filter(|harm| harm.class < consequence.class);
        let mut unconfirmed: Option<(String, &Harm)> = None;
        for harm in better.take(CONFIRMED) {
            let saved = SavedInput::of(&marks, &harm.input);
            if harm.visible == Visible::Never {
                predict(harm, &saved, &marks.0, consequence);
                return Ok(());
            }
            let deadline = Deadline::after(deadline.left() / 2);
            // The recorded input was executed already.
            if !marks.0.is_empty()
                && let Some(mut confirmed) = self.confirm(&saved, searched, deadline)?
                && confirmed.class < consequence.class
            {
                let notes = std::mem::take(&mut consequence.evidence.notes);
                confirmed.evidence.notes.extend(notes);
                confirmed.input = Some(saved.describe());
                *consequence = confirmed;
                return Ok(());
            }
            if harm.visible == Visible::Perhaps {
                predict(harm, &saved, &marks.0, consequence);
                return Ok(());
            }
            let input = match marks.0.is_empty() {
                true => "with the recorded input".to_owned(),
                false => format!("with {}", saved.describe()),
            };
            unconfirmed.get_or_insert((input, harm));
        }
        if let Some((input, harm)) = unconfirmed {
            consequence.evidence.notes.push(format!(
                "{input} the interpreter saw: {}; no execution of the program showed it",
                harm.what
            ));
        }
        Ok(())
    }

    /// What executions of the real program with this input say of the race.
    fn confirm(
        &self,
        saved: &SavedInput,
        searched: &Searched,
        deadline: Deadline,
    ) -> Result<Option<Consequence>> {
        let Ok((race, trace)): Result<(Race, _), _> = race(self.run, searched.id)? else {
            return Ok(None);
        };
        let (program, files) = saved.program(self.run, self.program, searched.id)?;
        let mut executions = Executions::new(self.run, &program, &trace, self.limit, deadline)?;
        executions.files = files;
        let options = self.arguments.options();
        let found = norns_classify::classify(&mut executions, &race, searched.shown, options)?;
        let judged = conclude(&[conclude::Race {
            object: None,
            executions: &found.executions,
        }]);
        let Some(Ok(consequence)) = judged.into_iter().next() else {
            return Ok(None);
        };
        if consequence.class <= Class::OutputDiffers {
            let orders = SavedOrders::of(found.examples, Some(saved.clone()));
            self.run
                .save(&format!("{}.orders.json", searched.id), &orders)?;
        }
        Ok(Some(consequence))
    }
}

/// What only interpreted runs can show is predicted.
fn predict(
    harm: &Harm,
    saved: &SavedInput,
    marks: &[norns_interpret::symbolic::Mark],
    consequence: &mut Consequence,
) {
    consequence.class = harm.class;
    consequence.evidence.predicted = Some(harm.what.clone());
    if !marks.is_empty() {
        consequence.input = Some(saved.describe());
    }
}

fn access(place: &Place) -> Access {
    Access {
        file: place.file.clone(),
        line: place.line,
        is_write: match place.access {
            AccessKind::Read => Some(false),
            AccessKind::Write => Some(true),
            _ => None,
        },
    }
}

/// How much was searched, in the notes of a class.
fn note(explored: &Explored, z3: &Z3, consequence: &mut Consequence) {
    let notes = &mut consequence.evidence.notes;
    notes.push(match explored.inputs {
        1 => format!(
            "the recorded input was interpreted in {} runs",
            explored.runs
        ),
        inputs => format!(
            "{inputs} inputs were interpreted in {} runs; the race came with {} of them",
            explored.runs, explored.with_race
        ),
    });
    if z3.is_missing {
        notes.push(
            "conditions on more than two bytes were left open: Z3 cannot be run (apt-get install z3)".into(),
        );
    } else if explored.unknown > 0 {
        notes.push(format!(
            "Z3 did not answer {} of {} questions in time",
            explored.unknown, explored.asked
        ));
    }
    let list = |all: &std::collections::BTreeSet<String>| {
        let some: Vec<&str> = all.iter().take(5).map(String::as_str).collect();
        some.join(", ")
    };
    if !explored.concretised.is_empty() {
        let what = list(&explored.concretised);
        notes.push(format!("variables became constants in: {what}"));
    }
    if !explored.given_up.is_empty() {
        notes.push(format!(
            "the interpreter gave up: {}",
            list(&explored.given_up)
        ));
    }
}
