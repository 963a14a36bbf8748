//! Orders of events that a rule of the user does not allow: predicted by `norns-rules`, confirmed when
//! the events of a replay, in the order in which they happened there, break the rule themselves.

use norns_model::{Bug, NotAnalysed, Witness};
use norns_replay::schedule::{Accesses, Way};
use norns_report::{Kind, Status, Verdict};
use norns_rules::{Broken, Limits, Property};

use crate::check::{Check, Evidence, Progress, predicted};
use crate::confirm::{Confirmation, Tried};
use crate::program::{Outcome, Program};

/// A rule that is broken after many events is shown with the last ones.
const SHOWN: usize = 4;
/// How often a rule is tried to break with random priorities, when no schedule does.
const RANDOM_TRIES: u64 = 5;

impl<E> Check<'_, E> {
    pub(crate) fn check_rules<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
    ) -> Result<(), E> {
        let Some((property, limits)) = self.options.rules.as_ref() else {
            return Ok(());
        };
        if !self.options.kinds.contains(&Kind::Order) {
            return Ok(());
        }
        let trace = confirmation.trace;
        let checked = match property.check(trace, *limits) {
            Ok(checked) => checked,
            Err(error) => {
                let problem = error.to_string();
                self.all.not_analysed.push(NotAnalysed::Rules { problem });
                return Ok(());
            }
        };
        for (rule, reason) in checked.undecided {
            self.all.undecided += 1;
            let problem = format!("`{rule}` is not decided: {reason}");
            self.all.not_analysed.push(NotAnalysed::Rules { problem });
        }
        let of = checked.broken.len();
        for (number, broken) in (1..).zip(&checked.broken) {
            let is_settled = |finding: &norns_report::Finding| {
                finding.rule.as_deref() == Some(&broken.rule[..])
                    && finding.status == Status::Confirmed
            };
            if self.all.findings.iter().any(is_settled) {
                continue;
            }
            self.observer.progress(Progress::Replaying { number, of });
            let shown = broken.events.len().saturating_sub(SHOWN);
            let witness = Witness {
                schedule: broken.schedule.clone(),
                bug: Bug::Order {
                    events: broken.events[shown..].to_vec(),
                },
            };
            let mut finding = predicted(trace).finding(&witness);
            finding.rule = Some(broken.rule.clone());
            let tried = confirmation.break_rule(property, broken, witness, *limits)?;
            match tried.how {
                Some(how) => {
                    finding.status = Status::Confirmed;
                    finding.verdict = Some(Verdict::Confirmed(how));
                }
                None => finding.verdict = tried.verdict,
            }
            self.add(run, trace, finding, Evidence::Tried(&tried.last))?;
        }
        Ok(())
    }
}

/// What became of the tries to break a rule.
struct Tries {
    last: Tried,
    /// What a run showed that broke it.
    how: Option<String>,
    /// Why the last run did not.
    verdict: Option<Verdict>,
}

impl<P: Program> Confirmation<'_, P> {
    fn break_rule(
        &mut self,
        property: &Property,
        broken: &Broken,
        witness: Witness,
        limits: Limits,
    ) -> Result<Tries, P::Error> {
        let mut tries = Tries {
            last: Tried::not_replayed(&witness),
            how: None,
            verdict: None,
        };
        let schedules = [Accesses::Free, Accesses::Ordered].map(Way::Schedule);
        let random = (1..=RANDOM_TRIES).map(Way::Priorities);
        for way in schedules.into_iter().chain(random) {
            if self.is_out_of_time() {
                break;
            }
            let replayed = self.replay(&witness, way)?;
            let reason =
                property.is_broken_by(self.trace, broken.assertion, &replayed.events, limits);
            if let Ok(Some(reason)) = reason {
                tries.last.way = way;
                tries.how = Some(format!(
                    "the events of the run broke the rule `{}`: {reason}",
                    broken.rule
                ));
                break;
            }
            if tries.verdict.is_none() {
                tries.verdict = Some(match replayed.outcome {
                    Outcome::Infeasible { why, .. } => Verdict::Infeasible(why),
                    Outcome::TimedOut => Verdict::TimedOut,
                    _ => Verdict::NoBug,
                });
            }
        }
        Ok(tries)
    }
}
