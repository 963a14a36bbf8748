//! Runs `norns check` over every program of tests/programs and compares what it confirms with
//! what the program's lines expect.
//!
//! `// finds: KIND [ACCESS]` on a line: a confirmed finding of this kind has a place there, with
//! this access if one is named. Every place of a confirmed finding must be on such a line. Lines
//! with `// spins` belong to a spin loop: something is reported there, but not as confirmed.
//! `// in the witness` is a line that the schedule of every confirmed finding has: without it the
//! program cannot follow, so the first witness was refined.
//! `// may find: KIND` is allowed to be found: not every run executes it, and the program says why.
//! `// all refuted` anywhere in a program: nothing is left that is only predicted.
//! `NORNS_TEST_PROGRAMS` limits the test to the programs whose path contains its value.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

/// The folders whose programs say what must be found; others belong to other tests.
const FOLDERS: [&str; 5] = ["deadlock", "no_deadlock", "no_race", "race", "spin_loop"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn programs() -> Vec<PathBuf> {
    let only = std::env::var("NORNS_TEST_PROGRAMS").unwrap_or_default();
    let mut found = Vec::new();
    for folder in FOLDERS {
        let folder = root().join("tests/programs").join(folder);
        for file in fs::read_dir(folder).expect("a folder of programs") {
            let path = file.expect("a readable folder").path();
            if path.to_string_lossy().contains(&only) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

struct Expected {
    /// Line to kind and access.
    finds: BTreeMap<u64, (String, Option<String>)>,
    /// As `finds`, for lines that not every run executes.
    may_find: BTreeMap<u64, String>,
    spins: BTreeSet<u64>,
    in_witness: BTreeSet<u64>,
    all_refuted: bool,
}

fn expected(program: &Path) -> Expected {
    let text = fs::read_to_string(program).expect("a readable program");
    let mut finds = BTreeMap::new();
    let mut may_find = BTreeMap::new();
    let mut spins = BTreeSet::new();
    let mut in_witness = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some((_, what)) = line.split_once("// finds: ") {
            let mut words = what.split_whitespace().map(str::to_string);
            let kind = words.next().expect("a kind after `finds:`");
            finds.insert(number, (kind, words.next()));
        }
        if let Some((_, what)) = line.split_once("// may find: ") {
            let kind = what.split_whitespace().next();
            may_find.insert(number, kind.expect("a kind after `may find:`").to_string());
        }
        if line.contains("// spins") {
            spins.insert(number);
        }
        if line.contains("// in the witness") {
            in_witness.insert(number);
        }
    }
    Expected {
        finds,
        may_find,
        spins,
        in_witness,
        all_refuted: text.contains("// all refuted"),
    }
}

/// What is wrong with the findings of one program; empty when nothing is.
fn problems(program: &Path, compiler: &str, more: &[String], runs: &Path) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["check", "--format", "json"])
        .args(more)
        .arg(program)
        .env("NORNS_CC", compiler)
        .env("NORNS_RUNS", runs)
        .stdin(Stdio::null())
        .output()
        .expect("norns runs");
    let Ok(found) = serde_json::from_slice::<Value>(&output.stdout) else {
        return vec![format!(
            "no findings; {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )];
    };
    let expected = expected(program);
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let mut spun = BTreeSet::new();
    for finding in found["findings"].as_array().into_iter().flatten() {
        let kind = finding["kind"].as_str().unwrap_or_default();
        if finding["status"] == "predicted" && expected.all_refuted {
            problems.push(format!("{kind} still predicted: {}", finding["places"]));
        }
        if finding["status"] == "confirmed" {
            let steps = finding["witness"].as_array().into_iter().flatten();
            let steps: BTreeSet<u64> = steps.filter_map(|step| step["line"].as_u64()).collect();
            for line in expected.in_witness.difference(&steps) {
                problems.push(format!("line {line} is not in the witness"));
            }
        }
        for place in finding["places"].as_array().into_iter().flatten() {
            let line = place["line"].as_u64().unwrap_or(0);
            if finding["status"] == "ordered-by-spin-loop" {
                spun.insert(line);
            }
            if finding["status"] != "confirmed" {
                continue;
            }
            match expected.finds.get(&line) {
                Some((wanted, access)) if wanted == kind => {
                    if access
                        .as_ref()
                        .is_none_or(|access| place["access"] == **access)
                    {
                        seen.insert(line);
                    }
                }
                _ if expected.may_find.get(&line).is_some_and(|may| may == kind) => {}
                _ => problems.push(format!("{kind} confirmed at line {line}")),
            }
        }
    }
    for (line, (kind, _)) in &expected.finds {
        if !seen.contains(line) {
            problems.push(format!("no {kind} confirmed at line {line}"));
        }
    }
    for line in expected.spins.difference(&spun) {
        problems.push(format!("no spin loop seen at line {line}"));
    }
    let status = output.status.code();
    let wanted = i32::from(!expected.finds.is_empty());
    if status != Some(wanted) && expected.may_find.is_empty() {
        problems.push(format!("exit status {status:?} instead of {wanted}"));
    }
    problems
}

#[test]
fn every_program_shows_what_its_lines_say() {
    let runs = std::env::temp_dir().join(format!("norns-test-{}", std::process::id()));
    // Every program with gcc, every third with clang, every third recorded with random delays, and
    // every fourth with values (all with `NORNS_TEST_VALUES`); `bench/schedules` does the delays
    // twenty times for each.
    let all_values = std::env::var_os("NORNS_TEST_VALUES").is_some();
    let mut jobs: Vec<(PathBuf, &str, Vec<String>)> = Vec::new();
    for (number, program) in (0..).zip(programs()) {
        if number % 3 == 0 && has("clang-19") {
            jobs.push((program.clone(), "clang-19", Vec::new()));
        }
        if number % 3 == 1 {
            jobs.push((program.clone(), "gcc", vec![format!("--seed={number}")]));
        }
        if number % 4 == 1 || all_values {
            jobs.push((program.clone(), "gcc", vec!["--values".into()]));
        }
        jobs.push((program, "gcc", Vec::new()));
    }
    let jobs = Mutex::new(jobs);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((program, compiler, more)) = jobs.lock().expect("no panic").pop()
                    else {
                        return;
                    };
                    let problems = problems(&program, compiler, &more, &runs);
                    if !problems.is_empty() {
                        let name = program.strip_prefix(root()).unwrap_or(&program);
                        let text =
                            format!("{} ({compiler} {more:?}): {problems:?}", name.display());
                        failures.lock().expect("no panic").push(text);
                    }
                }
            });
        }
    });
    let _ = fs::remove_dir_all(&runs);
    let mut failures = failures.into_inner().expect("no panic");
    failures.sort();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
