//! The stages: every candidate goes from cheap to dear, and stops where it is decided.
//!
//! Filters rule out, near-linear prediction finds, exact search does both within a budget. What
//! stays open is listed. Budgets are counted in steps, one apart for every candidate, so neither
//! the order of the candidates nor the speed of the machine changes an answer.
//!
//! Everything that is found goes through the independent checker; what it refuses is not
//! reported, and counted as refused, which is a mistake of the engine that found it.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::checker::Checker;
use norns_model::reduction::redundant_accesses;
use norns_model::segment::{SegmentId, Segments};
use norns_model::{Bug, Meaning, Model, Witness};
use norns_trace::{EventIndex, Op, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::candidate::{Accesses, Filtered, is_ruled_out, lock_cycles};
use crate::exact::index::Index;
use crate::exact::projection::Projection;
use crate::exact::search::{Outcome, reach};
use crate::exact::terminal;
use crate::linear::{Linear, Options as LinearOptions, Side};
use crate::{csp, order, values};

/// Which engines take part after the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// All, cheapest first.
    Auto,
    Linear,
    Exact,
    /// The ordering solver.
    Order,
    /// The refinement checker on the model as CSPM.
    Csp,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// One witness for every pair of places.
    Places,
    /// In addition every event that races with an earlier one, and every deadlocked set of
    /// events.
    Events,
    /// In addition every racy pair of events.
    Pairs,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub meaning: Meaning,
    /// The trace has values, and they decide what can be: then, for the engines that can use
    /// them (all together, and the ordering solver), `meaning` does not count.
    pub values: bool,
    pub engine: Engine,
    pub detail: Detail,
    pub races: bool,
    pub deadlocks: bool,
    /// Steps of exact search for one candidate.
    pub budget: usize,
    pub reductions: Reductions,
    /// Of longer schedules only the end is kept in the result; they are checked as a whole. For
    /// callers that show witnesses and do not replay them.
    pub longest_kept: usize,
}

/// Reductions of section 5.5 of Carril's dissertation. None of them changes a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reductions {
    /// Leave out accesses that race only where another of their place does.
    pub redundant: bool,
    /// Rule out pairs that are always ordered or have a common lock before any engine looks.
    pub hybrid: bool,
    /// In the optimistic meaning, decide each pair of segments once.
    pub same_segments: bool,
}

impl Reductions {
    pub const ALL: Reductions = Reductions {
        redundant: true,
        hybrid: true,
        same_segments: true,
    };
    pub const NONE: Reductions = Reductions {
        redundant: false,
        hybrid: false,
        same_segments: false,
    };
}

impl Options {
    /// The usual options for a trace: faithful where the order of its accesses is known.
    pub fn usual(trace: &Trace) -> Options {
        Options {
            meaning: usual_meaning(trace),
            values: values::are_known(trace),
            engine: Engine::Auto,
            detail: Detail::Places,
            races: true,
            deadlocks: true,
            budget: 200_000,
            reductions: Reductions::ALL,
            longest_kept: usize::MAX,
        }
    }
}

pub fn usual_meaning(trace: &Trace) -> Meaning {
    if trace.accesses_ordered {
        Meaning::Faithful
    } else {
        Meaning::Optimistic
    }
}

/// Pairs of events that are looked at for two places before these are left open, in a trace with
/// more pairs than `FEW_PAIRS`.
const TRIES: usize = 64;
const FEW_PAIRS: usize = 100_000;
/// Up to this many events every cycle of acquisitions is looked at, not one for each pattern.
const FEW_EVENTS: usize = 2_000;
/// Steps of the search for cycles of locks.
const CYCLE_STEPS: usize = 20_000_000;
/// The ordering solver looks at traces of at most this many events: its formula grows faster than
/// the trace.
const MOST_ORDERED: usize = 20_000;
/// Longer schedules are not kept for other pairs of the same segments.
const LONGEST_SHARED: usize = 10_000;
/// In longer traces open accesses are not searched: a search goes over the trace each time.
const MOST_SEARCHED: usize = 50_000;
/// All open accesses together may use the budgets of this many candidates.
const SHARED_BUDGETS: usize = 10;
/// How many accesses of a location are looked at for a race with an open one.
const RIVALS_LOOKED_AT: usize = 10_000;
/// Steps of schedules of racy events that are checked besides those of pairs of places.
const MOST_CHECKED: usize = 20_000_000;
/// More conflicting pairs than this are not looked at one by one.
const MOST_PAIRS: usize = 2_000_000;

