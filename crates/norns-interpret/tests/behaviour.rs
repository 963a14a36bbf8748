//! Small programs and how the interpreter must see them end.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use norns_interpret::symbolic::{
    Answer, Condition, Expressions, Inputs, Mark, Marks, Solver, Source,
};
use norns_interpret::{
    Access, End, Enforcement, How, Input, Interpreter, Invariant, MemoryErrorKind, Order, Outcome,
};
use norns_ir::{FrontEnd, Program};

fn source(text: &str, extension: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("behaviour");
    std::fs::create_dir_all(&folder).expect("the scratch folder can be made");
    let path = folder.join(format!(
        "{}.{extension}",
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    std::fs::write(&path, text).expect("a source can be written");
    path
}

fn compiled(text: &str) -> Program {
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut program = clang
        .read_sources(&[source(text, "c")], &[])
        .expect("the program compiles");
    program.promote_locals();
    program
}

fn run(text: &str, how: &How) -> Outcome {
    let program = compiled(text);
    Interpreter::new(&program).run(&Input::default(), how)
}

/// Runs a program that has the usual headers under several seeds.
fn check(text: &str, end: &str) {
    let text = format!(
        "#include <assert.h>\n#include <pthread.h>\n#include <stdarg.h>\n#include <stdio.h>\n\
         #include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n{text}"
    );
    let program = compiled(&text);
    let interpreter = Interpreter::new(&program);
    for seed in 0..5 {
        let outcome = interpreter.run(
            &Input::default(),
            &How {
                seed,
                ..How::default()
            },
        );
        assert_eq!(
            outcome.end.to_string(),
            end,
            "seed {seed}, {:?}",
            outcome.stack
        );
    }
}

#[test]
fn every_access_is_checked() {
    check(
        "int main(void) { int *p = 0; return *p; }",
        "read through a null pointer",
    );
    check(
        "int main(int n, char **v) { int *a = malloc(4 * sizeof *a); a[n + 4] = 1; return 0; }",
        "write of 4 bytes out of bounds (a block of the heap)",
    );
    check(
        "int main(int n, char **v) { int a[3] = {1, 2, 3}; return a[n - 1]; }",
        "read of 4 bytes out of bounds (a local variable)",
    );
    check(
        "static int table[2]; int main(int n, char **v) { return table[n + 2]; }",
        "read of 4 bytes out of bounds (table)",
    );
    check(
        "int main(void) { char *p = malloc(1); free(p); return *p; }",
        "read of freed memory",
    );
    check(
        "int main(void) { char *p = malloc(1); free(p); free(p); }",
        "free of freed memory",
    );
    check(
        "int main(void) { char *p = malloc(2); free(p + 1); }",
        "free of an invalid pointer (a block of the heap)",
    );
    check(
        "static int *leak(void) { int local = 1; int *p = &local; return p; }
         int main(void) { return *leak(); }",
        "read of freed memory",
    );
    check(
        "int main(void) { char *s = (char *)\"text\"; *s = 'T'; }",
        "write to a constant (.str)",
    );
    check(
        "int main(void) { int *p = malloc(sizeof *p); if (*p) return 1; return 0; }",
        "use of uninitialised memory (a block of the heap)",
    );
}

#[test]
fn memory_that_is_only_copied_may_be_uninitialised() {
    check(
        "struct s { char c; int i; unsigned a : 3, b : 5; };
         int main(void) {
             struct s *p = malloc(sizeof *p), q;
             p->c = 1; p->i = 2; p->a = 3; p->b = 4;
             q = *p;
             struct s r = q;
             return r.i + r.a + r.b - 9;
         }",
        "exit status 0",
    );
}

#[test]
fn programs_end_as_they_say() {
    check("int main(void) { return 7; }", "exit status 7");
    check(
        "int main(void) { assert(1 + 1 == 3); }",
        "assertion failed: 1 + 1 == 3",
    );
    check("int main(void) { abort(); }", "signal 6");
    check("int main(int n, char **v) { return 1 / n; }", "signal 8");
    check(
        "static int depth(int n) { return n ? depth(n - 1) + 1 : 0; }
         int main(void) { return depth(1000) != 1000; }",
        "exit status 0",
    );
}

#[test]
fn arguments_of_variadic_functions_are_found() {
    check(
        "static double sum(int n, ...) {
             va_list list;
             va_start(list, n);
             double all = 0;
             for (int i = 0; i < n; i++)
                 all += i % 2 ? va_arg(list, double) : va_arg(list, int);
             va_end(list);
             return all;
         }
         int main(void) { return (int)sum(9, 1, 2.0, 3, 4.0, 5, 6.0, 7, 8.0, 9) - 45; }",
        "exit status 0",
    );
}

#[test]
fn a_structure_that_is_passed_by_value_is_a_copy() {
    check(
        "struct big { long parts[9]; };
         static long change(int before, struct big big) { big.parts[3] = before; return big.parts[8]; }
         int main(void) {
             struct big big = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};
             long last = change(7, big);
             return big.parts[3] != 4 || last != 9;
         }",
        "exit status 0",
    );
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    check(
        "static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
         static void *w(void *u) { pthread_mutex_lock(&m); return u; }
         int main(void) {
             pthread_t t;
             pthread_mutex_lock(&m);
             pthread_create(&t, 0, w, 0);
             pthread_join(t, 0);
         }",
        "deadlock of 2 threads",
    );
}

