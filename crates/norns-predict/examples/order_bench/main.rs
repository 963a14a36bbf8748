//! `bench/order`: the ordering engine on the shapes of Said et al. (2011), Table 3, and on larger
//! ones; with the feature `z3` beside Z3 in the same run. Times are CPU seconds of this thread.
//! Ours include the check of every witness by the model's checker.

mod shapes;

use std::collections::BTreeSet;

use norns_model::location::Touch;
use norns_model::random_trace::Random;
use norns_model::{Bug, Meaning, Model};
use norns_order::Answer;
use norns_predict::order::{BackEnd, Engine, Reads};
use norns_trace::{EventIndex, Trace};

use shapes::{Shape, TABLE_3, generate, large};

/// CPU time of this thread so far, in steps of some milliseconds.
fn seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = text.split(' ').next().expect("the first number");
    nanoseconds.parse::<f64>().expect("it is a number") / 1e9
}

fn peak_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .expect("the peak is there");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let (start, clock) = (seconds(), std::time::Instant::now());
    let result = work();
    let (cpu, wall) = (seconds() - start, clock.elapsed().as_secs_f64());
    // The account of CPU time is coarse: short work is measured by the clock as well.
    (result, wall.min(cpu + 0.004))
}

/// Random pairs of accesses that conflict.
fn pairs(trace: &Trace, count: usize, seed: u64) -> Vec<Bug> {
    let model = Model::new(trace, Meaning::Optimistic);
    let mut random = Random::new(seed);
    let accesses: Vec<EventIndex> = (0..trace.events.len())
        .map(EventIndex::from_index)
        .filter(|&event| Touch::of(model.op(event)).is_some())
        .collect();
    let mut found = BTreeSet::new();
    while found.len() < count {
        let one = accesses[random.below(accesses.len())];
        let other = accesses[random.below(accesses.len())];
        if model.conflict(one, other) {
            found.insert((one.min(other), one.max(other)));
        }
    }
    found
        .into_iter()
        .map(|(first, second)| Bug::Race { first, second })
        .collect()
}

struct Asked {
    witnesses: usize,
    undecided: usize,
    seconds: f64,
    #[cfg_attr(not(feature = "z3"), allow(dead_code))]
    answers: Vec<Answer>,
}

fn ask(back_end: &mut impl BackEnd, bugs: &[Bug]) -> Asked {
    let (answers, seconds) = timed(|| bugs.iter().map(|bug| back_end.decide(bug)).collect());
    let answers: Vec<Answer> = answers;
    let count = |wanted| answers.iter().filter(|answer| **answer == wanted).count();
    Asked {
        witnesses: count(Answer::Satisfiable),
        undecided: count(Answer::Undecided),
        seconds,
        answers,
    }
}

#[cfg(feature = "z3")]
fn z3(engine: &Engine<'_>, bugs: &[Bug], ours: &Asked, limit: u32) -> String {
    use norns_predict::order::SecondOpinion;
    let (mut opinion, building) =
        timed(|| SecondOpinion::new(engine, bugs.to_vec(), Some(limit * 1000)));
    let mut spent = building;
    for (k, bug) in bugs.iter().enumerate() {
        let (answer, seconds) = timed(|| opinion.decide(bug));
        spent += seconds;
        if answer == Answer::Undecided {
            return format!("no answer to query {} in {spent:.1} s", k + 1);
        }
        assert_eq!(answer, ours.answers[k], "both solvers agree on {bug:?}");
        if spent > f64::from(limit) && k + 1 < bugs.len() {
            let estimate = building + (spent - building) / (k + 1) as f64 * bugs.len() as f64;
            let ratio = estimate / ours.seconds;
            return format!("{spent:.1} s for {} queries, so {ratio:.0}x", k + 1);
        }
    }
    format!("{spent:.2} s, {:.0}x", spent / ours.seconds)
}

