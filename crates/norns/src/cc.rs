//! `norns cc` and `norns c++`: the project's own compiler, with instrumentation and our runtime.
//!
//! A command that compiles gets `-fsanitize=thread` and what makes its hooks complete, a command
//! that links gets the runtime, everything else reaches the compiler word for word. The reason for
//! each option stands where it is added. Options come first on the command line when their order
//! matters to the linker (the runtime must stand before the C library), else last. With `NORNS_ASPECT`,
//! or when `norns check --aspect` compiles, clang also puts the events of an aspect file into the
//! program, and with `NORNS_WAIT_LOOPS` or `--wait-loops` what is to be known of wait loops (`sites`). A build for
//! `norns guard`, with `NORNS_GUARD_SITES`, is another one (`guarded`).
//!
//! Limits: a program for another machine, without an operating system or without the C library is
//! compiled unchanged; `-static` is left out, since nothing can be interposed in such a program.

mod bitcode;
mod command_line;
pub mod guarded;
pub mod sites;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, bail};

use crate::runtime_library;
use command_line::{CommandLine, Goal, expand, leave_out, refused_sanitizer, understand};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cxx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Gcc,
    Clang,
}

/// The compiler behind the wrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The program and its first words: `["ccache", "gcc"]`.
    pub words: Vec<OsString>,
    pub family: Family,
}

#[derive(clap::Args)]
pub struct Arguments {
    /// The compiler's own words
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// If this process was called as a compiler, through a link `norns-cc` or as `norns cc`, the
/// language and the words for the compiler. They are not ours to parse: `--version` and `--help`
/// belong to the compiler.
pub fn called_as_compiler() -> Option<(Language, Vec<OsString>)> {
    let mut words = env::args_os();
    let own = words.next()?;
    match Path::new(&own).file_name().and_then(OsStr::to_str) {
        Some("norns-cc") => return Some((Language::C, words.collect())),
        Some("norns-c++") => return Some((Language::Cxx, words.collect())),
        _ => {}
    }
    match words.next()?.to_str()? {
        "cc" => Some((Language::C, words.collect())),
        "c++" => Some((Language::Cxx, words.collect())),
        _ => None,
    }
}

/// Becomes the compiler, or runs it if bitcode is wanted. Returns an error only when that fails.
pub fn run(language: Language, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    if let Some(guarded) = guarded::Guarded::of_environment()? {
        return guarded::run(language, words, &guarded);
    }
    let orders = sites::Orders::of_environment()?;
    if bitcode::is_wanted() {
        let compiler = compiler_for(language, orders.as_ref())?;
        return bitcode::run(&compiler, words, orders.as_ref());
    }
    if let Some(orders) = &orders {
        let status = sites::compile(&sites::compiler(language)?, words, orders)?;
        // As a shell says it of a signal.
        let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
        return Ok(ExitCode::from(code as u8));
    }
    let compiler = find_compiler(language)?;
    let words = wrap(&compiler, words, None)?;
    let error = Command::new(&compiler.words[0])
        .args(&compiler.words[1..])
        .args(words)
        .exec();
    Err(error).with_context(|| format!("cannot run {}", compiler.words[0].display()))
}

/// Only clang can put sites into a program.
fn compiler_for(language: Language, orders: Option<&sites::Orders>) -> anyhow::Result<Compiler> {
    match orders {
        Some(_) => sites::compiler(language),
        None => find_compiler(language),
    }
}

/// Runs the compiler with Norns's additions, for a caller that goes on after it.
pub fn compile(
    language: Language,
    words: Vec<OsString>,
    orders: Option<&sites::Orders>,
) -> anyhow::Result<ExitStatus> {
    let compiler = compiler_for(language, orders)?;
    if let Some(orders) = orders {
        return sites::compile(&compiler, words, orders);
    }
    let words = wrap(&compiler, words, None)?;
    let status = Command::new(&compiler.words[0])
        .args(&compiler.words[1..])
        .args(words)
        .status();
    status.with_context(|| format!("cannot run {}", compiler.words[0].display()))
}

/// `NORNS_CC` or `NORNS_CXX`, else the usual names in the order in which projects try them.
pub fn find_compiler(language: Language) -> anyhow::Result<Compiler> {
    let (variable, names): (_, &[&str]) = match language {
        Language::C => ("NORNS_CC", &["gcc", "cc", "clang", "clang-19", "clang-14"]),
        Language::Cxx => (
            "NORNS_CXX",
            &["g++", "c++", "clang++", "clang++-19", "clang++-14"],
        ),
    };
    let words: Vec<OsString> = match env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(value) if runtime_library::find_program(&value).is_some() => vec![value],
        Some(value) => value
            .as_bytes()
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty())
            .map(|word| OsStr::from_bytes(word).to_owned())
            .collect(),
        None => {
            let name = names
                .iter()
                .find(|name| runtime_library::find_program(OsStr::new(name)).is_some());
            let Some(name) = name else {
                bail!(
                    "no compiler found ({} are not on PATH)\n help: sudo apt-get install gcc g++, or set {variable}",
                    names.join(", ")
                );
            };
            vec![name.into()]
        }
    };
    let Some(last) = words.last() else {
        bail!("{variable} is blank");
    };
    if Path::new(last)
        .file_name()
        .is_some_and(|name| name == "norns-cc" || name == "norns-c++")
    {
        bail!(
            "{variable} names the wrapper itself ({}); it must name the compiler behind it",
            last.display()
        );
    }
    let family = family_of(&words)?;
    Ok(Compiler { words, family })
}

