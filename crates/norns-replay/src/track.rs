//! A tracked run: the program as it is, with what a plan names being watched.

use std::fs;
use std::path::Path;

use norns_wire::environment::{self, Mode};

use crate::files::Files;
use crate::inputs::Inputs;
use crate::process::{Ended, Error, Input, Limits, Output, Program, Run};

/// Where a tracked run is kept.
pub struct KeptTracked<'a> {
    /// What to watch: `norns_wire::tracking`.
    pub plan: &'a Path,
    /// What was seen.
    pub observations: &'a Path,
    pub output: &'a Path,
    /// Its standard input, if that is to be copied.
    pub input: &'a Path,
}

/// Runs the program once under a plan, which is in its file.
pub fn track(
    program: &mut Program,
    kept: &KeptTracked,
    files: Files,
    limits: Limits,
) -> Result<Ended, Error> {
    let keep_input = (program.input == Input::Copied).then(|| kept.input.to_path_buf());
    let run = Run {
        program,
        mode: Mode::Track,
        limits: Some(limits),
        variables: vec![
            (environment::TRACK, kept.plan.into()),
            (environment::REPORT, kept.observations.into()),
        ],
        output: Output::File(kept.output.to_path_buf()),
        keep_input: keep_input.clone(),
        files,
        inputs: Inputs::default(),
    };
    let finished = run.run_with_background()?;
    if let Some(path) = keep_input {
        if !path.exists() {
            fs::write(&path, "").map_err(Error::file("write", &path))?;
        }
        program.input = Input::Kept(path);
    }
    Ok(finished.ended)
}