/// How many candidates each stage decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub candidates: usize,
    pub filtered: Filtered,
    pub linear: usize,
    pub exact: usize,
    pub order: usize,
    pub impossible: usize,
    pub undecided: usize,
    /// Predicted, but values forbid it; and those of which the solver could not say that.
    pub refuted: usize,
    pub unsifted: usize,
    /// Found by an engine, but refused by the checker.
    pub refused: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// One witness for every pair of places and accesses, sorted.
    pub races: Vec<Witness>,
    /// One witness for every set of places.
    pub deadlocks: Vec<Witness>,
    pub stuck: Vec<Witness>,
    /// The blocked events of all such waits that were found, of which `stuck` has one for places.
    pub stuck_sets: Vec<Vec<EventIndex>>,
    /// What synchronisation allows and values forbid, one of each pair or set of places, with the
    /// schedule that they forbid.
    pub refuted: Vec<Witness>,
    /// Events that race with an earlier one; only with `Detail::Events` and more.
    pub racy_events: BTreeSet<EventIndex>,
    /// Sorted sets of blocked acquisitions; only with `Detail::Events` and more.
    pub deadlocked_events: BTreeSet<Vec<EventIndex>>,
    /// Only with `Detail::Pairs`.
    pub racy_pairs: BTreeSet<(EventIndex, EventIndex)>,
    /// Candidates that no engine could decide within its budget.
    pub undecided: Vec<Vec<EventIndex>>,
    pub race_counts: Counts,
    pub deadlock_counts: Counts,
    /// Sentences on what was not analysed.
    pub not_analysed: Vec<String>,
}

/// Predicts races and deadlocks.
pub fn predict(trace: &Trace, options: &Options) -> Prediction {
    if options.engine == Engine::Csp {
        return csp::predict_by_csp(trace, options);
    }
    let by_values = options.values && matches!(options.engine, Engine::Auto | Engine::Order);
    if !by_values {
        return predict_by_order(trace, options);
    }
    let optimistic = Options {
        meaning: Meaning::Optimistic,
        values: options.engine == Engine::Order,
        reductions: match options.engine {
            // Two events of one segment may have seen different values.
            Engine::Order => Reductions {
                hybrid: options.reductions.hybrid,
                ..Reductions::NONE
            },
            _ => options.reductions,
        },
        longest_kept: usize::MAX,
        ..*options
    };
    let mut found = predict_by_order(trace, &optimistic);
    if options.engine == Engine::Auto {
        values::sift(trace, options, &mut found);
    }
    found
}

/// Without values, or with the ordering solver alone.
fn predict_by_order(trace: &Trace, options: &Options) -> Prediction {
    let model = Model::new(trace, options.meaning);
    let mut predictor = Predictor {
        model: &model,
        options,
        budget: options.budget,
        index: Index::of(&model),
        linear: matches!(options.engine, Engine::Auto | Engine::Linear)
            .then(|| Linear::new(&model)),
        order: None,
        checker: Checker::new(trace, options.meaning),
        segments: Segments::of(&model),
        by_segments: FxHashMap::default(),
        found: Prediction::default(),
    };
    predictor.check_observed_order();
    if options.races {
        predictor.races();
    }
    if options.deadlocks {
        predictor.deadlocks();
    }
    predictor.found
}

struct Predictor<'a> {
    model: &'a Model<'a>,
    options: &'a Options,
    /// Steps of exact search for one candidate.
    budget: usize,
    index: Index,
    linear: Option<Linear<'a>>,
    /// Made when it is first needed.
    order: Option<order::Engine<'a>>,
    checker: Checker<'a>,
    segments: Segments,
    /// Pairs of segments that were decided: the schedule, or `None` where there is none.
    by_segments: FxHashMap<(SegmentId, SegmentId), Option<Vec<EventIndex>>>,
    found: Prediction,
}

/// What the engines say of one candidate.
enum Decision {
    Shown(Witness),
    Impossible,
    Open,
}

impl<'a> Predictor<'a> {
    /// The rules of the model hold for the trace itself; otherwise something in it is not
    /// understood, and what is said of it is worth less.
    fn check_observed_order(&mut self) {
        let observed: Vec<EventIndex> = (0..self.model.trace.events.len())
            .map(EventIndex::from_index)
            .collect();
        if let Err(refusal) = self.checker.check_schedule(&observed) {
            self.found.not_analysed.push(format!(
                "the recorded order is not one that the model allows ({refusal}): what comes \
                 after that event is analysed with doubt"
            ));
        }
    }

