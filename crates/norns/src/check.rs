//! `norns check`: compile if need be, record, predict, replay, report.

pub mod build;
pub mod divergence;
mod gaps;
pub mod inputs;
mod keep;
pub mod program;
pub mod rules;
pub mod saved;
pub mod witness;

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use norns_check::Runs;
use norns_model::NotAnalysed;
use norns_replay::Program;
use norns_report::kind::Group;
use norns_report::{Findings, Kind, fingerprint, suppression, terminal, variants};
use norns_scan::CandidateKind;

use crate::baseline::{self, Counting};
use crate::deadline::Deadline;
use crate::kinds::Kinds;
use crate::predict::EngineName;
use crate::progress::Stage;
use crate::runs::{self, Run};
use crate::{classify, exit, session, show};
use keep::Keeper;
use program::Checked;
use rules::Rules;

/// An execution of a race that takes longer is an endless one.
const LONGEST_EXECUTION: Duration = Duration::from_secs(10);

/// How many recordings are made at most when the user does not say.
const MOST_RUNS: u32 = 6;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  norns check bank.c                    compile, record, predict, replay, report
  norns check -- ./app -v               the same for a program built with norns-cc
  norns check --client 'curl -s localhost:$NORNS_PORT' -- ./server --port 0

Exit status: 0 nothing confirmed, 1 a confirmed finding, 2 Norns could not do its job: bad usage, a
build that failed, a program that died, hung or did not end in time, or of which nothing could be
observed.")]
pub struct Arguments {
    /// C or C++ sources to compile and link into one program
    sources: Vec<PathBuf>,
    /// The program and its arguments; for sources, the arguments of the program
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    kinds: Kinds,
    /// How many times to record the program; otherwise again, with other schedules, while that is
    /// cheap and shows something new
    #[arg(long, value_name = "NUMBER")]
    runs: Option<u32>,
    /// Seconds from the end of the first recording to the last line; what is known by then is
    /// printed
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    budget: u64,
    /// Which engines predict
    #[arg(long, value_enum, default_value = "auto")]
    engine: EngineName,
    /// Record the values of reads and writes, with one thread running at a time: predictions that
    /// contradict them are refuted without a replay
    #[arg(long)]
    values: bool,
    /// Seed of random delays in the first recording as well; later recordings always have them.
    /// With --values, the seed decides which thread runs when
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Seconds that one run of the program may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    time_limit: u64,
    /// Megabytes of memory that one run of the program may use
    #[arg(long, default_value_t = 4096, value_name = "MEGABYTES")]
    memory_limit: u64,
    #[command(flatten)]
    session: session::Arguments,
    /// An option for the compiler, such as -O2 or -lm; may be repeated
    #[arg(long = "flag", value_name = "WORD", allow_hyphen_values = true)]
    flags: Vec<OsString>,
    /// A file that says which points of the program emit which events; needs clang
    #[arg(long, value_name = "FILE")]
    aspect: Option<PathBuf>,
    /// A file with the rules that the events must keep: CSPM, or simple words
    #[arg(long, value_name = "FILE")]
    property: Option<PathBuf>,
    /// Also read the code, as norns scan does: what it suspects is tried first, and the end says of each
    /// candidate whether a run confirmed it, refuted it or never came there. A program after -- must have
    /// been built with NORNS_BITCODE=1
    #[arg(long)]
    scan: bool,
    /// A race from the field, in the file that norns hive pull wrote: it is tried first
    #[arg(long, value_name = "FILE", conflicts_with = "scan")]
    race: Option<PathBuf>,
    /// Compile with clang, whose plug-in knows loops that wait on conditions: a wait outside a loop is
    /// found, and a loop that never had to wait is known as one
    #[arg(long)]
    wait_loops: bool,
    /// Also look for steps that were probably meant to be atomic, and that another thread can come into
    #[arg(long)]
    atomicity: bool,
    /// Then execute both orders of every confirmed race, and say what it does to the program
    #[arg(long)]
    classify: bool,
    #[command(flatten)]
    executions: classify::ExecutionArguments,
    /// Also list predictions that were refuted
    #[arg(long)]
    all: bool,
    /// A file in the suppression format of ThreadSanitizer: matching findings are left out
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,
    #[command(flatten)]
    counting: Counting,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    /// Annotations for GitHub Actions
    Github,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if arguments.sources.is_empty() && arguments.command.is_empty() {
        bail!("nothing to check: name C sources, or a program after --");
    }
    let rules = Rules::read(&arguments)?;
    let run = Run::create(&arguments.sources, &arguments.command)?;
    rules.save(&run)?;
    let mut program = program(&arguments, &run, &rules)?;
    let baseline = arguments.counting.read()?;
    let mut findings = check(&arguments, &run, &mut program, rules)?;
    saved::save(&run, &program)?;
    let folder = run.about()?.folder;
    for finding in &mut findings.findings {
        finding.known = baseline.knows(&baseline::print_of(finding, &folder));
        for variant in &mut finding.variants {
            variant.known = baseline.knows(&baseline::print_of(variant, &folder));
        }
    }
    run.save("findings.json", &findings)?;
    match arguments.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
        Format::Github => print!("{}", norns_report::ci::github(&findings)),
        Format::Text => {
            if let Some(recordings) = &findings.recordings
                && let [_, .., last] = recordings.new[..]
                && std::io::stderr().is_terminal()
            {
                let times = recordings.new.len();
                let last = match last {
                    0 => "the last one showed nothing new".into(),
                    new => format!("the last one still showed {new} new places or orders"),
                };
                eprintln!("recorded {times} times: {last}");
            }
            print!("{}", terminal::list(&findings, show::style()));
            if let Some(scan) = &findings.scan {
                print!("{}", scan.text());
            }
            print!("{}", terminal::next(&findings));
        }
    }
    let failing = arguments.counting.count(&findings, &folder);
    Ok(if failing > 0 {
        ExitCode::from(exit::FOUND)
    } else if was_observed(&findings) && !norns_replay::interrupted() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::CANNOT)
    })
}

