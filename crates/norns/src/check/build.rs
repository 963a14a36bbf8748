//! What `check` and `sketch` run: compiled sources, or a program that is there already.

use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use norns_replay::{Input, Program, Session};

use crate::cc::sites::Orders;
use crate::cc::{self, Language};
use crate::progress::Stage;
use crate::runs::Run;
use crate::runtime_library;

/// Compiles and links the sources into one program; with `branches`, it records its branches too, and
/// with `orders` it emits the events of an aspect file.
pub fn build(
    sources: &[PathBuf],
    flags: &[OsString],
    program: &Path,
    branches: bool,
    orders: Option<&Orders>,
) -> Result<()> {
    let language = language(sources)?;
    let mut words = words(sources, flags, program);
    words.extend(branches.then(|| "--branches".into()));
    let status = cc::compile(language, words, orders)?;
    if !status.success() {
        bail!("the sources do not compile");
    }
    Ok(())
}

/// Which sites a program gets for tracked runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackSites {
    Branches,
    /// Branches and accesses.
    Accesses,
}

/// Compiles and links the sources as a user would, without the runtime, and with these sites if there is a
/// clang for them. Returns why there are none.
pub fn build_plain(
    sources: &[PathBuf],
    flags: &[OsString],
    program: &Path,
    sites: TrackSites,
) -> Result<Option<String>> {
    let language = language(sources)?;
    let words = words(sources, flags, program);
    let compile = |compiler: &cc::Compiler, plugin: Option<&Path>| {
        let mut command = Command::new(&compiler.words[0]);
        command.args(&compiler.words[1..]).arg("-O1").args(&words);
        if let Some(plugin) = plugin {
            let mut word = OsString::from("-fpass-plugin=");
            word.push(plugin);
            command.arg(word);
            command.env(
                "NORNS_TRACK_SITES",
                match sites {
                    TrackSites::Branches => "branches",
                    TrackSites::Accesses => "accesses",
                },
            );
            // What fails with sites is compiled again without, and says what is wrong then.
            command.stderr(Stdio::null());
        }
        let status = command.status();
        status.with_context(|| format!("cannot run {}", compiler.words[0].display()))
    };
    let with_sites = cc::sites::compiler(language)
        .and_then(|compiler| Ok((cc::sites::plugin(&compiler)?, compiler)));
    let why_not = match with_sites {
        Ok((plugin, compiler)) => match compile(&compiler, Some(&plugin))?.success() {
            true => return Ok(None),
            false => "clang fails with the plug-in for them".to_string(),
        },
        Err(error) => {
            let text = format!("{error:#}");
            text.lines().next().unwrap_or_default().to_string()
        }
    };
    match compile(&cc::find_compiler(language)?, None)?.success() {
        true => Ok(Some(why_not)),
        false => bail!("the sources do not compile"),
    }
}

pub fn language(sources: &[PathBuf]) -> Result<Language> {
    let is_cxx = |source: &PathBuf| {
        let extension = source.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("cc" | "cpp" | "cxx" | "C" | "c++"))
    };
    for source in sources {
        if !source.exists() {
            bail!("there is no source {}", source.display());
        }
    }
    Ok(if sources.iter().any(is_cxx) {
        Language::Cxx
    } else {
        Language::C
    })
}

/// The words for a compiler that makes this program.
pub fn words(sources: &[PathBuf], flags: &[OsString], program: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["-g", "-pthread", "-o"].map(OsString::from).into();
    words.push(program.into());
    words.extend(sources.iter().map(|source| source.clone().into_os_string()));
    words.extend(flags.iter().cloned());
    words
}

/// A program that is there already. `found` looks at its file.
pub fn program_of(command: &[OsString], found: impl FnOnce(&Path)) -> Result<Program> {
    let mut command = command.to_vec();
    let file = runtime_library::find_program(&command[0])
        .with_context(|| format!("there is no program {}", command[0].display()))?;
    let preload = match is_instrumented(&file) {
        true => None,
        false => Some(runtime_library::find()?),
    };
    found(&file);
    command[0] = std::path::absolute(file)?.into();
    program(command, preload)
}

/// A program that `compile` makes in the folder of the run, with these arguments.
pub fn compiled(
    run: &Run,
    arguments: &[OsString],
    compile: impl FnOnce(&Path) -> Result<()>,
) -> Result<Program> {
    let file = run.path("program");
    let _stage = Stage::begin("compiling");
    compile(&file)?;
    let mut command = vec![file.into_os_string()];
    command.extend(arguments.iter().cloned());
    program(command, None)
}

fn program(command: Vec<OsString>, preload: Option<PathBuf>) -> Result<Program> {
    Ok(Program {
        command,
        folder: std::env::current_dir().context("cannot tell the working directory")?,
        input: input(),
        preload,
        plan: String::new(),
        session: Session::default(),
    })
}

/// Whether the program was built with norns-cc: its file mentions the runtime or its hooks.
pub fn is_instrumented(file: &Path) -> bool {
    let Ok(bytes) = fs::read(file) else {
        return false;
    };
    let mentions = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    mentions(b"libnorns_rt") || mentions(b"__tsan_init")
}

/// What the program reads as its standard input: the file that is ours, a copy of what comes from a
/// pipe, a socket or a terminal, and otherwise nothing.
pub fn input() -> Input {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Input::Copied;
    }
    let Ok(mut file) = stdin.as_fd().try_clone_to_owned().map(fs::File::from) else {
        return Input::Nothing;
    };
    let Ok(data) = file.metadata() else {
        return Input::Nothing;
    };
    if data.file_type().is_char_device() || data.is_dir() {
        return Input::Nothing;
    }
    if !data.is_file() {
        return Input::Copied;
    }
    // A file that was removed since it was opened, as some shells do for `<<`, has no path any more.
    let same = |path: &PathBuf| {
        let found = fs::metadata(path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == (data.dev(), data.ino()))
    };
    let path = fs::read_link("/proc/self/fd/0").ok().filter(same);
    match (path, file.stream_position()) {
        (Some(path), Ok(offset)) => Input::File { path, offset },
        _ => Input::Copied,
    }
}
