//! The plug-in that puts sites into a program, built for the clang that is used: `site.hpp` has what a
//! site is, `bodies.hpp` how a function does without them, `sites.cpp` the sites of an aspect file,
//! `wait_loops.hpp` those of wait loops, `tracked.hpp` those of tracked runs, `guarded.hpp` those of guarded builds.
//!
//! A plug-in works with the major version of LLVM that it was built for, and needs its header files
//! (Debian's `llvm-19-dev`). So it is built when it is first needed, once for each version.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCES: [(&str, &str); 6] = [
    ("sites.cpp", include_str!("sites.cpp")),
    ("site.hpp", include_str!("site.hpp")),
    ("bodies.hpp", include_str!("bodies.hpp")),
    ("wait_loops.hpp", include_str!("wait_loops.hpp")),
    ("tracked.hpp", include_str!("tracked.hpp")),
    ("guarded.hpp", include_str!("guarded.hpp")),
];

/// The versions of LLVM for which the plug-in is written.
const VERSIONS: std::ops::RangeInclusive<u32> = 15..=19;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot tell the version of {0}")]
    NoVersion(String),
    #[error(
        "the plug-in works with clang {} to {}, and {compiler} is clang {version}\n help: sudo apt-get install clang-{} llvm-{}-dev",
        VERSIONS.start(), VERSIONS.end(), VERSIONS.end(), VERSIONS.end()
    )]
    Version { compiler: String, version: u32 },
    #[error("the header files of LLVM {0} are missing\n help: sudo apt-get install llvm-{0}-dev")]
    NoHeaders(u32),
    #[error("the plug-in for clang {version} cannot be built: {problem}")]
    Build { version: u32, problem: String },
    #[error("cannot write {0}")]
    Write(PathBuf, #[source] std::io::Error),
}

/// The plug-in for this clang, built into one of the folders if it is in none of them.
pub fn plugin(clang: &[OsString], folders: &[PathBuf]) -> Result<PathBuf, Error> {
    let version = version(clang)?;
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    let name = format!("sites-{:016x}-{version}.so", hasher.finish());
    let found = folders.iter().map(|folder| folder.join(&name));
    if let Some(found) = found.clone().find(|path| path.exists()) {
        return Ok(found);
    }
    let mut last = None;
    for path in found {
        match build(version, &path) {
            Err(error @ Error::Write(..)) => last = Some(error),
            other => return other.map(|()| path),
        }
    }
    Err(last.unwrap_or(Error::NoHeaders(version)))
}

fn version(clang: &[OsString]) -> Result<u32, Error> {
    let name = || {
        clang
            .last()
            .map_or(String::new(), |word| word.display().to_string())
    };
    let unknown = || Error::NoVersion(name());
    let (program, words) = clang.split_first().ok_or_else(unknown)?;
    let output = Command::new(program)
        .args(words)
        .args(["-dM", "-E", "-x", "c", "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .map_err(|_| unknown())?;
    let macros = String::from_utf8_lossy(&output.stdout).into_owned();
    let major = macros
        .lines()
        .find_map(|line| line.strip_prefix("#define __clang_major__ "))
        .and_then(|number| number.trim().parse().ok());
    let version = major.ok_or_else(unknown)?;
    if !VERSIONS.contains(&version) {
        return Err(Error::Version {
            compiler: name(),
            version,
        });
    }
    Ok(version)
}

fn build(version: u32, path: &Path) -> Result<(), Error> {
    let headers = Command::new(format!("llvm-config-{version}"))
        .arg("--includedir")
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string())
        .filter(|folder| Path::new(folder).join("llvm/Passes/PassPlugin.h").exists())
        .ok_or(Error::NoHeaders(version))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|error| Error::Write(folder.into(), error))?;
    // Many compilers run at once: the file appears whole or not at all.
    let process = std::process::id();
    let sources = folder.join(format!(".sites-{process}"));
    let draft = folder.join(format!(".sites-{process}.so"));
    fs::create_dir_all(&sources).map_err(|error| Error::Write(sources.clone(), error))?;
    for (name, text) in SOURCES {
        let file = sources.join(name);
        fs::write(&file, text).map_err(|error| Error::Write(file, error))?;
    }
    let output = Command::new("g++")
        .args([
            "-std=c++17",
            "-O1",
            "-fPIC",
            "-shared",
            "-fno-rtti",
            "-w",
            "-I",
        ])
        .arg(headers)
        .args([
            "-D__STDC_CONSTANT_MACROS",
            "-D__STDC_FORMAT_MACROS",
            "-D__STDC_LIMIT_MACROS",
        ])
        .arg(sources.join(SOURCES[0].0))
        .arg("-o")
        .arg(&draft)
        .stdin(Stdio::null())
        .output();
    let _ = fs::remove_dir_all(&sources);
    let problem = match output {
        Ok(output) if output.status.success() => {
            return fs::rename(&draft, path).map_err(|error| Error::Write(path.into(), error));
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let error = text.lines().find(|line| line.contains("error"));
            error.unwrap_or("g++ failed").to_string()
        }
        Err(error) => format!("cannot run g++: {error}"),
    };
    let _ = fs::remove_file(&draft);
    Err(Error::Build { version, problem })
}
