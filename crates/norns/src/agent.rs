//! `norns agent`: what speaks for guarded programs that something else starts, such as a supervisor of services.
//!
//! The programs find it by `NORNS_GUARD`, which names its folder. `norns guard` starts one of its own for its
//! session, with `--session`.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use norns_wire::environment;

use crate::guard::agent::Agent;
use crate::guard::{
    FIRST_ANSWER, Folder, HiveArguments, LAST_REPORTS, Log, Remote, Source, State, local, process,
};

/// How often the agent looks at its programs.
const PACE: Duration = Duration::from_millis(50);
/// How often where none runs.
const IDLE_PACE: Duration = Duration::from_millis(250);
/// How long the agent of a session stays when no program is left: one that has put itself into the background may begin
/// its threads only then.
const LINGER: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = "Examples:
  norns agent --hive http://127.0.0.1:7007 --folder /run/norns ./server
                                        then start the server with NORNS_GUARD=/run/norns

It runs as the user of the services, until it is stopped by SIGTERM or SIGINT. Services run on without it, and are
guarded again when it is back.

Exit status: 0 stopped, 2 Norns could not do its job.")]
pub struct Arguments {
    /// Programs that were built for norns guard; others that are built for it are guarded from their second start on
    programs: Vec<PathBuf>,
    #[command(flatten)]
    hive: HiveArguments,
    /// The folder for files of programs, which NORNS_GUARD names; best in memory
    #[arg(long, value_name = "FOLDER", required_unless_present = "session")]
    folder: Option<PathBuf>,
    /// Of norns guard: the process with this id, and what it starts
    #[arg(long, value_name = "PROCESS", hide = true)]
    session: Option<u32>,
    /// Of norns guard: in a process of its own
    #[arg(long, hide = true, requires = "session")]
    detach: bool,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if arguments.detach {
        return detach();
    }
    let Some(address) = arguments.hive.address()? else {
        bail!("--hive URL is missing: where do the tasks come from?");
    };
    let state = State::open();
    let log = match arguments.session {
        Some(_) => state.log(),
        None => Log::on_standard_error(),
    };
    let folder = match &arguments.folder {
        Some(path) => Folder::at(path)
            .with_context(|| format!("cannot use {}; another agent, perhaps", path.display()))?,
        None => Folder::of_session().context("cannot write files for programs")?,
    };
    let spool = state.spool(&address.url);
    let hive = Remote::start(address, state.participant(), &spool, log.clone());
    let source = Source::Remote {
        hive,
        seen: local::Local::new(None),
    };
    let mut agent = Agent::new(folder, source, log);
    for program in &arguments.programs {
        agent.add(norns_hive::embedded::build_of(program)?);
    }
    norns_replay::catch_interrupts();
    let begin = Instant::now();
    agent.step();
    while agent.waits() && begin.elapsed() < FIRST_ANSWER {
        sleep(Duration::from_millis(2));
        agent.step();
    }
    println!("{}", agent.folder().display());
    std::io::stdout().flush().context("nobody listens")?;
    match arguments.session {
        Some(process) => attend(&mut agent, process),
        None => serve(&mut agent),
    }
    agent.finish();
    if let Source::Remote { hive, .. } = &agent.hive {
        hive.finish(LAST_REPORTS);
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the same again and ends, so that the agent is nobody's child but init's.
fn detach() -> Result<ExitCode> {
    let own = std::env::current_exe().context("cannot tell where norns is")?;
    let words = std::env::args_os()
        .skip(1)
        .filter(|word| word != "--detach");
    Command::new(own)
        .args(words)
        .env_remove(environment::GUARD)
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start the agent")?;
    Ok(ExitCode::SUCCESS)
}

/// Until it is stopped.
fn serve(agent: &mut Agent<Source>) {
    while !norns_replay::interrupted() {
        agent.step();
        sleep(if agent.is_busy() { PACE } else { IDLE_PACE });
    }
}

/// Until a process and all that it has started are over.
fn attend(agent: &mut Agent<Source>, process: u32) {
    let mut process = process::Process::new(process);
    let mut last = Instant::now();
    while last.elapsed() < LINGER && !norns_replay::interrupted() {
        agent.step();
        if agent.is_busy() || process.is_there() {
            last = Instant::now();
        }
        sleep(PACE);
    }
}
