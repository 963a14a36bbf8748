//! `norns explain CODE`: the long story behind a code, with a program that shows the bug and its
//! repair. The tests run both.

use std::process::ExitCode;

use anyhow::{Result, bail};

#[derive(clap::Args)]
pub struct Arguments {
    /// The code of a finding, such as NR0101; all of them are listed without one.
    code: Option<String>,
}

const PAGES: [(&str, &str); 5] = [
    ("NR0001", include_str!("../../../docs/explain/NR0001.md")),
    ("NR0002", include_str!("../../../docs/explain/NR0002.md")),
    ("NR0003", include_str!("../../../docs/explain/NR0003.md")),
    ("NR0101", include_str!("../../../docs/explain/NR0101.md")),
    ("NR0102", include_str!("../../../docs/explain/NR0102.md")),
];

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let Some(wanted) = arguments.code else {
        for (_, page) in PAGES {
            println!("{}", title(page));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let Some((_, page)) = PAGES
        .iter()
        .find(|(code, _)| code.eq_ignore_ascii_case(&wanted))
    else {
        let codes: Vec<&str> = PAGES.iter().map(|(code, _)| *code).collect();
        bail!(
            "there is no code `{wanted}` (there are {})",
            codes.join(", ")
        );
    };
    print!("{page}");
    Ok(ExitCode::SUCCESS)
}

fn title(page: &'static str) -> &'static str {
    page.lines()
        .next()
        .expect("every page begins with its title")
        .trim_start_matches("# ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page() {
        for (code, page) in PAGES {
            assert!(title(page).starts_with(code));
        }
        for code in norns_report::code::CODES {
            assert!(
                PAGES.iter().any(|(page, _)| *page == code.code),
                "{}",
                code.code
            );
        }
    }
}
