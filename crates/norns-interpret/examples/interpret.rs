//! Runs the sources of a program under a seed and says how it ended:
//! `interpret SEED [FLAG…] SOURCE… [+FILE…] [-- ARGUMENT…]`. A flag begins with `-` and goes to clang; a file
//! behind `+` is one that the program finds.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use norns_interpret::{Channel, How, Input, Interpreter};
use norns_ir::FrontEnd;

fn main() {
    let mut words = std::env::args().skip(1);
    let seed = words.next().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let words: Vec<String> = words.collect();
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let is_source = |word: &&String| !word.starts_with(['-', '+']);
    let sources: Vec<PathBuf> = words[..end]
        .iter()
        .filter(is_source)
        .map(PathBuf::from)
        .collect();
    let flags = words[..end].iter().filter(|word| word.starts_with('-'));
    let flags: Vec<OsString> = flags.map(OsString::from).collect();
    let program = FrontEnd::find().and_then(|clang| clang.read_sources(&sources, &flags));
    let mut program = match program {
        Ok(program) => program,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(2);
        }
    };
    program.promote_locals();
    let mut input = Input {
        arguments: vec![b"program".to_vec()],
        ..Input::default()
    };
    let arguments = words
        .iter()
        .skip(end + 1)
        .map(|word| word.clone().into_bytes());
    input.arguments.extend(arguments);
    input.has_all_files = true;
    for file in words[..end]
        .iter()
        .filter_map(|word| word.strip_prefix('+'))
    {
        match std::fs::read(file) {
            Ok(content) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                input.files.insert(name.as_bytes().to_vec(), content);
            }
            Err(error) => {
                eprintln!("error: cannot read {file}: {error}");
                std::process::exit(2);
            }
        }
    }
    let interpreter = Interpreter::new(&program);
    let how = How {
        seed,
        ..How::default()
    };
    let started = Instant::now();
    let outcome = interpreter.run(&input, &how);
    let seconds = started.elapsed().as_secs_f64();
    for write in &outcome.writes {
        if let Channel::File(_) = write.to {
            continue;
        }
        let _ = std::io::stdout().write_all(&write.bytes);
    }
    let rate = outcome.steps as f64 / seconds / 1e6;
    eprintln!(
        "{}; {} operations, {seconds:.3} s, {rate:.0} million a second",
        outcome.end, outcome.steps
    );
    for place in &outcome.stack {
        eprintln!("  at {place}");
    }
}
