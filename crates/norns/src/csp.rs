//! `norns csp`: checks the assertions of CSPM scripts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use norns_csp::check::Options;
use norns_csp::counterexample::{Counterexample, Section, page};
use norns_csp::event::Events;
use norns_csp::script::{self, Answer, Script, ScriptError};
use norns_csp::{Budget, Progress, Reduction};
use serde_json::json;

use crate::exit;
use crate::progress::Stage;
use crate::session::seconds;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check all assertions of a script. Exit 0: all hold, 1: some fail, 2: error, 3: undecided
    Check(Check),
    /// Print a script, formatted
    Print {
        /// The script
        file: PathBuf,
    },
    /// Check the types of a script and list those of its definitions
    Typecheck {
        /// The script
        file: PathBuf,
    },
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// The counterexamples as graphs for `dot`
    Dot,
    /// Verdicts and counterexamples as a page
    Html,
}

#[derive(clap::Args)]
struct Check {
    /// The script
    file: PathBuf,
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Check only the assertions that begin on these lines
    #[arg(long, value_name = "LINE")]
    line: Vec<u32>,
    /// Write verdicts and counterexamples as a page, too
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Show so many different counterexamples of each assertion
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "all")]
    count: usize,
    /// Show different counterexamples of each assertion, up to a hundred
    #[arg(long)]
    all: bool,
    /// Give up on an assertion after this many states, those of components and specification included
    #[arg(long, value_name = "N")]
    states: Option<u64>,
    /// Give up on an assertion after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// Give up on an assertion that needs more megabytes, except for states, which go to disk [default: half of the machine's memory]
    #[arg(long, value_name = "MB")]
    memory: Option<u64>,
    /// Give up when the memory ends, instead of going on with files in the folder for temporary files
    #[arg(long)]
    no_disk: bool,
    /// Search all states: no partial-order reduction, except where an assertion asks for it
    #[arg(long)]
    no_reduction: bool,
    /// Threads to search with; 0 is one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Show how many states were searched
    #[arg(long)]
    statistics: bool,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Check(check) => check.run(),
        Command::Print { file } => {
            let text = read(&file)?;
            let name = file.display().to_string();
            let parsed = script::on_large_stack(|| {
                script::parse(&name, &text, &mut include)
                    .map(|(ast, _)| norns_csp::syntax::print::script(&ast))
            });
            Ok(match parsed {
                Ok(printed) => {
                    print!("{printed}");
                    ExitCode::SUCCESS
                }
                Err(error) => refuse(&error),
            })
        }
        Command::Typecheck { file } => {
            let text = read(&file)?;
            let name = file.display().to_string();
            Ok(match script::type_list(&name, &text, &mut include) {
                Ok(list) => {
                    for (name, ty) in list {
                        println!("{name} :: {ty}");
                    }
                    ExitCode::SUCCESS
                }
                Err(error) => refuse(&error),
            })
        }
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    // Old scripts have comments in other encodings.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads an included file; its path is relative to the file that includes it.
fn include(path: &str, from: &str) -> Result<(String, String), String> {
    let base = Path::new(from).parent().unwrap_or(Path::new(""));
    let file = base.join(path);
    let bytes = std::fs::read(&file).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((file.display().to_string(), text))
}

fn refuse(error: &ScriptError) -> ExitCode {
    eprint!("{}", error.render());
    ExitCode::from(exit::CANNOT)
}

// How many counterexamples `--all` shows.
const ALL: usize = 100;

/// Half of the machine's memory, in bytes.
fn default_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024 / 2)
}

/// What became of one assertion.
struct Checked {
    line: u32,
    text: String,
    verdict: &'static str,
    note: String,
    counterexamples: Vec<Counterexample>,
    states: u64,
    transitions: u64,
    bytes: u64,
    /// The message of an error that kept the assertion from being checked.
    error: Option<String>,
}

