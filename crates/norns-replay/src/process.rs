//! Running the program: same arguments, environment, folder and input, no address-space
//! randomisation, limits on time and memory, and nothing left behind.
//!
//! A program with limits leads a process group of its own. However its run ends, the whole group is
//! killed and its leader reaped; processes that leave the group are found as descendants, since
//! this process adopts orphans while it runs programs. A program without limits is run as a shell
//! would run it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use norns_wire::environment::{self, Mode};

use crate::environment::{before_other_libraries, with_padding};
use crate::files::Files;
use crate::inputs::Inputs;
use crate::session::{Attendance, Session, Visit, Wish};
use crate::stillness::Stillness;

/// How long processes that a program has left running may take to end.
const BACKGROUND: Duration = Duration::from_secs(1);

/// The program to run.
#[derive(Clone, Debug)]
pub struct Program {
    pub command: Vec<OsString>,
    pub folder: PathBuf,
    pub input: Input,
    /// The runtime, if it is to be preloaded: a program that was built with it loads it anyway.
    pub preload: Option<PathBuf>,
    /// Which sites are on: the value of `environment::PLAN`.
    pub plan: String,
    pub session: Session,
}

/// Where the program's standard input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Nothing,
    /// From where ours comes, for example a terminal.
    Inherited,
    /// Through a pipe, from where ours comes. A copy is kept, which takes its place in later runs.
    Copied,
    /// Through a pipe, from a file that holds what an earlier run got.
    Kept(PathBuf),
    /// From a regular file, behind its first bytes.
    File {
        path: PathBuf,
        offset: u64,
    },
}

/// What a run may take; beyond it, the program is killed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    /// Bytes of memory that the program may touch.
    pub memory: u64,
    /// How many events of a recording are kept. The program may go on after that.
    pub events: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            memory: 4 << 30,
            events: u64::MAX,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
    /// It ran longer than its limit.
    TimedOut,
    /// It used more memory than its limit.
    OutOfMemory,
    /// Every thread slept for long in a wait that has no time-out and that only another thread ends.
    Hung,
    /// We were told to stop, and stopped it.
    Interrupted,
    /// Its session was over and it ended by the SIGTERM that this meant.
    Stopped,
    /// Its session was over and it did not end by itself.
    Killed,
}

