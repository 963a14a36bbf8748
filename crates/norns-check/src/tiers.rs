//! Prediction in two tiers.
//!
//! The first has the bugs that some schedule shows in which every read whose write is known still
//! sees that write (`norns_predict::predict_keeping_reads`): the program can follow such a schedule.
//! The second has what only other schedules show, in which the program may do something else.
//!
//! Races of the first tier are looked for first, since they are what is listed as predicted. A race
//! that stays undecided there counts as undecided; one that only the second tier leaves undecided is
//! a sentence of its own. Deadlocks of the first tier are looked for only if there are any at all:
//! most programs have none, and that costs less to find out in the second tier.

use std::collections::BTreeSet;

use norns_model::{Bug, Meaning, NotAnalysed, Witness};
use norns_predict::{Options, Prediction, predict_keeping_reads, predict_within};
use norns_report::kind::Group;
use norns_report::{Reason, Verdict};
use norns_trace::{EventIndex, PlaceId, Touch, Trace};

use crate::check::{Check, Evidence, Progress, bare, predicted};
use crate::confirm::Tried;
use crate::findings;

/// What the schedule of a prediction asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Every read whose write is known sees that write: the program can follow.
    SameReads,
    /// Some read sees another write, so that the program may do something else.
    OtherReads,
}

/// The part of what is left that all predictions of a recording may take: replays prove more.
const SHARE: (u32, u32) = (1, 3);

