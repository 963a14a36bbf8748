//! `norns show ID`: one finding in full.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use norns_report::terminal::{self, Style};

use crate::runs::{Run, Scope, Traces};

#[derive(clap::Args)]
pub struct Arguments {
    /// The finding's id, or its beginning
    id: String,
    /// Draw with ASCII characters only
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    scope: Scope,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let (run, finding) = Run::with_finding(&arguments.id, arguments.scope)?;
    let text = terminal::show(&run.sketch(&finding, &mut Traces::default())?, style());
    print!(
        "{}",
        if arguments.ascii {
            terminal::ascii(&text)
        } else {
            text
        }
    );
    Ok(ExitCode::SUCCESS)
}

/// Colours if standard output is a terminal and `NO_COLOR` is not set; `CLICOLOR_FORCE` overrides
/// both.
pub fn style() -> Style {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let colour = set("CLICOLOR_FORCE") || (std::io::stdout().is_terminal() && !set("NO_COLOR"));
    if colour { Style::Colour } else { Style::Plain }
}
