//! Random traces: every engine has to find exactly what brute force finds.

use std::collections::BTreeSet;

use norns_budget::Budget;
use norns_model::brute_force::{Enumeration, enumerate};
use norns_model::checker::Checker;
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Bug, Meaning, Model, Witness};
use norns_predict::candidate::sides;
use norns_predict::exact::index::Index;
use norns_predict::exact::search::{Outcome, reach};
use norns_predict::exact::terminal::deadlocks;
use norns_predict::stage::Reductions;
use norns_predict::{Detail, Engine, Options, predict};
use norns_random::Random;
use norns_trace::{EventIndex, PlaceId, Trace};

const MEANINGS: [Meaning; 2] = [Meaning::Optimistic, Meaning::Faithful];
const MOST_STATES: usize = 40_000;

fn shape(seed: u64) -> Shape {
    let mut random = Random::new(seed ^ 0x5eed);
    let threads = 2 + random.below(if seed.is_multiple_of(10) { 7 } else { 4 });
    Shape {
        threads,
        events: 6 + random.below(22),
        locks: 1 + random.below(3),
        variables: 1 + random.below(4),
        plain: !seed.is_multiple_of(3),
    }
}

/// Calls `check` with every seed, its trace and what brute force finds in it. Traces with too many
/// states are left out.
///
/// `NORNS_TEST_SEEDS=from..to` chooses other seeds.
fn for_random_traces(
    seeds: std::ops::Range<u64>,
    check: impl Fn(u64, &Trace, Meaning, &Enumeration),
) {
    let chosen = std::env::var("NORNS_TEST_SEEDS").ok();
    let seeds = chosen
        .and_then(|text| {
            let (from, to) = text.split_once("..")?;
            Some(from.parse().ok()?..to.parse().ok()?)
        })
        .unwrap_or(seeds);
    let (mut races, mut cycles, mut stuck) = (0, 0, 0);
    for seed in seeds {
        let trace = random_trace(seed, shape(seed));
        for meaning in MEANINGS {
            if let Some(all) = enumerate(&trace, meaning, MOST_STATES) {
                check(seed, &trace, meaning, &all);
                races += all.races.len();
                cycles += all.lock_deadlocks.len();
                stuck += all.stuck.len();
            }
        }
    }
    println!("{races} racy pairs, {cycles} cycles of locks, {stuck} other deadlocks");
    assert!(
        races > 1000 && cycles > 20 && stuck > 20,
        "the random traces have too few bugs"
    );
}

#[test]
fn the_goal_directed_search_finds_exactly_the_racy_pairs() {
    for_random_traces(0..1500, |seed, trace, meaning, all| {
        let model = Model::new(trace, meaning);
        let index = Index::of(&model);
        let checker = Checker::new(trace, meaning);
        for second in (0..trace.events.len()).map(EventIndex::from_index) {
            for first in (0..second.index()).map(EventIndex::from_index) {
                if !model.conflict(first, second) {
                    continue;
                }
                let outcome = reach(&model, &index, &[first, second], &Budget::of(5_000_000));
                let expected = all.races.contains(&(first, second));
                let context = format!("seed {seed}, {meaning:?}, {first:?} {second:?}");
                match outcome {
                    Outcome::Reached(schedule) => {
                        assert!(expected, "{context}: not racy, but {schedule:?}");
                        let witness = Witness {
                            schedule,
                            bug: Bug::Race { first, second },
                        };
                        assert_eq!(checker.check(&witness), Ok(()), "{context}");
                    }
                    Outcome::Unreachable => assert!(!expected, "{context}: racy, but not found"),
                    Outcome::Undecided => panic!("{context}: undecided"),
                }
            }
        }
    });
}

#[test]
fn the_terminal_search_finds_exactly_the_deadlocks() {
    for_random_traces(0..1500, |seed, trace, meaning, all| {
        let model = Model::new(trace, meaning);
        let index = Index::of(&model);
        let checker = Checker::new(trace, meaning);
        let found = deadlocks(&model, &index, &Budget::of(50_000_000));
        let context = format!("seed {seed}, {meaning:?}");
        assert!(found.complete, "{context}: undecided");
        let cycles: BTreeSet<_> = found.cycles.keys().cloned().collect();
        assert_eq!(cycles, all.lock_deadlocks, "{context}");
        let stuck: BTreeSet<_> = found.stuck.keys().cloned().collect();
        assert_eq!(stuck, all.stuck, "{context}");
        for witness in found.cycles.values().chain(found.stuck.values()) {
            assert_eq!(checker.check(witness), Ok(()), "{context}: {witness:?}");
        }
    });
}

