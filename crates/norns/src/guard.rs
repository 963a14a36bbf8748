//! `norns guard`: a run that validates suspicions on the way.
//!
//! With a hive, `norns guard` starts an agent apart from itself (`norns agent --session`) and then becomes the
//! program: its process, its parent, its children, its signals and its exit status are those of the program. With `--runs`
//! or `--dry-run` it stays and runs the program itself.

pub mod agent;
mod folder;
mod frames;
pub mod local;
mod log;
pub mod process;
mod program;
mod remote;
mod source;
mod spool;
mod state;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use norns_hive::Verdict;
use norns_hive::client::{CA_VARIABLE, TOKEN_VARIABLE};
use norns_hive::embedded::{EmbeddedError, build_of};
use norns_hive::protocol::Build;
use norns_hive::races::{FORMAT, Race, Races};
use norns_hive::tokens;
use norns_wire::environment;

use crate::runs::Run;
use crate::{cc, exit, hive, runs, runtime_library};
use agent::Agent;
pub use folder::Folder;
pub use log::Log;
pub use remote::{Address, Remote, Tokens};
pub use source::Source;
pub use state::State;

/// How long a session waits for the hive's first answer before its program begins.
pub const FIRST_ANSWER: Duration = Duration::from_millis(250);
/// How long a run of several waits for its task.
const ANSWER: Duration = Duration::from_secs(2);
/// How long processes that a run has left behind are waited for.
const LEFT_BEHIND: Duration = Duration::from_secs(2);
/// How long the last reports may take on their way before they are left in the spool.
pub const LAST_REPORTS: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
#[command(after_help = "Examples:
  norns guard --hive http://127.0.0.1:7007 -- ./server --port 80
                                        a run of a server that takes part in a hive
  norns guard --runs 50 -- ./test-suite 50 runs, each with a task, without a hive
  norns guard --runs 50 queue.c         the same for a source, which is compiled and scanned first
  norns guard --dry-run -- ./server     a run that shows what it would send, and sends nothing

The program, or one that it starts, must have been built for norns guard: docs/hive.md.

