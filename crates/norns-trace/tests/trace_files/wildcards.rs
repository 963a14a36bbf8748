//! No `match` over operations, or over what they do, has a wildcard arm: a new one would be
//! ignored in silence there.
//!
//! Works on lines, as rustfmt leaves them: the arms of a `match` begin at one indentation, and the
//! first line above with a smaller one is its head.

use std::fs;
use std::path::{Path, PathBuf};

/// The enums of the tables in `norns_trace::{event, effect}`.
const ENUMS: [&str; 10] = [
    "Op::",
    "Effect::",
    "OnThread::",
    "OnLock::",
    "OnOnce::",
    "OnCondition::",
    "OnBarrier::",
    "OnSemaphore::",
    "TouchKind::",
    "Handoff::",
];

/// The numbers of the lines with a wildcard arm over one of the enums.
fn wildcards(source: &str) -> Vec<usize> {
    let lines: Vec<&str> = source.lines().collect();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let names_an_enum = |line: &str| {
        let pattern = line.trim_start_matches(['|', ' ', '(']);
        let pattern = pattern.strip_prefix("Some(").unwrap_or(pattern);
        ENUMS.iter().any(|name| pattern.starts_with(name))
    };
    let is_wildcard = |line: &str| {
        let Some((pattern, _)) = line.trim_start().split_once(" =>") else {
            return false;
        };
        let name = pattern.split(" if ").next().unwrap_or_default();
        name.starts_with(|c: char| c == '_' || c.is_lowercase())
            && name.chars().all(|c| c == '_' || c.is_alphanumeric())
    };
    let found = (0..lines.len()).filter(|&at| {
        let arms = lines[..at].iter().rev().filter(|line| !line.is_empty());
        let mut arms = arms.take_while(|line| indentation(line) >= indentation(lines[at]));
        is_wildcard(lines[at])
            && arms.any(|line| indentation(line) == indentation(lines[at]) && names_an_enum(line))
    });
    found.map(|at| at + 1).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be listed") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_wildcard_arm_is_seen() {
    let source = "
        match event.op {
            Op::Lock(lock) => {
                match lock.0 {
                    0 => {}
                    _ => {}
                }
            }
            Op::Start
            | Op::End => {}
            other if true => {}
        }
        match number {
            0 => Op::Start,
            _ => Op::End,
        }";
    assert_eq!(wildcards(source), [11]);
}

#[test]
fn operations_are_matched_without_wildcards() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("the folder can be listed") {
        let folder = entry.expect("the folder can be listed").path();
        // The effects of norns-scan and the operations of norns-interpret are other types.
        let is_other = folder.ends_with("norns-scan") || folder.ends_with("norns-interpret");
        let folder = folder.join("src");
        if folder.is_dir() && !is_other {
            sources(&folder, &mut files);
        }
    }
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let source = fs::read_to_string(file).expect("a source is text");
            let lines = wildcards(&source).into_iter();
            lines.map(move |line| format!("{}:{line}", file.display()))
        })
        .collect();
    assert_eq!(found, [""; 0]);
}
