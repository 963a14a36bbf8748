//! `norns sketch --track`: by watchpoints and sites, by sites alone, and from runs that were made elsewhere.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use norns_sketch::tracking::{End, Means, Next, Plan, Report, Trackable, Tracking};
use norns_sketch::{Signs, Slice};
use norns_trace::lines::Lines;
use norns_trace::{Trace, read_observations, read_observations_of};
use norns_wire::environment;
use norns_wire::tracking::Target;
use serde_json::Value;

use crate::sketch::{TRACKED, folder, json, marked, norns, sketch};

/// The best predictor is the order at the lines of the cause. On a busy machine a trap can come so late that a run
/// shows the other order, so nothing is said of how well it predicts.
fn check(found: &Value, source: &str) {
    let best = &found["predictors"][0];
    let places = best["places"].as_array().unwrap();
    let lines: Vec<u64> = { places.iter() }
        .map(|place| place["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, marked(source, "cause"), "{found:#}");
    assert_eq!(found["proof"], Value::Null);
}

#[test]
fn tracking_names_the_cause_of_an_ordinary_program() {
    let (status, found) = sketch("tracked", TRACKED, &["--track", "--runs", "400"]);
    assert_eq!(status, Some(1));
    assert_eq!(found["failure"]["place"]["line"], 10, "{found:#}");
    check(&found, TRACKED);
    assert_eq!(found["predictors"][0]["pattern"], "WR");
    let notes = found["notes"].to_string();
    assert!(notes.contains("were tracked"), "{notes}");
}

/// What decides is on the stack, which is never watched: the branch shows it.
#[test]
fn a_branch_that_only_failing_runs_take() {
    let source = "#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    int size = getpid() / 2 % 2;
    puts(\"begins\");
    if (size == 0)
        abort(); // cause (1)
    puts(\"ends\");
    return 0;
}
";
    let (status, found) = sketch("tracked-branch", source, &["--track", "--runs", "400"]);
    assert_eq!(status, Some(1));
    // The same for a program that its user has built.
    let folder = folder("tracked-built");
    fs::write(folder.join("program.c"), source).unwrap();
    let built = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(["cc", "-g", "-O1", "program.c", "-o", "program"])
        .env("NORNS_TRACK_SITES", "branches")
        .env("NORNS_BITCODE", "1")
        .current_dir(&folder)
        .status();
    assert!(built.unwrap().success());
    let words = [
        "sketch",
        "--track",
        "--runs",
        "400",
        "--format",
        "json",
        "--",
        "./program",
    ];
    let of_built = json(&norns(&folder, &words, ""));
    for found in [&found, &of_built] {
        is_branch(found, source);
    }
}

fn is_branch(found: &Value, source: &str) {
    let best = &found["predictors"][0];
    assert_eq!(
        (&best["kind"], &best["f"]),
        (&"branch".into(), &1.0.into()),
        "{found:#}"
    );
    let line = best["places"][0]["line"].as_u64().unwrap();
    assert_eq!(vec![line], marked(source, "cause"));
}

/// Makes the kernel refuse watchpoints to a command.
const REFUSE: &str = "#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words) {
    enum { PERF_EVENT_OPEN = 298 };
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PERF_EVENT_OPEN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 99;
    execv(words[1], words + 1);
    return 98;
}
";

fn gcc(folder: &Path, source: &str, program: &str) {
    fs::write(folder.join("source.c"), source).unwrap();
    let status = Command::new("gcc")
        .args(["-g", "-O1", "-pthread", "-o", program, "source.c"])
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn where_watchpoints_are_refused_sites_see_the_accesses() {
    let folder = folder("tracked-refused");
    gcc(&folder, REFUSE, "refuse");
    fs::write(folder.join("program.c"), TRACKED).unwrap();
    let words = [
        "sketch",
        "--track",
        "--runs",
        "400",
        "--format",
        "json",
        "program.c",
    ];
    let output = Command::new("./refuse")
        .arg(env!("CARGO_BIN_EXE_norns"))
        .args(words)
        .current_dir(&folder)
        .output()
        .unwrap();
    let found = json(&output);
    assert_eq!(output.status.code(), Some(1), "{found:#}");
    check(&found, TRACKED);
    let notes = found["notes"].to_string();
    assert!(notes.contains("refuses watchpoints (EPERM"), "{notes}");
    assert!(notes.contains("accesses were seen by sites"), "{notes}");
}

#[test]
fn a_program_without_sites_and_bitcode_is_said_to_be_one() {
    let folder = folder("tracked-plain");
    gcc(&folder, TRACKED, "program");
    let words = [
        "sketch",
        "--track",
        "--runs",
        "40",
        "--format",
        "json",
        "--",
        "./program",
    ];
    let output = norns(&folder, &words, "");
    let found = json(&output);
    assert_eq!(output.status.code(), Some(1), "{found:#}");
    let notes = found["notes"].to_string();
    assert!(notes.contains("the code could not be sliced"), "{notes}");
}

/// A failure that depends on two global variables.
const ELSEWHERE: &str = "#include <pthread.h>
#include <unistd.h>
static int value;
int *shared = &value;
int pauses[2];
static void *consumer(void *unused) {
    usleep(pauses[0]);
    int *used = shared; // cause (2)
    *used = 1;
    return unused;
}
int main(void) {
    pauses[getpid() / 2 % 2] = 300000;
    pthread_t thread;
    pthread_create(&thread, NULL, consumer, NULL);
    usleep(pauses[1] + 100000);
    shared = NULL; // cause (1)
    pthread_join(thread, NULL);
    return 0;
}
";

/// Runs the program under a plan as another machine would: with nothing but the runtime and two files.
fn report(folder: &Path, plan: u32, watches: &Plan) -> String {
    let (plan_file, observations) = (folder.join("plan"), folder.join("observations"));
    fs::write(&plan_file, watches.text()).unwrap();
    let _ = fs::remove_file(&observations);
    let runtime = Path::new(env!("CARGO_BIN_EXE_norns")).with_file_name("libnorns_rt.so");
    let ended = Command::new(folder.join("program"))
        .env(environment::MODE, environment::Mode::Track.word())
        .env(environment::TRACK, &plan_file)
        .env(environment::REPORT, &observations)
        .env("LD_PRELOAD", runtime)
        .status()
        .unwrap();
    let end = match ended.code() {
        Some(status) => End::Exited(status),
        None => End::Signalled(ended.signal().unwrap()),
    };
    let observations = fs::read_to_string(&observations).unwrap();
    Report::new(plan, end, String::new(), observations).text()
}

#[test]
fn runs_from_elsewhere_are_explained() {
    let (there, here) = (folder("elsewhere/there"), folder("elsewhere/here"));
    gcc(&there, ELSEWHERE, "program");
    let program = here.join("program");
    fs::copy(there.join("program"), &program).unwrap();
    let lines = Lines::of(&program).unwrap();
    let statement = |line: u32, variable: &str| Trackable {
        file: "source.c".into(),
        line,
        decides: false,
        memory: vec![vec![Target::Global {
            address: lines.variable(variable).unwrap(),
            size: 8,
        }]],
    };
    let statements = vec![statement(8, "shared"), statement(7, "pauses")];
    let slice = Slice {
        lines: vec![("source.c".into(), 8), ("source.c".into(), 7)],
    };
    let means = Means {
        watchpoints: true,
        sites: false,
    };
    let mut tracking = Tracking::new(means, Signs::default());
    let mut reports: Vec<(u32, String)> = Vec::new();
    loop {
        match tracking.next_step() {
            Next::Enough => break,
            Next::Slice(failure) => {
                assert_eq!(failure.what, "was killed by SIGSEGV");
                tracking.slice(slice.clone(), statements.clone());
            }
            Next::Run { plan, watches } => {
                // A plan travels as text.
                let watches = Plan::parse(&watches.text()).unwrap();
                let text = report(&there, plan, &watches);
                let (plan, seen) = received(&text, &program);
                tracking.add(reports.len() as u32, plan, &seen);
                reports.push((plan, text));
                assert!(reports.len() < 400, "the search does not end");
            }
        }
    }
    let first = read_observations(&observations(&reports.last().unwrap().1)).unwrap();
    if first.refused.is_some() {
        return;
    }
    // The program there is needed no more.
    fs::remove_file(there.join("program")).unwrap();
    let traces: Vec<Trace> = { reports.iter() }
        .map(|(_, text)| received(text, &program).1.trace)
        .collect();
    let trace = |number: u32| Ok::<_, std::convert::Infallible>(traces[number as usize].clone());
    let (sketch, _) = tracking.explain(None, trace).unwrap();
    let best = &sketch.predictors[0];
    let at = |pc: &u64| {
        sketch
            .runs
            .iter()
            .find_map(|run| run.facts.statements.get(pc))
    };
    let of_best = best.statements();
    let found: Vec<u64> = { of_best.iter() }
        .map(|pc| u64::from(at(pc).unwrap().line))
        .collect();
    assert_eq!(found, marked(ELSEWHERE, "cause"));
    // The same reports give the same sketch.
    let mut again = Tracking::new(means, Signs::default());
    for (number, (plan, text)) in (0..).zip(&reports) {
        while let Next::Slice(_) = again.next_step() {
            again.slice(slice.clone(), statements.clone());
        }
        again.add(number, *plan, &received(text, &program).1);
    }
    let (second, _) = again.explain(None, trace).unwrap();
    assert_eq!(format!("{sketch:?}"), format!("{second:?}"));
}

fn received(text: &str, program: &Path) -> (u32, norns_sketch::Seen) {
    let report = Report::parse(text).unwrap();
    let observed = read_observations_of(&report.observations, program).unwrap();
    (report.plan, report.seen(observed.trace))
}

fn observations(text: &str) -> String {
    Report::parse(text).unwrap().observations
}
