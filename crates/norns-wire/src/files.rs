//! What the runtime notes about inputs that a later run does not get as they were: a line for each, with
//! the problem and the path.

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
        /// A thread asked for more, or in another order, than in the recorded run; instead of a path, what
        /// it asked for.
        Value = "value",
    }
}

/// A line of the notes.
pub fn parse(line: &str) -> Option<(Problem, &str)> {
    let (word, path) = line.split_once(' ')?;
    Some((Problem::parse(word)?, path))
}