/// Whether the program ran to an end of its own and something was seen of it.
fn was_observed(findings: &Findings) -> bool {
    !findings.not_analysed.iter().any(|reason| {
        let failed = matches!(
            reason,
            NotAnalysed::AfterTheEnd {
                is_failure: true,
                ..
            } | NotAnalysed::FailedLater {
                impatient: false,
                ..
            }
        );
        failed || reason.is_everything()
    })
}

/// The program to run: compiled from the sources, or as it was given.
fn program(arguments: &Arguments, run: &Run, rules: &Rules) -> Result<Program> {
    let compile = |file: &Path| {
        build::build(
            &arguments.sources,
            &arguments.flags,
            file,
            arguments.values,
            rules.orders(run)?.as_ref(),
        )?;
        rules.warn(run)
    };
    let program = match &arguments.sources[..] {
        [] => {
            let found = |file: &Path| rules.warn_of_program(file);
            build::program_of(&arguments.command, found)?
        }
        _ => build::compiled(run, &arguments.command, compile)?,
    };
    Ok(Program {
        plan: rules.plan(),
        session: arguments.session.session(),
        ..program
    })
}

fn check(
    arguments: &Arguments,
    run: &Run,
    program: &mut Program,
    rules: Rules,
) -> Result<Findings> {
    let budget = Duration::from_secs(arguments.budget);
    let classifies = arguments.classify || arguments.counting.needs_classes();
    let deadline = Deadline::not_yet(match classifies {
        true => budget * 3 / 5,
        false => budget,
    });
    norns_replay::catch_interrupts();
    let options = norns_check::Options {
        runs: match arguments.runs {
            Some(runs) => Runs::Exactly(runs),
            // The seed says which of many schedules is recorded.
            None if arguments.values => Runs::Exactly(1),
            None => Runs::WhileNew { most: MOST_RUNS },
        },
        engine: arguments.engine.engine(),
        kinds: { Kind::ALL.into_iter() }
            .filter(|&kind| arguments.kinds.contains(kind))
            .collect(),
        list_refuted: arguments.all,
        rules: rules.for_check(arguments.budget),
        scan: scan(arguments, program)?,
        atomicity: arguments.atomicity,
    };
    let mut findings = norns_check::check(
        &mut Checked::new(arguments, run, program, deadline.clone()),
        &options,
        &deadline.budget(),
        &mut Keeper::new(run, deadline.clone()),
        Vec::new(),
    )?;
    findings.not_analysed.extend(inputs::problems(run));
    finish(arguments, run, &mut findings)?;
    if classifies {
        let left = budget.saturating_sub(deadline.spent());
        let limit = Duration::from_secs(arguments.time_limit).min(LONGEST_EXECUTION);
        let deadline = Deadline::after(left);
        let executions = arguments.executions.clone();
        classify::classify_all(run, program, executions, limit, &deadline, &mut findings)?;
    }
    Ok(findings)
}

