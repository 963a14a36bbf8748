//! The tool of `bench/order`: one row of its table, as lines of JSON.
//!
//!     order_bench rows
//!     order_bench ours ROW pairs|candidates
//!     order_bench z3 ROW pairs|candidates
//!     order_bench many ROW QUESTIONS
//!
//! `bench/order` starts a process for each row, with limits on CPU time and memory, so answers are
//! written while the questions are asked. Times are CPU seconds. Ours include building the engine and
//! checking every witness; Z3's (feature `z3`) begin when the formula is complete.

mod mixed;
mod shapes;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::{Duration, Instant};

use norns_budget::Budget;
use norns_model::{Bug, Meaning, Model};
use norns_order::Answer;
use norns_predict::candidate::{Accesses, Filtered, is_ruled_out};
use norns_predict::exact::index::Index;
use norns_predict::order::{BackEnd, Counts, Engine};
use norns_random::Random;
use norns_trace::{EventIndex, Touch, Trace};

use shapes::{Shape, TABLE_3, large};

/// After this many conflicts a question of the larger rows is undecided.
const BUDGET: u64 = 20_000;
/// How many questions a larger row has.
const QUESTIONS: usize = 200;
const LENGTHS: [usize; 6] = [800, 1_000, 2_000, 10_000, 20_000, 100_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synchronisation {
    Mutexes,
    /// Mutexes, and one event in a hundred waits or signals.
    Waits,
    /// All kinds of synchronisation.
    All,
}

/// One row of the table.
#[derive(Clone, Copy)]
enum Row {
    /// A row of Table 3 of Said et al. (2011).
    Paper(Shape),
    Large {
        length: usize,
        synchronisation: Synchronisation,
        meaning: Meaning,
        branches: bool,
    },
}

fn rows() -> Vec<Row> {
    use Meaning::{Faithful, Optimistic, SameValues};
    let mut rows: Vec<Row> = TABLE_3.into_iter().map(Row::Paper).collect();
    for length in LENGTHS {
        for synchronisation in [
            Synchronisation::Mutexes,
            Synchronisation::Waits,
            Synchronisation::All,
        ] {
            for (meaning, branches) in [
                (Optimistic, false),
                (Faithful, false),
                (SameValues, false),
                (SameValues, true),
            ] {
                rows.push(Row::Large {
                    length,
                    synchronisation,
                    meaning,
                    branches,
                });
            }
        }
    }
    rows
}

impl Row {
    fn trace(self) -> Trace {
        match self {
            Row::Paper(shape) => shapes::generate(shape, 1),
            Row::Large {
                length,
                synchronisation,
                branches,
                ..
            } => match synchronisation {
                Synchronisation::Mutexes => shapes::generate(large(length, false, branches), 2),
                Synchronisation::Waits => shapes::generate(large(length, true, branches), 2),
                Synchronisation::All => mixed::generate(length, branches, 2),
            },
        }
    }

    fn meaning(self) -> Meaning {
        match self {
            Row::Paper(_) => Meaning::SameValues,
            Row::Large { meaning, .. } => meaning,
        }
    }

    /// The row as JSON, as far as it is known before the run.
    fn describe(self) -> String {
        match self {
            Row::Paper(shape) => {
                let Shape {
                    name,
                    threads,
                    length,
                    lock_events,
                    wait_events,
                    ..
                } = shape;
                let paper = shape.paper.unwrap_or(0.0);
                format!(
                    "{{\"table\": 3, \"name\": \"{name}\", \"threads\": {threads}, \"events\": \
                     {length}, \"lock\": {lock_events}, \"wait\": {wait_events}, \"paper\": {paper}}}"
                )
            }
            Row::Large {
                length,
                synchronisation,
                meaning,
                branches,
            } => {
                let synchronisation = match synchronisation {
                    Synchronisation::Mutexes => "mutexes",
                    Synchronisation::Waits => "waits",
                    Synchronisation::All => "all kinds",
                };
                let reads = match (meaning, branches) {
                    (Meaning::Optimistic, _) => "anything",
                    (Meaning::Faithful, _) => "write",
                    (Meaning::SameValues, false) => "value",
                    (Meaning::SameValues, true) => "branches",
                };
                format!(
                    "{{\"table\": 0, \"events\": {length}, \"synchronisation\": \
                     \"{synchronisation}\", \"reads\": \"{reads}\"}}"
                )
            }
        }
    }
}

/// Random pairs of conflicting accesses from the whole trace.
fn any_pairs(trace: &Trace, count: usize) -> Vec<Bug> {
    let model = Model::new(trace, Meaning::Optimistic);
    let mut random = Random::new(3);
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
    bugs(found)
}

/// The pairs that `norns predict` would ask about: near each other and not ruled out by locks or
/// must-happen-before. They are spread over the trace.
fn near_pairs(trace: &Trace, count: usize) -> Vec<Bug> {
    let model = Model::new(trace, Meaning::Optimistic);
    let index = Index::of(&model);
    let mut found = BTreeSet::new();
    let mut filtered = Filtered::default();
    Accesses::of(&model, &[]).for_near_pairs(&model, &index, &Budget::unlimited(), |one, other| {
        if !is_ruled_out(&model, &index, &mut filtered, one, other) {
            found.insert((one.min(other), one.max(other)));
        }
    });
    bugs(spread(found, count))
}

/// At most `most` of them, at equal distances.
fn spread<T>(all: impl IntoIterator<Item = T>, most: usize) -> Vec<T> {
    let all: Vec<T> = all.into_iter().collect();
    let count = all.len().max(most);
    let chosen = all.into_iter().enumerate();
    let chosen = chosen.filter(|(i, _)| (i + 1) * most / count > i * most / count);
    chosen.map(|(_, one)| one).collect()
}

fn bugs(pairs: impl IntoIterator<Item = (EventIndex, EventIndex)>) -> Vec<Bug> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(first, second)| Bug::Race { first, second })
        .collect()
}

