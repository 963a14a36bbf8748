//! `norns report`: the findings of a kept run as a page, or in another format.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use norns_report::fingerprint::fingerprint;
use norns_report::sarif::Entry;
use norns_report::{Findings, Sketch, ci, html, perfetto, sarif};

use crate::runs::{self, Run, Scope, Traces};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only the finding with this id, or this beginning of an id
    id: Option<String>,
    /// The number of the run; by default the latest with findings
    #[arg(long, value_name = "NUMBER")]
    run: Option<u64>,
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// Where to write; by default a file in the run's folder (HTML) or standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Html,
    Json,
    Sarif,
    Junit,
    Github,
    /// A Chrome trace of both schedules of one finding, for ui.perfetto.dev
    Perfetto,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let (run, mut findings) = match &arguments.id {
        Some(id) => {
            let (run, finding) = Run::with_finding(id, arguments.scope)?;
            let findings = Findings {
                findings: vec![finding],
                scan: None,
                ..run.findings()?
            };
            (run, findings)
        }
        None => {
            let run = Run::open(arguments.run)?;
            let findings = run.findings()?;
            (run, findings)
        }
    };
    findings.findings.sort_by_key(|finding| finding.status);
    let text = render(&run, &findings, arguments.format)?;
    let output = match arguments.output {
        Some(file) => Some(file),
        None if arguments.format == Format::Html => Some(run.path("report.html")),
        None => None,
    };
    let Some(file) = output else {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    };
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    println!("{}", file.display());
    if arguments.open {
        Command::new("xdg-open")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start xdg-open; open the page by hand")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(run: &Run, findings: &Findings, format: Format) -> Result<String> {
    let sketches = || -> Result<Vec<Sketch>> {
        let mut traces = Traces::default();
        findings
            .findings
            .iter()
            .map(|finding| run.sketch(finding, &mut traces))
            .collect()
    };
    let about = run.about()?;
    Ok(match format {
        Format::Html => html::page(&sketches()?, findings.scan.as_ref()),
        Format::Json => serde_json::to_string_pretty(findings)? + "\n",
        Format::Junit => ci::junit(findings, &about.command.join(" ")),
        Format::Github => ci::github(findings),
        Format::Perfetto => match &sketches()?[..] {
            [one] => serde_json::to_string(&perfetto::trace(one))? + "\n",
            all => bail!(
                "a Perfetto trace shows one finding, this run has {}: name it",
                all.len()
            ),
        },
        Format::Sarif => {
            let sketches = sketches()?;
            let sources = |file: &str| runs::source(&about.folder, file);
            let prints: Vec<String> = findings
                .findings
                .iter()
                .map(|finding| fingerprint(finding.kind, &finding.places, &sources))
                .collect();
            let entries: Vec<Entry> = sketches
                .iter()
                .zip(&prints)
                .zip(&findings.findings)
                .map(|((sketch, fingerprint), finding)| Entry {
                    sketch,
                    fingerprint,
                    known: finding.known,
                })
                .collect();
            let log = sarif::log(&entries, env!("CARGO_PKG_VERSION"));
            serde_json::to_string_pretty(&log)? + "\n"
        }
    })
}
