//! Refutation by values: the stage after an optimistic prediction for a trace that has values.
//!
//! In the optimistic meaning a reordering may change what a read sees. Here the ordering solver
//! decides every race and every deadlock of the optimistic prediction again, under the rule that each
//! read that takes place sees the value that it saw (Said et al. 2011). A witness of the solver
//! replaces the optimistic one, because it is feasible. If the solver proves that no pair of events at
//! these places, or no cycle, has such a schedule, the prediction is refuted and needs no replay.
//!
//! A pair that nothing orders in the recorded run is not refuted. Two accesses can be a race of the
//! memory model although values always keep other steps between them (for example, a flag with relaxed
//! memory order), and a detector shows it in the recorded order.
//!
//! Refuted means: impossible with the events of this run. A schedule in which a read sees another value
//! may take another path through the program, of which this run says nothing. Of waits that nothing
//! ends, only those that were found are refuted; the search for them may be incomplete, and says so.

use std::collections::{BTreeMap, BTreeSet};

use norns_budget::Budget;
use norns_model::{Bug, Meaning, Model, NotAnalysed, Witness};
use norns_trace::{EventIndex, Trace};

use crate::candidate::{Accesses, Filtered, Listing, Side, is_ruled_out, lock_cycles, sides};
use crate::exact::index::Index;
use crate::happens_before::unordered_pairs;
use crate::order::{Engine as Solver, Outcome, too_long};
use crate::stage::{Detail, Options, Prediction};

/// About how many pairs of events, or cycles, of the same places the solver is asked.
const TRIES: usize = 64;
/// In a trace with more pairs than this it is asked only about the predicted one.
const MOST_PAIRS: usize = 2_000_000;
/// How many steps the search for other cycles of locks may take.
const CYCLE_STEPS: usize = 1_000_000;

/// The result for the places of one prediction.
enum Sifted {
    Feasible(Witness),
    Refuted,
    Open,
}

/// Refutes what values forbid in an optimistic prediction for this trace.
pub fn sift(trace: &Trace, options: &Options, found: &mut Prediction, work: &Budget) {
    if found.races.is_empty() && found.deadlocks.is_empty() && found.stuck.is_empty() {
        return;
    }
    if too_long(trace) {
        found.not_analysed.push(NotAnalysed::Values {
            events: trace.events.len(),
            threads: trace.threads.len(),
        });
        return;
    }
    let model = Model::new(trace, Meaning::Optimistic);
    let index = Index::of(&model);
    let solver = Solver::within(trace, Meaning::SameValues, work.clone());
    if solver.mismatches() > 0 {
        found.not_analysed.push(NotAnalysed::UnexplainedReads {
            reads: solver.mismatches(),
        });
    }
    let mut sieve = Sieve {
        trace,
        model: &model,
        index: &index,
        options,
        solver,
        work: work.clone(),
    };
    work.stage(1, 2, || sieve.races(found));
    work.stage(1, 2, || sieve.deadlocks(found));
    work.stage(1, 2, || sieve.stuck(found));
    if options.detail > Detail::Places {
        sieve.pairs(found);
    }
}

struct Sieve<'a> {
    trace: &'a Trace,
    model: &'a Model<'a>,
    index: &'a Index,
    options: &'a Options,
    solver: Solver<'a>,
    work: Budget,
}

