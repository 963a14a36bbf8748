//! A sketched failure as a finding, for `show`, `report`, `replay` and `export-test`.

use std::collections::BTreeMap;

use anyhow::Result;
use norns_replay::{Constraint, Disturbance, ForFailure};
use norns_report::cause::Cause;
use norns_report::describe::access_kind;
use norns_report::{
    AccessKind, Finding, Findings, Kind, Place, Said, Shown, Sketch as Picture, Status, Verdict,
    fingerprint, sketch_of_failure,
};
use norns_sketch::{Fact, Sketch, facts};
use norns_trace::EventIndex;
use serde::{Deserialize, Serialize};

use super::Arguments;
use crate::runs::{self, Run};

/// The version of the form.
const FORMAT: u32 = 1;

/// How the program was run when it failed, as it is kept.
#[derive(Serialize, Deserialize)]
pub struct SavedFailure {
    format: u32,
    seed: u64,
    /// 0 for a run that was not disturbed.
    stretch: u32,
    /// Whether one thread ran at a time.
    turns: bool,
    /// The text of a `Constraint`.
    constraint: Option<String>,
    pub failing_exit: bool,
    pub failing_output: Option<String>,
}

impl SavedFailure {
    /// The run in which it failed, or one that keeps the order that is its cause.
    pub fn of(sketch: &Sketch, arguments: &Arguments) -> Option<Self> {
        let number = sketch.failing.as_ref()?.number;
        let run = sketch.runs.iter().find(|run| run.number == number)?;
        let (seed, stretch, turns) = match run.disturbance {
            Disturbance::Nothing => (0, 0, false),
            Disturbance::Delays { seed } => (seed, 0, false),
            Disturbance::Turns { seed, stretch } => (seed, stretch, true),
        };
        Some(Self {
            format: FORMAT,
            seed,
            stretch,
            turns,
            constraint: sketch.cause.map(|constraint| {
                let mut text = String::new();
                let _ = constraint.encode(&mut text);
                text
            }),
            failing_exit: arguments.failing_exit,
            failing_output: arguments.failing_output.clone(),
        })
    }

    pub fn how(&self) -> ForFailure {
        let (seed, stretch) = (self.seed, self.stretch);
        ForFailure {
            disturbance: match (self.turns, seed) {
                (true, _) => Disturbance::Turns { seed, stretch },
                (false, 0) => Disturbance::Nothing,
                (false, seed) => Disturbance::Delays { seed },
            },
            constraint: { self.constraint.as_deref() }.and_then(Constraint::parse),
        }
    }
}

/// Keeps the finding and its picture in the folder of the run.
pub fn keep(
    arguments: &Arguments,
    run: &Run,
    sketch: &Sketch,
    cause: &mut Cause,
) -> Result<Option<Picture>> {
    let folder = run.about()?.folder;
    let sources = |file: &str| runs::source(&folder, file);
    let mut all = Findings {
        format: norns_report::finding::FORMAT,
        findings: finding(sketch, cause).into_iter().collect(),
        undecided: 0,
        not_analysed: Vec::new(),
        recordings: None,
        scan: None,
    };
    all.relative_to(&folder);
    fingerprint::name_findings(&mut all.findings, &sources);
    run.save("findings.json", &all)?;
    let (Some(finding), Some(failing)) = (all.findings.first(), &sketch.failing) else {
        return Ok(None);
    };
    cause.finding = Some(finding.id.clone());
    let shown = Shown {
        number: failing.number + 1,
        trace: &failing.trace,
        steps: failing.steps.iter().map(|step| step.event).collect(),
        marked: match sketch.predictors.first() {
            Some(best) => best.events.iter().map(|&event| EventIndex(event)).collect(),
            None => Vec::new(),
        },
    };
    let good = sketch.good.as_ref().map(|good| Shown {
        number: good.number + 1,
        trace: &good.trace,
        steps: good.steps.iter().map(|step| step.event).collect(),
        marked: of_statements(sketch, good),
    });
    let mut picture = sketch_of_failure(finding, &shown, good.as_ref(), said(cause), &sources);
    picture.relative_to(&folder);
    run.save(&format!("{}.sketch.json", finding.id), &picture)?;
    if let Some(saved) = SavedFailure::of(sketch, arguments) {
        run.save(&format!("{}.failure.json", finding.id), &saved)?;
    }
    Ok(Some(picture))
}

/// The steps of the good run at the statements of the best predictor, in its order.
fn of_statements(sketch: &Sketch, good: &norns_sketch::search::Shown) -> Vec<EventIndex> {
    let best = sketch.predictors.first();
    let statements = best.map_or(Vec::new(), |best| best.statements());
    let mut steps: BTreeMap<u64, Vec<EventIndex>> = BTreeMap::new();
    let places = facts::places(&good.trace);
    for step in good.steps.iter().filter(|step| step.predicts) {
        let at = good.trace.place(places[step.event.index()]).pc;
        steps.entry(at).or_default().push(step.event);
    }
    let events = statements.iter().filter_map(|pc| steps.get_mut(pc)?.pop());
    events.collect()
}

fn finding(sketch: &Sketch, cause: &Cause) -> Option<Finding> {
    let failure = cause.failure.as_ref()?;
    let does = |at: usize| {
        let best = sketch.predictors.first()?;
        let event = best.events.get(at).map(|&event| event as usize);
        let trace = sketch.failing.as_ref().map(|shown| &shown.trace);
        match (event, trace, &best.fact) {
            (Some(event), Some(trace), _) => Some(access_kind(trace.events[event].op)),
            (_, _, Fact::Order { pattern, .. }) => match pattern.name().chars().nth(at) {
                Some('R') => Some(AccessKind::Read),
                _ => Some(AccessKind::Write),
            },
            _ => None,
        }
    };
    let of_best = cause.predictors.first().map(|best| &best.places);
    let of_failure = failure.place.as_ref().map(std::slice::from_ref);
    let places = of_best.map_or(of_failure.unwrap_or_default(), Vec::as_slice);
    let proof = cause.proof.filter(|proof| proof.is_confirmed());
    Some(Finding {
        id: String::new(),
        kind: Kind::Failure,
        status: match proof {
            Some(_) => Status::Confirmed,
            None => Status::Predicted,
        },
        places: { places.iter().enumerate() }
            .map(|(at, place)| Place {
                file: place.file.clone(),
                line: place.line,
                function: place.function.clone(),
                thread: place.thread.clone(),
                access: does(at).unwrap_or(AccessKind::Event),
            })
            .collect(),
        witness: None,
        verdict: proof.map(|proof| Verdict::Confirmed(proof.sentence())),
        rule: None,
        region: None,
        known: false,
        object: None,
        consequence: None,
        variants: Vec::new(),
    })
}

fn said(cause: &Cause) -> Said {
    let failure = cause.failure.as_ref();
    let best = cause.predictors.first();
    let mut facts: Vec<String> = { cause.runs.iter() }
        .filter(|runs| runs.runs > 0)
        .map(norns_report::cause::Runs::sentence)
        .collect();
    facts.extend(cause.proof.map(|proof| proof.sentence()));
    facts.extend(cause.notes.iter().cloned());
    Said {
        title: failure.map_or(String::new(), |failure| failure.sentence()),
        facts,
        why: match best {
            Some(best) => best.sentence(),
            None => "No run was good, so nothing tells the cause from what every run does.".into(),
        },
    }
}