Exit status: the program's own. With --runs: 0 no true race, 1 some, 2 Norns could not do its job.")]
pub struct Arguments {
    /// C or C++ sources to scan, compile and link into one program
    sources: Vec<PathBuf>,
    /// The program and its arguments; for sources, the arguments of the program
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    hive: HiveArguments,
    /// Run the program so many times, and list what is known of its races then; without --hive, what is found
    /// out stays in .norns/guard
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Show on standard error what would be sent to a hive, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// With --runs: seconds that one run of the program may take
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    time_limit: u64,
    /// An option for the compiler, such as -O2 or -lm; may be repeated
    #[arg(long = "flag", value_name = "WORD", allow_hyphen_values = true)]
    flags: Vec<OsString>,
    /// With --runs: how the races are listed. With json, the output of the program goes to standard error
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(clap::Args)]
pub struct HiveArguments {
    /// The address of the hive
    #[arg(long = "hive", value_name = "URL")]
    pub url: Option<String>,
    /// The token for the sites of the program; otherwise NORNS_HIVE_TOKEN, or the one that norns hive add has
    /// kept for this user
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

impl HiveArguments {
    /// How to reach the hive, if one is named.
    pub fn address(&self) -> Result<Option<Address>> {
        let Some(url) = &self.url else {
            return Ok(None);
        };
        if !["http://", "https://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            bail!("{url} is not the address of a hive: it begins with http:// or https://");
        }
        let set = std::env::var(TOKEN_VARIABLE)
            .ok()
            .filter(|it| !it.is_empty());
        let token = match self.token.clone().or(set) {
            Some(token) => Tokens::One(token),
            None => {
                let kept = tokens::file().map(|file| tokens::Tokens::read(&file));
                Tokens::Kept(kept.transpose().unwrap_or_default().unwrap_or_default())
            }
        };
        Ok(Some(Address {
            url: url.clone(),
            token,
            authorities: std::env::var_os(CA_VARIABLE).map(PathBuf::from),
        }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if arguments.sources.is_empty() && arguments.command.is_empty() {
        bail!("nothing to guard: name C sources, or a program after --");
    }
    let address = arguments.hive.address()?;
    if address.is_none() && arguments.runs.is_none() && !arguments.dry_run {
        bail!(
            "where do the tasks come from?\n help: --hive URL for a hive, or --runs 50 for runs on this machine without one"
        );
    }
    let (program, words) = program(&arguments)?;
    let build = match build_of(&program) {
        Ok(build) => Some(build),
        // A script, perhaps, that starts one.
        Err(EmbeddedError::NotGuarded(_) | EmbeddedError::Unreadable { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if build.is_none() && !arguments.sources.is_empty() {
        return Ok(nothing_to_validate(&arguments));
    }
    match (arguments.runs, address) {
        (Some(runs), address) => supervised(&arguments, runs, &words, build, address),
        (None, Some(_)) if !arguments.dry_run => {
            become_program(&arguments, &program, &words, build)
        }
        (None, _) => dry_run(&words, build),
    }
}

/// The executable, and the words of the command: compiled from the sources, or as it was given.
fn program(arguments: &Arguments) -> Result<(PathBuf, Vec<OsString>)> {
    if arguments.sources.is_empty() {
        let name = &arguments.command[0];
        let found = runtime_library::find_program(name);
        let found = found.with_context(|| format!("there is no program {}", name.display()))?;
        return Ok((found, arguments.command.clone()));
    }
    let run = Run::create(&arguments.sources, &arguments.command)?;
    let file = std::path::absolute(run.path("program"))?;
    cc::guarded::build(&arguments.sources, &arguments.flags, &file)?;
    let mut words = vec![file.clone().into_os_string()];
    words.extend(arguments.command.iter().cloned());
    Ok((file, words))
}

/// The scan suspects nothing.
fn nothing_to_validate(arguments: &Arguments) -> ExitCode {
    eprintln!("norns: the scan suspects no race of the sources: there is nothing to validate");
    if arguments.runs.is_some() {
        let races = Vec::new();
        show(
            arguments.format,
            &Races {
                format: FORMAT,
                races,
            },
        );
    }
    ExitCode::SUCCESS
}

/// Starts an agent, and becomes the program. What goes wrong with the agent leaves the program as it is.
fn become_program(
    arguments: &Arguments,
    program: &Path,
    words: &[OsString],
    build: Option<Build>,
) -> Result<ExitCode> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    match start_agent(&arguments.hive, build.is_some().then_some(program)) {
        Ok(folder) => {
            command.env(environment::GUARD, folder);
        }
        Err(error) => eprintln!("norns: the program runs unguarded: {error:#}"),
    }
    norns_replay::inherit_signals(&mut command);
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", words[0].display()))
}

/// Starts an agent that is no child of this process, and waits until its folder is ready.
fn start_agent(hive: &HiveArguments, program: Option<&Path>) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where norns is")?;
    let mut command = Command::new(own);
    command.arg("agent").arg("--detach");
    command.args(["--session", &std::process::id().to_string()]);
    if let Some(url) = &hive.url {
        command.args(["--hive", url]);
    }
    if let Some(token) = &hive.token {
        // Not on the command line, where everybody could read it.
        command.env(TOKEN_VARIABLE, token);
    }
    command.args(program.map(std::path::absolute).transpose()?);
    command.env_remove(environment::GUARD);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start the agent")?;
    let mut folder = String::new();
    let output = child.stdout.take().expect("it is piped");
    BufReader::new(output)
        .read_line(&mut folder)
        .context("cannot hear the agent")?;
    let mut said = String::new();
    if folder.is_empty()
        && let Some(mut errors) = child.stderr.take()
    {
        let _ = errors.read_to_string(&mut said);
    }
    child.wait().context("cannot wait for the agent")?;
    match folder.trim_end() {
        "" => bail!("{}", said.trim().trim_start_matches("error: ")),
        folder => Ok(PathBuf::from(folder)),
    }
}

/// A run that shows what it would send.
fn dry_run(words: &[OsString], build: Option<Build>) -> Result<ExitCode> {
    let source = Source::Dry {
        local: local::Local::new(None),
        participant: State::open().participant(),
    };
    let mut agent = Agent::new(Folder::of_session()?, source, Log::on_standard_error());
    build.into_iter().for_each(|build| agent.add(build));
    let mut session = Session {
        agent: &mut agent,
        words,
        input: Stdio::inherit,
        hides_output: false,
        limit: None,
    };
    session.waits_for_task();
    let status = session.run()?.status;
    agent.finish();
    // As a shell says it of a signal.
    let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code as u8))
}

/// Several runs, and what is known then.
fn supervised(
    arguments: &Arguments,
    runs: u32,
    words: &[OsString],
    build: Option<Build>,
    address: Option<Address>,
) -> Result<ExitCode> {
    let state = State::open();
    let folder = runs::home()?.join("guard");
    let mut lock = None;
    let source = match address {
        _ if arguments.dry_run => Source::Dry {
            local: local::Local::new(None),
            participant: state.participant(),
        },
        Some(address) => {
            let spool = state.spool(&address.url);
            let log = Log::on_standard_error();
            Source::Remote {
                hive: Remote::start(address, state.participant(), &spool, log),
                seen: local::Local::new(None),
            }
        }
        None => {
            lock = Some(local::lock(&folder)?);
            Source::Local(local::Local::new(Some(folder)))
        }
    };
    let files = Folder::of_session().context("cannot write files for the program")?;
    let mut agent = Agent::new(files, source, Log::on_standard_error());
    build.into_iter().for_each(|build| agent.add(build));
    norns_replay::catch_interrupts();
    let mut session = Session {
        agent: &mut agent,
        words,
        input: input_of_run,
        hides_output: arguments.format == Format::Json,
        limit: Some(Duration::from_secs(arguments.time_limit)),
    };
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    let mut made = 0;
    while made < runs && !norns_replay::interrupted() {
        session.waits_for_task();
        if made > 0 && session.agent.hive.seen().is_done() && arguments.hive.url.is_none() {
            eprintln!("norns: after {made} runs there is nothing left to try");
            break;
        }
        let end = session.run()?;
        made += 1;
        *ends.entry(end.describe()).or_default() += 1;
        if session.agent.builds().next().is_none() {
            bail!(
                "no program that was built for norns guard has run\n help: docs/hive.md says how one is built"
            );
        }
    }
    agent.finish();
    if let Source::Remote { hive, .. } = &agent.hive {
        hive.finish(LAST_REPORTS);
    }
    ends.remove("exit status 0");
    for (end, times) in &ends {
        eprintln!("norns: {times} of {made} runs ended with {end}");
    }
    if agent.guarded == 0 {
        bail!("{made} runs were made, and none was guarded");
    }
    let seen = agent.hive.seen();
    let races = seen.races();
    let files = seen.save()?;
    drop(lock);
    show(arguments.format, &races);
    for file in files {
        eprintln!(
            "norns: norns check --race {} tries to confirm it",
            file.display()
        );
    }
    let is_true = |race: &Race| race.verdict == Verdict::TrueRace;
    Ok(if races.races.iter().any(is_true) {
        ExitCode::from(exit::FOUND)
    } else if norns_replay::interrupted() {
        ExitCode::from(exit::CANNOT)
    } else {
        ExitCode::SUCCESS
    })
}

fn show(format: Format, races: &Races) {
    match format {
        // Of a large program, suspicions are hundreds of lines, and only --format json has them all.
        Format::Text => {
            let is_true = |race: &&Race| race.verdict == Verdict::TrueRace;
            let listed = races.races.iter().filter(is_true);
            print!("{}{}", hive::lines(listed), hive::summary(races));
        }
        Format::Json => println!(
            "{}",
            serde_json::to_string_pretty(races).expect("races have text keys")
        ),
    }
}

/// A file is read from its beginning in every run; nothing else can be read twice.
fn input_of_run() -> Stdio {
    let input = std::fs::File::open("/proc/self/fd/0");
    let is_file = |file: &std::fs::File| file.metadata().is_ok_and(|it| it.is_file());
    input
        .ok()
        .filter(is_file)
        .map_or_else(Stdio::null, Stdio::from)
}

/// Runs of a program under an agent in this process.
struct Session<'a> {
    agent: &'a mut Agent<Source>,
    words: &'a [OsString],
    input: fn() -> Stdio,
    hides_output: bool,
    limit: Option<Duration>,
}

struct End {
    status: ExitStatus,
    why_killed: Option<&'static str>,
}

impl End {
    fn describe(&self) -> String {
        match (self.why_killed, self.status.code()) {
            (Some(why), _) => why.to_owned(),
            (None, Some(code)) => format!("exit status {code}"),
            (None, None) => format!("signal {}", self.status.signal().unwrap_or(0)),
        }
    }
}

impl Session<'_> {
    fn waits_for_task(&mut self) {
        let begin = Instant::now();
        loop {
            self.agent.step();
            if !self.agent.waits() || begin.elapsed() > ANSWER {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        self.agent.step();
    }

    fn run(&mut self) -> Result<End> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin((self.input)());
        command.env(environment::GUARD, self.agent.folder());
        if self.hides_output {
            command.stdout(std::io::stderr().as_fd().try_clone_to_owned()?);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", self.words[0].display()))?;
        let begin = Instant::now();
        let mut why_killed = None;
        let status = loop {
            if let Some(status) = child.try_wait().context("cannot wait for the program")? {
                break status;
            }
            self.agent.step();
            if let Some(limit) = self.limit
                && why_killed.is_none()
            {
                why_killed = self.reason_to_kill(begin, limit);
                if why_killed.is_some() {
                    self.kill(&mut child);
                }
            }
            // Often at first, when the program may end at once.
            let pace =
                (begin.elapsed() / 20).clamp(Duration::from_millis(1), Duration::from_millis(20));
            sleep(pace);
        };
        let left = Instant::now();
        self.agent.hurry();
        self.agent.step();
        while self.agent.is_busy() && left.elapsed() < LEFT_BEHIND {
            sleep(Duration::from_millis(2));
            self.agent.hurry();
            self.agent.step();
        }
        Ok(End { status, why_killed })
    }

    fn reason_to_kill(&self, begin: Instant, limit: Duration) -> Option<&'static str> {
        if norns_replay::interrupted() {
            Some("an interrupt")
        } else if self.agent.hanging().next().is_some() {
            Some("a hang, and were stopped")
        } else if begin.elapsed() > limit {
            Some("no end in their time, and were stopped")
        } else {
            None
        }
    }

    fn kill(&self, child: &mut Child) {
        for process in self.agent.hanging() {
            let _ = Command::new("kill")
                .arg("-KILL")
                .arg(process.to_string())
                .status();
        }
        let _ = child.kill();
    }
}

/// 128 random bits, as 32 hexadecimal digits.
fn random_digits() -> String {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_err() {
        // Without it, what is different everywhere and always.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos()) ^ u128::from(std::process::id()) << 96;
        bytes = now.to_le_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
