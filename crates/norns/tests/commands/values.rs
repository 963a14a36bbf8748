//! `norns record --values`: values are exact, the seed decides the run, and a program behaves as it
//! does by itself.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use norns_trace::{Item, Op, Reader, info};

use crate::tools::compilers;

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs")
}

/// A folder of this test's own, removed when it passes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = env::temp_dir().join(format!("norns-values-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn compile(compiler: &str, flag: &str, source: &Path, program: &Path) {
    let (subcommand, variable, compiler) = if source.extension().is_some_and(|e| e == "cpp") {
        let compiler = compiler.replace("clang", "clang++").replace("gcc", "g++");
        ("c++", "NORNS_CXX", compiler)
    } else {
        ("cc", "NORNS_CC", compiler.to_string())
    };
    let output = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args([subcommand, "-g", flag, "-o"])
        .args([program, source])
        .args(["-lpthread", "-latomic"])
        .env(variable, compiler)
        .output()
        .expect("norns runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", source.display());
}

fn limited(seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &seconds.to_string()]);
    command
}

fn record(program: &Path, seed: u32, trace: &Path) -> Output {
    limited(60)
        .arg(env!("CARGO_BIN_EXE_norns"))
        .args(["record", "--quiet", "--values", "--seed", &seed.to_string()])
        .arg("-o")
        .arg(trace)
        .arg("--")
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs")
}

fn status(output: &Output) -> i32 {
    let signal = output.status.signal();
    output
        .status
        .code()
        .unwrap_or_else(|| 128 + signal.expect("no code means a signal"))
}

/// Everything but what is known about the run.
fn items(trace: &Path) -> Vec<Item> {
    let mut reader = Reader::open(trace).expect("a trace");
    let mut items = Vec::new();
    while let Some(item) = reader.next().expect("a readable trace") {
        if !matches!(item, Item::Info(_)) {
            items.push(item);
        }
    }
    items
}

fn counter(trace: &Path, name: &str) -> u64 {
    let mut reader = Reader::open(trace).expect("a trace");
    let mut found = 0;
    while let Some(item) = reader.next().expect("a readable trace") {
        if let Item::Info(info) = item
            && info.key == info::COUNTER
            && info.values[0] == name
        {
            found = info.values[1].parse().expect("a number");
        }
    }
    found
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn values_and_their_order_are_exact() {
    let folder = Folder::new("exact");
    for (compiler, _) in compilers() {
        for flag in ["-O0", "-O2"] {
            let program = folder.0.join("exact");
            let trace = folder.0.join("exact.norns");
            compile(compiler, flag, &programs().join("values/exact.c"), &program);
            for seed in 1..=2 {
                let output = record(&program, seed, &trace);
                let said = String::from_utf8_lossy(&output.stdout);
                let (place, told) = said.split_once('\n').expect("a first line");
                let (start, size) = place.split_once(' ').expect("start and size");
                let start = u64::from_str_radix(&start[2..], 16).expect("an address");
                let end = start + size.parse::<u64>().expect("a size");
                let mut seen = String::new();
                for item in items(&trace) {
                    let Item::Event(event, Some(value)) = item else {
                        continue;
                    };
                    let (what, access, bytes) = match event.op {
                        Op::Read(access) => ('R', access, value.read),
                        Op::Write(access) => ('W', access, value.written),
                        _ => continue,
                    };
                    if (start..end).contains(&access.address) {
                        let bytes = hexadecimal(&bytes);
                        let (address, size) = (access.address, access.size);
                        seen.push_str(&format!("{what} {address:#x} {size} {bytes}\n"));
                    }
                }
                let how = format!("{compiler} {flag} seed {seed}");
                let differs = told.lines().zip(seen.lines()).find(|(a, b)| a != b);
                assert_eq!(differs, None, "{how}");
                assert_eq!(told.lines().count(), seen.lines().count(), "{how}");
                assert_eq!(counter(&trace, "reads-that-differ"), 0, "{how}");
            }
        }
    }
}

/// The same program, as it is and recorded with some seeds: the traces, and how many of them differ.
fn check(name: &str, seeds: u32, same_seed_same_run: bool) -> usize {
    let folder = Folder::new(&name.replace('/', "-"));
    let program = folder.0.join("program");
    compile("gcc", "-O1", &programs().join(name), &program);
    let native = limited(60)
        .arg(&program)
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    let mut runs = BTreeSet::new();
    for seed in 1..=seeds {
        let trace = folder.0.join("a.norns");
        let output = record(&program, seed, &trace);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            status(&output),
            status(&native),
            "{name} seed {seed}: {said}"
        );
        let run = format!("{:?}", items(&trace));
        if same_seed_same_run {
            let again = folder.0.join("b.norns");
            record(&program, seed, &again);
            assert!(
                run == format!("{:?}", items(&again)),
                "{name} seed {seed} differs"
            );
        }
        runs.insert(run);
    }
    runs.len()
}

