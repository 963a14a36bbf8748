//! The programs of tests/programs, interpreted and run natively. The interpreter is run under several seeds, and
//! explores schedules where these do not show what the native program did; a native run has whatever schedule it
//! gets. So the outcome of a native run must be one of those that the interpreter finds, or some schedule shows an
//! error after which a native run may do anything. No seed shows an error of a program without a bug.
//!
//! Native runs whose outcome was not found are repeated: a rare schedule is no disagreement, and only a program
//! all of whose native runs do the same, which the interpreter never does, differs. A data race is undefined
//! behaviour, after which the compiled program may do what no schedule does; a program that is meant to have
//! one does not differ, but it does not agree either.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use norns_interpret::{End, How, Input, Interpreter, Limits, Outcome, explore, explore_while};
use norns_ir::FrontEnd;

/// How many programs the interpreter may give up on: those with other processes, and what only Linux has.
const MOST_GIVEN_UP: usize = 55;

const NATIVE_RUNS: usize = 3;
/// How often a program is run for an outcome that some schedule has.
const MOST_NATIVE_RUNS: usize = 20;
const SEEDS: u64 = 4;
/// States that are explored of each program, and operations in one run.
const EXPLORED: u32 = 10_000;
const EXPLORED_STEPS: u64 = 300_000;
/// How long a native run may take, in seconds: one that the interpreter saw stuck, and any other.
const PATIENCE: [&str; 2] = ["1", "20"];

#[derive(Debug)]
enum Verdict {
    Agrees,
    /// Native runs differ from each other, and the interpreter has found the outcome of none of them.
    Varies(String),
    /// The program has a data race, and native runs do what no schedule does.
    Undefined(String),
    /// The native run takes long, and no schedule of the interpreter is stuck.
    TakesLong,
    GaveUp(String),
    /// Some schedule shows an error, after which a native run may do anything.
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
fn native(program: &Path, folder: &Path, patience: &str) -> Option<(Vec<u8>, i32)> {
    let output = Command::new("timeout")
        .args(["-k", "1", patience])
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
    // What `timeout` exits with after it has ended the program.
    (status != 124).then_some((output.stdout, status))
}

/// What the interpreter sees of a program under one schedule.
enum Interpreted {
    Ended((Vec<u8>, i32)),
    Bug(End),
    GaveUp(String),
}

fn interpreted(outcome: Outcome) -> Interpreted {
    let output = outcome.output();
    match outcome.end {
        End::GaveUp(reason) => Interpreted::GaveUp(reason),
        End::OutOfSteps => Interpreted::GaveUp("out of steps".to_owned()),
        End::Exited(status) => Interpreted::Ended((output, status)),
        End::Signal(signal) => Interpreted::Ended((output, 128 + signal)),
        End::AssertFailed { .. } => Interpreted::Ended((output, 128 + 6)),
        end @ (End::MemoryError(_) | End::Deadlock(_) | End::EndlessLoop) => Interpreted::Bug(end),
    }
}

/// What the schedules that were looked at came to.
#[derive(Default)]
struct Seen {
    outcomes: BTreeSet<(Vec<u8>, i32)>,
    bugs: Vec<End>,
}

impl Seen {
    /// Adds a schedule; an error says why the interpreter gave up.
    fn add(&mut self, outcome: Outcome) -> Result<(), String> {
        match interpreted(outcome) {
            Interpreted::Ended(outcome) => {
                self.outcomes.insert(outcome);
            }
            Interpreted::Bug(bug) => self.bugs.push(bug),
            Interpreted::GaveUp(reason) => return Err(reason),
        }
        Ok(())
    }
}

fn executable(source: &Path, folder: &Path) -> Option<PathBuf> {
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
    status.success().then_some(executable)
}

fn judge(name: &str, source: &Path, folder: &Path) -> Verdict {
    judged(name, source, folder).unwrap_or_else(Verdict::GaveUp)
}

/// An error says why the interpreter gave up.
fn judged(name: &str, source: &Path, folder: &Path) -> Result<Verdict, String> {
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut program = clang
        .read_sources(&[source.to_owned()], &[])
        .expect("the program compiles");
    program.promote_locals();
    let interpreter = Interpreter::new(&program);
    let input = Input {
        arguments: vec![b"./program".to_vec()],
        // The folder that native runs are in has no files.
        has_all_files: true,
        ..Input::default()
    };
    let how = |seed, steps| How {
        seed,
        limits: Limits {
            steps,
            runs: usize::MAX,
            ..Limits::default()
        },
        ..How::default()
    };
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        seen.add(interpreter.run(&input, &how(seed, 100_000_000)))?;
    }
    let is_sound = name.starts_with("no_race/") || name.starts_with("no_deadlock/");
    let bug = seen.bugs.first().map(End::to_string);
    if let Some(bug) = &bug
        && is_sound
    {
        return Ok(Verdict::Differs(bug.clone()));
    }
    let Some(executable) = executable(source, folder) else {
        return Err("it does not link without Norns".to_owned());
    };
    let is_stuck = |end: &End| matches!(end, End::Deadlock(_) | End::EndlessLoop);
    let patience = PATIENCE[usize::from(!seen.bugs.iter().any(is_stuck))];
    let mut natively = BTreeSet::new();
    let mut is_found = false;
    for count in 1..=MOST_NATIVE_RUNS {
        match (native(&executable, folder, patience), &bug) {
            (Some(outcome), _) => {
                is_found |= seen.outcomes.contains(&outcome);
                natively.insert(outcome);
            }
            // It is stuck, or the machine is busy.
            (None, Some(bug)) => return Ok(Verdict::Bug(bug.clone())),
            (None, None) => return Ok(Verdict::TakesLong),
        }
        if count >= NATIVE_RUNS && (is_found || bug.is_some()) {
            break;
        }
    }
    if !is_found && bug.is_none() {
        let states = Cell::new(0);
        let goes_on = || {
            states.set(states.get() + 1);
            states.get() < EXPLORED
        };
        let how = how(0, EXPLORED_STEPS);
        for outcome in explore_while(&program, &input, &how, &goes_on).outcomes {
            // One that was given up says nothing of the others.
            let _ = seen.add(outcome);
        }
        is_found = natively.iter().any(|one| seen.outcomes.contains(one));
    }
    if is_found {
        return Ok(Verdict::Agrees);
    }
    let bug = bug.or_else(|| seen.bugs.first().map(End::to_string));
    if let Some(bug) = bug
        && !is_sound
    {
        return Ok(Verdict::Bug(bug));
    }
    let text = |(output, status): &(Vec<u8>, i32)| {
        format!("{:?}, status {status}", String::from_utf8_lossy(output))
    };
    let interpreted = seen.outcomes.first().map(text).unwrap_or_default();
    let others = natively.first().map(text).unwrap_or_default();
    let both = format!("{interpreted} but natively {others}");
    let source = std::fs::read_to_string(source).expect("a program can be read");
    Ok(match natively.len() {
        _ if source.contains("finds: data-race") => Verdict::Undefined(both),
        1 => Verdict::Differs(both),
        _ => Verdict::Varies(both),
    })
}

