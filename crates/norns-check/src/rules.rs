//! Orders of events that a rule of the user does not allow: predicted by `norns-rules`, confirmed when
//! the events of a replay, in the order in which they happened there, break the rule themselves.

use norns_model::{Bug, NotAnalysed, Witness};
use norns_replay::schedule::{Accesses, Way};
use norns_report::{Kind, Status, Verdict};
use norns_rules::{Broken, Limits, Property, Undecided};
use norns_trace::Trace;

use crate::check::{Check, Evidence, Progress, predicted};
use crate::confirm::{Confirmation, Tried};
use crate::program::{Outcome, Program};

/// How often a rule is tried to break with random priorities, when no schedule does.
const RANDOM_TRIES: u64 = 5;
/// How many schedules of one order of events are tried: after the first, those that `refine` makes of what
/// the program did not follow.
const ROUNDS: usize = 4;

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
        for event in property.events_without(trace) {
            let problem = format!("the run has no event `{event}`");
            self.all.not_analysed.push(NotAnalysed::Rules { problem });
        }
        for rule in checked.allow_nothing {
            let problem = format!(
                "the specification of `{rule}` allows no event at all, so that the first one breaks it"
            );
            self.all.not_analysed.push(NotAnalysed::Rules { problem });
        }
        for undecided in &checked.undecided {
            let Undecided {
                rule,
                reason,
                orders,
                ..
            } = undecided;
            if self.is_settled(rule) || self.try_orders(run, confirmation, undecided)? {
                continue;
            }
            self.all.undecided += 1;
            let tried = match orders.len() {
                0 => String::new(),
                count => {
                    format!("; the program followed none of {count} wrong orders of its events")
                }
            };
            let problem = format!("`{rule}` is not decided: {reason}{tried}");
            self.all.not_analysed.push(NotAnalysed::Rules { problem });
        }
        let of = checked.broken.len();
        for (number, broken) in (1..).zip(&checked.broken) {
            if self.is_settled(&broken.rule) {
                continue;
            }
            self.observer.progress(Progress::Replaying { number, of });
            let tries = confirmation.break_rule(property, broken, *limits)?;
            self.add_broken(run, trace, broken, tries)?;
        }
        Ok(())
    }

    fn is_settled(&self, rule: &str) -> bool {
        let mut findings = self.all.findings.iter();
        findings.any(|finding| {
            finding.rule.as_deref() == Some(rule) && finding.status == Status::Confirmed
        })
    }

    /// Runs the program with wrong orders of its events that no schedule was found for; whether one of them
    /// broke the rule.
    fn try_orders<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        undecided: &Undecided,
    ) -> Result<bool, E> {
        let Some((property, limits)) = self.options.rules.as_ref() else {
            return Ok(false);
        };
        let of = undecided.orders.len();
        for (number, order) in (1..).zip(&undecided.orders) {
            self.observer.progress(Progress::Replaying { number, of });
            let broken = Broken {
                assertion: undecided.assertion,
                rule: undecided.rule.clone(),
                reason: String::new(),
                schedule: order.clone(),
                events: order.clone(),
                deadlock: None,
            };
            let mut tries = Tries::of(confirmation.trace, &broken);
            confirmation.try_to_break(property, &broken, Way::Events, *limits, &mut tries)?;
            if tries.how.is_some() {
                self.add_broken(run, confirmation.trace, &broken, tries)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn add_broken(
        &mut self,
        run: u32,
        trace: &Trace,
        broken: &Broken,
        tries: Tries,
    ) -> Result<(), E> {
        let mut finding = predicted(trace).finding(&witness(trace, broken));
        finding.kind = Kind::Order;
        finding.rule = Some(broken.rule.clone());
        match tries.how {
            Some(how) => {
                finding.status = Status::Confirmed;
                finding.verdict = Some(Verdict::Confirmed(how));
            }
            None => finding.verdict = tries.verdict,
        }
        self.add(run, trace, finding, Evidence::Tried(&tries.last))
    }
}

/// The schedule that breaks a rule, with the events that are shown.
fn witness(trace: &Trace, broken: &Broken) -> Witness {
    let order = Bug::Order {
        events: broken.shown(trace),
    };
    Witness {
        schedule: broken.schedule.clone(),
        bug: broken.deadlock.clone().unwrap_or(order),
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

impl Tries {
    fn of(trace: &Trace, broken: &Broken) -> Self {
        Tries {
            last: Tried::not_replayed(&witness(trace, broken)),
            how: None,
            verdict: None,
        }
    }
}

impl<P: Program> Confirmation<'_, P> {
    fn break_rule(
        &mut self,
        property: &Property,
        broken: &Broken,
        limits: Limits,
    ) -> Result<Tries, P::Error> {
        let mut tries = Tries::of(self.trace, broken);
        let Witness { schedule, bug } = tries.last.witness.clone();
        // The schedule of a round, with the order of all events and not only of those that are shown.
        let order = Bug::Order {
            events: broken.events.clone(),
        };
        let mut next = Some(Witness {
            schedule,
            bug: broken.deadlock.clone().unwrap_or(order),
        });
        for _ in 0..ROUNDS {
            let Some(whole) = next.take() else { break };
            tries.last.witness = Witness {
                schedule: whole.schedule.clone(),
                bug: bug.clone(),
            };
            let mut left_at = None;
            for way in [Accesses::Free, Accesses::Ordered].map(Way::Schedule) {
                let outcome = self.try_to_break(property, broken, way, limits, &mut tries)?;
                let Some(outcome) = outcome else {
                    return Ok(tries);
                };
                if let Outcome::Infeasible { event, .. } = outcome {
                    left_at = event;
                }
            }
            next = self
                .refinement
                .again(&whole, left_at)
                .map(|again| again.witness);
        }
        let random = (1..=RANDOM_TRIES).map(Way::Priorities);
        for way in [Way::Events].into_iter().chain(random) {
            let outcome = self.try_to_break(property, broken, way, limits, &mut tries)?;
            if outcome.is_none() {
                break;
            }
        }
        Ok(tries)
    }

    /// Runs the program once; `None` if that decides, or if there is no time.
    fn try_to_break(
        &mut self,
        property: &Property,
        broken: &Broken,
        way: Way,
        limits: Limits,
        tries: &mut Tries,
    ) -> Result<Option<Outcome>, P::Error> {
        if self.is_out_of_time() {
            return Ok(None);
        }
        let witness = tries.last.witness.clone();
        let replayed = self.replay(&witness, way)?;
        let reason = property.is_broken_by(self.trace, broken.assertion, &replayed.events, limits);
        if let (Some(_), Outcome::Confirmed(proof)) = (&broken.deadlock, &replayed.outcome) {
            tries.last.way = way;
            let proof = proof.describe();
            tries.how = Some(format!("{proof}, which breaks the rule `{}`", broken.rule));
            return Ok(None);
        }
        if let Ok(Some(reason)) = reason {
            tries.last.way = way;
            tries.how = Some(format!(
                "the events of the run broke the rule `{}`: {reason}",
                broken.rule
            ));
            return Ok(None);
        }
        if tries.verdict.is_none() {
            tries.verdict = Some(match &replayed.outcome {
                Outcome::Infeasible { why, .. } => Verdict::Infeasible(why.clone()),
                Outcome::TimedOut => Verdict::TimedOut,
                _ => Verdict::NoBug,
            });
        }
        Ok(Some(replayed.outcome))
    }
}
