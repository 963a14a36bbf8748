//! The programs of tests/programs: what runs show in them must be among their candidates, and those in which
//! runs show nothing must have few. The programs of tests/shapes of this crate have exactly the candidates that
//! they name: `candidate: data-race, with 12` at both lines, or another kind at each of its lines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use norns_ir::FrontEnd;
use norns_scan::{CandidateKind, Scan, scan};

/// Races that a scan does not see, and why.
const NOT_SEEN: &[(&str, &str)] = &[
    ("race/after_signal.c", "signal handlers are not followed"),
    (
        "race/asynchronous_write.c",
        "the buffers of asynchronous requests are not followed",
    ),
    (
        "race/before_the_child_answers.c",
        "what a pipe orders is not followed through another process",
    ),
    (
        "misuse/in_freed_memory.c",
        "a use that comes after the free in every schedule is no race",
    ),
    ("race/closed_in_use.c", "descriptors have no life"),
    (
        "race/freed_before.c",
        "a use that comes after the free in every schedule is no race",
    ),
    ("race/replaced_or_closed.c", "descriptors have no life"),
    (
        "race/thread_local_destructor.cpp",
        "destructors that run when a thread ends are not followed",
    ),
];

const PROCESSES: &str = "what another process does between two threads is not followed";
const NAMES: &str = "that a file is there, or not, orders nothing";
const KERNEL: &str = "this call of the kernel orders nothing yet";

