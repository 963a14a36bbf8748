//! The command line: one module a subcommand.
//!
//! Every subcommand returns an exit status from the list in `exit`; an error that it returns
//! instead is printed with its causes and ends with `exit::CANNOT`.
#![forbid(unsafe_code)]

mod agent;
mod baseline;
mod cc;
mod check;
mod classify;
mod completions;
mod config;
mod csp;
mod deadline;
mod detect;
mod doctor;
mod exit;
mod explain;
mod export_test;
mod guard;
mod hive;
mod kinds;
mod model;
mod order;
mod predict;
mod progress;
mod property;
mod record;
mod replay;
mod report;
mod runs;
mod runtime_library;
mod scan;
mod session;
mod show;
mod sketch;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "norns",
    version = concat!(env!("CARGO_PKG_VERSION"), env!("NORNS_BUILD")),
    about = "Finds concurrency bugs in C and C++ programs before they happen"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Speak for guarded programs that something else starts, such as services
    Agent(agent::Arguments),
    /// Save the findings of a run as known, so that check --baseline fails only on new ones
    Baseline(baseline::Arguments),
    /// Compile C with the project's own compiler, instrumented (the same as norns-cc)
    Cc(cc::Arguments),
    /// Compile C++ with the project's own compiler, instrumented (the same as norns-c++)
    #[command(name = "c++")]
    Cxx(cc::Arguments),
    /// Find bugs: compile if needed, record, predict, replay and report
    Check(check::Arguments),
    /// Execute both orders of a race, and say what it does to the program
    Classify(classify::Arguments),
    /// Write completions for a shell, or the manual pages
    Completions(completions::Arguments),
    /// Show the options of every command, with what norns.toml sets
    Config(config::Arguments),
    /// Check the assertions of a CSPM script, or print or type-check it
    Csp(csp::Arguments),
    /// Run a program once under the race detector
    Detect(detect::Arguments),
    /// Check that everything Norns needs is installed, and say what to do if not
    Doctor(doctor::Arguments),
    /// Explain the code of a finding, with a program that shows the bug and its repair
    Explain(explain::Arguments),
    /// Write a finding as a regression test that fails while the bug is there
    ExportTest(export_test::Arguments),
    /// Run a program as it is, and validate suspected races on the way
    Guard(guard::Arguments),
    /// Collect what runs that happen anyway show of races: a server, and what it has found out
    Hive(hive::Arguments),
    /// Write the model of a trace as CSPM
    Model(model::Arguments),
    /// Ask the ordering solver about particular events of a trace
    Order(order::Arguments),
    /// Predict races and deadlocks from a trace
    Predict(predict::Arguments),
    /// Show the CSPM that a property stands for
    Property(property::Arguments),
    /// Run a program once and keep its trace
    Record(record::Arguments),
    /// Reproduce a finding, in the debugger if asked
    Replay(replay::Arguments),
    /// Write the findings of a run as an HTML page or in another format
    Report(report::Arguments),
    /// List, find or remove the runs that were kept
    Runs(runs::Arguments),
    /// List what could race or deadlock, from the code alone
    Scan(scan::Arguments),
    /// Show one finding in full: source, stacks, locks, what ran and what can run
    Show(show::Arguments),
    /// Find out why a program fails: run it until it does, and show what its failing runs have in common
    Sketch(sketch::Arguments),
    /// Print, import, export or count the events of a trace
    Trace(trace::Arguments),
}

fn main() -> ExitCode {
    exit_quietly_without_a_reader();
    let result = match cc::called_as_compiler() {
        Some((language, words)) => cc::run(language, words),
        None => arguments().and_then(|arguments| match arguments.command {
            Command::Agent(arguments) => agent::run(arguments),
            Command::Baseline(arguments) => baseline::run(arguments),
            Command::Cc(arguments) => cc::run(cc::Language::C, arguments.words),
            Command::Cxx(arguments) => cc::run(cc::Language::Cxx, arguments.words),
            Command::Check(arguments) => check::run(arguments),
            Command::Classify(arguments) => classify::run(arguments),
            Command::Completions(arguments) => completions::run(arguments),
            Command::Config(arguments) => config::run(arguments),
            Command::Csp(arguments) => csp::run(arguments),
            Command::Detect(arguments) => detect::run(arguments),
            Command::Doctor(arguments) => doctor::run(arguments),
            Command::Explain(arguments) => explain::run(arguments),
            Command::ExportTest(arguments) => export_test::run(arguments),
            Command::Guard(arguments) => guard::run(arguments),
            Command::Hive(arguments) => hive::run(arguments),
            Command::Model(arguments) => model::run(arguments),
            Command::Order(arguments) => order::run(arguments),
            Command::Predict(arguments) => predict::run(arguments),
            Command::Property(arguments) => property::run(arguments),
            Command::Record(arguments) => record::run(arguments),
            Command::Replay(arguments) => replay::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Runs(arguments) => runs::run(arguments),
            Command::Scan(arguments) => scan::run(arguments),
            Command::Show(arguments) => show::run(arguments),
            Command::Sketch(arguments) => sketch::run(arguments),
            Command::Trace(arguments) => trace::run(arguments),
        }),
    };
    result.unwrap_or_else(|error| {
        if !is_broken_pipe(&error) {
            eprintln!("error: {error:#}");
        }
        ExitCode::from(exit::CANNOT)
    })
}

/// Exits without a word when the reader of standard output is gone, as in `norns runs | head`:
/// the printing macros panic then. SIGPIPE, which ends other programs in that case, stays ignored,
/// because a program under test may close its input while Norns writes to it.
fn exit_quietly_without_a_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or_default();
        if message.starts_with("failed printing to stdout: Broken pipe") {
            std::process::exit(exit::CANNOT.into());
        }
        usual(panic);
    }));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref());
    let mut causes = causes.map(std::io::Error::kind);
    causes.any(|kind| kind == std::io::ErrorKind::BrokenPipe)
}

/// Parses the command line with the defaults of `norns.toml`; exits on bad usage.
fn arguments() -> anyhow::Result<Arguments> {
    let matches = config::apply(Arguments::command())?.get_matches();
    Ok(Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()))
}
