//! `norns hive`: a server that gives tasks to the runs of programs, and what it has found out.
//!
//! The server itself is another executable, `norns-hive-server`, which is built when it is first used: its
//! databases and its TLS take longer to compile than all of Norns.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Subcommand, ValueEnum};
use norns_hive::client::{CA_VARIABLE, Hive, TOKEN_VARIABLE};
use norns_hive::protocol::{Build, RaceDetail};
use norns_hive::races::{Race, Races};
use norns_hive::tokens::{self, Tokens};
use norns_hive::{ProgramName, Verdict, candidate, embedded};

use crate::exit;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  norns hive serve --listen 127.0.0.1:7007 --data hive/   a hive on this machine
  norns hive add ./server                                 a build of a program that is to be guarded
  norns hive races --program server                       what the runs of it have shown
  norns hive pull 3f9a                                    bring a race home, to try it by norns check

Exit status of races: 0 no true race, 1 some, 2 Norns could not do its job. Of the others: 0 or 2.")]
pub struct Arguments {
    #[command(subcommand)]
    command: HiveCommand,
}

#[derive(Subcommand)]
enum HiveCommand {
    /// Serve a hive until it is interrupted; `norns hive serve --help` lists the options
    #[command(disable_help_flag = true)]
    Serve {
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "OPTION"
        )]
        words: Vec<OsString>,
    },
    /// Add a build of a program: its sites, candidates and the sources that they name
    Add(AddArguments),
    /// List the candidates of programs with their verdicts
    Races(RacesArguments),
    /// Write what is known of a race to a file, from which norns check --race tries to confirm it
    Pull(PullArguments),
}

#[derive(clap::Args)]
struct Address {
    /// The address of the hive
    #[arg(
        long = "hive",
        default_value = "http://127.0.0.1:7007",
        value_name = "URL"
    )]
    url: String,
    /// The token for people; otherwise NORNS_HIVE_TOKEN, or the one that norns hive serve has kept for this user
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

#[derive(clap::Args)]
struct AddArguments {
    /// A program that was built for norns guard
    program: PathBuf,
    /// The name of the program; otherwise that of its file
    #[arg(long)]
    name: Option<String>,
    /// What people call this build, such as a version
    #[arg(long, default_value = "")]
    label: String,
    /// The folder of the sources
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    sources: PathBuf,
    /// Races that norns check has predicted, from --format json: they are tried first
    #[arg(long, value_name = "FILE")]
    predicted: Vec<PathBuf>,
    #[command(flatten)]
    address: Address,
}

#[derive(clap::Args)]
struct RacesArguments {
    /// Only those of this program
    #[arg(long)]
    program: Option<String>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    address: Address,
}

#[derive(clap::Args)]
struct PullArguments {
    /// The id of the race, or the beginning of it
    id: String,
    /// The file to write; otherwise ID.race.json
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    address: Address,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    /// For code hosts; only true races
    Sarif,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        HiveCommand::Serve { words } => serve(&words),
        HiveCommand::Add(arguments) => add(&arguments),
        HiveCommand::Races(arguments) => races(&arguments),
        HiveCommand::Pull(arguments) => pull(&arguments),
    }
}

fn serve(words: &[OsString]) -> Result<ExitCode> {
    let own = std::env::current_exe().context("cannot tell where norns is")?;
    let server = own.with_file_name("norns-hive-server");
    if !server.exists() {
        bail!(
            "there is no {}\n help: ./norns hive serve builds it from a checkout, as does cargo build --release -p norns-hive-server",
            server.display()
        );
    }
    let error = Command::new(&server).args(words).exec();
    Err(error).with_context(|| format!("cannot run {}", server.display()))
}

impl Address {
    fn hive(&self) -> Result<Hive> {
        let token = match &self.token {
            Some(token) => Some(token.clone()),
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => Some(token),
                Err(_) => kept_tokens()?.of_people(&self.url).map(str::to_owned),
            },
        };
        let authorities = std::env::var_os(CA_VARIABLE).map(PathBuf::from);
        Ok(Hive::new(&self.url, token, authorities.as_deref())?)
    }
}

fn kept_tokens() -> Result<Tokens> {
    let Some(file) = tokens::file() else {
        return Ok(Tokens::default());
    };
    Tokens::read(&file).with_context(|| format!("cannot read the tokens in {}", file.display()))
}

