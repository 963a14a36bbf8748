//! What values forbid: the stage after an optimistic prediction of a trace that has them.
//!
//! The optimistic meaning does not know that a reordering changes what a read sees. Here every
//! race and every deadlock that it predicts is asked of the ordering solver, under the rule that
//! each read that takes place sees the value that it saw (Said et al. 2011). A witness of the
//! solver replaces the optimistic one: it is feasible. Where the solver proves that no pair of
//! events at these places, or no cycle, has such a schedule, the prediction is refuted, and needs
//! no replay.
//!
//! A pair that nothing orders in the recorded run is not refuted: two accesses can be a race of the
//! memory model although values always keep other steps between them (a flag with relaxed order),
//! and a detector shows it in the recorded order.
//!
//! Refuted means: not by the events of this run. A schedule in which a read sees something else
//! may take another way through the program, which this run says nothing about. Of waits that
//! nothing ends only those are refuted that were found: the search for them may be incomplete, and
//! says so.

use std::collections::BTreeMap;

use norns_model::{Bug, Meaning, Model, NotAnalysed, Witness};
use norns_trace::{EventIndex, Trace};

use crate::candidate::{Accesses, Filtered, is_ruled_out, lock_cycles};
use crate::exact::index::Index;
use crate::happens_before::unordered_pairs;
use crate::linear::Side;
use crate::order::{Engine as Solver, Outcome, too_long};
use crate::stage::{Options, Prediction, sides};

/// How many pairs of events, or cycles, of the same places are asked about.
const TRIES: usize = 64;
/// With more pairs than this only the predicted one is.
const MOST_PAIRS: usize = 2_000_000;
const CYCLE_STEPS: usize = 1_000_000;

/// What is known of the places of one prediction.
enum Sifted {
    Feasible(Witness),
    Refuted,
    Open,
}

/// Sorts an optimistic prediction of this trace by what values allow.
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
    let mut solver = Solver::new(trace, Meaning::SameValues);
    if solver.mismatches() > 0 {
        found.not_analysed.push(NotAnalysed::UnexplainedReads {
            reads: solver.mismatches(),
        });
    }

    let mut others = OtherPairs::default();
    let mut refuted = Vec::new();
    let races = std::mem::take(&mut found.races);
    for witness in races {
        let Bug::Race { first, second } = witness.bug else {
            continue;
        };
        let sifted = match solver.find(witness.bug.clone()) {
            Outcome::Witness(feasible) => Sifted::Feasible(feasible),
            outcome => {
                let (pairs, all) = others.of(&model, &index, sides(&model, first, second));
                let rest = pairs.iter().filter(|&&pair| pair != (first, second));
                let bugs = rest.map(|&(first, second)| Bug::Race { first, second });
                first_feasible(&mut solver, bugs, outcome == Outcome::Impossible && all)
            }
        };
        if let Sifted::Refuted = sifted {
            let (pairs, _) = others.of(&model, &index, sides(&model, first, second));
            let mut pairs = pairs.to_vec();
            pairs.push((first, second));
            refuted.push((witness, pairs));
        } else {
            keep(witness, sifted, options, found, Kind::Race);
        }
    }
    let pairs = refuted.iter().flat_map(|(_, pairs)| pairs).copied();
    let unordered = unordered_pairs(&model, &pairs.collect());
    for (witness, pairs) in refuted {
        let sifted = if pairs.iter().any(|pair| unordered.contains(pair)) {
            Sifted::Open
        } else {
            Sifted::Refuted
        };
        keep(witness, sifted, options, found, Kind::Race);
    }
    found.races.sort_by_cached_key(|witness| match witness.bug {
        Bug::Race { first, second } => sides(&model, first, second),
        _ => unreachable!("these witnesses are of races"),
    });

    let mut cycles: Option<(Vec<Vec<EventIndex>>, bool)> = None;
    let deadlocks = std::mem::take(&mut found.deadlocks);
    for witness in deadlocks {
        let Bug::LockDeadlock { blocked } = &witness.bug else {
            continue;
        };
        let sifted = match solver.find(witness.bug.clone()) {
            Outcome::Witness(feasible) => Sifted::Feasible(feasible),
            outcome => {
                let (cycles, all) = cycles.get_or_insert_with(|| {
                    lock_cycles(&model, &index, &mut Filtered::default(), CYCLE_STEPS)
                });
                let (same, all_same) = of_same_places(trace, cycles, blocked);
                let bugs = same.map(|blocked| Bug::LockDeadlock { blocked });
                let all = outcome == Outcome::Impossible && *all && all_same;
                first_feasible(&mut solver, bugs, all)
            }
        };
        keep(witness, sifted, options, found, Kind::Deadlock);
    }

    let sets = std::mem::take(&mut found.stuck_sets);
    let stuck = std::mem::take(&mut found.stuck);
    for witness in stuck {
        let Bug::Stuck { blocked } = &witness.bug else {
            continue;
        };
        let sifted = match solver.find(witness.bug.clone()) {
            Outcome::Witness(feasible) => Sifted::Feasible(feasible),
            outcome => {
                let (same, all_same) = of_same_places(trace, &sets, blocked);
                let bugs = same.map(|blocked| Bug::Stuck { blocked });
                let all = outcome == Outcome::Impossible && all_same;
                first_feasible(&mut solver, bugs, all)
            }
        };
        keep(witness, sifted, options, found, Kind::Wait);
    }
}

