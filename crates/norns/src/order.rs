//! `norns order`: questions to the ordering solver about particular events of a trace.
//!
//! `norns predict --engine order` asks about everything; this command is for one pair or cycle,
//! for a second opinion (`--second-opinion` asks an installed `z3`, `--smt2` writes the same
//! questions for any other solver), and for constraints that a replay has taught. Ends with 0 when
//! nothing is possible, 1 when something is, 2 when Z3 disagrees.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use norns_model::{Bug, Meaning, Model};
use norns_order::smtlib;
use norns_predict::order::{Constraint, Engine, Outcome};
use norns_trace::{EventIndex, Trace};

/// How many conflicting pairs are examined when the user names none.
const MOST_PAIRS: usize = 1_000_000;
const MOST_CYCLES: usize = 10_000;
/// How many steps the search for cycles of locks may take.
const CYCLE_STEPS: usize = 100_000_000;

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 nothing is possible, 1 something is, 2 an error, or Z3 disagrees."
)]
pub struct Arguments {
    /// A trace file, or a text in the STD format of RAPID (FILE.std)
    file: PathBuf,
    /// Can these two accesses race? Positions in the trace from 0, as I,J; otherwise all pairs
    #[arg(long, value_name = "I,J")]
    race: Vec<Events>,
    /// Can these acquisitions block each other? In the order of the cycle; otherwise all cycles
    #[arg(long, value_name = "I,J,…")]
    deadlock: Vec<Events>,
    /// What a read has to see; otherwise its value where the trace has values, its write where it
    /// orders accesses, else anything
    #[arg(long)]
    reads: Option<ReadsName>,
    /// No schedule has these events in this order
    #[arg(long, value_name = "I,J,…")]
    not: Vec<Events>,
    /// The second event takes place only after the first
    #[arg(long, value_name = "I,J")]
    before: Vec<Events>,
    /// Write the formula and the questions as SMT-LIB 2 instead of solving them; - is the standard
    /// output
    #[arg(long, value_name = "FILE")]
    smt2: Option<PathBuf>,
    /// Ask Z3 (the program `z3` of the PATH) about everything that comes out impossible
    #[arg(long)]
    second_opinion: bool,
    /// Seconds that Z3 has for one question
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        requires = "second_opinion"
    )]
    second_opinion_limit: u64,
    /// Conflicts that the solver may spend on one question
    #[arg(long, default_value_t = 100_000)]
    budget: u64,
    /// Print the schedules
    #[arg(long)]
    schedules: bool,
}

#[derive(Clone, Debug)]
struct Events(Vec<EventIndex>);

