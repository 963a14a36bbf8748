//! `norns predict`: races and deadlocks that other schedules of a recorded run would show.
//!
//! Reads a trace file or a text in RAPID's STD format, which it tells apart by the name or by the
//! first bytes. Ends with 0 when nothing is predicted, 1 when something is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use norns_model::{Meaning, NotAnalysed};
use norns_predict::stage::{Counts, Reductions};
use norns_predict::{Detail, Engine, Options, Prediction, predict_within};
use norns_report::describe::{access_kind, bug_kind, shown_frame};
use norns_report::kind::Group;
use norns_report::object::{self, Query};
use norns_report::{
    AccessKind, Finding, Findings, Place, Predicted, Steps, bug_events, fingerprint, terminal,
    variants,
};
use norns_trace::std_format::{self, Import, Leniency};
use norns_trace::{EventIndex, Trace, Warning};
use serde::Serialize;

use crate::deadline::Deadline;
use crate::kinds::Kinds;
use crate::progress::Stage;

/// Longer witnesses are cut at the front in the JSON form.
const LONGEST_WITNESS: usize = 2_000;
/// The witnesses of all findings together have about this many steps in the JSON form; the more
/// findings there are, the shorter each witness is, down to `SHORTEST_WITNESS`.
const MOST_STEPS: usize = 200_000;
const SHORTEST_WITNESS: usize = 20;
/// Of more undecided candidates only these are listed; all are counted.
const MOST_UNDECIDED: usize = 1_000;

