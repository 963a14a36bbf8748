//! Races that the recorded run itself had: conflicting accesses that nothing orders in it. They need
//! no prediction and no replay, and come first.
//!
//! A replay that makes such a race happen again is an extra, for which time is spent last. The
//! exception is a race whose accesses a loop on a plain variable may keep apart: the recorded run
//! cannot tell, so that a replay holds the one thread and sees whether the other one arrives. If no
//! replay can tell, the race is only predicted, with that reason; and only counted if the recorded run
//! has gone round in such a loop. These replays have a share of the
//! time of their own, after the prediction, which needs little. Before that, the races of the variables that
//! such loops may wait for are replayed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use norns_model::{Bug, Meaning, Model};
use norns_predict::happens_before::{Flows, Observed, observed_races};
use norns_replay::Proof;
use norns_replay::schedule::Way;
use norns_report::kind::Group;
use norns_report::{Finding, Reason, Status, Verdict};
use norns_trace::{EventIndex, Trace};

use crate::check::{Check, Evidence, Progress, bare, predicted};
use crate::confirm::{Again, Confirmation, OnMiss, Tried};
use crate::findings;
use crate::program::Program;
use crate::wait_loops::sides;

/// When so many races in a row could not be shown again, the others are not tried: the program does
/// not follow schedules.
const MOST_MISSES: usize = 3;
/// How many races are tried for a loop that orders them. The loops that these have shown order the
/// others as well.
const MOST_TRIED_FOR_LOOPS: usize = 16;
/// Of how many places of variables the races are tried first, to see the loops that wait for them.
const MOST_AWAITED: usize = 4;
/// The part of the time that these may take.
const SHARE_FOR_AWAITED: (u32, u32) = (1, 4);
/// The part of the time that is left, after the prediction, that the tries of races may take.
const SHARE_FOR_LOOPS: (u32, u32) = (1, 2);

const NOTHING_ORDERS_IT: &str = "nothing orders the two accesses";
/// Why a race may be none, unless a replay stops both threads before their accesses.
pub(crate) const A_LOOP_MAY: &str =
    "a loop that waits for a plain variable may, which no replay has ruled out";

/// The races of a recorded run that replays are still to look at.
#[derive(Default)]
pub(crate) struct Open {
    /// Confirmed; no replay has shown them yet.
    pub again: Vec<(Finding, Tried)>,
    /// The same, of the variables that loops may wait for.
    pub awaited: Vec<(Finding, Tried)>,
    /// A loop may order them.
    pub may_wait: Vec<Observed>,
}