impl Check {
    fn run(self) -> anyhow::Result<ExitCode> {
        let text = read(&self.file)?;
        let name = self.file.display().to_string();
        let mut script = match Script::load(&name, &text, &mut include) {
            Ok(script) => script,
            Err(error) => return Ok(refuse(&error)),
        };
        for warning in &script.warnings {
            eprint!("{}", warning.render(&script.sources));
        }
        let options = self.options();
        script.limit(&options.budget);
        let mut errors = false;
        for printed in script.prints() {
            match printed {
                Ok(printed) if self.format == Format::Text => println!("{}", printed.value),
                Ok(printed) => eprintln!("{}", printed.value),
                Err(error) => {
                    errors = true;
                    eprint!("{}", error.render());
                }
            }
        }
        for line in &self.line {
            if script
                .assertions
                .iter()
                .all(|assertion| assertion.line != *line)
            {
                errors = true;
                eprintln!("error: no assertion begins on line {line} of {name}");
            }
        }
        let mut results = Vec::new();
        for index in 0..script.assertions.len() {
            let line = script.assertions[index].line;
            if self.line.is_empty() || self.line.contains(&line) {
                let result = check_assertion(&mut script, index, &options);
                self.show(&result, &script.processes.events);
                results.push(result);
            }
        }
        let events = &script.processes.events;
        if self.format == Format::Json {
            let all: Vec<_> = results.iter().map(|r| self.json(r, events)).collect();
            let all = json!({ "format": 1, "assertions": all });
            println!("{}", serde_json::to_string_pretty(&all)?);
        }
        if self.format == Format::Html || self.page.is_some() {
            let sections: Vec<Section> = results.iter().map(section).collect();
            let page = page(&name, &sections, events);
            if let Some(file) = &self.page {
                std::fs::write(file, &page)
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
            if self.format == Format::Html {
                print!("{page}");
            }
        }
        errors |= results.iter().any(|r| r.error.is_some());
        // Giving back millions of values one by one takes seconds; the process ends here anyway.
        std::mem::forget(script);
        let any = |verdict: &str| results.iter().any(|r| r.verdict == verdict);
        Ok(ExitCode::from(match () {
            () if errors => exit::CANNOT,
            () if any("fails") => exit::FOUND,
            () if any("undecided") => exit::UNDECIDED,
            () => 0,
        }))
    }

    fn options(&self) -> Options {
        let memory = self
            .memory
            .map(|megabytes| megabytes.saturating_mul(1 << 20));
        Options {
            reduction: if self.no_reduction {
                Reduction::None
            } else {
                Reduction::Automatic
            },
            threads: self.threads,
            disk: (!self.no_disk).then(std::env::temp_dir),
            counterexamples: if self.all { ALL } else { self.count },
            budget: Budget {
                states: self.states,
                bytes: memory.or_else(default_memory),
                time: self.time,
            },
            ..Options::default()
        }
    }

    /// Prints one result, in the formats that print as they go.
    fn show(&self, result: &Checked, events: &Events) {
        match self.format {
            Format::Text => {
                let verdict = match result.error {
                    Some(_) => "not checked",
                    None => result.verdict,
                };
                println!("{}: {verdict}: {}", result.line, result.text);
                if !result.note.is_empty() {
                    println!("    {}", result.note);
                }
                for (at, counterexample) in result.counterexamples.iter().enumerate() {
                    if at > 0 {
                        println!("    or:");
                    }
                    for line in counterexample.text(events).lines() {
                        println!("    {line}");
                    }
                }
                if self.statistics && result.error.is_none() {
                    println!(
                        "    {} states, {} transitions, {} bytes of states",
                        result.states, result.transitions, result.bytes
                    );
                }
            }
            Format::Dot => {
                for counterexample in &result.counterexamples {
                    print!("{}", counterexample.dot(events));
                }
            }
            Format::Json | Format::Html => {}
        }
    }

    fn json(&self, result: &Checked, events: &Events) -> serde_json::Value {
        let mut entry = json!({
            "line": result.line,
            "text": result.text,
            "verdict": result.verdict,
            "counterexample": [],
        });
        if let Some(error) = &result.error {
            entry["error"] = error.as_str().into();
            return entry;
        }
        if result.verdict == "undecided" {
            entry["reason"] = result.note.as_str().into();
        }
        if let Some((first, more)) = result.counterexamples.split_first() {
            let trace = first.trace();
            entry["counterexample"] = trace.iter().map(|&event| events.name(event)).collect();
            entry["details"] = first.json(events);
            if !more.is_empty() {
                entry["more"] = more.iter().map(|example| example.json(events)).collect();
            }
        }
        if self.statistics {
            entry["states"] = result.states.into();
        }
        entry
    }
}

fn check_assertion(script: &mut Script, index: usize, options: &Options) -> Checked {
    let assertion = script.assertions[index].clone();
    let stage = Stage::begin(&format!("checking line {}", assertion.line));
    let mut progress = |progress: &Progress| {
        stage.now(|| {
            format!(
                "checking line {}: {} states, depth {}, {} MB",
                assertion.line,
                progress.states,
                progress.depth,
                progress.bytes >> 20
            )
        });
    };
    let answer = script.check_several(index, options, &mut progress);
    drop(stage);
    let mut result = Checked {
        line: assertion.line,
        text: assertion.text,
        verdict: "undecided",
        note: String::new(),
        counterexamples: Vec::new(),
        states: 0,
        transitions: 0,
        bytes: 0,
        error: None,
    };
    match answer {
        Ok((answer, more, statistics)) => {
            result.states = statistics.states;
            result.transitions = statistics.transitions;
            result.bytes = statistics.bytes;
            match answer {
                Answer::Holds => result.verdict = "holds",
                Answer::Fails(None) => {
                    result.verdict = "fails";
                    result.note = "the assertion without `not` holds".into();
                }
                Answer::Fails(Some(first)) => {
                    result.verdict = "fails";
                    result.counterexamples.push(*first);
                    result.counterexamples.extend(more);
                }
                Answer::Undecided(reason) => result.note = reason,
            }
        }
        Err(error) => {
            let message = error.diagnostics.first().map(|first| first.message.clone());
            result.error = Some(message.unwrap_or_default());
            eprint!("{}", error.render());
        }
    }
    result
}

fn section(result: &Checked) -> Section<'_> {
    Section {
        line: result.line,
        text: &result.text,
        verdict: result.verdict,
        note: result.error.as_deref().unwrap_or(&result.note),
        counterexamples: result.counterexamples.iter().collect(),
    }
}