/// A race that runs elsewhere have seen, as a scan that suspects nothing else.
fn from_the_field(candidate: &norns_hive::Candidate) -> norns_scan::Scan {
    let places = candidate.places.iter().map(|place| norns_scan::Place {
        at: norns_scan::SourcePlace {
            file: place.file.clone(),
            line: place.line,
            column: place.column,
            function: place.function.clone(),
        },
        inside: Vec::new(),
        access: place.access.name(),
        held: Vec::new(),
        chain: Vec::new(),
        created: None,
    });
    let candidate = norns_scan::Candidate {
        kind: CandidateKind::DataRace,
        rank: candidate.rank,
        object: candidate.object.clone(),
        places: places.collect(),
    };
    norns_scan::Scan {
        candidates: vec![candidate],
        not_analysed: Vec::new(),
    }
}

/// What the code of the program suggests, or the field, if that is asked for.
fn scan(arguments: &Arguments, program: &Program) -> Result<Option<norns_scan::Scan>> {
    if let Some(file) = &arguments.race {
        return Ok(Some(from_the_field(&crate::hive::pulled(file)?.candidate)));
    }
    if !arguments.scan {
        return Ok(None);
    }
    let _stage = Stage::begin("scanning");
    let file = [PathBuf::from(&program.command[0])];
    let files = match arguments.sources.as_slice() {
        [] => &file[..],
        sources => sources,
    };
    let mut scan = crate::scan::scan(files, &arguments.flags)?;
    let is_asked = |group| {
        let mut kinds = Kind::ALL.into_iter();
        kinds.any(|kind| kind.group() == group && arguments.kinds.contains(kind))
    };
    scan.candidates.retain(|candidate| match candidate.kind {
        CandidateKind::DataRace => is_asked(Group::Race),
        _ => is_asked(Group::Deadlock),
    });
    Ok(Some(scan))
}

/// Gives the findings their ids, renames the files that were kept under the old ones, applies the
/// suppressions, and puts variants together.
fn finish(arguments: &Arguments, run: &Run, all: &mut Findings) -> Result<()> {
    let folder = run.about()?.folder;
    all.relative_to(&folder);
    let sources = |file: &str| runs::source(&folder, file);
    let long: Vec<String> = all.findings.iter().map(|f| f.id.clone()).collect();
    fingerprint::name_findings(&mut all.findings, &sources);
    for (finding, long) in all.findings.iter().zip(long) {
        if let Some(scan) = &mut all.scan {
            scan.rename(&long, &finding.id);
        }
        for view in ["sketch.json", "witness.json"] {
            let old = run.path(&format!("{long}.{view}"));
            if old.exists() {
                fs::rename(&old, run.path(&format!("{}.{view}", finding.id)))
                    .with_context(|| format!("cannot rename {}", old.display()))?;
            }
        }
    }
    if let Some(path) = &arguments.suppressions {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let rules = suppression::parse(&text)
            .map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?;
        let (count, unused) = suppression::apply(&mut all.findings, &rules);
        if count > 0 {
            let reason = NotAnalysed::Suppressed { findings: count };
            all.not_analysed.push(reason);
        }
        for rule in unused {
            eprintln!("warning: the suppression `{}` matched nothing", rule.text);
        }
    }
    all.findings = variants::gather(std::mem::take(&mut all.findings));
    // Several recordings often have the same reasons.
    let mut reasons: Vec<NotAnalysed> = Vec::new();
    for reason in all.not_analysed.drain(..) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    all.not_analysed = reasons;
    Ok(())
}