/// Asks about the other candidates of the same places. `all`: if none of these, then none.
fn first_feasible(solver: &mut Solver, bugs: impl Iterator<Item = Bug>, mut all: bool) -> Sifted {
    for bug in bugs {
        match solver.find(bug) {
            Outcome::Witness(witness) => return Sifted::Feasible(witness),
            Outcome::Impossible => {}
            Outcome::Undecided => all = false,
        }
    }
    if all { Sifted::Refuted } else { Sifted::Open }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Race,
    Deadlock,
    Wait,
}

fn keep(
    optimistic: Witness,
    sifted: Sifted,
    options: &Options,
    found: &mut Prediction,
    kind: Kind,
) {
    let (kept, counts) = match kind {
        Kind::Race => (&mut found.races, &mut found.race_counts),
        Kind::Deadlock => (&mut found.deadlocks, &mut found.deadlock_counts),
        Kind::Wait => (&mut found.stuck, &mut found.deadlock_counts),
    };
    match sifted {
        Sifted::Feasible(mut witness) => {
            counts.order += 1;
            let over = witness.schedule.len().saturating_sub(options.longest_kept);
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

/// Some other sets of blocked events at the same places, and whether these are all.
fn of_same_places(
    trace: &Trace,
    sets: &[Vec<EventIndex>],
    blocked: &[EventIndex],
) -> (impl Iterator<Item = Vec<EventIndex>>, bool) {
    let wanted = places(trace, blocked);
    let others = sets.iter().filter(|set| *set != blocked);
    let same = others.filter(|set| places(trace, set) == wanted);
    let mut same: Vec<Vec<EventIndex>> = same.take(TRIES + 1).cloned().collect();
    let all = same.len() <= TRIES;
    same.truncate(TRIES);
    (same.into_iter(), all)
}

fn places(trace: &Trace, events: &[EventIndex]) -> Vec<u32> {
    let place = |event: &EventIndex| trace.events[event.index()].place.0;
    let mut places: Vec<u32> = events.iter().map(place).collect();
    places.sort_unstable();
    places
}

/// Pairs of events by their places, collected when they are first asked for.
#[derive(Default)]
struct OtherPairs {
    /// `None` when there are too many pairs to look at.
    by_sides: Option<BySides>,
    looked: bool,
}

impl OtherPairs {
    /// Some pairs of these places that no filter rules out, and whether they are all.
    fn of(
        &mut self,
        model: &Model,
        index: &Index,
        wanted: (Side, Side),
    ) -> (&[(EventIndex, EventIndex)], bool) {
        if !self.looked {
            self.looked = true;
            self.by_sides = collect(model, index);
        }
        match &self.by_sides {
            None => (&[], false),
            Some(by_sides) => match by_sides.get(&wanted) {
                Some((pairs, all)) => (pairs, *all),
                None => (&[], true),
            },
        }
    }
}

/// Some pairs of events of every pair of places, and whether they are all.
type BySides = BTreeMap<(Side, Side), (Vec<(EventIndex, EventIndex)>, bool)>;

fn collect(model: &Model, index: &Index) -> Option<BySides> {
    let accesses = Accesses::of(model, &[]);
    if accesses.most_pairs() > MOST_PAIRS {
        return None;
    }
    let mut by_sides = BySides::new();
    let mut filtered = Filtered::default();
    accesses.for_pairs(model, |first, second| {
        if is_ruled_out(model, index, &mut filtered, first, second) {
            return;
        }
        let (pairs, all) = by_sides
            .entry(sides(model, first, second))
            .or_insert_with(|| (Vec::new(), true));
        if pairs.len() < TRIES {
            pairs.push((first, second));
        } else {
            *all = false;
        }
    });
    Some(by_sides)
}
