//! The first run, in which the trace is made: as if Norns were not there (`norns record`), or under
//! limits and with its input and output kept (`norns check`).

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use norns_trace::{Info, Recording, Warning, info};

use norns_wire::environment::{self, Constraint, Mode, Sketching};

use crate::conversation::{Conversation, inputs_path};
use crate::files::Files;
use crate::inputs::Inputs;
use crate::process::{self, Ended, Error, Input, Limits, Output, Program, Run};
use crate::session::Visit;

/// How the program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As it runs by itself.
    Naturally,
    /// With small random delays, which lead to a schedule that the program rarely follows by itself.
    Delayed { seed: u64 },
    /// Timed operations give up early and releases come late, which shows what the program does when
    /// a wait times out or a try fails.
    Impatiently { late: Late },
    /// One thread at a time, with the values of its accesses; the seed decides which thread runs
    /// when.
    WithValues { seed: u64 },
    /// One of many runs that look for the cause of a failure: from the beginning of the program on, with
    /// the failure as an event of the trace.
    ForFailure(ForFailure),
}

/// Who comes late in an impatient recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Threads begin late: who waits for them waits in vain.
    Created,
    /// Threads go on late when they have created another one.
    Creators,
}

/// A run that looks for the cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForFailure {
    pub disturbance: Disturbance,
    /// An order that the run keeps as long as the program can. With `Turns` only.
    pub constraint: Option<Constraint>,
}

/// What makes a run take another course than the program does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    Nothing,
    /// As `How::Delayed`.
    Delays {
        seed: u64,
    },
    /// As `How::WithValues`; besides, about one in `stretch` accesses lets other threads run.
    Turns {
        seed: u64,
        stretch: u32,
    },
}

impl How {
    /// The mode of the runtime.
    pub fn mode(self) -> Mode {
        match self {
            How::Naturally | How::Delayed { .. } | How::Impatiently { .. } => Mode::Record,
            How::WithValues { .. } => Mode::RecordValues,
            How::ForFailure(run) => match run.disturbance {
                Disturbance::Nothing | Disturbance::Delays { .. } => Mode::Record,
                Disturbance::Turns { .. } => Mode::RecordValues,
            },
        }
    }

    /// The variables of the environment for the runtime, besides its mode.
    pub fn variables(self, trace: &Path) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![(environment::TRACE, trace.as_os_str().to_owned())];
        if let How::Delayed { seed } | How::WithValues { seed } = self {
            variables.push((environment::SEED, seed.to_string().into()));
        }
        if let How::ForFailure(run) = self {
            let (seed, stretch) = match run.disturbance {
                Disturbance::Nothing => (None, 0),
                Disturbance::Delays { seed } => (Some(seed), 0),
                Disturbance::Turns { seed, stretch } => (Some(seed), stretch),
            };
            let seed = seed.map(|seed| (environment::SEED, seed.to_string().into()));
            variables.extend(seed);
            let mut value = String::new();
            let _ = Sketching { stretch }.encode(&mut value);
            variables.push((environment::SKETCH, value.into()));
            if let Some(constraint) = run.constraint {
                let mut value = String::new();
                let _ = constraint.encode(&mut value);
                variables.push((environment::CONSTRAINT, value.into()));
            }
        }
        if let How::Impatiently { late } = self {
            let late = match late {
                Late::Created => "created",
                Late::Creators => environment::CREATORS,
            };
            variables.push((environment::IMPATIENT, late.into()));
        }
        variables
    }

    /// Creates an empty recording, in place of an older one. `folder` is where the program will run.
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
        if let How::WithValues { seed }
        | How::ForFailure(ForFailure {
            disturbance: Disturbance::Turns { seed, .. },
            ..
        }) = self
        {
            all.push(entry(info::ACCESSES, vec!["ordered".into()]));
            all.push(entry(info::SEED, vec![seed.to_string()]));
        }
        // Names only: values can be secrets, and a trace is sent to colleagues.
        let mut variables: Vec<String> = env::vars_os().map(|(name, _)| text(&name)).collect();
        variables.sort();
        all.push(entry(info::ENVIRONMENT, variables));
        norns_trace::create_raw(trace, &all)?;
        Ok(())
    }
}

