//! `norns csp`: checks the assertions of CSPM scripts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use norns_csp::check::Options;
use norns_csp::script::{self, Answer, Script, ScriptError};
use norns_csp::{Budget, Progress};
use serde_json::json;

use crate::exit;
use crate::progress::Stage;

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
    /// Give up on an assertion after this many states
    #[arg(long, value_name = "N")]
    states: Option<u64>,
    /// Give up on an assertion after this many seconds
    #[arg(long, value_name = "SECONDS")]
    time: Option<f64>,
    /// Give up on an assertion when its states take this many megabytes
    #[arg(long, value_name = "MB")]
    memory: Option<u64>,
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

impl Check {
    fn run(self) -> anyhow::Result<ExitCode> {
        let text = read(&self.file)?;
        let name = self.file.display().to_string();
        let mut script = match Script::load(&name, &text, &mut include) {
            Ok(script) => script,
            Err(error) => return Ok(refuse(&error)),
        };
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
        let options = Options {
            threads: self.threads,
            budget: Budget {
                states: self.states,
                bytes: self.memory.map(|megabytes| megabytes << 20),
                time: self.time.map(Duration::from_secs_f64),
            },
            ..Options::default()
        };
        let (mut failed, mut undecided) = (false, false);
        let mut results = Vec::new();
        for index in 0..script.assertions.len() {
            let assertion = script.assertions[index].clone();
            if !self.line.is_empty() && !self.line.contains(&assertion.line) {
                continue;
            }
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
            let answer = script.check(index, &options, &mut progress);
            drop(stage);
            let mut entry = json!({ "line": assertion.line, "text": assertion.text });
            let events = &script.processes.events;
            match answer {
                Ok((answer, statistics)) => {
                    let verdict = match &answer {
                        Answer::Holds => "holds",
                        Answer::Fails(_) => "fails",
                        Answer::Undecided(_) => "undecided",
                    };
                    failed |= matches!(answer, Answer::Fails(_));
                    undecided |= matches!(answer, Answer::Undecided(_));
                    entry["verdict"] = verdict.into();
                    entry["counterexample"] = json!([]);
                    if let Answer::Undecided(reason) = &answer {
                        entry["reason"] = reason.as_str().into();
                    }
                    if let Answer::Fails(Some(counterexample)) = &answer {
                        let trace: Vec<&str> = counterexample
                            .trace()
                            .iter()
                            .map(|&event| events.name(event))
                            .collect();
                        entry["counterexample"] = json!(trace);
                        entry["details"] = counterexample.json(events);
                    }
                    if self.statistics {
                        entry["states"] = statistics.states.into();
                    }
                    match self.format {
                        Format::Text => {
                            println!("{}: {verdict}: {}", assertion.line, assertion.text);
                            match &answer {
                                Answer::Fails(Some(counterexample)) => {
                                    for line in counterexample.text(events).lines() {
                                        println!("    {line}");
                                    }
                                }
                                Answer::Fails(None) => {
                                    println!("    the assertion without `not` holds");
                                }
                                Answer::Undecided(reason) => println!("    {reason}"),
                                Answer::Holds => {}
                            }
                            if self.statistics {
                                println!(
                                    "    {} states, {} transitions, {} bytes of states",
                                    statistics.states, statistics.transitions, statistics.bytes
                                );
                            }
                        }
                        Format::Dot => {
                            if let Answer::Fails(Some(counterexample)) = &answer {
                                print!("{}", counterexample.dot(events));
                            }
                        }
                        Format::Json => {}
                    }
                }
                Err(error) => {
                    errors = true;
                    entry["verdict"] = "undecided".into();
                    entry["counterexample"] = json!([]);
                    entry["error"] = error
                        .diagnostics
                        .first()
                        .map_or(String::new(), |first| first.message.clone())
                        .into();
                    if self.format == Format::Text {
                        println!("{}: not checked: {}", assertion.line, assertion.text);
                    }
                    eprint!("{}", error.render());
                }
            }
            results.push(entry);
        }
        if self.format == Format::Json {
            let all = json!({ "format": 1, "assertions": results });
            println!("{}", serde_json::to_string_pretty(&all)?);
        }
        Ok(ExitCode::from(match (errors, failed, undecided) {
            (true, _, _) => exit::CANNOT,
            (_, true, _) => exit::FOUND,
            (_, _, true) => exit::UNDECIDED,
            _ => 0,
        }))
    }
}
