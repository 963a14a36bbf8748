//! The runs that Norns keeps, and `norns runs` to look at them.
//!
//! Runs belong to their project: each has a folder of its own, named by a rising number, under
//! `.norns` in the folder of the nearest `norns.toml`, or else in the working directory; or under
//! `$NORNS_RUNS`. The oldest are removed when there are more than `KEPT`. The folders themselves
//! are the record of what there is. Only `--everywhere` asks which projects there are: a list of
//! their folders, under `$XDG_STATE_HOME/norns` or `~/.local/state/norns`, answers that.
//!
//! ```text
//! 12/run.json           what was run, where, when (format 1)
//! 12/trace.norns        its trace
//! 12/findings.json      what was found, as --format json prints it
//! 12/3f9a.sketch.json   what is shown of finding 3f9a; absent where the witness is enough to make it
//! 12/3f9a.witness.json  its schedule, as positions in the trace
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use norns_report::{Finding, Findings, Sketch};
use norns_trace::Trace;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::check::witness::SavedWitness;

/// How many runs are kept.
const KEPT: usize = 50;

/// The version of `run.json`.
const FORMAT: u32 = 1;

/// What was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub format: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub folder: PathBuf,
    /// The sources that `check` compiled; empty when it was given a program.
    pub sources: Vec<PathBuf>,
    /// Seconds since 1970.
    pub started: u64,
}

impl About {
    /// A run of these sources, or of a program, that begins now. `command` are the arguments of sources.
    fn now(sources: &[PathBuf], command: &[OsString]) -> Result<Self> {
        let words = sources.iter().map(|source| source.display().to_string());
        let words = words.chain(command.iter().map(|word| word.display().to_string()));
        let absolute = sources.iter().map(std::path::absolute);
        let folder = std::env::current_dir().context("cannot tell the working directory")?;
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Ok(Self {
            format: FORMAT,
            command: words.collect(),
            folder,
            sources: absolute.collect::<Result<_, _>>()?,
            started,
        })
    }
}

/// One kept run.
#[derive(Clone, Debug)]
pub struct Run {
    pub number: u64,
    pub folder: PathBuf,
}

