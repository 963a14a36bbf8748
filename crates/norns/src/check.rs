//! `norns check`: compile if need be, record, predict, replay, report.

pub mod build;
mod confirm;
pub mod describe;
pub mod divergence;
mod hang;
mod refine;
pub mod saved;
mod wait_loops;

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use norns_model::{NotAnalysed, Witness};
use norns_replay::{Ended, How, Limits, Program, Recorded, record};
use norns_report::kind::Group;
use norns_report::{Finding, Findings, Status, Verdict, fingerprint, suppression, terminal};
use norns_trace::Trace;

use crate::baseline::{self, Counting};
use crate::kinds::Kinds;
use crate::predict::EngineName;
use crate::progress::Stage;
use crate::runs::{self, About, Run};
use crate::{exit, runtime_library, show};
use confirm::{Confirmation, Tried};
use describe::SavedWitness;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  norns check bank.c                    compile, record, predict, replay, report
  norns check -- ./server --port 0      the same for a program built with norns-cc

Exit status: 0 nothing confirmed, 1 a confirmed finding, 2 Norns could not do its job.")]
pub struct Arguments {
    /// C or C++ sources to compile and link into one program
    sources: Vec<PathBuf>,
    /// The program and its arguments; for sources, the arguments of the program
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    kinds: Kinds,
    /// How many times to record
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    runs: u32,
    /// Seconds for prediction and replays together
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    budget: u64,
    /// Which engines predict
    #[arg(long, value_enum, default_value = "auto")]
    engine: EngineName,
    /// Record with values, one thread at a time: what they forbid is refuted without a replay
    #[arg(long)]
    values: bool,
    /// Random delays in the first recording as well, from this seed; later ones always have them.
    /// With --values, who runs when
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Seconds that one run of the program may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    time_limit: u64,
    /// Megabytes of memory that one run of the program may use
    #[arg(long, default_value_t = 4096, value_name = "MEGABYTES")]
    memory_limit: u64,
    /// A word for the compiler, such as -O2 or -lm; may be repeated
    #[arg(long = "flag", value_name = "WORD", allow_hyphen_values = true)]
    flags: Vec<OsString>,
    /// Also list what was predicted, but refuted by its replays
    #[arg(long)]
    all: bool,
    /// Findings to leave out: a suppression file of ThreadSanitizer
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
    let words = arguments
        .sources
        .iter()
        .map(|source| source.display().to_string())
        .chain(
            arguments
                .command
                .iter()
                .map(|word| word.display().to_string()),
        );
    let sources = arguments.sources.iter().map(std::path::absolute);
    let sources: Vec<PathBuf> = sources.collect::<Result<_, _>>()?;
    let run = Run::create(&About::now(words.collect(), sources)?)?;
    let mut program = program(&arguments, &run)?;
    let baseline = arguments.counting.read()?;
    let mut findings = check(&arguments, &run, &mut program)?;
    let folder = run.about()?.folder;
    for finding in &mut findings.findings {
        finding.known = baseline.knows(&baseline::print_of(finding, &folder));
    }
    saved::save(&run, &program)?;
    run.save("findings.json", &findings)?;
    match arguments.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
        Format::Github => print!("{}", norns_report::ci::github(&findings)),
        Format::Text => {
            print!("{}", terminal::list(&findings, show::style()));
            print!("{}", terminal::next(&findings));
        }
    }
    let failing = arguments.counting.count(&findings, &folder);
    Ok(if failing > 0 {
        ExitCode::from(exit::FOUND)
    } else {
        ExitCode::SUCCESS
    })
}

/// What to run: compiled from the sources, or as it is given.
fn program(arguments: &Arguments, run: &Run) -> Result<Program> {
    let folder = std::env::current_dir().context("cannot tell the working directory")?;
    let mut preload = None;
    let command = if arguments.sources.is_empty() {
        let mut command = arguments.command.clone();
        let file = runtime_library::find_program(&command[0])
            .with_context(|| format!("there is no program {}", command[0].display()))?;
        if !build::is_instrumented(&file) {
            preload = Some(runtime_library::find()?);
        }
        command[0] = std::path::absolute(file)?.into();
        command
    } else {
        let file = run.path("program");
        let _stage = Stage::begin("compiling");
        build::build(
            &arguments.sources,
            &arguments.flags,
            &file,
            arguments.values,
        )?;
        let mut command = vec![file.into_os_string()];
        command.extend(arguments.command.iter().cloned());
        command
    };
    Ok(Program {
        command,
        folder,
        input: build::input(),
        preload,
    })
}

