//! Runs belong to the project in which they were made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn norns(folder: &Path, state: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(words)
        .current_dir(folder)
        .env("XDG_STATE_HOME", state)
        .env_remove("NORNS_RUNS")
        .env("SECRET_TOKEN", "hunter2")
        .stdin(Stdio::null())
        .output()
        .expect("norns runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_run_is_kept_in_its_project_and_found_elsewhere_only_when_asked_for() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runs");
    let _ = fs::remove_dir_all(&folder);
    let [inside, outside, state] =
        ["project/below", "other", "state"].map(|name| folder.join(name));
    for folder in [&inside, &outside, &state] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(folder.join("project/norns.toml"), "").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join("tests/programs/race/lost_update.c");
    let source = source.to_str().unwrap();

    let checked = norns(&inside, &state, &["check", "--runs", "1", source]);
    assert_eq!(checked.status.code(), Some(1), "{}", said(&checked));
    let kept = folder.join("project/.norns");
    assert_eq!(fs::read_to_string(kept.join(".gitignore")).unwrap(), "*\n");
    let ids = said(&norns(&inside, &state, &["runs", "ids"]));
    let id = ids.lines().next().expect("a finding").to_owned();
    let listed = said(&norns(&inside, &state, &["runs"]));
    for part in ["UTC", "lost_update.c", inside.to_str().unwrap()] {
        assert!(listed.contains(part), "{listed}");
    }

    assert_eq!(said(&norns(&outside, &state, &["runs"])), "");
    let refused = norns(&outside, &state, &["show", &id]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        said(&refused).contains("--everywhere"),
        "{}",
        said(&refused)
    );
    assert!(!outside.join(".norns").exists());
    let shown = norns(&outside, &state, &["show", "--everywhere", &id]);
    assert!(shown.status.success(), "{}", said(&shown));
    let everything = said(&norns(&outside, &state, &["runs", "--everywhere"]));
    assert_eq!(everything, listed);

    let printed = Command::new("grep")
        .args(["-raq", "hunter2"])
        .arg(&kept)
        .status()
        .unwrap();
    assert_eq!(
        printed.code(),
        Some(1),
        "a value of the environment was kept"
    );
    let trace: PathBuf = kept.join("1/trace.norns");
    let header = said(&norns(
        &inside,
        &state,
        &["trace", "print", trace.to_str().unwrap()],
    ));
    assert!(header.contains("SECRET_TOKEN") && !header.contains("hunter2"));
}
