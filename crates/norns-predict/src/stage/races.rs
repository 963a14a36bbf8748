//! The stages for races. They decide all pairs of accesses, or one pair of accesses for every pair of
//! places.
//!
//! In the optimistic meaning, pairs of the same two segments share one decision.

use std::collections::BTreeMap;

use norns_model::checker::Checker;
use norns_model::reduction::redundant_accesses;
use norns_model::{Bug, Meaning, Model, NotAnalysed, Witness};
use norns_trace::EventIndex;
use rustc_hash::FxHashSet;

use super::{Counts, Decision, Detail, Engine, Predictor, UNITS_TO_CHECK};
use crate::candidate::{Accesses, Filtered, Side, is_ruled_out, sides};
use crate::linear::{Cut, Linear, Options as LinearOptions};

/// How many pairs of events are tried for two places, in a trace with more pairs than `FEW_PAIRS`.
/// After that the places stay undecided.
const TRIES: usize = 64;
const FEW_PAIRS: usize = 100_000;
/// Longer schedules are not reused for other pairs of the same segments.
const LONGEST_SHARED: usize = 10_000;
/// The schedules kept for reuse have at most this many steps together.
const MOST_STEPS_SHARED: usize = 20_000_000;
/// In longer traces open accesses are not searched, because each search takes a pass over the trace.
const MOST_SEARCHED: usize = 50_000;
/// All open accesses together may use the budgets of this many candidates.
const SHARED_BUDGETS: usize = 10;
/// How many accesses of a location are considered for a race with an open one.
const MOST_RIVALS: usize = 10_000;
/// How many steps of schedules are checked for racy events, in addition to those of pairs of places.
const MOST_CHECKED: usize = 20_000_000;
/// Units of work to filter one pair of events.
const UNITS_TO_FILTER: u64 = 10;
/// More conflicting pairs than this are not decided one by one.
const MOST_PAIRS: usize = 2_000_000;

