//! Runs `norns check` over the programs of tests/programs and compares what it confirms with the
//! expectations on their lines (`expectation.rs` has the notation).
//!
//! Every program is a test of its own for each configuration:
//!
//! ```text
//! cargo test --release -p norns --test programs -- race/lost_update
//! cargo test --release -p norns --test programs -- 'race/lost_update (gcc)' --exact
//! ```
//!
//! A program always runs as gcc compiles it, and in one of the three other configurations, which
//! a hash of its name decides, so that adding a program changes nothing for the others. The
//! remaining two are ignored tests: `--include-ignored` runs them too. `bench/schedules` records
//! each program under many seeds.

mod expectation;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

/// The folders whose programs `norns check` is held to; the others belong to other tests.
const FOLDERS: [&str; 6] = [
    "deadlock",
    "misuse",
    "no_deadlock",
    "no_race",
    "race",
    "spin_loop",
];

#[derive(Clone, Copy, PartialEq)]
enum Configuration {
    /// Compiled by gcc, recorded once without delays.
    Gcc,
    Clang,
    /// Recorded with random delays.
    Delays,
    /// Recorded with values, one thread at a time.
    Values,
}

use Configuration::{Clang, Delays, Gcc, Values};

impl Configuration {
    fn name(self) -> &'static str {
        match self {
            Gcc => "gcc",
            Clang => "clang",
            Delays => "delays",
            Values => "values",
        }
    }

    fn compiler(self) -> &'static str {
        match self {
            Clang => "clang-19",
            Gcc | Delays | Values => "gcc",
        }
    }

    /// The options of `norns check`, for a program whose name has this hash.
    fn options(self, hash: u64) -> Vec<String> {
        match self {
            Gcc | Clang => Vec::new(),
            Delays => vec![format!("--seed={}", hash % 1000)],
            Values => vec!["--values".into()],
        }
    }
}

/// FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Folder and name (`race/lost_update`) and path of every program, in alphabetical order.
fn programs() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let mut programs = Vec::new();
    for folder in FOLDERS {
        for file in fs::read_dir(root.join(folder)).expect("the folder is in the repository") {
            let path = file.expect("the folder is readable").path();
            let stem = path
                .file_stem()
                .expect("a file has a name")
                .to_string_lossy();
            programs.push((format!("{folder}/{stem}"), path));
        }
    }
    programs.sort();
    programs
}

fn check(program: &Path, name: &str, configuration: Configuration) -> Result<(), Failed> {
    let expected = expectation::read(program)?;
    let compiler = configuration.compiler();
    let runs = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("programs")
        .join(name.replace('/', "-") + "-" + configuration.name());
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["check", "--format", "json"])
        .args(configuration.options(hash(name)))
        .arg(program)
        .env("NORNS_CC", compiler)
        .env("NORNS_RUNS", &runs)
        .stdin(Stdio::null())
        .output()?;
    let _ = fs::remove_dir_all(&runs);
    let said = String::from_utf8_lossy(&output.stderr);
    let found: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("no findings; {}: {said}", output.status))?;
    let problems = expected.compare(&found, output.status.code());
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n").into()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (name, path) in programs() {
        let extra = [Clang, Delays, Values][(hash(&name) % 3) as usize];
        for configuration in [Gcc, Clang, Delays, Values] {
            let (program, path) = (name.clone(), path.clone());
            let trial = Trial::test(format!("{name} ({})", configuration.name()), move || {
                check(&path, &program, configuration)
            });
            let ignored = configuration != Gcc && configuration != extra;
            trials.push(trial.with_ignored_flag(ignored));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
