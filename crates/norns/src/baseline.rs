//! `norns baseline`: keeps what is known, so that `norns check --baseline` fails only on what is
//! new.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use norns_report::fingerprint::fingerprint;
use norns_report::kind::Group;
use norns_report::suppression::{Baseline, Known};
use norns_report::{Finding, Findings};

use crate::classify::ClassName;
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
    let known = findings.with_variants().map(|finding| Known {
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

/// Which confirmed findings make `check` fail.
#[derive(clap::Args)]
pub struct Counting {
    /// Ignore the findings of this file, which norns baseline has written
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Fail only on races of this class or a worse one, besides findings that are no races; implies
    /// --classify
    #[arg(long, value_name = "CLASS")]
    fail_on: Option<ClassName>,
    /// Fail only on the finding with this fingerprint (for the tests of norns export-test)
    #[arg(long, value_name = "FINGERPRINT", hide = true)]
    only: Option<String>,
}

impl Counting {
    /// The known findings; none without the option.
    pub fn read(&self) -> Result<Baseline> {
        let baseline = self.baseline.as_deref().map(read).transpose()?;
        Ok(baseline.unwrap_or_default())
    }

    /// Whether it depends on the classes of races what makes `check` fail.
    pub fn needs_classes(&self) -> bool {
        self.fail_on.is_some()
    }

    /// A race without a class does not fail a build that is to fail on a class.
    fn is_bad_enough(&self, finding: &Finding) -> bool {
        let Some(least) = self.fail_on else {
            return true;
        };
        // What only interpreted runs show is predicted, and fails no build.
        let shown = finding.consequence.as_ref();
        let shown = shown.filter(|found| found.evidence.predicted.is_none());
        let class = shown.map(|found| found.class);
        finding.kind.group() != Group::Race || class.is_some_and(|class| class <= least.class())
    }

    /// How many findings make `check` fail.
    pub fn count(&self, findings: &Findings, folder: &Path) -> usize {
        let counts = |finding: &&Finding| {
            let only = self.only.as_ref();
            finding.fails_alone()
                && self.is_bad_enough(finding)
                && only.is_none_or(|only| *only == print_of(finding, folder))
        };
        findings.with_variants().filter(counts).count()
    }
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

/// The fingerprint of a finding of a run in `folder`.
pub fn print_of(finding: &Finding, folder: &Path) -> String {
    fingerprint(finding.kind, &finding.places, &|file| {
        runs::source(folder, file)
    })
}

/// A description for whoever reads the file: the kind and the functions.
pub fn what(finding: &Finding) -> String {
    let places: Vec<String> = finding
        .places
        .iter()
        .map(|place| format!("{} in {}", place.function, place.file))
        .collect();
    format!("{}: {}", finding.kind.definition().words, places.join(", "))
}
