//! Runs the examples of the documents, so that they stay true.
//!
//! In README.md and docs/*.md every fenced block marked `console` is run: a line that begins with
//! `$ ` is a command for sh, the lines below it are what it prints (standard output and error
//! together). `[..]` stands for any text within a line, a line `...` for any number of lines. A
//! last line `? N` is the exit status where it is not 0. A fenced block marked `c file=NAME` puts a
//! file there first. All blocks of one document run in one fresh folder, in order.
//!
//! The programs of `docs/explain` are checked too: each block of C says in its first line what
//! must be found. The example project is built and tested as its first lines say, and the
//! steps of the example for GitHub run one by one, as GitHub would run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A fenced block: what stands behind the fence, and its lines.
struct Block {
    info: String,
    line: usize,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(document.lines()) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block {
                    info: info.trim().into(),
                    line: number,
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// A fresh folder for one document, and norns first on the path.
struct Sandbox {
    folder: PathBuf,
}

impl Sandbox {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    fn sh(&self, command: &str) -> (String, i32) {
        let binary = Path::new(env!("CARGO_BIN_EXE_norns"));
        let path = format!(
            "{}:{}:{}",
            binary.parent().unwrap().display(),
            root().display(),
            std::env::var("PATH").unwrap()
        );
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("exec 2>&1\n{command}"))
            .current_dir(&self.folder)
            .env("PATH", path)
            .env("NORNS_RUNS", self.folder.join(".runs"))
            .env_remove("CLICOLOR_FORCE")
            .output()
            .unwrap();
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            output.status.code().unwrap_or(-1),
        )
    }
}

/// Whether the lines printed are the lines expected, with `...` and `[..]`.
fn matches(expected: &[&str], actual: &[&str]) -> bool {
    match (expected.first(), actual.first()) {
        (None, None) => true,
        (Some(&"..."), _) => {
            matches(&expected[1..], actual)
                || (!actual.is_empty() && matches(expected, &actual[1..]))
        }
        (Some(pattern), Some(line)) => {
            line_matches(pattern, line) && matches(&expected[1..], &actual[1..])
        }
        _ => false,
    }
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or("")) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    true
}

fn run_console(sandbox: &Sandbox, document: &Path, block: &Block) {
    let mut lines = block.text.lines().peekable();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ").unwrap_or_else(|| {
            panic!(
                "{}:{}: a console block begins with `$ `",
                document.display(),
                block.line
            )
        });
        let mut expected = Vec::new();
        let mut status = 0;
        while let Some(next) = lines.next_if(|next| !next.starts_with("$ ")) {
            match next.strip_prefix("? ") {
                Some(number) => status = number.parse().unwrap(),
                None => expected.push(next),
            }
        }
        let (printed, actual_status) = sandbox.sh(command);
        let actual: Vec<&str> = printed.lines().collect();
        assert!(
            matches(&expected, &actual) && status == actual_status,
            "{}:{}: `{command}` exits with {actual_status} and prints\n{printed}\ninstead of {status} and\n{}",
            document.display(),
            block.line,
            expected.join("\n")
        );
    }
}

fn run_document(document: &Path) {
    let name = document.file_stem().unwrap().to_string_lossy().into_owned();
    let sandbox = Sandbox::new(&format!("document-{name}"));
    for block in blocks(&fs::read_to_string(document).unwrap()) {
        if block.info == "console" {
            run_console(&sandbox, document, &block);
        } else if let Some((_, file)) = block.info.split_once("file=") {
            fs::write(sandbox.folder.join(file), &block.text).unwrap();
        }
    }
}

#[test]
fn the_examples_of_the_documents_are_true() {
    let mut documents = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            documents.push(path);
        }
    }
    documents.sort();
    for document in documents {
        run_document(&document);
    }
}

#[test]
fn the_programs_of_explain_show_what_they_say() {
    let folder = root().join("docs/explain");
    let mut programs = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let page = entry.unwrap().path();
        let name = page.file_stem().unwrap().to_string_lossy().into_owned();
        let sandbox = Sandbox::new(&format!("explain-{name}"));
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            if block.info != "c" {
                continue;
            }
            programs += 1;
            let first = block.text.lines().next().unwrap();
            let (option, finds) = first
                .strip_prefix("// with ")
                .or(first.strip_prefix("// "))
                .and_then(|words| words.split_once("finds: "))
                .expect("says what must be found");
            fs::write(sandbox.folder.join("program.c"), &block.text).unwrap();
            let command = match option.trim() {
                "norns sketch" => "norns sketch --runs 30 program.c".to_string(),
                option => format!("norns check {option} program.c"),
            };
            let (printed, status) = sandbox.sh(&command);
            let (finds, is_predicted) = match finds.strip_prefix("predicted ") {
                Some(finds) => (finds, true),
                None => (finds, false),
            };
            let expected = i32::from(finds != "nothing" && !is_predicted);
            assert!(
                status == expected,
                "{name}: {finds}, but status {status}:\n{printed}"
            );
            let what = finds.trim_start_matches("a ").trim_start_matches("an ");
            assert!(
                finds == "nothing" || printed.contains(what) || name == "NR0003",
                "{name}: {finds}, but:\n{printed}"
            );
        }
    }
    assert_eq!(programs, 40);
}

