//! Running the program: same arguments, environment, folder and input, no address-space
//! randomisation, limits on time and memory, and nothing left behind.
//!
//! The program leads a process group of its own. Whatever way a run ends, the whole group is
//! killed and its leader reaped; processes that leave the group are found as descendants, since
//! this process adopts orphans while it runs programs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use norns_wire::environment::{self, Mode, PADDING};

/// What to run, always in the same way.
#[derive(Clone, Debug)]
pub struct Program {
    pub command: Vec<OsString>,
    pub folder: PathBuf,
    pub input: Input,
    /// The runtime, to be preloaded: for programs that were not built with it.
    pub preload: Option<PathBuf>,
}

/// Where the program's standard input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Nothing,
    /// Ours, as it is: a terminal.
    Inherited,
    /// What was read from ours while the program was recorded.
    File(PathBuf),
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    /// Bytes of memory that the program may use, beyond what it maps without touching.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            memory: 4 << 30,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
    /// It ran longer than the limit.
    TimedOut,
    /// It used more memory than the limit.
    OutOfMemory,
    /// Every thread slept in an untimed wait for another, for long.
    Hung,
}

impl Ended {
    /// For a sentence: "the program …".
    pub fn describe(&self) -> String {
        match self {
            Ended::Exited(status) => format!("exited with status {status}"),
            Ended::Signalled(signal) => format!("was killed by signal {signal}"),
            Ended::TimedOut => "did not end in the time that it was given".into(),
            Ended::OutOfMemory => "used more memory than it was given".into(),
            Ended::Hung => "hung: all its threads wait for each other".into(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("cannot {act} {path}: {source}")]
    File {
        act: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot read the trace: {0}")]
    Trace(#[from] norns_trace::Error),
    /// The runtime in the program is of another version than this tool.
    #[error(
        "cannot read what the runtime reports: it begins with `{header}` and not with `{}`\n \
         help: build the program again with this version of norns-cc",
        norns_wire::report::HEADER
    )]
    Report { header: String },
}

impl Error {
    pub(crate) fn file(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { act, path, source }
    }
}

/// Where the program's output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Nowhere,
    Ours,
    File(PathBuf),
}

/// One run of a program.
pub struct Run<'a> {
    pub program: &'a Program,
    pub mode: Mode,
    pub limits: Limits,
    /// More variables for the runtime.
    pub variables: Vec<(&'static str, OsString)>,
    pub output: Output,
    /// Where a copy of our standard input is kept while the program reads it.
    pub keep_input: Option<PathBuf>,
}

impl Run<'_> {
    fn command(&self) -> Result<Command, Error> {
        let program = self.program;
        let mut command = Command::new(&program.command[0]);
        command
            .args(&program.command[1..])
            .current_dir(&program.folder);
        for (name, value) in with_padding(self.mode, &self.variables) {
            command.env(name, value);
        }
        if let Some(runtime) = &program.preload {
            command.env("LD_PRELOAD", runtime);
        }
        match &self.output {
            Output::Ours => {}
            Output::File(path) => {
                let file = File::options()
                    .create(true)
                    .append(true)
                    .open(path)
                    .map_err(Error::file("write", path))?;
                let copy = file.try_clone().map_err(Error::file("write", path))?;
                command.stdout(file).stderr(copy);
            }
            Output::Nowhere => {
                command.stdout(Stdio::null()).stderr(Stdio::null());
            }
        }
        match &program.input {
            _ if self.keep_input.is_some() => command.stdin(Stdio::piped()),
            Input::Nothing => command.stdin(Stdio::null()),
            Input::Inherited => command.stdin(Stdio::inherit()),
            Input::File(path) => {
                command.stdin(File::open(path).map_err(Error::file("read", path))?)
            }
        };
        Ok(command)
    }

    /// Runs the program to its end, or to a limit.
    pub fn run(&self) -> Result<Ended, Error> {
        let mut command = self.command()?;
        let program = self.program.command[0].to_string_lossy().into_owned();
        let mut child =
            Group::start(&mut command).map_err(|source| Error::Start { program, source })?;
        if let Some(path) = &self.keep_input {
            child.feed_input(path)?;
        }
        Ok(child.wait(self.limits))
    }
}