#[derive(clap::Args)]
pub struct Arguments {
    /// A trace file, or a text in the STD format of RAPID (FILE.std)
    file: PathBuf,
    #[command(flatten)]
    kinds: Kinds,
    #[arg(long, default_value = "text")]
    format: Format,
    /// Also list every event that races with an earlier one, and the events of every deadlock
    #[arg(long)]
    events: bool,
    /// Also list every racy pair of events (there can be very many)
    #[arg(long)]
    pairs: bool,
    /// What counts as another schedule; otherwise what values allow if the trace has them, and
    /// faithful if it orders its accesses
    #[arg(long)]
    meaning: Option<MeaningName>,
    #[arg(long, default_value = "auto")]
    engine: EngineName,
    /// Steps of exact search for one candidate
    #[arg(long, default_value_t = 200_000)]
    budget: usize,
    /// Seconds for everything, from reading the trace to the last line: what is known by then is
    /// printed
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    time_limit: u64,
    /// Read a text whose lines cannot all have happened (a thread forked twice, a lock that two
    /// threads hold): such lines are ignored and counted
    #[arg(long)]
    lenient: bool,
    /// Reductions to leave out; they save work and change no finding
    #[arg(long, value_delimiter = ',')]
    without: Vec<ReductionName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReductionName {
    /// Accesses that race only where another of their place does
    Redundant,
    /// Pairs that are always ordered or have a common lock
    Hybrid,
    /// Pairs of segments that were decided before
    SameSegments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MeaningName {
    /// What synchronisation allows
    Optimistic,
    /// In addition every read sees the write that it saw
    Faithful,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineName {
    /// All engines, cheapest first
    Auto,
    /// Near-linear prediction only: what it does not find stays undecided
    Linear,
    /// Exact search only
    Exact,
    /// The ordering solver only
    Order,
    /// The refinement checker, on the model as CSPM: for small traces
    Csp,
}

impl EngineName {
    /// An error where the engine cannot be asked about this trace.
    pub fn accept(self, trace: &Trace) -> anyhow::Result<()> {
        let most = norns_predict::csp::MOST_EVENTS;
        let events = trace.events.len();
        if self == EngineName::Csp && events > most {
            anyhow::bail!(
                "the trace has {events} events, and --engine csp takes at most {most}; \
                 use --engine auto"
            );
        }
        Ok(())
    }

    pub fn engine(self) -> Engine {
        match self {
            EngineName::Auto => Engine::Auto,
            EngineName::Linear => Engine::Linear,
            EngineName::Exact => Engine::Exact,
            EngineName::Order => Engine::Order,
            EngineName::Csp => Engine::Csp,
        }
    }
}

/// What `--format json` prints: the findings and what only a prediction has.
#[derive(Serialize)]
struct Output {
    #[serde(flatten)]
    findings: Findings,
    meaning: &'static str,
    stages: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    undecided_candidates: Vec<Vec<Place>>,
    /// What synchronisation allows and the values of this run forbid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refuted: Vec<Vec<Place>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Events>,
    #[serde(skip_serializing_if = "Option::is_none")]
    races: Option<Vec<[u32; 2]>>,
}

#[derive(Serialize)]
struct Events {
    racy: Vec<u32>,
    deadlocks: Vec<Vec<u32>>,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    norns_replay::catch_interrupts();
    let deadline = Deadline::after(Duration::from_secs(arguments.time_limit));
    let (trace, lines, warnings) = match is_text(&arguments.file) {
        true => {
            let import = import(&arguments.file, arguments.lenient)?;
            let ignored = import
                .first_change
                .map(|(first, problem)| Warning::Ignored {
                    lines: import.changed,
                    first,
                    problem,
                });
            let warnings = ignored.into_iter().collect();
            (import.trace, Some(import.lines), warnings)
        }
        false => {
            let (trace, warnings) = read(&arguments.file)?;
            (trace, None, warnings)
        }
    };
    let mut not_analysed: Vec<NotAnalysed> = warnings.into_iter().map(NotAnalysed::Trace).collect();
    arguments.engine.accept(&trace)?;
    let options = Options {
        meaning: match arguments.meaning {
            None => Meaning::usual(&trace),
            Some(MeaningName::Optimistic) => Meaning::Optimistic,
            Some(MeaningName::Faithful) => Meaning::Faithful,
        },
        engine: arguments.engine.engine(),
        detail: if arguments.pairs {
            Detail::Pairs
        } else if arguments.events {
            Detail::Events
        } else {
            Detail::Places
        },
        races: arguments.kinds.any_of(Group::Race),
        deadlocks: arguments.kinds.any_of(Group::Deadlock),
        budget: arguments.budget,
        longest_kept: LONGEST_WITNESS,
        reductions: Reductions {
            redundant: !arguments.without.contains(&ReductionName::Redundant),
            hybrid: !arguments.without.contains(&ReductionName::Hybrid),
            same_segments: !arguments.without.contains(&ReductionName::SameSegments),
        },
    };
    if options.answered_meaning() != options.meaning {
        not_analysed.push(NotAnalysed::ValuesOfReads);
    }
    if options.meaning == Meaning::Faithful && !trace.accesses_ordered {
        not_analysed.push(NotAnalysed::GuessedReads);
    }
    let stage = Stage::begin(&format!("predicting from {} events", trace.events.len()));
    // What is left of the time is for the findings and their text.
    let work = deadline.budget();
    let prediction = work.stage(9, 10, || predict_within(&trace, &options, &work));
    drop(stage);
    not_analysed.extend(prediction.not_analysed.iter().cloned());
    let witnesses = prediction.race_counts.refused + prediction.deadlock_counts.refused;
    if witnesses > 0 {
        not_analysed.push(NotAnalysed::RefusedWitnesses { witnesses });
    }
    let predicted = Predicted {
        trace: &trace,
        steps: match arguments.format {
            Format::Text => Steps::None,
            Format::Json => Steps::All {
                longest: longest_witness(&prediction),
            },
        },
        lines: lines.as_deref(),
    };
    let mut findings = findings(&predicted, &prediction, &arguments.kinds, not_analysed);
    if let Ok(folder) = std::env::current_dir() {
        findings.relative_to(&folder);
    }
    let any = !findings.findings.is_empty();
    let output = output(&predicted, &arguments, &options, &prediction, findings);
    print(&arguments, &prediction, &output)?;
    Ok(ExitCode::from(u8::from(any)))
}

/// How many steps of each witness the JSON form has.
fn longest_witness(prediction: &Prediction) -> usize {
    let findings = prediction.races.len() + prediction.deadlocks.len() + prediction.stuck.len();
    (MOST_STEPS / findings.max(1)).clamp(SHORTEST_WITNESS, LONGEST_WITNESS)
}

/// The trace, and what is wrong with it.
pub fn read(file: &Path) -> anyhow::Result<(Trace, Vec<Warning>)> {
    if is_text(file) {
        return Ok((import(file, false)?.trace, Vec::new()));
    }
    Ok(norns_trace::read_understood(file)?)
}

/// The trace of a text.
fn import(file: &Path, is_lenient: bool) -> anyhow::Result<Import> {
    let cannot = || format!("cannot read {}", file.display());
    let input = BufReader::new(File::open(file).with_context(cannot)?);
    let leniency = match is_lenient {
        true => Leniency::Lenient,
        false => Leniency::Strict,
    };
    std_format::import(input, leniency).with_context(cannot)
}

/// Whether the file is a text in the STD format: by its name, or because it begins like one.
fn is_text(file: &Path) -> bool {
    if let Some(extension) = file.extension() {
        if extension == "std" {
            return true;
        }
        if extension == "norns" {
            return false;
        }
    }
    let mut start = Vec::new();
    let opened = File::open(file).and_then(|input| input.take(256).read_to_end(&mut start));
    let first = start
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    opened.is_ok() && first.iter().filter(|&&byte| byte == b'|').count() == 2 && first.is_ascii()
}

/// One finding for every kind and set of source places.
fn findings(
    predicted: &Predicted,
    prediction: &Prediction,
    kinds: &Kinds,
    not_analysed: Vec<NotAnalysed>,
) -> Findings {
    let witnesses = prediction.races.iter().chain(&prediction.deadlocks);
    let mut seen = BTreeSet::new();
    let mut findings: Vec<Finding> = Vec::new();
    let mut nameless = Vec::new();
    for witness in witnesses.chain(&prediction.stuck) {
        let kind = bug_kind(predicted.trace, &witness.bug);
        let mut places: Vec<_> = bug_events(predicted.trace, &witness.bug)
            .iter()
            .map(|&event| source_place(predicted.trace, event))
            .collect();
        places.sort();
        if !kinds.contains(kind) || !seen.insert((kind, places)) {
            continue;
        }
        let finding = predicted.finding(witness);
        if finding.object.is_none() {
            let query = Query::of(predicted.trace, &witness.bug);
            nameless.extend(query.map(|query| (findings.len(), query)));
        }
        findings.push(finding);
    }
    let (of, queries): (Vec<usize>, Vec<Query>) = nameless.into_iter().unzip();
    for (of, block) in of
        .into_iter()
        .zip(object::blocks(predicted.trace, &queries))
    {
        findings[of].object = block;
    }
    fingerprint::name_findings(&mut findings, &|file| std::fs::read_to_string(file).ok());
    Findings {
        format: norns_report::finding::FORMAT,
        findings: variants::gather(findings),
        undecided: prediction.race_counts.undecided + prediction.deadlock_counts.undecided,
        not_analysed,
        recordings: None,
        scan: None,
    }
}

/// What distinguishes two places for a person: file, line, function and kind of access; the
/// program counter where the source is not known.
fn source_place(trace: &Trace, event: EventIndex) -> (String, u32, String, AccessKind, u64) {
    let what = &trace.events[event.index()];
    let place = trace.place(what.place);
    let (file, line, function) = match shown_frame(trace, event) {
        Some(frame) => (frame.file.clone(), frame.line, frame.function.clone()),
        None => Default::default(),
    };
    let pc = if place.frames.is_empty() { place.pc } else { 0 };
    (file, line, function, access_kind(what.op), pc)
}

fn output(
    predicted: &Predicted,
    arguments: &Arguments,
    options: &Options,
    prediction: &Prediction,
    findings: Findings,
) -> Output {
    let undecided = prediction.undecided.iter().take(MOST_UNDECIDED);
    // Positions in a text are its lines.
    let at = |event: EventIndex| {
        predicted
            .lines
            .map_or(event.0, |lines| lines[event.index()])
    };
    let sorted = |events: &mut dyn Iterator<Item = EventIndex>| {
        let mut lines: Vec<u32> = events.map(at).collect();
        lines.sort_unstable();
        lines
    };
    let mut stages = BTreeMap::new();
    if options.races {
        stages.insert("races", stage_counts(&prediction.race_counts));
    }
    if options.deadlocks {
        stages.insert("deadlocks", stage_counts(&prediction.deadlock_counts));
    }
    Output {
        findings,
        meaning: match options.answered_meaning() {
            Meaning::SameValues => "values",
            Meaning::Optimistic => "optimistic",
            Meaning::Faithful => "faithful",
        },
        stages,
        undecided_candidates: undecided
            .map(|events| events.iter().map(|&event| predicted.place(event)).collect())
            .collect(),
        refuted: prediction
            .refuted
            .iter()
            .map(|witness| predicted.places(&witness.bug))
            .collect(),
        events: (arguments.events).then(|| Events {
            racy: sorted(&mut prediction.racy_events.iter().copied()),
            deadlocks: prediction
                .deadlocked_events
                .iter()
                .map(|events| sorted(&mut events.iter().copied()))
                .collect(),
        }),
        races: arguments.pairs.then(|| {
            let pairs = prediction.racy_pairs.iter();
            pairs
                .map(|&(first, second)| [at(first), at(second)])
                .collect()
        }),
    }
}
fn stage_counts(counts: &Counts) -> BTreeMap<&'static str, usize> {
    BTreeMap::from([
        ("candidates", counts.candidates),
        ("ordered", counts.filtered.ordered),
        ("common_lock", counts.filtered.common_lock),
        ("redundant", counts.filtered.redundant),
        ("same_segments", counts.filtered.same_segments),
        ("linear", counts.linear),
        ("exact", counts.exact),
        ("order", counts.order),
        ("impossible", counts.impossible),
        ("undecided", counts.undecided),
        ("refuted", counts.refuted),
    ])
}

fn print(arguments: &Arguments, prediction: &Prediction, output: &Output) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    if arguments.format == Format::Json {
        serde_json::to_writer_pretty(&mut out, output)?;
        writeln!(out)?;
        out.flush()?;
        return Ok(());
    }
    let style = if std::io::stdout().is_terminal() {
        terminal::Style::Colour
    } else {
        terminal::Style::Plain
    };
    write!(out, "{}", terminal::list(&output.findings, style))?;
    writeln!(out, "meaning: {}", output.meaning)?;
    for (what, counts) in [
        ("races", &prediction.race_counts),
        ("deadlocks", &prediction.deadlock_counts),
    ] {
        if output.stages.contains_key(what) {
            writeln!(out, "{what}: {}", in_words(counts))?;
        }
    }
    for places in &output.undecided_candidates {
        writeln!(out, "undecided: {}", in_places(places))?;
    }
    for places in &output.refuted {
        writeln!(out, "refuted by values: {}", in_places(places))?;
    }
    if let Some(events) = &output.events {
        writeln!(out, "racy events: {:?}", events.racy)?;
        writeln!(out, "deadlocked events: {:?}", events.deadlocks)?;
    }
    if let Some(races) = &output.races {
        writeln!(out, "racy pairs: {races:?}")?;
    }
    out.flush()?;
    Ok(())
}

fn in_places(places: &[Place]) -> String {
    let places = places.iter();
    let places: Vec<String> = places
        .map(|place| format!("{}:{}", place.file, place.line))
        .collect();
    places.join(" ")
}

/// The counts that are not zero; those of candidates and undecided ones always.
fn in_words(counts: &Counts) -> String {
    let parts = [
        (counts.filtered.ordered, "ruled out by order"),
        (counts.filtered.common_lock, "ruled out by a common lock"),
        (counts.filtered.redundant, "accesses redundant"),
        (counts.linear, "shown by near-linear prediction"),
        (counts.exact, "shown by exact search"),
        (counts.order, "shown by the ordering solver"),
        (
            counts.filtered.same_segments,
            "decided with others of their segments",
        ),
        (counts.impossible, "impossible"),
        (counts.refuted, "refuted by values"),
    ];
    let mut words = vec![format!("{} candidates", counts.candidates)];
    let shown = parts.iter().filter(|(count, _)| *count > 0);
    words.extend(shown.map(|(count, what)| format!("{count} {what}")));
    words.push(format!("{} undecided", counts.undecided));
    words.join(", ")
}
