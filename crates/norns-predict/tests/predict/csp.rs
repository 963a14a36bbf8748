//! The model as CSPM: the refinement checker has to give the same verdicts as exact search.
//!
//! The CSPM model does not look for deadlocks after a thread has left the trace, so if one can, only
//! one direction holds (see `norns_model::cspm`).

use norns_csp::check::Options as CspOptions;
use norns_csp::script::{Answer, Script, no_includes};
use norns_model::cspm::{Checks, Cspm, cspm};
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Meaning, Model};
use norns_predict::{Detail, Engine, Options, predict};
use norns_random::Random;
use norns_trace::Trace;

#[test]
fn the_refinement_checker_gives_the_same_verdicts() {
    let (mut deadlocks, mut races) = (0, 0);
    for seed in 0..800 {
        let mut random = Random::new(seed ^ 0xc5b);
        let shape = Shape {
            threads: 2 + random.below(2),
            events: 5 + random.below(10),
            locks: 1 + random.below(2),
            variables: 1 + random.below(2),
            plain: seed % 3 == 0,
        };
        let trace = random_trace(seed, shape);
        for meaning in [Meaning::Optimistic, Meaning::Faithful] {
            let options = Options {
                meaning,
                detail: Detail::Pairs,
                ..Options::usual(&trace)
            };
            let found = predict(&trace, &options);
            let model = Model::new(&trace, meaning);
            let Cspm { text, cells, .. } = cspm(
                &model,
                Checks {
                    deadlock: true,
                    race: true,
                    events: false,
                },
            );
            let context = format!("seed {seed}, {meaning:?}");
            let failed = failed_assertions(&text, &context);
            let deadlock = !found.deadlocks.is_empty() || !found.stuck.is_empty();
            // The word occurs once for every thread, and once more wherever a thread may leave.
            let leaves = text.matches("leaves.").count() > trace.threads.len();
            if failed[0] || !leaves {
                assert_eq!(failed[0], deadlock, "{context}: deadlock");
            }
            deadlocks += usize::from(failed[0]);
            // In the faithful meaning, an access to several locations is several steps in CSPM.
            let events = (0..trace.events.len()).map(norns_trace::EventIndex::from_index);
            let whole = meaning == Meaning::Optimistic
                || events
                    .into_iter()
                    .all(|event| model.locations.of_event(event).len() <= 1);
            for (i, location) in cells.into_iter().enumerate() {
                let touches = |event| model.locations.of_event(event).contains(&location.0);
                let racy = found
                    .racy_pairs
                    .iter()
                    .any(|&(a, b)| touches(a) && touches(b));
                if whole || racy {
                    assert_eq!(failed[i + 1], racy, "{context}: race on cell {i}");
                }
                races += usize::from(racy);
            }
        }
    }
    assert!(
        deadlocks > 4 && races > 50,
        "{deadlocks} deadlocks, {races} races: too few"
    );
}

/// `Engine::Csp` reports what exact search finds and the refinement checker confirms, so without a
/// disagreement it finds the same. Returns how many races and deadlocks that is.
fn check_csp_engine(trace: &Trace, what: &str) -> (usize, usize) {
    let find = |engine| {
        let options = Options {
            meaning: Meaning::Optimistic,
            engine,
            ..Options::usual(trace)
        };
        predict(trace, &options)
    };
    let (csp, exact) = (find(Engine::Csp), find(Engine::Exact));
    assert_eq!(csp.not_analysed, exact.not_analysed, "{what}");
    assert_eq!(csp.races, exact.races, "{what}");
    assert_eq!(csp.deadlocks, exact.deadlocks, "{what}");
    assert_eq!(csp.stuck, exact.stuck, "{what}");
    (csp.races.len(), csp.deadlocks.len())
}

#[test]
fn the_csp_engine_finds_what_exact_search_finds() {
    let mut races = 0;
    for seed in 0..150 {
        let shape = Shape {
            threads: 2,
            events: 6 + (seed % 8) as usize,
            locks: 2,
            variables: 2,
            plain: true,
        };
        let trace = random_trace(seed, shape);
        races += check_csp_engine(&trace, &format!("seed {seed}")).0;
    }
    assert!(races > 50, "{races} races: too few");
    let trace = norns_model::script::trace(
        "A: lock m, lock n, write x, unlock n, unlock m
         B: lock n, lock m, unlock m, unlock n, write x",
    );
    assert_eq!(check_csp_engine(&trace, "two locks"), (1, 1));
}

/// For every assertion, whether it fails.
fn failed_assertions(text: &str, context: &str) -> Vec<bool> {
    let mut script = Script::load("model.csp", text, &mut no_includes)
        .unwrap_or_else(|error| panic!("{context}: {error}\n{text}"));
    (0..script.assertions.len())
        .map(|i| {
            let options = CspOptions {
                threads: 1,
                ..CspOptions::default()
            };
            match script.check(i, &options, &mut |_| {}) {
                Ok((Answer::Holds, _)) => false,
                Ok((Answer::Fails(_), _)) => true,
                other => panic!("{context}, assertion {i}: {other:?}\n{text}"),
            }
        })
        .collect()
}
