//! `norns detect -- ./app`: the race detector alone, as people know it from ThreadSanitizer.
//!
//! Runs the program once, as it is, and reports the races that happened. The program's output
//! goes where it always goes. The exit status is that of `check`, unless `TSAN_OPTIONS` has an
//! `exitcode`: then, as with ThreadSanitizer, it is that one if something was found and it is not
//! 0, and otherwise the program's own.
//!
//! A forked child is watched as a program of its own from its first thread on, and so is a program
//! that the process becomes by `exec`. Of the earlier access of a race the place is known, not its
//! callers, so a suppression can name them only for the later one.

mod tsan_options;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use norns_check::observed;
use norns_model::NotAnalysed;
use norns_replay::report::Race;
use norns_replay::{Files, Input, Inputs, Limits, Mode, Program, Report, Session, process};
use norns_report::object::without_indices;
use norns_report::suppression::{Frame, Suppression};
use norns_report::{Findings, Verdict, fingerprint, suppression, terminal, variants};
use norns_trace::symbolise::Symboliser;
use norns_wire::environment;

use crate::check::build;
use crate::{exit, runs, runtime_library, show};

#[derive(clap::Args)]
pub struct Arguments {
    /// The program, built with norns-cc, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
    /// A file in the suppression format of ThreadSanitizer, besides the one that TSAN_OPTIONS names:
    /// matching findings are left out
    #[arg(long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
    /// Seconds that the program may take
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    time_limit: u64,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let file = runtime_library::find_program(&arguments.command[0])
        .with_context(|| format!("there is no program {}", arguments.command[0].display()))?;
    let options = std::env::var("TSAN_OPTIONS").unwrap_or_default();
    let options = tsan_options::parse(&options).map_err(anyhow::Error::msg)?;
    let mut rules = Vec::new();
    for path in options.suppressions.iter().chain(&arguments.suppressions) {
        rules.extend(read_suppressions(path, &file)?);
    }
    let mut all = Findings {
        format: norns_report::finding::FORMAT,
        findings: Vec::new(),
        undecided: 0,
        not_analysed: Vec::new(),
        recordings: None,
        scan: None,
    };
    if !build::is_instrumented(&file) {
        all.not_analysed.push(NotAnalysed::Accesses {
            synchronisation_is_seen: false,
        });
    }
    let mut command = arguments.command.clone();
    command[0] = std::path::absolute(file)?.into();
    let folder = std::env::current_dir().context("cannot tell the working directory")?;
    let program = Program {
        command,
        folder: folder.clone(),
        input: Input::Inherited,
        preload: None,
        plan: String::new(),
        session: Session::default(),
    };
    let scratch = std::env::temp_dir().join(format!("norns-detect-{}", std::process::id()));
    let ended = process::Run {
        program: &program,
        mode: Mode::Detect,
        limits: Some(Limits {
            time: Duration::from_secs(arguments.time_limit),
            memory: u64::MAX,
            ..Limits::default()
        }),
        variables: vec![(environment::REPORT, scratch.clone().into_os_string())],
        output: process::Output::Ours,
        keep_input: None,
        files: Files::Real,
        inputs: Inputs::default(),
    }
    .run();
    let reports = take_reports(&scratch);
    let (ended, reports) = (ended?, reports?);
    eprintln!("norns: the program {}", ended.describe());
    let children: usize = reports.iter().map(|report| report.children.len()).sum();
    if children > 0 {
        let them = if children == 1 {
            "process"
        } else {
            "processes"
        };
        eprintln!("norns: {children} child {them} with threads, watched too");
    }
    for warning in reports.iter().filter_map(|it| it.not_understood.warning()) {
        eprintln!("warning: {warning}");
    }
    let mut suppressed = 0;
    for report in &reports {
        let mut symbols = Symboliser::new([report.maps.as_str()]);
        for race in &report.races {
            let frames = frames_of(race, &mut symbols);
            let mut finding = observed::race(race, |pc| symbols.frames(pc).to_vec());
            if { rules.iter() }.any(|rule| rule.matches_race(finding.kind, &frames)) {
                suppressed += 1;
                continue;
            }
            finding.verdict = Some(Verdict::Confirmed("the race detector saw it".into()));
            let address = race.later.address;
            let global = symbols.global_at(address);
            let part = global.map(|global| symbols.part_at(global, address).name);
            finding.object = part.map(|part| without_indices(&part));
            norns_check::findings::add(&mut all, finding);
        }
    }
    if suppressed > 0 {
        let races = if suppressed == 1 { "race" } else { "races" };
        eprintln!("norns: {suppressed} {races} suppressed");
    }
    let sources = |file: &str| runs::source(&folder, file);
    fingerprint::name_findings(&mut all.findings, &sources);
    all.findings = variants::gather(std::mem::take(&mut all.findings));
    if !options.report_bugs {
        all.findings.clear();
    }
    match arguments.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&all)?),
        Format::Text => eprint!("{}", terminal::list(&all, show::style())),
    }
    let found = !all.findings.is_empty();
    Ok(match (options.exit_code, found) {
        (None, false) => ExitCode::SUCCESS,
        (None, true) => ExitCode::from(exit::FOUND),
        (Some(code @ 1..), true) => ExitCode::from(code),
        (Some(_), _) => exit::of_program(&ended),
    })
}

/// A path is relative to the working directory, or else to the program's folder.
fn read_suppressions(path: &Path, program: &Path) -> Result<Vec<Suppression>> {
    let beside = program.parent().unwrap_or(Path::new("")).join(path);
    let path = if path.exists() || !beside.exists() {
        path
    } else {
        &beside
    };
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    suppression::parse(&text).map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))
}

/// Reads and removes the reports of a run: that of the program, and those of the programs that
/// its processes became by `exec`.
fn take_reports(file: &Path) -> Result<Vec<Report>, process::Error> {
    let prefix = file.file_name().unwrap_or_default().as_encoded_bytes();
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
        })
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let report = Report::read(path);
            let _ = fs::remove_file(path);
            report
        })
        .collect()
}

/// The functions, files and modules that a suppression of this race may name.
fn frames_of(race: &Race, symbols: &mut Symboliser) -> Vec<Frame> {
    let tops = [race.earlier.pc, race.later.pc];
    let callers = race.stack.iter().copied();
    let pcs = tops.map(|pc| (pc, true)).into_iter();
    let mut frames = Vec::new();
    for (pc, is_top) in pcs.chain(callers.map(|pc| (pc, false))) {
        let module = symbols.module(pc).to_string();
        for (depth, place) in symbols.frames(pc).iter().enumerate() {
            frames.push(Frame {
                function: place.function.clone(),
                file: place.file.clone(),
                module: module.clone(),
                is_top: is_top && depth == 0,
            });
        }
    }
    frames.push(Frame {
        function: symbols.name_of(race.later.address),
        ..Frame::default()
    });
    frames
}