#[test]
fn a_loop_whose_exit_cannot_change_is_endless() {
    check(
        "static volatile int never;
         static void *w(void *u) { while (!never) usleep(1); return u; }
         int main(void) { pthread_t t; pthread_create(&t, 0, w, 0); pthread_join(t, 0); }",
        "endless loop",
    );
    check(
        "static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
         static int never;
         int main(void) {
             for (;;) {
                 pthread_mutex_lock(&m);
                 int seen = never;
                 pthread_mutex_unlock(&m);
                 if (seen) return 0;
             }
         }",
        "endless loop",
    );
}

#[test]
fn formats_are_those_of_the_c_library() {
    let text = r#"
#include <stdio.h>
int main(void) {
    printf("[%d|%5d|%-5d|%05d|%+d|% d|%.3d|%5.3d]\n", 42, 42, 42, 42, 42, 42, 7, 7);
    printf("[%u|%x|%X|%#x|%o|%#o|%08x]\n", 42u, 48879u, 48879u, 48879u, 8u, 8u, 48879u);
    printf("[%ld|%lld|%zu|%hhd|%hd|%lx]\n", -5L, -6LL, (size_t)7, (char)-1, (short)-2, 255L);
    printf("[%s|%10s|%-10s|%.2s|%*s|%-*s|%.*s]\n", "abc", "abc", "abc", "abc", 5, "x", 5, "y", 1, "zz");
    printf("[%c|%3c|%-3c|%%]\n", 'a', 'b', 'c');
    printf("[%f|%.2f|%10.3f|%-10.1f|%010.2f|%+f|%.0f]\n", 3.14159, 2.675, 2.5, 2.25, -1.5, 1.0, 2.5);
    printf("[%e|%.2E|%g|%g|%g|%g|%G|%.3g|%#g]\n", 12345.678, 0.00012, 100000.0, 1e6, 1e-5, 0.0001, 1e-10, 1234.5, 1.5);
    printf("[%f|%f|%F|%g]\n", 1.0 / 0.0, -1.0 / 0.0, 1.0 / 0.0, 0.0);
    printf("[%5d|%-8ld|%i]\n", -3, 9L, -2147483647 - 1);
    char buffer[8];
    int wanted = snprintf(buffer, sizeof buffer, "%s-%d", "longer", 123);
    printf("%d %s\n", wanted, buffer);
    return 0;
}
"#;
    check_against_native(text, "c");
}

