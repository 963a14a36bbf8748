//! Sites, put into a program by the plug-in for clang: the events of an aspect file, and what is known of
//! loops that wait on conditions.
//!
//! The plug-in is used only when one of the two is asked for, and not whenever it happens to be built: what
//! a check finds must not depend on the commands before it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use norns_rules::Aspect;

use super::{Compiler, Family, Language, find_compiler, wrap};
use crate::config::distance;
use crate::runtime_library;

/// The orders of an aspect file, as a file for the plug-in; with none, only wait loops get their sites.
pub struct Orders {
    file: PathBuf,
    /// Where the plug-in notes what it found; not wanted when a build system runs the compiler.
    found: Option<PathBuf>,
}

/// Understands the text of an aspect file; its path is for messages.
pub fn parse_aspect(path: &Path, text: &str) -> Result<Aspect> {
    Aspect::parse(text).map_err(|errors| {
        let lines = errors
            .iter()
            .map(|error| format!("{}:{error}", path.display()));
        anyhow::anyhow!(lines.collect::<Vec<_>>().join("\n"))
    })
}

impl Orders {
    /// What `NORNS_ASPECT` names, or nothing but wait loops with `NORNS_WAIT_LOOPS`, or with them what
    /// tracked runs look at (`NORNS_TRACK_SITES`, which the plug-in reads): for a build with norns-cc.
    pub fn of_environment() -> Result<Option<Orders>> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let aspect = match set("NORNS_ASPECT").map(PathBuf::from) {
            Some(path) => {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {} (NORNS_ASPECT)", path.display()))?;
                parse_aspect(&path, &text)?
            }
            None if set("NORNS_WAIT_LOOPS").is_some() || set("NORNS_TRACK_SITES").is_some() => {
                Aspect::default()
            }
            None => return Ok(None),
        };
        // One file for all compilers of a build.
        let file = runtime_library::keep(aspect.for_plugin().as_bytes(), "orders")?;
        Ok(Some(Orders { file, found: None }))
    }

    /// The orders in a file of a folder of ours.
    pub fn in_folder(aspect: &Aspect, folder: &Path) -> Result<Orders> {
        let file = folder.join("orders");
        fs::write(&file, aspect.for_plugin())
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Orders {
            file,
            found: Some(folder.join("orders-found")),
        })
    }

    pub fn hand_to(&self, command: &mut Command) {
        command.env("NORNS_ORDERS", &self.file);
        command.env("NORNS_WAIT_LOOPS", "1");
        match &self.found {
            Some(found) => command.env("NORNS_ORDERS_MET", found),
            None => command.env_remove("NORNS_ORDERS_MET"),
        };
    }

    /// A warning for every order that found nothing, with names that it could have meant.
    pub fn warnings(&self, aspect: &Aspect, file: &Path) -> Vec<String> {
        let text = self
            .found
            .as_ref()
            .and_then(|found| fs::read_to_string(found).ok());
        let text = text.unwrap_or_default();
        let names: BTreeSet<&str> = { text.lines() }
            .filter_map(|line| line.strip_prefix('?'))
            .collect();
        let found: BTreeSet<&str> = text.lines().collect();
        let orders = aspect.orders.iter().enumerate();
        let missed = orders.filter(|(i, _)| !found.contains(&i.to_string()[..]));
        missed
            .map(|(_, order)| {
                let place = match order.line {
                    0 => String::new(),
                    line => format!("{}:{line}: ", file.display()),
                };
                let near = nearest(&order.target, &names);
                let near = match near.is_empty() {
                    true => String::new(),
                    false => format!("; there is {}", near.join(", ")),
                };
                format!("{place}`{order}` found nothing in the program{near}")
            })
            .collect()
    }
}

