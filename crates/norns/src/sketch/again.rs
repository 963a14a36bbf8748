//! `norns replay` of a failure: the program is run as it was when it failed.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use norns_replay::record::Kept;
use norns_replay::{How, Limits, Program, record};
use norns_report::Finding;
use norns_sketch::{Signs, failure};
use norns_wire::environment;

use super::keep::SavedFailure;
use super::program::Printed;
use crate::check::inputs;
use crate::replay::{Arguments, become_gdb, repeat};
use crate::runs::Run;

pub fn run(
    run: &Run,
    finding: &Finding,
    program: &Program,
    arguments: &Arguments,
) -> Result<ExitCode> {
    let saved: SavedFailure = run.load(&format!("{}.failure.json", finding.id))?;
    let how = How::ForFailure(saved.how());
    let folder = run.path("replays");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if arguments.gdb {
        return debug(run, program, how);
    }
    let signs = Signs {
        exit: saved.failing_exit,
        output: saved.failing_output.clone(),
    };
    let (trace, output) = (folder.join("again.norns"), folder.join("again.txt"));
    let limits = Limits {
        time: Duration::from_secs(arguments.time_limit),
        ..Limits::default()
    };
    repeat(arguments, finding, || {
        let printed = Printed::begin(&output);
        let kept = Kept {
            trace: &trace,
            output: &output,
            input: &folder.join("again.input"),
            sent: None,
        };
        let mut program = program.clone();
        let files = inputs::private_files(run);
        let seen = record(&mut program, &kept, files, None, limits, how)?;
        let output = printed.read()?;
        let failure = failure::of_run(&seen.ended, &output, &seen.recording.trace, &signs);
        Ok(match failure {
            Some(failure) => Ok(format!("the program {}", failure.what)),
            None => Err(format!("the program {}", seen.ended.describe())),
        })
    })
}

/// Becomes gdb, which runs the program until it fails.
pub fn debug(run: &Run, program: &Program, how: How) -> Result<ExitCode> {
    let trace = run.path("replays").join("gdb.norns");
    how.start_file(&trace, &program.command, &program.folder)?;
    let mut variables = how.variables(&trace);
    variables.push((environment::MODE, how.mode().word().into()));
    become_gdb(run, program, variables, None)
}