#[test]
fn containers_strings_and_exceptions_are_those_of_the_standard_library() {
    let text = r#"
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

int main() {
    std::map<std::string, int> numbers;
    for (int i = 0; i < 50; i++) {
        std::string key = "key number ";
        key += std::to_string(i * 37 % 50);
        numbers[key] = i;
    }
    int sum = 0;
    for (auto &entry : numbers)
        printf("%s=%d ", entry.first.c_str(), sum += entry.second);
    for (auto entry = numbers.rbegin(); entry != numbers.rend(); ++entry)
        printf("%d ", sum -= entry->second);
    std::list<int> list;
    for (int i = 0; i < 5; i++)
        list.push_front(i);
    list.pop_back();
    for (int value : list)
        printf("%d ", value);
    std::vector<std::string> texts;
    for (int i = 0; i < 20; i++)
        texts.push_back(std::string(i * 3, 'x'));
    for (auto &text : texts)
        sum += text.size();
    std::mutex mutex;
    std::vector<std::thread> threads;
    int count = 0;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            std::lock_guard<std::mutex> guard(mutex);
            count++;
        });
    for (auto &thread : threads)
        thread.join();
    try {
        throw std::runtime_error("no");
    } catch (const std::exception &) {
        count += 10;
    }
    try {
        try {
            throw 5;
        } catch (int &value) {
            value++;
            throw;
        }
    } catch (int value) {
        count += value;
    }
    auto shared = std::make_shared<int>(4);
    printf("\n%d %d %d\n", sum, count, *shared);
}
"#;
    check_against_native(text, "cpp");
}

/// The interpreter and the native program print the same.
fn check_against_native(text: &str, extension: &str) {
    let path = source(text, extension);
    let executable = path.with_extension("");
    let compiler = if extension == "c" {
        "clang-19"
    } else {
        "clang++-19"
    };
    let status = Command::new(compiler)
        .args(["-w", "-pthread", "-o"])
        .arg(&executable)
        .arg(&path)
        .status()
        .expect("clang is installed (apt-get install clang-19)");
    assert!(status.success());
    let native = Command::new(&executable)
        .output()
        .expect("the program can be run");
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut program = clang
        .read_sources(&[path], &[])
        .expect("the program compiles");
    program.promote_locals();
    let outcome = Interpreter::new(&program).run(&Input::default(), &How::default());
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!(
        String::from_utf8_lossy(&outcome.output()),
        String::from_utf8_lossy(&native.stdout)
    );
}

const ORDER: &str = "#include <pthread.h>
#include <stdio.h>
static int x;
static void *w(void *u) {
    x = 1;
    return u;
}
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, w, 0);
    int seen = x;
    pthread_join(t, 0);
    printf(\"%d\\n\", seen);
}
";

fn order(first: u32, second: u32) -> How {
    let access = |line| Access {
        file: ".c".to_owned(),
        line,
        is_write: None,
    };
    How {
        order: Some(Order {
            first: access(first),
            second: access(second),
        }),
        ..How::default()
    }
}

/// Runs a program with an order of two lines under several seeds.
fn check_order(text: &str, (first, second): (u32, u32), expected: Enforcement, output: &str) {
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let path = source(text, "c");
    let mut program = clang
        .read_sources(std::slice::from_ref(&path), &[])
        .expect("the program compiles");
    program.promote_locals();
    let interpreter = Interpreter::new(&program);
    for seed in 0..20 {
        let mut how = How {
            seed,
            ..order(first, second)
        };
        if let Some(order) = &mut how.order {
            let name = path
                .file_name()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            order.first.file.clone_from(&name);
            order.second.file = name;
        }
        let outcome = interpreter.run(&Input::default(), &how);
        assert_eq!(outcome.end, End::Exited(0));
        assert_eq!(outcome.order, Some(expected), "seed {seed}");
        assert_eq!(
            String::from_utf8_lossy(&outcome.output()),
            output,
            "seed {seed}"
        );
    }
}

#[test]
fn either_order_of_a_race_can_be_enforced() {
    check_order(ORDER, (5, 11), Enforcement::Enforced, "1\n");
    check_order(ORDER, (11, 5), Enforcement::Enforced, "0\n");
}

