//! `norns baseline`: keeps what is known, so that `norns check --baseline` fails only on what is
//! new.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use norns_report::fingerprint::fingerprint;
use norns_report::suppression::{Baseline, Known};
use norns_report::{Finding, Findings, Status};

use crate::runs::{self, Run};

#[derive(clap::Args)]
pub struct Arguments {
    /// Where to write the baseline
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "norns-baseline.json"
    )]
    output: PathBuf,
    /// The number of the run; by default the latest with findings
    #[arg(long, value_name = "NUMBER")]
    run: Option<u64>,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let run = Run::open(arguments.run)?;
    let folder = run.about()?.folder;
    let findings = run.findings()?;
    let known = findings.findings.iter().map(|finding| Known {
        fingerprint: print_of(finding, &folder),
        what: what(finding),
    });
    let baseline = Baseline::new(known.collect());
    let text = serde_json::to_string_pretty(&baseline)? + "\n";
    let path = &arguments.output;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "{} known findings in {}",
        baseline.known.len(),
        path.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// The confirmed findings that the baseline, if there is one, does not know.
pub fn new_confirmed(findings: &Findings, file: Option<&Path>, folder: &Path) -> Result<usize> {
    let confirmed = findings
        .findings
        .iter()
        .filter(|f| f.status == Status::Confirmed);
    let Some(file) = file else {
        return Ok(confirmed.count());
    };
    let baseline = read(file)?;
    Ok(confirmed
        .filter(|finding| !baseline.knows(&print_of(finding, folder)))
        .count())
}

fn read(file: &Path) -> Result<Baseline> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let baseline: Baseline = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a baseline of norns", file.display()))?;
    if baseline.format != 1 {
        bail!(
            "{} has version {} of the baseline format; this norns reads version 1\n help: norns baseline -o {}",
            file.display(),
            baseline.format,
            file.display()
        );
    }
    Ok(baseline)
}

fn print_of(finding: &Finding, folder: &Path) -> String {
    fingerprint(finding.kind, &finding.places, &|file| {
        runs::source(folder, file)
    })
}

/// For the person who reads the file: the kind and the functions.
fn what(finding: &Finding) -> String {
    let places: Vec<String> = finding
        .places
        .iter()
        .map(|place| format!("{} in {}", place.function, place.file))
        .collect();
    format!("{}: {}", finding.kind.code().words, places.join(", "))
}