impl Run {
    /// A new run of these sources, or of a program, with an empty folder, after making room for it.
    pub fn create(sources: &[PathBuf], command: &[OsString]) -> Result<Self> {
        let about = About::now(sources, command)?;
        let home = home()?;
        fs::create_dir_all(&home).with_context(|| {
            format!(
                "cannot create {}: set NORNS_RUNS to a folder where runs may be kept",
                home.display()
            )
        })?;
        projects::note(&home);
        let runs = all(&home)?;
        for old in runs.iter().take((runs.len() + 1).saturating_sub(KEPT)) {
            old.remove()?;
        }
        let mut number = runs.last().map_or(1, |run| run.number + 1);
        loop {
            let folder = home.join(number.to_string());
            match fs::create_dir(&folder) {
                Ok(()) => {
                    let run = Self { number, folder };
                    run.save("run.json", &about)?;
                    return Ok(run);
                }
                // Another norns took this number in between.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot create {}", folder.display()));
                }
            }
        }
    }

    /// The newest run that has findings.
    pub fn latest() -> Result<Self> {
        let newest = all(&home()?)?
            .into_iter()
            .rev()
            .find(|run| run.path("findings.json").exists());
        newest.context("there is no run yet: norns check SOURCE.c makes one")
    }

    /// The run with this number, or the latest.
    pub fn open(number: Option<u64>) -> Result<Self> {
        let Some(number) = number else {
            return Self::latest();
        };
        let found = all(&home()?)?.into_iter().find(|run| run.number == number);
        found.with_context(|| format!("there is no run {number}: norns runs lists them"))
    }

    /// The finding whose id begins with `id`, in the newest run that has one: of this project, or,
    /// if there is none and the user asks for it, of any other.
    pub fn with_finding(id: &str, scope: Scope) -> Result<(Self, Finding)> {
        for home in scope.homes()? {
            for run in all(&home)?.into_iter().rev() {
                if let Some(finding) = run.finding(id)? {
                    return Ok((run, finding));
                }
            }
        }
        if scope.everywhere {
            bail!("no kept run has a finding `{id}`: norns runs --everywhere lists the runs")
        }
        bail!(
            "no run of this project has a finding `{id}`: norns runs lists the runs, \
             --everywhere looks at other projects as well"
        )
    }

    fn finding(&self, id: &str) -> Result<Option<Finding>> {
        let Ok(findings) = self.findings() else {
            return Ok(None);
        };
        let exact = findings.with_variants().find(|finding| finding.id == id);
        if let Some(exact) = exact {
            return Ok(Some(exact.clone()));
        }
        let mut begin = findings
            .with_variants()
            .filter(|finding| finding.id.starts_with(id));
        let first = begin.next();
        match begin.count() {
            0 => Ok(first.cloned()),
            others => bail!(
                "`{id}` is the beginning of {} findings of run {}",
                others + 1,
                self.number
            ),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn save(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.path(name);
        let text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
        fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }

    /// Like `save`, without white space: for what only Norns reads.
    pub fn save_compact(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.path(name);
        let text = serde_json::to_string(value).context("cannot write JSON")?;
        fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }

    pub fn load<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let path = self.path(name);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is not of a version that this norns reads",
                path.display()
            )
        })
    }

    pub fn about(&self) -> Result<About> {
        self.load("run.json")
    }

    pub fn findings(&self) -> Result<Findings> {
        self.load("findings.json")
    }

    /// What is shown of a finding, with paths as the user typed them: as it was kept, or made of its
    /// witness. A bug that happened while recording has no schedule: then only its places.
    pub fn sketch(&self, finding: &Finding, traces: &mut Traces) -> Result<Sketch> {
        let folder = self.about()?.folder;
        let sources = |file: &str| source(&folder, file);
        let name = format!("{}.sketch.json", finding.id);
        let witness = format!("{}.witness.json", finding.id);
        let mut sketch: Sketch = if self.path(&name).exists() {
            self.load(&name)?
        } else if self.path(&witness).exists() {
            let kept: SavedWitness = self.load(&witness)?;
            let trace = traces.read(&self.path(&kept.trace))?;
            let witness = kept
                .witness()
                .with_context(|| format!("the witness of finding {} is damaged", finding.id))?;
            norns_report::sketch(trace, &witness, finding, &sources)
        } else {
            norns_report::sketch_of_places(finding, &sources)
        };
        sketch.complete(finding);
        sketch.relative_to(&folder);
        Ok(sketch)
    }

    fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.folder) {
            // Another `norns` has removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result.with_context(|| format!("cannot remove {}", self.folder.display())),
        }
    }

    fn bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return 0;
        };
        entries
            .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()))
            .sum()
    }
}

/// The traces that sketches are made of, each read once.
#[derive(Default)]
pub struct Traces {
    read: BTreeMap<PathBuf, Trace>,
}

impl Traces {
    fn read(&mut self, path: &Path) -> Result<&Trace> {
        Ok(match self.read.entry(path.to_path_buf()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(norns_trace::read_understood(path)?.0),
        })
    }
}

/// Which runs a command looks at.
#[derive(clap::Args, Clone, Copy)]
pub struct Scope {
    /// Look at the runs of other projects as well
    #[arg(long)]
    everywhere: bool,
}

impl Scope {
    /// The folders with runs, this project's first.
    fn homes(self) -> Result<Vec<PathBuf>> {
        let mut homes = vec![home()?];
        if self.everywhere {
            let others = projects::all().into_iter();
            homes.extend(
                others
                    .filter(|other| *other != homes[0])
                    .collect::<Vec<_>>(),
            );
        }
        Ok(homes)
    }
}

/// Where the runs of this project are kept.
pub fn home() -> Result<PathBuf> {
    if let Some(runs) = std::env::var_os("NORNS_RUNS").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(runs));
    }
    let folder = std::env::current_dir().context("cannot tell the working directory")?;
    Ok(crate::config::project(&folder).join(".norns"))
}

