//! What the runtime notes about files that it cannot look after: a line for each, with the problem and
//! the path.

use crate::fields::words;

words! {
    /// Why a later run does not find a file as it was, or may not change it.
    pub enum Problem {
        LargeFile = "large-file",
        UnreadableFile = "unreadable-file",
        /// A folder that was there before is to be renamed, removed or changed.
        Folder = "folder",
        /// The names in a folder were listed in which this run has changed files.
        List = "list",
        LongPath = "long-path",
    }
}

/// A line of the notes.
pub fn parse(line: &str) -> Option<(Problem, &str)> {
    let (word, path) = line.split_once(' ')?;
    Some((Problem::parse(word)?, path))
}