fn check(arguments: &Arguments, run: &Run, program: &mut Program) -> Result<Findings> {
    let start = Instant::now();
    let deadline = start + Duration::from_secs(arguments.budget);
    let limits = Limits {
        time: Duration::from_secs(arguments.time_limit),
        memory: arguments.memory_limit << 20,
    };
    let mut all = Findings {
        format: norns_report::finding::FORMAT,
        findings: Vec::new(),
        undecided: 0,
        not_analysed: Vec::new(),
    };
    if program.preload.is_some() {
        all.not_analysed.push(NotAnalysed::Accesses {
            synchronisation_is_seen: true,
        });
    }
    let interesting = std::io::stderr().is_terminal();
    for number in 0..arguments.runs.max(1) {
        let name = match number {
            0 => "trace.norns".to_string(),
            number => format!("trace-{number}.norns"),
        };
        let trace = run.path(&name);
        let output = run.path("output.txt");
        // The first recording is the natural one, unless the user wants another.
        let seed = arguments.seed.unwrap_or(1).wrapping_add(number.into());
        let how = match number {
            _ if arguments.values => How::WithValues { seed },
            0 if arguments.seed.is_none() => How::Naturally,
            _ => How::Delayed { seed },
        };
        let stage = Stage::begin(&match arguments.runs {
            0 | 1 => "recording".into(),
            runs => format!("recording {} of {runs}", number + 1),
        });
        let recorded = record(program, &trace, &output, &run.path("input"), limits, how)?;
        drop(stage);
        if interesting && number == 0 {
            eprintln!("recorded: the program {}", recorded.ended.describe());
        }
        note_how_it_ended(&recorded, &mut all.not_analysed);
        let recording = OneRecording {
            run,
            program,
            recorded,
            trace_name: &name,
            limits,
            deadline,
        };
        one_recording(arguments, recording, &mut all)?;
    }
    finish(arguments, run, &mut all)?;
    Ok(all)
}

fn note_how_it_ended(recorded: &Recorded, reasons: &mut Vec<NotAnalysed>) {
    match recorded.ended {
        Ended::Exited(_) => {}
        _ => reasons.push(NotAnalysed::AfterTheEnd {
            how: recorded.ended.describe(),
        }),
    }
    let warnings = recorded.warnings.iter().cloned();
    reasons.extend(warnings.map(NotAnalysed::Trace));
}

struct OneRecording<'a> {
    run: &'a Run,
    program: &'a Program,
    recorded: Recorded,
    trace_name: &'a str,
    limits: Limits,
    deadline: Instant,
}

/// Everything that follows from one recorded run.
fn one_recording(arguments: &Arguments, recording: OneRecording, all: &mut Findings) -> Result<()> {
    let OneRecording {
        run,
        program,
        recorded,
        trace_name,
        limits,
        deadline,
    } = recording;
    let trace = &recorded.recording.trace;
    let stage = Stage::begin(&format!("predicting from {} events", trace.events.len()));
    let prediction = predict(arguments, trace)?;
    drop(stage);
    all.undecided += prediction.undecided;
    all.not_analysed.extend(prediction.not_analysed);
    refuted_by_values(arguments, run, trace, trace_name, &prediction.refuted, all)?;
    let folder = run.path("replays");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut confirmation = Confirmation::new(program, trace, folder, limits, &recorded);
    let hung = matches!(recorded.ended, Ended::Hung | Ended::TimedOut);
    if prediction.witnesses.is_empty() && !hung {
        return Ok(());
    }
    let stage = Stage::begin("replaying the recording");
    let folder = run.about()?.folder;
    let sources = |file: &str| runs::source(&folder, file);
    if let Some((mut finding, sketch)) =
        confirmation.replay_recording(&mut all.not_analysed, &sources)?
        && arguments.kinds.contains(finding.kind)
    {
        finding.id = fingerprint::fingerprint(finding.kind, &finding.places, &sources);
        if let Some(sketch) = sketch {
            run.save(&format!("{}.sketch.json", finding.id), &sketch)?;
        }
        describe::add(all, finding);
    }
    let mut refuted_count = 0;
    for (number, witness) in (1..).zip(&prediction.witnesses) {
        stage.now(|| {
            let left = deadline.saturating_duration_since(Instant::now());
            format!(
                "replaying witness {number} of {}, at most {} s more",
                prediction.witnesses.len(),
                left.as_secs()
            )
        });
        let mut finding = describe::predicted(trace).finding(witness);
        if !arguments.kinds.contains(finding.kind) || describe::is_known(all, &finding) {
            continue;
        }
        let tried = confirmation.confirm(witness, &mut finding, deadline)?;
        // Another one, if the first could not be followed.
        finding.witness = Some(describe::predicted(trace).steps(&tried.witness));
        let refuted = matches!(
            finding.verdict,
            Some(Verdict::NoBug | Verdict::Infeasible(_))
        );
        if finding.status == Status::Predicted
            && refuted
            && confirmation.is_reliable()
            && !arguments.all
        {
            refuted_count += 1;
            continue;
        }
        let saved = SavedWitness::of(&tried, trace_name);
        save(run, trace, &tried.witness, &saved, &mut finding, all)?;
    }
    if confirmation.forked {
        all.not_analysed.push(NotAnalysed::ChildProcesses);
    }
    if refuted_count > 0 {
        all.not_analysed.push(NotAnalysed::RefutedByReplays {
            predictions: refuted_count,
        });
    }
    Ok(())
}

