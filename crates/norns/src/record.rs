//! `norns record`: runs a program once and keeps its trace.
//!
//! The program runs as a shell would run it, with two exceptions: `LD_PRELOAD` and variables that begin
//! with `NORNS_` are set in its environment, and its addresses are the same in every run. The runtime
//! is preloaded also into programs that are linked with it (it is the same library then, loaded once),
//! so that the programs that they start are recorded too. When Norns itself is killed, what the
//! runtime wrote stays readable.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use norns_replay::{Ended, How, Input, Program, Session, process};
use norns_trace::{Item, Reader, Warning, info};
use norns_wire::statistics::Counter;

use crate::{exit, runtime_library, session};

#[derive(clap::Args)]
pub struct Arguments {
    /// Where the trace goes [default: the program's name with .norns]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// One thread runs at a time, and reads and writes are recorded with their values
    #[arg(long)]
    values: bool,
    /// With --values, decides who runs when: the same number gives the same run of a program whose
    /// input is the same [default: 1]. Without, asks for small random delays
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    #[command(flatten)]
    session: session::Arguments,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// A finished recording.
pub struct Recorded {
    pub ended: Ended,
    pub events: u64,
    pub threads: u64,
    /// Whether some code of the program was instrumented; without, only synchronisation is there.
    pub instrumented: bool,
    pub warnings: Vec<Warning>,
}

/// Ends with the status of the program; 128 and the signal's number if one killed it.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let program = Path::new(&arguments.command[0]);
    let output = match arguments.output {
        Some(path) => path,
        None => {
            let name = program.file_name().context("the program has no name")?;
            let mut name = name.to_os_string();
            name.push(".norns");
            PathBuf::from(name)
        }
    };
    let how = if arguments.values {
        let seed = arguments.seed.unwrap_or(1);
        if !arguments.quiet {
            eprintln!("norns: one thread runs at a time; the seed is {seed}");
        }
        How::WithValues { seed }
    } else {
        match arguments.seed {
            Some(seed) => How::Delayed { seed },
            None => How::Naturally,
        }
    };
    let session = arguments.session.session();
    let recorded = record(&output, &arguments.command, how, session)?;
    // Parts of a recording can have the same warning.
    let mut said: Vec<String> = Vec::new();
    for warning in recorded.warnings.iter().map(Warning::to_string) {
        if !said.contains(&warning) {
            eprintln!("warning: {warning}");
            said.push(warning);
        }
    }
    if !arguments.quiet {
        eprintln!("norns: {}", describe(&recorded, &output));
    }
    Ok(exit::of_program(&recorded.ended))
}

fn describe(recorded: &Recorded, output: &Path) -> String {
    if recorded.events == 0 {
        return format!(
            "nothing is recorded in {}: the program created no thread (or is linked statically)",
            output.display()
        );
    }
    let size = fs::metadata(output).map_or(0, |data| data.len());
    let seen = if recorded.instrumented {
        ""
    } else {
        " (synchronisation only: the program was not compiled with norns-cc)"
    };
    format!(
        "{} events of {} threads, {size} bytes in {}{seen}",
        recorded.events,
        recorded.threads,
        output.display()
    )
}

/// Runs the program to its end and leaves a finished trace.
fn record(
    output: &Path,
    command: &[OsString],
    how: How,
    session: Session,
) -> anyhow::Result<Recorded> {
    let runtime = runtime_library::find()?;
    let Some(file) = runtime_library::find_program(&command[0]) else {
        bail!("cannot run {}: no such program", command[0].display());
    };
    let output = std::path::absolute(output)
        .with_context(|| format!("cannot use {} as a file name", output.display()))?;
    if !process::can_fix_addresses() {
        eprintln!(
            "warning: the system does not let Norns switch off address-space randomisation; \
             addresses will differ from run to run"
        );
    }
    let mut command = command.to_vec();
    command[0] = file.into();
    let program = Program {
        command,
        folder: env::current_dir().context("cannot tell the current folder")?,
        input: Input::Inherited,
        preload: Some(runtime),
        plan: "*".into(),
        session,
    };
    let finished = norns_replay::record_unsupervised(&program, &output, how)?;
    if let Some(problem) = finished.visit.as_ref().and_then(session::problem) {
        eprintln!("warning: the client {problem}");
    }
    let mut recorded = count(&output)?;
    let mut warnings = finished.warnings;
    warnings.append(&mut recorded.warnings);
    Ok(Recorded {
        ended: finished.ended,
        warnings,
        ..recorded
    })
}

fn count(output: &Path) -> anyhow::Result<Recorded> {
    let cannot = || format!("cannot read back the trace {}", output.display());
    let mut reader = Reader::open(output).with_context(cannot)?;
    let mut recorded = Recorded {
        ended: Ended::Exited(0),
        events: 0,
        threads: 0,
        instrumented: true,
        warnings: Vec::new(),
    };
    while let Some(item) = reader.next().with_context(cannot)? {
        match item {
            Item::Event(..) => recorded.events += 1,
            Item::Thread(_) => recorded.threads += 1,
            Item::Info(info)
                if info.key == info::COUNTER
                    && info.values == [Counter::Instrumented.word(), "0"] =>
            {
                recorded.instrumented = false;
            }
            _ => {}
        }
    }
    recorded.warnings = reader.into_warnings();
    Ok(recorded)
}
