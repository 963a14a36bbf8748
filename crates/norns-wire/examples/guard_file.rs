//! A file that a guarded program shares with its agent, made and read by hand: for `bench/guard`.
//!
//! ```text
//! guard_file spare PATH BUILD [FIRST SECOND TAU]   writes a spare file with a task, or with none
//! guard_file show PATH                             prints what a program has written
//! ```

use std::fs;
use std::process::ExitCode;

use norns_wire::guarding::{Counter, SIZE, Task, View, prepare};

fn spare(path: &str, build: &str, task: &[String]) -> Option<()> {
    let number = |at: usize| task.get(at).and_then(|word| word.parse().ok());
    let task = match task.is_empty() {
        true => Task::none(1),
        false => Task {
            serial: 1,
            first: number(0)?,
            second: number(1)?,
            tau_ms: number(2)?,
        },
    };
    let mut image = vec![0; SIZE];
    prepare(&mut image, build, &task)?;
    // The program looks for a spare file and must not find half of one.
    let draft = format!("{path}.draft");
    fs::write(&draft, image).ok()?;
    fs::rename(&draft, path).ok()
}

fn show(path: &str) -> Option<()> {
    let bytes = fs::read(path).ok()?;
    let view = View::of(&bytes)?;
    for attempt in view.attempts(0) {
        let [first, second] = attempt.sides.map(|side| side.site);
        let (outcome, evidence) = (attempt.outcome, attempt.evidence);
        println!("attempt {outcome:?} {evidence:?} {first} {second}");
    }
    if let Some(failure) = view.failure() {
        println!("failure {:?} {}", failure.kind, failure.signal);
    }
    println!("pairs {}", view.pairs().count());
    for &counter in Counter::ALL {
        println!("{counter:?} {}", view.counter(counter));
    }
    Some(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["spare", path, build, ref task @ ..] => {
            let task: Vec<String> = task.iter().map(|word| (*word).to_string()).collect();
            spare(path, build, &task)
        }
        ["show", path] => show(path),
        _ => None,
    };
    match done {
        Some(()) => ExitCode::SUCCESS,
        None => {
            eprintln!("error: guard_file {}: this cannot be done", words.join(" "));
            ExitCode::from(2)
        }
    }
}