#[test]
fn a_seed_is_a_run() {
    let mut different = 0;
    for name in [
        "record/atomics.c",
        "record/c11_threads.c",
        "record/conditions.c",
        "record/counters.c",
        "record/exceptions.cpp",
        "record/mutex_kinds.c",
        "record/objects.c",
        "record/short_threads.c",
        "race/lost_update.c",
        "race/memset.c",
        "deadlock/philosophers.c",
        "no_race/semaphore.c",
        "no_race/barrier.c",
        "spin_loop/plain_flag.c",
        "spin_loop/with_yield.c",
    ] {
        different += usize::from(check(name, 3, true) > 1);
    }
    assert!(different >= 6, "other seeds give other runs: {different}");
}

#[test]
fn programs_end_as_they_do_by_themselves() {
    for name in [
        "record/cancelled.c",
        "record/crashes.c",
        "record/forks.c",
        "record/killed.c",
        "record/leaves_at_once.c",
        "record/signal_handlers.c",
        "values/blocks.c",
        "values/unforeseen.c",
    ] {
        check(name, 1, false);
    }
}

#[test]
fn a_thread_that_sleeps_where_nobody_foresaw_it_loses_its_turn() {
    let folder = Folder::new("unforeseen");
    let program = folder.0.join("program");
    let trace = folder.0.join("trace.norns");
    compile(
        "gcc",
        "-O1",
        &programs().join("values/unforeseen.c"),
        &program,
    );
    let output = record(&program, 1, &trace);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n");
    assert!(counter(&trace, "turns-taken-away") > 0);
}

/// What a command prints as JSON, and its status.
fn json(command: &mut Command) -> (serde_json::Value, i32) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_slice(&output.stdout);
    (
        value.unwrap_or_else(|_| panic!("no JSON: {said}")),
        status(&output),
    )
}

fn length(value: &serde_json::Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

/// A race that synchronisation allows and values forbid, in the runs of some seeds.
fn check_refuted(name: &str) {
    let folder = Folder::new(&name.replace('/', "-"));
    let program = folder.0.join("program");
    compile("gcc", "-O0", &programs().join(name), &program);
    let trace = folder.0.join("trace.norns");
    let predict = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_norns"));
        let command = command.args(["predict", "--format", "json"]).args(more);
        json(command.arg(&trace)).0
    };
    let seed = (1..60).find(|&seed| {
        record(&program, seed, &trace);
        length(&predict(&["--meaning", "optimistic"])["findings"]) > 0
    });
    let seed = seed.unwrap_or_else(|| panic!("{name}: no seed shows a candidate"));
    let auto = predict(&[]);
    assert_eq!(length(&auto["findings"]), 0, "{name}");
    assert!(length(&auto["refuted"]) > 0, "{name}");
    assert_eq!(
        length(&predict(&["--engine", "order"])["findings"]),
        0,
        "{name}"
    );
    let optimistic = ["--meaning", "optimistic", "--engine"];
    let engine = |engine| predict(&[&optimistic[..], &[engine]].concat())["findings"].clone();
    assert_eq!(length(&engine("csp")), length(&engine("exact")), "{name}");

    let (found, status) = json(
        limited(100)
            .arg(env!("CARGO_BIN_EXE_norns"))
            .args(["check", "--values", "--all", "--format", "json"])
            .args(["--seed", &seed.to_string(), "--"])
            .arg(&program)
            .env("NORNS_RUNS", folder.0.join("runs")),
    );
    assert_eq!(status, 0, "{name}");
    let findings = found["findings"].as_array().expect("findings");
    assert!(!findings.is_empty(), "{name}");
    for finding in findings {
        assert_eq!(finding["status"], "predicted", "{name}");
        assert!(
            finding["verdict"].to_string().contains("infeasible"),
            "{name}: {finding}"
        );
    }
    let replays = folder.0.join("runs/1/replays");
    let replays = fs::read_dir(&replays).map_or(0, Iterator::count);
    assert_eq!(replays, 0, "{name}: nothing is replayed");
}

#[test]
fn what_values_forbid_is_refuted_without_a_replay() {
    // Figure 5.9 of Carril (2017), and Figure 3 of Said et al. (2011).
    check_refuted("no_race/value_decides.c");
    check_refuted("no_race/value_under_lock.c");
}
