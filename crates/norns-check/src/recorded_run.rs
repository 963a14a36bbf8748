//! Races that the recorded run itself had: conflicting accesses that nothing orders in it. They need
//! no prediction and no replay, and come first.
//!
//! A replay that makes such a race happen again is an extra, for which time is spent last. The
//! exception is a race whose accesses a loop on a plain variable may keep apart: the recorded run
//! cannot tell, so that a replay holds the one thread and sees whether the other one arrives.

use norns_model::{Meaning, Model};
use norns_predict::happens_before::{Observed, observed_races};
use norns_replay::schedule::Way;
use norns_report::kind::Group;
use norns_report::{Finding, Status, Verdict};
use norns_trace::Trace;

use crate::check::{Check, Evidence, Progress, predicted};
use crate::confirm::{Again, Confirmation, OnMiss, Tried};
use crate::findings;
use crate::program::Program;

/// When so many races in a row could not be shown again, the others are not tried: the program does
/// not follow schedules.
const MOST_MISSES: usize = 3;
/// How many races are tried for a loop that orders them. The loops that these have shown order the
/// others as well.
const MOST_TRIED_FOR_LOOPS: usize = 16;

const NOTHING_ORDERS_IT: &str = "nothing orders the two accesses";

impl<E> Check<'_, E> {
    /// Adds the races of the run: confirmed, ordered by a loop, or in doubt. Returns those that no
    /// replay has shown yet.
    pub(crate) fn add_races_of_the_run<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
    ) -> Result<Vec<(Finding, Tried)>, E> {
        let mut kinds = self.options.kinds.iter();
        if !kinds.any(|kind| kind.group() == Group::Race) {
            return Ok(Vec::new());
        }
        let trace = confirmation.trace;
        let mut again = Vec::new();
        let mut may_wait = Vec::new();
        for observed in observed_races(&Model::new(trace, Meaning::Optimistic)) {
            if let Some(why) = confirmation.doubt(&observed.witness.bug) {
                self.add_doubtful(run, trace, &observed, why)?;
            } else if observed.may_wait {
                may_wait.push(observed);
            } else {
                again.extend(self.add_observed(run, trace, &observed)?);
            }
        }
        if !may_wait.is_empty() {
            self.replay_recording(run, confirmation)?;
        }
        for observed in &may_wait {
            self.add_if_not_ordered(run, confirmation, observed)?;
        }
        Ok(again)
    }

    /// Adds a race as predicted, since something that is not understood may have ordered it.
    fn add_doubtful(
        &mut self,
        run: u32,
        trace: &Trace,
        observed: &Observed,
        why: String,
    ) -> Result<(), E> {
        let mut finding = predicted(trace).finding(&observed.witness);
        if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
            return Ok(());
        }
        finding.verdict = Some(Verdict::NotUnderstood(why));
        let tried = first_try(observed);
        self.add(run, trace, finding, Evidence::Tried(&tried))
    }

    /// Adds a race as confirmed. Returns it with its finding, unless that is not wanted or known.
    fn add_observed(
        &mut self,
        run: u32,
        trace: &Trace,
        observed: &Observed,
    ) -> Result<Option<(Finding, Tried)>, E> {
        let mut finding = predicted(trace).finding(&observed.witness);
        if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
            return Ok(None);
        }
        finding.status = Status::Confirmed;
        finding.verdict = Some(Verdict::Observed(NOTHING_ORDERS_IT.into()));
        let tried = first_try(observed);
        self.add(run, trace, finding.clone(), Evidence::Tried(&tried))?;
        Ok(Some((finding, tried)))
    }

    /// Adds a race as confirmed, or as ordered by a loop if a replay shows one.
    fn add_if_not_ordered<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        observed: &Observed,
    ) -> Result<(), E> {
        let trace = confirmation.trace;
        let mut finding = predicted(trace).finding(&observed.witness);
        if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
            return Ok(());
        }
        let mut tried = first_try(observed);
        let again = if confirmation.is_ordered_by_known_loop(&observed.witness.bug) {
            Some(Again::OrderedBySpinLoop)
        } else if confirmation.tried_for_loops < MOST_TRIED_FOR_LOOPS {
            confirmation.tried_for_loops += 1;
            confirmation.show_again(&mut tried, OnMiss::Hunt)?
        } else {
            None
        };
        (finding.status, finding.verdict) = match again {
            Some(Again::OrderedBySpinLoop) => (Status::OrderedBySpinLoop, Some(Verdict::NoBug)),
            Some(Again::Shown(proof)) => {
                let how = format!("{NOTHING_ORDERS_IT}; in a replay {}", proof.describe());
                (Status::Confirmed, Some(Verdict::Observed(how)))
            }
            None => {
                let how = NOTHING_ORDERS_IT.into();
                (Status::Confirmed, Some(Verdict::Observed(how)))
            }
        };
        self.add(run, trace, finding, Evidence::Tried(&tried))
    }

    /// Replays the races that were confirmed without a replay.
    pub(crate) fn show_again<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        races: Vec<(Finding, Tried)>,
    ) -> Result<(), E> {
        let of = races.len();
        let mut misses = 0;
        for (number, (mut finding, mut tried)) in (1..).zip(races) {
            if misses == MOST_MISSES {
                break;
            }
            self.observer.progress(Progress::Replaying { number, of });
            match confirmation.show_again(&mut tried, OnMiss::GiveUp)? {
                Some(Again::Shown(proof)) => {
                    let how = format!("{NOTHING_ORDERS_IT}; in a replay {}", proof.describe());
                    finding.verdict = Some(Verdict::Observed(how));
                    self.put(run, confirmation.trace, finding, Evidence::Tried(&tried))?;
                    misses = 0;
                }
                Some(Again::OrderedBySpinLoop) | None => misses += 1,
            }
        }
        Ok(())
    }
}

fn first_try(observed: &Observed) -> Tried {
    let mut tried = Tried::not_replayed(&observed.witness);
    if tried.witness.schedule.is_empty() {
        tried.way = Way::Hunt;
    }
    tried
}
