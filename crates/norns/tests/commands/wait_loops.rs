//! `norns check --wait-loops` on the programs of tests/wait_loops, which say on their lines what must be
//! found.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::tools::need;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wait-loops-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn norns(folder: &Path, words: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(words)
        .current_dir(folder)
        .env("NORNS_CC", need("clang-19", "clang-19"))
        .env("NORNS_CXX", need("clang++-19", "clang-19"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Line and kind of every misuse.
fn found(json: &str) -> BTreeSet<(usize, String)> {
    let all: Value = serde_json::from_str(json).unwrap();
    let findings = all["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| {
            assert_eq!(finding["status"], "predicted", "{finding}");
            let line = finding["places"][0]["line"].as_u64().unwrap() as usize;
            (line, finding["kind"].as_str().unwrap().to_string())
        })
        .collect()
}

fn check(name: &str, flag: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/wait_loops")
        .join(name);
    let text = fs::read_to_string(&source).unwrap();
    let expected = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let (_, kind) = line.split_once("// finds: ")?;
        Some((number, kind.to_string()))
    });
    let expected: BTreeSet<(usize, String)> = expected.collect();
    let source = source.display().to_string();
    let options = ["check", "--wait-loops", "--kind", "misuse", "--runs", "1"];
    let words = [&options[..], &["--format", "json", flag, &source]].concat();
    let folder = folder(&format!("{name}{flag}"));
    let (json, problems) = norns(&folder, &words);
    // The wait without its mutex is undefined, and another finding where it happens.
    let mut found = found(&json);
    found.retain(|(_, kind)| kind != "wait-not-locked" && kind != "unlock-not-locked");
    assert_eq!(found, expected, "{name} {flag}\n{problems}");
}

#[test]
fn right_waits_are_left_alone() {
    check("right.c", "--flag=-O0");
    check("right.c", "--flag=-O2");
    check("right.cpp", "--flag=-O1");
}

#[test]
fn wrong_waits_are_found() {
    check("wrong.c", "--flag=-O0");
    check("wrong.c", "--flag=-O2");
    check("wrong.cpp", "--flag=-O1");
}

/// A loop that never had to wait is in the trace; `norns-model/tests/model/wait_loops.rs` has what that means.
#[test]
fn a_loop_that_never_waited_is_recorded() {
    let folder = folder("order");
    let source = "#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready;
static void *worker(void *arg) {
    pthread_mutex_lock(&lock);
    while (!ready)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return arg;
}
int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&lock);
    pthread_create(&thread, 0, worker, 0);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    return 0;
}
";
    fs::write(folder.join("ready.c"), source).unwrap();
    let build = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["cc", "-g", "ready.c", "-o", "ready", "-pthread"])
        .current_dir(&folder)
        .env("NORNS_WAIT_LOOPS", "1")
        .env("NORNS_CC", need("clang-19", "clang-19"))
        .status()
        .unwrap();
    assert!(build.success());
    norns(&folder, &["record", "-o", "ready.norns", "--", "./ready"]);
    let (text, problems) = norns(&folder, &["trace", "print", "ready.norns"]);
    let waits = text.lines().any(|line| line.contains(" wait "));
    let exits = text.lines().filter(|line| line.contains(" loop-exit "));
    assert_eq!((exits.count(), waits), (1, false), "{text}\n{problems}");
}
