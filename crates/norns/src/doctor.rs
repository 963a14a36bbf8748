//! `norns doctor`: checks that everything Norns needs is installed and allowed.
//!
//! Each check says what was found, what is needed and the command that helps. Compilers are not
//! only looked for: each builds, runs and records a small threaded program.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use norns_replay::process;
use norns_trace::{Op, create_raw, read};
use norns_wire::environment;

use crate::cc::{self, Language};
use crate::sketch::means::refusal;
use crate::{exit, runtime_library};

#[derive(clap::Args)]
pub struct Arguments {}

/// The result of one check.
struct Check {
    name: String,
    found: String,
    /// `None`: all is well.
    trouble: Option<Trouble>,
}

struct Trouble {
    needed: String,
    fix: String,
    /// Norns cannot work without it.
    fatal: bool,
}

pub fn run(_: Arguments) -> anyhow::Result<ExitCode> {
    let folder = env::temp_dir().join(format!("norns-doctor-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut checks = vec![machine(), runtime()];
    checks.extend(compilers(&folder));
    checks.extend([
        debugger(),
        second_opinion(),
        address_randomisation(),
        tracing_of_children(),
        watchpoints(&folder),
        address_space(),
        disk(),
    ]);
    let _ = fs::remove_dir_all(&folder);

    let mut fatal = false;
    for check in &checks {
        match &check.trouble {
            None => println!("ok       {:<26} {}", check.name, check.found),
            Some(trouble) => {
                fatal |= trouble.fatal;
                let mark = if trouble.fatal {
                    "missing "
                } else {
                    "without "
                };
                println!("{mark} {:<26} found: {}", check.name, check.found);
                println!("         {:<26} needed: {}", "", trouble.needed);
                println!("         {:<26} help: {}", "", trouble.fix);
            }
        }
    }
    Ok(if fatal {
        ExitCode::from(exit::CANNOT)
    } else {
        ExitCode::SUCCESS
    })
}

fn good(name: &str, found: impl Into<String>) -> Check {
    Check {
        name: name.into(),
        found: found.into(),
        trouble: None,
    }
}

fn bad(name: &str, found: impl Into<String>, needed: &str, fix: &str, fatal: bool) -> Check {
    let trouble = Trouble {
        needed: needed.into(),
        fix: fix.into(),
        fatal,
    };
    Check {
        name: name.into(),
        found: found.into(),
        trouble: Some(trouble),
    }
}

fn machine() -> Check {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let found = format!(
        "{} {} {}",
        env::consts::OS,
        kernel.trim(),
        env::consts::ARCH
    );
    if env::consts::OS == "linux" && env::consts::ARCH == "x86_64" {
        good("machine", found)
    } else {
        bad(
            "machine",
            found,
            "Linux on x86_64",
            "use such a machine or a virtual one",
            true,
        )
    }
}

fn runtime() -> Check {
    match runtime_library::find() {
        Ok(path) => good("runtime", path.display().to_string()),
        Err(error) => bad(
            "runtime",
            error.to_string().lines().next().unwrap_or_default(),
            "libnorns_rt.so beside the norns executable",
            "cargo build --release --workspace",
            true,
        ),
    }
}

/// The compilers that would be used, and every other one that is here.
fn compilers(folder: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut clang = false;
    let mut tried = String::new();
    for (language, name, fix) in [
        (Language::C, "C compiler", "sudo apt-get install gcc"),
        (Language::Cxx, "C++ compiler", "sudo apt-get install g++"),
    ] {
        match cc::find_compiler(language) {
            Err(error) => {
                let found = error
                    .to_string()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                checks.push(bad(
                    name,
                    found,
                    "gcc or clang",
                    fix,
                    language == Language::C,
                ));
            }
            Ok(compiler) => {
                let words: Vec<String> = compiler
                    .words
                    .iter()
                    .map(|word| word.display().to_string())
                    .collect();
                let words = words.join(" ");
                checks.push(try_compiler(name, language, &words, folder, true));
                if language == Language::C {
                    tried = words;
                }
            }
        }
    }
    for name in [
        "gcc", "clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14",
    ] {
        if runtime_library::find_program(OsStr::new(name)).is_some() {
            clang |= name.starts_with("clang");
            if tried == name {
                continue;
            }
            checks.push(try_compiler(
                &format!("with NORNS_CC={name}"),
                Language::C,
                name,
                folder,
                false,
            ));
        }
    }
    if !clang {
        checks.push(bad(
            "clang",
            "none on PATH",
            "clang 14 to 19, for wait loops, user-specified events and branches",
            "sudo apt-get install clang",
            false,
        ));
    }
    checks
}

const PROGRAM: &str = "#include <pthread.h>
static int shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *argument) {
    pthread_mutex_lock(&lock);
    shared += 1;
    pthread_mutex_unlock(&lock);
    return argument;
}
int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, work, 0)) return 1;
    return pthread_join(thread, 0);
}
";

/// Builds, runs and records the program above.
fn try_compiler(
    name: &str,
    language: Language,
    compiler: &str,
    folder: &Path,
    fatal: bool,
) -> Check {
    let version = version_of(compiler);
    let found = format!("{compiler}, {version}");
    match build_and_record(language, compiler, folder) {
        Ok(()) => good(name, format!("{found}: builds, runs, records")),
        Err(problem) => bad(
            name,
            format!("{found}: {problem}"),
            "a compiler that builds with -fsanitize=thread",
            if compiler.contains("clang") {
                "sudo apt-get install clang libc6-dev"
            } else {
                "sudo apt-get install gcc g++ libc6-dev"
            },
            fatal,
        ),
    }
}

