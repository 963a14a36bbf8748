//! clang's front end: from sources to bitcode, unoptimised and without instrumentation.
//!
//! `-Xclang -disable-llvm-passes` keeps the module as the front end made it, whatever the `-O`; the
//! macros that depend on it stay those of the user's own build.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::Program;
use crate::read::{self, Linker};

/// A clang that can be run.
#[derive(Clone, Debug)]
pub struct FrontEnd {
    program: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error(
        "no clang found ({} are not on PATH); the program is read as clang's front end sees it\n \
         help: sudo apt-get install clang-19, or set NORNS_CLANG",
        NAMES.join(", ")
    )]
    NoClang,
    #[error("cannot run {program}: {error}")]
    CannotRun {
        program: PathBuf,
        error: std::io::Error,
    },
    #[error("{source_file} does not compile with {program}{message}")]
    DoesNotCompile {
        source_file: PathBuf,
        program: PathBuf,
        /// What clang said, on lines of its own; empty if it was shown to the user.
        message: String,
    },
    #[error(transparent)]
    Unreadable(#[from] read::Error),
}

/// The newest that has been tried comes first.
const NAMES: &[&str] = &[
    "clang-19", "clang", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14",
];

impl FrontEnd {
    /// `NORNS_CLANG`, or the first of the usual names on `PATH`.
    ///
    /// # Errors
    ///
    /// If there is no clang.
    pub fn find() -> Result<Self, CompileError> {
        if let Some(named) = std::env::var_os("NORNS_CLANG").filter(|name| !name.is_empty()) {
            let program = PathBuf::from(named);
            return Ok(Self { program });
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        NAMES
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
            .find(|program| program.is_file())
            .map(|program| Self { program })
            .ok_or(CompileError::NoClang)
    }

    /// A clang by its name.
    #[must_use]
    pub fn named(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
        }
    }

    /// The command that writes the bitcode of one source to its standard output. `words` are options
    /// for the compiler; what would make it link or write other files is the caller's to remove.
    #[must_use]
    pub fn command(&self, source: &Path, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            // Some of what clang calls an error by default, gcc takes with a warning.
            .arg("-Wno-everything")
            .args(["-g", "-Xclang", "-disable-llvm-passes"])
            // With them, every way out of a scope goes through one block, where what was known is lost.
            .args(["-Xclang", "-disable-lifetime-markers"])
            .args(["-emit-llvm", "-c", "-o", "-"])
            .arg(source)
            .stdin(Stdio::null());
        command
    }

    /// The bitcode of one source. The compiler's messages are part of the error.
    ///
    /// # Errors
    ///
    /// If the compiler cannot be run or the source does not compile.
    pub fn compile(
        &self,
        source: &Path,
        words: &[impl AsRef<OsStr>],
    ) -> Result<Vec<u8>, CompileError> {
        let output = self
            .command(source, words)
            .output()
            .map_err(|error| self.cannot_run(error))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(CompileError::DoesNotCompile {
            source_file: source.to_owned(),
            program: self.program.clone(),
            message: format!("\n{}", said.trim_end()),
        })
    }

    /// Compiles the sources of a program and links them.
    ///
    /// # Errors
    ///
    /// If one of them cannot be compiled or read.
    pub fn read_sources(
        &self,
        sources: &[PathBuf],
        flags: &[OsString],
    ) -> Result<Program, CompileError> {
        let mut words = vec![OsString::from("-pthread")];
        words.extend_from_slice(flags);
        let mut linker = Linker::new();
        for source in sources {
            let bitcode = self.compile(source, &words)?;
            linker.add(&source.to_string_lossy(), &bitcode)?;
        }
        Ok(linker.finish())
    }

    fn cannot_run(&self, error: std::io::Error) -> CompileError {
        CompileError::CannotRun {
            program: self.program.clone(),
            error,
        }
    }
}
