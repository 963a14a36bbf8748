//! `norns trace` on real recordings: print and import, lines, rebuilt programs, killed programs, full disks.
//!
//! Needs the runtime beside the executable: `cargo build --workspace` in the same profile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use norns_trace::{Op, Trace, create_raw, info, read, read_recording};

use crate::tools::need;

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("trace-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn norns(folder: &Path, words: &str) -> Output {
    Command::new(NORNS)
        .current_dir(folder)
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

/// What it printed; it must succeed.
fn said(folder: &Path, words: &str) -> String {
    let output = norns(folder, words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "norns {words}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn build(folder: &Path, source: &str, words: &str) {
    fs::write(folder.join("app.cc"), source).unwrap();
    said(folder, &format!("c++ app.cc -o app -pthread {words}"));
}

const BANK: &str = r#"
#include <condition_variable>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>
static std::mutex lock;
static std::condition_variable changed;
static std::atomic<int> hits;
int balance[8];
struct Account {
    int number;
    void deposit(int by) { balance[number] += by; }
};
template <class T> inline void twice(Account &account, T by) {
    account.deposit(by);
    account.deposit(by);
}
static void work(int number) {
    for (int round = 0; round < 50; round++) {
        std::lock_guard<std::mutex> held(lock);
        Account account{number};
        twice(account, round);
        hits.fetch_add(1, std::memory_order_relaxed);
        changed.notify_all();
    }
}
int main() {
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; number++) threads.emplace_back(work, number);
    { std::unique_lock<std::mutex> held(lock); changed.wait(held, [] { return hits > 0; }); }
    for (auto &thread : threads) thread.join();
    return balance[0] & 1;
}
"#;

#[test]
fn a_recording_is_printed_imported_counted_and_exported() {
    let folder = folder("round");
    build(&folder, BANK, "-O2");
    said(&folder, "record -q -o run.norns -- ./app");
    let text = said(&folder, "trace print run.norns");
    fs::write(folder.join("run.text"), &text).unwrap();
    said(&folder, "trace import -o again.norns run.text");
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
    assert!(
        bytes("again.norns") == bytes("run.norns"),
        "import of print is the same file"
    );
    assert_eq!(said(&folder, "trace print again.norns"), text);

    let (recording, warnings) = read_recording(&folder.join("run.norns")).unwrap();
    assert_eq!(warnings, []);
    let trace = &recording.trace;
    let names: Vec<_> = trace
        .threads
        .iter()
        .map(|thread| thread.name.as_str())
        .collect();
    assert_eq!(names, ["T0", "T0.1", "T0.2", "T0.3"]);
    assert_eq!(recording.info(info::COMMAND).unwrap(), ["./app"]);
    let stats = said(&folder, "trace stats run.norns");
    let count = |op: fn(&Op) -> bool| trace.events.iter().filter(|event| op(&event.op)).count();
    let locks = count(|op| matches!(op, Op::Lock(_)));
    assert!(locks >= 150);
    let has = |name: &str, number: usize| {
        let line = stats
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap_or_default();
        assert_eq!(
            line.split_whitespace().last(),
            Some(number.to_string().as_str()),
            "{name}: {stats}"
        );
    };
    has("events ", trace.events.len());
    has("lock ", locks);

    // What the STD format can say of it can be read back, and has the same accesses.
    said(&folder, "trace export run.norns -o run.std");
    said(&folder, "trace import -o std.norns run.std");
    let (exported, warnings) = read(&folder.join("std.norns")).unwrap();
    assert_eq!(warnings, []);
    let accesses = |trace: &Trace| {
        trace
            .events
            .iter()
            .filter(|event| event.op.plain_access().is_some())
            .count()
    };
    assert!(accesses(&exported) >= accesses(trace));
    assert_eq!(
        said(&folder, "trace export std.norns"),
        fs::read_to_string(folder.join("run.std")).unwrap()
    );

    let wrong = norns(&folder, "trace print app.cc");
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&wrong.stderr),
        "error: app.cc is not a trace file\n"
    );
}

/// llvm-symbolizer is the judge, inlined frames too. (addr2line of binutils 2.40 gives wrong files for
/// version 5 of DWARF.)
#[test]
fn places_are_those_that_llvm_symbolizer_gives() {
    let judge = need("llvm-symbolizer-14", "llvm-14");
    let folder = folder("places");
    for words in ["-O0", "-O2", "-O2 -no-pie", "-O2 -gz", "-O1 -gdwarf-4"] {
        build(&folder, BANK, words);
        said(&folder, "record -q -o run.norns -- ./app");
        let (recording, _) = read_recording(&folder.join("run.norns")).unwrap();
        let modules = recording
            .info
            .iter()
            .filter(|info| info.key == info::MODULE);
        let number = |text: &String| u64::from_str_radix(text, 16).unwrap();
        let app: Vec<_> = modules
            .map(|info| &info.values)
            .filter(|values| values[3].ends_with("/app"))
            .collect();
        let start = app.iter().map(|values| number(&values[0])).min().unwrap();
        let end = app.iter().map(|values| number(&values[1])).max().unwrap();
        let bias = if words.contains("no-pie") { 0 } else { start };
        let mut places = recording.trace.places.clone();
        places.retain(|place| (start..end).contains(&place.pc));
        assert!(places.len() > 10, "{words}: {} places", places.len());
        let mut judge = Command::new(judge);
        judge
            .current_dir(&folder)
            .args(["--obj=app", "--inlines", "--functions=none"]);
        judge.args(
            places
                .iter()
                .map(|place| format!("{:#x}", place.pc - 1 - bias)),
        );
        let judged = String::from_utf8(judge.output().unwrap().stdout).unwrap();
        // A block of lines `file:line:column` a place, then an empty line.
        let blocks: Vec<Vec<&str>> = judged
            .trim_end()
            .split("\n\n")
            .map(|block| block.lines().collect())
            .collect();
        assert_eq!(blocks.len(), places.len());
        for (place, block) in places.iter().zip(&blocks) {
            let frames = place.frames.iter();
            let ours: Vec<String> = frames
                .map(|at| format!("{}:{}:{}", at.file, at.line, at.column))
                .collect();
            assert_eq!(&ours, block, "{words}: at {:#x}", place.pc);
        }
    }
}

