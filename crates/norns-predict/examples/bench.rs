//! The tool behind `bench/predict` and `bench/growth`: it generates traces and runs single stages on
//! them.
//!
//! ```text
//! bench generate SHAPE EVENTS SEED TRACE EXPECTED   lean, leanmix, sparse, mix
//! bench growth N ORDER TRACE                        main-first, worker-first, alternating
//! bench happens-before TRACE                        prints how many accesses are unordered
//! bench linear MEANING TRACE                        faithful, optimistic; checks the witnesses
//! ```

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};

use norns_model::checker::Checker;
use norns_model::{Bug, Meaning, Model, Witness};
use norns_predict::generate::{Shape, generate};
use norns_predict::happens_before::unordered_accesses;
use norns_predict::linear::{Linear, Options};
use norns_trace::{Trace, std_format};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["generate", shape, events, seed, trace, expected] => {
            let shape = Shape::ALL.into_iter().find(|known| known.name() == shape);
            let shape = shape.ok_or("SHAPE is lean, leanmix, sparse or mix")?;
            write_generated(shape, events.parse()?, seed.parse()?, trace, expected)
        }
        ["growth", n, order, trace] => write_growth(n.parse()?, order, trace),
        ["happens-before", trace] => {
            let trace = read(trace)?;
            let model = Model::new(&trace, Meaning::Optimistic);
            println!("{}", unordered_accesses(&model).len());
            Ok(())
        }
        ["linear", meaning, trace] => {
            let meaning = match meaning {
                "faithful" => Meaning::Faithful,
                "optimistic" => Meaning::Optimistic,
                _ => return Err("MEANING is faithful or optimistic".into()),
            };
            linear(&read(trace)?, meaning);
            Ok(())
        }
        _ => Err("the header of examples/bench.rs lists the arguments".into()),
    }
}

fn read(path: &str) -> Result<Trace> {
    Ok(std_format::read(BufReader::with_capacity(
        1 << 16,
        File::open(path)?,
    ))?)
}

fn write_generated(
    shape: Shape,
    events: usize,
    seed: u64,
    trace: &str,
    expected: &str,
) -> Result<()> {
    let plants = (events / 20_000).clamp(2, 50);
    let generated = generate(shape, events, plants, seed);
    let mut output = BufWriter::new(File::create(trace)?);
    std_format::write(&generated.trace, &mut output)?;
    output.flush()?;
    let mut output = BufWriter::new(File::create(expected)?);
    for (event, plant) in &generated.racy {
        writeln!(output, "racy {} {plant:?}", event.0)?;
    }
    for deadlock in &generated.deadlocks {
        let events: Vec<String> = deadlock.iter().map(|event| event.0.to_string()).collect();
        writeln!(output, "deadlock {}", events.join(" "))?;
    }
    for (i, event) in generated.trace.events.iter().enumerate() {
        if generated.unprotected.contains(&event.place.0) {
            writeln!(output, "unprotected {i}")?;
        }
    }
    Ok(output.flush()?)
}

/// The program of Figure 5.17 in Carril (2017), in one of three interleavings.
fn write_growth(n: usize, order: &str, trace: &str) -> Result<()> {
    /// One of the two threads.
    #[derive(Clone, Copy)]
    struct Side {
        /// Its unprotected accesses.
        accesses: &'static str,
        thread: &'static str,
        /// The line of its critical section.
        line: u32,
    }
    let section = |side: Side| {
        let line = |op: &str, i: u32| format!("{}|{op}|{}\n", side.thread, side.line + i);
        line("acq(m)", 0) + &line("r(y)", 1) + &line("w(y)", 1) + &line("rel(m)", 2)
    };
    let mut output = BufWriter::new(File::create(trace)?);
    writeln!(output, "main|fork(worker)|5")?;
    let main = Side {
        accesses: "main|r(x)|6\nmain|w(x)|6\n",
        thread: "main",
        line: 8,
    };
    let worker = Side {
        accesses: "worker|r(x)|20\nworker|w(x)|20\n",
        thread: "worker",
        line: 16,
    };
    let sections = |output: &mut BufWriter<File>, side: Side| -> Result<()> {
        for _ in 0..n {
            output.write_all(section(side).as_bytes())?;
        }
        Ok(())
    };
    match order {
        "main-first" => {
            output.write_all(main.accesses.as_bytes())?;
            sections(&mut output, main)?;
            sections(&mut output, worker)?;
        }
        "worker-first" => {
            sections(&mut output, worker)?;
            output.write_all(main.accesses.as_bytes())?;
            sections(&mut output, main)?;
        }
        "alternating" => {
            output.write_all(main.accesses.as_bytes())?;
            for _ in 0..n {
                output.write_all(section(main).as_bytes())?;
                output.write_all(section(worker).as_bytes())?;
            }
        }
        _ => return Err("ORDER is main-first, worker-first or alternating".into()),
    }
    output.write_all(worker.accesses.as_bytes())?;
    output.write_all(b"main|join(worker)|12\n")?;
    Ok(output.flush()?)
}

/// Runs near-linear prediction, prints a summary and checks every witness.
fn linear(trace: &Trace, meaning: Meaning) {
    let model = Model::new(trace, meaning);
    let linear = Linear::new(&model);
    let options = Options::default();
    let races = linear.races(&options);
    let deadlocks = linear.lock_deadlocks(&options);
    let reversed = races
        .races
        .iter()
        .filter(|race| race.plan.is_reordered())
        .count();
    println!(
        "{} racy events, {} pairs of places ({reversed} with reversed sections), {} open, \
         {} open events; {} deadlocks, {} open, {} impossible",
        races.racy.len(),
        races.races.len(),
        races.open.len(),
        races.open_events.len(),
        deadlocks.deadlocks.len(),
        deadlocks.open.len(),
        deadlocks.impossible,
    );
    let checker = Checker::new(trace, meaning);
    let races = races.races.iter().map(|race| {
        (
            Bug::Race {
                first: race.first,
                second: race.second,
            },
            &race.plan,
        )
    });
    let deadlocks = deadlocks.deadlocks.iter().map(|deadlock| {
        (
            Bug::LockDeadlock {
                blocked: deadlock.blocked.clone(),
            },
            &deadlock.plan,
        )
    });
    for (bug, plan) in races.chain(deadlocks) {
        let witness = Witness {
            schedule: linear.schedule(plan),
            bug,
        };
        let verdict = checker.check(&witness);
        assert_eq!(verdict, Ok(()), "the checker refuses {:?}", witness.bug);
    }
}
