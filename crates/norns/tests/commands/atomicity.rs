//! `norns check --atomicity` on the programs of tests/atomicity: what the first line of each says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The statuses and the functions of the steps that are not atomic.
fn check(program: &Path, folder: &Path) -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["check", "--atomicity", "--format", "json"])
        .arg(program)
        .current_dir(folder)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let findings = all["findings"].as_array().unwrap().iter();
    let found = findings.map(|finding| {
        assert_eq!(finding["kind"], "atomicity", "{program:?}: {finding}");
        let region = finding["region"].as_str().unwrap();
        let function = region.split('`').nth(1).unwrap();
        let status = finding["status"].as_str().unwrap();
        (status.to_string(), function.to_string())
    });
    found.collect()
}

#[test]
fn steps_that_are_not_atomic() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("atomicity");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let programs = fs::read_dir(root().join("tests/atomicity")).unwrap();
    let mut programs: Vec<PathBuf> = programs.map(|entry| entry.unwrap().path()).collect();
    programs.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    programs.sort();
    assert_eq!(programs.len(), 10);
    for program in programs {
        let text = fs::read_to_string(&program).unwrap();
        let first = text.lines().next().unwrap();
        let expected = match first
            .strip_prefix("// ")
            .and_then(|rest| rest.split_once(": "))
        {
            Some((status, function)) => vec![(status.to_string(), function.to_string())],
            None => Vec::new(),
        };
        let mut found = check(&program, &folder);
        if let [(status, _)] = &expected[..]
            && status == "found"
        {
            for (status, _) in &mut found {
                *status = "found".into();
            }
        }
        assert_eq!(found, expected, "{program:?}");
    }
}