#[test]
fn an_order_that_a_flag_forbids_is_impossible() {
    let text = "#include <pthread.h>
#include <stdio.h>
static int x;
static volatile int done;
static void *w(void *u) {
    x = 1;
    done = 1;
    return u;
}
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, w, 0);
    while (!done)
        ;
    printf(\"%d\\n\", x);
    pthread_join(t, 0);
}
";
    check_order(text, (6, 15), Enforcement::Enforced, "1\n");
    check_order(text, (15, 6), Enforcement::Impossible, "1\n");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let one = run(ORDER, &How::default());
    let other = run(ORDER, &How::default());
    assert_eq!((one.steps, one.output()), (other.steps, other.output()));
}

#[test]
fn memory_errors_name_their_kind() {
    let outcome = run(
        "int main(void) { int *p = 0; *p = 1; return 0; }",
        &How::default(),
    );
    let End::MemoryError(error) = outcome.end else {
        panic!("{}", outcome.end);
    };
    assert_eq!(error.kind, MemoryErrorKind::Null);
    assert!(error.is_write);
    assert_eq!(outcome.stack.len(), 1);
}

/// No solver: only conditions on one or two bytes are decided.
struct NoSolver;

impl Solver for NoSolver {
    fn solve(&mut self, _: &Expressions, _: &[Condition], _: &[u32]) -> Answer {
        Answer::Unknown
    }
}

/// Whether some input of at most `bytes` bytes on standard input makes a program end so, found branch by
/// branch.
fn reaches(text: &str, bytes: u32, end: &str) -> bool {
    let text = format!(
        "#include <ctype.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         #include <unistd.h>\n{text}"
    );
    let program = compiled(&text);
    let interpreter = Interpreter::new(&program);
    let marks = Marks(vec![Mark {
        source: Source::StandardInput,
        bytes,
    }]);
    let mut open = VecDeque::from([vec![0; bytes as usize]]);
    let mut seen = HashSet::new();
    let mut inputs = Inputs::default();
    while let Some(bytes) = open.pop_front() {
        if seen.len() > 2_000 || !seen.insert(bytes.clone()) {
            continue;
        }
        let input = marks.with(&Input::default(), &bytes);
        let (outcome, path) = interpreter.follow(&input, &marks, &How::default());
        if outcome.end.to_string() == end {
            return true;
        }
        for step in (0..path.steps.len()).filter(|&step| path.steps[step].is_branch) {
            let turned = path.turned(step);
            open.extend(inputs.find(&path.expressions, &turned, &bytes, &mut NoSolver));
        }
    }
    false
}

#[test]
fn inputs_for_other_paths_are_found() {
    let check = |text: &str, end: &str| assert!(reaches(text, 6, end), "{text}");
    check(
        "int main(void) { int c = getchar(); if (c == 'x') return 3; return 0; }",
        "exit status 3",
    );
    check(
        "int main(void) { char b[4]; read(0, b, 3); switch (b[1]) { case 'p': return 4; default: return 0; } }",
        "exit status 4",
    );
    check(
        "int main(void) { char w[8], c[8]; if (!fgets(w, 7, stdin)) return 1; strcpy(c, w);\n\
         if (strncmp(c, \"go\", 2) == 0) return 5; return 0; }",
        "exit status 5",
    );
    check(
        "int main(void) { char w[8]; if (!fgets(w, 7, stdin)) return 1;\n\
         if (isdigit(w[0]) && toupper(w[1]) == 'K' && w[1] != 'K') return 6; return 0; }",
        "exit status 6",
    );
    check(
        "int main(void) { char w[8]; if (!fgets(w, 7, stdin)) return 1; if (atoi(w) == 42) return 7; return 0; }",
        "exit status 7",
    );
    check(
        "static int t[10]; int main(void) { unsigned c = getchar(); if (c < 20) return t[c]; return 0; }",
        "read of 4 bytes out of bounds (t)",
    );
    check(
        "int main(void) { unsigned c = getchar(); if (c) return 100 / (c - 66); return 0; }",
        "signal 8",
    );
    assert!(!reaches(
        "int main(void) { unsigned c = getchar() & 15; if (c == 16) return 9; return 0; }",
        1,
        "exit status 9"
    ));
}