/// All kept runs, oldest first.
fn all(home: &Path) -> Result<Vec<Run>> {
    let entries = match fs::read_dir(home) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", home.display())),
    };
    let mut runs: Vec<Run> = entries
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let number = folder.file_name()?.to_str()?.parse().ok()?;
            folder
                .join("run.json")
                .exists()
                .then_some(Run { number, folder })
        })
        .collect();
    runs.sort_by_key(|run| run.number);
    Ok(runs)
}

/// Reads a source file for excerpts, by the name in the debug information, or relative to the
/// folder of the run.
pub fn source(folder: &Path, file: &str) -> Option<String> {
    let bytes = fs::read(folder.join(file)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    scope: Scope,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the kept runs, oldest first (the default)
    List,
    /// Print the ids of a run's findings, by default of the latest with findings
    Ids { run: Option<u64> },
    /// Print the folder of a run, by default the latest with findings
    Path { run: Option<u64> },
    /// Remove kept runs
    Clean {
        /// Keep this many of the newest
        #[arg(long, default_value_t = 0)]
        keep: usize,
    },
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command.unwrap_or(Command::List) {
        Command::List => {
            for home in arguments.scope.homes()? {
                for run in all(&home)? {
                    println!("{}", line(&run));
                }
            }
        }
        Command::Ids { run } => {
            for finding in Run::open(run)?.findings()?.findings {
                println!("{}", finding.id);
            }
        }
        Command::Path { run } => println!("{}", Run::open(run)?.folder.display()),
        Command::Clean { keep } => {
            let runs = all(&home()?)?;
            for run in &runs[..runs.len().saturating_sub(keep)] {
                run.remove()?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// When, what was found, how large it is, what was run and where.
fn line(run: &Run) -> String {
    let (when, what) = match run.about() {
        Ok(about) => (
            utc(about.started),
            format!("{}  in {}", about.command.join(" "), about.folder.display()),
        ),
        Err(_) => ("?".into(), String::new()),
    };
    let findings = match run.findings() {
        Ok(findings) => norns_report::terminal::summary(&findings),
        Err(_) => "no findings kept".into(),
    };
    format!(
        "{:>5}  {when}  {:>9} kB  {findings}  {what}",
        run.number,
        run.bytes() / 1024
    )
}

/// `2026-11-16 08:02 UTC`.
fn utc(seconds: u64) -> String {
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    // Years that begin in March have their leap day at the end: counted in eras of 400 years, with
    // lengths of months that repeat every five (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let day = day - (153 * march + 2) / 5 + 1;
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        minutes / 60,
        minutes % 60
    )
}

/// The list of folders with runs: for `--everywhere` only, so nothing fails because of it.
mod projects {
    use super::{Path, PathBuf, fs};

    fn list() -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let state = variable("XDG_STATE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&variable("HOME")?).join(".local/state")))?;
        Some(state.join("norns/projects"))
    }

    /// Those that still exist, in the order in which they were first used.
    pub(super) fn all() -> Vec<PathBuf> {
        let text = list().and_then(|list| fs::read_to_string(list).ok());
        let folders = text.unwrap_or_default();
        let folders = folders.lines().map(PathBuf::from);
        folders.filter(|folder| folder.is_dir()).collect()
    }

    /// Notes a folder, and keeps its contents out of the project's version control.
    pub(super) fn note(home: &Path) {
        let ignore = home.join(".gitignore");
        if home.ends_with(".norns") && !ignore.exists() {
            let _ = fs::write(ignore, "*\n");
        }
        let (Some(list), Ok(home)) = (list(), std::path::absolute(home)) else {
            return;
        };
        let mut folders = all();
        if home.to_str().is_none_or(|text| text.contains('\n')) || folders.contains(&home) {
            return;
        }
        folders.push(home);
        let text: String = folders
            .iter()
            .map(|folder| format!("{}\n", folder.display()))
            .collect();
        // Written whole and renamed, so that two checks at once lose at most one line.
        let part = list.with_extension(std::process::id().to_string());
        let written = list.parent().map(fs::create_dir_all).is_some()
            && fs::write(&part, text).is_ok()
            && fs::rename(&part, &list).is_ok();
        if !written {
            let _ = fs::remove_file(part);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn seconds_since_1970_are_dates() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_794_816_120, "2026-11-16 08:02 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(super::utc(seconds), date);
        }
    }
}
