//! Small random traces: near-linear prediction finds nothing that brute force does not find, and
//! everything that keeps the order of critical sections.

use std::collections::{BTreeSet, VecDeque};

use norns_model::brute_force::{Enumeration, enumerate};
use norns_model::checker::Checker;
use norns_model::random_trace::{Shape, random_trace};
use norns_model::{Bug, Meaning, Model, State, Witness};
use norns_predict::linear::{Linear, Options};
use norns_random::Random;
use norns_trace::{EventIndex, Op, Trace};

const MEANINGS: [Meaning; 2] = [Meaning::Optimistic, Meaning::Faithful];
const MOST_STATES: usize = 20_000;

fn shape(seed: u64, plain: bool) -> Shape {
    let mut random = Random::new(seed ^ 0x5eed);
    Shape {
        threads: 2 + random.below(4),
        events: 6 + random.below(22),
        locks: 1 + random.below(3),
        variables: 1 + random.below(3),
        plain,
    }
}

fn check_legal(checker: &Checker, witness: &Witness, seed: u64) {
    let verdict = checker.check(witness);
    assert_eq!(verdict, Ok(()), "seed {seed}: {witness:?}");
}

/// How many races and deadlocks there are, and how many of them were found.
#[derive(Debug, Default)]
struct Tally {
    races: usize,
    found_races: usize,
    deadlocks: usize,
    found_deadlocks: usize,
}

/// Checks all pairs of events one by one, and the reports about the whole trace.
fn check_candidates(
    seed: u64,
    trace: &Trace,
    meaning: Meaning,
    truth: &Enumeration,
    tally: &mut Tally,
) {
    let model = Model::new(trace, meaning);
    let linear = Linear::new(&model);
    let checker = Checker::new(trace, meaning);
    let options = Options::default();
    tally.races += truth.races.len();
    tally.deadlocks += truth.lock_deadlocks.len();
    for second in (0..trace.events.len()).map(EventIndex::from_index) {
        for first in (0..second.index()).map(EventIndex::from_index) {
            let racy = truth.races.contains(&(first, second));
            if racy {
                let impossible = linear.is_impossible(&[first, second]);
                assert!(!impossible, "seed {seed}: {first:?} {second:?}");
            }
            let Some(witness) = linear.race(first, second, &options) else {
                continue;
            };
            check_legal(&checker, &witness, seed);
            assert!(racy, "seed {seed}: {first:?} {second:?}");
            tally.found_races += 1;
        }
    }
    let report = linear.races(&options);
    let racy: BTreeSet<_> = truth.races.iter().map(|race| race.1).collect();
    assert!(
        report.racy.iter().all(|event| racy.contains(event)),
        "seed {seed}"
    );
    for race in &report.races {
        let bug = Bug::Race {
            first: race.first,
            second: race.second,
        };
        check_legal(
            &checker,
            &Witness {
                schedule: linear.schedule(&race.plan),
                bug,
            },
            seed,
        );
    }
    let open: BTreeSet<_> = report.open_events.iter().chain(&report.racy).collect();
    assert!(
        racy.iter().all(|event| open.contains(event)),
        "seed {seed}: a racy event is neither found nor listed as open"
    );
    let place = |event: EventIndex| trace.events[event.index()].place;
    let places = |one, other| (place(one).min(place(other)), place(one).max(place(other)));
    let found = report
        .races
        .iter()
        .map(|race| places(race.first, race.second));
    let open = report
        .open
        .iter()
        .map(|race| places(race.first, race.second));
    let known: BTreeSet<_> = found.chain(open).collect();
    for race in &truth.races {
        assert!(
            known.contains(&places(race.0, race.1)),
            "seed {seed}: {race:?} is neither found nor listed as open"
        );
    }
    let report = linear.lock_deadlocks(&options);
    for deadlock in &report.deadlocks {
        let bug = Bug::LockDeadlock {
            blocked: deadlock.blocked.clone(),
        };
        check_legal(
            &checker,
            &Witness {
                schedule: linear.schedule(&deadlock.plan),
                bug,
            },
            seed,
        );
        let mut blocked = deadlock.blocked.clone();
        blocked.sort_unstable();
        assert!(
            truth.lock_deadlocks.contains(&blocked),
            "seed {seed}: {blocked:?}"
        );
    }
    tally.found_deadlocks += report.deadlocks.len();
}

fn check_random(count: u64, plain: bool, least_found: f64) {
    for meaning in MEANINGS {
        let mut tally = Tally::default();
        for seed in 0..count {
            let trace = random_trace(seed, shape(seed, plain));
            let Some(truth) = enumerate(&trace, meaning, MOST_STATES) else {
                continue;
            };
            check_candidates(seed, &trace, meaning, &truth, &mut tally);
        }
        println!("{meaning:?}, plain {plain}: {tally:?}");
        assert!(
            tally.found_races as f64 >= least_found * tally.races as f64,
            "{meaning:?}: {tally:?}"
        );
    }
}

