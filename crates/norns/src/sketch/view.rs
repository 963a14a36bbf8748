//! What was found out about a failure, for the views of `norns-report`.

use std::collections::BTreeMap;

use norns_replay::{Disturbance, Ended};
use norns_report::cause::{self, Cause, Failure, Place, Predictor, Runs};
use norns_report::describe::describe;
use norns_sketch::facts::{self, Statement};
use norns_sketch::failure::own_place;
use norns_sketch::predictor::{Fact, Form, Is};
use norns_sketch::search::Shown;
use norns_sketch::steps::is_failure;
use norns_sketch::{FailureKind, Options, Sketch};
use norns_trace::EventIndex;

pub fn cause(sketch: &Sketch, options: &Options) -> Cause {
    let runs = sketch.runs.len();
    let mut failures = sketch.failures.iter().map(|(failure, failed)| Failure {
        kind: kind_word(failure.kind).into(),
        what: failure.what.clone(),
        place: failure.place.as_ref().map(|place| Place {
            file: place.file.clone(),
            line: place.line,
            function: place.function.clone(),
            thread: failure.thread.clone(),
        }),
        stack: failure.stack.clone(),
        runs,
        failed: *failed,
    });
    let places = Places::of(sketch);
    Cause {
        format: cause::FORMAT,
        failure: failures.next(),
        other_failures: failures.collect(),
        predictors: sketch
            .predictors
            .iter()
            .map(|predictor| places.predictor(predictor))
            .collect(),
        steps: { sketch.failing.as_ref() }
            .map_or(Vec::new(), |shown| steps(sketch, shown, &places)),
        proof: sketch.proof.map(|proof| cause::Proof {
            forced: [proof.forced.0, proof.forced.1],
            forbidden: [proof.forbidden.0, proof.forbidden.1],
        }),
        runs: runs_of(sketch),
        notes: notes(sketch, options),
        finding: None,
    }
}

fn kind_word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Signal => "signal",
        FailureKind::Abort => "abort",
        FailureKind::Assertion => "assertion",
        FailureKind::Terminate => "terminate",
        FailureKind::Sanitizer => "sanitizer",
        FailureKind::Exit => "exit",
        FailureKind::Hang => "hang",
        FailureKind::Output => "output",
    }
}

/// Where statements are, and which threads came there in the failing run.
struct Places {
    statements: BTreeMap<u64, Statement>,
    threads: BTreeMap<u32, String>,
}

impl Places {
    fn of(sketch: &Sketch) -> Places {
        let mut statements = BTreeMap::new();
        for run in &sketch.runs {
            for (pc, statement) in &run.facts.statements {
                statements.entry(*pc).or_insert_with(|| statement.clone());
            }
        }
        let mut threads = BTreeMap::new();
        if let Some(shown) = &sketch.failing {
            for &event in sketch.predictors.iter().flat_map(|one| &one.events) {
                let thread = shown.trace.events[event as usize].thread;
                threads.insert(event, shown.trace.thread(thread).name.clone());
            }
        }
        Places {
            statements,
            threads,
        }
    }

    fn predictor(&self, predictor: &norns_sketch::Predictor) -> Predictor {
        let places: Vec<Place> = predictor
            .statements()
            .iter()
            .enumerate()
            .map(|(at, pc)| {
                let statement = self.statements.get(pc).cloned().unwrap_or_default();
                let event = predictor.events.get(at);
                let thread = event.and_then(|event| self.threads.get(event));
                Place {
                    file: statement.file,
                    line: statement.line,
                    function: statement.function,
                    thread: thread.cloned().unwrap_or_default(),
                }
            })
            .collect();
        let (pattern, value) = match &predictor.fact {
            Fact::Order { pattern, .. } => (pattern.name().to_string(), None),
            Fact::Branch { .. } => ("taken".into(), None),
            Fact::Value { is, .. } => {
                let (pattern, value) = is_words(*is);
                (pattern.into(), Some(value))
            }
        };
        Predictor {
            kind: predictor.kind().into(),
            what: what(predictor, &places),
            pattern,
            places,
            value,
            precision: predictor.precision(),
            recall: predictor.recall(),
            f: predictor.f(),
            precision_at_least: predictor.precision_at_least(),
            failing: [predictor.failing.0, predictor.failing.1],
            good: [predictor.good.0, predictor.good.1],
        }
    }
}

fn is_words(is: Is) -> (&'static str, String) {
    match is {
        Is::Null => ("null", "0".into()),
        Is::Negative => ("negative", "below 0".into()),
        Is::Equal(value) => ("equal", value.to_string()),
        Is::Above(value) => ("out-of-range", format!("above {value}")),
        Is::Below(value) => ("out-of-range", format!("below {value}")),
    }
}

