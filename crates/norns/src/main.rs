//! The command line: one module a subcommand.
//!
//! Every subcommand returns an exit status from the list in `exit`; an error that it returns
//! instead is printed with its causes and ends with `exit::CANNOT`.
#![forbid(unsafe_code)]

mod exit;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "norns",
    version,
    about = "Finds concurrency bugs in C and C++ programs before they happen"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result: anyhow::Result<ExitCode> = match arguments.command {};
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(exit::CANNOT)
    })
}
