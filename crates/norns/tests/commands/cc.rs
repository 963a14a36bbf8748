//! `norns cc` and `norns c++` against the compilers that they wrap: what is built must run the same, be
//! instrumented where it should be, and be left alone where it should not.
//!
//! Runs with every compiler of `tools`. Needs the runtime beside the executable:
//! `cargo build --workspace` in the same profile.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use norns_trace::{Op, Trace, create_raw, read};

use crate::tools::{compilers, need};

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

/// A folder with sources, and one compiler to build them with.
struct Shop {
    folder: PathBuf,
    c: &'static str,
    cxx: &'static str,
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
extern int helped(int);
static int shared;
static char text[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *argument) {
    pthread_mutex_lock(&lock);
    shared += helped(20);
    memset(text, 'x', sizeof text - 1);
    pthread_mutex_unlock(&lock);
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    work(0);
    pthread_join(thread, 0);
    printf("%d %zu\n", shared, strlen(text));
    return 7;
}
"#;
const HELP: &str = "int helps;\nint helped(int by) { helps += 1; return by + 1; }\n";
const OUTPUT: &str = "42 255\n";

impl Shop {
    fn open(test: &str, (c, cxx): (&'static str, &'static str)) -> Shop {
        // Blanks and commas in paths are part of every test.
        let name = format!("cc {test}, {c} {}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let shop = Shop { folder, c, cxx };
        shop.write("threads.c", THREADS);
        shop.write("help.c", HELP);
        shop
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.join(name), content).unwrap();
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("NORNS_CC", self.c)
            .env("NORNS_CXX", self.cxx);
        command
    }

    /// Splits at blanks; `norns cc` or `norns c++` come first.
    fn wrapped(&self, words: &str) -> Output {
        self.command(NORNS)
            .args(words.split_whitespace())
            .output()
            .unwrap()
    }

    /// Must succeed, and say nothing that the compiler itself would not.
    fn build(&self, words: &str) {
        let output = self.wrapped(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{}: {words}\n{said}",
            self.c
        );
    }

    fn plain(&self, words: &str) -> Output {
        let (program, words) = words.split_once(' ').unwrap_or((words, ""));
        let program = if program == "cc" { self.c } else { self.cxx };
        self.command(program)
            .args(words.split_whitespace())
            .output()
            .unwrap()
    }

    fn same_as_plain(&self, words: &str) {
        let (ours, theirs) = (self.wrapped(words), self.plain(words));
        let said = |output: &Output| {
            (
                output.status.code(),
                output.stdout.clone(),
                output.stderr.clone(),
            )
        };
        assert_eq!(said(&ours), said(&theirs), "{}: {words}", self.c);
    }

    fn run(&self, program: &str) -> (Option<i32>, String) {
        let output = self.command(self.folder.join(program)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, "", "{}: {program}", self.c);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    fn record(&self, program: &str) -> Trace {
        let path = self.folder.join("run.norns");
        create_raw(&path, &[]).unwrap();
        let status = self
            .command(self.folder.join(program))
            .env("NORNS_MODE", "record")
            .env("NORNS_TRACE", &path)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.code().is_some(), "{}: {program}: {status}", self.c);
        read(&path).unwrap().0
    }

    /// The program of `THREADS` and `HELP`: it runs as it should, and everything in it is seen.
    fn check_program(&self, program: &str, what: &str) {
        let what = format!("{}: {what}", self.c);
        assert_eq!(self.run(program), (Some(7), OUTPUT.into()), "{what}");
        let trace = self.record(program);
        let lines = |file: &str, wanted: fn(&Op) -> bool| {
            let events = trace.events.iter().filter(|event| wanted(&event.op));
            let frames = events.filter_map(|event| trace.place(event.place).frames.first());
            let mut lines: Vec<u32> = frames
                .filter(|frame| frame.file.ends_with(file))
                .map(|frame| frame.line)
                .collect();
            lines.sort();
            lines.dedup();
            lines
        };
        let reads = lines("threads.c", |op| matches!(op, Op::Read(_)));
        let writes = lines("threads.c", |op| matches!(op, Op::Write(_)));
        assert!(
            reads.contains(&11),
            "{what}: reads of threads.c in lines {reads:?}"
        );
        assert!(
            writes.contains(&11),
            "{what}: writes of threads.c in lines {writes:?}"
        );
        assert!(
            writes.contains(&12),
            "{what}: memset, writes of threads.c in lines {writes:?}"
        );
        assert_eq!(
            lines("threads.c", |op| matches!(op, Op::Lock(_))),
            [10],
            "{what}"
        );
        let helps = lines("help.c", |op| matches!(op, Op::Read(_) | Op::Write(_)));
        assert_eq!(helps, [2], "{what}: accesses of help.c");
        let symbols: Vec<_> = trace
            .symbols
            .iter()
            .map(|symbol| symbol.name.as_str())
            .collect();
        assert!(
            symbols.contains(&"shared") && symbols.contains(&"helps"),
            "{what}: {symbols:?}"
        );
    }

