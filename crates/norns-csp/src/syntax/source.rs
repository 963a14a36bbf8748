//! Source texts and positions in them.
//!
//! All files of one script share one number line: a file begins where the one before it
//! ended, so a `Span` is two numbers and needs no file id.

use std::fmt::Write as _;

/// A range of bytes on the number line of a `SourceMap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    pub low: u32,
    pub high: u32,
}

impl Span {
    pub fn new(low: u32, high: u32) -> Span {
        Span { low, high }
    }

    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

#[derive(Debug)]
pub struct SourceFile {
    pub name: String,
    pub text: String,
    pub start: u32,
    // offsets in `text` at which a line begins; the first is 0
    lines: Vec<u32>,
}

#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

/// A position as people write it; both numbers start at 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl SourceMap {
    /// Adds a text and returns where it starts. Fails when all texts together pass 4 GB.
    pub fn add(&mut self, name: String, text: String) -> Option<u32> {
        let start = self
            .files
            .last()
            .map_or(0, |file| file.start + file.text.len() as u32 + 1);
        u32::try_from(text.len())
            .ok()
            .and_then(|length| start.checked_add(length)?.checked_add(2))?;
        let mut lines = vec![0];
        lines.extend(
            text.bytes()
                .enumerate()
                .filter(|&(_, byte)| byte == b'\n')
                .map(|(at, _)| at as u32 + 1),
        );
        self.files.push(SourceFile {
            name,
            text,
            start,
            lines,
        });
        Some(start)
    }

    /// Where each file begins, in ascending order.
    pub fn starts(&self) -> Vec<u32> {
        self.files.iter().map(|file| file.start).collect()
    }

    pub fn file_at(&self, offset: u32) -> Option<&SourceFile> {
        let after = self.files.partition_point(|file| file.start <= offset);
        after.checked_sub(1).map(|index| &self.files[index])
    }

    pub fn text(&self, span: Span) -> &str {
        let Some(file) = self.file_at(span.low) else {
            return "";
        };
        let low = (span.low - file.start) as usize;
        let high = (span.high.saturating_sub(file.start) as usize).min(file.text.len());
        file.text.get(low..high.max(low)).unwrap_or("")
    }

    pub fn position(&self, offset: u32) -> Position {
        let Some(file) = self.file_at(offset) else {
            return Position {
                file: String::new(),
                line: 1,
                column: 1,
            };
        };
        let at = (offset - file.start).min(file.text.len() as u32);
        let line = file.lines.partition_point(|&start| start <= at) - 1;
        let start = file.lines[line] as usize;
        let column = file
            .text
            .get(start..at as usize)
            .map_or(1, |before| before.chars().count() as u32 + 1);
        Position {
            file: file.name.clone(),
            line: line as u32 + 1,
            column,
        }
    }

    /// The offset of a line and column, both counted from 1; none if the file has no such line.
    /// A column past the end of its line means that end.
    pub fn offset(&self, file: &str, line: u32, column: u32) -> Option<u32> {
        let file = self.files.iter().find(|other| other.name == file)?;
        let start = *file.lines.get(line.checked_sub(1)? as usize)? as usize;
        let text = file.text[start..].split(['\n', '\r']).next().unwrap_or("");
        let bytes: usize = text
            .chars()
            .take(column.saturating_sub(1) as usize)
            .map(char::len_utf8)
            .sum();
        Some(file.start + (start + bytes) as u32)
    }

    pub fn line(&self, offset: u32) -> u32 {
        self.position(offset).line
    }

    /// The source line that holds `offset`, without its end.
    fn source_line(&self, offset: u32) -> &str {
        let Some(file) = self.file_at(offset) else {
            return "";
        };
        let at = (offset - file.start).min(file.text.len() as u32);
        let line = file.lines.partition_point(|&start| start <= at) - 1;
        let rest = &file.text[file.lines[line] as usize..];
        rest.split(['\n', '\r']).next().unwrap_or("")
    }

    /// Writes one labelled place: file, line, the text of the line and a caret below it.
    pub fn render(&self, out: &mut String, span: Span, label: &str) {
        let from = self.position(span.low);
        let line = self.source_line(span.low);
        let number = from.line.to_string();
        let indent = " ".repeat(number.len());
        let _ = writeln!(
            out,
            "{indent}--> {}:{}:{}",
            from.file, from.line, from.column
        );
        let _ = writeln!(out, "{indent} |");
        // Very long lines (recorded threads) are shown around the place only.
        const WIDTH: usize = 160;
        let characters: Vec<char> = line
            .chars()
            .map(|c| if c == '\t' { ' ' } else { c })
            .collect();
        let column = (from.column as usize - 1).min(characters.len());
        let skip = if characters.len() > WIDTH {
            column.saturating_sub(40)
        } else {
            0
        };
        let shown: String = characters.iter().skip(skip).take(WIDTH).collect();
        let before = if skip > 0 { "…" } else { "" };
        let after = if characters.len() > skip + WIDTH {
            "…"
        } else {
            ""
        };
        let _ = writeln!(out, "{number} | {before}{shown}{after}");
        let to = self.position(span.high);
        let last = if to.line == from.line && to.file == from.file {
            (to.column as usize - 1).max(column + 1)
        } else {
            characters.len().max(column + 1)
        };
        let carets = (last - column).min(WIDTH.saturating_sub(column - skip).max(1));
        let pad = column - skip + before.chars().count();
        let _ = writeln!(
            out,
            "{indent} | {}{}{}{label}",
            " ".repeat(pad),
            "^".repeat(carets),
            if label.is_empty() { "" } else { " " },
        );
    }
}
