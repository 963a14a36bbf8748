//! `norns check` of programs that it cannot see, or not all of: no clean bill by mistake. And the end
//! of a program whose threads still run is the same with Norns and without.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("unseen-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Checks a program whose `main` has this body: the exit status, and that each of the sentences is said.
fn check(name: &str, body: &str, words: &[&str], status: i32, said: &[&str]) {
    let words = [&["--runs", "1"], words].concat();
    check_runs(name, body, &words, status, said);
}

/// The same with as many recordings as `words` or the usual rules ask for.
fn check_runs(name: &str, body: &str, words: &[&str], status: i32, said: &[&str]) {
    let folder = folder(name);
    let source = format!(
        "#define _GNU_SOURCE\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
         static void *nothing(void *arg) {{ return arg; }}\n\
         static void thread(void) {{ pthread_t t; pthread_create(&t, 0, nothing, 0); pthread_join(t, 0); }}\n\
         int main(void) {{ {body} }}\n"
    );
    fs::write(folder.join("program.c"), source).unwrap();
    let output = Command::new(NORNS)
        .args(["check", "program.c"])
        .args(words)
        .env("NORNS_RUNS", folder.join("runs"))
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(status), "{name}: {text}");
    for sentence in said {
        assert!(text.contains(sentence), "{name} lacks `{sentence}`: {text}");
    }
}

#[test]
fn a_program_that_was_seen_is_clean() {
    check(
        "clean",
        "thread(); return 0;",
        &[],
        0,
        &["0 findings, 0 undecided"],
    );
}

/// A thread and main lock more often than the budget has events for, and then race. (gcc has functions
/// inside functions.)
#[test]
fn a_race_behind_the_end_of_the_recording_is_confirmed() {
    let body = "
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static int counter, late;
        void *work(void *arg) {
            for (int i = 0; i < 200000; i++) {
                pthread_mutex_lock(&mutex);
                counter++;
                pthread_mutex_unlock(&mutex);
            }
            late = 1;
            return arg;
        }
        pthread_t t;
        pthread_create(&t, 0, work, 0);
        work(0);
        pthread_join(t, 0);
        return 0;";
    check(
        "long",
        body,
        &["--budget", "5", "--kind", "race"],
        1,
        &["only its first 500000 events are kept", "1 confirmed"],
    );
}

#[test]
fn nothing_is_seen_of_a_program_without_threads() {
    check("one-thread", "return 0;", &[], 2, &["nothing was analysed"]);
    check(
        "usage",
        "fputs(\"usage: program FILE\\n\", stderr); return 64;",
        &[],
        2,
        &[
            "exited with status 64",
            "`usage: program FILE`",
            "nothing was analysed",
        ],
    );
}

#[test]
fn a_program_that_dies_or_fails_is_not_clean() {
    check(
        "dies",
        "thread(); fputs(\"last words\\n\", stderr); abort();",
        &[],
        2,
        &["killed by signal 6", "`last words`", "in what was seen"],
    );
    check(
        "fails",
        "thread(); return 3;",
        &[],
        0,
        &["exited with status 3", "0 findings in what was seen"],
    );
}

/// The first one waits for a byte that nobody writes, which is no deadlock that Norns can name; the second
/// one computes for ever.
#[test]
fn a_program_that_does_not_end_is_not_clean() {
    for (name, body) in [
        (
            "waits",
            "thread(); int p[2]; char c; if (pipe(p)) return 1; return read(p[0], &c, 1);",
        ),
        ("computes", "thread(); for (volatile int i = 0;; i++) {}"),
    ] {
        let limit = ["--time-limit", "1", "--budget", "5"];
        let said = ["did not end in the time", "0 findings in what was seen"];
        check(name, body, &limit, 2, &said);
    }
}

#[test]
fn a_daemon_is_stopped_and_said() {
    check(
        "daemon",
        "thread(); if (daemon(1, 1) == 0) sleep(100); return 0;",
        &[],
        0,
        &[
            "left running in the background",
            "0 findings in what was seen",
        ],
    );
}

/// Only further recordings are given a seed, after those in which threads are impatient. These show something new
/// here, so that others follow.
#[test]
fn a_program_that_dies_in_a_further_recording_is_not_clean() {
    check_runs(
        "dies-later",
        "thread(); if (getenv(\"NORNS_IMPATIENT\")) thread(); if (getenv(\"NORNS_SEED\")) abort(); return 0;",
        &[],
        2,
        &[
            "under another schedule",
            "the program was killed by signal 6",
        ],
    );
}

