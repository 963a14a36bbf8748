//! Small random traces: our solver and Z3 have to find exactly the races and lock deadlocks that the
//! enumeration of all schedules finds.

use std::collections::BTreeSet;

use norns_model::brute_force::enumerate;
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Bug, Meaning, Model};
use norns_order::Answer;
#[cfg(feature = "z3")]
use norns_predict::order::SecondOpinion;
use norns_predict::order::{BackEnd, Engine, Preprocessing};
use norns_random::Random;
use norns_trace::{EventIndex, Trace};

use crate::coverage::{Coverage, MEMORY, SYNCHRONISATION, VALUES};
use crate::exploration::explore;
use crate::values::{with_branches, with_values};

#[cfg(feature = "z3")]
thread_local! {
    static Z3: std::cell::RefCell<norns_order::reference::Z3> =
        std::cell::RefCell::new(norns_order::reference::Z3::new(None));
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub races: BTreeSet<(EventIndex, EventIndex)>,
    /// Each set of blocked events is sorted.
    pub deadlocks: BTreeSet<Vec<EventIndex>>,
}

fn candidates(trace: &Trace, engine: &Engine<'_>) -> Vec<Bug> {
    let model = Model::new(trace, Meaning::Optimistic);
    let all: Vec<EventIndex> = (0..trace.events.len())
        .map(EventIndex::from_index)
        .collect();
    let mut bugs = Vec::new();
    for (i, &first) in all.iter().enumerate() {
        for &second in &all[i + 1..] {
            if model.conflict(first, second) {
                bugs.push(Bug::Race { first, second });
            }
        }
    }
    let cycles = engine.deadlock_candidates(usize::MAX, usize::MAX);
    let cycles = cycles.items.into_iter();
    bugs.extend(cycles.map(|blocked| Bug::LockDeadlock { blocked }));
    bugs
}

fn answers(bugs: &[Bug], back_end: &mut impl BackEnd, what: &str) -> Found {
    let mut found = Found::default();
    for bug in bugs {
        match back_end.decide(bug) {
            Answer::Unsatisfiable => continue,
            Answer::Undecided => panic!("{what}: {bug:?} is undecided"),
            Answer::Satisfiable => {}
        }
        match bug {
            Bug::Race { first, second } => drop(found.races.insert((*first, *second))),
            Bug::Order { .. } | Bug::Atomicity { .. } => panic!("no engine here predicts orders"),
            Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => {
                let mut blocked = blocked.clone();
                blocked.sort_unstable();
                found.deadlocks.insert(blocked);
            }
        }
    }
    found
}

/// Checks that every back end finds what is expected, and returns how much that is. Our solver is
/// asked with full and with basic preprocessing, and with a memory so small that it forgets everything
/// after each question.
pub fn check(trace: &Trace, meaning: Meaning, expected: &Found, what: &str) -> usize {
    let mut engine = Engine::new(trace, meaning);
    let bugs = candidates(trace, &engine);
    assert_eq!(
        &answers(&bugs, &mut engine, what),
        expected,
        "our solver, {what}"
    );
    let mut search = Engine::with_preprocessing(trace, meaning, Preprocessing::Basic);
    assert_eq!(
        &answers(&bugs, &mut search, what),
        expected,
        "the search alone, {what}"
    );
    engine.memory = 0;
    assert_eq!(
        &answers(&bugs, &mut engine, what),
        expected,
        "our solver, forgetting, {what}"
    );
    #[cfg(feature = "z3")]
    {
        Z3.with_borrow_mut(|z3| {
            let mut opinion = SecondOpinion::new(z3, &engine, bugs.clone());
            assert_eq!(&answers(&bugs, &mut opinion, what), expected, "Z3, {what}");
        });
    }
    expected.races.len() + expected.deadlocks.len()
}

fn shape(seed: u64, plain: bool) -> Shape {
    Shape {
        threads: 2 + (seed % 3) as usize,
        events: 12 + (seed % 11) as usize,
        locks: 2,
        variables: 2,
        plain,
    }
}

/// `./test` runs these tests with and without Z3: with all seeds, and with a quarter of them.
const SHARE: usize = if cfg!(feature = "z3") { 1 } else { 4 };

/// The seeds of a test. `NORNS_TEST_SEEDS=from..to` chooses others; they have to be at least as many.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let chosen = std::env::var("NORNS_TEST_SEEDS").ok();
    let chosen = chosen.as_deref().and_then(|text| text.split_once(".."));
    let number = |text: &str| {
        text.parse::<u64>()
            .expect("NORNS_TEST_SEEDS is two numbers with .. between them")
    };
    chosen.map_or(0..usual / SHARE as u64, |(from, to)| {
        number(from)..number(to)
    })
}

/// What the traces of one test contained.
#[derive(Default)]
struct Tally {
    coverage: Coverage,
    races: usize,
    deadlocks: usize,
    /// Races and deadlocks that no complete run of their trace passes.
    doomed: usize,
}