#[test]
fn an_invariant_ends_a_run_that_breaks_it() {
    let text = "#include <pthread.h>\nint a = 5, b[2] = {0, 5}; pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
                int main(void) { pthread_mutex_lock(&m); a--; pthread_mutex_unlock(&m);\n\
                pthread_mutex_lock(&m); b[1]++; pthread_mutex_unlock(&m); return 0; }";
    let end = |invariant: &str| {
        let how = How {
            invariant: Some(Invariant::parse(invariant).unwrap()),
            ..How::default()
        };
        run(text, &how).end.to_string()
    };
    assert_eq!(end("end: a + b[1] == 10"), "exit status 0");
    assert_eq!(
        end("a + b[1] == 10"),
        "assertion failed: invariant a + b[1] == 10"
    );
    assert_eq!(end("a > 0 && a <= 5"), "exit status 0");
}

#[test]
fn exits_flush_streams_or_do_not() {
    let output = |text: &str| run(text, &How::default()).output();
    let start =
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <pthread.h>\n";
    let of = |end: &str| {
        output(&format!(
            "{start}int main(void) {{ printf(\"text\"); {end}; }}"
        ))
    };
    assert_eq!(of("return 0"), b"text");
    assert_eq!(of("pthread_exit(0)"), b"text");
    assert_eq!(of("_exit(0)"), b"");
    assert_eq!(of("quick_exit(0)"), b"");
}

#[test]
fn what_only_others_could_end_is_no_deadlock() {
    let start = "#include <pthread.h>\n#include <signal.h>\n#include <unistd.h>\n\
                 #include <sys/socket.h>\n#include <netinet/in.h>\n\
                 #include <fcntl.h>\n#include <semaphore.h>\n";
    let end = |text: &str| run(&format!("{start}{text}"), &How::default()).end;
    let of = |body: &str| end(&format!("int main(void) {{ {body} }}")).to_string();
    assert_eq!(of("pause();"), "given up: a wait for a signal from outside");
    assert_eq!(
        of("struct sockaddr_in a = {.sin_family = AF_INET};
            int s = socket(AF_INET, SOCK_STREAM, 0);
            bind(s, (struct sockaddr *)&a, sizeof a);
            listen(s, 1);
            accept(s, 0, 0);"),
        "given up: a wait for a connection or signal from outside"
    );
    assert_eq!(
        of("sem_wait(sem_open(\"/name\", O_CREAT, 0600, 0));"),
        "given up: a wait for a named semaphore"
    );
    assert_eq!(
        of("int p[2]; char c; pipe(p); read(p[0], &c, 1);"),
        "deadlock of 1 threads"
    );
}

#[test]
fn scanned_text_is_taken_as_the_c_library_does() {
    check(
        r#"int main(void) {
               int a = 0, b = 0, n = 0; unsigned x = 0; char word[8] = "", set[8] = "", c = 0; long l = 0;
               assert(sscanf("12 -7", "%d%d", &a, &b) == 2 && a == 12 && b == -7);
               assert(sscanf("0x1fg", "%x%c", &x, &c) == 2 && x == 31 && c == 'g');
               assert(sscanf("  abc=7", " %3[a-c]=%ld%n", set, &l, &n) == 2 && !strcmp(set, "abc") && l == 7 && n == 7);
               assert(sscanf("one", "%*s%d", &a) == -1);
               assert(sscanf("x", "%d", &a) == 0);
               assert(sscanf("toolong", "%3s", word) == 1 && !strcmp(word, "too"));
               assert(sscanf("5%", "%d%%", &a) == 1 && a == 5);
               return 0;
           }"#,
        "exit status 0",
    );
}
