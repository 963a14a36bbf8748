//! `norns sketch`: why does the program fail?

pub mod again;
mod code;
mod core;
pub mod keep;
pub mod means;
pub mod program;
mod tracked;
mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use norns_replay::Program;
use norns_report::terminal;
use norns_sketch::{Options, Signs, tracking};

use crate::check::{build, saved};
use crate::deadline::Deadline;
use crate::runs::Run;
use crate::{exit, runtime_library, session, show};
use means::Means;
use program::Repeated;
use tracked::Watched;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  norns sketch -- ./test                run a program built with norns-cc until it fails a few times
  norns sketch queue.c                  the same for a program that is compiled first
  norns sketch --track queue.c          the same without recording, by hardware watchpoints
  norns sketch --core core --binary ./server -- --port 0
                                        explain the failure that left a core file
  norns sketch --failing-exit -- ./test count every status but 0 as a failure

Exit status: 0 no failure was seen, 1 a failure was seen and sketched, 2 Norns could not do its job.")]
pub struct Arguments {
    /// C or C++ sources to compile and link into one program
    sources: Vec<PathBuf>,
    /// The program and its arguments; for sources, the arguments of the program
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// How many times to run the program at most
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    runs: u32,
    /// Seconds from the end of the first run to the last line
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    budget: u64,
    /// Leave the schedule to the machine, without delays and turns: what predicts the failure is then known
    /// less exactly, and nothing is forced
    #[arg(long)]
    undisturbed: bool,
    /// Run the program as it is, without recording, and watch only what its code says that the failure
    /// depends on, a part at a time
    #[arg(long, conflicts_with = "undisturbed")]
    track: bool,
    /// Explain the failure of which the program has left this core file
    #[arg(
        long,
        value_name = "FILE",
        requires = "binary",
        conflicts_with = "track"
    )]
    core: Option<PathBuf>,
    /// The program of the core file; its arguments come after --
    #[arg(
        long,
        value_name = "PROGRAM",
        requires = "core",
        conflicts_with = "sources"
    )]
    binary: Option<PathBuf>,
    /// Count every exit status but 0 as a failure
    #[arg(long)]
    failing_exit: bool,
    /// Count a line of the output, or of the client's, that contains this text as a failure
    #[arg(long, value_name = "TEXT")]
    failing_output: Option<String>,
    /// How many times the order that predicts the failure is forced, and how many times forbidden
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    proofs: u32,
    /// Seconds that one run of the program may take: longer is a hang
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    time_limit: u64,
    /// Megabytes of memory that one run of the program may use
    #[arg(long, default_value_t = 4096, value_name = "MEGABYTES")]
    memory_limit: u64,
    #[command(flatten)]
    session: session::Arguments,
    /// An option for the compiler, such as -O2 or -lm; may be repeated
    #[arg(long = "flag", value_name = "WORD", allow_hyphen_values = true)]
    flags: Vec<OsString>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub fn run(mut arguments: Arguments) -> Result<ExitCode> {
    let core = match (&arguments.core, &arguments.binary) {
        (Some(core), Some(binary)) => {
            let failure = core::failure(core, binary)?;
            let program = std::path::absolute(binary)?.into_os_string();
            arguments.command.insert(0, program);
            Some(failure)
        }
        _ => None,
    };
    if arguments.sources.is_empty() && arguments.command.is_empty() {
        bail!("nothing to run: name C sources, or a program after --");
    }
    let run = Run::create(&arguments.sources, &arguments.command)?;
    let mut means = match arguments.track {
        true => Some(Means::of_kernel(&run.folder)),
        false => None,
    };
    let mut program = program(&arguments, &run, means.as_mut())?;
    norns_replay::catch_interrupts();
    let deadline = Deadline::not_yet(Duration::from_secs(arguments.budget));
    let sanitizer = match &arguments.sources[..] {
        [] => sanitizer_of(Path::new(&program.command[0])),
        _ => None,
    };
    if sanitizer.is_some() {
        program.preload = None;
    }
    let options = Options {
        runs: arguments.runs.max(1),
        undisturbed: arguments.undisturbed || arguments.track || sanitizer.is_some(),
        signs: Signs {
            exit: arguments.failing_exit,
            output: arguments.failing_output.clone(),
        },
        proofs: arguments.proofs,
        core,
    };
    let (sketch, gaps) = match means {
        Some(means) => {
            let of_runs = means.of_runs();
            let mut watched = Watched::new(&arguments, &run, &mut program, means, deadline);
            let (sketch, reach) = tracking::track(&mut watched, of_runs, &options)?;
            let shown = [&sketch.failing, &sketch.good].into_iter().flatten();
            let shown: Vec<u32> = shown.map(|shown| shown.number).collect();
            watched.finish(&shown)?;
            let gaps = watched.gaps(reach);
            (sketch, gaps)
        }
        None => {
            let mut repeated = Repeated::new(&arguments, &run, &mut program, deadline);
            let sketch = norns_sketch::sketch(&mut repeated, &options)?;
            repeated.finish(&sketch)?;
            let gaps = repeated.gaps();
            (sketch, gaps)
        }
    };
    let mut cause = view::cause(&sketch, &options);
    if let Some(sanitizer) = sanitizer {
        cause.notes.push(format!(
            "the program was built with {sanitizer}, beside whose runtime that of Norns cannot be: its runs were \
             ordinary ones, and only how they ended is known"
        ));
    }
    if cause.failure.is_some() || !arguments.track {
        cause.notes.extend(gaps);
    }
    cause.relative_to(&run.about()?.folder);
    saved::save(&run, &program)?;
    let picture = keep::keep(&arguments, &run, &sketch, &mut cause)?;
    run.save("sketch.json", &cause)?;
    match arguments.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&cause)?),
        Format::Text => {
            print!("{}", cause.text());
            if let Some(picture) = picture {
                print!("{}", terminal::panels(&picture, show::style()));
                println!("next: norns show {}", picture.id);
            }
        }
    }
    Ok(if cause.failure.is_some() {
        ExitCode::from(exit::FOUND)
    } else if sketch.runs.is_empty() || norns_replay::interrupted() {
        ExitCode::from(exit::CANNOT)
    } else {
        ExitCode::SUCCESS
    })
}

