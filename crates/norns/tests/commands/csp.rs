//! `norns csp`: what its options do, and its exit codes. What the verdicts are is tested in
//! `norns-csp`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const SCRIPT: &str = "channel a, b
P(n) = if n == 100000 then b -> P(0) else a -> P(n + 1)
Q = a -> STOP [] b -> STOP
assert Q :[divergence free]
assert P(0) :[deadlock free]
assert STOP [T= Q
assert Q [T= Q(1)
";

/// Runs `norns csp check` on the first `lines` lines of the script.
fn check(name: &str, lines: usize, options: &[&str]) -> Output {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("csp");
    fs::create_dir_all(&folder).unwrap();
    let text: Vec<&str> = SCRIPT.lines().take(lines).collect();
    fs::write(folder.join(name), text.join("\n")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["csp", "check", name])
        .args(options)
        .current_dir(&folder)
        .output()
        .unwrap()
}

#[test]
fn the_exit_code_tells_the_worst_verdict() {
    for (lines, options, code) in [
        (5, &[][..], 0),
        (6, &[], 1),
        (6, &["--line", "5", "--states", "1000"], 3),
        (6, &["--line", "3"], 2),
        (7, &[], 2),
        (5, &["--time", "-1"], 2),
        (5, &["--time=nan"], 2),
        (5, &["--time", "1e19"], 0),
        (5, &["--memory", "18446744073709551615"], 0),
    ] {
        let output = check("codes.csp", lines, options);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}\n{said}");
    }
}

#[test]
fn a_line_without_an_assertion_is_named() {
    let output = check("lines.csp", 6, &["--line", "4", "--line", "3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no assertion begins on line 3"), "{said}");
    let verdicts = String::from_utf8_lossy(&output.stdout);
    assert!(verdicts.starts_with("4: holds"), "{verdicts}");
}

#[test]
fn several_counterexamples_come_in_every_format() {
    let output = check(
        "formats.csp",
        6,
        &["--line", "6", "--all", "--format", "json"],
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = &found["assertions"][0];
    assert_eq!(of["verdict"], "fails");
    assert_eq!(of["details"]["shortest"], true);
    assert_eq!(of["more"].as_array().unwrap().len(), 1);
    let output = check(
        "formats.csp",
        6,
        &["--line", "6", "--count", "2", "--format", "html"],
    );
    let page = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        page.matches("the specification allows nothing here")
            .count(),
        2,
        "{page}"
    );
}