#[cfg(not(feature = "z3"))]
fn z3(_: &Engine<'_>, _: &[Bug], _: &Asked, _: u32) -> String {
    "not asked".to_string()
}

fn table_3(limit: u32) {
    println!(
        "{:<16} {:>7} {:>6} {:>5} {:>5}  {:>6} {:>5} {:>5}  {:>9} {:>9}  {:>7}  Z3",
        "shape",
        "threads",
        "events",
        "lock",
        "wait",
        "pairs",
        "lsa",
        "mhb",
        "wtns",
        "ours s",
        "paper s"
    );
    for shape in TABLE_3 {
        let trace = generate(shape, 1);
        let ((mut engine, bugs, counts), building) = timed(|| {
            let engine = Engine::new(&trace, Reads::SameValue);
            let (pairs, counts) = engine.race_candidates(1_000_000);
            // As many questions as the paper asked, spread over all candidates; ten at least.
            let step = (pairs.len() / shape.asked.max(10)).max(1);
            let bugs: Vec<Bug> = pairs
                .into_iter()
                .step_by(step)
                .take(shape.asked.max(10))
                .map(|(first, second)| Bug::Race { first, second })
                .collect();
            (engine, bugs, counts)
        });
        let asked = ask(&mut engine, &bugs);
        println!(
            "{:<16} {:>7} {:>6} {:>5} {:>5}  {:>6} {:>5} {:>5}  {:>4}/{:<4} {:>9.4}  {:>7}  {}",
            shape.name,
            shape.threads,
            trace.events.len(),
            shape.lock_events,
            shape.wait_events,
            counts.conflicting,
            counts.after_locks,
            counts.after_order,
            asked.witnesses,
            bugs.len(),
            building + asked.seconds,
            shape
                .paper
                .map_or(String::new(), |paper| format!("{paper}")),
            match trace.events.len() {
                // The whole formula would not fit into memory.
                2_500.. => "not asked".to_string(),
                _ => z3(&engine, &bugs, &asked, limit),
            },
        );
    }
}

fn growth(limit: u32, lengths: &[usize]) {
    println!(
        "\n200 queries on random conflicting pairs; a query ends undecided after 2,000 conflicts"
    );
    println!(
        "{:<8} {:<12} {:<10} {:>9} {:>10} {:>6} {:>6} {:>9} {:>9} {:>6}  Z3",
        "events",
        "waits",
        "reads",
        "build s",
        "queries s",
        "wtns",
        "undec",
        "conflicts",
        "decisions",
        "MiB"
    );
    for &length in lengths {
        for waits in [false, true] {
            let mut shape: Shape = large(length);
            if !waits {
                shape.wait_events = 0;
            }
            let trace = generate(shape, 2);
            let bugs = pairs(&trace, 200, 3);
            for reads in [Reads::Anything, Reads::SameWrite, Reads::SameValue] {
                if length > 20_000 && reads == Reads::SameValue {
                    continue;
                }
                let (mut engine, building) = timed(|| Engine::new(&trace, reads));
                engine.budget = 2_000;
                let asked = ask(&mut engine, &bugs);
                let statistics = engine.statistics();
                println!(
                    "{:<8} {:<12} {:<10} {:>9.4} {:>10.4} {:>6} {:>6} {:>9} {:>9} {:>6}  {}",
                    trace.events.len(),
                    if waits { "1 % of them" } else { "none" },
                    format!("{reads:?}"),
                    building,
                    asked.seconds,
                    asked.witnesses,
                    asked.undecided,
                    statistics.conflicts,
                    statistics.decisions,
                    peak_mib(),
                    if length <= 2_000 {
                        z3(&engine, &bugs, &asked, limit)
                    } else {
                        String::new()
                    },
                );
            }
        }
    }
}

fn main() {
    // Seconds for Z3 on one shape.
    let limit = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    table_3(limit);
    growth(limit, &[1_000, 2_000, 10_000, 20_000, 100_000]);
}