/// A team of two threads of OpenMP.
fn check_team(name: &str, body: &str, status: i32, said: &[&str]) {
    let body = format!(
        "int sum = 0, other = 0;\n#pragma omp parallel num_threads(2)\n{{\n{body}\n}}\nreturn sum + other < 0;"
    );
    check(name, &body, &["--flag", "-fopenmp"], status, said);
}

#[test]
fn what_open_mp_orders_is_not_confirmed() {
    let critical = "#pragma omp critical\nsum++;";
    check_team("openmp-critical", critical, 0, &["libgomp", "0 confirmed"]);
    let single = "#pragma omp single\nsum++;\n#pragma omp master\nother += sum;";
    check_team("openmp-single", single, 0, &["libgomp"]);
    // Only what comes after the barrier is a race.
    let barrier = "#pragma omp single nowait\nsum++;\n#pragma omp barrier\nother += sum * 0;";
    check_team("openmp-barrier", barrier, 1, &["libgomp", "1 confirmed"]);
}

/// Two threads that stand before their accesses at one moment prove the race, whatever the runtime of
/// OpenMP orders: neither of them waits for the other.
#[test]
fn two_stopped_threads_of_open_mp_confirm_a_race() {
    check_team("openmp-race", "sum++;", 1, &["libgomp", "1 confirmed"]);
}

/// A thread polls an atomic variable while main does something else, and then makes a race: the recording
/// is not cut before that.
#[test]
fn a_long_poll_does_not_fill_the_recording() {
    let folder = folder("polls");
    let source = "#include <pthread.h>\n#include <stdatomic.h>\n#include <unistd.h>\n\
        static atomic_int ready; static int data;\n\
        static void *polls(void *arg) {\n\
            int one; do one = 1; while (!atomic_compare_exchange_weak_explicit(\n\
                &ready, &one, 2, memory_order_relaxed, memory_order_relaxed));\n\
            data++; return arg;\n\
        }\n\
        int main(void) {\n\
            pthread_t t; pthread_create(&t, 0, polls, 0);\n\
            usleep(300000);\n\
            atomic_store_explicit(&ready, 1, memory_order_relaxed); data++;\n\
            pthread_join(t, 0); return 0;\n\
        }\n";
    fs::write(folder.join("program.c"), source).unwrap();
    let output = Command::new(NORNS)
        .args(["check", "--budget", "2", "--runs", "1", "program.c"])
        .env("NORNS_RUNS", folder.join("runs"))
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("events are kept"), "{text}");
}

/// Runs a program as it is, and recorded: output and status are the same.
fn same_end(name: &str, source: &str) {
    let folder = folder(name);
    fs::write(folder.join("program.c"), source).unwrap();
    let built = Command::new(NORNS)
        .args(["cc", "-g", "-pthread", "program.c", "-o", "program"])
        .current_dir(&folder)
        .status();
    assert!(built.unwrap().success());
    let run = |command: &mut Command| -> Output { command.current_dir(&folder).output().unwrap() };
    let plain = run(&mut Command::new("./program"));
    let words = ["record", "--quiet", "-o", "trace.norns", "--", "./program"];
    let recorded = run(Command::new(NORNS).args(words));
    assert_eq!(plain.stdout, recorded.stdout, "{name}");
    assert_eq!(plain.status.code(), recorded.status.code(), "{name}");
}

#[test]
fn the_end_of_a_program_is_the_same() {
    let head = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                static void last(void) { puts(\"last\"); }\n\
                static void first(void) { puts(\"first\"); }\n\
                static void *sleeps(void *arg) { for (;;) pause(); return arg; }\n\
                static void *leaves(void *arg) { (void)arg; exit(9); }\n";
    let begin = "int main(void) { pthread_t t; atexit(last); atexit(first); at_quick_exit(last);\n\
                 pthread_create(&t, 0, sleeps, 0);";
    same_end("returns", &format!("{head}{begin} return 7; }}"));
    same_end(
        "exits",
        &format!("{head}{begin} puts(\"out\"); exit(8); }}"),
    );
    same_end(
        "exits-at-once",
        &format!("{head}{begin} puts(\"lost\"); _exit(5); }}"),
    );
    same_end(
        "exits-quickly",
        &format!("{head}{begin} fflush(stdout); quick_exit(6); }}"),
    );
    let other = "pthread_create(&t, 0, leaves, 0); pthread_join(t, 0); return 1; }";
    same_end("thread-exits", &format!("{head}{begin} {other}"));
    let forks = "if (!fork()) _exit(0); if (!vfork()) _exit(0); return 3; }";
    same_end("forks", &format!("{head}{begin} {forks}"));
}
