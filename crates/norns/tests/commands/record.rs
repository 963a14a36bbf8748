//! Programs of tests/programs/record, run as they are and recorded: their output and status must
//! be the same, and the trace must hold what their lines say.
//!
//! In a program: `// records: T0.1 lock mutex, T0 no write, write x3` on a line says that some event
//! of that thread (or of any) at that line is a lock of a mutex, that none is a write, that exactly
//! three are writes; `depth 2` that the events at this line happen inside two functions of their
//! thread. `// flags: …` are for the compiler, `// compilers: clang` names the only ones that can
//! compile it, `// objects: 4 mutex` counts objects, `// warns` says that there are warnings.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use norns_trace::{AtomicKind, Event, ObjectKind, Op, Trace, Warning};

use crate::tools::compilers;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The runtime, built as it is used: with all optimisations.
fn runtime() -> &'static Path {
    static RUNTIME: OnceLock<PathBuf> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--release", "--package", "norns-rt"])
            .current_dir(root())
            .status()
            .expect("cargo runs: it started this test");
        assert!(status.success(), "the runtime does not build");
        let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
        let library = target.join("release/libnorns_rt.so");
        fs::canonicalize(library).expect("cargo build left the library there")
    })
}

fn norns() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_norns"));
    command.env("NORNS_RUNTIME", runtime());
    command
}

/// A folder of this test's own, removed when it passes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = env::temp_dir().join(format!("norns-record-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("the command can be run");
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A program that hangs must not hang the tests.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "100"]).arg(program);
    command
}

/// What shells say about a status: 128 and the number for a signal.
fn status(output: &Output) -> i32 {
    output
        .status
        .code()
        .unwrap_or_else(|| 128 + output.status.signal().expect("no code means a signal"))
}

#[derive(Default)]
struct Expectations {
    flags: Vec<String>,
    compilers: Vec<String>,
    warns: bool,
    objects: Vec<(usize, String)>,
    /// Line number and one expectation each.
    records: Vec<(u32, String)>,
}

impl Expectations {
    fn read(source: &str) -> Expectations {
        let mut found = Expectations::default();
        let words = |text: &str| text.split_whitespace().map(String::from).collect();
        for (index, line) in source.lines().enumerate() {
            let Some((_, comment)) = line.split_once("// ") else {
                continue;
            };
            if let Some(text) = comment.strip_prefix("flags: ") {
                found.flags = words(text);
            } else if let Some(text) = comment.strip_prefix("compilers: ") {
                found.compilers = words(text);
            } else if comment == "warns" {
                found.warns = true;
            } else if let Some(text) = comment.strip_prefix("objects: ") {
                let (count, kind) = text.split_once(' ').expect("objects: COUNT KIND");
                let count = count.parse().expect("objects: COUNT KIND");
                found.objects.push((count, kind.to_string()));
            } else if let Some(text) = comment.strip_prefix("records: ") {
                for one in text.split(", ") {
                    found.records.push((index as u32 + 1, one.to_string()));
                }
            }
        }
        found
    }
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Start => "start",
        Op::End => "end",
        Op::Fork(_) => "fork",
        Op::Join(_) => "join",
        Op::FailedJoin(_) => "failed-join",
        Op::Detach(_) => "detach",
        Op::Lock(_) => "lock",
        Op::FailedLock(_) => "failed-lock",
        Op::ReadLock(_) => "read-lock",
        Op::FailedReadLock(_) => "failed-read-lock",
        Op::Unlock(_) => "unlock",
        Op::OnceBegin(_) => "once-begin",
        Op::OnceEnd(_) => "once-end",
        Op::OncePass(_) => "once-pass",
        Op::Wait(_) => "wait",
        Op::FailedWait(_) => "failed-wait",
        Op::Signal(_) => "signal",
        Op::Broadcast(_) => "broadcast",
        Op::BarrierInit { .. } => "barrier-init",
        Op::BarrierEnter(_) => "barrier-enter",
        Op::BarrierExit(_) => "barrier-exit",
        Op::SemInit { .. } => "sem-init",
        Op::SemWait(_) => "sem-wait",
        Op::FailedSemWait(_) => "failed-sem-wait",
        Op::SemPost(_) => "sem-post",
        Op::Take(_) => "take",
        Op::FailedTake(_) => "failed-take",
        Op::Give(_) => "give",
        Op::Misuse { .. } => "misuse",
        Op::LoopExit(_) => "loop-exit",
        Op::Send(_) => "send",
        Op::Receive(_) => "receive",
        Op::Atomic { .. } => "atomic",
        Op::Fence(_) => "fence",
        Op::Read(_) => "read",
        Op::Write(_) => "write",
        Op::Allocate(_) => "allocate",
        Op::Free(_) => "free",
        Op::Use(_) => "use",
        Op::Destroy(_) => "destroy",
        Op::Initialise(_) => "initialise",
        Op::Enter => "enter",
        Op::Leave => "leave",
        Op::Custom(_) => "custom",
    }
}

