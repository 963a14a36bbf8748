//! `norns sketch` as a user runs it: the programs of tests/sketch, and every way in which a program can
//! fail or not.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An empty folder of this test.
pub fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join("sketch")
        .join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn norns(folder: &Path, words: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_norns"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    child.wait_with_output().unwrap()
}

pub fn json(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"))
}

/// Sketches a program of the test's own; the exit status and the JSON.
pub fn sketch(test: &str, source: &str, options: &[&str]) -> (Option<i32>, Value) {
    let folder = folder(test);
    fs::write(folder.join("program.c"), source).unwrap();
    let mut words = vec!["sketch", "--format", "json", "program.c"];
    words.extend(options);
    let output = norns(&folder, &words, "");
    let found = (output.status.code(), json(&output));
    let mut left: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    assert_eq!(left, [".norns", "program.c"]);
    assert_eq!(running(&folder), Vec::<PathBuf>::new());
    found
}

/// The processes whose program lies in this folder.
fn running(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let programs = processes.filter_map(|entry| fs::read_link(entry.path().join("exe")).ok());
    programs
        .filter(|program| program.starts_with(folder))
        .collect()
}

/// The lines with this mark, by its number.
pub fn marked(source: &str, mark: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for number in 1.. {
        let mark = format!("{mark} ({number})");
        let Some(line) = source.lines().position(|line| line.contains(&mark)) else {
            break;
        };
        found.push(line as u64 + 1);
    }
    found
}

