//! The first run, in which the trace is made.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use norns_trace::{Info, Recording, Warning};

use crate::process::{Ended, Error, Input, Limits, Mode, Output, Program, Run};

/// A recorded run.
pub struct Recorded {
    pub recording: Recording,
    pub warnings: Vec<Warning>,
    pub ended: Ended,
    pub time: Duration,
}

/// Runs the program once and leaves its trace at `trace`, its output at `output`, and its input,
/// if it is not a terminal, at `input`; `program.input` is what later runs are to read. A seed asks
/// for small random delays, for another recording than the natural one.
pub fn record(
    program: &mut Program,
    trace: &Path,
    output: &Path,
    input: &Path,
    limits: Limits,
    seed: Option<u64>,
) -> Result<Recorded, Error> {
    let words: Vec<String> = program
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let info = [
        Info {
            key: "command".into(),
            values: words,
        },
        Info {
            key: "folder".into(),
            values: vec![program.folder.to_string_lossy().into_owned()],
        },
    ];
    norns_trace::create_raw(trace, &info)?;
    let start = Instant::now();
    let keep_input = matches!(program.input, Input::File(_)).then(|| input.to_path_buf());
    let mut variables = vec![("NORNS_TRACE", trace.as_os_str().to_owned())];
    variables.extend(seed.map(|seed| ("NORNS_SEED", seed.to_string().into())));
    let run = Run {
        program,
        mode: Mode::Record,
        limits,
        variables,
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
