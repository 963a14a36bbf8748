//! The first run, in which the trace is made.
//!
//! `norns record` and `norns check` differ in how they run the program (as if Norns were not there,
//! or under limits and with its input kept); what stands in the file and what the runtime is told
//! is the same, and is here.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use norns_trace::{Info, Recording, Warning, info};

use norns_wire::environment::{self, Mode};

use crate::process::{Ended, Error, Input, Limits, Output, Program, Run};

/// How the program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As it runs by itself.
    Naturally,
    /// With small random delays, for another recording than the natural one.
    Delayed { seed: u64 },
    /// One thread at a time, with the values of its accesses; the seed decides who runs when.
    WithValues { seed: u64 },
}

impl How {
    pub fn mode(self) -> Mode {
        match self {
            How::Naturally | How::Delayed { .. } => Mode::Record,
            How::WithValues { .. } => Mode::RecordValues,
        }
    }

    /// What the runtime is told, besides its mode.
    pub fn variables(self, trace: &Path) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![(environment::TRACE, trace.as_os_str().to_owned())];
        if let How::Delayed { seed } | How::WithValues { seed } = self {
            variables.push((environment::SEED, seed.to_string().into()));
        }
        variables
    }

    /// An empty recording, in place of one that may be there. `folder` is where the program runs.
    pub fn start_file(
        self,
        trace: &Path,
        command: &[OsString],
        folder: &Path,
    ) -> Result<(), Error> {
        for old in [trace.to_path_buf(), norns_trace::reader::tail_path(trace)] {
            match fs::remove_file(&old) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::file("replace", &old)(error));
                }
                _ => {}
            }
        }
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let entry = |key: &str, values| Info {
            key: key.into(),
            values,
        };
        let mut all = vec![
            entry(info::COMMAND, command.iter().map(text).collect()),
            entry(info::DIRECTORY, vec![folder.display().to_string()]),
        ];
        if let How::WithValues { seed } = self {
            all.push(entry(info::ACCESSES, vec!["ordered".into()]));
            all.push(entry(info::SEED, vec![seed.to_string()]));
        }
        let mut variables: Vec<String> = env::vars_os()
            .map(|(name, value)| format!("{}={}", text(&name), text(&value)))
            .collect();
        variables.sort();
        all.extend(
            variables
                .into_iter()
                .map(|variable| entry(info::ENVIRONMENT, vec![variable])),
        );
        norns_trace::create_raw(trace, &all)?;
        Ok(())
    }
}

/// A recorded run.
pub struct Recorded {
    pub recording: Recording,
    pub warnings: Vec<Warning>,
    pub ended: Ended,
    pub time: Duration,
}

/// Runs the program once and leaves its trace at `trace`, its output at `output`, and its input,
/// if it is not a terminal, at `input`; `program.input` is what later runs are to read.
pub fn record(
    program: &mut Program,
    trace: &Path,
    output: &Path,
    input: &Path,
    limits: Limits,
    how: How,
) -> Result<Recorded, Error> {
    how.start_file(trace, &program.command, &program.folder)?;
    let start = Instant::now();
    let keep_input = matches!(program.input, Input::File(_)).then(|| input.to_path_buf());
    let run = Run {
        program,
        mode: how.mode(),
        limits,
        variables: how.variables(trace),
        output: Output::File(output.to_path_buf()),
        keep_input: keep_input.clone(),
    };
    let ended = run.run()?;
    let time = start.elapsed();
    if let Some(path) = keep_input {
        if !path.exists() {
            fs::write(&path, "").map_err(Error::file("write", &path))?;
        }
        program.input = Input::File(path);
    }
    let mut warnings = norns_trace::finish(trace)?;
    let (recording, more) = norns_trace::read_recording(trace)?;
    warnings.extend(more);
    Ok(Recorded {
        recording,
        warnings,
        ended,
        time,
    })
}
