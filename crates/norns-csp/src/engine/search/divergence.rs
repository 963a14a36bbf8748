//! Divergence: a cycle of taus. It lies within one layer, so each layer is looked at when it is
//! closed.

use crate::engine::network::{SPEC_FIELD, Which};
use crate::engine::search::{Found, Kind, Search};
use crate::engine::store::StateId;

impl Search<'_> {
    fn taus(&self, state: &[u64]) -> Vec<Vec<u64>> {
        let mut next = vec![0; state.len()];
        let mut all = Vec::new();
        self.network.enabled_rules(state, Which::Tau, |_, rule| {
            self.network
                .fire(state, rule, &mut next, &mut |s| all.push(s.to_vec()));
            true
        });
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The smallest state at the entrance of a closed layer from which taus never end.
    pub(super) fn divergence(&self, layer: usize) -> Option<Found> {
        let start = &self.levels[layer].0;
        let mut seen = Colours {
            start: start.clone(),
            done: (0..start.len())
                .map(|s| vec![0; self.store.shards[s].len() - start[s] as usize])
                .collect(),
        };
        let end = self
            .levels
            .get(layer + 1)
            .map_or_else(|| self.store.mark(), |l| l.0.clone());
        let entrance = || {
            (0..start.len()).flat_map(|s| {
                (start[s]..end[s]).map(move |index| StateId {
                    shard: s as u32,
                    index,
                })
            })
        };
        if !entrance().any(|root| self.lasso(root, &mut seen).is_some()) {
            return None;
        }
        let mut roots: Vec<StateId> = entrance().collect();
        roots.sort_unstable_by(|&a, &b| self.store.state(a).cmp(&self.store.state(b)));
        for colours in &mut seen.done {
            colours.fill(0);
        }
        for root in roots {
            if self.lasso(root, &mut seen).is_some() {
                let state = self.store.state(root).to_vec();
                return Some(Found {
                    kind: Kind::Divergence,
                    level: layer,
                    state,
                    event: None,
                    way: Vec::new(),
                });
            }
        }
        unreachable!("the cycle that was found hangs on some entrance")
    }

    /// A path of taus from `root` that ends where it was before, if there is one: the states,
    /// and how many of them are before the loop. Depth-first, smaller states first.
    fn lasso(&self, root: StateId, seen: &mut Colours) -> Option<(Vec<StateId>, usize)> {
        const OPEN: u8 = 1;
        const CLOSED: u8 = 2;
        if seen.get(root) != 0 {
            return None;
        }
        if self.goal.prune_divergent
            && let Some(spec) = self.goal.spec
            && spec.divergent[self.network.layout.get(&self.store.state(root), SPEC_FIELD) as usize]
        {
            return None;
        }
        let successors = |id: StateId| -> Vec<StateId> {
            // The search did not follow a state of which not everything is known.
            if self.network.at_cut(&self.store.state(id)) {
                return Vec::new();
            }
            let all = self.taus(&self.store.state(id));
            let known = all
                .iter()
                .rev()
                .map(|s| self.store.find(s).expect("a layer is closed"));
            known.collect()
        };
        seen.set(root, OPEN);
        let mut stack = vec![(root, successors(root))];
        while let Some((state, todo)) = stack.last_mut() {
            let Some(next) = todo.pop() else {
                seen.set(*state, CLOSED);
                stack.pop();
                continue;
            };
            // A state of an earlier layer is not divergent, or the search had ended there.
            match if seen.covers(next) {
                seen.get(next)
            } else {
                CLOSED
            } {
                CLOSED => {}
                OPEN => {
                    let path: Vec<StateId> = stack.iter().map(|entry| entry.0).collect();
                    let enters = path
                        .iter()
                        .position(|&s| s == next)
                        .expect("open: on the path");
                    return Some((path, enters));
                }
                _ => {
                    seen.set(next, OPEN);
                    let todo = successors(next);
                    stack.push((next, todo));
                }
            }
        }
        None
    }

    /// The states of a divergence: the way from `state` into the loop, and the loop.
    pub fn divergent_path(&self, found: &Found) -> (Vec<Vec<u64>>, Vec<Vec<u64>>) {
        let start = self.levels[found.level].0.clone();
        let done = (0..start.len())
            .map(|s| vec![0; self.store.shards[s].len() - start[s] as usize])
            .collect();
        let root = self
            .store
            .find(&found.state)
            .expect("a found state is stored");
        let (path, enters) = self
            .lasso(root, &mut Colours { start, done })
            .expect("it was found divergent");
        let mut states: Vec<Vec<u64>> = path
            .iter()
            .map(|&id| self.store.state(id).to_vec())
            .collect();
        let mut repeats = states.split_off(enters);
        states.push(repeats[0].clone());
        repeats.push(repeats[0].clone());
        (states, repeats)
    }
}

/// Marks for the states of one layer.
struct Colours {
    start: Vec<u32>,
    done: Vec<Vec<u8>>,
}

impl Colours {
    fn covers(&self, id: StateId) -> bool {
        id.index >= self.start[id.shard as usize]
    }

    fn get(&self, id: StateId) -> u8 {
        let shard = id.shard as usize;
        self.done[shard][(id.index - self.start[shard]) as usize]
    }

    fn set(&mut self, id: StateId, colour: u8) {
        let shard = id.shard as usize;
        self.done[shard][(id.index - self.start[shard]) as usize] = colour;
    }
}