impl std::str::FromStr for Events {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let events: Result<Vec<EventIndex>, _> = text
            .split(',')
            .map(|number| number.trim().parse().map(EventIndex))
            .collect();
        let events = events.map_err(|_| format!("expected positions like 3,17, found {text:?}"))?;
        let mut distinct = events.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if events.len() < 2 || distinct.len() < events.len() {
            return Err(format!(
                "expected two or more different positions, found {text:?}"
            ));
        }
        Ok(Events(events))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReadsName {
    Anything,
    /// The write that it saw
    Write,
    /// The value that it saw
    Value,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let (trace, warnings) = crate::predict::read(&arguments.file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let meaning = match arguments.reads {
        Some(ReadsName::Anything) => Meaning::Optimistic,
        Some(ReadsName::Write) => Meaning::Faithful,
        Some(ReadsName::Value) => Meaning::SameValues,
        None => Meaning::usual(&trace),
    };
    let mut engine = Engine::new(&trace, meaning);
    engine.budget = arguments.budget;
    if engine.mismatches() > 0 {
        eprintln!(
            "warning: {} reads did not see the last write of the trace; each is assumed to need that write",
            engine.mismatches()
        );
    }
    let pairs = |lists: &[Events]| -> anyhow::Result<Vec<[EventIndex; 2]>> {
        let two = |list: &Events| match list.0[..] {
            [one, other] => Ok([one, other]),
            _ => bail!("expected two positions, found {}", list.0.len()),
        };
        lists.iter().map(two).collect()
    };
    for list in arguments
        .race
        .iter()
        .chain(&arguments.deadlock)
        .chain(&arguments.not)
    {
        in_trace(&trace, &list.0)?;
    }
    for list in &arguments.not {
        engine.add(Constraint::NotInThisOrder(list.0.clone()));
    }
    for [first, second] in pairs(&arguments.before)? {
        in_trace(&trace, &[first, second])?;
        engine.add(Constraint::Before(first, second));
    }
    let bugs = if arguments.race.is_empty() && arguments.deadlock.is_empty() {
        all_candidates(&engine)
    } else {
        let races = pairs(&arguments.race)?;
        asked(&trace, &engine, &races, &arguments.deadlock)?
    };
    match &arguments.smt2 {
        Some(path) => write_smt2(&engine, &bugs, path),
        None => {
            let second = arguments
                .second_opinion
                .then_some(arguments.second_opinion_limit);
            answer(&mut engine, bugs, arguments.schedules, second)
        }
    }
}

fn in_trace(trace: &Trace, events: &[EventIndex]) -> anyhow::Result<()> {
    match events
        .iter()
        .find(|event| event.index() >= trace.events.len())
    {
        Some(event) => {
            bail!(
                "there is no event {}: the trace has {} events",
                event.0,
                trace.events.len()
            )
        }
        None => Ok(()),
    }
}

fn asked(
    trace: &Trace,
    engine: &Engine<'_>,
    races: &[[EventIndex; 2]],
    deadlocks: &[Events],
) -> anyhow::Result<Vec<Bug>> {
    let model = Model::new(trace, Meaning::Optimistic);
    let mut bugs = Vec::new();
    for &[one, other] in races {
        if !model.conflict(one, other) {
            bail!(
                "events {} and {} are not conflicting accesses of two threads",
                one.0,
                other.0
            );
        }
        bugs.push(Bug::Race {
            first: one.min(other),
            second: one.max(other),
        });
    }
    for cycle in deadlocks {
        let acquires = |event: &EventIndex| trace.events[event.index()].op.acquires().is_some();
        if let Some(event) = cycle.0.iter().find(|event| !acquires(event)) {
            bail!("event {} acquires no lock", event.0);
        }
        let mut blocked = cycle.0.clone();
        if !engine.is_cycle(&blocked) {
            let cycle = numbers(&blocked).join(",");
            bail!(
                "events {cycle} are no cycle: each has to want a lock that the next one's thread holds"
            );
        }
        let smallest = (0..blocked.len()).min_by_key(|&i| blocked[i]).unwrap_or(0);
        blocked.rotate_left(smallest);
        bugs.push(Bug::LockDeadlock { blocked });
    }
    Ok(bugs)
}

fn all_candidates(engine: &Engine<'_>) -> Vec<Bug> {
    let (pairs, counts) = engine.race_candidates(MOST_PAIRS);
    eprintln!(
        "{} conflicting pairs, {} not kept apart by locks, {} of these not always ordered",
        counts.conflicting, counts.after_locks, counts.after_order
    );
    if counts.conflicting >= MOST_PAIRS {
        eprintln!("warning: only the first {MOST_PAIRS} conflicting pairs are looked at");
    }
    let cycles = engine.deadlock_candidates(MOST_CYCLES, CYCLE_STEPS);
    if !cycles.is_complete {
        let looked_at = cycles.items.len();
        eprintln!("warning: only the first {looked_at} cycles of locks are looked at");
    }
    let races = pairs
        .into_iter()
        .map(|(first, second)| Bug::Race { first, second });
    races
        .chain(
            cycles
                .items
                .into_iter()
                .map(|blocked| Bug::LockDeadlock { blocked }),
        )
        .collect()
}

fn name(bug: &Bug) -> String {
    // The words of this command's own options.
    let word = match bug {
        Bug::Race { .. } => "race",
        Bug::LockDeadlock { .. } => "deadlock",
        Bug::Stuck { .. } => "stuck",
        Bug::Order { .. } => "order",
        Bug::Atomicity { .. } => "atomicity",
    };
    format!("{word} {}", numbers(&bug.events()).join(","))
}

fn numbers(events: &[EventIndex]) -> Vec<String> {
    events.iter().map(|event| event.0.to_string()).collect()
}

fn answer(
    engine: &mut Engine<'_>,
    bugs: Vec<Bug>,
    schedules: bool,
    second_opinion: Option<u64>,
) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut possible = false;
    let mut refuted = Vec::new();
    for bug in bugs {
        let name = name(&bug);
        match engine.find(bug.clone()) {
            Outcome::Impossible => {
                writeln!(out, "{name}: impossible")?;
                refuted.push(bug);
            }
            Outcome::Undecided => writeln!(out, "{name}: undecided")?,
            Outcome::Witness(witness) => {
                possible = true;
                writeln!(out, "{name}: after {} events", witness.schedule.len())?;
                if schedules {
                    writeln!(out, "  {}", numbers(&witness.schedule).join(" "))?;
                }
            }
        }
    }
    if let Some(seconds) = second_opinion {
        for (bug, opinion) in refuted.iter().zip(ask_z3(engine, &refuted, seconds)?) {
            let name = name(bug);
            match opinion.as_str() {
                "unsat" => writeln!(out, "{name}: impossible says Z3 too")?,
                // A wrong verdict is worse than a stop.
                "sat" => bail!("Z3 finds a schedule for {name}, which our solver has refuted"),
                _ => writeln!(out, "{name}: Z3 does not know")?,
            }
        }
    }
    Ok(ExitCode::from(u8::from(possible)))
}

/// What Z3 says of each bug, in their order.
fn ask_z3(engine: &Engine<'_>, bugs: &[Bug], seconds: u64) -> anyhow::Result<Vec<String>> {
    if bugs.is_empty() {
        return Ok(Vec::new());
    }
    let mut z3 = Command::new("z3")
        .args(["-in", "-smt2", &format!("-t:{}", seconds * 1000)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context(
            "cannot start z3, which gives the second opinion (Debian: apt-get install z3; or \
             write the questions for another solver with --smt2)",
        )?;
    let text = smt2_text(engine, bugs)?;
    let mut input = z3.stdin.take().expect("it was asked to be a pipe");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = z3.wait_with_output().context("cannot read what z3 says")?;
    writer
        .join()
        .expect("writing does not panic")
        .context("cannot write to z3")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some(signal) = output.status.signal() {
        bail!("z3 crashed (signal {signal}): there is no second opinion");
    }
    let answers: Vec<String> = said.lines().map(str::to_string).collect();
    let is_answer = |answer: &String| ["sat", "unsat", "unknown"].contains(&answer.as_str());
    if answers.len() != bugs.len() || !answers.iter().all(is_answer) {
        bail!("z3 was asked {} questions and said: {said}", bugs.len());
    }
    Ok(answers)
}

fn write_smt2(engine: &Engine<'_>, bugs: &[Bug], path: &PathBuf) -> anyhow::Result<ExitCode> {
    let text = smt2_text(engine, bugs)?;
    if path.as_os_str() == "-" {
        std::io::stdout().write_all(text.as_bytes())?;
    } else {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn smt2_text(engine: &Engine<'_>, bugs: &[Bug]) -> anyhow::Result<String> {
    let problem = engine.problem(bugs);
    let mut text = String::new();
    text.push_str(
        "; One integer for every event of the trace, and one for the end of the schedule:\n",
    );
    text.push_str("; an event takes place when it comes before the end.\n");
    smtlib::write(&mut text, problem.nodes, &problem.edges, &problem.formula)?;
    for (bug, query) in bugs.iter().zip(&problem.queries) {
        text.push_str(&format!("; {}\n", name(bug)));
        smtlib::write_query(&mut text, &problem.formula, query)?;
    }
    Ok(text)
}
