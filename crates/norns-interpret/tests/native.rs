//! The programs of tests/programs, interpreted and run natively. Where the native program always does the same:
//! every schedule of a program without a bug does that in the interpreter, too; in a program with one, some
//! schedule does, or shows an error after which a native run may do anything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use norns_interpret::{End, How, Input, Interpreter, Limits};
use norns_ir::FrontEnd;

/// How many programs the interpreter may give up on: processes, signals, sockets, `setjmp` and others.
const MOST_GIVEN_UP: usize = 84;

/// How many agree at least, on a machine that is so busy that native runs take long.
const LEAST_AGREE: usize = 200;

const NATIVE_RUNS: usize = 3;
const SEEDS: u64 = 4;
/// How many schedules of a program with a bug are tried for the one that native runs take.
const MOST_SEEDS: u64 = 100;

#[derive(Debug)]
enum Verdict {
    Agrees,
    /// Native runs differ from each other.
    Varies,
    /// The native run takes long, and no schedule of the interpreter is stuck.
    TakesLong,
    GaveUp(String),
    /// Some schedule shows a bug; the others agree with the native program.
    Bug(String),
    Differs(String),
}

fn programs() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let mut all = Vec::new();
    for folder in std::fs::read_dir(&root).expect("the folder of programs is there") {
        let folder = folder.expect("its folders can be listed").path();
        let Ok(files) = std::fs::read_dir(&folder) else {
            continue;
        };
        for file in files {
            let path = file.expect("its files can be listed").path();
            let is_source = path
                .extension()
                .is_some_and(|end| end == "c" || end == "cpp");
            if is_source {
                let name = path
                    .strip_prefix(&root)
                    .expect("it is below")
                    .to_string_lossy()
                    .into_owned();
                all.push((name, path));
            }
        }
    }
    all.sort();
    all
}

/// The output and the exit status, or 128 and the signal, of a native run; `None` if it takes too long.
fn native(program: &Path, folder: &Path) -> Option<(Vec<u8>, i32)> {
    let output = Command::new("timeout")
        .args(["-s", "KILL", "1"])
        .arg(program)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("timeout is installed (apt-get install coreutils)");
    use std::os::unix::process::ExitStatusExt;
    let status = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or_default(),
    };
    (status != 128 + 9).then_some((output.stdout, status))
}

/// What the interpreter sees of a program under one schedule.
enum Interpreted {
    Ended((Vec<u8>, i32)),
    Bug(String),
    GaveUp(String),
}

fn interpret(interpreter: &Interpreter, seed: u64) -> Interpreted {
    let input = Input {
        arguments: vec![b"./program".to_vec()],
        ..Input::default()
    };
    let limits = Limits {
        steps: 50_000_000,
        ..Limits::default()
    };
    let outcome = interpreter.run(
        &input,
        &How {
            seed,
            limits,
            ..How::default()
        },
    );
    let output = outcome.output();
    match outcome.end {
        End::GaveUp(reason) => Interpreted::GaveUp(reason),
        End::OutOfSteps => Interpreted::GaveUp("out of steps".to_owned()),
        End::Exited(status) => Interpreted::Ended((output, status)),
        End::Signal(signal) => Interpreted::Ended((output, 128 + signal)),
        End::AssertFailed { .. } => Interpreted::Ended((output, 128 + 6)),
        end @ (End::MemoryError(_) | End::Deadlock(_) | End::EndlessLoop) => {
            Interpreted::Bug(end.to_string())
        }
    }
}

