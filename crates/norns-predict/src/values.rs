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

use std::collections::BTreeMap;

use norns_model::{Bug, Meaning, Model, NotAnalysed, Witness};
use norns_trace::{EventIndex, Trace};

use crate::candidate::{Accesses, Filtered, Listing, Side, is_ruled_out, lock_cycles, sides};
use crate::exact::index::Index;
use crate::happens_before::unordered_pairs;
use crate::order::{Engine as Solver, Outcome, too_long};
use crate::stage::{Options, Prediction};

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
pub fn sift(trace: &Trace, options: &Options, found: &mut Prediction) {
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
    let solver = Solver::new(trace, Meaning::SameValues);
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
    };
    sieve.races(found);
    sieve.deadlocks(found);
    sieve.stuck(found);
}

struct Sieve<'a> {
    trace: &'a Trace,
    model: &'a Model<'a>,
    index: &'a Index,
    options: &'a Options,
    solver: Solver<'a>,
}

impl Sieve<'_> {
    fn races(&mut self, found: &mut Prediction) {
        let model = self.model;
        let mut others = OtherPairs::default();
        let mut refuted = Vec::new();
        for witness in std::mem::take(&mut found.races) {
            let Bug::Race { first, second } = witness.bug else {
                continue;
            };
            let (index, sides) = (self.index, sides(model, first, second));
            let sifted = match self.solver.find(witness.bug.clone()) {
                Outcome::Witness(feasible) => Sifted::Feasible(feasible),
                outcome => {
                    let pairs = others.of(model, index, sides);
                    let rest = pairs.items.iter().filter(|&&pair| pair != (first, second));
                    let bugs = rest.map(|&(first, second)| Bug::Race { first, second });
                    let all = outcome == Outcome::Impossible && pairs.is_complete;
                    self.first_feasible(bugs, all)
                }
            };
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
            Bug::LockDeadlock { .. } | Bug::Stuck { .. } => unreachable!("only races are here"),
        });
    }

    fn deadlocks(&mut self, found: &mut Prediction) {
        let mut cycles: Option<Listing<Vec<EventIndex>>> = None;
        for witness in std::mem::take(&mut found.deadlocks) {
            let Bug::LockDeadlock { blocked } = &witness.bug else {
                continue;
            };
            let sifted = match self.solver.find(witness.bug.clone()) {
                Outcome::Witness(feasible) => Sifted::Feasible(feasible),
                outcome => {
                    let cycles = cycles.get_or_insert_with(|| {
                        let mut filtered = Filtered::default();
                        lock_cycles(self.model, self.index, &mut filtered, CYCLE_STEPS)
                    });
                    let same = of_same_places(self.trace, &cycles.items, blocked);
                    let all =
                        outcome == Outcome::Impossible && cycles.is_complete && same.is_complete;
                    let same = same.items.into_iter();
                    self.first_feasible(same.map(|blocked| Bug::LockDeadlock { blocked }), all)
                }
            };
            self.keep(witness, sifted, found, Kind::Deadlock);
        }
    }

    fn stuck(&mut self, found: &mut Prediction) {
        let sets = std::mem::take(&mut found.stuck_sets);
        for witness in std::mem::take(&mut found.stuck) {
            let Bug::Stuck { blocked } = &witness.bug else {
                continue;
            };
            let sifted = match self.solver.find(witness.bug.clone()) {
                Outcome::Witness(feasible) => Sifted::Feasible(feasible),
                outcome => {
                    let same = of_same_places(self.trace, &sets, blocked);
                    let all = outcome == Outcome::Impossible && same.is_complete;
                    let same = same.items.into_iter();
                    self.first_feasible(same.map(|blocked| Bug::Stuck { blocked }), all)
                }
            };
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
