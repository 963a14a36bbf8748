//! Events of an aspect file, put into a program by the plug-in for clang.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use norns_rules::Aspect;

use super::{Compiler, Family, Language, find_compiler};
use crate::config::distance;
use crate::runtime_library;

/// The orders of an aspect file, as a file for the plug-in.
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
    /// What `NORNS_ASPECT` names, for a build with norns-cc.
    pub fn of_environment() -> Result<Option<Orders>> {
        let Some(path) = env::var_os("NORNS_ASPECT").filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {} (NORNS_ASPECT)", path.display()))?;
        let aspect = parse_aspect(&path, &text)?;
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
            bail!("events of an aspect file need clang, and {variable} names gcc");
        }
        return Ok(compiler);
    }
    let there = |name: &&&str| runtime_library::find_program(OsStr::new(name)).is_some();
    let Some(name) = names.iter().find(there) else {
        bail!(
            "events of an aspect file need clang\n help: sudo apt-get install clang-19 llvm-19-dev"
        );
    };
    Ok(Compiler {
        words: vec![name.into()],
        family: Family::Clang,
    })
}

/// The plug-in for this clang.
pub fn plugin(compiler: &Compiler) -> Result<PathBuf> {
    let runtime = runtime_library::find()?;
    let folders: Vec<PathBuf> = runtime_library::own_folders(&runtime).collect();
    Ok(norns_instrument::plugin(&compiler.words, &folders)?)
}
