//! The way to a state that was found. No parents are stored: the states of the levels before
//! are scanned for one that leads there.

use crate::engine::network::{Rule, SPEC_FIELD, TERMINATED, Which};
use crate::engine::search::{Found, Kind, Search};
use crate::event::EventId;

impl Search<'_> {
    /// The states on a shortest way to `state` of level `level`, the initial one first.
    pub fn path(&self, level: usize, state: &[u64]) -> Vec<Vec<u64>> {
        let mut path = vec![state.to_vec()];
        let mut level = level;
        let mut next = vec![0; self.network.layout.words];
        while level > 0 {
            let state = path.last().expect("it begins with one").clone();
            let opens = self.levels[level].1;
            // The previous layer begins at the last opening before this one.
            let first = if opens {
                (0..level)
                    .rev()
                    .find(|&l| self.levels[l].1)
                    .expect("level 0 opens a layer")
            } else {
                level - 1
            };
            let which = if self.inner == Which::All {
                Which::All
            } else if opens {
                Which::NotTau
            } else {
                Which::Tau
            };
            let mut before: Option<(usize, Vec<u64>)> = None;
            for candidate in first..level {
                for (shard, store) in self.store.shards.iter().enumerate() {
                    let range =
                        self.levels[candidate].0[shard]..self.levels[candidate + 1].0[shard];
                    store.each(range, |from| {
                        if before.as_ref().is_some_and(|(_, best)| &best[..] <= from) {
                            return;
                        }
                        let mut leads = false;
                        self.network.enabled_rules(from, which, |_, rule| {
                            if rule.next != TERMINATED {
                                self.network.fire(from, rule, &mut next, &mut |to| {
                                    if opens && let Some(to_node) = self.after(from, rule.event) {
                                        self.network.layout.set(to, SPEC_FIELD, to_node);
                                    }
                                    leads |= *to == state[..];
                                });
                            }
                            !leads
                        });
                        if leads {
                            before = Some((candidate, from.to_vec()));
                        }
                    });
                }
                if before.is_some() {
                    break;
                }
            }
            let (at, from) = before.expect("a stored state was reached from the level before");
            level = at;
            path.push(from);
        }
        path.reverse();
        path
    }

    /// The rule that leads from one state of a path to the next; the first in order.
    pub fn rule_between(&self, from: &[u64], to: &[u64]) -> &Rule {
        let format = self.network.format(from);
        let mut next = vec![0; from.len()];
        let mut chosen = None;
        self.network.enabled_rules(from, Which::All, |at, rule| {
            if rule.next != TERMINATED {
                self.network.fire(from, rule, &mut next, &mut |state| {
                    let node = self.network.layout.get(to, SPEC_FIELD);
                    self.network.layout.set(state, SPEC_FIELD, node);
                    let allowed = rule.event == EventId::TAU
                        || self.goal.spec.is_none()
                        || self.after(from, rule.event) == Some(node);
                    if *state == *to && allowed && chosen.is_none() {
                        chosen = Some(at);
                    }
                });
            }
            chosen.is_none()
        });
        &format.rules[chosen.expect("consecutive states of a path are joined by a rule")]
    }

    /// Of all states, the nearest one whose node of the specification is largest.
    pub fn furthest(&self) -> Found {
        let layout = &self.network.layout;
        let mut best: Option<(u64, usize, Vec<u64>)> = None;
        for level in 0..self.levels.len() - 1 {
            for (shard, store) in self.store.shards.iter().enumerate() {
                let range = self.levels[level].0[shard]..self.levels[level + 1].0[shard];
                store.each(range, |state| {
                    let node = layout.get(state, SPEC_FIELD);
                    let better = best.as_ref().is_none_or(|(n, l, s)| {
                        node > *n || node == *n && level == *l && state < &s[..]
                    });
                    if better {
                        best = Some((node, level, state.to_vec()));
                    }
                });
            }
        }
        let (_, level, state) = best.expect("the initial state is there");
        Found {
            kind: Kind::Reached,
            level,
            state,
            event: None,
            way: Vec::new(),
        }
    }
}
