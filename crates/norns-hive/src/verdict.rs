//! The state machine of verdicts: what follows from the reports on one candidate.
//!
//! After section 3.5 of Kasikci 2015. A race that one run has seen is a true race for good. Without one, the
//! candidate is likely a false positive once a run has seen an order between the accesses, or has waited as
//! long as is allowed without success; nothing can prove that it is one. The order of reports does not
//! matter: a [`Tally`] is a sum, and the verdict is a function of it.

use serde::{Deserialize, Serialize};

use crate::assignment::MAX_TAU_MS;
use crate::protocol::{Order, Outcome, TaskReport};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    TrueRace,
    LikelyFalse,
    Unknown,
}

impl Verdict {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::TrueRace => "true-race",
            Verdict::LikelyFalse => "likely-false",
            Verdict::Unknown => "unknown",
        }
    }
}

/// How often each result was reported for one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    pub race: u64,
    pub no_race: u64,
    pub timeout: u64,
    pub not_seen: u64,
    /// Those of `timeout` that waited as long as is allowed.
    pub exhausted: u64,
    /// Those of all that asked for the alternate order.
    pub alternate: u64,
    /// Those of all while which the program failed.
    pub failed: u64,
}

impl Tally {
    pub fn add(&mut self, report: &TaskReport) {
        match report.result {
            Outcome::Race => self.race += 1,
            Outcome::NoRace => self.no_race += 1,
            Outcome::Timeout => self.timeout += 1,
            Outcome::NotSeen => self.not_seen += 1,
        }
        let exhausted = report.result == Outcome::Timeout && report.tau_ms >= MAX_TAU_MS;
        self.exhausted += u64::from(exhausted);
        self.alternate += u64::from(report.order == Order::Alternate);
        self.failed += u64::from(report.consequence.is_some());
    }

    /// The sum of two tallies.
    #[must_use]
    pub fn with(self, other: Tally) -> Tally {
        Tally {
            race: self.race + other.race,
            no_race: self.no_race + other.no_race,
            timeout: self.timeout + other.timeout,
            not_seen: self.not_seen + other.not_seen,
            exhausted: self.exhausted + other.exhausted,
            alternate: self.alternate + other.alternate,
            failed: self.failed + other.failed,
        }
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.race + self.no_race + self.timeout + self.not_seen
    }

    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.race > 0 {
            Verdict::TrueRace
        } else if self.no_race > 0 || self.exhausted > 0 {
            Verdict::LikelyFalse
        } else {
            Verdict::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CandidateId, SiteNumber, TaskId};

    fn report(result: Outcome, tau_ms: u32) -> TaskReport {
        TaskReport {
            task: TaskId::new("t").expect("printable"),
            candidate: CandidateId::new("0123456789abcdef").expect("16 digits"),
            sites: [SiteNumber(0), SiteNumber(1)],
            order: Order::Primary,
            tau_ms,
            result,
            stacks: Vec::new(),
            consequence: None,
        }
    }

    #[track_caller]
    fn check(reports: &[(Outcome, u32)], expected: Verdict) {
        // No order of the reports makes a difference, and nothing that comes after a race does.
        for rotation in 0..reports.len().max(1) {
            let mut tally = Tally::default();
            let (end, start) = reports.split_at(rotation);
            for &(result, tau_ms) in start.iter().chain(end) {
                tally.add(&report(result, tau_ms));
            }
            assert_eq!(tally.verdict(), expected);
            assert_eq!(tally.total(), reports.len() as u64);
        }
    }

    #[test]
    fn the_state_machine_of_the_paper() {
        use Outcome::{NoRace, NotSeen, Race, Timeout};
        check(&[], Verdict::Unknown);
        check(
            &[(NotSeen, 1), (Timeout, 1), (Timeout, 150)],
            Verdict::Unknown,
        );
        check(&[(NotSeen, 1), (Timeout, 200)], Verdict::LikelyFalse);
        check(&[(NoRace, 1), (NotSeen, 1)], Verdict::LikelyFalse);
        check(&[(NoRace, 1), (Race, 1), (Timeout, 200)], Verdict::TrueRace);
    }
}
