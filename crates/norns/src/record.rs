//! `norns record`: runs a program once and keeps its trace.
//!
//! The program inherits everything but four things: `NORNS_MODE`, `NORNS_TRACE` and `LD_PRELOAD` in
//! its environment, and addresses that are the same in every run. The runtime is preloaded also
//! into programs that are linked with it (then it is the same library, loaded once), so that what
//! they start is recorded too. When Norns itself is killed, what the runtime wrote stays readable.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, bail};
use norns_replay::How;
use norns_trace::{Item, Reader, Warning, info};
use norns_wire::environment;
use norns_wire::statistics::Counter;

use crate::runtime_library;

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
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// A finished recording.
pub struct Recorded {
    pub status: ExitStatus,
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
    let recorded = record(&output, &arguments.command, how)?;
    for warning in &recorded.warnings {
        eprintln!("warning: {warning}");
    }
    if !arguments.quiet {
        eprintln!("norns: {}", describe(&recorded, &output));
    }
    Ok(ExitCode::from(match recorded.status.code() {
        Some(code) => code as u8,
        None => 128 + recorded.status.signal().unwrap_or(0) as u8,
    }))
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
fn record(output: &Path, command: &[OsString], how: How) -> anyhow::Result<Recorded> {
    let runtime = runtime_library::find()?;
    let Some(program) = runtime_library::find_program(&command[0]) else {
        bail!("cannot run {}: no such program", command[0].display());
    };
    let output = std::path::absolute(output)
        .with_context(|| format!("cannot use {} as a file name", output.display()))?;
    let folder = env::current_dir().context("cannot tell the current folder")?;
    how.start_file(&output, command, &folder)?;

    let mut child = stable_addresses(&program)
        .args(&command[1..])
        .env(environment::MODE, how.mode().word())
        .envs(how.variables(&output))
        .env("LD_PRELOAD", preload(&runtime))
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for {}", program.display()))?;

    let mut warnings = norns_trace::finish(&output)
        .with_context(|| format!("cannot finish the trace {}", output.display()))?;
    let mut recorded = count(&output)?;
    warnings.append(&mut recorded.warnings);
    Ok(Recorded {
        status,
        warnings,
        ..recorded
    })
}

/// The runtime first: its functions must be found before those of other preloaded libraries.
fn preload(runtime: &Path) -> OsString {
    let mut all = runtime.as_os_str().to_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// A command that runs the program without address-space randomisation, if the system lets us.
pub fn stable_addresses(program: &Path) -> Command {
    let works = Command::new("setarch")
        .args(["--addr-no-randomize", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if works {
        let mut command = Command::new("setarch");
        command.arg("--addr-no-randomize").arg(program);
        command
    } else {
        eprintln!(
            "warning: the system does not let Norns switch off address-space randomisation; \
             addresses will differ from run to run"
        );
        Command::new(program)
    }
}

fn count(output: &Path) -> anyhow::Result<Recorded> {
    let cannot = || format!("cannot read back the trace {}", output.display());
    let mut reader = Reader::open(output).with_context(cannot)?;
    let mut recorded = Recorded {
        status: ExitStatus::default(),
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