/// The predictor in words.
fn what(predictor: &norns_sketch::Predictor, places: &[Place]) -> String {
    let at = |index: usize| {
        let place = &places[index];
        let file = place.file.rsplit('/').next().unwrap_or_default();
        match place.line {
            0 => "an unknown place".to_string(),
            line => format!("{file}:{line}"),
        }
    };
    let who = |index: usize| match places[index].thread.as_str() {
        "" => "a thread".to_string(),
        thread => thread.to_string(),
    };
    match &predictor.fact {
        Fact::Order {
            pattern,
            form: Form::Early,
            ..
        } => {
            let act = |letter| if letter == Some('W') { "write" } else { "read" };
            let mut letters = pattern.name().chars();
            let (first, second) = (act(letters.next()), act(letters.next()));
            format!(
                "order {}: {} {first}s at {}, before the {second} at {}",
                pattern.name(),
                who(0),
                at(0),
                at(1)
            )
        }
        Fact::Order { pattern, form, .. } => {
            let letters = pattern.name().chars().enumerate();
            let acts: Vec<String> = letters
                .map(|(index, letter)| {
                    let does = if letter == 'W' { "writes" } else { "reads" };
                    format!("{} {does} at {}", who(index), at(index))
                })
                .collect();
            let about = match form {
                Form::TwoLocations => " of two variables",
                Form::Anywhere | Form::Early | Form::Adjacent => "",
            };
            format!("order {}{about}: {}", pattern.name(), acts.join(", then "))
        }
        Fact::Branch { .. } => format!("the branch to {} is taken", at(0)),
        Fact::Value { writes, is, .. } => {
            let does = if *writes { "written" } else { "read" };
            let is = match is {
                Is::Null => "is null".into(),
                Is::Negative => "is negative".into(),
                Is::Equal(value) => format!("is {value}"),
                Is::Above(value) => format!("is above {value}, which no good run had"),
                Is::Below(value) => format!("is below {value}, which no good run had"),
            };
            format!("the value {does} at {} {is}", at(0))
        }
    }
}

fn steps(sketch: &Sketch, shown: &Shown, places: &Places) -> Vec<cause::Step> {
    let places_of_events = facts::places(&shown.trace);
    let mut all: Vec<cause::Step> = { shown.steps.iter() }
        .map(|step| {
            let event = shown.trace.events[step.event.index()];
            let statement = match is_failure(&shown.trace, event.op) {
                true => own_place(&shown.trace, step.event).unwrap_or_default(),
                false => Statement::of(&shown.trace, places_of_events[step.event.index()]),
            };
            let described = describe(&shown.trace, EventIndex(step.event.0));
            cause::Step {
                thread: shown.trace.thread(event.thread).name.clone(),
                file: statement.file,
                line: statement.line,
                function: statement.function,
                what: described.what,
                value: described.value,
                predicts: step.predicts,
            }
        })
        .collect();
    let best = sketch.predictors.first();
    if let Some(best) = best
        && let Fact::Order {
            form: Form::Early, ..
        } = &best.fact
        && let Some(late) = places.predictor(best).places.into_iter().nth(1)
    {
        let after = all.iter().rposition(|step| step.predicts);
        let at = after.map_or(all.len(), |after| after + 1);
        let step = cause::Step {
            thread: late.thread,
            file: late.file,
            line: late.line,
            function: late.function,
            what: "has not happened yet".into(),
            value: String::new(),
            predicts: true,
        };
        all.insert(at, step);
    }
    all
}

fn runs_of(sketch: &Sketch) -> Vec<Runs> {
    let sorts = ["undisturbed", "delays", "one-at-a-time"];
    let sort = |disturbance| match disturbance {
        Disturbance::Nothing => (0, None),
        Disturbance::Delays { seed } => (1, Some(seed)),
        Disturbance::Turns { seed, .. } => (2, Some(seed)),
    };
    let mut all: Vec<Runs> = sorts
        .iter()
        .map(|how| Runs {
            how: (*how).into(),
            runs: 0,
            failed: 0,
            failed_seeds: Vec::new(),
        })
        .collect();
    for run in &sketch.runs {
        let (index, seed) = sort(run.disturbance);
        all[index].runs += 1;
        if run.failure == Some(0) {
            all[index].failed += 1;
            all[index].failed_seeds.extend(seed);
        }
    }
    all
}

fn notes(sketch: &Sketch, options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    if sketch.failures.is_empty() {
        if let Some(Ended::Exited(status)) = sketch.usual
            && status != 0
        {
            notes.push(format!(
                "the first run exited with status {status}, which counts as a failure only with --failing-exit"
            ));
        }
        return notes;
    }
    let ordered = sketch
        .runs
        .iter()
        .filter(|run| run.is_ordered == sketch.is_ordered);
    let good = ordered.filter(|run| run.is_good()).count();
    let failed = sketch.failures[0].1;
    if failed == 0 {
        let sliced = match sketch.sliced {
            0 => String::new(),
            lines => format!("; its statement depends on {lines} lines of the program"),
        };
        notes.push(format!(
            "none of the {} runs failed as the core says{sliced}",
            sketch.runs.len()
        ));
        return notes;
    }
    if good == 0 {
        let runs = sketch.runs.len();
        let others: usize = sketch.failures[1..].iter().map(|(_, failed)| failed).sum();
        let what = match runs - failed {
            0 => "every run failed".to_string(),
            rest if rest == others => format!("every run failed, {others} in other ways"),
            rest => format!(
                "none of the {} other runs is a good one of which as much is known",
                rest
            ),
        };
        notes.push(format!(
            "{what}, so nothing tells what makes it fail from what every run does; the steps are the last \
             ones before the failure"
        ));
    } else if failed < 2 {
        notes.push("only one run failed: what predicts it may be chance".into());
    }
    let unlike = sketch.runs.iter().filter(|run| run.is_unlike).count();
    if unlike > 0 {
        notes.push(format!(
            "{unlike} runs ended in another way than the first one and count neither as good nor as failing: \
             --failing-exit counts every status but 0 as a failure"
        ));
    }
    if !sketch.is_ordered && !options.undisturbed {
        notes.push(
            "it failed only in runs that do not know the order of accesses exactly; what predicts it is \
             approximate"
                .into(),
        );
    }
    notes
}
