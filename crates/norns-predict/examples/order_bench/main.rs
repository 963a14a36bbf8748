//! `bench/order`: the ordering engine on the shapes of Said et al. (2011), Table 3, and on larger
//! ones; with the feature `z3` beside Z3 in the same run.
//!
//! Every row is a process of its own, so that the peak of its memory is its own. Times are CPU
//! seconds; ours include the building of the engine and the check of every witness. Z3 has a
//! limit for each row; when it is spent the ratio is a lower bound, and says so.

mod shapes;

use std::collections::BTreeSet;
use std::process::Command;

use norns_model::location::Touch;
use norns_model::random_trace::Random;
use norns_model::{Bug, Meaning, Model};
use norns_order::Answer;
use norns_predict::order::{BackEnd, Engine, Reads};
use norns_trace::{EventIndex, Trace};

use shapes::{Shape, TABLE_3, Waits, generate, large};

/// After so many conflicts a query of the larger rows ends undecided.
const BUDGET: u64 = 20_000;
const QUERIES: usize = 200;
const LENGTHS: [usize; 6] = [800, 1_000, 2_000, 10_000, 20_000, 100_000];

/// One line of the table.
#[derive(Clone, Copy)]
enum Row {
    Paper(Shape),
    Large(Shape, Reads),
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = TABLE_3.into_iter().map(Row::Paper).collect();
    for length in LENGTHS {
        for waits in [Waits::None, Waits::Some] {
            for reads in [Reads::Anything, Reads::SameWrite, Reads::SameValue] {
                rows.push(Row::Large(large(length, waits), reads));
            }
        }
    }
    rows
}

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

/// Z3 on the same questions in the same order, until `limit` seconds are spent. Its time is set
/// against `ours` for as many questions: those it did not come to count as free.
#[cfg(feature = "z3")]
fn z3(engine: &Engine<'_>, bugs: &[Bug], answers: &[Answer], ours: f64, limit: f64) -> String {
    use norns_predict::order::SecondOpinion;
    if limit <= 0.0 {
        return String::new();
    }
    let milliseconds = (limit * 1000.0) as u32;
    let mut z3 = norns_order::reference::Z3::new(Some(milliseconds));
    let (mut opinion, mut spent) = timed(|| SecondOpinion::new(&mut z3, engine, bugs.to_vec()));
    for (k, bug) in bugs.iter().enumerate() {
        let (answer, seconds) = timed(|| opinion.decide(bug));
        spent += seconds;
        if answer != Answer::Undecided && answers[k] != Answer::Undecided {
            assert_eq!(answer, answers[k], "both solvers agree on {bug:?}");
        }
        if answer == Answer::Undecided || (spent > limit && k + 1 < bugs.len()) {
            let done = k + usize::from(answer != Answer::Undecided);
            let ratio = spent / ours;
            return format!("{done} of {} in {spent:.1} s, > {ratio:.0}x", bugs.len());
        }
    }
    format!("{spent:.3} s, {:.0}x", spent / ours)
}

#[cfg(not(feature = "z3"))]
fn z3(_: &Engine<'_>, _: &[Bug], _: &[Answer], _: f64, _: f64) -> String {
    "not asked".to_string()
}

fn heading(row: &Row) -> String {
    match row {
        Row::Paper(_) => format!(
            "{:<16} {:>7} {:>6} {:>5} {:>5}  {:>6} {:>6} {:>6}  {:>9} {:>9} {:>5}  {:>7}  Z3",
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
            "MiB",
            "paper s"
        ),
        Row::Large(..) => format!(
            "\n{QUERIES} queries on random conflicting pairs; undecided after {BUDGET} conflicts\n\
             {:<8} {:<10} {:<10} {:>9} {:>10} {:>6} {:>6} {:>9} {:>9} {:>6}  Z3",
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
        ),
    }
}

fn paper_row(shape: Shape, limit: f64) -> String {
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
    let ours = building + asked.seconds;
    let line = format!(
        "{:<16} {:>7} {:>6} {:>5} {:>5}  {:>6} {:>6} {:>6}  {:>4}/{:<4} {:>9.4} {:>5}  {:>7}",
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
        ours,
        peak_mib(),
        shape
            .paper
            .map_or(String::new(), |paper| format!("{paper}")),
    );
    let reference = match trace.events.len() {
        // The whole formula would not fit into memory.
        10_000.. => "not asked".to_string(),
        _ => z3(&engine, &bugs, &asked.answers, ours, limit),
    };
    format!("{line}  {reference}")
}

fn large_row(shape: Shape, reads: Reads, limit: f64) -> String {
    let trace = generate(shape, 2);
    let bugs = pairs(&trace, QUERIES, 3);
    let (mut engine, building) = timed(|| Engine::new(&trace, reads));
    engine.budget = BUDGET;
    let asked = ask(&mut engine, &bugs);
    let statistics = engine.statistics();
    let line = format!(
        "{:<8} {:<10} {:<10} {:>9.4} {:>10.4} {:>6} {:>6} {:>9} {:>9} {:>6}",
        trace.events.len(),
        shape.waits.name(),
        format!("{reads:?}"),
        building,
        asked.seconds,
        asked.witnesses,
        asked.undecided,
        statistics.conflicts,
        statistics.decisions,
        peak_mib(),
    );
    let reference = match trace.events.len() {
        5_000.. => String::new(),
        _ => z3(
            &engine,
            &bugs,
            &asked.answers,
            building + asked.seconds,
            limit,
        ),
    };
    format!("{line}  {reference}")
}

fn row_of(number: usize, limit: f64) -> String {
    match rows()[number] {
        Row::Paper(shape) => paper_row(shape, limit),
        Row::Large(shape, reads) => large_row(shape, reads, limit),
    }
}

/// `order_bench [SECONDS for Z3 on one row [FIRST ROW [LAST ROW]]]`, or `order_bench row N SECONDS`.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<f64>().expect("a number");
    if arguments.first().is_some_and(|word| word == "row") {
        println!(
            "{}",
            row_of(number(&arguments[1]) as usize, number(&arguments[2]))
        );
        return;
    }
    let limit = arguments.first().map_or(5.0, number);
    let all = rows();
    let first = arguments.get(1).map_or(0, number_of_row);
    let last = arguments.get(2).map_or(all.len() - 1, number_of_row);
    let mut headed = None;
    for (i, row) in all.iter().enumerate().take(last + 1).skip(first) {
        let kind = std::mem::discriminant(row);
        if headed != Some(kind) {
            println!("{}", heading(row));
            headed = Some(kind);
        }
        let own = std::env::current_exe().expect("a program knows its file");
        let status = Command::new(own)
            .args(["row", &i.to_string(), &limit.to_string()])
            .status()
            .expect("the program can be started again");
        if !status.success() {
            println!("row {i} failed: {status}");
        }
    }
}

fn number_of_row(text: &String) -> usize {
    text.parse().expect("the number of a row")
}