/// A copy of the example project.
fn example_project(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    for file in ["CMakeLists.txt", "transfer.c"] {
        let from = root().join("examples/cmake").join(file);
        fs::copy(from, sandbox.folder.join(file)).unwrap();
    }
    sandbox
}

#[test]
fn the_example_project_fails_when_its_locks_are_inverted() {
    let sandbox = example_project("example-cmake");
    for (flags, status, lines) in [
        ("", 0, vec!["100% tests passed, 0 tests failed out of 2"]),
        (
            "-DINVERTED",
            8,
            vec![
                "transfer-norns ...................***Failed",
                "NR0101 confirmed  deadlock",
                "50% tests passed, 1 tests failed out of 2",
            ],
        ),
    ] {
        let (printed, built) = sandbox.sh(&format!(
            "rm -rf build; CC=norns-cc CFLAGS={flags} cmake -B build && cmake --build build"
        ));
        assert_eq!(built, 0, "{printed}");
        let (printed, tested) = sandbox.sh("ctest --test-dir build --output-on-failure");
        assert_eq!(tested, status, "{printed}");
        for line in lines {
            assert!(printed.contains(line), "{line} is not in\n{printed}");
        }
    }
}

/// The commands of the steps of a GitHub job, each with the step's name.
fn github_steps(workflow: &str) -> Vec<(String, String)> {
    let mut steps = Vec::new();
    let mut name = String::new();
    let mut lines = workflow.lines().peekable();
    while let Some(line) = lines.next() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if let Some(new) = words.strip_prefix("- name: ") {
            name = new.to_string();
        } else if words == "run: |" {
            let mut text = String::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(&" ".repeat(indent + 1))) {
                text.push_str(line.trim_start());
                text.push('\n');
            }
            steps.push((name.clone(), text));
        } else if let Some(command) = words.strip_prefix("run: ") {
            steps.push((name.clone(), command.to_string()));
        }
    }
    steps
}

#[test]
fn the_steps_of_the_github_example_run() {
    let workflow = fs::read_to_string(root().join("examples/github-actions.yml")).unwrap();
    for (flags, found) in [("", 0), ("-DINVERTED", 1)] {
        let sandbox = example_project(&format!("example-github-{found}"));
        let set = format!(
            "set -e; NORNS={}; GITHUB_PATH=$PWD/path; touch path; export CFLAGS={flags}
             PATH=$(paste -sd: path):$PATH\n",
            root().display()
        );
        let mut names = Vec::new();
        for (name, commands) in github_steps(&workflow) {
            let (printed, status) = sandbox.sh(&(set.clone() + &commands));
            let expected = if name == "Check" { found } else { 0 };
            assert_eq!(status, expected, "{name}:\n{printed}");
            let annotated = printed.contains("::error file=transfer.c,line=");
            assert_eq!(annotated, expected > 0, "{name}:\n{printed}");
            names.push(name);
        }
        let all = ["Build Norns", "Build the project", "Check", "Write SARIF"];
        assert_eq!(names, all);
        let sarif = fs::read_to_string(sandbox.folder.join("norns.sarif")).unwrap();
        assert_eq!(sarif.contains("\"uri\": \"transfer.c\""), found > 0);
    }
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let sandbox = Sandbox::new("progress");
    // More states than can be seen in the time.
    let script = "channel a : {0..7}.{0..20}
P(i, n) = a.i.n -> P(i, (n + 1) % 21)
S = ||| i : {0..7} @ P(i, 0)
assert S :[deadlock free [F]]
";
    fs::write(sandbox.folder.join("large.csp"), script).unwrap();
    let check = "norns csp check --no-reduction --time 1.5 large.csp";
    let (piped, status) = sandbox.sh(check);
    assert_eq!(status, 3, "{piped}");
    assert!(piped.starts_with("4: undecided"), "{piped}");
    assert!(!piped.contains("checking"), "{piped}");
    let (shown, _) = sandbox.sh(&format!(
        "TERM=xterm script -qec '{check}' /dev/null </dev/null"
    ));
    assert!(shown.contains("checking line 4: "), "{shown}");
    assert!(shown.contains("states"), "{shown}");
    assert!(shown.contains("\x1b[K4: undecided"), "{shown}");
}