/// The sanitizer with which a program was built that replaces `malloc` by its own, as the runtime of Norns does.
fn sanitizer_of(program: &Path) -> Option<&'static str> {
    let bytes = std::fs::read(program).unwrap_or_default();
    let mentions = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    let known = [
        ("AddressSanitizer", &b"__asan_init"[..]),
        ("MemorySanitizer", b"__msan_init"),
        ("HWAddressSanitizer", b"__hwasan_init"),
    ];
    let found = known.into_iter().find(|(_, function)| mentions(function));
    found.map(|(name, _)| name)
}

/// The program to run: compiled from the sources, or as it was given. With `means` it is tracked.
fn program(arguments: &Arguments, run: &Run, means: Option<&mut Means>) -> Result<Program> {
    let (sources, flags) = (&arguments.sources, &arguments.flags);
    let is_tracked = means.is_some();
    let program = match (&sources[..], means) {
        ([], means) => build::program_of(&arguments.command, |file| {
            if let Some(means) = means {
                means.find_sites(file);
            }
        })?,
        (_, Some(means)) => build::compiled(run, &arguments.command, |file| {
            means.compile(sources, flags, file)
        })?,
        (_, None) => build::compiled(run, &arguments.command, |file| {
            build::build(sources, flags, file, true, None)
        })?,
    };
    let preload = match (is_tracked, &program.preload) {
        // What is linked with the runtime loads it anyway.
        (true, None) if !build::is_instrumented(Path::new(&program.command[0])) => {
            Some(runtime_library::find()?)
        }
        (_, preload) => preload.clone(),
    };
    Ok(Program {
        session: arguments.session.session(),
        preload,
        ..program
    })
}
