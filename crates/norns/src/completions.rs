//! `norns completions SHELL` and `norns completions --man FOLDER`: what packages ship.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;

#[derive(clap::Args)]
pub struct Arguments {
    /// The shell whose completions to print
    shell: Option<clap_complete::Shell>,
    /// Write the manual pages to this folder instead
    #[arg(long, value_name = "FOLDER")]
    man: Option<PathBuf>,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut command = crate::Arguments::command();
    match (arguments.shell, arguments.man) {
        (Some(shell), None) => {
            clap_complete::generate(shell, &mut command, "norns", &mut std::io::stdout());
        }
        (None, Some(folder)) => clap_mangen::generate_to(command, &folder)
            .with_context(|| format!("cannot write manual pages to {}", folder.display()))?,
        _ => bail!("give a shell (bash, zsh, fish, …) or --man FOLDER"),
    }
    Ok(ExitCode::SUCCESS)
}
