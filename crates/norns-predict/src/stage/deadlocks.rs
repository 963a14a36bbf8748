//! The stages for deadlocks: cycles of locks, then waits that nothing ends.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::{Bug, Meaning, Model, NotAnalysed, Witness};
use norns_trace::effect::OnThread;
use norns_trace::{Effect, EventIndex};
use rustc_hash::FxHashMap;

use super::{Counts, Decision, Detail, Engine, Predictor, UNITS_TO_CHECK};
use crate::candidate::lock_cycles;
use crate::exact::index::Index;
use crate::exact::projection::Projection;
use crate::exact::search::UNITS_PER_STEP;
use crate::exact::terminal;
use crate::linear::Options as LinearOptions;

/// In traces of at most this many events every cycle of acquisitions is decided, in longer ones one
/// for each pattern.
const FEW_EVENTS: usize = 2_000;
/// How many steps the search for cycles of locks may take.
const CYCLE_STEPS: usize = 20_000_000;
/// All instances of open patterns are decided if there are on average at most this many of each.
const FEW_INSTANCES: usize = 64;

impl Predictor<'_> {
    pub(super) fn deadlocks(&mut self) {
        let mut counts = Counts::default();
        let mut cycles: BTreeMap<Vec<EventIndex>, Witness> = BTreeMap::new();
        if self.model.trace.events.len() > FEW_EVENTS {
            if self.options.detail > Detail::Places {
                let reason = NotAnalysed::RepeatedDeadlocks;
                self.found.not_analysed.push(reason);
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

    /// Decides every cycle of acquisitions.
    fn all_lock_deadlocks(
        &mut self,
        counts: &mut Counts,
        cycles: &mut BTreeMap<Vec<EventIndex>, Witness>,
    ) {
        let steps = CYCLE_STEPS.min(self.work.left() as usize / 10);
        let candidates = lock_cycles(self.model, &self.index, &mut counts.filtered, steps);
        if !candidates.is_complete {
            self.found.not_analysed.push(NotAnalysed::LockCycles);
        }
        self.decide_cycles(counts, candidates.items, cycles);
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
                    let kept = self.kept(counts, witness);
                    cycles.extend(kept.map(|witness| (sorted, witness)));
                }
                Decision::Impossible => {}
                Decision::Open => self.found.undecided.push(cycle),
            }
        }
    }

    /// Decides one cycle for each pattern of threads, locks and places.
    fn deadlocks_of_places(
        &mut self,
        counts: &mut Counts,
        cycles: &mut BTreeMap<Vec<EventIndex>, Witness>,
    ) {
        let Some(linear) = &self.linear else {
            return self.all_lock_deadlocks(counts, cycles);
        };
        let report = self
            .work
            .stage(1, 3, || linear.lock_deadlocks(&LinearOptions::default()));
        let reserve = self.work.left() / 2;
        for deadlock in &report.deadlocks {
            counts.candidates += 1;
            if self.work.left() <= reserve {
                counts.unlisted += 1;
                continue;
            }
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
                let kept = self.kept(counts, witness);
                cycles.extend(kept.map(|witness| (sorted, witness)));
            }
        }
        if report.cut || report.not_looked_at > 0 {
            self.found.not_analysed.push(NotAnalysed::LockCycles);
        }
        // An open pattern is decided by one instance, or by all of them if they are few.
        if !report.open.is_empty() {
            let candidates = lock_cycles(
                self.model,
                &self.index,
                &mut counts.filtered,
                (CYCLE_STEPS / 10).min(self.work.left() as usize / 10),
            );
            let few = candidates.items.len() <= FEW_INSTANCES * report.open.len();
            let candidates = if candidates.is_complete && few {
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
                let all = candidates.items.into_iter();
                all.filter(|cycle| open.contains(&places(cycle))).collect()
            } else {
                report.open
            };
            self.decide_cycles(counts, candidates, cycles);
        }
    }

    /// Finds waits that nothing ends.
    fn stuck(&mut self, counts: &mut Counts) {
        let steps = self.options.budget.saturating_mul(5) as u64;
        let most = UNITS_PER_STEP.saturating_mul(steps);
        let result = self.work.within(most, || self.last_states());
        let mut is_complete = result.complete;
        let mut accepted = Vec::new();
        for witness in result.stuck.into_values() {
            if self.work.is_spent() {
                is_complete = false;
                break;
            }
            counts.candidates += 1;
            let witness = self.shortened(witness);
            if self.accepts(counts, &witness) {
                counts.exact += 1;
                accepted.extend(self.kept(counts, witness));
            }
        }
        if !is_complete {
            self.found.not_analysed.push(NotAnalysed::EndlessWaits);
        }
        let sets = accepted.iter().map(|witness| match &witness.bug {
            Bug::Stuck { blocked } => blocked.clone(),
            Bug::Race { .. }
            | Bug::LockDeadlock { .. }
            | Bug::Order { .. }
            | Bug::Atomicity { .. } => {
                unreachable!("only waits are here")
            }
        });
        self.found.stuck_sets = sets.collect();
        self.found.stuck = one_for_places(self.model, accepted.into_iter());
    }

    /// All deadlocks. In the optimistic meaning they are searched in the part of the trace that can
    /// matter for them.
    fn last_states(&self) -> terminal::Deadlocks {
        let work = &self.work;
        if self.options.meaning == Meaning::Faithful {
            return terminal::deadlocks(self.model, &self.index, work);
        }
        let lock_sets = &self.index.lock_sets;
        let projection = Projection::of(self.model, lock_sets);
        let small = Model::new(&projection.trace, Meaning::Optimistic);
        let mut found = terminal::deadlocks(&small, &Index::of(&small), work);
        for witness in found.stuck.values_mut() {
            *witness = projection.restore(self.model, lock_sets, witness);
        }
        found
    }

    /// The witness with the shortest prefix of its schedule after which the bug shows, or a longer one
    /// when the budget ends before that is found.
    fn shortened(&self, mut witness: Witness) -> Witness {
        let whole = witness.schedule.clone();
        // Threads that are stuck stay so, so binary search finds the prefix.
        let (mut least, mut shows) = (0, whole.len());
        while least < shows {
            let middle = (least + shows) / 2;
            if !self.work.spend((UNITS_TO_CHECK * middle) as u64) {
                break;
            }
            witness.schedule = whole[..middle].to_vec();
            if self.checker.check(&witness).is_ok() {
                shows = middle;
            } else {
                least = middle + 1;
            }
        }
        witness.schedule = whole[..shows].to_vec();
        witness
    }
}

/// Whether there can be a deadlock that is not a cycle of locks: some operation other than a lock can
/// block (a join counts only if its thread holds a lock), or a thread may end while it holds a lock.
fn can_be_stuck(model: &Model, index: &Index) -> bool {
    let sets = &index.lock_sets;
    model.trace.events.iter().enumerate().any(|(i, event)| {
        if let Effect::Thread(act) = event.op.effect() {
            let held = sets.set(sets.before(EventIndex::from_index(i)));
            matches!(act, OnThread::Join(_) | OnThread::End) && !held.is_empty()
        } else {
            event.op.effect().can_block() && event.op.acquires().is_none()
        }
    })
}

/// Only the first of the witnesses whose blocked events have the same places.
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
