//! Scripts with the verdict on the line of each assertion and the value on that of each print.
//!
//! An assertion ends in `-- holds` or `-- fails` (on its first line), a print in `-- value`.
//! Scripts under `errors/` must be refused; what is said stands in the `.err` file beside them
//! (`UPDATE=1 cargo test -p norns-csp --test scripts` writes it; read the difference).

use std::fs;
use std::path::{Path, PathBuf};

use norns_csp::Budget;
use norns_csp::check::Options;
use norns_csp::script::{Answer, Script, parse};
use norns_csp::syntax::print;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

fn scripts(folder: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .expect("the folder exists")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|end| end == "csp"))
        .collect();
    all.sort();
    assert!(!all.is_empty(), "no scripts in {folder}");
    all
}

fn include(path: &str, from: &str) -> Result<(String, String), String> {
    let base = Path::new(from).parent().unwrap_or(Path::new(""));
    let file = base.join(path);
    let text = fs::read_to_string(&file).map_err(|_| "no such file".to_owned())?;
    Ok((file.display().to_string(), text))
}

/// What a line expects, after `--`.
fn expected(text: &str, line: u32) -> Option<&str> {
    let line = text.lines().nth(line as usize - 1)?;
    line.rsplit_once("-- ").map(|(_, expected)| expected.trim())
}

fn check(folder: &str) {
    let mut wrong = Vec::new();
    for path in scripts(folder) {
        let text = fs::read_to_string(&path).expect("readable");
        let name = path.display().to_string();
        let mut script = match Script::load(&name, &text, &mut include) {
            Ok(script) => script,
            Err(error) => {
                wrong.push(format!("{name} is refused:\n{}", error.render()));
                continue;
            }
        };
        for printed in script.prints() {
            match printed {
                Ok(printed) => {
                    let wanted = expected(&text, printed.line).unwrap_or("(nothing)");
                    if printed.value != wanted {
                        let at = printed.line;
                        wrong.push(format!(
                            "{name}:{at}: {} instead of {wanted}",
                            printed.value
                        ));
                    }
                }
                Err(error) => wrong.push(error.render()),
            }
        }
        for index in 0..script.assertions.len() {
            let assertion = script.assertions[index].clone();
            let answer = script.check(index, &Options::default(), &mut |_| {});
            let found = match &answer {
                Ok((Answer::Holds, _)) => "holds",
                Ok((Answer::Fails(_), _)) => "fails",
                Ok((Answer::Undecided(reason), _)) => reason,
                Err(error) => {
                    wrong.push(error.render());
                    "error"
                }
            };
            let wanted = expected(&text, assertion.line).unwrap_or("(nothing)");
            if found != wanted {
                let at = assertion.line;
                wrong.push(format!("{name}:{at}: {found} instead of {wanted}"));
                if let Ok((Answer::Fails(Some(counterexample)), _)) = answer {
                    wrong.push(counterexample.text(&script.processes.events));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_listings_of_the_thesis() {
    check("thesis");
}

#[test]
fn classic_models() {
    check("classic");
}

#[test]
fn the_language() {
    check("language");
}

#[test]
fn errors_are_said_well() {
    let mut wrong = Vec::new();
    for path in scripts("errors") {
        let text = fs::read_to_string(&path).expect("readable");
        let name = path
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let said = match Script::load(&name, &text, &mut |path, _| {
            let from = root().join("errors/x").display().to_string();
            include(path, &from).map(|(_, text)| (path.to_owned(), text))
        }) {
            Err(error) => error.render(),
            Ok(mut script) => {
                let budget = Budget {
                    bytes: Some(256 << 20),
                    ..Budget::default()
                };
                let options = Options {
                    budget,
                    ..Options::default()
                };
                script.limit(&budget);
                let mut said = String::new();
                for warning in &script.warnings {
                    said += &warning.render(&script.sources);
                }
                for printed in script.prints() {
                    match printed {
                        Ok(printed) => said += &format!("{}\n", printed.value),
                        Err(error) => said += &error.render(),
                    }
                }
                for index in 0..script.assertions.len() {
                    match script.check(index, &options, &mut |_| {}) {
                        Err(error) => said += &error.render(),
                        Ok((answer, _)) => said += &format!("{answer:?}\n"),
                    }
                }
                said
            }
        };
        let file = path.with_extension("err");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&file, &said).expect("writable");
        }
        let wanted = fs::read_to_string(&file).unwrap_or_default();
        if said != wanted {
            wrong.push(format!("{name}: said\n{said}\ninstead of\n{wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn printed_scripts_parse_to_the_same_tree() {
    for folder in ["thesis", "classic", "language"] {
        for path in scripts(folder) {
            let text = fs::read_to_string(&path).expect("readable");
            let name = path.display().to_string();
            let (ast, _) = parse(&name, &text, &mut include).expect("checked by the other tests");
            let printed = print::script(&ast);
            let (again, _) = parse("printed", &printed, &mut include)
                .unwrap_or_else(|error| panic!("{name}:\n{}\n{printed}", error.render()));
            assert_eq!(print::tree(&ast), print::tree(&again), "{name}");
        }
    }
}