impl Predictor<'_> {
    /// Decides a race, from the decision for the same two segments if there is one, otherwise by the
    /// engines.
    fn decide_race(
        &mut self,
        counts: &mut Counts,
        first: EventIndex,
        second: EventIndex,
    ) -> Decision {
        let bug = Bug::Race { first, second };
        let shares =
            self.options.reductions.same_segments && self.options.meaning == Meaning::Optimistic;
        let segments = (
            self.segments.of_event(first),
            self.segments.of_event(second),
        );
        if shares && let Some(known) = self.by_segments.get(&segments) {
            let witness = match known {
                None => {
                    counts.candidates += 1;
                    counts.filtered.same_segments += 1;
                    counts.impossible += 1;
                    return Decision::Impossible;
                }
                Some(schedule) => self.moved(schedule, bug.clone(), [first, second]),
            };
            self.work
                .count((UNITS_TO_CHECK * witness.schedule.len()) as u64);
            if self.checker.check(&witness).is_ok() {
                counts.candidates += 1;
                counts.filtered.same_segments += 1;
                return Decision::Shown(witness);
            }
        }
        let decision = self.decide(counts, &[first, second], bug);
        if shares {
            match &decision {
                Decision::Shown(witness)
                    if witness.schedule.len() <= LONGEST_SHARED
                        && self.steps_shared + witness.schedule.len() <= MOST_STEPS_SHARED =>
                {
                    self.steps_shared += witness.schedule.len();
                    self.by_segments
                        .insert(segments, Some(witness.schedule.clone()));
                }
                Decision::Impossible => {
                    self.by_segments.insert(segments, None);
                }
                Decision::Shown(_) | Decision::Open => {}
            }
        }
        decision
    }

    /// A witness from the schedule of another pair of the same segments, with the two threads moved
    /// within their segments to these events.
    fn moved(&self, schedule: &[EventIndex], bug: Bug, goal: [EventIndex; 2]) -> Witness {
        let inside = |event: EventIndex| {
            goal.iter()
                .any(|&g| self.segments.of_event(g) == self.segments.of_event(event))
        };
        let mut schedule: Vec<EventIndex> = schedule
            .iter()
            .copied()
            .filter(|&event| !inside(event))
            .collect();
        for event in goal {
            let events = &self.model.threads[self.model.thread_of(event).index()];
            let before = &events[..self.model.position_of(event)];
            let segment = self.segments.of_event(event);
            let own = before
                .iter()
                .rev()
                .take_while(|&&e| self.segments.of_event(e) == segment);
            let start = before.len() - own.count();
            schedule.extend(&before[start..]);
        }
        Witness { schedule, bug }
    }

    pub(super) fn races(&mut self) {
        // If all events are asked for, none is redundant.
        let leaves_out = self.options.reductions.redundant && self.options.detail == Detail::Places;
        let left_out = if leaves_out {
            redundant_accesses(self.model, &self.segments)
        } else {
            Vec::new()
        };
        let accesses = Accesses::of(self.model, &left_out);
        let few = accesses.most_pairs() <= MOST_PAIRS;
        if self.options.detail == Detail::Events && self.linear.is_some() {
            self.races_of_places(&accesses);
        } else if self.options.detail > Detail::Places && few {
            self.all_pairs(&accesses);
        } else {
            if self.options.detail > Detail::Places {
                self.found.not_analysed.push(NotAnalysed::Pairs {
                    more_than: MOST_PAIRS,
                });
            }
            self.races_of_places(&accesses);
        }
        let sides = |model: &Model, witness: &Witness| match witness.bug {
            Bug::Race { first, second } => sides(model, first, second),
            Bug::LockDeadlock { .. }
            | Bug::Stuck { .. }
            | Bug::Order { .. }
            | Bug::Atomicity { .. } => {
                unreachable!("only races are here")
            }
        };
        self.found.race_counts.filtered.redundant = left_out.iter().filter(|&&out| out).count();
        let model = self.model;
        self.found
            .races
            .sort_by_cached_key(|witness| sides(model, witness));
    }

    /// Decides every pair of conflicting accesses.
    fn all_pairs(&mut self, accesses: &Accesses) {
        let mut counts = Counts::default();
        let mut pairs = Vec::new();
        accesses.for_pairs(self.model, |first, second| pairs.push((first, second)));
        pairs.sort_unstable();
        let mut shown: FxHashSet<(Side, Side)> = FxHashSet::default();
        for (first, second) in pairs {
            let known = self.options.detail == Detail::Events
                && self.found.racy_events.contains(&second)
                && shown.contains(&sides(self.model, first, second));
            let hybrid = self.options.reductions.hybrid;
            if known
                || hybrid
                    && is_ruled_out(self.model, &self.index, &mut counts.filtered, first, second)
            {
                continue;
            }
            match self.decide_race(&mut counts, first, second) {
                Decision::Shown(witness) => {
                    self.found.racy_events.insert(second);
                    if self.options.detail == Detail::Pairs {
                        self.found.racy_pairs.insert((first, second));
                    }
                    if shown.insert(sides(self.model, first, second)) {
                        let kept = self.kept(&mut counts, witness);
                        self.found.races.extend(kept);
                    }
                }
                Decision::Impossible => {}
                Decision::Open => self.found.undecided.push(vec![first, second]),
            }
        }
        self.found.race_counts = counts;
    }

    /// Looks for one race for each pair of places.
    fn races_of_places(&mut self, accesses: &Accesses) {
        let mut counts = Counts::default();
        let mut shown: FxHashSet<(Side, Side)> = FxHashSet::default();
        let mut wanted: Option<FxHashSet<(Side, Side)>> = None;
        let mut open_events = Vec::new();
        let mut cut = Cut::default();
        let work = self.work.clone();
        if let Some(linear) = &self.linear {
            let report = work.stage(1, 2, || linear.races(&LinearOptions::default()));
            counts.candidates += report.unlisted;
            counts.unlisted += report.unlisted;
            cut = report.cut;
            // The rest is divided between the witnesses and the candidates that stay open.
            let kept = work.stage(1, 2, || {
                let races = report.races.iter();
                let kept = races.filter_map(|race| {
                    counts.candidates += 1;
                    if work.is_spent() {
                        counts.unlisted += 1;
                        shown.insert(race.sides);
                        return None;
                    }
                    let bug = Bug::Race {
                        first: race.first,
                        second: race.second,
                    };
                    let witness = Witness {
                        schedule: linear.schedule(&race.plan),
                        bug,
                    };
                    if !self.accepts(&mut counts, &witness) {
                        return None;
                    }
                    counts.linear += 1;
                    shown.insert(race.sides);
                    self.kept(&mut counts, witness)
                });
                kept.collect::<Vec<_>>()
            });
            self.found.races.extend(kept);
            if self.options.detail > Detail::Places {
                let pairs = report.partners.into_iter().zip(report.racy);
                let racy = accepted_pairs(linear, &self.checker, &mut counts, pairs.collect());
                self.found.racy_events.extend(racy);
                open_events = report.open_events;
            }
            // In a small trace the other stages decide all pairs for which no race was found, not
            // only those that near-linear prediction left open.
            if accesses.most_pairs() > FEW_PAIRS || self.options.engine == Engine::Linear {
                wanted = Some(report.open.iter().map(|open| open.sides).collect());
            }
        }
        if cut.locations > 0 {
            self.found.not_analysed.push(NotAnalysed::Locations {
                locations: cut.locations,
                accesses: cut.accesses,
            });
        }
        if self.options.engine == Engine::Linear {
            let open = wanted.unwrap_or_default();
            counts.undecided += open.len();
            self.found.race_counts = counts;
            return;
        }
        self.open_places(accesses, &mut counts, &shown, wanted.as_ref());
        self.open_events(&mut counts, &open_events);
        self.found.race_counts = counts;
    }

    /// Exact search for accesses that near-linear prediction left open.
    fn open_events(&mut self, counts: &mut Counts, events: &[EventIndex]) {
        let mut undecided = 0;
        // Together they get the budget of a few candidates, divided equally.
        let share = SHARED_BUDGETS * self.options.budget / events.len().max(1);
        self.budget = share.min(self.options.budget);
        for &second in events {
            let Some(linear) = &self.linear else { return };
            if self.found.racy_events.contains(&second) {
                continue;
            }
            if self.model.trace.events.len() > MOST_SEARCHED {
                undecided += 1;
                continue;
            }
            let rivals = linear.earlier_rivals(second, MOST_RIVALS);
            let mut inner = Counts::default();
            let mut open = !rivals.is_complete;
            for first in rivals.items {
                match self.decide_race(&mut inner, first, second) {
                    Decision::Shown(_) => {
                        self.found.racy_events.insert(second);
                        open = false;
                        break;
                    }
                    Decision::Impossible => {}
                    Decision::Open => open = true,
                }
            }
            counts.refused += inner.refused;
            undecided += usize::from(open);
        }
        self.budget = self.options.budget;
        if undecided > 0 {
            let reason = NotAnalysed::RacyEvents { undecided };
            self.found.not_analysed.push(reason);
        }
    }

    /// Exact search for pairs of places that have no race yet, with a bounded number of pairs of
    /// events for each.
    fn open_places(
        &mut self,
        accesses: &Accesses,
        counts: &mut Counts,
        shown: &FxHashSet<(Side, Side)>,
        wanted: Option<&FxHashSet<(Side, Side)>>,
    ) {
        if wanted.is_some_and(FxHashSet::is_empty) {
            return;
        }
        /// The pairs of events of one pair of places.
        #[derive(Default)]
        struct Tries {
            pairs: Vec<(EventIndex, EventIndex)>,
            /// How many more there are.
            more: usize,
        }
        let mut groups: BTreeMap<(Side, Side), Tries> = BTreeMap::new();
        let mut filtered = Filtered::default();
        let (model, index) = (self.model, &self.index);
        let pairs = accesses.most_pairs();
        let hybrid = self.options.reductions.hybrid;
        let most_tries = if pairs <= FEW_PAIRS {
            usize::MAX
        } else {
            TRIES
        };
        let work = self.work.clone();
        let add = |first: EventIndex, second: EventIndex| {
            work.count(UNITS_TO_FILTER);
            let sides = sides(model, first, second);
            if shown.contains(&sides) || wanted.is_some_and(|wanted| !wanted.contains(&sides)) {
                return;
            }
            if hybrid && is_ruled_out(model, index, &mut filtered, first, second) {
                return;
            }
            let tries = groups.entry(sides).or_default();
            if tries.pairs.len() < most_tries {
                tries.pairs.push((first, second));
            } else {
                tries.more += 1;
            }
        };
        let every_pair = pairs <= MOST_PAIRS;
        if every_pair {
            accesses.for_pairs(model, add);
        } else {
            work.stage(1, 3, || accesses.for_near_pairs(model, index, &work, add));
        }
        counts.filtered = filtered;
        let mut groups_left = groups.len() as u64;
        for Tries { pairs, more } in groups.into_values() {
            let mut inner = Counts::default();
            let mut open = None;
            let mut found = None;
            work.share(2.min(groups_left), groups_left, || {
                for (first, second) in pairs {
                    match self.decide_race(&mut inner, first, second) {
                        Decision::Shown(witness) => {
                            found = Some(witness);
                            break;
                        }
                        Decision::Impossible => {}
                        Decision::Open => open = open.take().or(Some(vec![first, second])),
                    }
                }
            });
            groups_left -= 1;
            counts.candidates += 1;
            counts.refused += inner.refused;
            match found {
                Some(witness) => {
                    counts.linear += inner.linear;
                    counts.exact += inner.exact;
                    counts.order += inner.order;
                    counts.filtered.same_segments += inner.filtered.same_segments;
                    if let Bug::Race { second, .. } = witness.bug
                        && self.options.detail > Detail::Places
                    {
                        self.found.racy_events.insert(second);
                    }
                    let kept = self.kept(counts, witness);
                    self.found.races.extend(kept);
                }
                None if open.is_some() || more > 0 || !every_pair => {
                    counts.undecided += 1;
                    self.found.undecided.extend(open);
                }
                None => counts.impossible += 1,
            }
        }
    }
}

/// The later accesses of those pairs that the checker accepts. If checking all of them would take
/// more than `MOST_CHECKED` steps, none is checked here; the witness of each pair of places is.
fn accepted_pairs(
    linear: &Linear,
    checker: &Checker,
    counts: &mut Counts,
    pairs: Vec<(EventIndex, EventIndex)>,
) -> Vec<EventIndex> {
    let steps: usize = pairs.iter().map(|pair| pair.1.index()).sum();
    let mut accepted = Vec::with_capacity(pairs.len());
    for (first, second) in pairs {
        let refused = steps <= MOST_CHECKED
            && linear
                .race(first, second, &LinearOptions::default())
                .is_none_or(|witness| checker.check(&witness).is_err());
        counts.refused += usize::from(refused);
        if !refused {
            accepted.push(second);
        }
    }
    accepted
}