/// What is operated on, in one word.
fn kind(trace: &Trace, op: Op) -> &'static str {
    if let Op::Atomic { kind, .. } = op {
        return match kind {
            AtomicKind::Load => "load",
            AtomicKind::Store => "store",
            AtomicKind::ReadModifyWrite => "rmw",
            AtomicKind::FailedExchange => "failed",
        };
    }
    op.object()
        .map_or("", |object| object_kind(trace.object(object).kind))
}

fn object_kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Mutex => "mutex",
        ObjectKind::RecursiveMutex => "recursive",
        ObjectKind::ErrorCheckingMutex => "error-checking",
        ObjectKind::RobustMutex => "robust",
        ObjectKind::ReaderWriterLock => "reader-writer",
        ObjectKind::SpinLock => "spin",
        ObjectKind::Once => "once",
        ObjectKind::Condition => "condition",
        ObjectKind::Barrier => "barrier",
        ObjectKind::Semaphore => "semaphore",
        ObjectKind::Channel => "channel",
    }
}

/// How many events there are of each (line, thread, name, kind), and the depths at each line.
struct Seen {
    counts: BTreeMap<(u32, String, &'static str, &'static str), usize>,
    depths: BTreeMap<u32, Vec<usize>>,
}

impl Seen {
    fn read(trace: &Trace, file: &str) -> Seen {
        let mut seen = Seen {
            counts: BTreeMap::new(),
            depths: BTreeMap::new(),
        };
        let mut depths = vec![0usize; trace.threads.len()];
        for event in &trace.events {
            let depth = &mut depths[event.thread.index()];
            match event.op {
                Op::Enter => *depth += 1,
                Op::Leave => *depth -= 1,
                _ => {}
            }
            let place = trace.place(event.place);
            let frame = place.frames.iter().find(|frame| frame.file.ends_with(file));
            if let Some(frame) = frame {
                let thread = trace.thread(event.thread).name.clone();
                let key = (frame.line, thread, name(event.op), kind(trace, event.op));
                *seen.counts.entry(key).or_default() += 1;
                seen.depths.entry(frame.line).or_default().push(*depth);
            }
        }
        seen
    }

    /// What is wrong with one expectation, if something is.
    fn problem(&self, line: u32, expected: &str) -> Option<String> {
        let mut words: Vec<&str> = expected.split_whitespace().collect();
        if let ["depth", depth] = words[..] {
            let wanted: usize = depth.parse().expect("depth NUMBER");
            let found = self.depths.get(&line)?;
            return found
                .iter()
                .find(|depth| **depth != wanted)
                .map(|depth| format!("an event is at depth {depth}"));
        }
        let thread = words
            .first()
            .is_some_and(|word| word.starts_with('T'))
            .then(|| words.remove(0));
        let none = words.first() == Some(&"no");
        if none {
            words.remove(0);
        }
        let exact = words
            .last()
            .and_then(|word| word.strip_prefix('x')?.parse::<usize>().ok());
        if exact.is_some() {
            words.pop();
        }
        let operation = words.remove(0);
        let what = words.pop();
        let count: usize = self
            .counts
            .iter()
            .filter(|((at, of, name, kind), _)| {
                *at == line
                    && *name == operation
                    && thread.is_none_or(|thread| thread == of)
                    && what.is_none_or(|what| what == *kind)
            })
            .map(|(_, count)| count)
            .sum();
        let right = match (none, exact) {
            (true, _) => count == 0,
            (false, Some(exact)) => count == exact,
            (false, None) => count > 0,
        };
        (!right).then(|| format!("there are {count}"))
    }
}

