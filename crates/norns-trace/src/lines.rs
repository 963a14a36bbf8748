//! Where lines and variables of a source are in a program's file.

use std::fs;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSymbol as _};

/// The lines and variables of one program.
pub struct Lines {
    variables: Vec<(String, u64)>,
    /// Addresses with their lines, as the debug information has them.
    ranges: Vec<Range>,
}

struct Range {
    from: u64,
    to: u64,
    file: PathBuf,
    line: u32,
}

impl Lines {
    /// `None` if the file cannot be read or has no debug information.
    pub fn of(program: &Path) -> Option<Lines> {
        let bytes = fs::read(program).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let data = file
            .symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Data && symbol.is_definition());
        let variables = data
            .filter_map(|symbol| Some((symbol.name().ok()?.to_string(), symbol.address())))
            .collect();
        let loader = addr2line::Loader::new(program).ok()?;
        let found = loader.find_location_range(0, u64::MAX).ok()?;
        let ranges = found
            .filter_map(|(from, length, location)| {
                Some(Range {
                    from,
                    to: from + length,
                    file: location.file?.into(),
                    line: location.line?,
                })
            })
            .collect();
        Some(Lines { variables, ranges })
    }

    /// The address of a variable by the linker's name, in the file; a static variable of a function has a
    /// number behind its name.
    pub fn variable(&self, name: &str) -> Option<u64> {
        let exact = self.variables.iter().find(|(known, _)| known == name);
        // clang calls it `function.name`, gcc `name.number`.
        let name = name.rsplit('.').next().unwrap_or(name);
        let found = exact.or_else(|| {
            let mut alike = self.variables.iter().filter(|(known, _)| {
                let rest = known
                    .strip_prefix(name)
                    .and_then(|rest| rest.strip_prefix('.'));
                rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
            });
            alike.next().filter(|_| alike.next().is_none())
        });
        found.map(|(_, address)| *address)
    }

    /// The addresses of a line's code, in the file: where each part begins and ends.
    pub fn code(&self, file: &str, line: u32) -> Vec<(u64, u64)> {
        let file = Path::new(file);
        let here = self.ranges.iter().filter(|range| range.line == line);
        let here = here.filter(|range| range.file.ends_with(file) || file.ends_with(&range.file));
        let mut found: Vec<(u64, u64)> = Vec::new();
        for range in here {
            match found.last_mut() {
                Some((_, to)) if *to == range.from => *to = range.to,
                _ => found.push((range.from, range.to)),
            }
        }
        found
    }
}
