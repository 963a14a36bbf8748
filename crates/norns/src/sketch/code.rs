//! The code of the program: the slice of a failing statement, and how its lines can be tracked.

use std::path::{Path, PathBuf};

use norns_ir::Program;
use norns_scan::{Memory, Object};
use norns_sketch::Failure;
use norns_sketch::tracking::Trackable;
use norns_trace::lines::Lines;
use norns_wire::tracking::Target;

use super::Arguments;
use crate::scan;

/// Of larger programs the slice takes longer than it is worth beside recorded accesses.
const MOST_INSTRUCTIONS: usize = 300_000;

/// The slice of a failure, and why there is none if there is none.
#[derive(Default)]
pub struct Sliced {
    pub statements: Vec<norns_scan::Sliced>,
    pub why_not: Option<String>,
}

impl Sliced {
    /// Reads the code from the sources, or from the bitcode that a program was built with.
    pub fn of(arguments: &Arguments, program: &Path, failure: &Failure) -> Sliced {
        let none = |why: String| Sliced {
            statements: Vec::new(),
            why_not: Some(why),
        };
        let Some(place) = failure.place.as_ref().filter(|place| place.line > 0) else {
            return none("where it fails is not known".into());
        };
        let files: Vec<PathBuf> = match &arguments.sources[..] {
            [] => vec![program.to_path_buf()],
            sources => sources.to_vec(),
        };
        let mut code: Program = match scan::read(&files, &arguments.flags) {
            Ok(code) => code,
            Err(error) => return none(first_line(&format!("{error:#}"))),
        };
        let count: usize = { code.functions.iter() }
            .map(|function| function.instructions.len())
            .sum();
        if count > MOST_INSTRUCTIONS && !arguments.track {
            return none(format!("it has {count} instructions"));
        }
        code.promote_locals();
        match norns_scan::slice(&code, &place.file, place.line) {
            Some(slice) => Sliced {
                statements: slice.statements,
                why_not: None,
            },
            None => none(format!(
                "its bitcode has nothing at {}:{}",
                place.file, place.line
            )),
        }
    }

    /// The lines for `norns-sketch`, the closest first.
    pub fn lines(&self) -> norns_sketch::Slice {
        let lines = self.statements.iter().map(|one| &one.at);
        norns_sketch::Slice {
            lines: lines.map(|at| (at.file.clone(), at.line)).collect(),
        }
    }

    /// How each statement can be tracked in this program.
    pub fn trackable(&self, program: &Path) -> Vec<Trackable> {
        let Some(lines) = Lines::of(program) else {
            return Vec::new();
        };
        let targets = |memory: &Memory| -> Option<Vec<Target>> {
            let size = u32::try_from(memory.size).ok()?;
            match &memory.object {
                Object::Global(name) => Some(vec![Target::Global {
                    address: lines.variable(name)? + memory.offset,
                    size,
                }]),
                Object::Allocated { file, line } => {
                    let code = lines.code(file, *line).into_iter();
                    let allocated = code.map(|(from, to)| Target::Allocated {
                        from,
                        to,
                        nth: 1,
                        offset: memory.offset,
                        size,
                    });
                    Some(allocated.collect())
                }
            }
        };
        let statements = self.statements.iter();
        statements
            .map(|one| Trackable {
                file: one.at.file.clone(),
                line: one.at.line,
                decides: one.decides,
                memory: { one.memory.iter().filter_map(targets) }
                    .filter(|targets| !targets.is_empty())
                    .collect(),
            })
            .collect()
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}