impl Tally {
    fn add(&mut self, trace: &Trace, found: &Found, doomed: usize) {
        self.coverage.add(trace);
        self.races += found.races.len();
        self.deadlocks += found.deadlocks.len();
        self.doomed += doomed;
    }

    fn demand(&self, what: &str, traces: usize, races: usize, deadlocks: usize, doomed: usize) {
        println!(
            "{what}: {} traces, {} races, {} deadlocks, {} of both in no complete run",
            self.coverage.traces, self.races, self.deadlocks, self.doomed
        );
        assert!(
            self.coverage.traces >= traces / SHARE
                && self.races >= races / SHARE
                && self.deadlocks >= deadlocks / SHARE
                && self.doomed >= doomed / SHARE,
            "the random traces have too few bugs"
        );
    }
}

#[test]
fn optimistic_and_faithful_agree_with_enumeration() {
    let mut tally = Tally::default();
    for seed in seeds(4000) {
        let trace = random_trace(seed, shape(seed, seed % 2 == 0));
        for meaning in [Meaning::Optimistic, Meaning::Faithful] {
            let Some(all) = enumerate(&trace, meaning, 30_000) else {
                continue;
            };
            let doomed = all.lock_deadlocks.len();
            let expected = Found {
                races: all.races,
                deadlocks: all.lock_deadlocks,
            };
            check(
                &trace,
                meaning,
                &expected,
                &format!("seed {seed}, {meaning:?}"),
            );
            tally.add(&trace, &expected, doomed);
        }
    }
    tally.demand("meanings", 7500, 20_000, 200, 200);
    tally
        .coverage
        .demand(SYNCHRONISATION.iter().chain(&MEMORY), 50 / SHARE);
}

#[test]
fn values_agree_with_enumeration() {
    let mut tally = Tally::default();
    for seed in seeds(8000) {
        let mut trace = random_trace(seed + 50_000, shape(seed, seed % 2 == 0));
        with_values(&mut trace, &mut Random::new(seed ^ 0x5eed));
        let Some(all) = explore(&trace, Meaning::SameValues, 20_000) else {
            continue;
        };
        check(
            &trace,
            Meaning::SameValues,
            &all.found,
            &format!("seed {seed}, values"),
        );
        tally.add(&trace, &all.found, all.doomed);
    }
    tally.demand("values", 7500, 20_000, 200, 1000);
    let kinds = SYNCHRONISATION.iter().chain(&MEMORY).chain(&VALUES);
    tally.coverage.demand(kinds, 50 / SHARE);
}

#[test]
fn branches_agree_with_enumeration() {
    let mut tally = Tally::default();
    for seed in seeds(3000) {
        let small = Shape {
            events: 9 + (seed % 5) as usize,
            ..shape(seed, seed % 2 == 0)
        };
        let mut trace = random_trace(seed + 90_000, small);
        let mut random = Random::new(seed ^ 0xb4a2c4);
        with_branches(&mut trace, &mut random);
        with_values(&mut trace, &mut random);
        for meaning in [Meaning::Faithful, Meaning::SameValues] {
            let Some(all) = explore(&trace, meaning, 4_000) else {
                continue;
            };
            check(
                &trace,
                meaning,
                &all.found,
                &format!("seed {seed}, branches, {meaning:?}"),
            );
            tally.add(&trace, &all.found, all.doomed);
        }
    }
    tally.demand("branches", 3000, 1500, 30, 100);
    let kinds = SYNCHRONISATION.iter().chain(&MEMORY).chain(&VALUES);
    tally.coverage.demand(kinds.chain(&["branch"]), 10 / SHARE);
}

/// On traces that are too long for enumeration: preprocessing changes no answer.
#[test]
fn preprocessing_changes_no_answer() {
    let (mut possible, mut impossible) = (0, 0);
    for seed in 0..300 {
        let long = Shape {
            threads: 3 + (seed % 3) as usize,
            events: 60 + (seed % 90) as usize,
            locks: 2 + (seed % 3) as usize,
            variables: 3,
            plain: seed % 2 == 0,
        };
        let mut trace = random_trace(seed + 70_000, long);
        with_values(&mut trace, &mut Random::new(seed ^ 0xca11));
        for meaning in [Meaning::Optimistic, Meaning::Faithful, Meaning::SameValues] {
            let mut full = Engine::new(&trace, meaning);
            let mut basic = Engine::with_preprocessing(&trace, meaning, Preprocessing::Basic);
            let bugs = candidates(&trace, &full);
            for bug in bugs.iter().step_by(1 + bugs.len() / 100) {
                let (one, other) = (full.decide(bug), basic.decide(bug));
                if one != Answer::Undecided && other != Answer::Undecided {
                    assert_eq!(one, other, "seed {seed}, {meaning:?}, {bug:?}");
                }
                possible += usize::from(one == Answer::Satisfiable);
                impossible += usize::from(one == Answer::Unsatisfiable);
            }
        }
    }
    println!("preprocessing: {possible} possible, {impossible} impossible");
    assert!(possible > 5_000 && impossible > 20_000);
}
