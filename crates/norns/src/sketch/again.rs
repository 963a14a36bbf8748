//! `norns replay` of a failure: the program is run as it was when it failed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};
use norns_replay::record::Kept;
use norns_replay::{How, Input, Limits, Program, record};
use norns_report::Finding;
use norns_sketch::{Signs, failure};
use norns_wire::environment;

use super::keep::SavedFailure;
use super::program::printed;
use crate::check::inputs;
use crate::progress::Stage;
use crate::replay::{Arguments, OWN_FRAMES_ONLY};
use crate::runs::Run;
use crate::{exit, runtime_library};

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
    let (mut shown, mut other) = (0, None);
    let stage = Stage::begin("replaying");
    for number in 0..arguments.times {
        stage.now(|| format!("replaying {} of {}", number + 1, arguments.times));
        let before = fs::metadata(&output).map_or(0, |data| data.len());
        let kept = Kept {
            trace: &trace,
            output: &output,
            input: &folder.join("again.input"),
        };
        let mut program = program.clone();
        let files = inputs::private_files(run);
        let seen = record(&mut program, &kept, files, None, limits, how)?;
        let output = printed(&output, before)?;
        match failure::of_run(&seen.ended, &output, &seen.recording.trace, &signs) {
            Some(failure) => {
                shown += 1;
                if arguments.times == 1 {
                    println!("{}: the program {}", finding.id, failure.what);
                }
            }
            None => other = Some(seen.ended.describe()),
        }
    }
    drop(stage);
    if let Some(other) = other {
        println!("{}: the program {other}", finding.id);
    }
    println!(
        "{}: happened {shown} of {} times",
        finding.id, arguments.times
    );
    Ok(match shown == arguments.times {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(exit::FOUND),
    })
}

/// Becomes gdb, which runs the program until it fails and prints where the threads are.
fn debug(run: &Run, program: &Program, how: How) -> Result<ExitCode> {
    let gdb = std::ffi::OsString::from("gdb");
    runtime_library::find_program(&gdb)
        .context("gdb is not installed\n help: sudo apt-get install gdb")?;
    let folder = run.path("replays");
    let trace = folder.join("gdb.norns");
    how.start_file(&trace, &program.command, &program.folder)?;
    let mut command = Command::new(gdb);
    let mut say = |text: String| {
        command.arg("-ex").arg(text);
    };
    say("set startup-with-shell off".into());
    let mut variables = how.variables(&trace);
    variables.push((environment::MODE, how.mode().word().into()));
    variables.extend(inputs::private_files(run).prepare()?);
    if let Some(runtime) = &program.preload {
        variables.push(("LD_PRELOAD", runtime.into()));
    }
    for (name, value) in variables {
        say(format!("set environment {name} {}", value.display()));
    }
    match &program.input {
        Input::Kept(input) | Input::File { path: input, .. } => {
            say("set startup-with-shell on".into());
            say(format!("run < {}", input.display()));
        }
        _ => say("run".into()),
    }
    let filter = folder.join("gdb.py");
    fs::write(&filter, OWN_FRAMES_ONLY)
        .with_context(|| format!("cannot write {}", filter.display()))?;
    say(format!("source {}", filter.display()));
    say("thread apply all backtrace".into());
    let error = command
        .current_dir(&program.folder)
        .arg("--args")
        .args(&program.command)
        .exec();
    Err(error).context("cannot run gdb")
}
