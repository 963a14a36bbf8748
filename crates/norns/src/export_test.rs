//! `norns export-test ID`: writes a finding as a regression test for the user to keep.
//!
//! The test fails while the bug is there and passes when it is fixed: it checks the program again
//! and looks for a confirmed finding with the same fingerprint, so that it survives rebuilds and
//! unrelated edits. The schedule that showed the bug is kept beside it, for the reader: it names
//! addresses of this build. So are the rules, if it breaks one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use norns_replay::schedule;
use norns_report::{Finding, Kind};

use crate::baseline;
use crate::check::rules::Rules;
use crate::check::witness::SavedWitness;
use crate::runs::{About, Run, Scope};
use crate::sketch::keep::SavedFailure;

#[derive(clap::Args)]
pub struct Arguments {
    /// The finding's id, or its beginning
    id: String,
    /// The folder to write to; made if it is not there
    #[arg(short, long, value_name = "FOLDER", default_value = "norns-tests")]
    output: PathBuf,
    #[command(flatten)]
    scope: Scope,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let (run, finding) = Run::with_finding(&arguments.id, arguments.scope)?;
    let about = run.about()?;
    let folder = &arguments.output;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let name = format!(
        "{}-{}",
        finding.kind.definition().words.replace(' ', "-"),
        finding.id
    );

    if finding.kind == Kind::Failure {
        return failure(&run, &finding, folder, &name);
    }
    let kept: SavedWitness = run.load(&format!("{}.witness.json", finding.id))?;
    let (trace, _) = norns_trace::read_understood(&run.path(&kept.trace))?;
    if let Some(witness) = kept.witness() {
        let schedule = schedule::of(&trace, &witness, kept.way());
        write(&folder.join(format!("{name}.schedule")), &schedule)?;
    }

    let mut rules = String::new();
    if finding.rule.is_some() {
        let (aspect, property) = Rules::texts(&run)?;
        for (option, text) in [("aspect", aspect), ("property", property)] {
            if !text.trim().is_empty() {
                let file = format!("{name}.{option}");
                write(&folder.join(&file), &text)?;
                rules += &format!("--{option} \"$here\"/{file} ");
            }
        }
    }
    let words = vec![
        "--only".to_string(),
        baseline::print_of(&finding, &about.folder),
    ];
    let script = format!(
        "#!/bin/sh\n# Fails while this bug is there: {}.\n# Made by norns export-test.\n{}cd {} && exec norns check {rules}{}\n",
        baseline::what(&finding).replace('\n', " "),
        match rules.is_empty() {
            true => "",
            false => "here=$(cd \"$(dirname \"$0\")\" && pwd)\n",
        },
        way_back(folder, &about.folder)?,
        with_program(words, &about)
    );
    finish(folder, &name, &script)
}

/// A test that runs the program until it fails, or often enough to say that it does not.
fn failure(run: &Run, finding: &Finding, folder: &Path, name: &str) -> Result<ExitCode> {
    let about = run.about()?;
    let saved: SavedFailure = run.load(&format!("{}.failure.json", finding.id))?;
    let mut words = vec![
        "norns".to_string(),
        "sketch".into(),
        "--proofs".into(),
        "0".into(),
    ];
    if saved.failing_exit {
        words.push("--failing-exit".into());
    }
    if let Some(text) = saved.failing_output {
        words.extend(["--failing-output".into(), text]);
    }
    let script = format!(
        "#!/bin/sh\n# Fails while the program does: {}.\n# Made by norns export-test.\ncd {} && exec {}\n",
        baseline::what(finding).replace('\n', " "),
        way_back(folder, &about.folder)?,
        with_program(words, &about)
    );
    finish(folder, name, &script)
}

/// Words of a shell command, then the sources or the program of the run.
fn with_program(mut words: Vec<String>, about: &About) -> String {
    // The command of a run from sources begins with the sources.
    let (sources, command) = about.command.split_at(about.sources.len());
    words.extend(sources.iter().cloned());
    if !command.is_empty() {
        words.push("--".into());
        words.extend(command.iter().cloned());
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// Writes the script and says how to use it.
fn finish(folder: &Path, name: &str, script: &str) -> Result<ExitCode> {
    let test = folder.join(format!("{name}.sh"));
    write(&test, script)?;
    fs::set_permissions(&test, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", test.display()))?;
    println!("{}", test.display());
    println!(
        "for CTest: add_test(NAME {name} COMMAND ${{CMAKE_SOURCE_DIR}}/{})",
        test.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// The folder of the run as seen from the test, as a word for the shell. A test that is kept
/// inside that folder finds it wherever the whole is moved to.
fn way_back(from: &Path, to: &Path) -> Result<String> {
    let from = fs::canonicalize(from).with_context(|| format!("cannot find {}", from.display()))?;
    let to = fs::canonicalize(to).with_context(|| format!("cannot find {}", to.display()))?;
    Ok(match from.strip_prefix(&to) {
        Ok(inside) => {
            let up = inside.components().map(|_| "/..").collect::<String>();
            format!("\"$(dirname \"$0\"){up}\"")
        }
        Err(_) => quoted(&to.display().to_string()),
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A word as the shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+,:@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