    /// Linear prediction, then exact search; the witness checked.
    fn decide(&mut self, counts: &mut Counts, goal: &[EventIndex], bug: Bug) -> Decision {
        counts.candidates += 1;
        if let Some(linear) = &self.linear {
            let options = LinearOptions::default();
            let witness = match &bug {
                Bug::Race { first, second } => linear.race(*first, *second, &options),
                Bug::LockDeadlock { blocked } => linear.lock_deadlock(blocked, &options),
                Bug::Stuck { .. } => None,
            };
            if let Some(witness) = witness.filter(|witness| self.accepts(counts, witness)) {
                counts.linear += 1;
                return Decision::Shown(witness);
            }
        }
        if let Some(linear) = &self.linear
            && !matches!(bug, Bug::Stuck { .. })
            && linear.is_impossible(goal)
        {
            counts.impossible += 1;
            return Decision::Impossible;
        }
        if self.options.engine == Engine::Linear {
            counts.undecided += 1;
            return Decision::Open;
        }
        let mut outcome = Outcome::Undecided;
        if self.options.engine != Engine::Order {
            outcome = reach(self.model, &self.index, goal, &mut self.budget.clone());
        }
        match outcome {
            Outcome::Reached(schedule) => {
                let witness = Witness { schedule, bug };
                if self.accepts(counts, &witness) {
                    counts.exact += 1;
                    return Decision::Shown(witness);
                }
            }
            Outcome::Unreachable => {
                counts.impossible += 1;
                return Decision::Impossible;
            }
            Outcome::Undecided if self.options.engine == Engine::Exact => {}
            Outcome::Undecided => match self.ask_solver(bug) {
                order::Outcome::Witness(witness) if self.accepts(counts, &witness) => {
                    counts.order += 1;
                    return Decision::Shown(witness);
                }
                order::Outcome::Impossible => {
                    counts.impossible += 1;
                    return Decision::Impossible;
                }
                _ => {}
            },
        }
        counts.undecided += 1;
        Decision::Open
    }

    fn ask_solver(&mut self, bug: Bug) -> order::Outcome {
        let trace = self.model.trace;
        if trace.events.len() > MOST_ORDERED {
            return order::Outcome::Undecided;
        }
        let reads = match self.options.meaning {
            _ if self.options.values => order::Reads::SameValue,
            Meaning::Optimistic => order::Reads::Anything,
            Meaning::Faithful => order::Reads::SameWrite,
        };
        self.order
            .get_or_insert_with(|| order::Engine::new(trace, reads))
            .find(bug)
    }

    /// The witness as the result keeps it.
    fn kept(&self, mut witness: Witness) -> Witness {
        let over = witness
            .schedule
            .len()
            .saturating_sub(self.options.longest_kept);
        witness.schedule = witness.schedule.split_off(over);
        witness
    }

    fn accepts(&self, counts: &mut Counts, witness: &Witness) -> bool {
        let accepted = self.checker.check(witness).is_ok();
        counts.refused += usize::from(!accepted);
        accepted
    }

