//! Everything that a simulated program can do, by trying all schedules.

use std::collections::BTreeSet;

use norns_model::{Bug, Meaning, Model};
use norns_trace::{EventIndex, Trace};

use crate::program::{World, seen_in_recording};

#[derive(Default)]
pub struct Truth {
    races: BTreeSet<(EventIndex, EventIndex)>,
    cycles: BTreeSet<Vec<EventIndex>>,
    /// What is blocked at the end, in every end that no thread can leave.
    ends: BTreeSet<BTreeSet<EventIndex>>,
}

impl Truth {
    /// `None` when there are more states than `limit`.
    pub fn of(trace: &Trace, deciding: &BTreeSet<EventIndex>, limit: usize) -> Option<Truth> {
        let model = Model::new(trace, Meaning::Optimistic);
        let recorded = seen_in_recording(trace, deciding);
        let mut truth = Truth::default();
        let mut seen = BTreeSet::new();
        let mut ahead = vec![World::new(&model, &recorded)];
        while let Some(world) = ahead.pop() {
            let key = (world.state.key(), world.left.clone(), world.memory.clone());
            if !seen.insert(key) {
                continue;
            }
            if seen.len() > limit {
                return None;
            }
            let stays = |event: &EventIndex| world.next(model.thread_of(*event)) == Some(*event);
            let races = model.races_at(&world.state).into_iter();
            let races = races.filter(|(first, second)| stays(first) && stays(second));
            truth.races.extend(races);
            let cycles = model.lock_cycles_at(&world.state).into_iter();
            truth
                .cycles
                .extend(cycles.filter(|cycle| cycle.iter().all(stays)));
            let steps = world.all_steps();
            if steps.is_empty() {
                truth.ends.insert(world.blocked());
            }
            for step in steps {
                let mut next = world.clone();
                next.take(step);
                next.state.forget_trail();
                ahead.push(next);
            }
        }
        Some(truth)
    }

    pub fn allows(&self, bug: &Bug) -> bool {
        match bug {
            Bug::Race { first, second } => self.races.contains(&(*first, *second)),
            Bug::LockDeadlock { blocked } => self.cycles.contains(blocked),
            Bug::Stuck { blocked } => self
                .ends
                .iter()
                .any(|end| blocked.iter().all(|event| end.contains(event))),
            Bug::Order { .. } | Bug::Atomicity { .. } => false,
        }
    }
}