/// How a recorded run went.
pub struct Finished {
    pub ended: Ended,
    pub time: Duration,
    /// What is wrong with its trace.
    pub warnings: Vec<Warning>,
    /// How many processes it left running in the background; they were stopped.
    pub left_running: usize,
    /// What became of its client, if it was to have one.
    pub visit: Option<Visit>,
}

/// Runs the program once and leaves a finished trace at `trace`. The program runs as if Norns were
/// not there: with our terminal, input and output, in our process group, for as long as it takes.
pub fn record_unsupervised(program: &Program, trace: &Path, how: How) -> Result<Finished, Error> {
    let run = Run {
        program,
        mode: how.mode(),
        limits: None,
        variables: how.variables(trace),
        output: Output::Ours,
        keep_input: None,
        files: Files::Real,
        inputs: Inputs::default(),
    };
    run_and_finish(&run, trace, how)
}

/// A recorded run and its trace.
pub struct Recorded {
    pub recording: Recording,
    pub warnings: Vec<Warning>,
    pub ended: Ended,
    pub time: Duration,
    pub left_running: usize,
    pub visit: Option<Visit>,
    /// What was said to it.
    pub conversation: Conversation,
}

/// Where a recorded run is kept.
pub struct Kept<'a> {
    pub trace: &'a Path,
    pub output: &'a Path,
    /// Its standard input, if that is to be copied.
    pub input: &'a Path,
    /// What it sends through sockets, if that is to be kept.
    pub sent: Option<&'a Path>,
}

/// Runs the program once, under limits; if its standard input is kept, later runs read that. `play` is
/// said to a program that has no client.
pub fn record(
    program: &mut Program,
    kept: &Kept,
    files: Files,
    play: Option<Arc<Conversation>>,
    limits: Limits,
    how: How,
) -> Result<Recorded, Error> {
    let trace = kept.trace;
    let keep_input = (program.input == Input::Copied).then(|| kept.input.to_path_buf());
    let mut variables = how.variables(trace);
    variables.extend(kept.sent.map(|path| (environment::SENT, path.into())));
    if limits.events < u64::MAX {
        // Somewhat more than are kept, since not everything that the recorder counts becomes an event.
        let most = limits.events.saturating_add(limits.events / 8);
        variables.push((environment::MOST_EVENTS, most.to_string().into()));
    }
    let run = Run {
        program,
        mode: how.mode(),
        limits: Some(limits),
        variables,
        output: Output::File(kept.output.to_path_buf()),
        keep_input: keep_input.clone(),
        files,
        inputs: Inputs {
            record: Some(inputs_path(trace)),
            play,
            serve: None,
        },
    };
    let finished = run_and_finish(&run, trace, how)?;
    Conversation::trim(trace)?;
    let conversation = Conversation::load(trace)?;
    if let Some(path) = keep_input {
        if !path.exists() {
            fs::write(&path, "").map_err(Error::file("write", &path))?;
        }
        program.input = Input::Kept(path);
    }
    let (mut recording, more) = norns_trace::read_recording(trace)?;
    recording.trace.understand();
    let mut warnings = finished.warnings;
    warnings.extend(more);
    Ok(Recorded {
        recording,
        warnings,
        ended: finished.ended,
        time: finished.time,
        left_running: finished.left_running,
        visit: finished.visit,
        conversation,
    })
}

fn run_and_finish(run: &Run, trace: &Path, how: How) -> Result<Finished, Error> {
    how.start_file(trace, &run.program.command, &run.program.folder)?;
    let start = Instant::now();
    let process::Finished {
        ended,
        left_running,
        visit,
    } = run.run_with_background()?;
    let time = start.elapsed();
    let most = run.limits.map_or(u64::MAX, |limits| limits.events);
    let warnings = norns_trace::finish_beginning(trace, most)?;
    Ok(Finished {
        ended,
        time,
        warnings,
        left_running,
        visit,
    })
}