fn judge(name: &str, source: &Path, folder: &Path) -> Verdict {
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut program = clang
        .read_sources(&[source.to_owned()], &[])
        .expect("the program compiles");
    program.promote_locals();
    let interpreter = Interpreter::new(&program);
    let mut outcomes = Vec::new();
    let mut bugs = Vec::new();
    for seed in 0..SEEDS {
        match interpret(&interpreter, seed) {
            Interpreted::Ended(outcome) => outcomes.push(outcome),
            Interpreted::Bug(bug) => bugs.push(bug),
            Interpreted::GaveUp(reason) => return Verdict::GaveUp(reason),
        }
    }
    let executable = folder.join("program");
    let compiler = match source.extension().is_some_and(|end| end == "cpp") {
        true => "clang++-19",
        false => "clang-19",
    };
    let status = Command::new(compiler)
        .args(["-w", "-g", "-pthread", "-o"])
        .arg(&executable)
        .arg(source)
        .args(["-lm", "-lrt", "-ldl", "-Wl,--unresolved-symbols=ignore-all"])
        .stderr(Stdio::null())
        .status()
        .expect("clang is installed (apt-get install clang-19)");
    if !status.success() {
        return Verdict::GaveUp("it does not link without Norns".to_owned());
    }
    let first = native(&executable, folder);
    let more = if first.is_some() { NATIVE_RUNS - 1 } else { 0 };
    if (0..more).any(|_| native(&executable, folder) != first) {
        return Verdict::Varies;
    }
    let is_sound = name.starts_with("no_race/") || name.starts_with("no_deadlock/");
    let is_native = |outcome: &(Vec<u8>, i32)| Some(outcome) == first.as_ref();
    // The native schedule can be one of few.
    let mut seeds = SEEDS..MOST_SEEDS;
    while !is_sound && bugs.is_empty() && !outcomes.iter().any(is_native) {
        match seeds.next().map(|seed| interpret(&interpreter, seed)) {
            Some(Interpreted::Ended(outcome)) => outcomes.push(outcome),
            Some(Interpreted::Bug(bug)) => bugs.push(bug),
            Some(Interpreted::GaveUp(reason)) => return Verdict::GaveUp(reason),
            None => break,
        }
    }
    // A native run that takes long is stuck, or the machine is busy.
    let Some(native) = &first else {
        return match bugs.is_empty() {
            true => Verdict::TakesLong,
            false => Verdict::Agrees,
        };
    };
    let mut others = outcomes.iter().filter(|outcome| *outcome != native);
    let agrees = match is_sound {
        true => others.next().is_none(),
        false => !bugs.is_empty() || outcomes.contains(native),
    };
    if !agrees {
        let text = |(output, status): &(Vec<u8>, i32)| {
            format!("{:?}, status {status}", String::from_utf8_lossy(output))
        };
        let other = outcomes.iter().find(|outcome| *outcome != native);
        let other = other.expect("without a bug every run has an outcome");
        return Verdict::Differs(format!("{} but natively {}", text(other), text(native)));
    }
    match bugs.into_iter().next() {
        Some(bug) if is_sound => Verdict::Differs(bug),
        Some(bug) => Verdict::Bug(bug),
        None => Verdict::Agrees,
    }
}

#[test]
fn the_interpreter_agrees_with_native_runs() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native");
    let all = programs();
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, path)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let folder = scratch.join(name.replace('/', "_"));
                    std::fs::create_dir_all(&folder).expect("the scratch folder can be made");
                    let verdict = judge(name, path, &folder);
                    verdicts
                        .lock()
                        .expect("no thread panicked")
                        .insert(name.clone(), verdict);
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().expect("no thread panicked");
    let (mut agree, mut given_up, mut differ) = (0, 0, Vec::new());
    for (name, verdict) in &verdicts {
        match verdict {
            Verdict::Agrees => agree += 1,
            Verdict::Varies => println!("{name}: native runs differ"),
            Verdict::TakesLong => println!("{name}: the native run takes long"),
            Verdict::GaveUp(reason) => {
                given_up += 1;
                println!("{name}: given up: {reason}");
            }
            Verdict::Bug(bug) => {
                agree += 1;
                println!("{name}: agrees; another schedule: {bug}");
            }
            Verdict::Differs(how) => {
                println!("{name}: DIFFERS: {how}");
                differ.push(name.as_str());
            }
        }
    }
    println!(
        "{} programs: {agree} agree, {} differ, {given_up} given up",
        verdicts.len(),
        differ.len()
    );
    assert!(differ.is_empty(), "{differ:#?}");
    assert!(
        given_up <= MOST_GIVEN_UP,
        "{given_up} programs were given up on"
    );
    assert!(agree >= LEAST_AGREE, "{agree} programs agree");
}