/// The questions of a row. For Table 3 they are as many as the paper asked, but at least ten.
fn questions(row: Row, set: &str, trace: &Trace, engine: &Engine<'_>) -> (Vec<Bug>, Counts) {
    match row {
        Row::Paper(shape) => {
            let (pairs, counts) = engine.race_candidates(1_000_000);
            (bugs(spread(pairs, shape.asked.max(10))), counts)
        }
        Row::Large { .. } if set == "pairs" => (any_pairs(trace, QUESTIONS), Counts::default()),
        Row::Large { .. } => (near_pairs(trace, QUESTIONS), Counts::default()),
    }
}

/// The CPU time of this thread so far, with a resolution of some milliseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has this file");
    let nanoseconds = text.split(' ').next().expect("the file has a first word");
    nanoseconds
        .parse::<f64>()
        .expect("the first word is a number")
        / 1e9
}

/// Measures CPU time. Its resolution is coarse, so short work is measured by the wall clock.
struct Watch {
    cpu: f64,
    clock: Instant,
}

impl Watch {
    fn start() -> Self {
        Watch {
            cpu: cpu(),
            clock: Instant::now(),
        }
    }

    fn seconds(&self) -> f64 {
        let wall = self.clock.elapsed().as_secs_f64();
        wall.min(cpu() - self.cpu + 0.004)
    }
}

fn peak_mib() -> u64 {
    memory_mib("VmHWM")
}

