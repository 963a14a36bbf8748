//! The runs that Norns keeps, and `norns runs` to look at them.
//!
//! Every run of `check`, `record` or `predict` that is kept has a folder of its own, named by a
//! rising number, under `$NORNS_RUNS`, or `$XDG_STATE_HOME/norns`, or `~/.local/state/norns`. The
//! folders are the only record of them: there is no index. The oldest are removed when there are
//! more than `KEPT`.
//!
//! ```text
//! 12/run.json           what was run, where, when (format 1)
//! 12/trace.norns        its trace
//! 12/findings.json      what was found, as --format json prints it
//! 12/3f9a.sketch.json   what is shown of finding 3f9a
//! 12/3f9a.witness.json  its schedule, as positions in the trace
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use norns_report::{Finding, Findings, Sketch};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
    pub fn now(command: Vec<String>, sources: Vec<PathBuf>) -> Result<Self> {
        let folder = std::env::current_dir().context("cannot tell the working directory")?;
        let started = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Ok(Self {
            format: FORMAT,
            command,
            folder,
            sources,
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
    /// A new run with an empty folder, after making room for it.
    pub fn create(about: &About) -> Result<Self> {
        let home = home()?;
        fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
        let runs = all()?;
        for old in runs.iter().take((runs.len() + 1).saturating_sub(KEPT)) {
            old.remove()?;
        }
        let mut number = runs.last().map_or(1, |run| run.number + 1);
        loop {
            let folder = home.join(number.to_string());
            match fs::create_dir(&folder) {
                Ok(()) => {
                    let run = Self { number, folder };
                    run.save("run.json", about)?;
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
        let newest = all()?
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
        let found = all()?.into_iter().find(|run| run.number == number);
        found.with_context(|| format!("there is no run {number}: norns runs lists them"))
    }

    /// The finding whose id begins with `id`, in the newest run that has one.
    pub fn with_finding(id: &str) -> Result<(Self, Finding)> {
        for run in all()?.into_iter().rev() {
            let Ok(findings) = run.findings() else {
                continue;
            };
            let exact = findings
                .findings
                .iter()
                .position(|finding| finding.id == id);
            let begins: Vec<usize> = match exact {
                Some(at) => vec![at],
                None => (0..findings.findings.len())
                    .filter(|&at| findings.findings[at].id.starts_with(id))
                    .collect(),
            };
            match begins[..] {
                [] => {}
                [at] => return Ok((run, findings.findings[at].clone())),
                _ => bail!(
                    "`{id}` is the beginning of {} findings of run {}",
                    begins.len(),
                    run.number
                ),
            }
        }
        bail!("no kept run has a finding `{id}`: norns runs lists the runs")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn save(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.path(name);
        let text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
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

    /// What is shown of a finding, with paths as the user typed them. A bug that happened while
    /// recording has no schedule: then only its places.
    pub fn sketch(&self, finding: &Finding) -> Result<Sketch> {
        let folder = self.about()?.folder;
        let name = format!("{}.sketch.json", finding.id);
        if !self.path(&name).exists() {
            return Ok(norns_report::sketch_of_places(finding, &|file| {
                source(&folder, file)
            }));
        }
        let mut sketch: Sketch = self.load(&name)?;
        sketch.id = finding.id.clone();
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

/// Where runs are kept.
fn home() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(runs) = variable("NORNS_RUNS") {
        return Ok(PathBuf::from(runs));
    }
    if let Some(state) = variable("XDG_STATE_HOME") {
        return Ok(Path::new(&state).join("norns"));
    }
    let home =
        variable("HOME").context("neither NORNS_RUNS nor HOME is set: where to keep runs?")?;
    Ok(Path::new(&home).join(".local/state/norns"))
}

/// All kept runs, oldest first.
fn all() -> Result<Vec<Run>> {
    let home = home()?;
    let entries = match fs::read_dir(&home) {
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
            for run in all()? {
                println!("{}", line(&run));
            }
        }
        Command::Ids { run } => {
            for finding in Run::open(run)?.findings()?.findings {
                println!("{}", finding.id);
            }
        }
        Command::Path { run } => println!("{}", Run::open(run)?.folder.display()),
        Command::Clean { keep } => {
            let runs = all()?;
            for run in &runs[..runs.len().saturating_sub(keep)] {
                run.remove()?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(run: &Run) -> String {
    let command = run
        .about()
        .map(|about| about.command.join(" "))
        .unwrap_or_default();
    let findings = match run.findings() {
        Ok(findings) => norns_report::terminal::summary(&findings),
        Err(_) => "no findings kept".into(),
    };
    format!(
        "{:>5}  {:>9} kB  {findings}  {command}",
        run.number,
        run.bytes() / 1024
    )
}