fn version_of(compiler: &str) -> String {
    let mut words = compiler.split_whitespace();
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .arg("-dumpfullversion")
        .arg("-dumpversion")
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "version unknown".into(),
    }
}

fn build_and_record(language: Language, compiler: &str, folder: &Path) -> Result<(), String> {
    let (suffix, variable, subcommand) = match language {
        Language::C => ("c", "NORNS_CC", "cc"),
        Language::Cxx => ("cc", "NORNS_CXX", "c++"),
    };
    let source = folder.join(format!("probe.{suffix}"));
    let program = folder.join("probe");
    let trace = folder.join("probe.norns");
    fs::write(&source, PROGRAM).map_err(|error| error.to_string())?;
    let own = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(own)
        .args([subcommand, "-pthread", "-O1"])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .env(variable, compiler)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said
            .lines()
            .find(|line| line.contains("error") || line.contains("cannot"))
            .unwrap_or("cannot build");
        return Err(line.trim().chars().take(160).collect());
    }
    create_raw(&trace, &[]).map_err(|error| error.to_string())?;
    let status = Command::new(&program)
        .env(environment::MODE, environment::Mode::Record.word())
        .env(environment::TRACE, &trace)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the program that it built ends with {status}"));
    }
    let (recorded, _) = read(&trace).map_err(|error| error.to_string())?;
    let seen = |wanted: fn(&Op) -> bool| recorded.events.iter().any(|event| wanted(&event.op));
    if !seen(|op| matches!(op, Op::Lock(_))) || !seen(|op| matches!(op, Op::Join(_))) {
        return Err("its program's synchronisation is not seen".into());
    }
    if !seen(|op| matches!(op, Op::Read(_))) || !seen(|op| matches!(op, Op::Write(_))) {
        return Err("its program's memory accesses are not seen".into());
    }
    if !recorded
        .places
        .iter()
        .any(|place| place.frames.iter().any(|frame| frame.line > 0))
    {
        return Err("its program has no line tables".into());
    }
    Ok(())
}

fn debugger() -> Check {
    match runtime_library::find_program(OsStr::new("gdb")) {
        Some(path) => good("debugger", path.display().to_string()),
        None => bad(
            "debugger",
            "no gdb on PATH",
            "gdb, to stop a replay just before a bug",
            "sudo apt-get install gdb",
            false,
        ),
    }
}

fn second_opinion() -> Check {
    match runtime_library::find_program(OsStr::new("z3")) {
        Some(path) => good("second opinion", path.display().to_string()),
        None => good(
            "second opinion",
            "no z3 on PATH, which norns order --second-opinion needs",
        ),
    }
}

fn address_randomisation() -> Check {
    let name = "fixed addresses";
    if process::can_fix_addresses() {
        good(
            name,
            "address-space randomisation can be switched off for a program",
        )
    } else {
        bad(
            name,
            "the kernel refuses personality(ADDR_NO_RANDOMIZE)",
            "it, for replays that find their objects again",
            "in a container: docker run --security-opt seccomp=unconfined …",
            false,
        )
    }
}

fn tracing_of_children() -> Check {
    let name = "tracing";
    let value =
        fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_else(|_| "0".into());
    let value = value.trim();
    if matches!(value, "0" | "1") {
        good(name, format!("kernel.yama.ptrace_scope is {value}"))
    } else {
        bad(
            name,
            format!("kernel.yama.ptrace_scope is {value}"),
            "1 or less, to open a replay in gdb",
            "sudo sysctl kernel.yama.ptrace_scope=1",
            false,
        )
    }
}

/// Whether programs may watch their own memory: a tracked run asks the kernel.
fn watchpoints(folder: &Path) -> Check {
    let name = "watchpoints";
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid = paranoid.trim();
    match refusal(folder) {
        None => good(name, format!("allowed (perf_event_paranoid is {paranoid})")),
        Some(_) => bad(
            name,
            format!("the kernel refuses them (perf_event_paranoid is {paranoid})"),
            "2 or less, and no container that forbids perf_event_open, for sketch --track",
            "sudo sysctl kernel.perf_event_paranoid=2",
            false,
        ),
    }
}

fn address_space() -> Check {
    let name = "address space";
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max address space"));
    let soft = line
        .and_then(|line| line.split_whitespace().nth(3))
        .unwrap_or("unlimited");
    if soft == "unlimited" {
        good(name, "unlimited")
    } else {
        bad(
            name,
            format!("{soft} bytes"),
            "unlimited, for the race detector's shadow memory",
            "ulimit -v unlimited",
            false,
        )
    }
}

fn disk() -> Check {
    let name = "room for traces";
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let output = Command::new("df").args(["-Pk", "."]).output().ok();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let free = text
        .lines()
        .nth(1)
        .and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    match free {
        None => good(name, "not known"),
        Some(kilobytes) => {
            let found = format!(
                "{:.1} GB free in {}",
                kilobytes as f64 / 1e6,
                here.display()
            );
            if kilobytes >= 1_000_000 {
                good(name, found)
            } else {
                bad(
                    name,
                    found,
                    "1 GB or more",
                    "run norns in a folder with more room",
                    false,
                )
            }
        }
    }
}