/// The best predictor of a program of tests/sketch is at the marked lines, and an order is proved.
fn check(name: &str) {
    let path = root().join("tests/sketch").join(format!("{name}.c"));
    let source = fs::read_to_string(&path).unwrap();
    let words = [
        "sketch",
        "--format",
        "json",
        "--budget",
        "120",
        path.to_str().unwrap(),
    ];
    let output = norns(&folder(name), &words, "");
    let found = json(&output);
    assert_eq!(output.status.code(), Some(1), "{found:#}");
    let best = &found["predictors"][0];
    let first = source.lines().next().unwrap();
    let kinds: Vec<&str> = first
        .strip_prefix("// sketch: ")
        .unwrap()
        .split(" or ")
        .collect();
    assert!(kinds.contains(&best["kind"].as_str().unwrap()), "{best:#}");
    let places = best["places"].as_array().unwrap().iter();
    let lines: Vec<u64> = places
        .map(|place| place["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, marked(&source, "cause"), "{best:#}");
    if lines.len() > 1 {
        let proof = &found["proof"];
        assert_eq!(proof["forced"], serde_json::json!([5, 5]), "{proof}");
        assert_eq!(proof["forbidden"], serde_json::json!([0, 5]), "{proof}");
    }
}

#[test]
fn apache() {
    check("apache");
}

#[test]
fn cppcheck() {
    check("cppcheck");
}

#[test]
fn curl() {
    check("curl");
}

#[test]
fn memcached() {
    check("memcached");
}

#[test]
fn pbzip2() {
    check("pbzip2");
}

#[test]
fn sqlite() {
    check("sqlite");
}

#[test]
fn transmission() {
    check("transmission");
}

#[test]
fn a_program_that_never_fails() {
    let source = "int main(void) { return 3; }\n";
    let (status, found) = sketch("never", source, &["--runs", "6"]);
    assert_eq!(status, Some(0));
    assert_eq!(found["failure"], Value::Null);
    assert_eq!(found["predictors"], serde_json::json!([]));
}

#[test]
fn a_program_that_always_fails() {
    let source = "#include <assert.h>
static int n;
int main(void) {
    n = 7;
    assert(n > 9);
}
";
    let (status, found) = sketch("always", source, &[]);
    assert_eq!(status, Some(1));
    let failure = &found["failure"];
    assert_eq!(failure["kind"], "assertion");
    assert_eq!(failure["what"], "failed the assertion `n > 9`");
    assert_eq!(failure["place"]["line"], 5);
    assert_eq!(failure["failed"], failure["runs"]);
    assert_eq!(found["predictors"], serde_json::json!([]));
    let note = found["notes"][0].as_str().unwrap();
    assert!(note.starts_with("every run failed"), "{note}");
    let steps = found["steps"].as_array().unwrap();
    assert!(
        steps
            .iter()
            .any(|step| step["line"] == 4 && step["value"] == "7"),
        "{steps:#?}"
    );
}

#[test]
fn a_failure_before_main() {
    let source = "#include <stdlib.h>
__attribute__((constructor)) static void begin(void) {
    abort();
}
int main(void) { return 0; }
";
    let (status, found) = sketch("before-main", source, &[]);
    assert_eq!(status, Some(1));
    assert_eq!(found["failure"]["kind"], "abort");
    assert_eq!(found["failure"]["place"]["line"], 3);
}

#[test]
fn other_kinds_of_failures() {
    let hang = "#include <pthread.h>
int main(void) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&m);
    return 0;
}
";
    let (status, found) = sketch("hang", hang, &["--runs", "2", "--time-limit", "3"]);
    assert_eq!(
        (status, &found["failure"]["kind"]),
        (Some(1), &"hang".into())
    );
    let exit = "int main(void) { return 3; }\n";
    let (status, found) = sketch("exit", exit, &["--runs", "2", "--failing-exit"]);
    assert_eq!(
        (status, &found["failure"]["kind"]),
        (Some(1), &"exit".into())
    );
    let print = "#include <stdio.h>\nint main(void) { puts(\"lost 2 of 5\"); return 0; }\n";
    let options = ["--runs", "2", "--failing-output", "lost"];
    let (status, found) = sketch("output", print, &options);
    assert_eq!(
        (status, &found["failure"]["kind"]),
        (Some(1), &"output".into())
    );
    assert_eq!(found["failure"]["what"], "printed `lost 2 of 5`");
    let fault = "int main(void) { return *(volatile int *)8; }\n";
    let (status, found) = sketch("fault", fault, &["--runs", "2"]);
    assert_eq!(
        (status, &found["failure"]["kind"]),
        (Some(1), &"signal".into())
    );
    assert_eq!(found["failure"]["what"], "was killed by SIGSEGV");
    assert_eq!(found["failure"]["place"]["line"], 1);
}

#[test]
fn an_exception_that_nobody_catches() {
    let folder = folder("terminate");
    let source = "#include <stdexcept>\nint main() { throw std::runtime_error(\"no\"); }\n";
    fs::write(folder.join("program.cpp"), source).unwrap();
    let words = ["sketch", "--format", "json", "--runs", "2", "program.cpp"];
    let found = json(&norns(&folder, &words, ""));
    assert_eq!(found["failure"]["kind"], "terminate");
    assert_eq!(
        found["failure"]["what"],
        "did not catch `std::runtime_error`"
    );
}

/// What the header of a container accesses belongs to the statement that uses it, also under a lock of the library.
#[test]
fn containers_and_locks_of_cpp() {
    let folder = folder("containers");
    let source = "#include <mutex>
#include <thread>
#include <vector>
std::vector<int> values;
std::mutex lock;
void put() {
    std::lock_guard<std::mutex> held(lock);
    values.push_back(1); // cause (2)
}
void get() {
    std::lock_guard<std::mutex> held(lock);
    (void)values.at(0); // cause (1)
}
int main() {
    std::thread one(put), other(get);
    one.join();
    other.join();
}
";
    fs::write(folder.join("program.cpp"), source).unwrap();
    let words = [
        "sketch",
        "--format",
        "json",
        "--budget",
        "120",
        "program.cpp",
    ];
    let found = json(&norns(&folder, &words, ""));
    assert_eq!(found["failure"]["kind"], "terminate");
    let orders = found["predictors"].as_array().unwrap().iter();
    let at = |order: &Value| -> Vec<u64> {
        let places = order["places"].as_array().unwrap().iter();
        places
            .map(|place| place["line"].as_u64().unwrap())
            .collect()
    };
    let cause = marked(source, "cause");
    assert!({ orders }.any(|order| at(order) == cause), "{found:#}");
    assert_eq!(
        found["proof"]["forced"],
        serde_json::json!([5, 5]),
        "{found:#}"
    );
}

/// The place of a failure inside the C library is the call, and not the access before it.
#[test]
fn a_failure_inside_the_c_library() {
    let source = "#include <pthread.h>
static pthread_mutex_t *lock;
int main(void) {
    pthread_mutex_t *used = lock;
    pthread_mutex_lock(used); // fails
    return 0;
}
";
    let (status, found) = sketch("inside", source, &["--runs", "2"]);
    assert_eq!(status, Some(1));
    assert_eq!(found["failure"]["place"]["line"], 5, "{found:#}");
    let last = found["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(last["line"], 5, "{found:#}");
}

#[test]
fn a_full_stack_and_a_status_of_main() {
    let source = "#include <pthread.h>
static int deep(int n) {
    volatile char bytes[4096];
    bytes[0] = (char)n;
    return n ? deep(n - 1) + bytes[0] : 0;
}
static void *run(void *unused) {
    deep(100000000);
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    return pthread_join(thread, NULL);
}
";
    let (status, found) = sketch("full", source, &["--runs", "2"]);
    assert_eq!(status, Some(1));
    assert_eq!(found["failure"]["what"], "was killed by SIGSEGV");
    assert_eq!(found["failure"]["place"]["function"], "deep", "{found:#}");
    let source = "static int result = 3;
int main(void) {
    return result;
}
";
    let (status, found) = sketch("returned", source, &["--runs", "2", "--failing-exit"]);
    assert_eq!(status, Some(1));
    assert_eq!(found["failure"]["place"]["line"], 3, "{found:#}");
}

/// The runtime of a sanitizer and ours both replace `malloc`: such a program runs without ours.
#[test]
fn a_program_with_a_sanitizer() {
    let folder = folder("sanitizer");
    let source = "#include <stdlib.h>
int main(void) {
    int *block = malloc(4);
    free(block);
    return *(volatile int *)block; // fails
}
";
    fs::write(folder.join("program.c"), source).unwrap();
    let built = Command::new("gcc")
        .args([
            "-g",
            "-fsanitize=address",
            "-w",
            "-o",
            "program",
            "program.c",
        ])
        .current_dir(&folder)
        .status();
    assert!(built.unwrap().success());
    let words = [
        "sketch",
        "--format",
        "json",
        "--runs",
        "2",
        "--",
        "./program",
    ];
    let found = json(&norns(&folder, &words, ""));
    let failure = &found["failure"];
    assert_eq!(
        (&failure["kind"], &failure["failed"]),
        (&"sanitizer".into(), &2.into()),
        "{found:#}"
    );
    assert_eq!(failure["place"]["line"], 5, "{found:#}");
    let notes = found["notes"].to_string();
    assert!(notes.contains("built with AddressSanitizer"), "{notes}");
}

/// A handler of the program's own keeps its signal: the program does not fail.
#[test]
fn a_program_that_handles_its_faults() {
    let source = "#include <setjmp.h>
#include <signal.h>
static sigjmp_buf back;
static void handle(int number) { siglongjmp(back, number); }
int main(void) {
    struct sigaction old;
    sigaction(SIGSEGV, 0, &old);
    if (old.sa_handler != SIG_DFL)
        return 1;
    signal(SIGSEGV, handle);
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)8 = 1;
    return 0;
}
";
    let (status, found) = sketch("handles", source, &["--runs", "4", "--failing-exit"]);
    assert_eq!((status, &found["failure"]), (Some(0), &Value::Null));
}

#[test]
fn arguments_input_and_children() {
    let folder = folder("arguments");
    let source = "#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    char line[16] = \"\";
    assert(count == 2 && fgets(line, sizeof line, stdin) && !strcmp(line, \"from input\\n\"));
    if (fork() == 0)
        return 0;
    int status;
    wait(&status);
    fclose(fopen(\"left.txt\", \"w\"));
    return strcmp(words[1], \"--flag\");
}
";
    fs::write(folder.join("program.c"), source).unwrap();
    let words = [
        "sketch",
        "--format",
        "json",
        "--runs",
        "4",
        "--failing-exit",
        "program.c",
        "--",
        "--flag",
    ];
    let output = norns(&folder, &words, "from input\n");
    assert_eq!(output.status.code(), Some(0), "{:#}", json(&output));
}

#[test]
fn a_program_that_fails_in_two_ways() {
    let source = "#include <stdlib.h>
#include <sys/random.h>
int main(void) {
    unsigned char byte;
    if (getrandom(&byte, 1, 0) != 1)
        return 0;
    if (byte % 4 == 0)
        abort();
    if (byte % 4 == 1)
        __builtin_trap();
    return 0;
}
";
    let (status, found) = sketch("two-ways", source, &["--runs", "60"]);
    assert_eq!(status, Some(1));
    let others = found["other_failures"].as_array().unwrap();
    assert_eq!(others.len(), 1, "{found:#}");
    let kinds = [&found["failure"]["kind"], &others[0]["kind"]];
    assert!(
        kinds.contains(&&"abort".into()) && kinds.contains(&&"signal".into()),
        "{kinds:?}"
    );
}

#[test]
fn a_program_that_always_fails_in_two_ways() {
    let source = "#include <stdlib.h>
#include <sys/random.h>
int main(void) {
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) == 1 && byte % 2 == 0)
        abort();
    __builtin_trap();
}
";
    let (status, found) = sketch("always-two-ways", source, &["--runs", "24"]);
    assert_eq!(status, Some(1));
    let count = |failure: &Value| failure["failed"].as_u64().unwrap();
    let others = count(&found["other_failures"][0]);
    assert_eq!(count(&found["failure"]) + others, found["failure"]["runs"]);
    let note = found["notes"][0].as_str().unwrap();
    let expected = format!("every run failed, {others} in other ways, so nothing tells");
    assert!(note.starts_with(&expected), "{note}");
}

/// One failure, and runs that end in other ways than the good ones: the answer does not say that all failed.
#[test]
fn runs_that_end_otherwise_are_counted() {
    let source = "#include <stdlib.h>
#include <sys/random.h>
int main(void) {
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) == 1 && byte % 2 == 0)
        abort();
    return byte;
}
";
    let (status, found) = sketch("otherwise", source, &["--runs", "24"]);
    assert_eq!(status, Some(1));
    let notes = found["notes"].to_string();
    assert!(!notes.contains("every run failed"), "{notes}");
    assert!(
        notes.contains("runs ended in another way than the first one"),
        "{notes}"
    );
}

/// Nothing differs between the runs, so the two answers must not differ either: not in what is printed, and not
/// in the page.
#[test]
fn two_sketches_of_the_same_runs_are_equal() {
    let source = "#include <assert.h>
#include <stdlib.h>
struct list { long value; struct list *next; };
int main(void) {
    struct list *list = calloc(1, sizeof *list);
    for (long i = 0; i < 20; i++)
        list[0].value += i;
    assert(list->value < 100);
    free(list);
    return 0;
}
";
    let answers: Vec<[Vec<u8>; 4]> = { ["one", "other"].iter() }
        .map(|name| {
            let folder = folder("equal").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("program.c"), source).unwrap();
            let sketch = ["sketch", "--runs", "12", "--format", "json", "program.c"];
            let printed = norns(&folder, &sketch, "");
            let id = json(&printed)["finding"].as_str().unwrap().to_string();
            let views = [
                &["show", &id][..],
                &["report", "--format", "html", "--output", "page.html"],
            ];
            let shown = views.map(|words| norns(&folder, words, "").stdout);
            let page = fs::read(folder.join("page.html")).unwrap();
            let [show, report] = shown;
            [printed.stdout, show, report, page]
        })
        .collect();
    for (at, (one, other)) in answers[0].iter().zip(&answers[1]).enumerate() {
        let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
        assert!(one == other, "{at}: {one}\n{other}");
    }
}

#[test]
fn bad_usage() {
    let folder = folder("usage");
    for words in [
        &["sketch"][..],
        &["sketch", "absent.c"],
        &["sketch", "--", "./absent"],
    ] {
        assert_eq!(
            norns(&folder, words, "").status.code(),
            Some(2),
            "{words:?}"
        );
    }
}

/// Fails in about half of its runs, by the order of two threads that the process id decides.
pub const TRACKED: &str = "#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
struct queue { long items; int *lock; };
static struct queue *queue;
static int pauses[2];
static void *consumer(void *unused) {
    usleep(pauses[0]);
    int *lock = queue->lock; // cause (2)
    *lock = 1; // fails
    return unused;
}
int main(void) {
    pauses[getpid() / 2 % 2] = 300000;
    queue = malloc(sizeof *queue);
    queue->lock = malloc(4);
    pthread_t thread;
    pthread_create(&thread, NULL, consumer, NULL);
    usleep(pauses[1]);
    usleep(100000);
    queue->lock = NULL; // cause (1)
    pthread_join(thread, NULL);
    return 0;
}
";

#[test]
fn a_core_file_is_where_a_sketch_begins() {
    let folder = folder("core");
    fs::write(folder.join("test.c"), TRACKED).unwrap();
    let built = Command::new("gcc")
        .args(["-g", "-O1", "-pthread", "-o", "test", "test.c"])
        .current_dir(&folder)
        .status()
        .unwrap();
    assert!(built.success());
    // gdb writes the core, whatever the system does with cores.
    let mut tries = 0;
    while !folder.join("core").exists() {
        tries += 1;
        assert!(tries < 100, "the program does not fail");
        Command::new("gdb")
            .args([
                "-nx",
                "-batch",
                "-ex",
                "run",
                "-ex",
                "generate-core-file core",
            ])
            .arg("./test")
            .current_dir(&folder)
            .output()
            .unwrap();
    }
    let words = ["sketch", "--core", "core", "--binary", "./test"];
    let words = [&words[..], &["--runs", "3", "--format", "json"]].concat();
    let output = norns(&folder, &words, "");
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    assert_eq!(found["failure"]["what"], "was killed by SIGSEGV");
    assert_eq!(found["failure"]["place"]["line"], 10, "{found:#}");
    fs::write(folder.join("text"), "no core").unwrap();
    let output = norns(
        &folder,
        &["sketch", "--core", "text", "--binary", "./test"],
        "",
    );
    assert_eq!(output.status.code(), Some(2));
}