fn memory_mib(which: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has this file");
    let line = text.lines().find(|line| line.starts_with(which));
    let line = line.expect("the file has a line for each measure");
    let kib = line.split_whitespace().nth(1);
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Asks about all bugs, and prints the answers so far every tenth of a second.
fn ask(back_end: &mut impl BackEnd, bugs: &[Bug], before: f64) {
    let watch = Watch::start();
    let mut answers = String::new();
    let mut times = Vec::new();
    let mut printed = Instant::now();
    let print = |answers: &str, times: &[f64], seconds: f64| {
        // The times of single questions are wall-clock times, scaled to CPU time here.
        let scale = seconds / times.last().copied().unwrap_or(1.0).max(1e-9);
        let mut list = String::new();
        for time in times {
            let _ = write!(
                list,
                "{}{:.7}",
                if list.is_empty() { "" } else { ", " },
                time * scale + before
            );
        }
        println!(
            "{{\"answers\": \"{answers}\", \"times\": [{list}], \"peak\": {}}}",
            peak_mib()
        );
    };
    for bug in bugs {
        answers.push(match back_end.decide(bug) {
            Answer::Satisfiable => 'y',
            Answer::Unsatisfiable => 'n',
            Answer::Undecided => '?',
        });
        times.push(watch.clock.elapsed().as_secs_f64());
        if printed.elapsed() > Duration::from_millis(100) {
            print(&answers, &times, watch.seconds());
            printed = Instant::now();
        }
    }
    print(&answers, &times, watch.seconds());
}

fn ours(row: Row, set: &str) {
    let trace = row.trace();
    let watch = Watch::start();
    let mut engine = Engine::new(&trace, row.meaning());
    let mut building = watch.seconds();
    let (bugs, counts) = questions(row, set, &trace, &engine);
    if let Row::Paper(_) = row {
        // The times of the paper include the filters.
        building = watch.seconds();
    } else {
        engine.budget = BUDGET;
    }
    let Counts {
        conflicting,
        after_locks,
        after_order,
    } = counts;
    println!(
        "{{\"questions\": {}, \"building\": {building:.6}, \"events\": {}, \"counts\": [{conflicting}, \
         {after_locks}, {after_order}]}}",
        bugs.len(),
        trace.events.len()
    );
    ask(&mut engine, &bugs, building);
    let statistics = engine.statistics();
    println!(
        "{{\"conflicts\": {}, \"decisions\": {}}}",
        statistics.conflicts, statistics.decisions
    );
}

/// Asks one engine many questions, and prints time and memory as their number grows. Half of them are
/// random pairs, half candidates.
fn many(row: Row, count: usize) {
    let trace = row.trace();
    let mut bugs = near_pairs(&trace, count / 2);
    bugs.extend(any_pairs(&trace, count - bugs.len()));
    // In random order, so that neither kind comes first.
    let mut random = Random::new(5);
    for i in (1..bugs.len()).rev() {
        bugs.swap(i, random.below(i + 1));
    }
    let mut engine = Engine::new(&trace, row.meaning());
    engine.budget = BUDGET;
    let watch = Watch::start();
    let mut undecided = 0;
    for (i, bug) in bugs.iter().enumerate() {
        undecided += usize::from(engine.decide(bug) == Answer::Undecided);
        if (i + 1) % 100 == 0 {
            println!(
                "{{\"asked\": {}, \"seconds\": {:.4}, \"mib\": {}, \"undecided\": {undecided}}}",
                i + 1,
                watch.seconds(),
                memory_mib("VmRSS")
            );
        }
    }
}

#[cfg(feature = "z3")]
fn z3(row: Row, set: &str) {
    use norns_order::reference::{Reference, Z3};
    use norns_predict::order::Problem;

    struct Asked<'z> {
        problem: Problem,
        bugs: Vec<Bug>,
        reference: Reference<'z>,
    }

    impl BackEnd for Asked<'_> {
        fn decide(&mut self, bug: &Bug) -> Answer {
            let known = self.bugs.iter().position(|other| other == bug);
            let query = known.expect("the bug is one of those in the formula");
            let Problem {
                formula, queries, ..
            } = &self.problem;
            self.reference.ask(formula, &queries[query])
        }
    }

    let trace = row.trace();
    let engine = Engine::new(&trace, row.meaning());
    let (bugs, _) = questions(row, set, &trace, &engine);
    let problem = engine.problem(&bugs);
    println!("{{\"questions\": {}, \"start\": {:.3}}}", bugs.len(), cpu());
    let watch = Watch::start();
    let mut z3 = Z3::new(None);
    let reference = Reference::new(&mut z3, problem.nodes, &problem.edges, &problem.formula);
    let building = watch.seconds();
    let mut asked = Asked {
        problem,
        bugs: bugs.clone(),
        reference,
    };
    ask(&mut asked, &bugs, building);
}

#[cfg(not(feature = "z3"))]
fn z3(_: Row, _: &str) {
    panic!("built without the feature z3");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let row = |number: &str| rows()[number.parse::<usize>().expect("the number of a row")];
    match words[..] {
        ["rows"] => {
            let described: Vec<String> = rows().into_iter().map(Row::describe).collect();
            println!("[{}]", described.join(",\n"));
        }
        ["ours", number, set] => ours(row(number), set),
        ["z3", number, set] => z3(row(number), set),
        ["many", number, count] => many(row(number), count.parse().expect("a number")),
        _ => panic!("order_bench rows | ours ROW SET | z3 ROW SET | many ROW QUESTIONS"),
    }
}
