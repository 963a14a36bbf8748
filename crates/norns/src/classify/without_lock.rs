//! `norns classify --without-lock FILE:LINE SOURCE…`: what would happen if a mutex were not taken there
//! (Kasikci 2015, section 6.3.2).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use norns_classify::models::{self, WithoutLock};
use norns_interpret::Input;
use norns_ir::Program;
use serde_json::json;

use super::{Arguments, Format, again};
use crate::check::saved;
use crate::deadline::Deadline;
use crate::progress::Stage;
use crate::runs::Run;
use crate::scan;

/// Interprets the program with the lock and without it.
pub fn run(place: &str, arguments: &Arguments) -> Result<ExitCode> {
    let Some((file, line)) = place.rsplit_once(':') else {
        bail!("`{place}` is not of the form FILE:LINE");
    };
    let Ok(line) = line.parse() else {
        bail!("`{line}` is no number of a line");
    };
    norns_replay::catch_interrupts();
    let (program, input) = program(arguments)?;
    let stage = Stage::begin("interpreting the program with the lock and without it");
    let deadline = Deadline::after(Duration::from_secs(arguments.budget));
    let has_time = || deadline.left() > Duration::ZERO;
    let found = models::without_lock(&program, &input, (file.to_owned(), line), &has_time);
    drop(stage);
    let found = match found {
        Ok(found) => found,
        Err(reason) => bail!("cannot say what the lock at {place} is for: {reason}"),
    };
    let WithoutLock {
        class,
        what,
        runs,
        is_complete,
    } = &found;
    match arguments.format {
        Format::Json => {
            let answer = json!({
                "format": again::FORMAT,
                "without_lock": place,
                "class": class,
                "what": what,
                "runs": runs,
                "complete": is_complete,
            });
            println!("{}", serde_json::to_string_pretty(&answer)?);
        }
        Format::Text => {
            println!("without the lock at {place}: {} (predicted)", class.words());
            for line in what {
                println!("  {line}");
            }
            let all = if *is_complete { "all " } else { "" };
            let [with, without] = runs;
            println!(
                "  interpreted were all {with} interleavings with it, and {all}{without} runs without"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The program and its input: those of a finding's run, or sources with arguments.
fn program(arguments: &Arguments) -> Result<(Program, Input)> {
    if let [id] = &arguments.ids[..]
        && !Path::new(id).exists()
        && let Ok((run, _)) = Run::with_finding(id, arguments.scope)
    {
        return super::read(&run, &saved::load(&run)?);
    }
    let files: Vec<PathBuf> = arguments.ids.iter().map(PathBuf::from).collect();
    let mut program = scan::read(&files, &[])?;
    program.promote_locals();
    let words = arguments.words.iter().map(|word| word.as_bytes().to_vec());
    let input = Input {
        arguments: std::iter::once(b"program".to_vec()).chain(words).collect(),
        ..Input::default()
    };
    Ok((program, input))
}