/// Programs without a race that have candidates, and why.
const WITHOUT_RACE: &[(&str, &str)] = &[
    (
        "no_race/accepted_connection.c",
        "connections are not followed",
    ),
    (
        "no_race/awaited_signal.c",
        "signals of the kernel are not followed",
    ),
    (
        "no_race/chain_of_locks.c",
        "which value a thread waits for comes from its argument",
    ),
    ("no_race/child_ends.c", PROCESSES),
    ("no_race/child_is_killed.c", PROCESSES),
    ("no_race/closed_after_event.c", "descriptors have no life"),
    ("no_race/copied_range.c", KERNEL),
    ("no_race/event_semaphore.c", KERNEL),
    ("no_race/file_appears.c", NAMES),
    ("no_race/library_threads.cpp", "futures are not followed"),
    ("no_race/listener_shut_down.c", KERNEL),
    ("no_race/lock_by_name.c", NAMES),
    ("no_race/lock_directory.c", NAMES),
    ("no_race/many_rounds.c", "a barrier in a loop"),
    ("no_race/named_pipe.c", NAMES),
    ("no_race/number_again.c", "descriptors have no life"),
    ("no_race/passed_descriptor.c", KERNEL),
    (
        "no_race/pending_signal.c",
        "signals of the kernel are not followed",
    ),
    ("no_race/promise.cpp", "futures are not followed"),
    ("no_race/self_pipe.c", "signal handlers are not followed"),
    ("no_race/set_semaphore.c", KERNEL),
    ("no_race/through_splice.c", KERNEL),
    (
        "no_race/unusual_locking.c",
        "that an error-checking mutex refuses its owner is not known",
    ),
    ("no_race/watched_file.c", KERNEL),
    (
        "no_deadlock/polled_state.c",
        "the flag is asked for in a loop of its own",
    ),
    (
        "no_deadlock/signal_cannot_be_lost.c",
        "the wait is in no loop, which is worth a look",
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs")
}

fn programs(folder_name: &str) -> Vec<(String, PathBuf)> {
    programs_below(&folder(), folder_name)
}

fn programs_below(folder: &Path, folder_name: &str) -> Vec<(String, PathBuf)> {
    let folder = folder.join(folder_name);
    let files = std::fs::read_dir(&folder).expect("the folder of programs is there");
    let mut all: Vec<(String, PathBuf)> = files
        .map(|file| file.expect("its files can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "c" || extension == "cpp")
        })
        .map(|path| {
            let name = path
                .file_name()
                .expect("a file has a name")
                .to_string_lossy();
            (format!("{folder_name}/{name}"), path.clone())
        })
        .collect();
    all.sort();
    all
}

fn scanned(path: &Path) -> Scan {
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut program = clang
        .read_sources(&[path.to_owned()], &[])
        .expect("the program compiles");
    program.promote_locals();
    scan(&program)
}

/// The pairs of lines that a program says to race, and the lines of its deadlocks.
fn expected(path: &Path) -> (BTreeSet<(u32, u32)>, BTreeSet<u32>) {
    let text = std::fs::read_to_string(path).expect("a program can be read");
    let (mut races, mut deadlocks) = (BTreeSet::new(), BTreeSet::new());
    for (number, line) in (1..).zip(text.lines()) {
        let what = line
            .split_once("// finds: ")
            .or_else(|| line.split_once("// may find: "));
        let Some((_, what)) = what else {
            continue;
        };
        if what.starts_with("deadlock") {
            deadlocks.insert(number);
        }
        let Some((_, partners)) = what.split_once(", with ") else {
            continue;
        };
        if partners.starts_with("itself") {
            races.insert((number, number));
        }
        let words = partners.split(|letter: char| !letter.is_ascii_digit());
        for partner in words.filter_map(|word| word.parse::<u32>().ok()) {
            races.insert((number.min(partner), number.max(partner)));
        }
    }
    (races, deadlocks)
}

fn lines(scan: &Scan, kind: CandidateKind) -> Vec<Vec<u32>> {
    let found = scan
        .candidates
        .iter()
        .filter(|candidate| candidate.kind == kind);
    found
        .map(|candidate| {
            let mut lines: Vec<u32> = candidate.places.iter().map(|place| place.at.line).collect();
            lines.sort_unstable();
            lines
        })
        .collect()
}

#[test]
fn every_race_that_runs_show_is_a_candidate() {
    let mut missed = Vec::new();
    for folder in ["race", "misuse", "deadlock"] {
        for (name, path) in programs(folder) {
            let found = lines(&scanned(&path), CandidateKind::DataRace);
            for (first, second) in expected(&path).0 {
                if !found.contains(&vec![first, second]) {
                    missed.push(format!("{name}: {first} and {second}"));
                }
            }
        }
    }
    missed.retain(|race| !NOT_SEEN.iter().any(|(name, _)| race.starts_with(name)));
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn every_deadlock_that_runs_show_is_a_candidate() {
    let mut missed = Vec::new();
    for (name, path) in programs("deadlock") {
        let scan = scanned(&path);
        let found = lines(&scan, CandidateKind::Deadlock).concat();
        for line in expected(&path).1 {
            if !found.contains(&line) {
                missed.push(format!("{name}: {line}"));
            }
        }
    }
    // A lock that the program makes itself, of a flag and an owner.
    missed.retain(|deadlock| !deadlock.starts_with("deadlock/own_recursive_lock.c"));
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The kinds and lines of the candidates of a scan, one entry for each pair of lines of a race.
fn found(scan: &Scan) -> BTreeSet<(String, Vec<u32>)> {
    let candidates = scan.candidates.iter().map(|candidate| {
        let lines: BTreeSet<u32> = candidate.places.iter().map(|place| place.at.line).collect();
        (
            candidate.kind.name().to_owned(),
            lines.into_iter().collect(),
        )
    });
    candidates.collect()
}

#[test]
fn each_shape_has_its_candidates() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes");
    let mut differences = Vec::new();
    for (name, path) in [
        programs_below(&folder, "wrong"),
        programs_below(&folder, "right"),
    ]
    .concat()
    {
        let text = std::fs::read_to_string(&path).expect("a program can be read");
        let mut wanted: BTreeSet<(String, u32)> = BTreeSet::new();
        let mut races: BTreeSet<Vec<u32>> = BTreeSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            let Some((_, what)) = line.split_once("// candidate: ") else {
                continue;
            };
            let Some((_, partners)) = what.split_once(", with ") else {
                wanted.insert((what.to_owned(), number));
                continue;
            };
            let partners = partners.split(" and ").map(|word| {
                word.parse::<u32>()
                    .expect("the line of the other access is a number")
            });
            races.extend(partners.map(|other| {
                let pair = BTreeSet::from([number, other]);
                pair.into_iter().collect()
            }));
        }
        let found = found(&scanned(&path));
        let (found_races, others): (Vec<_>, Vec<_>) =
            { found.into_iter() }.partition(|(kind, _)| kind == "data-race");
        let found_races: BTreeSet<Vec<u32>> =
            found_races.into_iter().map(|(_, lines)| lines).collect();
        let others: BTreeSet<(String, u32)> = { others.into_iter() }
            .flat_map(|(kind, lines)| lines.into_iter().map(move |line| (kind.clone(), line)))
            .collect();
        if (&found_races, &others) != (&races, &wanted) {
            differences.push(format!("{name}: {found_races:?} {others:?}"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn few_programs_without_a_bug_have_candidates() {
    let mut found = Vec::new();
    for folder in ["no_race", "no_deadlock"] {
        for (name, path) in programs(folder) {
            if !scanned(&path).candidates.is_empty() {
                found.push(name);
            }
        }
    }
    let explained: Vec<&str> = WITHOUT_RACE.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, explained);
    let all = programs("no_race").len() + programs("no_deadlock").len();
    // The aim is one in ten. What the runtime has learnt of the kernel (`KERNEL`, `NAMES`, `PROCESSES`) the scan has not.
    assert!(
        found.len() * 5 <= all,
        "{} of {all} have candidates",
        found.len()
    );
}
