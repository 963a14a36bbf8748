//! `norns model`: the model of a trace, for other checkers.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use norns_model::cspm::{Checks, cspm};
use norns_model::{Meaning, Model};

#[derive(clap::Args)]
pub struct Arguments {
    /// A trace file, or a text in the STD format of RAPID (FILE.std)
    file: PathBuf,
    /// Write the model as CSPM, for `norns csp check` and FDR
    #[arg(long, required = true)]
    cspm: bool,
    /// Which assertions to write
    #[arg(long, default_value = "all")]
    check: CheckName,
    /// What counts as another schedule; otherwise faithful if the trace orders its accesses
    #[arg(long)]
    meaning: Option<MeaningName>,
    /// Where to write it; otherwise the standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CheckName {
    Deadlock,
    Race,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MeaningName {
    /// What synchronisation allows
    Optimistic,
    /// In addition every read sees the write that it saw
    Faithful,
}

pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let (trace, warnings) = crate::predict::read(&arguments.file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let meaning = match arguments.meaning {
        None => Meaning::usual(&trace).without_values(),
        Some(MeaningName::Optimistic) => Meaning::Optimistic,
        Some(MeaningName::Faithful) => Meaning::Faithful,
    };
    let checks = Checks {
        deadlock: arguments.check != CheckName::Race,
        race: arguments.check != CheckName::Deadlock,
        events: false,
    };
    let text = cspm(&Model::new(&trace, meaning), checks).text;
    match &arguments.output {
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => std::io::stdout().lock().write_all(text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