    fn symbols(&self, file: &str) -> String {
        let output = self.command("nm").arg(file).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

#[test]
fn programs_built_in_one_step_and_in_several() {
    for compiler in compilers() {
        let shop = Shop::open("steps", compiler);
        for level in ["-O0", "-O2"] {
            shop.build(&format!(
                "cc -Wall -Wextra -Werror {level} threads.c help.c -o one -pthread"
            ));
            shop.check_program("one", &format!("one step, {level}"));
        }
        shop.build("cc -Werror -c threads.c");
        shop.build("cc -Werror -g0 -O1 -c help.c -o help.o");
        shop.build("cc -Werror threads.o help.o -o two -pthread -s");
        shop.check_program("two", "compiled, then linked; -g0 and -s");

        shop.build("cc -S -O1 threads.c -o threads.s");
        shop.build("cc -c threads.s -o assembled.o");
        shop.build("cc -no-pie assembled.o help.o -o three -pthread");
        shop.check_program("three", "by way of assembly");

        shop.build("cc -c help.c -o help.o");
        let ar = shop
            .command("ar")
            .args(["rcs", "libhelp.a", "help.o"])
            .status()
            .unwrap();
        assert!(ar.success());
        shop.build("cc threads.c -L. -lhelp -o four -pthread");
        shop.check_program("four", "with a static library");

        shop.build("cc -r threads.o help.o -o both.o");
        shop.build("cc both.o -o five -pthread");
        shop.check_program("five", "by way of ld -r");
    }
}

#[test]
fn shared_libraries_and_plugins() {
    for compiler in compilers() {
        let shop = Shop::open("shared", compiler);
        shop.build("cc -fPIC -shared -Wl,-z,defs -Wl,--as-needed help.c -o libhelp.so");
        shop.build("cc threads.c -L. -lhelp -Wl,-rpath,$ORIGIN -o one -pthread");
        shop.check_program("one", "with a shared library");

        // As libtool links: every library named, none by default.
        shop.build("cc -fPIC -c help.c -o help.o");
        shop.build("cc -shared -nostdlib -Wl,-z,defs help.o -lc -o libhelp.so");
        shop.check_program("one", "with a shared library linked with -nostdlib");

        shop.write(
            "loads.c",
            "#include <dlfcn.h>\n#include <stdio.h>\nint main(void) { void *l = dlopen(\"./libhelp.so\", RTLD_NOW);\n\
             if (!l) { puts(dlerror()); return 1; } return ((int (*)(int))dlsym(l, \"helped\"))(2); }\n",
        );
        shop.build("cc loads.c -o loads -ldl");
        assert_eq!(shop.run("loads"), (Some(3), "".into()));
        // A program that was not built with us loads a library that was.
        assert!(shop.plain("cc loads.c -o plain -ldl").status.success());
        assert_eq!(shop.run("plain"), (Some(3), "".into()));
    }
}

#[test]
fn what_makes_no_program_is_left_alone() {
    for compiler in compilers() {
        let shop = Shop::open("alone", compiler);
        shop.write("head.h", "#define HEAD 1\n");
        shop.write(
            "one.c",
            "#include \"head.h\"\n#ifdef __OPTIMIZE__\nint fast;\n#endif\nint x = HEAD;\n",
        );
        for words in [
            "cc -E one.c",
            "cc -E -dM one.c",
            "cc -M one.c",
            "cc -MM -MT target one.c",
            "cc -fsyntax-only one.c",
            "cc --version",
            "cc -dumpmachine",
            "cc -dumpversion",
            "cc -print-search-dirs",
            "cc -print-prog-name=ld",
            "cc -print-file-name=libc.so",
            "cc",
            "cc -c missing.c",
            "cc -c",
            "c++ --version",
        ] {
            shop.same_as_plain(words);
        }
        shop.build("cc -MMD -MF one.d -MP -c one.c -o one.o");
        let ours = fs::read_to_string(shop.folder.join("one.d")).unwrap();
        shop.plain("cc -MMD -MF one.d -MP -c one.c -o one.o");
        assert_eq!(ours, fs::read_to_string(shop.folder.join("one.d")).unwrap());

        // Objects that cannot have a runtime beside them.
        shop.write(
            "bare.c",
            "int counter;\nint count(void) { return ++counter; }\n",
        );
        for words in [
            "-ffreestanding",
            "-nostdlib",
            "-m32",
            "-nostdlib -ffreestanding -O2",
        ] {
            shop.build(&format!("cc {words} -c bare.c -o bare.o"));
            assert!(
                !shop.symbols("bare.o").contains("tsan"),
                "{}: {words}",
                shop.c
            );
        }
        shop.build("cc -c bare.c -o bare.o");
        assert!(
            shop.symbols("bare.o").contains("__tsan_write4"),
            "{}",
            shop.c
        );

        // Assembly gets no debug information of ours.
        shop.write("code.S", "#define NAME code\n.globl NAME\nNAME: ret\n");
        shop.build("cc -c code.S -o code.o");
        shop.plain("cc -c code.S -o theirs.o");
        let read = |name: &str| fs::read(shop.folder.join(name)).unwrap();
        assert_eq!(read("code.o"), read("theirs.o"), "{}", shop.c);
        shop.build("cc -x assembler-with-cpp -c code.S -o code.o");
        assert_eq!(read("code.o"), read("theirs.o"), "{}", shop.c);
    }
}

#[test]
fn options_in_all_their_forms() {
    for compiler in compilers() {
        let shop = Shop::open("forms", compiler);
        shop.write("words", "-O1 'threads.c' \"help.c\"\n-o one -pthread");
        shop.build("cc @words");
        shop.check_program("one", "a response file");
        shop.write(
            "words",
            "-fsanitize=undefined threads.c help.c -o one -pthread",
        );
        shop.build("cc @words");
        shop.check_program("one", "a response file with another sanitizer");
        let refused =
            shop.wrapped("cc -fsanitize=undefined,address threads.c help.c -o two -pthread");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("-fsanitize=address and Norns"), "{said}");
        shop.build("cc -fsanitize=thread,undefined -fno-sanitize-recover=all threads.c help.c -o one -pthread");
        shop.check_program("one", "another sanitizer");

        // From the standard input, with -x.
        let mut child = shop
            .command(NORNS)
            .args(["cc", "-c", "-x", "c", "-", "-o", "stdin.o"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(THREADS.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
        assert!(
            shop.symbols("stdin.o").contains("__tsan_write4"),
            "{}",
            shop.c
        );
        shop.write("threads.txt", THREADS);
        shop.build("cc -x c threads.txt -x none help.c -o one -pthread");
        assert_eq!(shop.run("one"), (Some(7), OUTPUT.into()));

        let output = shop.wrapped("cc -static threads.c help.c -o one -pthread");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(String::from_utf8_lossy(&output.stderr).contains("-static is left out"));
        shop.check_program("one", "-static");

        shop.build("cc -fPIE -pie -Wl,--as-needed -Wl,-z,now threads.c help.c -o one -pthread");
        shop.check_program("one", "-pie");
        need("ld.gold", "binutils");
        shop.build("cc -fuse-ld=gold threads.c help.c -o one -pthread");
        shop.check_program("one", "gold");

        // Link-time optimisation.
        for words in ["-flto -O2", "-flto -O2 -fuse-ld=gold"] {
            let build = format!("cc {words} threads.c help.c -o one -pthread");
            shop.build(&build);
            assert_eq!(shop.run("one"), (Some(7), OUTPUT.into()));
            shop.build("cc -flto -O2 -c threads.c");
            shop.build("cc -flto -O2 -c help.c");
            shop.build(&format!("cc {words} threads.o help.o -o one -pthread"));
            assert_eq!(shop.run("one"), (Some(7), OUTPUT.into()));
            let accesses = shop
                .record("one")
                .events
                .iter()
                .filter(|event| event.op.plain_access().is_some())
                .count();
            assert!(accesses > 2, "{}: {words}: {accesses} accesses", shop.c);
        }
    }
}

#[test]
fn programs_in_cxx() {
    for compiler in compilers() {
        let shop = Shop::open("cxx", compiler);
        shop.write(
            "main.cc",
            "#include \"head.h\"\n\
             std::mutex lock;\nint shared;\n\
             template <class T> void add(T by) { std::lock_guard<std::mutex> held(lock); shared += by; }\n\
             int main() {\n  std::thread other([] { add(20); });\n  add(22L);\n  other.join();\n\
             try { throw std::runtime_error(\"caught\"); } catch (std::exception &e) { std::cout << e.what() << shared << std::endl; }\n}\n",
        );
        shop.write(
            "head.h",
            "#include <iostream>\n#include <mutex>\n#include <stdexcept>\n#include <thread>\n",
        );
        shop.build("c++ -std=c++17 -Wall -Werror -O1 main.cc -o one -pthread");
        assert_eq!(shop.run("one"), (Some(0), "caught42\n".into()));
        let trace = shop.record("one");
        let functions: Vec<_> = trace
            .events
            .iter()
            .filter(|event| matches!(event.op, Op::Write(_)))
            .flat_map(|event| {
                trace
                    .place(event.place)
                    .frames
                    .iter()
                    .map(|frame| frame.function.as_str())
            })
            .collect();
        assert!(
            functions.contains(&"add<long>") || functions.contains(&"void add<long>(long)"),
            "{functions:?}"
        );

        // A precompiled header, made and used with the same flags.
        shop.build("c++ -std=c++17 -O1 -pthread -x c++-header head.h -o head.h.gch");
        shop.build("c++ -std=c++17 -O1 -include head.h main.cc -o one -pthread");
        assert_eq!(shop.run("one"), (Some(0), "caught42\n".into()));
        // The C driver with a C++ source.
        shop.build("cc -std=c++17 -c main.cc -o main.o");
        shop.build("c++ -static-libstdc++ -static-libgcc main.o -o one -pthread");
        assert_eq!(shop.run("one"), (Some(0), "caught42\n".into()));
    }
}

/// The ways in which the wrapper can be called.
#[test]
fn every_name_of_the_wrapper() {
    let shop = Shop::open("names", compilers()[0]);
    let beside = |name: &str| Path::new(NORNS).parent().unwrap().join(name);
    for name in ["norns-cc", "norns-c++"] {
        let output = shop
            .command(beside(name))
            .arg("--version")
            .output()
            .unwrap();
        let theirs = if name == "norns-cc" {
            shop.plain("cc --version")
        } else {
            shop.plain("c++ --version")
        };
        assert_eq!(output.stdout, theirs.stdout, "{name}");
    }
    let path = format!(
        "{}:{}",
        beside("").display(),
        std::env::var("PATH").unwrap()
    );
    let output = shop
        .command("sh")
        .env("PATH", path)
        .args(["-c", "norns-cc threads.c help.c -o one -pthread"])
        .status();
    assert!(output.unwrap().success());
    shop.check_program("one", "found on PATH");

    let failing = |variable: &str, value: &str, words: &[&str]| {
        let output = shop
            .command(NORNS)
            .env(variable, value)
            .args(words)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{value}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(failing("NORNS_CC", "norns-cc", &["cc", "x.c"]).contains("names the wrapper itself"));
    assert!(failing("NORNS_CC", "no-such-compiler", &["cc", "x.c"]).contains("no-such-compiler"));
    assert!(failing("NORNS_RUNTIME", "/no/such.so", &["cc", "help.c"]).contains("/no/such.so"));
}

/// What configure scripts and build systems ask, and what they build.
#[test]
fn build_systems() {
    for compiler in compilers() {
        let shop = Shop::open("systems", compiler);
        let folder = Path::new(NORNS).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        shop.write("probe.sh", PROBES);
        let probes = |cc: &str| {
            let output = shop
                .command("sh")
                .env("PATH", &path)
                .args(["probe.sh", cc])
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert_eq!(probes("norns-cc"), probes(shop.c), "{}", shop.c);

        let mut made = shop.command("make");
        made.env("PATH", &path)
            .args(["-s", "-f", "rules", "CC=norns-cc"]);
        shop.write(
            "rules",
            "CFLAGS = -O1 -fPIC -MMD\nLDLIBS = -pthread\none: threads.o libhelp.a\n\t$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@\n\
             libhelp.a: help.o\n\tar rcs $@ $^\n",
        );
        need("make", "make");
        assert!(made.status().unwrap().success(), "{}", shop.c);
        shop.check_program("one", "make");
        need("cmake", "cmake");
        // A static library: cmake passes the folder of a shared one as -Wl,-rpath, which splits at
        // the comma in our folder's name.
        shop.write(
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.10)\nproject(try C)\nfind_package(Threads REQUIRED)\n\
             include(CheckCSourceRuns)\ncheck_c_source_runs(\"int main(void) { return 0; }\" RUNS)\n\
             if(NOT RUNS)\n  message(FATAL_ERROR runs)\nendif()\n\
             add_library(helper STATIC help.c)\nadd_executable(one threads.c)\n\
             target_link_libraries(one helper Threads::Threads)\n",
        );
        let mut cmake = shop.command("cmake");
        cmake
            .env("PATH", &path)
            .env("CC", "norns-cc")
            .args(["-S", ".", "-B", "out"])
            .stdout(Stdio::null());
        assert!(cmake.status().unwrap().success(), "{}", shop.c);
        let mut build = shop.command("cmake");
        build
            .env("PATH", &path)
            .args(["--build", "out"])
            .stdout(Stdio::null());
        assert!(build.status().unwrap().success(), "{}", shop.c);
        shop.check_program("out/one", "cmake");
    }
}

/// In the manner of autoconf: each line is a question and the answer that the compiler gives.
const PROBES: &str = r#"
cc=$1
answer() { printf '%s: %s\n' "$1" "$2"; }
compiles() { printf '%s\n' "$2" >conftest.c; if $cc $3 -c conftest.c -o conftest.o 2>conftest.err && test ! -s conftest.err; then answer "$1" yes; else answer "$1" no; fi; }
links() { printf '%s\n' "$2" >conftest.c; if $cc $3 conftest.c -o conftest $4 2>conftest.err && test ! -s conftest.err; then answer "$1" yes; else answer "$1" no; fi; }
works() { links "$1 links" "$2" "$3" "$4"; ./conftest; answer "$1 runs" $?; }
works "C compiler" 'int main(void) { return 0; }'
works "exit status" 'int main(void) { return 5; }'
printf 'int main(void) { return 0; }\n' >conftest.c; rm -f a.out; $cc conftest.c; answer "default output" "$(ls a.out)"
rm -f conftest.o; $cc -c conftest.c; answer "object suffix" "$(ls conftest.o)"
compiles "-std=gnu11" 'int x;' -std=gnu11
compiles "unknown option" 'int x;' -fno-such-option
compiles "unknown warning" 'int x;' '-Werror -Wno-such-warning'
compiles "inline" 'static inline int f(void) { return 0; } int g(void) { return f(); }'
compiles "missing header" '#include <no/such.h>'
links "pthread_create" '#include <pthread.h>
int main(void) { pthread_t t; return pthread_create(&t, 0, 0, 0) && 0; }' -pthread
links "no such function" 'int no_such_function(void); int main(void) { return no_such_function(); }'
links "library m" 'double sqrt(double); int main(int n, char **v) { return sqrt(n) > 9; }' '' -lm
links "library missing" 'int main(void) { return 0; }' '' -lno-such-library
links "version script" 'int x; int main(void) { return 0; }' -Wl,--as-needed
works "sizeof long" 'int main(void) { return sizeof(long); }'
works "128-bit atomics" 'int main(void) { static _Atomic int x; return ++x; }'
works "endian" 'int main(void) { union { long l; char c[sizeof(long)]; } u; u.l = 1; return u.c[sizeof(long) - 1] == 1; }'
compiles "-MD" 'int x;' '-MD -MF conftest.d'; answer "dependencies" "$(cat conftest.d)"
$cc -E conftest.c >conftest.i 2>&1; answer "preprocessed" "$(grep -v '^#' conftest.i)"
links "static" 'int main(void) { return 0; }' '-shared -fPIC'
answer "gcc" "$($cc -dM -E -x c /dev/null | grep -c __GNUC__)"
answer "machine" "$($cc -dumpmachine)"
answer "ld" "$($cc -print-prog-name=ld)"
answer "response" "$(echo 'conftest.c -c' >words; $cc @words && echo yes)"
"#;
