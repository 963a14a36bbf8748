//! A build for `norns guard`: the user's options, clang, and sleeping sites at accesses that could race.
//!
//! The candidates come first, from `norns scan`, and `NORNS_GUARD_SITES` names their file when the project is built:
//! a scan needs the whole program, and sites are put in object by object. So a project is built twice, once with
//! `NORNS_BITCODE=1` for the scan. Every place of a candidate has a number, its position in the sorted list of
//! all places, and each access that the compiler makes there has a site with that number. When a program is linked, the
//! numbers that are in it and its build id become a `protocol::Build`, which is put into a section of its own.
//!
//! Not validated: what another compiler made, accesses that an optimisation has removed or moved to no line, and sites in
//! shared libraries, which are in the program's build only if the executable has them too.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, bail};
use norns_hive::candidate::{self, Suspicion};
use norns_hive::embedded::{self, SECTION};
use norns_hive::protocol::{Build, Candidate, Place, Site, VERSION};
use norns_hive::{ProgramName, SiteNumber};
use serde_json::Value;

use super::command_line::{expand, understand};
use super::{Compiler, Language, Runtime, is_static, linker_words, plan, rpath, sites};
use crate::runtime_library;

/// The places of candidates, with the file of them that the plug-in reads.
pub struct Guarded {
    suspicions: Vec<Suspicion>,
    // the position of a place is the number of its sites
    places: Vec<Place>,
    list: PathBuf,
}

impl Guarded {
    /// The candidates of the file that `NORNS_GUARD_SITES` names.
    pub fn of_environment() -> Result<Option<Self>> {
        let file = env::var_os("NORNS_GUARD_SITES").filter(|value| !value.is_empty());
        let Some(file) = file.map(PathBuf::from) else {
            return Ok(None);
        };
        let name = || format!("{} (NORNS_GUARD_SITES)", file.display());
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", name()))?;
        let listed: Value = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is not a list of candidates\n help: norns scan --format json PROGRAM > {}",
                name(),
                file.display()
            )
        })?;
        Self::new(&listed).map(Some)
    }

    /// The candidates of `norns scan --format json`, or the findings of `norns check --format json`.
    pub fn new(listed: &Value) -> Result<Self> {
        let suspicions = candidate::suspicions(listed);
        let mut places: Vec<Place> = suspicions
            .iter()
            .flat_map(|suspicion| suspicion.places.iter().cloned())
            .collect();
        places.sort();
        places.dedup();
        let line = |(number, place): (usize, &Place)| {
            let access = place.access.name();
            format!(
                "{number}\t{access}\t{}\t{}\t{}\n",
                place.line, place.column, place.file
            )
        };
        let text: String = places.iter().enumerate().map(line).collect();
        Ok(Self {
            suspicions,
            list: runtime_library::keep(text.as_bytes(), "guarded")?,
            places,
        })
    }

    /// Runs clang with its additions, and completes what it has linked.
    fn compile(&self, language: Language, words: Vec<OsString>) -> Result<ExitStatus> {
        let compiler = sites::compiler(language)?;
        let mut expanded = Vec::with_capacity(words.len());
        for word in &words {
            expand(word, 0, &mut expanded);
        }
        let line = understand(&expanded);
        let links = plan(&line).link;
        let status = Command::new(&compiler.words[0])
            .args(&compiler.words[1..])
            .args(wrap(
                &compiler,
                words,
                line.compiles,
                line.line_tables,
                links,
            )?)
            .env("NORNS_GUARD_PLACES", &self.list)
            .status()
            .with_context(|| format!("cannot run {}", compiler.words[0].display()))?;
        if status.success() && links == Runtime::Needed && !line.shared {
            let output = line.output.as_deref().unwrap_or("a.out".as_ref());
            self.complete(Path::new(output))?;
        }
        Ok(status)
    }

    /// Puts the build into a program that has sites.
    fn complete(&self, program: &Path) -> Result<()> {
        let Some(records) = embedded::records_of(program)? else {
            return Ok(());
        };
        let numbered = (0..).map(SiteNumber).zip(&self.places);
        let there = numbered.filter(|(number, _)| records.sites.contains(number));
        let sites: Vec<Site> = there
            .map(|(number, place)| Site {
                number,
                file: place.file.clone(),
                line: place.line,
                column: place.column,
                function: place.function.clone(),
                access: place.access,
                size: 0,
            })
            .collect();
        let sources = |path: &str| fs::read_to_string(path).ok();
        let mut candidates = candidate::candidates(&self.suspicions, &sites, &sources);
        // Of another program of the same project.
        candidates.retain(|candidate| candidate.sites.iter().any(|sites| !sites.is_empty()));
        let build = Build {
            format: VERSION,
            program: name_of(program),
            id: records.id,
            label: String::new(),
            sites,
            candidates,
            sources: BTreeMap::new(),
        };
        let without = |candidate: &&Candidate| candidate.sites.iter().any(Vec::is_empty);
        let missing = build.candidates.iter().filter(without).count();
        if missing > 0 {
            eprintln!(
                "norns: {missing} of {} candidates in {} are not validated: one of their accesses has no site there",
                build.candidates.len(),
                program.display()
            );
        }
        put_in(&build, program)
    }
}