impl Ended {
    /// Completes a sentence that begins with "the program".
    pub fn describe(&self) -> String {
        match self {
            Ended::Exited(status) => format!("exited with status {status}"),
            Ended::Signalled(signal) => format!("was killed by signal {signal}"),
            Ended::TimedOut => "did not end in the time that it was given".into(),
            Ended::OutOfMemory => "used more memory than it was given".into(),
            Ended::Hung => "hung: all its threads wait for each other".into(),
            Ended::Interrupted => "was stopped because Norns was interrupted".into(),
            Ended::Stopped => "was stopped by SIGTERM, as asked".into(),
            Ended::Killed => "did not end after SIGTERM and was killed".into(),
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
    #[error("cannot run the client: {0}")]
    Session(io::Error),
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
    /// `None` for a run without limits and without supervision: the program stays in our process
    /// group, so that the signals of a terminal reach it, and nothing kills it.
    pub limits: Option<Limits>,
    /// Variables of the environment for the runtime, besides its mode.
    pub variables: Vec<(&'static str, OsString)>,
    pub output: Output,
    /// Where a copy of our standard input is kept while the program reads it.
    pub keep_input: Option<PathBuf>,
    pub files: Files,
    pub inputs: Inputs,
}

impl Run<'_> {
    fn command(&self) -> Result<Command, Error> {
        let program = self.program;
        let mut command = Command::new(&program.command[0]);
        command
            .args(&program.command[1..])
            .current_dir(&program.folder);
        let mut variables = self.variables.clone();
        variables.push((environment::PLAN, program.plan.clone().into()));
        variables.extend(self.files.prepare()?);
        variables.extend(self.inputs.variables()?);
        for (name, value) in with_padding(self.mode, &variables) {
            command.env(name, value);
        }
        if let Some(runtime) = &program.preload {
            command.env("LD_PRELOAD", before_other_libraries(runtime));
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
            Input::Nothing => command.stdin(Stdio::null()),
            Input::Inherited => command.stdin(Stdio::inherit()),
            Input::Copied | Input::Kept(_) => command.stdin(Stdio::piped()),
            Input::File { path, offset } => {
                let mut file = File::open(path).map_err(Error::file("read", path))?;
                let moved = file.seek(SeekFrom::Start(*offset));
                moved.map_err(Error::file("read", path))?;
                command.stdin(file)
            }
        };
        Ok(command)
    }

    /// Runs the program to its end, or to a limit.
    pub fn run(&self) -> Result<Ended, Error> {
        Ok(self.run_until(|_, _| 0)?.ended)
    }

    /// As `run`. Processes that the program leaves running in the background get a moment to end.
    pub fn run_with_background(&self) -> Result<Finished, Error> {
        self.run_until(|run, group| {
            let end = Instant::now() + BACKGROUND;
            loop {
                let left = run.background(group).len();
                if left == 0 || Instant::now() >= end {
                    return left;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    }

    fn run_until(
        &self,
        at_the_end: impl FnOnce(&Self, &Group) -> usize,
    ) -> Result<Finished, Error> {
        let mut command = self.command()?;
        fix_addresses(&mut command);
        let cannot_run = |source| Error::Start {
            program: self.program.command[0].to_string_lossy().into_owned(),
            source,
        };
        let program = self.program;
        let (session, play) = (&program.session, self.inputs.play.as_ref());
        let mut attendance = Attendance::begin(session, play, &program.folder, &self.output);
        let Some(limits) = self.limits else {
            let mut child = command.spawn().map_err(cannot_run)?;
            let ended = watch(&mut child, &mut attendance)?;
            let (ended, visit) = attendance.end(ended);
            return Ok(Finished {
                ended,
                left_running: 0,
                visit,
            });
        };
        let _orphans = Orphans;
        let mut group = Group::start(&mut command).map_err(cannot_run)?;
        let feeding = self.feed_input(&mut group)?;
        let ended = group.wait(limits, &mut attendance)?;
        drop(feeding);
        let left_running = match ended {
            Ended::Exited(_) => at_the_end(self, &group),
            _ => 0,
        };
        for id in self.background(&group) {
            // SAFETY: `kill` takes two numbers and accesses no memory. The id is that of our child,
            // which is not reaped yet, so that no other process can have it.
            unsafe { libc::kill(id, libc::SIGKILL) };
            // SAFETY: `waitpid` does not write a status through a null pointer.
            unsafe { libc::waitpid(id, std::ptr::null_mut(), 0) };
        }
        let (ended, visit) = attendance.end(ended);
        Ok(Finished {
            ended,
            left_running,
            visit,
        })
    }

    /// Begins to write the program's standard input, where that is a pipe of ours.
    fn feed_input(&self, group: &mut Group) -> Result<Option<Feeding>, Error> {
        let Some(pipe) = group.child.stdin.take() else {
            return Ok(None);
        };
        let kept = match &self.keep_input {
            Some(path) => Some(File::create(path).map_err(Error::file("write", path))?),
            None => None,
        };
        let source = match &self.program.input {
            Input::Kept(path) => Source::File(File::open(path).map_err(Error::file("read", path))?),
            _ => Source::Ours,
        };
        Ok(Some(Feeding::begin(source, pipe, kept)))
    }

    /// The processes that this process has adopted from the program, as far as they have its
    /// environment. Those that have ended are reaped.
    fn background(&self, group: &Group) -> Vec<i32> {
        let Some((name, value)) = self.variables.first() else {
            return Vec::new();
        };
        let mut mark = format!("{name}=").into_bytes();
        mark.extend_from_slice(value.as_bytes());
        let belongs = |id: &i32| {
            let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            variables
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark)
        };
        // SAFETY: `waitpid` does not write a status through a null pointer.
        let runs =
            |id: &i32| unsafe { libc::waitpid(*id, std::ptr::null_mut(), libc::WNOHANG) == 0 };
        let others = children().into_iter().filter(|id| *id != group.id());
        others.filter(belongs).filter(runs).collect()
    }
}

/// How a run went.
pub struct Finished {
    pub ended: Ended,
    /// How many processes it left running in the background; they were stopped.
    pub left_running: usize,
    pub visit: Option<Visit>,
}

/// Waits for the end of a program without limits.
fn watch(child: &mut Child, attendance: &mut Attendance) -> Result<Ended, Error> {
    if attendance.is_idle() {
        let status = child.wait().map_err(Error::Session)?;
        return Ok(ended(status));
    }
    loop {
        if let Some(status) = child.try_wait().map_err(Error::Session)? {
            return Ok(ended(status));
        }
        match attendance.step(child.id() as i32).map_err(Error::Session)? {
            Wish::GoOn => std::thread::sleep(Duration::from_millis(10)),
            Wish::Kill => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Ended::Killed);
            }
        }
    }
}

/// Asks a process to end. It must be a child of this process that is not reaped yet.
pub(crate) fn terminate(id: i32) {
    // SAFETY: `kill` takes two numbers and accesses no memory.
    unsafe { libc::kill(id, libc::SIGTERM) };
}

const NO_RANDOMISATION: libc::c_ulong = libc::ADDR_NO_RANDOMIZE as libc::c_ulong;

/// Lets the program run without address-space randomisation, if the system permits it.
fn fix_addresses(command: &mut Command) {
    let fix = || {
        // SAFETY: `personality` is a plain system call: it takes a number and accesses no memory.
        unsafe { libc::personality(NO_RANDOMISATION) };
        Ok(())
    };
    // SAFETY: the closure runs in the child between `fork` and `exec`, where another thread of ours
    // may have held any lock. It makes one system call and takes no lock, allocates nothing and
    // touches no memory that it shares with the parent.
    unsafe { command.pre_exec(fix) };
}

/// Whether the system lets a process switch off address-space randomisation; some containers do
/// not.
pub fn can_fix_addresses() -> bool {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: with this argument `personality` only returns the present value.
    let before = unsafe { libc::personality(ASK) };
    // SAFETY: `personality` takes a number and accesses no memory. It sets the flags of this thread,
    // which count only for what the thread executes; it executes nothing before they are reset.
    let set = unsafe { libc::personality(before as libc::c_ulong | NO_RANDOMISATION) };
    // SAFETY: as above.
    unsafe { libc::personality(before as libc::c_ulong) };
    set != -1
}

/// How SIGPIPE was handled before Rust's own code before `main` decided that it is ignored.
static SIGPIPE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Runs before `main` and what Rust does before it.
extern "C" fn look_at_sigpipe() {
    // SAFETY: an all-zero `sigaction` is a valid value, which the call below overwrites.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` lives through the call, which only asks.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) };
    SIGPIPE.store(action.sa_sigaction, Ordering::Relaxed);
}

#[used]
// SAFETY: the loader calls each function of this section once; this one needs nothing of Rust's that is
// not there yet.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_SIGPIPE: extern "C" fn() = look_at_sigpipe;

/// The command begins with the signals as this process got them: which are blocked, and whether SIGPIPE is ignored, as
/// it is for services of systemd. Rust's own way would reset both.
pub fn inherit_signals(command: &mut Command) {
    // SAFETY: an all-zero `sigset_t` is a valid value, which the call below overwrites.
    let mut blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: without a new mask the call only writes the present one to `blocked`.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked) };
    let is_ignored = SIGPIPE.load(Ordering::Relaxed) == libc::SIG_IGN;
    let restore = move || {
        if is_ignored {
            // SAFETY: no handler is set, so that no code can run by it.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        // SAFETY: `blocked` is a whole mask, and the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: the closure makes two system calls; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(restore) };
}

/// Whether SIGINT or SIGTERM has come since `catch_interrupts`.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on the first SIGINT or SIGTERM ends the current run of a program and is noted, so that
/// what is known can still be printed. The second one ends this process as usual.
pub fn catch_interrupts() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: an all-zero `sigaction` is a valid value: no flags and an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        // SAFETY: `action` is initialised and lives through the call, the old action is not asked
        // for, and the handler stores to a static atomic, which is allowed at any point of any
        // thread.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    }
}

/// Whether we were told to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

enum Source {
    Ours,
    File(File),
}

/// A thread that writes the program's standard input, for as long as this value lives.
struct Feeding(Arc<AtomicBool>);

impl Feeding {
    fn begin(mut source: Source, mut pipe: ChildStdin, mut kept: Option<File>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        // The thread is not joined: it may be in a write to a program that does not read.
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            loop {
                let got = match &mut source {
                    Source::File(file) => file.read(&mut buffer),
                    Source::Ours if !wait_for_input(&is_over) => break,
                    Source::Ours => io::stdin().read(&mut buffer),
                };
                let Ok(length @ 1..) = got else { break };
                let bytes = &buffer[..length];
                let keeps = |file: &mut File| file.write_all(bytes).is_ok();
                if !kept.as_mut().is_none_or(keeps) || pipe.write_all(bytes).is_err() {
                    break;
                }
            }
        });
        Self(over)
    }
}

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until our standard input can be read without blocking: what comes after the end of a run is
/// not for its program. False if the run is over.
fn wait_for_input(is_over: &AtomicBool) -> bool {
    const MILLISECONDS: libc::c_int = 20;
    let mut input = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    while !is_over.load(Ordering::Relaxed) {
        // SAFETY: `input` is one `pollfd` and lives through the call.
        if unsafe { libc::poll(&mut input, 1, MILLISECONDS) } != 0 {
            return true;
        }
    }
    false
}

