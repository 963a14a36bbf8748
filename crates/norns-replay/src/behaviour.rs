//! How a program behaved in a run, as its user sees it: how it ended and what it printed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::process::{Ended, Error};

/// Of what a program prints this much is compared.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Whether the program has followed the schedule to its end.
    pub followed: bool,
    /// Whether its threads waited for each other for ever.
    pub hung: bool,
    pub ended: Ended,
    /// What it printed. Sorted: which thread prints first is no difference.
    pub lines: Vec<String>,
}

impl Behaviour {
    /// The lines that a program has printed to a file, from this byte on.
    pub fn lines(path: &Path, from: u64) -> Result<Vec<String>, Error> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.take(MOST_BYTES).read_to_end(&mut bytes)
        });
        read.map_err(Error::file("read", path))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort_unstable();
        Ok(lines)
    }

    /// What this run did that the first of the usual ones did not, to complete "the program"; `None` if
    /// its user would see no difference. Another output counts only if no usual run has printed it.
    pub fn difference(&self, usual: &[Behaviour]) -> Option<String> {
        let first = usual.first()?;
        let hung = |run: &Behaviour| run.hung || run.ended == Ended::Hung;
        if hung(self) {
            return (!hung(first)).then(|| Ended::Hung.describe());
        }
        match self.ended {
            Ended::Signalled(_) | Ended::Exited(_) => {}
            Ended::TimedOut
            | Ended::OutOfMemory
            | Ended::Hung
            | Ended::Interrupted
            | Ended::Stopped
            | Ended::Killed => return None,
        }
        let new = |line: &&String| !usual.iter().any(|run| run.lines.contains(line));
        let printed = self.lines.iter().find(new);
        if first.ended != self.ended {
            let printed = printed.map(|line| format!(" and printed `{line}`"));
            return Some(self.ended.describe() + &printed.unwrap_or_default());
        }
        if usual.iter().any(|run| run.lines == self.lines) {
            return None;
        }
        let missing = first.lines.iter().find(|line| !self.lines.contains(line));
        Some(match (printed, missing) {
            (Some(new), Some(old)) => format!("printed `{new}` instead of `{old}`"),
            (Some(new), None) => format!("printed `{new}`, which it otherwise does not"),
            (None, Some(old)) => format!("did not print `{old}`"),
            (None, None) => "printed some lines more or less often than otherwise".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ended: Ended, lines: &[&str]) -> Behaviour {
        Behaviour {
            followed: true,
            hung: false,
            ended,
            lines: lines.iter().map(|line| line.to_string()).collect(),
        }
    }

    #[test]
    fn a_difference_is_what_no_usual_run_did() {
        let usual = [
            run(Ended::Exited(0), &["sum 2"]),
            run(Ended::Exited(0), &["sum 3"]),
        ];
        let check = |seen: Behaviour, expected: Option<&str>| {
            assert_eq!(seen.difference(&usual).as_deref(), expected);
        };
        check(run(Ended::Exited(0), &["sum 3"]), None);
        check(
            run(Ended::Exited(0), &["sum 1"]),
            Some("printed `sum 1` instead of `sum 2`"),
        );
        check(
            run(Ended::Exited(1), &["sum 2"]),
            Some("exited with status 1"),
        );
        check(
            run(Ended::Signalled(6), &["failed"]),
            Some("was killed by signal 6 and printed `failed`"),
        );
        check(run(Ended::TimedOut, &["sum 1"]), None);
        check(
            Behaviour {
                hung: true,
                ..run(Ended::TimedOut, &[])
            },
            Some("hung: all its threads wait for each other"),
        );
    }
}
