//! `norns explain CODE`: the long story behind a code, with a program that shows the bug and its
//! repair. The tests run both.

use std::process::ExitCode;

use anyhow::{Result, bail};
use norns_report::Kind;

#[derive(clap::Args)]
pub struct Arguments {
    /// The code of a finding, such as NR0101; all of them are listed without one.
    code: Option<String>,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut kinds = Kind::ALL.into_iter().map(Kind::definition);
    let Some(wanted) = arguments.code else {
        for kind in kinds {
            println!("{}", title(kind.page));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some(kind) = kinds.find(|kind| kind.code.eq_ignore_ascii_case(&wanted)) else {
        let codes: Vec<&str> = Kind::ALL
            .iter()
            .map(|kind| kind.definition().code)
            .collect();
        bail!(
            "there is no code `{wanted}` (there are {})",
            codes.join(", ")
        );
    };
    print!("{}", kind.page);
    Ok(ExitCode::SUCCESS)
}

fn title(page: &'static str) -> &'static str {
    page.lines()
        .next()
        .expect("every page begins with its title")
        .trim_start_matches("# ")
}