/// The name of a program, from its file.
fn name_of(program: &Path) -> ProgramName {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let is_fit = |letter: &char| letter.is_ascii_alphanumeric() || "-_.+".contains(*letter);
    let name: String = name.chars().filter(is_fit).take(64).collect();
    let name = name.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let fallback = || ProgramName::new("program").expect("seven letters");
    ProgramName::new(name).unwrap_or_else(|_| fallback())
}

/// Adds a section with the build.
fn put_in(build: &Build, program: &Path) -> Result<()> {
    let text = serde_json::to_string(build)?;
    let mut file = program.as_os_str().to_owned();
    file.push(".norns-guarded");
    let file = PathBuf::from(file);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let mut add = OsString::from(format!("{SECTION}="));
    add.push(&file);
    let output = Command::new("objcopy")
        .arg("--add-section")
        .arg(add)
        .arg(program)
        .output();
    let _ = fs::remove_file(&file);
    let output = output.context("cannot run objcopy\n help: sudo apt-get install binutils")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "cannot put the sites into {}: {}",
            program.display(),
            said.trim()
        );
    }
    Ok(())
}

/// The compiler's words with what a guarded build needs. Nothing else is changed: the program is as fast, and as its
/// developers meant it, as without.
fn wrap(
    compiler: &Compiler,
    mut words: Vec<OsString>,
    compiles: bool,
    line_tables: bool,
    links: Runtime,
) -> Result<Vec<OsString>> {
    let mut first: Vec<OsString> = Vec::new();
    if compiles {
        let mut plugin = OsString::from("-fpass-plugin=");
        plugin.push(sites::plugin(compiler)?);
        first.push(plugin);
        if !line_tables {
            first.push("-g".into());
        }
    }
    if links == Runtime::Needed {
        let before = words.len();
        words.retain(|word| !is_static(word));
        if words.len() < before {
            eprintln!(
                "norns: -static is left out: a static program's synchronisation cannot be seen"
            );
        }
        let runtime = runtime_library::find()?;
        first.extend(linker_words(&[
            "--build-id",
            "--push-state",
            "--no-as-needed",
        ]));
        first.extend(linker_words(&[&runtime]));
        first.extend(linker_words(&["--pop-state"]));
        first.extend(rpath(&runtime));
    }
    first.extend(words);
    Ok(first)
}

/// What `norns cc` does when `NORNS_GUARD_SITES` is set.
pub fn run(language: Language, words: Vec<OsString>, guarded: &Guarded) -> Result<ExitCode> {
    let status = guarded.compile(language, words)?;
    // As a shell says it of a signal.
    let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code as u8))
}

/// Scans the sources, and compiles and links them into a program that has a site at every place of a candidate.
/// What the program has is then in `embedded::build_of`, which fails
/// if it has no site at all.
pub fn build(sources: &[PathBuf], flags: &[OsString], program: &Path) -> Result<()> {
    let scan = crate::scan::scan(sources, flags)?;
    let folder = env::current_dir().context("cannot tell the working directory")?;
    let listed = norns_report::scan::json(&scan, &folder);
    let guarded = Guarded::new(&listed)?;
    let language = crate::check::build::language(sources)?;
    let words = crate::check::build::words(sources, flags, program);
    if !guarded.compile(language, words)?.success() {
        bail!("the sources do not compile");
    }
    Ok(())
}
