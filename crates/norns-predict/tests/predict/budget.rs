//! All stages together keep to the work that they are given, and the same work gives the same
//! answer.

use norns_budget::Budget;
use norns_model::{Meaning, NotAnalysed};
use norns_predict::{Detail, Options, Prediction, predict, predict_within};
use norns_random::Random;
use norns_trace::{Trace, std_format};

/// Threads that access variables in long critical sections of random locks, at many places: nearly
/// every pair of places can race, and most need sections to be reversed.
fn long_sections(events: usize, places: usize, seed: u64) -> Trace {
    const THREADS: usize = 4;
    const LOCKS: usize = 8;
    let mut random = Random::new(seed);
    let mut free = [true; LOCKS];
    // What each thread holds, and for how many more accesses.
    let mut held: [Option<(usize, usize)>; THREADS] = [None; THREADS];
    let mut text = String::new();
    for _ in 0..events {
        let thread = random.below(THREADS);
        let place = 1 + random.below(places);
        let op = match held[thread] {
            None => {
                let lock = random.below(LOCKS);
                if !free[lock] {
                    continue;
                }
                free[lock] = false;
                held[thread] = Some((lock, 50 + random.below(150)));
                format!("acq(l{lock})")
            }
            Some((lock, 0)) => {
                free[lock] = true;
                held[thread] = None;
                format!("rel(l{lock})")
            }
            Some((lock, left)) => {
                held[thread] = Some((lock, left - 1));
                let access = if random.below(3) == 0 { "w" } else { "r" };
                format!("{access}(x{})", random.below(50))
            }
        };
        text.push_str(&format!("T{thread}|{op}|{place}\n"));
    }
    std_format::parse(&text).expect("the generator holds a lock in one thread at a time")
}

fn options(trace: &Trace, meaning: Meaning, detail: Detail) -> Options {
    Options {
        meaning,
        detail,
        ..Options::usual(trace)
    }
}

fn answer(found: &Prediction) -> String {
    format!("{found:?}")
}

#[test]
fn the_work_of_all_stages_is_bounded() {
    let trace = long_sections(6_000, 1_000, 1);
    // Passes over the trace and the candidate at hand are finished.
    let slack = 2_000 * trace.events.len() as u64;
    for meaning in [Meaning::Optimistic, Meaning::Faithful] {
        for detail in [Detail::Places, Detail::Events] {
            for units in [1_000_000, 30_000_000] {
                let work = Budget::of(units);
                let found = predict_within(&trace, &options(&trace, meaning, detail), &work);
                let used = work.used();
                assert!(
                    used <= units + slack,
                    "{meaning:?}, {detail:?}: {used} of {units}"
                );
                let said = |reason: &NotAnalysed| {
                    matches!(
                        reason,
                        NotAnalysed::OutOfBudget { .. }
                            | NotAnalysed::Unlisted { .. }
                            | NotAnalysed::Locations { .. }
                    )
                };
                let cut = units == 1_000_000;
                assert!(!cut || found.not_analysed.iter().any(said), "{meaning:?}");
            }
        }
    }
}

#[test]
fn the_same_work_gives_the_same_answer() {
    let trace = long_sections(3_000, 300, 2);
    let options = options(&trace, Meaning::Optimistic, Detail::Places);
    let once = predict_within(&trace, &options, &Budget::of(2_000_000));
    let again = predict_within(&trace, &options, &Budget::of(2_000_000));
    assert_eq!(answer(&once), answer(&again));
}

#[test]
fn enough_work_is_as_good_as_any() {
    let trace = long_sections(400, 20, 3);
    let options = options(&trace, Meaning::Faithful, Detail::Events);
    let enough = predict_within(&trace, &options, &Budget::of(1 << 50));
    assert_eq!(answer(&predict(&trace, &options)), answer(&enough));
}