impl Sieve<'_> {
    fn races(&mut self, found: &mut Prediction) {
        let model = self.model;
        let mut others = OtherPairs::default();
        let mut refuted = Vec::new();
        let races = std::mem::take(&mut found.races);
        let mut left = races.len();
        for witness in races {
            let Bug::Race { first, second } = witness.bug else {
                continue;
            };
            let (index, sides) = (self.index, sides(model, first, second));
            let sifted = self.one_of(left, |sieve| {
                let outcome = match sieve.solver.find(witness.bug.clone()) {
                    Outcome::Witness(feasible) => return Sifted::Feasible(feasible),
                    outcome => outcome,
                };
                let pairs = others.of(model, index, sides);
                let rest = pairs.items.iter().filter(|&&pair| pair != (first, second));
                let bugs = rest.map(|&(first, second)| Bug::Race { first, second });
                let all = outcome == Outcome::Impossible && pairs.is_complete;
                sieve.first_feasible(bugs, all)
            });
            left -= 1;
            if let Sifted::Refuted = sifted {
                let mut pairs = others.of(model, index, sides).items;
                pairs.push((first, second));
                refuted.push((witness, pairs));
            } else {
                self.keep(witness, sifted, found, Kind::Race);
            }
        }
        let pairs = refuted.iter().flat_map(|(_, pairs)| pairs).copied();
        let unordered = unordered_pairs(model, &pairs.collect());
        for (witness, pairs) in refuted {
            let sifted = if pairs.iter().any(|pair| unordered.contains(pair)) {
                Sifted::Open
            } else {
                Sifted::Refuted
            };
            self.keep(witness, sifted, found, Kind::Race);
        }
        found.races.sort_by_cached_key(|witness| match witness.bug {
            Bug::Race { first, second } => sides(model, first, second),
            Bug::LockDeadlock { .. }
            | Bug::Stuck { .. }
            | Bug::Order { .. }
            | Bug::Atomicity { .. } => {
                unreachable!("only races are here")
            }
        });
    }

    /// Drops pairs of events that values forbid, and events that race in no other pair.
    fn pairs(&mut self, found: &mut Prediction) {
        let pairs = std::mem::take(&mut found.racy_pairs);
        let mut undecided = 0;
        let mut left = pairs.len();
        let mut refuted = BTreeSet::new();
        for &(first, second) in &pairs {
            let bug = Bug::Race { first, second };
            match self.one_of(left, |sieve| sieve.solver.find(bug)) {
                Outcome::Witness(_) => {}
                Outcome::Impossible => {
                    refuted.insert((first, second));
                }
                Outcome::Undecided => undecided += 1,
            }
            left -= 1;
        }
        let unordered = unordered_pairs(self.model, &refuted.iter().copied().collect());
        let remain = pairs.into_iter();
        found.racy_pairs = remain
            .filter(|pair| !refuted.contains(pair) || unordered.contains(pair))
            .collect();
        if !found.racy_pairs.is_empty() || !refuted.is_empty() {
            found.racy_events = found.racy_pairs.iter().map(|pair| pair.1).collect();
        }
        if undecided > 0 {
            found
                .not_analysed
                .push(NotAnalysed::PairsWithValues { undecided });
        }
        if self.options.detail < Detail::Pairs {
            found.racy_pairs.clear();
        }
    }

    /// Does something for one of `left` questions that share the rest of the work. It may take twice
    /// its share, and hands back what it does not need.
    fn one_of<T>(&mut self, left: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let work = self.work.clone();
        work.share(left.min(2) as u64, left as u64, || act(self))
    }

    fn deadlocks(&mut self, found: &mut Prediction) {
        let mut cycles: Option<Listing<Vec<EventIndex>>> = None;
        let deadlocks = std::mem::take(&mut found.deadlocks);
        let mut left = deadlocks.len();
        for witness in deadlocks {
            let Bug::LockDeadlock { blocked } = &witness.bug else {
                continue;
            };
            let sifted = self.one_of(left, |sieve| {
                let outcome = match sieve.solver.find(witness.bug.clone()) {
                    Outcome::Witness(feasible) => return Sifted::Feasible(feasible),
                    outcome => outcome,
                };
                let cycles = cycles.get_or_insert_with(|| {
                    let mut filtered = Filtered::default();
                    lock_cycles(sieve.model, sieve.index, &mut filtered, CYCLE_STEPS)
                });
                let same = of_same_places(sieve.trace, &cycles.items, blocked);
                let all = outcome == Outcome::Impossible && cycles.is_complete && same.is_complete;
                let same = same.items.into_iter();
                sieve.first_feasible(same.map(|blocked| Bug::LockDeadlock { blocked }), all)
            });
            left -= 1;
            self.keep(witness, sifted, found, Kind::Deadlock);
        }
    }

    fn stuck(&mut self, found: &mut Prediction) {
        let sets = std::mem::take(&mut found.stuck_sets);
        let stuck = std::mem::take(&mut found.stuck);
        let mut left = stuck.len();
        for witness in stuck {
            let Bug::Stuck { blocked } = &witness.bug else {
                continue;
            };
            let sifted = self.one_of(left, |sieve| {
                let outcome = match sieve.solver.find(witness.bug.clone()) {
                    Outcome::Witness(feasible) => return Sifted::Feasible(feasible),
                    outcome => outcome,
                };
                let same = of_same_places(sieve.trace, &sets, blocked);
                let all = outcome == Outcome::Impossible && same.is_complete;
                let same = same.items.into_iter();
                sieve.first_feasible(same.map(|blocked| Bug::Stuck { blocked }), all)
            });
            left -= 1;
            self.keep(witness, sifted, found, Kind::Wait);
        }
    }

    /// Asks about the other candidates of the same places, until one is feasible. `all` says that the
    /// prediction is refuted if all of these are impossible.
    fn first_feasible(&mut self, bugs: impl Iterator<Item = Bug>, mut all: bool) -> Sifted {
        for bug in bugs {
            match self.solver.find(bug) {
                Outcome::Witness(witness) => return Sifted::Feasible(witness),
                Outcome::Impossible => {}
                Outcome::Undecided => all = false,
            }
        }
        if all { Sifted::Refuted } else { Sifted::Open }
    }

    /// Adds the result for one prediction.
    fn keep(&self, optimistic: Witness, sifted: Sifted, found: &mut Prediction, kind: Kind) {
        let (kept, counts) = match kind {
            Kind::Race => (&mut found.races, &mut found.race_counts),
            Kind::Deadlock => (&mut found.deadlocks, &mut found.deadlock_counts),
            Kind::Wait => (&mut found.stuck, &mut found.deadlock_counts),
        };
        match sifted {
            Sifted::Feasible(mut witness) => {
                counts.order += 1;
                let length = witness.schedule.len();
                let over = length.saturating_sub(self.options.longest_kept);
                witness.schedule.drain(..over);
                kept.push(witness);
            }
            Sifted::Refuted => {
                counts.refuted += 1;
                found.refuted.push(optimistic);
            }
            // A replay may still show it.
            Sifted::Open => {
                counts.unsifted += 1;
                kept.push(optimistic);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Race,
    Deadlock,
    Wait,
}

/// Other sets of blocked events at the same places.
fn of_same_places(
    trace: &Trace,
    sets: &[Vec<EventIndex>],
    blocked: &[EventIndex],
) -> Listing<Vec<EventIndex>> {
    let wanted = places(trace, blocked);
    let others = sets.iter().filter(|set| *set != blocked);
    let same = others.filter(|set| places(trace, set) == wanted);
    let mut items: Vec<Vec<EventIndex>> = same.take(TRIES + 1).cloned().collect();
    let is_complete = items.len() <= TRIES;
    items.truncate(TRIES);
    Listing { items, is_complete }
}

/// The places of these events, sorted.
fn places(trace: &Trace, events: &[EventIndex]) -> Vec<u32> {
    let place = |event: &EventIndex| trace.events[event.index()].place.0;
    let mut places: Vec<u32> = events.iter().map(place).collect();
    places.sort_unstable();
    places
}

type Pairs = Listing<(EventIndex, EventIndex)>;
type BySides = BTreeMap<(Side, Side), Pairs>;

/// The pairs of events of every pair of places, collected when they are first asked for.
#[derive(Default)]
struct OtherPairs {
    collected: Option<Collected>,
}

enum Collected {
    TooMany,
    BySides(BySides),
}

impl OtherPairs {
    /// Pairs of these places that no filter rules out.
    fn of(&mut self, model: &Model, index: &Index, wanted: (Side, Side)) -> Pairs {
        let collected = self.collected.get_or_insert_with(|| collect(model, index));
        let (by_sides, is_complete) = match collected {
            Collected::TooMany => (None, false),
            Collected::BySides(by_sides) => (by_sides.get(&wanted), true),
        };
        by_sides.cloned().unwrap_or(Listing {
            items: Vec::new(),
            is_complete,
        })
    }
}

fn collect(model: &Model, index: &Index) -> Collected {
    let accesses = Accesses::of(model, &[]);
    if accesses.most_pairs() > MOST_PAIRS {
        return Collected::TooMany;
    }
    let mut by_sides = BySides::new();
    let mut filtered = Filtered::default();
    accesses.for_pairs(model, |first, second| {
        if is_ruled_out(model, index, &mut filtered, first, second) {
            return;
        }
        let of_sides = by_sides.entry(sides(model, first, second));
        let pairs = of_sides.or_insert(Listing {
            items: Vec::new(),
            is_complete: true,
        });
        if pairs.items.len() < TRIES {
            pairs.items.push((first, second));
        } else {
            pairs.is_complete = false;
        }
    });
    Collected::BySides(by_sides)
}