fn add(arguments: &AddArguments) -> Result<ExitCode> {
    let mut build = embedded::build_of(&arguments.program)?;
    if let Some(name) = &arguments.name {
        build.program = ProgramName::new(name.as_str())?;
    } else if let Some(name) = arguments.program.file_name() {
        build.program = ProgramName::new(name.to_string_lossy())
            .context("the name of the file is none for a program; --name gives another one")?;
    }
    build.label = arguments.label.clone();
    shorten_paths(&mut build, &arguments.sources);
    let source = |file: &str| std::fs::read_to_string(arguments.sources.join(file)).ok();
    let mut predicted = Vec::new();
    for file in &arguments.predicted {
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let listed = serde_json::from_str(&text).with_context(|| format!("{name} is not JSON"))?;
        predicted.extend(candidate::suspicions(&listed));
    }
    for predicted in candidate::candidates(&predicted, &build.sites, &source) {
        match build
            .candidates
            .iter_mut()
            .find(|known| known.id == predicted.id)
        {
            Some(known) => known.origin = predicted.origin,
            None => build.candidates.push(predicted),
        }
    }
    let places = build
        .candidates
        .iter()
        .flat_map(|candidate| &candidate.places);
    let files: BTreeMap<String, String> = places
        .map(|place| &place.file)
        .filter(|file| !Path::new(file).is_absolute())
        .filter_map(|file| Some((file.clone(), source(file)?)))
        .collect();
    build.sources = files;
    let added = arguments.address.hive()?.add(&build)?;
    println!(
        "{}: {} candidates, {} with a verdict from earlier builds, {} sites, {} sources",
        build.program,
        added.candidates,
        added.carried_over,
        build.sites.len(),
        build.sources.len()
    );
    if let Some(token) = added.site_token {
        let url = &arguments.address.url;
        keep_site_token(url, &build.program, &token)?;
        println!("its sites take part with {TOKEN_VARIABLE}={token}");
        println!(
            "here, where it is kept: norns guard --hive {url} -- {}",
            arguments.program.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes paths below the folder of the sources relative to it: a build in another folder names its files in full.
fn shorten_paths(build: &mut Build, sources: &Path) {
    let Ok(folder) = std::fs::canonicalize(sources) else {
        return;
    };
    let shorten = |file: &mut String| {
        if let Ok(rest) = Path::new(file.as_str()).strip_prefix(&folder) {
            *file = rest.display().to_string();
        }
    };
    build
        .sites
        .iter_mut()
        .for_each(|site| shorten(&mut site.file));
    let places = build.candidates.iter_mut().flat_map(|it| &mut it.places);
    places.for_each(|place| shorten(&mut place.file));
}

fn keep_site_token(url: &str, program: &ProgramName, token: &str) -> Result<()> {
    let Some(file) = tokens::file() else {
        return Ok(());
    };
    let mut tokens = kept_tokens()?;
    tokens.set_sites(url, program, token.to_owned());
    tokens
        .write(&file)
        .with_context(|| format!("cannot keep the token in {}", file.display()))
}

fn races(arguments: &RacesArguments) -> Result<ExitCode> {
    let program = arguments
        .program
        .as_deref()
        .map(ProgramName::new)
        .transpose()?;
    let races = arguments.address.hive()?.races(program.as_ref())?;
    match arguments.format {
        Format::Text => print!("{}{}", lines(&races.races), summary(&races)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&races)?),
        Format::Sarif => {
            println!(
                "{}",
                serde_json::to_string_pretty(&races.sarif(env!("CARGO_PKG_VERSION")))?
            );
        }
    }
    let any = races
        .races
        .iter()
        .any(|race| race.verdict == Verdict::TrueRace);
    Ok(if any {
        ExitCode::from(exit::FOUND)
    } else {
        ExitCode::SUCCESS
    })
}

/// The list for a terminal. What comes from the hive is not trusted to be harmless there.
pub fn lines<'a>(races: impl IntoIterator<Item = &'a Race>) -> String {
    let mut out = String::new();
    for race in races {
        let reports = race.reports;
        let mut lines = vec![format!(
            "{} on {} in {} ({}): {} race, {} no race, {} time-out, {} not seen",
            word(race.verdict),
            race.object,
            race.program,
            race.id,
            reports.race,
            reports.no_race,
            reports.timeout,
            reports.not_seen
        )];
        lines.extend(race.places.iter().map(|place| {
            format!(
                "    {} at {}:{} in {}",
                place.access.name(),
                place.file,
                place.line,
                place.function
            )
        }));
        for line in lines {
            out.extend(line.chars().filter(|letter| !letter.is_control()));
            out.push('\n');
        }
    }
    out
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::TrueRace => "true race",
        Verdict::Unknown => "unknown",
        Verdict::LikelyFalse => "likely false",
    }
}

/// How many there are of each verdict.
pub fn summary(races: &Races) -> String {
    let count = |verdict| {
        let of_it = races.races.iter().filter(|race| race.verdict == verdict);
        of_it.count()
    };
    let true_races = count(Verdict::TrueRace);
    format!(
        "{true_races} true {}, {} unknown, {} likely false\n",
        if true_races == 1 { "race" } else { "races" },
        count(Verdict::Unknown),
        count(Verdict::LikelyFalse)
    )
}

fn pull(arguments: &PullArguments) -> Result<ExitCode> {
    let hive = arguments.address.hive()?;
    let all = hive.races(None)?.races;
    let fits: Vec<&Race> = all
        .iter()
        .filter(|race| race.id.as_str().starts_with(&arguments.id))
        .collect();
    let race = match fits.as_slice() {
        [race] => *race,
        [] => bail!("the hive has no candidate {}", arguments.id),
        several => bail!(
            "{} candidates begin with {}: give more of the id",
            several.len(),
            arguments.id
        ),
    };
    let detail: RaceDetail = hive.race(&race.program, &race.id)?;
    let file = arguments.output.clone();
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{}.race.json", race.id)));
    let written = serde_json::to_string_pretty(&detail)?;
    std::fs::write(&file, written).with_context(|| format!("cannot write {}", file.display()))?;
    println!(
        "{}: {}, {} reports with a race",
        file.display(),
        race.verdict.name(),
        race.reports.race
    );
    println!(
        "norns check --race {} SOURCE... tries to confirm it",
        file.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// The race in a file that `norns hive pull` wrote.
pub fn pulled(file: &Path) -> Result<RaceDetail> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let detail: RaceDetail = serde_json::from_str(&text)
        .map_err(|error| anyhow!("{name} was not written by norns hive pull: {error}"))?;
    if detail.format != norns_hive::protocol::VERSION {
        bail!("{name} has format {}, which is not known", detail.format);
    }
    Ok(detail)
}