impl<E> Check<'_, E> {
    /// The witnesses in the order in which they are replayed: the first tier, then the second, and in
    /// each deadlocks first, since there are few of them and each ends a replay at once.
    pub(crate) fn predict(&mut self, run: u32, trace: &Trace) -> Result<Vec<(Witness, Tier)>, E> {
        let events = trace.events.len();
        self.observer.progress(Progress::Predicting { events });
        let any_of = |group| self.options.kinds.iter().any(|kind| kind.group() == group);
        let options = Options {
            engine: self.options.engine,
            races: any_of(Group::Race),
            deadlocks: any_of(Group::Deadlock),
            ..Options::usual(trace)
        };
        let work = self.work;
        if options.meaning != Meaning::Optimistic {
            let predict = || predict_within(trace, &options, work);
            let found = work.stage(SHARE.0, SHARE.1, predict);
            self.all.undecided += found.undecided.len();
            self.leave_undecided(trace, &found);
            self.all.not_analysed.extend(found.not_analysed);
            self.refuted_by_values(run, trace, &found.refuted)?;
            let all = [found.deadlocks, found.stuck, found.races].concat();
            let kept = all.into_iter().map(|witness| (witness, Tier::SameReads));
            return Ok(kept.collect());
        }
        Ok(work.stage(SHARE.0, SHARE.1, || self.both_tiers(trace, &options)))
    }

    /// Counts, or lists, what needs no replay: a read would have to see another value.
    fn refuted_by_values(&mut self, run: u32, trace: &Trace, refuted: &[Witness]) -> Result<(), E> {
        let mut predictions = 0;
        for witness in refuted {
            let mut finding = predicted(trace).finding(witness);
            if !self.is_wanted(&finding) || findings::is_settled(&self.all, &finding) {
                continue;
            }
            predictions += 1;
            if self.options.list_refuted {
                finding.verdict = Some(Verdict::Infeasible(
                    "the recorded values forbid it: in every order that shows it, a read before \
                     it sees another value (no replay was needed)"
                        .into(),
                ));
                let tried = Tried::not_replayed(witness);
                self.add(run, trace, finding, Evidence::Tried(&tried))?;
            }
        }
        if predictions > 0 {
            self.all.not_analysed.push(NotAnalysed::RefutedByValues {
                predictions,
                listed: self.options.list_refuted,
            });
        }
        Ok(())
    }

    fn both_tiers(&mut self, trace: &Trace, options: &Options) -> Vec<(Witness, Tier)> {
        let work = self.work;
        let mut same = Prediction::default();
        if options.races {
            let options = Options {
                deadlocks: false,
                ..*options
            };
            let predict = || predict_keeping_reads(trace, &options, work);
            same = work.stage(1, 2, predict);
        }
        let part = if options.deadlocks { 2 } else { 3 };
        let any = work.stage(part, 3, || predict_within(trace, options, work));
        if !any.deadlocks.is_empty() || !any.stuck.is_empty() {
            let options = Options {
                races: false,
                ..*options
            };
            let found = predict_keeping_reads(trace, &options, work);
            (same.deadlocks, same.stuck) = (found.deadlocks, found.stuck);
        }
        self.count_undecided(trace, &same, &any);
        self.leave_undecided(trace, &same);
        self.leave_undecided(trace, &any);
        let first = [same.deadlocks, same.stuck, same.races].concat();
        let known: BTreeSet<_> = first
            .iter()
            .map(|witness| bug_key(trace, witness))
            .collect();
        let all = [any.deadlocks, any.stuck, any.races].concat().into_iter();
        let second = all.filter(|witness| !known.contains(&bug_key(trace, witness)));
        let second: Vec<_> = second.map(|witness| (witness, Tier::OtherReads)).collect();
        let first = first.into_iter().map(|witness| (witness, Tier::SameReads));
        first.chain(second).collect()
    }

    /// Notes the candidates of a scan that were not decided.
    fn leave_undecided(&mut self, trace: &Trace, found: &Prediction) {
        if self.candidates.is_none() {
            return;
        }
        for events in &found.undecided {
            let bug = match events.as_slice() {
                &[first, second] if Touch::of(trace.events[first.index()].op).is_some() => {
                    Bug::Race { first, second }
                }
                blocked => Bug::LockDeadlock {
                    blocked: blocked.to_vec(),
                },
            };
            let schedule = Vec::new();
            let finding = bare(trace).finding(&Witness { bug, schedule });
            self.leave(&finding, Reason::Budget);
        }
    }

    /// Counts what was not decided. Of two accesses that the second tier leaves undecided, the first
    /// tier has found that they race, that they do not, or that it cannot tell either.
    fn count_undecided(&mut self, trace: &Trace, same: &Prediction, any: &Prediction) {
        let is_race = |events: &&Vec<EventIndex>| {
            let mut ops = events.iter().map(|event| trace.events[event.index()].op);
            ops.all(|op| Touch::of(op).is_some())
        };
        let cycles = any.undecided.iter().filter(|events| !is_race(events));
        self.all.undecided += same.undecided.len() + cycles.count();
        let places = |events: &Vec<EventIndex>| -> BTreeSet<PlaceId> {
            let events = events.iter();
            events
                .map(|event| trace.events[event.index()].place)
                .collect()
        };
        let counted: BTreeSet<_> = same.undecided.iter().map(places).collect();
        let races = any.undecided.iter().filter(is_race);
        let pairs = races
            .filter(|race| !counted.contains(&places(race)))
            .count();
        let not_analysed = &mut self.all.not_analysed;
        for reason in same.not_analysed.iter().chain(&any.not_analysed) {
            if !not_analysed.contains(reason) {
                not_analysed.push(reason.clone());
            }
        }
        if pairs > 0 {
            not_analysed.push(NotAnalysed::UndecidedOtherReads { pairs });
        }
    }
}

/// What makes two witnesses show the same bug: its kind, and places and operations of its events.
fn bug_key(trace: &Trace, witness: &Witness) -> (&'static str, Vec<(PlaceId, norns_wire::Code)>) {
    let events = witness.bug.events().into_iter();
    let mut places: Vec<_> = events
        .map(|event| trace.events[event.index()])
        .map(|event| (event.place, event.op.kind().code))
        .collect();
    places.sort_unstable();
    (witness.bug.word(), places)
}
