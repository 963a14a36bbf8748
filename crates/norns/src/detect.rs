//! `norns detect -- ./app`: the race detector alone, as people know it from ThreadSanitizer.
//!
//! Runs the program once, as it is, and reports the races that happened. The program's output
//! goes where it always goes. Exit status: as for `check`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use norns_replay::{Input, Limits, Mode, Program, Report, process};
use norns_report::{Findings, Verdict, fingerprint, suppression, terminal};
use norns_trace::symbolise::Symboliser;

use crate::check::{build, describe};
use crate::{exit, runs, runtime_library, show};

#[derive(clap::Args)]
pub struct Arguments {
    /// The program, built with norns-cc, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
    /// Findings to leave out: a suppression file of ThreadSanitizer
    #[arg(long, value_name = "FILE")]
    suppressions: Option<PathBuf>,
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
    let mut all = Findings {
        format: norns_report::finding::FORMAT,
        findings: Vec::new(),
        undecided: 0,
        not_analysed: Vec::new(),
    };
    if !build::is_instrumented(&file) {
        all.not_analysed
            .push("memory accesses: the program was not built with norns-cc".into());
    }
    let mut command = arguments.command.clone();
    command[0] = std::path::absolute(file)?.into();
    let folder = std::env::current_dir().context("cannot tell the working directory")?;
    let program = Program {
        command,
        folder: folder.clone(),
        input: Input::Inherited,
        preload: None,
    };
    let scratch = std::env::temp_dir().join(format!("norns-detect-{}", std::process::id()));
    let ended = process::Run {
        program: &program,
        mode: Mode::Detect,
        limits: Limits {
            time: Duration::from_secs(arguments.time_limit),
            memory: u64::MAX,
        },
        variables: vec![("NORNS_REPORT", scratch.clone().into_os_string())],
        output: process::Output::Ours,
        keep_input: None,
    }
    .run();
    let text = fs::read(&scratch).unwrap_or_default();
    let _ = fs::remove_file(&scratch);
    let ended = ended?;
    eprintln!("norns: the program {}", ended.describe());
    let report = Report::parse(&String::from_utf8_lossy(&text));
    let mut symbols = Symboliser::new([report.maps.as_str()]);
    for race in &report.races {
        let mut finding = describe::race(race, &mut symbols);
        finding.verdict = Some(Verdict::Confirmed("the race detector saw it".into()));
        describe::add(&mut all, finding);
    }
    let sources = |file: &str| runs::source(&folder, file);
    fingerprint::name_findings(&mut all.findings, &sources);
    if let Some(path) = &arguments.suppressions {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let rules = suppression::parse(&text)
            .map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?;
        suppression::apply(&mut all.findings, &rules);
    }
    match arguments.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&all)?),
        Format::Text => eprint!("{}", terminal::list(&all, show::style())),
    }
    Ok(if all.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::FOUND)
    })
}