/// A process group, which is killed when this value is dropped.
pub(crate) struct Group {
    /// The leader: its id is the id of the group.
    child: Child,
    /// Whether the leader has been waited for. Its id is free for another process then.
    reaped: bool,
}

impl Group {
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // SAFETY: PR_SET_CHILD_SUBREAPER takes a number; this `prctl` accesses no memory.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        command.process_group(0);
        let die_with_us = || {
            // SAFETY: PR_SET_PDEATHSIG takes a number; this `prctl` accesses no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            Ok(())
        };
        // SAFETY: as in `fix_addresses`: one system call, no lock, no allocation, no shared memory.
        unsafe { command.pre_exec(die_with_us) };
        Ok(Self {
            child: command.spawn()?,
            reaped: false,
        })
    }

    fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// The status of its leader, if that has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        self.reaped |= status.is_some();
        status
    }

    fn wait(&mut self, limits: Limits, attendance: &mut Attendance) -> Result<Ended, Error> {
        let start = Instant::now();
        let mut still = Stillness::default();
        let mut nap = Duration::from_micros(200);
        loop {
            if let Some(status) = self.ended() {
                return Ok(ended(status));
            }
            if interrupted() {
                return Ok(Ended::Interrupted);
            }
            if start.elapsed() > limits.time {
                return Ok(Ended::TimedOut);
            }
            if resident(self.id()) > limits.memory {
                return Ok(Ended::OutOfMemory);
            }
            if still.all_threads_wait(self.id()) {
                return Ok(Ended::Hung);
            }
            match attendance.step(self.id()).map_err(Error::Session)? {
                Wish::GoOn => {}
                Wish::Kill => return Ok(Ended::Killed),
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(10));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // While members of the group are alive, its id is given to no other process or group. If none
        // is left the call fails, unless the id has been used again since the leader was reaped.
        // SAFETY: `kill` takes two numbers and accesses no memory.
        unsafe { libc::kill(-self.id(), libc::SIGKILL) };
        if !self.reaped {
            let _ = self.child.wait();
        }
    }
}

