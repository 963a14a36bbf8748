//! The whole product of a network as one transition system: for specifications, compressions,
//! and the operators that look at all transitions of a state at once (priorities, `chase`,
//! `deter`).

use crate::engine::budget::{Activity, Meter};
use crate::engine::lts::Lts;
use crate::engine::network::{Network, TERMINATED, Which};
use crate::engine::store::Store;
use crate::event::{EventId, Priority};
use crate::process::Resolution;

/// Which transitions of a state are kept.
#[derive(Clone, Copy)]
pub enum Keep<'a> {
    All,
    /// Those that do not give way to another.
    Highest(&'a Priority),
    /// One tau where there are some; the taus themselves are left out of the result.
    Resolved(Resolution),
}

struct Exploration<'a> {
    network: &'a Network,
    keep: Keep<'a>,
    seen: Store,
    // The state after termination, once it exists, and where its number lies between those of
    // `seen`: numbers above it are one more than their place in `seen`.
    terminated: Option<u32>,
}

impl Network {
    /// The product, breadth-first, as far as the budget goes.
    pub fn explore(&self, keep: Keep, meter: &Meter) -> Lts {
        let mut exploration = Exploration {
            network: self,
            keep,
            seen: Store::new(self.layout.words, 1),
            terminated: None,
        };
        let initial = match keep {
            Keep::Resolved(_) => self.settle(self.initial()),
            _ => self.initial(),
        };
        exploration.seen.insert(&initial);
        let mut lts = Lts::start();
        let mut place = 0;
        let mut state = vec![0; self.layout.words];
        while lts.len() < exploration.count() {
            if exploration.terminated == Some(lts.len() as u32) {
                lts.push(Vec::new());
                continue;
            }
            if lts.spent.is_none() {
                let bytes = exploration.seen.bytes() as u64 + lts.bytes();
                lts.spent = meter.spent(Activity::Compiling, lts.len() as u64, bytes);
            }
            state.copy_from_slice(&exploration.seen.shards[0].state(place));
            place += 1;
            if lts.spent.is_some() || self.at_cut(&state) {
                lts.push_unexplored();
                continue;
            }
            let steps = exploration.steps(&state, lts.len() as u32);
            lts.push(steps);
        }
        if lts.spent.is_none() && !lts.unexplored.is_empty() {
            lts.spent = self.cut_component().map(|(_, spent)| spent.clone());
        }
        meter.keep((lts.len() - lts.unexplored.len()) as u64, 0);
        lts
    }

    /// The first tau that a state can do.
    fn first_tau(&self, state: &[u64]) -> Option<Vec<u64>> {
        let mut to = None;
        let mut next = vec![0; state.len()];
        self.enabled_rules(state, Which::Tau, |_, rule| {
            self.fire(state, rule, &mut next, &mut |s| {
                to.get_or_insert_with(|| s.to_vec());
            });
            false
        });
        to
    }

    /// Follows first taus to a state without any, or to a cycle of them (found as Brent does:
    /// the state after a power of two of steps is kept and compared).
    fn settle(&self, mut state: Vec<u64>) -> Vec<u64> {
        let mut kept = state.clone();
        let (mut steps, mut power) = (0u64, 1u64);
        while !self.at_cut(&state)
            && let Some(next) = self.first_tau(&state)
        {
            state = next;
            if state == kept {
                return state;
            }
            steps += 1;
            if steps == power {
                kept.clone_from(&state);
                power *= 2;
                steps = 0;
            }
        }
        state
    }
}

impl Exploration<'_> {
    /// States that have a number.
    fn count(&self) -> usize {
        self.seen.len() + usize::from(self.terminated.is_some())
    }

    fn number(&mut self, reached: &Option<Vec<u64>>) -> u32 {
        let Some(state) = reached else {
            let next = self.count() as u32;
            return *self.terminated.get_or_insert(next);
        };
        self.seen.insert(state);
        let place = self.seen.find(state).expect("just inserted").index;
        match self.terminated {
            Some(terminated) if place >= terminated => place + 1,
            _ => place,
        }
    }

    fn steps(&mut self, state: &[u64], own_number: u32) -> Vec<(EventId, u32)> {
        let network = self.network;
        // What the state can do: the event, and the state after it unless it terminates.
        let mut all: Vec<(EventId, Option<Vec<u64>>)> = Vec::new();
        let mut next = vec![0; state.len()];
        network.enabled_rules(state, Which::All, |_, rule| {
            if rule.next == TERMINATED {
                all.push((rule.event, None));
            } else {
                network.fire(state, rule, &mut next, &mut |to| {
                    all.push((rule.event, Some(to.to_vec())));
                });
            }
            true
        });
        match self.keep {
            Keep::All => {}
            Keep::Highest(priority) => {
                let mut offered: Vec<EventId> = all.iter().map(|step| step.0).collect();
                offered.sort_unstable();
                offered.dedup();
                all.retain(|step| priority.allows(step.0, &offered));
            }
            Keep::Resolved(how) => {
                // A settled state with a tau lies on a cycle of taus.
                if all.iter().any(|step| step.0 == EventId::TAU) {
                    return vec![(EventId::TAU, own_number)];
                }
                if how == Resolution::Deter {
                    all.sort_by_key(|step| step.0);
                    all.dedup_by_key(|step| step.0);
                }
                for (_, to) in &mut all {
                    *to = to.take().map(|to| network.settle(to));
                }
            }
        }
        all.into_iter()
            .map(|(event, to)| (event, self.number(&to)))
            .collect()
    }
}