#[test]
fn all_stages_together_find_exactly_what_there_is() {
    for_random_traces(0..1000, |seed, trace, meaning, all| {
        for engine in [Engine::Auto, Engine::Exact, Engine::Order] {
            if engine == Engine::Order && seed % 5 > 0 {
                continue;
            }
            let options = Options {
                meaning,
                engine,
                detail: Detail::Pairs,
                ..Options::usual(trace)
            };
            let found = predict(trace, &options);
            let context = format!("seed {seed}, {meaning:?}, {engine:?}");
            assert_eq!(found.racy_pairs, all.races, "{context}");
            assert_eq!(found.deadlocked_events, all.lock_deadlocks, "{context}");
            let racy: BTreeSet<EventIndex> = all.races.iter().map(|pair| pair.1).collect();
            assert_eq!(found.racy_events, racy, "{context}");
            assert!(
                found.undecided.is_empty() && found.not_analysed.is_empty(),
                "{context}"
            );
            // Every event of these traces has a place of its own.
            let stuck: BTreeSet<_> = found.stuck.iter().map(blocked).collect();
            assert_eq!(stuck, all.stuck, "{context}");
            // So a pair of places is a pair of events.
            let options = Options {
                detail: Detail::Places,
                ..options
            };
            let found = predict(trace, &options);
            let races: BTreeSet<_> = found.races.iter().map(race).collect();
            assert_eq!(races, all.races, "{context}, places");
            let deadlocks: BTreeSet<_> = found.deadlocks.iter().map(blocked).collect();
            assert_eq!(deadlocks, all.lock_deadlocks, "{context}, places");
            assert_eq!(
                found.race_counts.refused + found.deadlock_counts.refused,
                0,
                "{context}"
            );
        }
    });
}

fn race(witness: &Witness) -> (EventIndex, EventIndex) {
    match witness.bug {
        Bug::Race { first, second } => (first, second),
        Bug::LockDeadlock { .. }
        | Bug::Stuck { .. }
        | Bug::Order { .. }
        | Bug::Atomicity { .. } => {
            panic!("not a race: {witness:?}")
        }
    }
}

fn blocked(witness: &Witness) -> Vec<EventIndex> {
    match &witness.bug {
        Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => {
            let mut blocked = blocked.clone();
            blocked.sort_unstable();
            blocked
        }
        Bug::Race { .. } | Bug::Order { .. } | Bug::Atomicity { .. } => {
            panic!("not a deadlock: {witness:?}")
        }
    }
}

/// In these traces every place is used several times, as in a loop.
#[test]
fn reductions_change_no_finding() {
    for seed in 0..400 {
        let mut trace = random_trace(
            seed,
            Shape {
                events: 30,
                ..shape(seed)
            },
        );
        for (i, event) in trace.events.iter_mut().enumerate() {
            event.place = PlaceId(i as u32 % 5);
        }
        for meaning in MEANINGS {
            let usual = Options {
                meaning,
                engine: Engine::Exact,
                ..Options::usual(&trace)
            };
            let findings = |reductions| {
                let found = predict(
                    &trace,
                    &Options {
                        reductions,
                        ..usual
                    },
                );
                let model = Model::new(&trace, meaning);
                let races: BTreeSet<_> = found.races.iter().map(race).collect();
                races
                    .into_iter()
                    .map(|(a, b)| sides(&model, a, b))
                    .collect::<BTreeSet<_>>()
            };
            let all = findings(Reductions::NONE);
            let one = |change: fn(&mut Reductions)| {
                let mut reductions = Reductions::NONE;
                change(&mut reductions);
                reductions
            };
            for reductions in [
                one(|r| r.redundant = true),
                one(|r| r.hybrid = true),
                one(|r| r.same_segments = true),
                Reductions::ALL,
            ] {
                assert_eq!(
                    findings(reductions),
                    all,
                    "seed {seed}, {meaning:?}, {reductions:?}"
                );
            }
        }
    }
}