impl<E> Check<'_, E> {
    /// Adds the races of the run that need no replay: confirmed, or in doubt.
    pub(crate) fn add_races_of_the_run<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
    ) -> Result<Open, E> {
        let mut kinds = self.options.kinds.iter();
        if !kinds.any(|kind| kind.group() == Group::Race) {
            return Ok(Open::default());
        }
        let trace = confirmation.trace;
        let mut again = Vec::new();
        let mut may_wait = Vec::new();
        let model = Model::new(trace, Meaning::Optimistic);
        let (races, flows) = observed_races(&model);
        for observed in races {
            if let Some(why) = confirmation.doubt(&observed.witness.bug) {
                self.add_doubtful(run, trace, &observed, why)?;
            } else if observed.may_wait {
                may_wait.push(observed);
            } else {
                again.extend(self.add_observed(run, trace, &observed)?);
            }
        }
        let awaited = awaited(&model, &flows, &may_wait);
        let is_awaited = |(_, tried): &(Finding, Tried)| {
            let sides = sides(trace, &tried.witness.bug);
            sides.iter().any(|side| awaited.contains(side))
        };
        let (awaited, again) = again.into_iter().partition(is_awaited);
        confirmation.doubt_unless_held(may_wait.iter().map(|race| &race.witness));
        confirmation.know_flows(model, flows);
        Ok(Open {
            again,
            awaited,
            may_wait,
        })
    }

    /// Replays the races of variables that loops may wait for, to see these loops: who holds a write back
    /// sees best what waits for it.
    pub(crate) fn look_for_loops<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        awaited: Vec<(Finding, Tried)>,
    ) -> Result<(), E> {
        let (part, whole) = SHARE_FOR_AWAITED;
        self.work.stage(part, whole, || {
            // Every one gets its first try before one of them gets another.
            self.show_again(run, confirmation, awaited.clone(), OnMiss::GiveUp)?;
            let is_open = |(_, tried): &(Finding, Tried)| !confirmation.knows_loop(tried);
            let open = awaited.into_iter().filter(is_open).collect();
            self.show_again(run, confirmation, open, OnMiss::LookForLoop)
        })
    }

    /// Adds the races of the run that a loop may order: confirmed if a replay stops both threads before
    /// their accesses, ordered by a loop if a replay shows one, and otherwise in doubt.
    pub(crate) fn add_races_behind_loops<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        may_wait: &[Observed],
    ) -> Result<(), E> {
        let (part, whole) = SHARE_FOR_LOOPS;
        let work = self.work;
        work.stage(part, whole, || {
            self.steer_to(confirmation, may_wait)?;
            // What the loops order that one replay has shown is known only when all were tried.
            let mut tried = Vec::new();
            for observed in may_wait {
                let result = self.try_for_loop(confirmation, observed)?;
                tried.extend(result.map(|result| (observed, result)));
            }
            for (observed, (tried, again)) in tried {
                self.add_if_not_ordered(run, confirmation, observed, &tried, again)?;
            }
            Ok(())
        })
    }

    /// Runs the program steered to all these races at once: it may stop both threads of several of them.
    fn steer_to<P: Program<Error = E>>(
        &mut self,
        confirmation: &mut Confirmation<P>,
        races: &[Observed],
    ) -> Result<(), E> {
        let open = races.iter().filter(|race| {
            let finding = bare(confirmation.trace).finding(&race.witness);
            self.is_wanted(&finding) && !findings::is_settled(&self.all, &finding)
        });
        let open: Vec<&Bug> = open.map(|race| &race.witness.bug).collect();
        if !open.is_empty() {
            let races = open.len();
            self.observer.progress(Progress::Steering { races });
        }
        confirmation.steer(&open)
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

    /// Replays a race to see whether a loop orders its accesses, unless that is known. Returns what was
    /// replayed and what it showed; `None` if the finding is not wanted or settled.
    fn try_for_loop<P: Program<Error = E>>(
        &mut self,
        confirmation: &mut Confirmation<P>,
        observed: &Observed,
    ) -> Result<Option<(Tried, Option<Again>)>, E> {
        let finding = predicted(confirmation.trace).finding(&observed.witness);
        if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
            return Ok(None);
        }
        let mut tried = first_try(observed);
        if let Some(proof) = confirmation.shown_without_loop(&observed.witness.bug) {
            tried.way = Way::Hunt;
            return Ok(Some((tried, Some(Again::Shown(proof)))));
        }
        let is_known = confirmation.is_ordered_by_known_loop(&observed.witness.bug);
        let again = if !is_known && confirmation.tried_for_loops < MOST_TRIED_FOR_LOOPS {
            confirmation.tried_for_loops += 1;
            confirmation.show_again(&mut tried, OnMiss::Hunt)?
        } else {
            None
        };
        Ok(Some((tried, again)))
    }

    /// Adds a race as confirmed, as ordered by a loop, or in doubt, as replays have shown.
    fn add_if_not_ordered<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        observed: &Observed,
        tried: &Tried,
        again: Option<Again>,
    ) -> Result<(), E> {
        let trace = confirmation.trace;
        let mut finding = predicted(trace).finding(&observed.witness);
        if findings::is_settled(&self.all, &finding) {
            return Ok(());
        }
        let again = match again {
            Some(Again::Shown(Proof::BothHeld | Proof::DetectorWithoutLoop)) => again,
            _ if confirmation.is_ordered_by_known_loop(&observed.witness.bug) => {
                Some(Again::OrderedBySpinLoop)
            }
            _ => again,
        };
        (finding.status, finding.verdict) = match again {
            Some(Again::OrderedBySpinLoop) => (Status::OrderedBySpinLoop, Some(Verdict::NoBug)),
            Some(Again::Shown(proof)) => {
                let how = format!("{NOTHING_ORDERS_IT}; in a replay {}", proof.describe());
                (Status::Confirmed, Some(Verdict::Observed(how)))
            }
            None if !self.options.list_refuted
                && confirmation.leave_to_loop(&observed.witness.bug) =>
            {
                self.leave(&finding, Reason::OtherReads);
                return Ok(());
            }
            None => return self.add_doubtful(run, trace, observed, A_LOOP_MAY.into()),
        };
        self.add(run, trace, finding, Evidence::Tried(tried))
    }

    /// Replays the races that were confirmed without a replay.
    pub(crate) fn show_again<P: Program<Error = E>>(
        &mut self,
        run: u32,
        confirmation: &mut Confirmation<P>,
        races: Vec<(Finding, Tried)>,
        on_miss: OnMiss,
    ) -> Result<(), E> {
        let of = races.len();
        let mut misses = 0;
        for (number, (mut finding, mut tried)) in (1..).zip(races) {
            if misses == MOST_MISSES {
                break;
            }
            self.observer.progress(Progress::Replaying { number, of });
            match confirmation.show_again(&mut tried, on_miss)? {
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

/// The program counters of writes, and of the reads of loops that may wait for them: together, so few of
/// them may order as many of these races as possible.
fn awaited(model: &Model, flows: &Flows, may_wait: &[Observed]) -> BTreeSet<(u64, u64)> {
    let pc = |event: EventIndex| {
        let place = model.trace.events[event.index()].place;
        model.trace.place(place).pc
    };
    let links = |race: &Observed| -> BTreeSet<(u64, u64)> {
        let Bug::Race { first, second } = race.witness.bug else {
            return BTreeSet::new();
        };
        let links = flows.links_between(model, first, second);
        links.map(|link| (pc(link.write), pc(link.read))).collect()
    };
    let mut open: Vec<_> = may_wait.iter().map(links).collect();
    let mut awaited = BTreeSet::new();
    for _ in 0..MOST_AWAITED {
        let mut counts: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for link in open.iter().flatten() {
            *counts.entry(*link).or_default() += 1;
        }
        let best = counts
            .iter()
            .min_by_key(|&(link, count)| (Reverse(count), link));
        let Some((&best, _)) = best else { break };
        open.retain(|links| !links.contains(&best));
        awaited.insert(best);
    }
    awaited
}

fn first_try(observed: &Observed) -> Tried {
    let mut tried = Tried::not_replayed(&observed.witness);
    if tried.witness.schedule.is_empty() {
        tried.way = Way::Hunt;
    }
    tried
}
