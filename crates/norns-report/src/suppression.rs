//! Suppressions in ThreadSanitizer's file format, and baselines.
//!
//! A suppression is a line `type:pattern`. Types: the words of `--kind` (`race`, `deadlock`, …),
//! `race_top` (only the places themselves, not their callers), `mutex` (as `deadlock`);
//! `called_from_lib`, `thread` and `signal` are read and never match. A pattern matches anywhere in
//! a function or file name of one of the places; `*` stands for any text, `^` and `$` tie the
//! pattern to an end. Where stacks and modules are known (`norns detect`), they count too. A comment
//! may follow after ` # `, which is an extension of ours.

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::kind::{Group, Kind, Selection};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    pub line: usize,
    pub text: String,
    matches: Matches,
    pattern: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Matches {
    kinds: Vec<Kind>,
    /// Only by the places themselves, not by their callers.
    tops_only: bool,
}

impl Matches {
    /// What a suppression of this type matches; `None` for a type that is not known.
    fn of_type(word: &str) -> Option<Matches> {
        let (kinds, tops_only) = match word {
            "race_top" => (Group::Race.kinds().collect(), true),
            "mutex" => {
                let kinds = Group::Deadlock.kinds().chain(Group::Misuse.kinds());
                (kinds.collect(), false)
            }
            "thread" | "signal" | "called_from_lib" => (Vec::new(), false),
            word => (Selection::of_word(word)?.kinds, false),
        };
        Some(Matches { kinds, tops_only })
    }
}

/// One function of a stack, with all that a suppression may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub function: String,
    pub file: String,
    pub module: String,
    /// It made the access itself; the others are its callers.
    pub is_top: bool,
}

/// The suppressions of a file, or what is wrong with one of its lines.
pub fn parse(text: &str) -> Result<Vec<Suppression>, String> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split(" # ").next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((kind, pattern)) = line.split_once(':') else {
            return Err(format!(
                "line {number}: expected `type:pattern`, found `{line}`"
            ));
        };
        let Some(matches) = Matches::of_type(kind) else {
            let words = Selection::all();
            let words: Vec<&str> = words.iter().map(|selection| selection.word).collect();
            return Err(format!(
                "line {number}: unknown suppression type `{kind}` (expected {}, race_top, mutex, \
                 thread, signal or called_from_lib)",
                words.join(", ")
            ));
        };
        if pattern.is_empty() {
            return Err(format!("line {number}: the pattern is empty"));
        }
        let (text, pattern) = (line.to_string(), pattern.to_string());
        all.push(Suppression {
            line: number,
            text,
            matches,
            pattern,
        });
    }
    Ok(all)
}

impl Suppression {
    pub fn matches(&self, finding: &Finding) -> bool {
        self.matches.kinds.contains(&finding.kind)
            && finding.places.iter().any(|place| {
                pattern_matches(&self.pattern, &place.function)
                    || pattern_matches(&self.pattern, &place.file)
            })
    }
}

impl Suppression {
    /// Whether it suppresses a race of this kind with these frames in its stacks; a global variable
    /// that the threads race for counts as a frame with its name.
    pub fn matches_race(&self, kind: Kind, frames: &[Frame]) -> bool {
        if !self.matches.kinds.contains(&kind) {
            return false;
        }
        frames.iter().any(|frame| {
            (frame.is_top || !self.matches.tops_only)
                && [&frame.function, &frame.file, &frame.module]
                    .into_iter()
                    .any(|name| pattern_matches(&self.pattern, name))
        })
    }
}

/// Whether `pattern` occurs in `text`; `*` is any text, `^` the beginning, `$` the end.
pub fn pattern_matches(pattern: &str, text: &str) -> bool {
    let (from_start, pattern) = match pattern.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let (to_end, pattern) = match pattern.strip_suffix('$') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = text;
    for (at, part) in parts.iter().enumerate() {
        let last = at + 1 == parts.len();
        if at == 0 && from_start {
            let Some(after) = rest.strip_prefix(part) else {
                return false;
            };
            rest = after;
            if last && to_end {
                return rest.is_empty();
            }
        } else if last && to_end {
            return rest.ends_with(part);
        } else {
            let Some(found) = rest.find(part) else {
                return false;
            };
            rest = &rest[found + part.len()..];
        }
    }
    true
}

/// Takes out what is suppressed. Returns how many were, and the suppressions that matched none.
pub fn apply<'a>(
    findings: &mut Vec<Finding>,
    suppressions: &'a [Suppression],
) -> (usize, Vec<&'a Suppression>) {
    let mut used = vec![false; suppressions.len()];
    let before = findings.len();
    findings.retain(|finding| {
        let mut keep = true;
        for (suppression, used) in suppressions.iter().zip(&mut used) {
            if suppression.matches(finding) {
                *used = true;
                keep = false;
            }
        }
        keep
    });
    let unused = suppressions
        .iter()
        .zip(&used)
        .filter(|(_, used)| !**used)
        .map(|(s, _)| s);
    (before - findings.len(), unused.collect())
}

/// The findings that a project knows already. CI fails only on others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    pub format: u32,
    /// Sorted, no two the same.
    pub known: Vec<Known>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Known {
    pub fingerprint: String,
    /// For the person who reads the file.
    pub what: String,
}

impl Baseline {
    pub fn new(mut known: Vec<Known>) -> Self {
        known.sort();
        known.dedup_by(|a, b| a.fingerprint == b.fingerprint);
        Self { format: 1, known }
    }

    pub fn knows(&self, fingerprint: &str) -> bool {
        self.known
            .iter()
            .any(|known| known.fingerprint == fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_thread_sanitizer() {
        for (pattern, text, expected) in [
            ("foo", "a_foo_b", true),
            ("^foo", "a_foo_b", false),
            ("^foo", "foobar", true),
            ("bar$", "foobar", true),
            ("^foobar$", "foobar", true),
            ("^foo$", "foobar", false),
            ("f*r", "foobar", true),
            ("^f*z", "foobar", false),
            ("a*a$", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(
                pattern_matches(pattern, text),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(
            parse("race:foo\nnonsense\n").unwrap_err(),
            "line 2: expected `type:pattern`, found `nonsense`"
        );
        assert!(parse("# a comment\n\nrace:foo # because\n").unwrap()[0].text == "race:foo");
    }
}