#[test]
fn nothing_impossible_is_found_with_locks_and_accesses() {
    check_random(2000, true, 0.95);
}

#[test]
fn nothing_impossible_is_found_with_every_primitive() {
    check_random(2000, false, 0.5);
}

/// All races of schedules in which the sections of each lock keep the order of the trace.
fn order_keeping_races(model: &Model) -> BTreeSet<(EventIndex, EventIndex)> {
    let mut races = BTreeSet::new();
    let start = State::initial(model);
    let mut seen = BTreeSet::from([start.key()]);
    let mut queue = VecDeque::from([start]);
    let mut steps = Vec::new();
    while let Some(state) = queue.pop_front() {
        races.extend(model.races_at(&state));
        steps.clear();
        for thread in model.thread_ids() {
            model.steps(&state, thread, &mut steps);
        }
        for &step in &steps {
            let event = model
                .next(&state, step.thread)
                .expect("a step has an event");
            if let Op::Lock(lock) = model.op(event) {
                let mut later = (event.index() + 1..model.trace.events.len())
                    .map(EventIndex::from_index)
                    .filter(|&other| model.op(other) == Op::Lock(lock));
                if later.any(|other| model.executed(&state, other)) {
                    continue;
                }
            }
            let mut next = state.clone();
            model.take(&mut next, step);
            next.forget_trail();
            if seen.insert(next.key()) {
                queue.push_back(next);
            }
        }
    }
    races
}

#[test]
fn all_order_keeping_races_are_found() {
    for meaning in MEANINGS {
        for seed in 0..1500 {
            let trace = random_trace(seed, shape(seed, true));
            if enumerate(&trace, meaning, MOST_STATES).is_none() {
                continue;
            }
            let model = Model::new(&trace, meaning);
            let truth = order_keeping_races(&model);
            let linear = Linear::new(&model);
            let options = Options {
                nearest: 0,
                ..Options::default()
            };
            let mut found = BTreeSet::new();
            for second in (0..trace.events.len()).map(EventIndex::from_index) {
                for first in (0..second.index()).map(EventIndex::from_index) {
                    if linear.race(first, second, &options).is_some() {
                        found.insert((first, second));
                    }
                }
            }
            assert_eq!(found, truth, "seed {seed}, {meaning:?}");
            let racy: BTreeSet<_> = truth.iter().map(|race| race.1).collect();
            let reported: BTreeSet<_> = linear.races(&options).racy.into_iter().collect();
            assert_eq!(reported, racy, "seed {seed}, {meaning:?}");
            let places = |races: &BTreeSet<(EventIndex, EventIndex)>| {
                let place = |event: EventIndex| trace.events[event.index()].place;
                let pairs = races.iter().map(|race| (place(race.0), place(race.1)));
                pairs
                    .map(|(a, b)| (a.min(b), a.max(b)))
                    .collect::<BTreeSet<_>>()
            };
            let reported = linear.races(&options).races;
            let reported = reported
                .iter()
                .map(|race| (race.first, race.second))
                .collect();
            assert_eq!(
                places(&reported),
                places(&truth),
                "seed {seed}, {meaning:?}"
            );
        }
    }
}

#[test]
fn the_same_trace_gives_the_same_report() {
    for seed in 0..200 {
        let trace = random_trace(seed, shape(seed, false));
        let reports: Vec<String> = (0..2)
            .map(|_| {
                let model = Model::new(&trace, Meaning::Faithful);
                let linear = Linear::new(&model);
                let options = Options::default();
                format!(
                    "{:?} {:?}",
                    linear.races(&options),
                    linear.lock_deadlocks(&options)
                )
            })
            .collect();
        assert_eq!(reports[0], reports[1], "seed {seed}");
    }
}

/// Exact search has to decide only what near-linear prediction leaves open.
#[test]
fn all_racy_events_are_found_when_exact_search_decides_what_is_open() {
    for meaning in MEANINGS {
        for seed in 0..800 {
            let trace = random_trace(seed, shape(seed, seed % 2 == 0));
            let Some(truth) = enumerate(&trace, meaning, MOST_STATES) else {
                continue;
            };
            let options = norns_predict::Options {
                meaning,
                detail: norns_predict::Detail::Events,
                ..norns_predict::Options::usual(&trace)
            };
            let racy: BTreeSet<_> = truth.races.iter().map(|race| race.1).collect();
            let found = norns_predict::predict(&trace, &options);
            assert_eq!(found.racy_events, racy, "seed {seed}, {meaning:?}");
        }
    }
}
