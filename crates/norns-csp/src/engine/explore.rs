//! The whole product of a network as one transition system: for specifications, compressions,
//! and the operators that look at all transitions of a state at once (priorities, `chase`,
//! `deter`).

use crate::engine::budget::{Activity, Meter};
use crate::engine::confluence::Confluence;
use crate::engine::lts::Lts;
use crate::engine::network::{Network, TERMINATED, Which};
use crate::engine::store::Store;
use crate::event::{EventId, Priority};
use crate::process::Resolution;

/// Which transitions of a state are kept.
#[derive(Clone, Copy)]
pub enum Keep<'a> {
    All,
    /// All, but a state with a confluent tau is replaced by the state behind it.
    UpTo(&'a Confluence),
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
    // What the current state can do: the event, and where in `reached` the state after it begins
    // unless it terminates.
    offered: Vec<(EventId, Option<usize>)>,
    reached: Vec<u64>,
}

impl Network {
    /// A transition system that no model tells from the product, as far as the budget goes.
    pub fn explicit(&self, meter: &Meter) -> Lts {
        match Confluence::find(self, meter) {
            Some(confluence) => self.explore(Keep::UpTo(&confluence), meter),
            None => self.explore(Keep::All, meter),
        }
    }

    /// The product, breadth-first, as far as the budget goes.
    pub fn explore(&self, keep: Keep, meter: &Meter) -> Lts {
        let mut exploration = Exploration {
            network: self,
            keep,
            seen: Store::new(self.layout.words, 1),
            terminated: None,
            offered: Vec::new(),
            reached: Vec::new(),
        };
        let mut initial = self.initial();
        self.settle(keep, &mut initial);
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
                let activity = Activity::exploring(lts.len());
                lts.spent = meter.spent(activity, lts.len() as u64, bytes);
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
        if self.at_cut(state) {
            return None;
        }
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

    /// Follows the taus that are left out of the result to a state without any, or to a cycle of
    /// them (found as Brent does: the state after a power of two of steps is kept and compared).
    fn settle(&self, keep: Keep, state: &mut [u64]) {
        let follow = |state: &[u64]| match keep {
            Keep::All | Keep::Highest(_) => None,
            Keep::UpTo(confluence) => confluence.step(self, state),
            Keep::Resolved(_) => self.first_tau(state),
        };
        let Some(mut next) = follow(state) else {
            return;
        };
        let mut kept = state.to_vec();
        let (mut steps, mut power) = (0u64, 1u64);
        loop {
            state.copy_from_slice(&next);
            if next == kept {
                return;
            }
            steps += 1;
            if steps == power {
                kept.copy_from_slice(&next);
                power *= 2;
                steps = 0;
            }
            match follow(state) {
                Some(then) => next = then,
                None => return,
            }
        }
    }
}

impl Exploration<'_> {
    /// States that have a number.
    fn count(&self) -> usize {
        self.seen.len() + usize::from(self.terminated.is_some())
    }

    /// The number of the state that begins at a place in `reached`, or of the terminated one.
    fn number(&mut self, reached: Option<usize>) -> u32 {
        let Some(at) = reached else {
            let next = self.count() as u32;
            return *self.terminated.get_or_insert(next);
        };
        let state = &mut self.reached[at..at + self.network.layout.words];
        self.network.settle(self.keep, state);
        let place = self.seen.shards[0].number(state);
        match self.terminated {
            Some(terminated) if place >= terminated => place + 1,
            _ => place,
        }
    }

    fn steps(&mut self, state: &[u64], own_number: u32) -> Vec<(EventId, u32)> {
        let network = self.network;
        let mut offered = std::mem::take(&mut self.offered);
        offered.clear();
        self.reached.clear();
        let mut next = vec![0; state.len()];
        network.enabled_rules(state, Which::All, |_, rule| {
            if rule.next == TERMINATED {
                offered.push((rule.event, None));
            } else {
                network.fire(state, rule, &mut next, &mut |to| {
                    offered.push((rule.event, Some(self.reached.len())));
                    self.reached.extend_from_slice(to);
                });
            }
            true
        });
        match self.keep {
            Keep::All | Keep::UpTo(_) => {}
            Keep::Highest(priority) => {
                let mut events: Vec<EventId> = offered.iter().map(|step| step.0).collect();
                events.sort_unstable();
                events.dedup();
                offered.retain(|step| priority.allows(step.0, &events));
            }
            Keep::Resolved(how) => {
                // A settled state with a tau lies on a cycle of taus.
                if offered.iter().any(|step| step.0 == EventId::TAU) {
                    return vec![(EventId::TAU, own_number)];
                }
                if how == Resolution::Deter {
                    offered.sort_by_key(|step| step.0);
                    offered.dedup_by_key(|step| step.0);
                }
            }
        }
        let numbered = offered
            .iter()
            .map(|&(event, to)| (event, self.number(to)))
            .collect();
        self.offered = offered;
        numbered
    }
}
