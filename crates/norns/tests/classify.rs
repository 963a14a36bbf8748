//! Runs `norns check --classify` over the programs of tests/classify and compares the classes of their races
//! with what their lines say: `// class: CLASS` stands at an access of a race. Where a line has several races,
//! the worst class of them counts. Every program is a test of its own:
//!
//! ```text
//! cargo test --release -p norns --test classify -- lost_update
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

/// From the worst to the least.
const CLASSES: [&str; 4] = [
    "spec-violated",
    "output-differs",
    "single-ordering",
    "harmless",
];

/// The options of `norns check` in the first line of a program.
fn options(program: &Path) -> Result<Vec<String>, Failed> {
    let text = fs::read_to_string(program)?;
    let options = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("// options: "));
    let words = options.unwrap_or_default().split_whitespace();
    Ok(words.map(String::from).collect())
}

/// Whether the program says what memory models allow: norns-interpret's tests run it.
fn is_about_memory_models(program: &Path) -> bool {
    let text = fs::read_to_string(program).unwrap_or_default();
    let mut lines = text.lines();
    lines.any(|line| line.starts_with("// outputs ") || line.starts_with("// ends "))
}

/// The class of every line that has one.
fn expected(program: &Path) -> Result<BTreeMap<u64, String>, Failed> {
    let text = fs::read_to_string(program)?;
    let mut lines = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((_, class)) = line.split_once("// class: ") else {
            continue;
        };
        if !CLASSES.contains(&class) {
            return Err(format!("line {number}: {class} is no class").into());
        }
        lines.insert(number, class.to_string());
    }
    match lines.is_empty() {
        true => Err("no line has a class".into()),
        false => Ok(lines),
    }
}

/// The worst class of the races at each line.
fn found(answer: &Value) -> BTreeMap<u64, String> {
    let mut lines: BTreeMap<u64, String> = BTreeMap::new();
    let rank = |class: &str| CLASSES.iter().position(|known| *known == class);
    for finding in answer["findings"].as_array().into_iter().flatten() {
        let Some(class) = finding["consequence"]["class"].as_str() else {
            continue;
        };
        for place in finding["places"].as_array().into_iter().flatten() {
            let line = place["line"].as_u64().unwrap_or_default();
            let known = lines.entry(line).or_insert_with(|| class.to_string());
            if rank(class) < rank(known) {
                *known = class.to_string();
            }
        }
    }
    lines
}

fn check(program: &Path, name: &str) -> Result<(), Failed> {
    let expected = expected(program)?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("classify")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["check", "--classify", "--format", "json"])
        .args(options(program)?)
        .arg(program)
        .current_dir(&folder)
        .env("NORNS_CC", "gcc")
        .env("NORNS_RUNS", folder.join("runs"))
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("no findings; {}: {said}", output.status))?;
    let found = found(&answer);
    let mut problems = Vec::new();
    for (line, class) in &expected {
        match found.get(line) {
            Some(seen) if seen == class => {}
            Some(seen) => problems.push(format!("line {line}: {seen} instead of {class}")),
            None => problems.push(format!("line {line}: no race with a class")),
        }
    }
    match problems.is_empty() {
        true => {
            fs::remove_dir_all(&folder)?;
            Ok(())
        }
        false => {
            problems.push(answer["not_analysed"].to_string());
            Err(problems.join("\n").into())
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/classify");
    let mut trials = Vec::new();
    for file in fs::read_dir(root).expect("the folder is in the repository") {
        let path = file.expect("the folder is readable").path();
        let is_program = |path: &Path| {
            path.extension()
                .is_some_and(|end| end == "c" || end == "cpp")
        };
        if !is_program(&path) || is_about_memory_models(&path) {
            continue;
        }
        let name = path.file_stem().expect("a file has a name");
        let name = name.to_string_lossy().into_owned();
        trials.push(Trial::test(name.clone(), move || check(&path, &name)));
    }
    trials.sort_by(|one, other| one.name().cmp(other.name()));
    libtest_mimic::run(&arguments, trials).exit_code()
}
