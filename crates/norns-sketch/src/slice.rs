//! The lines that a failure depends on, as the analysis of the code found them.

use std::path::Path;

use crate::facts::Statement;

/// Lines by file and number, the closest to the failing statement first; none if the code was not sliced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    pub lines: Vec<(String, u32)>,
}

impl Slice {
    /// Whether the statement is in the slice. Compilers may know a file by a relative name.
    pub fn contains(&self, statement: &Statement) -> bool {
        let own = Path::new(&statement.file);
        self.lines.iter().any(|(file, line)| {
            let file = Path::new(file);
            *line == statement.line && (file.ends_with(own) || own.ends_with(file))
        })
    }
}
