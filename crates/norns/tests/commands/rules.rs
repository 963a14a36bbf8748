//! `norns check --aspect --property` on the programs of tests/rules: each folder has an aspect file, a
//! property, a program that can break it and one that cannot.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::tools::need;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rules")
}

/// A fresh folder for a test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rules-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn norns(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(words)
        .current_dir(folder)
        .env("NORNS_CC", need("clang-19", "clang-19"))
        .output()
        .unwrap()
}

/// The status and the id of every finding, and the exit status.
fn check(folder: &Path, case: &Path, program: &str) -> (Vec<[String; 2]>, Option<i32>) {
    let path = |name: &str| case.join(name).display().to_string();
    let rules = if case.join("rules.csp").exists() {
        "rules.csp"
    } else {
        "rules.txt"
    };
    let (aspect, rules, source) = (path("api.aspect"), path(rules), path(program));
    let mut words = vec!["check", "--format", "json", "--kind", "order"];
    words.extend(["--aspect", &aspect, "--property", &rules, &source]);
    let output = norns(folder, &words);
    let error = String::from_utf8_lossy(&output.stderr);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let findings = all["findings"].as_array().unwrap().iter();
    let found = findings.map(|finding| {
        assert_eq!(finding["kind"], "order");
        let text = |field: &str| finding[field].as_str().unwrap().to_string();
        assert!(!text("rule").is_empty());
        ["status", "id"].map(text)
    });
    (found.collect(), output.status.code())
}

fn check_case(name: &str) {
    let (folder, case) = (scratch(name), cases().join(name));
    let (wrong, status) = check(&folder, &case, "wrong.c");
    let statuses: Vec<&str> = wrong.iter().map(|[status, _]| &status[..]).collect();
    assert_eq!(
        (&statuses[..], status),
        (&["confirmed"][..], Some(1)),
        "{name}"
    );
    let right = check(&folder, &case, "right.c");
    assert_eq!(right, (vec![], Some(0)), "{name}");
}