    /// A race, from what is known of the same two segments or from the engines.
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
            if self.checker.check(&witness).is_ok() {
                counts.candidates += 1;
                counts.filtered.same_segments += 1;
                return Decision::Shown(witness);
            }
        }
        let decision = self.decide(counts, &[first, second], bug);
        if shares {
            match &decision {
                Decision::Shown(witness) if witness.schedule.len() <= LONGEST_SHARED => {
                    self.by_segments
                        .insert(segments, Some(witness.schedule.clone()));
                }
                Decision::Impossible => {
                    self.by_segments.insert(segments, None);
                }
                _ => {}
            }
        }
        decision
    }

    /// The schedule of another pair of the same segments, with the two threads moved within
    /// their segments to these events.
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

    fn races(&mut self) {
        // With every event asked for, none is redundant.
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
                self.found.not_analysed.push(format!(
                    "there are more than {MOST_PAIRS} pairs of conflicting accesses: racy events \
                     are those that near-linear prediction finds, and pairs are left out"
                ));
            }
            self.races_of_places(&accesses);
        }
        let sides = |model: &Model, witness: &Witness| match witness.bug {
            Bug::Race { first, second } => sides(model, first, second),
            _ => unreachable!("these witnesses are of races"),
        };
        self.found.race_counts.filtered.redundant = left_out.iter().filter(|&&out| out).count();
        let model = self.model;
        self.found
            .races
            .sort_by_cached_key(|witness| sides(model, witness));
    }

    /// Every pair of conflicting accesses on its own.
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
                        self.found.races.push(self.kept(witness));
                    }
                }
                Decision::Impossible => {}
                Decision::Open => self.found.undecided.push(vec![first, second]),
            }
        }
        self.found.race_counts = counts;
    }

    /// One race for each pair of places.
    fn races_of_places(&mut self, accesses: &Accesses) {
        let mut counts = Counts::default();
        let mut shown: FxHashSet<(Side, Side)> = FxHashSet::default();
        let mut wanted: Option<FxHashSet<(Side, Side)>> = None;
        let mut open_events = Vec::new();
        if let Some(linear) = &self.linear {
            let report = linear.races(&LinearOptions::default());
            for race in &report.races {
                counts.candidates += 1;
                let bug = Bug::Race {
                    first: race.first,
                    second: race.second,
                };
                let witness = Witness {
                    schedule: linear.schedule(&race.plan),
                    bug,
                };
                if self.accepts(&mut counts, &witness) {
                    counts.linear += 1;
                    shown.insert(race.sides);
                    self.found.races.push(self.kept(witness));
                }
            }
            if self.options.detail > Detail::Places {
                let pairs = report.partners.into_iter().zip(report.racy);
                let racy = accepted_pairs(linear, &self.checker, &mut counts, pairs.collect());
                self.found.racy_events.extend(racy);
                open_events = report.open_events;
            }
            // In a small trace everything that is not found is looked at, open or not.
            if accesses.most_pairs() > FEW_PAIRS || self.options.engine == Engine::Linear {
                wanted = Some(report.open.iter().map(|open| open.sides).collect());
            }
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
        // They share what a few candidates would have, the same for each of them.
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
            let (rivals, all) = linear.earlier_rivals(second, RIVALS_LOOKED_AT);
            let mut inner = Counts::default();
            let mut open = !all;
            for first in rivals {
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
            self.found.not_analysed.push(format!(
                "{undecided} accesses may race with an earlier one, but no engine could say so \
                 within its budget: they are not among the racy events"
            ));
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
        // For every pair of places some pairs of events, and how many more there are.
        let mut groups: BTreeMap<(Side, Side), (Vec<(EventIndex, EventIndex)>, usize)> =
            BTreeMap::new();
        let mut filtered = Filtered::default();
        let (model, index) = (self.model, &self.index);
        let pairs = accesses.most_pairs();
        let hybrid = self.options.reductions.hybrid;
        let most_tries = if pairs <= FEW_PAIRS {
            usize::MAX
        } else {
            TRIES
        };
        let add = |first: EventIndex, second: EventIndex| {
            let sides = sides(model, first, second);
            if shown.contains(&sides) || wanted.is_some_and(|wanted| !wanted.contains(&sides)) {
                return;
            }
            if hybrid && is_ruled_out(model, index, &mut filtered, first, second) {
                return;
            }
            let (tries, more) = groups.entry(sides).or_default();
            if tries.len() < most_tries {
                tries.push((first, second));
            } else {
                *more += 1;
            }
        };
        let every_pair = pairs <= MOST_PAIRS;
        if every_pair {
            accesses.for_pairs(model, add);
        } else {
            accesses.for_near_pairs(model, index, add);
        }
        counts.filtered = filtered;
        for (tries, more) in groups.into_values() {
            let mut inner = Counts::default();
            let mut open = None;
            let mut found = None;
            for (first, second) in tries {
                match self.decide_race(&mut inner, first, second) {
                    Decision::Shown(witness) => {
                        found = Some(witness);
                        break;
                    }
                    Decision::Impossible => {}
                    Decision::Open => open = open.or(Some(vec![first, second])),
                }
            }
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
                    self.found.races.push(self.kept(witness));
                }
                None if open.is_some() || more > 0 || !every_pair => {
                    counts.undecided += 1;
                    self.found.undecided.extend(open);
                }
                None => counts.impossible += 1,
            }
        }
    }

    fn deadlocks(&mut self) {
        let mut counts = Counts::default();
        let mut cycles: BTreeMap<Vec<EventIndex>, Witness> = BTreeMap::new();
        if self.model.trace.events.len() > FEW_EVENTS {
            if self.options.detail > Detail::Places {
                self.found.not_analysed.push(
                    "one deadlock is listed for every cycle of threads, locks and places, not one \
                     for every time that these were reached"
                        .to_string(),
                );
            }
            self.deadlocks_of_places(&mut counts, &mut cycles);
        } else {
            self.all_lock_deadlocks(&mut counts, &mut cycles);
        }
        if self.options.detail > Detail::Places {
            self.found.deadlocked_events = cycles.keys().cloned().collect();
        }
        self.found.deadlocks = one_for_places(self.model, cycles.into_values());
        if self.options.engine != Engine::Linear && can_be_stuck(self.model, &self.index) {
            self.stuck(&mut counts);
        }
        self.found.deadlock_counts = counts;
    }

    fn all_lock_deadlocks(
        &mut self,
        counts: &mut Counts,
        cycles: &mut BTreeMap<Vec<EventIndex>, Witness>,
    ) {
        let (candidates, all) =
            lock_cycles(self.model, &self.index, &mut counts.filtered, CYCLE_STEPS);
        if !all {
            self.found.not_analysed.push(
                "there are too many ways in which locks could wait for each other to list them \
                 all: not all cycles of locks were looked at"
                    .to_string(),
            );
        }
        self.decide_cycles(counts, candidates, cycles);
    }

    fn decide_cycles(
        &mut self,
        counts: &mut Counts,
        candidates: Vec<Vec<EventIndex>>,
        cycles: &mut BTreeMap<Vec<EventIndex>, Witness>,
    ) {
        for cycle in candidates {
            let mut sorted = cycle.clone();
            sorted.sort_unstable();
            if cycles.contains_key(&sorted) {
                continue;
            }
            let bug = Bug::LockDeadlock {
                blocked: cycle.clone(),
            };
            match self.decide(counts, &cycle, bug) {
                Decision::Shown(witness) => {
                    cycles.insert(sorted, self.kept(witness));
                }
                Decision::Impossible => {}
                Decision::Open => self.found.undecided.push(cycle),
            }
        }
    }

    fn deadlocks_of_places(
        &mut self,
        counts: &mut Counts,
        cycles: &mut BTreeMap<Vec<EventIndex>, Witness>,
    ) {
        let Some(linear) = &self.linear else {
            return self.all_lock_deadlocks(counts, cycles);
        };
        let report = linear.lock_deadlocks(&LinearOptions::default());
        for deadlock in &report.deadlocks {
            counts.candidates += 1;
            let bug = Bug::LockDeadlock {
                blocked: deadlock.blocked.clone(),
            };
            let witness = Witness {
                schedule: linear.schedule(&deadlock.plan),
                bug,
            };
            if self.accepts(counts, &witness) {
                counts.linear += 1;
                let mut sorted = deadlock.blocked.clone();
                sorted.sort_unstable();
                cycles.insert(sorted, self.kept(witness));
            }
        }
        if report.cut {
            self.found.not_analysed.push(
                "there are too many ways in which locks could wait for each other to list them \
                 all: not all cycles of locks were looked at"
                    .to_string(),
            );
        }
        // An open pattern is decided by its instances; where these are few, by all of them.
        if !report.open.is_empty() {
            let (candidates, all) = lock_cycles(
                self.model,
                &self.index,
                &mut counts.filtered,
                CYCLE_STEPS / 10,
            );
            let candidates = if all && candidates.len() <= 64 * report.open.len() {
                let places = |cycle: &[EventIndex]| -> Vec<_> {
                    let place = |event: &EventIndex| {
                        (
                            self.model.thread_of(*event),
                            self.model.trace.events[event.index()].place,
                        )
                    };
                    let mut places: Vec<_> = cycle.iter().map(place).collect();
                    places.sort_unstable();
                    places
                };
                let open: BTreeSet<_> = report.open.iter().map(|cycle| places(cycle)).collect();
                candidates
                    .into_iter()
                    .filter(|cycle| open.contains(&places(cycle)))
                    .collect()
            } else {
                report.open
            };
            self.decide_cycles(counts, candidates, cycles);
        }
    }

    /// Waits that nothing ends.
    fn stuck(&mut self, counts: &mut Counts) {
        let mut budget = self.options.budget.saturating_mul(5);
        let result = self.last_states(&mut budget);
        if !result.complete {
            self.found.not_analysed.push(
                "the search for waits that nothing ends ran out of its budget: there may be more \
                 of them"
                    .to_string(),
            );
        }
        let mut accepted = Vec::new();
        for witness in result.stuck.into_values() {
            counts.candidates += 1;
            let witness = self.shortened(witness);
            if self.accepts(counts, &witness) {
                counts.exact += 1;
                accepted.push(self.kept(witness));
            }
        }
        let sets = accepted.iter().map(|witness| match &witness.bug {
            Bug::Stuck { blocked } => blocked.clone(),
            _ => unreachable!("these witnesses are of waits"),
        });
        self.found.stuck_sets = sets.collect();
        self.found.stuck = one_for_places(self.model, accepted.into_iter());
    }

    /// All deadlocks; in the optimistic meaning by way of what can matter for them.
    fn last_states(&self, budget: &mut usize) -> terminal::Deadlocks {
        if self.options.meaning == Meaning::Faithful {
            return terminal::deadlocks(self.model, &self.index, budget);
        }
        let lock_sets = &self.index.lock_sets;
        let projection = Projection::of(self.model, lock_sets);
        let small = Model::new(&projection.trace, Meaning::Optimistic);
        let mut found = terminal::deadlocks(&small, &Index::of(&small), budget);
        for witness in found.stuck.values_mut() {
            *witness = projection.restore(self.model, lock_sets, witness);
        }
        found
    }

    /// The shortest beginning of the schedule after which the bug is there.
    fn shortened(&self, mut witness: Witness) -> Witness {
        let whole = witness.schedule.clone();
        let (mut shows_not, mut shows) = (0, whole.len());
        // What is stuck stays stuck, so the answer changes once.
        while shows_not < shows {
            let middle = (shows_not + shows) / 2;
            witness.schedule = whole[..middle].to_vec();
            if self.checker.check(&witness).is_ok() {
                shows = middle;
            } else {
                shows_not = middle + 1;
            }
        }
        witness.schedule = whole[..shows].to_vec();
        witness
    }
}