/// The variables of a run and others that fill up, so that there are always as many and as long
/// ones: the stack begins below them, and what is on it then has the same address in a replay.
fn with_padding(
    mode: Mode,
    variables: &[(&'static str, OsString)],
) -> Vec<(&'static str, OsString)> {
    const LENGTH: usize = 4096;
    let mut all = vec![(environment::MODE, OsString::from(mode.word()))];
    all.extend_from_slice(variables);
    // At least one, for the rest of the length.
    let missing = (PADDING.len() + 1).saturating_sub(all.len()).max(1);
    all.extend(
        PADDING[..missing]
            .iter()
            .map(|&name| (name, OsString::new())),
    );
    let length = |(name, value): &(&str, OsString)| name.len() + value.len();
    let used: usize = all.iter().map(length).sum();
    let rest = used.next_multiple_of(LENGTH) - used;
    if let Some((_, value)) = all.last_mut() {
        *value = "-".repeat(rest).into();
    }
    all
}

/// A process group that is killed when this value goes.
pub struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // SAFETY: prctl with these arguments touches no memory.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        command.process_group(0);
        // SAFETY: between fork and exec only these two system calls are made, which are
        // async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(|| {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Ok(Self {
            child: command.spawn()?,
            reaped: false,
        })
    }

    fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Copies our standard input to the program for as long as both last, and to a file.
    fn feed_input(&mut self, path: &Path) -> Result<(), Error> {
        let Some(mut pipe) = self.child.stdin.take() else {
            return Ok(());
        };
        let mut kept = File::create(path).map_err(Error::file("write", path))?;
        // The thread ends with our input, or with this process: nobody waits for it, since a read
        // of our own standard input cannot be interrupted.
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            let mut input = io::stdin();
            while let Ok(length @ 1..) = input.read(&mut buffer) {
                let bytes = &buffer[..length];
                if kept.write_all(bytes).is_err() || pipe.write_all(bytes).is_err() {
                    break;
                }
            }
        });
        Ok(())
    }

    fn wait(&mut self, limits: Limits) -> Ended {
        let start = Instant::now();
        let mut still = Stillness::default();
        let mut nap = Duration::from_micros(200);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.reaped = true;
                return ended(status);
            }
            if start.elapsed() > limits.time {
                return Ended::TimedOut;
            }
            if resident(self.id()) > limits.memory {
                return Ended::OutOfMemory;
            }
            if still.all_threads_wait(self.id()) {
                return Ended::Hung;
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(10));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the group was made for this child; kill touches no memory.
        unsafe { libc::kill(-self.id(), libc::SIGKILL) };
        if !self.reaped {
            let _ = self.child.wait();
        }
        kill_orphans();
    }
}

/// Children that this process did not start: descendants of programs that outlived them.
fn kill_orphans() {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let Ok(text) = std::fs::read_to_string(path) else {
        return;
    };
    for id in text
        .split_whitespace()
        .filter_map(|id| id.parse::<i32>().ok())
    {
        // An orphan has left its program's group or belongs to a group whose leader is gone.
        // SAFETY: getpgid and kill touch no memory.
        let group = unsafe { libc::getpgid(id) };
        let leader_alive = group > 0 && Path::new(&format!("/proc/{group}")).exists();
        if group != id && !leader_alive {
            // SAFETY: as above; waitpid writes nothing through a null pointer.
            unsafe {
                libc::kill(id, libc::SIGKILL);
                libc::waitpid(id, std::ptr::null_mut(), 0);
            }
        }
    }
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Signalled(signal.unwrap_or(0)),
    }
}

/// Bytes of memory that the process has touched.
fn resident(id: i32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{id}/statm"))
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Watches for a program in which every thread waits for another.
#[derive(Default)]
struct Stillness {
    since: Option<(Instant, u64)>,
}

const STILL_FOR: Duration = Duration::from_millis(700);

/// Signals whose handlers cannot end a wait: what a thread only sends to itself (ILL, TRAP, ABRT,
/// BUS, FPE, SEGV, SYS), and 32 and 33, which the C library keeps for itself. Bit 0 is signal 1.
const CANNOT_HELP: u64 = 0x1_c000_04f8;

impl Stillness {
    fn all_threads_wait(&mut self, id: i32) -> bool {
        let Some(switches) = waiting_threads(id) else {
            self.since = None;
            return false;
        };
        match self.since {
            Some((since, before)) if before == switches => since.elapsed() > STILL_FOR,
            _ => {
                self.since = Some((Instant::now(), switches));
                false
            }
        }
    }
}

/// If every thread of the process sleeps in an untimed futex and no handler of a signal could end
/// that: how often they have run so far.
fn waiting_threads(id: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))?;
    if u64::from_str_radix(caught.trim(), 16).ok()? & !CANNOT_HELP != 0 {
        return None;
    }
    let mut switches = 0;
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).ok()?;
    for task in tasks {
        let path = task.ok()?.path();
        let call = std::fs::read_to_string(path.join("syscall")).ok()?;
        let mut fields = call.split_whitespace();
        let futex = fields.next()? == libc::SYS_futex.to_string();
        let timeout = fields.nth(3)?;
        if !futex || timeout != "0x0" {
            return None;
        }
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        switches += status
            .lines()
            .filter_map(|line| line.split_once("ctxt_switches:"))
            .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
            .sum::<u64>();
    }
    Some(switches)
}