fn load(path: &Path) -> (Trace, Vec<Warning>) {
    norns_trace::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compiles and runs one program both ways and compares.
fn check(source: &Path, (c, cxx): (&'static str, &'static str)) {
    let file = source.file_name().expect("a source file").to_string_lossy();
    let text = fs::read_to_string(source).expect("a program can be read");
    let expected = Expectations::read(&text);
    if !expected.compilers.is_empty() && !expected.compilers.iter().any(|name| c.starts_with(name))
    {
        return;
    }
    let folder = Folder::new(&format!("{file}-{c}"));
    let is_c = file.ends_with(".c");
    let flags = ["-O1", "-g", "-w", "-pthread"];
    let compile = |command: &mut Command, output: &Path| {
        succeed(
            command
                .args(flags)
                .args(&expected.flags)
                .arg(source)
                .arg("-o")
                .arg(output),
        );
    };
    let (plain, seen) = (folder.file("plain"), folder.file("seen"));
    compile(&mut Command::new(if is_c { c } else { cxx }), &plain);
    compile(
        norns()
            .arg(if is_c { "cc" } else { "c++" })
            .env("NORNS_CC", c)
            .env("NORNS_CXX", cxx),
        &seen,
    );
    let trace = folder.file("trace.norns");
    let without = limited(&plain).output().expect("the program runs");
    let with = norns()
        .args(["record", "--quiet", "--output"])
        .arg(&trace)
        .args(["--", "timeout", "--signal=KILL", "100"])
        .arg(&seen)
        .output()
        .expect("norns runs");
    let what = format!("{file} with {c}");
    let errors = String::from_utf8_lossy(&with.stderr);
    assert_eq!(
        String::from_utf8_lossy(&with.stdout),
        String::from_utf8_lossy(&without.stdout),
        "{what}: output differs\n{errors}"
    );
    assert_eq!(
        status(&with),
        status(&without),
        "{what}: status differs\n{errors}"
    );

    let off = limited(&seen).output().expect("the program runs");
    assert_eq!(
        off.stdout, without.stdout,
        "{what}: output differs when not recorded"
    );

    let (trace, warnings) = load(&trace);
    if !expected.warns {
        assert!(
            warnings.is_empty() && errors.is_empty(),
            "{what}: {errors} {warnings:?}"
        );
    }
    let is_of_the_runtime = |event: &&Event| {
        let mut frames = trace.place(event.place).frames.iter();
        matches!(event.op, Op::Read(_) | Op::Write(_))
            && frames.any(|frame| frame.file.contains("/norns-rt/src/"))
    };
    let own = trace.events.iter().find(is_of_the_runtime);
    assert_eq!(own, None, "{what}: the runtime's own memory was recorded");
    let events = Seen::read(&trace, &file);
    let problems: Vec<String> = expected
        .records
        .iter()
        .filter_map(|(line, expected)| {
            let problem = events.problem(*line, expected)?;
            Some(format!("{file}:{line}: expected {expected}, but {problem}"))
        })
        .collect();
    assert!(problems.is_empty(), "{what}:\n{}", problems.join("\n"));
    for (count, kind) in &expected.objects {
        let of_kind = trace
            .objects
            .iter()
            .filter(|object| object_kind(object.kind) == kind);
        assert_eq!(of_kind.count(), *count, "{what}: objects of kind {kind}");
    }
}

fn check_all(of_these: impl Fn(&str) -> bool) {
    let programs = root().join("tests/programs/record");
    let mut sources: Vec<PathBuf> = fs::read_dir(&programs)
        .expect("the programs are in the repository")
        .map(|entry| entry.expect("a folder entry").path())
        .collect();
    sources.sort();
    // To look at one: ONLY=jumps cargo test …
    if let Ok(only) = env::var("ONLY") {
        sources.retain(|source| source.display().to_string().contains(&only));
    }
    let mut failed = Vec::new();
    for compiler in compilers().into_iter().filter(|(c, _)| of_these(c)) {
        for source in &sources {
            // Go on, to show all that is wrong; the message of each is printed.
            if std::panic::catch_unwind(|| check(source, compiler)).is_err() {
                failed.push((source.display().to_string(), compiler.0));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn programs_of_gcc_behave_as_without_us_and_are_recorded() {
    check_all(|compiler| compiler == "gcc");
}

#[test]
fn programs_of_clang_behave_as_without_us_and_are_recorded() {
    check_all(|compiler| compiler.starts_with("clang"));
}

#[test]
fn a_program_that_was_not_rebuilt_gives_its_synchronisation() {
    let folder = Folder::new("preload");
    let source = root().join("tests/programs/record/counters.c");
    let program = folder.file("program");
    let compiler = compilers()[0].0;
    succeed(
        Command::new(compiler)
            .args(["-O1", "-g", "-pthread", "-o"])
            .arg(&program)
            .arg(&source),
    );
    let path = folder.file("trace.norns");
    let output = norns()
        .arg("record")
        .arg("--output")
        .arg(&path)
        .arg("--")
        .arg(&program)
        .output()
        .expect("norns runs");
    assert!(output.status.success(), "{output:?}");
    let (trace, warnings) = load(&path);
    assert!(warnings.is_empty(), "{warnings:?}");
    let seen = Seen::read(&trace, "counters.c");
    let of = |name: &str| -> usize {
        let named = seen.counts.iter().filter(|(key, _)| key.2 == name);
        named.map(|(_, count)| count).sum()
    };
    assert_eq!(
        (of("lock"), of("unlock"), of("fork"), of("join")),
        (80000, 80000, 4, 4)
    );
    assert_eq!((of("read"), of("write")), (0, 0));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("synchronisation only"), "{said}");
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let output = norns()
        .args(["record", "--output", "/dev/null", "--", "/no/such/program"])
        .output()
        .expect("norns runs");
    assert_eq!(output.status.code(), Some(2));
}