#[test]
fn a_program_rebuilt_since_the_recording_is_said() {
    let folder = folder("rebuilt");
    build(&folder, BANK, "-O1");
    said(&folder, "record -q -o run.norns -- ./app");
    let before = said(&folder, "trace print run.norns");
    let warned = |what: &str| {
        let output = norns(&folder, "trace stats run.norns");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{what}: {errors}");
        errors.contains("/app has changed since the recording")
    };
    assert!(!warned("not rebuilt"));
    build(&folder, &format!("\n\n{BANK}"), "-O1");
    assert!(warned("rebuilt"));
    // The lines are still those of the recorded program.
    assert_eq!(said(&folder, "trace print run.norns"), before);
}

/// Threads that take two locks, endlessly.
const ENDLESS: &str = r#"
#include <pthread.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int shared[1024];
static void *work(void *argument) {
    for (unsigned round = 0;; round++) {
        pthread_mutex_lock(&a);
        shared[round % 1024]++;
        pthread_mutex_lock(&b);
        shared[round * 7 % 1024]++;
        pthread_mutex_unlock(&b);
        pthread_mutex_unlock(&a);
    }
    return argument;
}
int main() {
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], 0, work, 0);
    pthread_join(thread[0], 0);
}
"#;

/// Mutual exclusion and program order of locks hold in what is left.
fn assert_consistent(trace: &Trace, what: &str) {
    let mut owners = std::collections::BTreeMap::new();
    for (index, event) in trace.events.iter().enumerate() {
        match event.op {
            Op::Lock(lock) => {
                let before = owners.insert(lock, event.thread);
                assert_eq!(before, None, "{what}: event {index}");
            }
            Op::Unlock(lock) => assert_eq!(
                owners.remove(&lock),
                Some(event.thread),
                "{what}: event {index}"
            ),
            _ => {}
        }
    }
}

#[test]
fn a_program_killed_at_any_moment_leaves_a_trace() {
    let folder = folder("killed");
    build(&folder, ENDLESS, "-O1");
    let path = folder.join("run.norns");
    for size in [0, 1, 20_000, 300_000, 1_000_000] {
        create_raw(&path, &[]).unwrap();
        let begin = fs::metadata(&path).unwrap().len();
        let mut child = Command::new(folder.join("app"))
            .env("NORNS_MODE", "record")
            .env("NORNS_TRACE", &path)
            .spawn()
            .unwrap();
        while fs::metadata(&path).unwrap().len() < begin + size {
            std::thread::yield_now();
            assert!(
                child.try_wait().unwrap().is_none(),
                "the program goes on until it is killed"
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (trace, _) = read(&path).unwrap();
        assert_consistent(&trace, &format!("{size} bytes"));
        if size > 1 {
            assert!(
                trace.events.len() as u64 > size / 16,
                "{size} bytes: {} events",
                trace.events.len()
            );
        }
        let warnings = norns_trace::finish(&path).unwrap();
        let (finished, _) = read(&path).unwrap();
        assert_eq!(finished, trace, "{size} bytes, {warnings:?}");
    }
}

/// On a file system of its own that is soon full: the program goes on, the trace is shorter.
#[test]
fn a_full_disk_makes_a_shorter_trace() {
    let folder = folder("full");
    let source = ENDLESS.replace(
        "for (unsigned round = 0;; round++)",
        "for (unsigned round = 0; round < 200000; round++)",
    );
    build(
        &folder,
        &source.replace(
            "pthread_join(thread[0], 0);",
            "for (int i = 0; i < 3; i++) pthread_join(thread[i], 0);",
        ),
        "-O1",
    );
    fs::create_dir(folder.join("small")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=2500k none small || exit 99\n\
         '{NORNS}' record -o small/run.norns -- ./app 2>record.err; echo $? >status\n\
         '{NORNS}' trace print small/run.norns >print.text 2>print.err; echo $? >>status\n"
    );
    let output = Command::new("unshare")
        .current_dir(&folder)
        .args(["--mount", "--map-root-user", "sh", "-c", &script])
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cannot mount a small file system in a namespace of its own: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let status = text("status");
    let printed = status.lines().nth(1);
    assert_eq!(
        printed,
        Some("0"),
        "{} {}",
        text("record.err"),
        text("print.err")
    );
    let events = text("print.text")
        .lines()
        .filter(|line| line.starts_with("T0"))
        .count();
    assert!(events > 10_000, "{events} events; {}", text("print.err"));
    let noticed = text("record.err") + &text("print.err");
    assert!(
        noticed.contains("missing")
            || noticed.contains("cannot write")
            || noticed.contains("space"),
        "{noticed}"
    );
}