macro_rules! cases {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            check_case(stringify!($name));
        })*

        #[test]
        fn every_folder_is_tested() {
            let mut names: Vec<String> = fs::read_dir(cases())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

cases![
    atomicity,
    deadlock,
    file_api,
    race_detector,
    resources,
    rover_uplink,
    sqlite_api,
    words
];

#[test]
fn a_broken_rule_is_replayed() {
    let (folder, case) = (scratch("replay"), cases().join("words"));
    let (found, _) = check(&folder, &case, "wrong.c");
    let [_, id] = &found[0];
    let output = norns(&folder, &["replay", id, "--times", "3"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("happened 3 of 3 times"), "{text}");
}

#[test]
fn a_broken_rule_becomes_a_test_and_a_line_of_a_baseline() {
    let (folder, case) = (scratch("export"), cases().join("words"));
    for name in ["wrong.c", "api.aspect", "rules.txt"] {
        fs::copy(case.join(name), folder.join(name)).unwrap();
    }
    let (found, _) = check(&folder, &folder, "wrong.c");
    let [_, id] = &found[0];
    let output = norns(&folder, &["export-test", id, "-o", "kept"]);
    assert!(output.status.success());
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let script = folder.join(printed.lines().next().unwrap());
    let run = || {
        let program = Path::new(env!("CARGO_BIN_EXE_norns"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = program.parent().unwrap().to_path_buf();
        let folders = std::iter::once(own).chain(std::env::split_paths(&path));
        let status = Command::new(&script)
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("NORNS_CC", need("clang-19", "clang-19"))
            .status();
        status.unwrap().code()
    };
    assert_eq!(run(), Some(1));
    // With the program that keeps the rule the test passes.
    fs::copy(case.join("right.c"), folder.join("wrong.c")).unwrap();
    assert_eq!(run(), Some(0));
    fs::copy(case.join("wrong.c"), folder.join("wrong.c")).unwrap();
    let rules = [
        "--aspect",
        "api.aspect",
        "--property",
        "rules.txt",
        "wrong.c",
    ];
    let check = |words: &[&str]| norns(&folder, &[words, &rules].concat()).status.code();
    assert_eq!(check(&["check"]), Some(1));
    norns(&folder, &["baseline", "-o", "known.json"]);
    assert_eq!(check(&["check", "--baseline", "known.json"]), Some(0));
}

#[test]
fn mistakes_are_told_before_anything_is_run() {
    let folder = scratch("mistakes");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "p.c",
        "int helper(void) { return 0; }\nint main(void) { return helper(); }\n",
    );
    write("good.aspect", "a before call helper\n");
    write("bad.aspect", "a before cal helper\n");
    write("lost.aspect", "a before call helpre\n");
    write("good.txt", "never a then a\n");
    write("bad.txt", "never a then c\n");
    write(
        "bad.csp",
        "channel a : thread.thread\nassert a [T= PROGRAM\n",
    );
    let check = |aspect: &str, property: &str| {
        let words = ["check", "--aspect", aspect, "--property", property, "p.c"];
        let output = norns(&folder, &words);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (status, text) = check("bad.aspect", "good.txt");
    assert_eq!(status, Some(2));
    assert!(
        text.contains("bad.aspect:1:10: `cal` is none of call"),
        "{text}"
    );
    let (status, text) = check("good.aspect", "bad.txt");
    assert_eq!(status, Some(2));
    assert!(
        text.contains("bad.txt:1: no order of the aspect file emits `c`"),
        "{text}"
    );
    let (status, text) = check("good.aspect", "bad.csp");
    assert_eq!(status, Some(2));
    assert!(text.contains("bad.csp:"), "{text}");
    let (_, text) = check("lost.aspect", "good.txt");
    assert!(
        text.contains("found nothing in the program; there is `helper`"),
        "{text}"
    );
}

#[test]
fn events_that_a_built_program_does_not_have_are_told() {
    let folder = scratch("built");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "p.c",
        "#include <pthread.h>
void *helper(void *arg) { return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, helper, 0); return pthread_join(t, 0); }
",
    );
    write(
        "api.aspect",
        "begin before body helper\nlost before body helpre\n",
    );
    write("rules.txt", "never begin then lost\n");
    let check = || {
        let words = [
            "check",
            "--aspect",
            "api.aspect",
            "--property",
            "rules.txt",
            "--",
            "./p",
        ];
        let output = norns(&folder, &words);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(
        norns(&folder, &["cc", "-g", "p.c", "-o", "p", "-pthread"])
            .status
            .success()
    );
    let text = check();
    assert!(
        text.contains(
            "`begin before body helper` has no place in ./p; build it with NORNS_ASPECT=api.aspect"
        ),
        "{text}"
    );
    let built = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["cc", "-g", "p.c", "-o", "p", "-pthread"])
        .current_dir(&folder)
        .env("NORNS_CC", need("clang-19", "clang-19"))
        .env("NORNS_ASPECT", "api.aspect")
        .status();
    assert!(built.unwrap().success());
    let text = check();
    assert!(
        text.contains("`lost before body helpre` has no place in ./p; there is `helper`"),
        "{text}"
    );
    assert!(!text.contains("`begin before body helper`"), "{text}");
}

/// More events than any budget can look at: the check ends in time and says what it left out.
#[test]
fn a_million_events_a_second_are_cut() {
    let folder = scratch("many");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "p.c",
        "#include <pthread.h>
static volatile long counter;
void tick(void) { counter++; }
void *run(void *arg) { for (long i = 0; i < 1000000; i++) tick(); return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); run(0); return pthread_join(t, 0); }
",
    );
    write(
        "api.aspect",
        "tick before body tick\ntock after body tick\n",
    );
    write("rules.txt", "tick and tock alternate\n");
    let begin = std::time::Instant::now();
    let words = [
        "check", "--budget", "4", "--kind", "order", "--format", "json",
    ];
    let words = [
        &words[..],
        &["--aspect", "api.aspect", "--property", "rules.txt", "p.c"],
    ]
    .concat();
    let output = norns(&folder, &words);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = all["findings"].as_array().unwrap().len();
    let left_out = all["not_analysed"].as_array().unwrap().len();
    assert!(found + left_out > 0, "{all}");
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
}

/// A compiler that fails with the plug-in.
#[test]
fn a_file_is_compiled_without_its_sites_when_the_plugin_fails() {
    let folder = scratch("plugin-fails");
    let clang = need("clang-19", "clang-19");
    let compiler = folder.join("clang-without");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *-fpass-plugin*) echo 'it cannot be loaded' >&2; exit 1 ;; esac\n\
         exec {clang} \"$@\"\n"
    );
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let case = cases().join("words");
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["check", "--kind", "order"])
        .args(["--aspect", "api.aspect", "--property", "rules.txt"])
        .arg("wrong.c")
        .current_dir(case)
        .env("NORNS_CC", &compiler)
        .env("NORNS_RUNS", &folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("compiled without its sites, since the plug-in failed: it cannot be loaded"),
        "{text}"
    );
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("the run has no event"), "{told}");
}

#[test]
fn gcc_is_refused_with_one_sentence() {
    let folder = scratch("gcc");
    let case = cases().join("words");
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args([
            "check",
            "--aspect",
            "api.aspect",
            "--property",
            "rules.txt",
            "wrong.c",
        ])
        .current_dir(case)
        .env("NORNS_CC", need("gcc", "gcc"))
        .env("NORNS_RUNS", &folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text.contains("need clang, and NORNS_CC names gcc"),
        "{text}"
    );
}