/// The programs whose lines say that freed memory is used or freed there. A run ends at the first of them.
#[test]
fn an_exploration_finds_uses_of_freed_memory() {
    const USES: [&str; 4] = [
        "finds: use-after-free read",
        "finds: use-after-free write",
        "finds: use-after-free use",
        "finds: double-free",
    ];
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut count = 0;
    for (name, path) in programs() {
        let text = std::fs::read_to_string(&path).expect("a program can be read");
        let lines = (1..).zip(text.lines());
        let expected = lines.filter(|(_, line)| USES.iter().any(|one| line.contains(one)));
        let expected: BTreeSet<u32> = expected.map(|(number, _)| number).collect();
        if expected.is_empty() {
            continue;
        }
        count += 1;
        let mut program = clang
            .read_sources(&[path], &[])
            .expect("the program compiles");
        program.promote_locals();
        let found = explore(&program, &Input::default(), &How::default());
        let lines = { found.outcomes.iter() }
            .filter(|outcome| matches!(&outcome.end, End::MemoryError(_)))
            .filter_map(|outcome| Some(outcome.stack.first()?.line));
        let lines: BTreeSet<u32> = lines.collect();
        let is_right = !lines.is_empty() && lines.is_subset(&expected);
        assert!(is_right, "{name}: {lines:?}, not {expected:?}");
    }
    assert!(count >= 6, "{count} programs");
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
    let (mut agree, mut bugs, mut given_up, mut differ) = (0, 0, 0, Vec::new());
    for (name, verdict) in &verdicts {
        match verdict {
            Verdict::Agrees => agree += 1,
            Verdict::Bug(bug) => {
                bugs += 1;
                println!("{name}: a schedule shows an error: {bug}");
            }
            Verdict::Varies(how) => println!("{name}: native runs differ: {how}"),
            Verdict::Undefined(how) => println!("{name}: has a data race: {how}"),
            Verdict::TakesLong => println!("{name}: the native run takes long"),
            Verdict::GaveUp(reason) => {
                given_up += 1;
                println!("{name}: given up: {reason}");
            }
            Verdict::Differs(how) => {
                println!("{name}: DIFFERS: {how}");
                differ.push(name.as_str());
            }
        }
    }
    let all = verdicts.len();
    println!(
        "{all} programs: {agree} agree, {bugs} show an error instead, {} differ, {given_up} given up",
        differ.len()
    );
    assert!(differ.is_empty(), "{differ:#?}");
    assert!(
        given_up <= MOST_GIVEN_UP,
        "{given_up} programs were given up on"
    );
    let rest = all - given_up;
    assert!(
        10 * (agree + bugs) >= 9 * rest,
        "of {rest} programs {agree} agree and {bugs} show an error"
    );
}