fn family_of(words: &[OsString]) -> anyhow::Result<Family> {
    let program = words
        .last()
        .expect("a compiler has a name; checked by the caller");
    let by_name = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        if name.contains("clang") {
            Some(Family::Clang)
        } else if name.contains("gcc") || name.contains("g++") {
            Some(Family::Gcc)
        } else {
            None
        }
    };
    let resolved = runtime_library::find_program(program).and_then(|path| path.canonicalize().ok());
    if let Some(family) = resolved
        .as_deref()
        .and_then(by_name)
        .or_else(|| by_name(Path::new(program)))
    {
        return Ok(family);
    }
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["-dM", "-E", "-x", "c", "/dev/null"])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let macros = String::from_utf8_lossy(&output.stdout);
    if macros.contains("__clang__") {
        Ok(Family::Clang)
    } else if macros.contains("__GNUC__") {
        Ok(Family::Gcc)
    } else {
        bail!("{} is neither gcc nor clang", program.display())
    }
}

/// The compiler's words with Norns's additions.
fn wrap(
    compiler: &Compiler,
    mut words: Vec<OsString>,
    orders: Option<&sites::Orders>,
) -> anyhow::Result<Vec<OsString>> {
    // An option of the wrapper itself: also record branches.
    let count = words.len();
    words.retain(|word| word != "--branches");
    let branches =
        words.len() < count || env::var_os("NORNS_BRANCHES").is_some_and(|set| !set.is_empty());
    let mut expanded = Vec::with_capacity(words.len());
    for word in &words {
        expand(word, 0, &mut expanded);
    }
    if let Some(name) = expanded.iter().find_map(|word| refused_sanitizer(word)) {
        bail!(
            "-fsanitize={name} and Norns cannot be in one program: each has its own shadow of its memory\n \
             help: build without it for norns; norns check itself finds uses after free and double \
             frees between threads"
        );
    }
    let line = understand(&expanded);
    let plan = plan(&line);
    if plan == Plan::default() {
        return Ok(words);
    }
    let mut kept = Vec::with_capacity(words.len() + 16);
    for word in words {
        // A response file stays one, unless it holds what must be left out: its words may be too
        // many for a command line.
        if word.as_bytes().starts_with(b"@") {
            let mut inside = Vec::new();
            expand(&word, 0, &mut inside);
            if inside.iter().any(|word| leave_out(word) || is_static(word)) {
                kept.extend(inside);
                continue;
            }
        }
        kept.push(word);
    }
    let before = kept.len();
    kept.retain(|word| !(plan.link == Runtime::Needed && is_static(word)));
    if kept.len() < before {
        eprintln!("norns: -static is left out: a static program's synchronisation cannot be seen");
    }
    kept.retain(|word| !leave_out(word));

    let mut first: Vec<OsString> = Vec::new();
    let mut last: Vec<OsString> = Vec::new();
    if plan.link == Runtime::Needed && !line.shared {
        // A hook in the executable itself costs half of one behind the linkage table.
        let object = runtime_library::hooks_object(&runtime_library::find()?, &compiler.words);
        first.extend(object.iter().flat_map(|object| linker_words(&[object])));
    }
    if plan.instrument {
        last.extend(instrumentation(compiler.family, &line, branches));
        if orders.is_some() {
            last.push(joined("-fpass-plugin=", &sites::plugin(compiler)?));
        }
    }
    match plan.link {
        Runtime::None => {}
        Runtime::Needed if compiler.family == Family::Gcc => {
            // gcc adds -ltsan to every link with -fsanitize=thread; it finds ours first. Doing
            // without the flag would lose the instrumentation of link-time optimised objects.
            let runtime = runtime_library::find()?;
            first.push(joined("-L", &runtime_library::gcc_shim(&runtime)?));
            last.push("-fsanitize=thread".into());
            last.extend(rpath(&runtime));
        }
        Runtime::Needed => {
            let runtime = runtime_library::find()?;
            if plan.instrument {
                first.push("-fno-sanitize-link-runtime".into());
            }
            first.extend(linker_words(&["--push-state", "--no-as-needed"]));
            first.extend(linker_words(&[&runtime]));
            first.extend(linker_words(&["--pop-state"]));
            last.extend(rpath(&runtime));
        }
        Runtime::IfUsed => {
            let runtime = runtime_library::find()?;
            last.extend(linker_words(&["--push-state", "--as-needed", "-Bdynamic"]));
            last.extend(linker_words(&[&runtime]));
            last.extend(linker_words(&["--pop-state"]));
            last.extend(rpath(&runtime));
        }
    }

    // Behind `--` everything is a file.
    let end = kept
        .iter()
        .position(|word| word == "--")
        .unwrap_or(kept.len());
    let files = kept.split_off(end);
    Ok(first
        .into_iter()
        .chain(kept)
        .chain(last)
        .chain(files)
        .collect())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    instrument: bool,
    link: Runtime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Runtime {
    #[default]
    None,
    Needed,
    /// The objects may be instrumented, but the command asks for no library.
    IfUsed,
}

fn plan(line: &CommandLine) -> Plan {
    if line.goal == Goal::Nothing || !line.has_input || line.foreign.is_some() {
        return Plan::default();
    }
    let links = line.goal == Goal::Link && !line.relocatable;
    if line.without_libraries {
        // libtool links C++ libraries with -nostdlib and names every library itself; what names no
        // C library may run without one.
        let link = if links && !line.compiles && (line.shared || line.links_libc) {
            Runtime::IfUsed
        } else {
            Runtime::None
        };
        return Plan {
            instrument: false,
            link,
        };
    }
    Plan {
        instrument: line.compiles,
        link: if links {
            Runtime::Needed
        } else {
            Runtime::None
        },
    }
}

fn instrumentation(family: Family, line: &CommandLine, branches: bool) -> Vec<OsString> {
    let mut flags = vec!["-fsanitize=thread", "-fno-omit-frame-pointer"];
    if branches {
        flags.push(match family {
            Family::Gcc => "-fsanitize-coverage=trace-pc",
            Family::Clang => "-fsanitize-coverage=edge,trace-pc",
        });
    }
    if !line.line_tables {
        flags.push("-g");
    }
    match family {
        // gcc expands these inline, without a hook; as calls they reach the runtime.
        Family::Gcc => flags.extend([
            "-Wno-tsan",
            "-fno-builtin-memset",
            "-fno-builtin-memcpy",
            "-fno-builtin-memmove",
            "-fno-builtin-bzero",
            "-fno-builtin-mempcpy",
            "-fno-builtin-strcpy",
            "-fno-builtin-stpcpy",
            "-fno-builtin-strncpy",
            "-fno-builtin-strcat",
            "-fno-builtin-strncat",
        ]),
        // clang leaves out the read of `x += 1` otherwise.
        Family::Clang => flags.extend(["-mllvm", "-tsan-instrument-read-before-write=1"]),
    }
    flags.into_iter().map(OsString::from).collect()
}

fn is_static(word: &OsStr) -> bool {
    matches!(word.to_str(), Some("-static" | "--static" | "-static-pie"))
}

fn rpath(runtime: &Path) -> Vec<OsString> {
    let folder = runtime.parent().unwrap_or(Path::new("/"));
    linker_words(&[OsStr::new("-rpath"), folder.as_os_str()])
}

/// As `-Xlinker` words: `-Wl,` would split a path at a comma, and a bare path after `-x c` would
/// be compiled.
fn linker_words<S: AsRef<OsStr>>(words: &[S]) -> Vec<OsString> {
    words
        .iter()
        .flat_map(|word| ["-Xlinker".into(), word.as_ref().to_owned()])
        .collect()
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}