/// Counts, or lists, what needs no replay: a read would have to see another value.
fn refuted_by_values(
    arguments: &Arguments,
    run: &Run,
    trace: &Trace,
    trace_name: &str,
    refuted: &[Witness],
    all: &mut Findings,
) -> Result<()> {
    let mut count = 0;
    for witness in refuted {
        let mut finding = describe::predicted(trace).finding(witness);
        if !arguments.kinds.contains(finding.kind) || describe::is_known(all, &finding) {
            continue;
        }
        count += 1;
        if arguments.all {
            finding.verdict = Some(Verdict::Infeasible(
                "the recorded values forbid it: in every order that shows it, a read before it \
                 sees another value (no replay was needed)"
                    .into(),
            ));
            let saved = SavedWitness::of(&Tried::not_replayed(witness), trace_name);
            save(run, trace, witness, &saved, &mut finding, all)?;
        }
    }
    if count > 0 {
        all.not_analysed.push(NotAnalysed::RefutedByValues {
            predictions: count,
            listed: arguments.all,
        });
    }
    Ok(())
}

struct Predicted {
    witnesses: Vec<Witness>,
    refuted: Vec<Witness>,
    undecided: usize,
    not_analysed: Vec<NotAnalysed>,
}

fn predict(arguments: &Arguments, trace: &Trace) -> Result<Predicted> {
    let options = norns_predict::Options {
        engine: arguments.engine.engine(trace)?,
        races: arguments.kinds.any_of(Group::Race),
        deadlocks: arguments.kinds.any_of(Group::Deadlock),
        ..norns_predict::Options::usual(trace)
    };
    let prediction = norns_predict::predict(trace, &options);
    let mut witnesses = prediction.deadlocks;
    witnesses.extend(prediction.stuck);
    witnesses.extend(prediction.races);
    Ok(Predicted {
        witnesses,
        refuted: prediction.refuted,
        undecided: prediction.undecided.len(),
        not_analysed: prediction.not_analysed,
    })
}

/// Keeps a finding with what views of it need, under a name that no other finding of the run has.
fn save(
    run: &Run,
    trace: &Trace,
    witness: &Witness,
    saved: &SavedWitness,
    finding: &mut Finding,
    all: &mut Findings,
) -> Result<()> {
    let folder = run.about()?.folder;
    let sources = |file: &str| runs::source(&folder, file);
    finding.id = fingerprint::fingerprint(finding.kind, &finding.places, &sources);
    let sketch = norns_report::sketch(trace, witness, finding, &sources);
    // Two findings can have one fingerprint; `finish` names them apart.
    finding.id = format!("{}-{}", finding.id, all.findings.len());
    if !describe::add(all, finding.clone()) {
        return Ok(());
    }
    run.save(&format!("{}.sketch.json", finding.id), &sketch)?;
    run.save(&format!("{}.witness.json", finding.id), saved)?;
    Ok(())
}

/// Names the findings, sorts them and leaves out what the user does not want to see.
fn finish(arguments: &Arguments, run: &Run, all: &mut Findings) -> Result<()> {
    let folder = run.about()?.folder;
    all.relative_to(&folder);
    let sources = |file: &str| runs::source(&folder, file);
    let long: Vec<String> = all.findings.iter().map(|f| f.id.clone()).collect();
    fingerprint::name_findings(&mut all.findings, &sources);
    for (finding, long) in all.findings.iter().zip(long) {
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
    all.not_analysed.dedup();
    Ok(())
}