/// Whether there can be a deadlock that is no cycle of locks: something else than locks is waited
/// for, and a join only counts when a lock is held meanwhile; or a thread may end with a lock.
fn can_be_stuck(model: &Model, index: &Index) -> bool {
    let sets = &index.lock_sets;
    model
        .trace
        .events
        .iter()
        .enumerate()
        .any(|(i, event)| match event.op {
            Op::SemWait(_) | Op::BarrierExit(_) | Op::Wait(_) | Op::OncePass(_) => true,
            Op::Join(_) | Op::End => !sets.set(sets.before(EventIndex::from_index(i))).is_empty(),
            _ => false,
        })
}

/// The later accesses of those pairs that the checker accepts, as far as checking them takes no
/// more than `MOST_CHECKED` steps; beyond that, one witness for every pair of places is checked.
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

/// The two sides of a race, the smaller first.
pub fn sides(model: &Model, first: EventIndex, second: EventIndex) -> (Side, Side) {
    let side = |event: EventIndex| {
        let touch = norns_model::location::Touch::of(model.op(event))
            .expect("the events of a race are accesses");
        Side {
            place: model.trace.events[event.index()].place,
            writes: touch.writes,
            atomic: touch.kind == norns_model::location::TouchKind::Atomic,
            frees: touch.kind == norns_model::location::TouchKind::Free,
        }
    };
    let (one, other) = (side(first), side(second));
    (one.min(other), one.max(other))
}

/// Of several witnesses with the same threads' places only the first.
fn one_for_places(model: &Model, witnesses: impl Iterator<Item = Witness>) -> Vec<Witness> {
    let mut by_places: FxHashMap<Vec<u32>, Witness> = FxHashMap::default();
    for witness in witnesses {
        let (Bug::LockDeadlock { blocked } | Bug::Stuck { blocked }) = &witness.bug else {
            continue;
        };
        let mut places: Vec<u32> = blocked
            .iter()
            .map(|event| model.trace.events[event.index()].place.0)
            .collect();
        places.sort_unstable();
        by_places.entry(places).or_insert(witness);
    }
    let mut witnesses: Vec<(Vec<u32>, Witness)> = by_places.into_iter().collect();
    witnesses.sort_by(|a, b| a.0.cmp(&b.0));
    witnesses.into_iter().map(|(_, witness)| witness).collect()
}