/// Kills orphans when it is dropped, which must be after the program's group: a member of that is none.
struct Orphans;

impl Drop for Orphans {
    fn drop(&mut self) {
        kill_orphans();
    }
}

/// The processes whose parent this process is.
fn children() -> Vec<i32> {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let text = fs::read_to_string(path).unwrap_or_default();
    let ids = text.split_whitespace();
    ids.filter_map(|id| id.parse().ok()).collect()
}

/// Kills the children that this process did not start itself: it has adopted them from programs
/// that they outlived.
fn kill_orphans() {
    for id in children() {
        // SAFETY: `getpgid` takes a number and accesses no memory.
        let group = unsafe { libc::getpgid(id) };
        // An orphan has left its program's group, or belongs to a group whose leader is gone.
        let leader_alive = group > 0 && Path::new(&format!("/proc/{group}")).exists();
        if group != id && !leader_alive {
            // SAFETY: `kill` takes two numbers and accesses no memory. The id is that of our child,
            // which is not reaped before the next call, so that no other process can have it.
            unsafe { libc::kill(id, libc::SIGKILL) };
            // SAFETY: `waitpid` does not write a status through a null pointer.
            unsafe { libc::waitpid(id, std::ptr::null_mut(), 0) };
        }
    }
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Signalled(signal.unwrap_or(0)),
    }
}

/// How many bytes of memory the process has touched; 0 when it is gone.
fn resident(id: i32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{id}/statm"))
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
