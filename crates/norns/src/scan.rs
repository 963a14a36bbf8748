//! `norns scan`: what could race or deadlock, from the code alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use norns_ir::{FrontEnd, Linker, Program, is_elf};
use norns_report::scan as view;
use serde_json::Value;

use crate::exit;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  norns scan bank.c list.c              what could go wrong in a program of two sources
  norns scan ./server                   a program that was built with NORNS_BITCODE=1 CC=norns-cc make
  norns scan --format json bank.c       candidates for other tools
  norns scan --diff old.json new.json   only what a change has added

Exit status: 0 no candidate, 1 some, 2 Norns could not do its job.")]
pub struct Arguments {
    /// C or C++ sources of one program, their bitcode, or one program that norns-cc built with NORNS_BITCODE=1
    #[arg(required_unless_present = "diff")]
    sources: Vec<PathBuf>,
    /// An option for the compiler, such as -Iinclude; may be repeated
    #[arg(long = "flag", value_name = "WORD", allow_hyphen_values = true)]
    flags: Vec<OsString>,
    /// Show only candidates that the second has and the first has not; each is a source, a program or a
    /// scan saved with --format json
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"], conflicts_with = "sources")]
    diff: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    /// For code hosts
    Sarif,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let candidates = match arguments.diff.as_slice() {
        [old, new] => {
            let load = |path: &PathBuf| saved_or_scanned(path, &arguments.flags);
            view::added(&load(old)?, &load(new)?)
        }
        _ => scanned(&arguments.sources, &arguments.flags)?,
    };
    match arguments.format {
        Format::Text => print!("{}", view::text(&candidates)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&candidates)?),
        Format::Sarif => {
            let log = view::sarif(&candidates, env!("CARGO_PKG_VERSION"));
            println!("{}", serde_json::to_string_pretty(&log)?);
        }
    }
    Ok(match view::count(&candidates) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(exit::FOUND),
    })
}

fn saved_or_scanned(path: &PathBuf, flags: &[OsString]) -> Result<Value> {
    if path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        return view::read(&text)
            .map_err(|error| anyhow::anyhow!("{name} is not a saved scan: {error}"));
    }
    scanned(std::slice::from_ref(path), flags)
}

/// Scans the program of these files.
pub fn scan(sources: &[PathBuf], flags: &[OsString]) -> Result<norns_scan::Scan> {
    let mut program = read(sources, flags)?;
    program.promote_locals();
    Ok(norns_scan::scan(&program))
}

fn scanned(sources: &[PathBuf], flags: &[OsString]) -> Result<Value> {
    let scan = scan(sources, flags)?;
    let folder = std::env::current_dir().unwrap_or_default();
    Ok(view::json(&scan, &folder))
}

/// The program of these files, each a source or bitcode.
pub fn read(files: &[PathBuf], flags: &[OsString]) -> Result<Program> {
    for file in files {
        if !file.exists() {
            bail!("there is no file {}", file.display());
        }
    }
    if let [file] = files
        && is_elf(file)
    {
        return Ok(Program::from_executable(file)?);
    }
    let mut linker = Linker::new();
    let mut words = vec![OsString::from("-pthread")];
    words.extend_from_slice(flags);
    for file in files {
        let name = file.to_string_lossy();
        if is_source(file) {
            let bitcode = FrontEnd::find()?.compile(file, &words)?;
            linker.add(&name, &bitcode)?;
        } else {
            let bytes = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
            linker.add(&name, &bytes)?;
        }
    }
    Ok(linker.finish())
}

fn is_source(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(
        extension,
        Some("c" | "cc" | "cpp" | "cxx" | "C" | "c++" | "i" | "ii")
    )
}