/// A warning for every event that a program has no site for: it was built without the aspect file, or its target
/// is not in it.
pub fn warnings_of_program(aspect: &Aspect, file: &Path, program: &Path) -> Vec<String> {
    let bytes = fs::read(program).unwrap_or_default();
    // The name of an event is a text of the program.
    let is_there = |event: &str| {
        let text = [b"\0", event.as_bytes(), b"\0"].concat();
        bytes.windows(text.len()).any(|window| window == text)
    };
    let missed = aspect.orders.iter().filter(|order| !is_there(&order.event));
    let missed: Vec<_> = missed.collect();
    if missed.is_empty() {
        return Vec::new();
    }
    let names = norns_trace::symbol_names(program);
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let warning = |order: &&norns_rules::Order| {
        let near = match names.contains(&order.target[..]) {
            true => format!("; build it with NORNS_ASPECT={}", file.display()),
            false => match nearest(&order.target, &names) {
                near if near.is_empty() => String::new(),
                near => format!("; there is {}", near.join(", ")),
            },
        };
        format!("`{order}` has no place in {}{near}", program.display())
    };
    missed.iter().map(warning).collect()
}

/// The names that are most like a target, the best first.
fn nearest(target: &str, names: &BTreeSet<&str>) -> Vec<String> {
    const MOST: usize = 3;
    let mut near: Vec<(usize, &str)> = { names.iter() }
        .map(|name| (distance(target, name), *name))
        .filter(|(distance, name)| *distance <= name.len().max(target.len()) / 2)
        .collect();
    near.sort_unstable();
    let near = near.into_iter().take(MOST);
    near.map(|(_, name)| format!("`{name}`")).collect()
}

/// A clang: the one that the user has chosen, or the newest that is there.
pub fn compiler(language: Language) -> Result<Compiler> {
    let (variable, names): (_, &[&str]) = match language {
        Language::C => ("NORNS_CC", &["clang-19", "clang", "clang-16", "clang-15"]),
        Language::Cxx => (
            "NORNS_CXX",
            &["clang++-19", "clang++", "clang++-16", "clang++-15"],
        ),
    };
    if env::var_os(variable).is_some_and(|value| !value.is_empty()) {
        let compiler = find_compiler(language)?;
        if compiler.family == Family::Gcc {
            bail!("events of an aspect file and wait loops need clang, and {variable} names gcc");
        }
        return Ok(compiler);
    }
    let there = |name: &&&str| runtime_library::find_program(OsStr::new(name)).is_some();
    let Some(name) = names.iter().find(there) else {
        bail!(
            "what puts sites into a program needs clang\n help: sudo apt-get install clang-19 llvm-19-dev"
        );
    };
    Ok(Compiler {
        words: vec![name.into()],
        family: Family::Clang,
    })
}

/// Runs the compiler with the plug-in. What that cannot handle is compiled without it, and that is said.
pub fn compile(compiler: &Compiler, words: Vec<OsString>, orders: &Orders) -> Result<ExitStatus> {
    let command = |words: Vec<OsString>| {
        let mut command = Command::new(&compiler.words[0]);
        command.args(&compiler.words[1..]).args(words);
        orders.hand_to(&mut command);
        command
    };
    let cannot = || format!("cannot run {}", compiler.words[0].display());
    let with = wrap(compiler, words.clone(), Some(orders))?;
    let without = wrap(compiler, words, None)?;
    if with == without {
        return command(with).status().with_context(cannot);
    }
    let child = command(with).stderr(Stdio::piped()).spawn();
    let output = child
        .and_then(|child| child.wait_with_output())
        .with_context(cannot)?;
    if output.status.success() {
        // What cannot be said is lost anyway.
        let _ = std::io::stderr().write_all(&output.stderr);
        return Ok(output.status);
    }
    let status = command(without).status().with_context(cannot)?;
    if status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let says_why = |line: &&str| line.contains("error:") || line.contains("Assertion");
        let problem = lines.clone().find(says_why).or_else(|| lines.next());
        eprintln!(
            "norns: compiled without its sites, since the plug-in failed: {}",
            problem.unwrap_or("it says nothing")
        );
    }
    Ok(status)
}

/// The plug-in for this clang.
pub fn plugin(compiler: &Compiler) -> Result<PathBuf> {
    let runtime = runtime_library::find()?;
    let folders: Vec<PathBuf> = runtime_library::own_folders(&runtime).collect();
    Ok(norns_instrument::plugin(&compiler.words, &folders)?)
}
