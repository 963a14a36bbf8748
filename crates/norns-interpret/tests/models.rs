//! The programs of tests/classify that say what each memory model allows: all of it is found, and no more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use norns_interpret::{Decision, End, How, Input, Interpreter, MemoryModel, explore};
use norns_ir::FrontEnd;

const MODELS: &[(&str, MemoryModel)] = &[
    ("sc", MemoryModel::SequentiallyConsistent),
    ("tso", MemoryModel::Tso),
    ("weak", MemoryModel::Weak),
];

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/classify");
    let files = std::fs::read_dir(folder).expect("the folder of programs is there");
    let mut all: Vec<PathBuf> = files
        .map(|file| file.expect("its files can be listed").path())
        .filter(|path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.contains("// outputs sc:") || text.contains("// ends sc:")
        })
        .collect();
    all.sort();
    all
}

/// The words behind `// outputs MODEL:` or `// ends MODEL:`.
fn expected(text: &str, what: &str, model: &str, separator: &str) -> Option<BTreeSet<String>> {
    let start = format!("// {what} {model}: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start))?;
    Some(line.split(separator).map(ToOwned::to_owned).collect())
}

fn describe(end: &End) -> String {
    match end {
        End::Exited(status) => format!("exit {status}"),
        other => other.to_string(),
    }
}

#[test]
fn each_model_shows_what_it_allows_and_no_more() {
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let all = programs();
    assert!(all.len() >= 10, "{} programs", all.len());
    for path in all {
        let text = std::fs::read_to_string(&path).expect("a program can be read");
        let mut program = clang
            .read_sources(std::slice::from_ref(&path), &[])
            .expect("the program compiles");
        program.promote_locals();
        for &(name, memory) in MODELS {
            let how = How {
                memory,
                ..How::default()
            };
            let exploration = explore(&program, &Input::default(), &how);
            assert!(exploration.is_complete(), "{} under {name}", path.display());
            println!("{} under {name}: {} runs", path.display(), exploration.runs);
            if let Some(wanted) = expected(&text, "outputs", name, " ") {
                let outputs = exploration.outcomes.iter().map(|outcome| {
                    String::from_utf8_lossy(&outcome.output())
                        .trim_end()
                        .to_owned()
                });
                let found: BTreeSet<String> = outputs.collect();
                assert_eq!(found, wanted, "{} under {name}", path.display());
            }
            if let Some(wanted) = expected(&text, "ends", name, ", ") {
                let ends = exploration
                    .outcomes
                    .iter()
                    .map(|outcome| describe(&outcome.end));
                let found: BTreeSet<String> = ends.collect();
                assert_eq!(found, wanted, "{} under {name}", path.display());
            }
        }
    }
}

#[test]
fn a_harm_of_weak_memory_says_which_read_was_old() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/classify/no_sync_bug.c");
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let mut program = clang
        .read_sources(&[path], &[])
        .expect("the program compiles");
    program.promote_locals();
    let how = How {
        memory: MemoryModel::Weak,
        ..How::default()
    };
    let exploration = explore(&program, &Input::default(), &how);
    let harmful = exploration
        .outcomes
        .iter()
        .find(|outcome| outcome.end == End::Signal(6));
    let harmful = harmful.expect("the program aborts under the weak model");
    let old: Vec<(u32, u64)> = harmful
        .decisions
        .iter()
        .filter_map(|decision| match decision {
            Decision::ReadOld { place, value, .. } => Some((place.as_ref()?.line, *value)),
            Decision::Switched { .. } | Decision::Flushed { .. } => None,
        })
        .collect();
    assert_eq!(old, [(27, 0)]);
}

/// Without a race, no model shows more than sequential consistency does.
#[test]
fn programs_without_races_end_alike_under_every_model() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/no_race");
    let clang = FrontEnd::find().expect("clang is installed (apt-get install clang-19)");
    let files = std::fs::read_dir(root).expect("the folder of programs is there");
    let mut compared = 0;
    let mut different = Vec::new();
    for file in files {
        let path = file.expect("its files can be listed").path();
        let mut program = clang
            .read_sources(std::slice::from_ref(&path), &[])
            .expect("the program compiles");
        program.promote_locals();
        let interpreter = Interpreter::new(&program);
        for seed in 0..20 {
            let run = |memory| {
                let how = How {
                    seed,
                    memory,
                    ..How::default()
                };
                interpreter.run(&Input::default(), &how).end
            };
            let expected = run(MemoryModel::SequentiallyConsistent);
            if !matches!(expected, End::Exited(_)) {
                continue;
            }
            for memory in [MemoryModel::Tso, MemoryModel::Weak] {
                compared += 1;
                let end = run(memory);
                // Another schedule can come to what is not known.
                if end != expected && !matches!(end, End::GaveUp(_)) {
                    different.push(format!("{}: {end} under {memory:?}", path.display()));
                }
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
    assert!(compared > 2_000, "{compared} runs were compared");
}
