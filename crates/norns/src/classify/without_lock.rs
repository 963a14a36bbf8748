//! `norns classify --without-lock FILE:LINE SOURCE…`: what would happen if a mutex were not taken there
//! (Kasikci 2015, section 6.3.2).

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use norns_classify::models::{self, WithoutLock};
use norns_interpret::Input;
use serde_json::json;

use super::{Format, again};
use crate::scan;

/// Interprets the program with the lock and without it.
pub fn run(place: &str, files: &[String], format: Format) -> Result<ExitCode> {
    let Some((file, line)) = place.rsplit_once(':') else {
        bail!("`{place}` is not of the form FILE:LINE");
    };
    let Ok(line) = line.parse() else {
        bail!("`{line}` is no number of a line");
    };
    let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let mut program = scan::read(&files, &[])?;
    program.promote_locals();
    let input = Input {
        arguments: vec![b"program".to_vec()],
        ..Input::default()
    };
    let found = match models::without_lock(&program, &input, (file.to_owned(), line)) {
        Ok(found) => found,
        Err(reason) => bail!("cannot say what {place} is for: {reason}"),
    };
    let WithoutLock {
        class,
        what,
        runs,
        is_complete,
    } = &found;
    match format {
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
