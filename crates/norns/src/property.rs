//! `norns property explain`: the CSPM that a property in simple words stands for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use norns_rules::Property;

use crate::cc::sites::parse_aspect;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Print the CSPM that a property stands for, and the orders that it adds to the aspect file
    Explain {
        /// A property file, in simple words or in CSPM
        property: PathBuf,
        /// The aspect file with its events
        #[arg(long, value_name = "FILE")]
        aspect: Option<PathBuf>,
    },
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let What::Explain { property, aspect } = arguments.what;
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let path = aspect.unwrap_or_default();
    let text = match path.as_os_str().is_empty() {
        true => String::new(),
        false => read(&path)?,
    };
    let mut aspect = parse_aspect(&path, &text)?;
    let known = aspect.orders.len();
    let parsed = Property::parse(
        &property.display().to_string(),
        &read(&property)?,
        &mut aspect,
    )?;
    for order in &aspect.orders[known..] {
        println!("-- {order}");
    }
    print!("{}", parsed.cspm());
    Ok(ExitCode::SUCCESS)
}
