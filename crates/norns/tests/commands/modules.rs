//! Libraries that a program loads while it runs, and that lie elsewhere in replays.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

const LIBRARY: &str = "
static int shared;
void touch(void) {
    shared++; // the race
}
";

/// The lock orders the two calls in the recorded run. Replays have more memory mapped by then, so that the
/// library lies below that.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*touch)(void);

static void *early(void *unused) {
    touch();
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *late(void *unused) {
    for (volatile int i = 0; i < 30000000; i++) {}
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    touch();
    return unused;
}

int main(void) {
    if (getenv("NORNS_SCHEDULE")) {
        mmap(0, 1 << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    touch = (void (*)(void))dlsym(dlopen("./libtouch.so", RTLD_NOW), "touch");
    pthread_t one, other;
    pthread_create(&one, 0, early, 0);
    pthread_create(&other, 0, late, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return 0;
}
"#;

fn run(folder: &PathBuf, words: &[&str]) -> Output {
    Command::new(NORNS)
        .args(words)
        .env("NORNS_RUNS", folder.join("runs"))
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn a_race_in_a_library_that_lies_elsewhere_is_confirmed_by_a_replay() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("modules");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("library.c"), LIBRARY).unwrap();
    fs::write(folder.join("program.c"), PROGRAM).unwrap();
    let library = [
        "cc",
        "-g",
        "-O1",
        "-shared",
        "-fPIC",
        "library.c",
        "-o",
        "libtouch.so",
    ];
    let program = [
        "cc",
        "-g",
        "-O1",
        "program.c",
        "-o",
        "program",
        "-pthread",
        "-ldl",
    ];
    assert!(run(&folder, &library).status.success());
    assert!(run(&folder, &program).status.success());
    let output = run(
        &folder,
        &[
            "check",
            "--runs",
            "1",
            "--format",
            "json",
            "--",
            "./program",
        ],
    );
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let [finding] = findings["findings"].as_array().unwrap().as_slice() else {
        panic!("one finding: {findings}");
    };
    assert_eq!(finding["status"], "confirmed", "{findings}");
    for place in finding["places"].as_array().unwrap() {
        assert_eq!(
            (&place["file"], &place["line"]),
            (&"library.c".into(), &4.into()),
            "{findings}"
        );
    }
    let id = finding["id"].as_str().unwrap();
    let again = run(&folder, &["replay", id]);
    assert!(
        again.status.success(),
        "{}",
        String::from_utf8_lossy(&again.stdout)
    );
}
