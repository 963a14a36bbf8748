//! Looking ahead: a violation may lie so deep that a breadth-first search sees billions of states
//! before it, and a depth-first one would walk straight to it.
//!
//! So a search that has grown large pauses now and then, and looks depth first among a limited number
//! of states, each time in another order (as in the swarm verification of Holzmann et al. 2011). What
//! this finds is a violation; what it does not find means nothing, and the search goes on. Pauses
//! and orders depend on the states alone, so that every run finds the same.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::engine::budget::{Activity, Spent};
use crate::engine::network::Which;
use crate::engine::search::{Found, Pass, Search, Watch, Worker};
use crate::engine::store::{Store, hash};

// The first look ahead comes after so many states, the next ones after four times as many each.
pub(super) const FIRST: usize = 1 << 20;
const LATER: usize = 4;

// A look ahead sees so many times fewer states than were seen so far: it may cost more while the layers
// still grow fast, since the end of the search is far away then.
const SHARE: usize = 16;
const SHARE_OF_GROWING: usize = 2;

impl Search<'_> {
    /// Looks ahead after a layer, if it is time for that. Whether something was found.
    pub(super) fn look_ahead(&mut self, watch: &mut Watch) -> Result<bool, Spent> {
        let states = self.store.len();
        let size = states - self.layer_end;
        let growing = 2 * size > 3 * self.layer_size;
        (self.layer_end, self.layer_size) = (states, size);
        if states < self.next_probe || self.wanted > 1 || self.store.is_spilled() {
            return Ok(false);
        }
        self.next_probe = states.saturating_mul(LATER);
        self.probes += 1;
        let share = if growing { SHARE_OF_GROWING } else { SHARE };
        let found = self.probe(states / share, self.probes, watch)?;
        self.found.extend(found);
        Ok(!self.found.is_empty())
    }

    fn worker(&self) -> Worker {
        Worker::new(self, 1)
    }

    /// Fills `worker.out` with the states behind a state and `worker.found` with what is wrong
    /// with it.
    fn step(&self, worker: &mut Worker, state: &[u64]) {
        worker.out.iter_mut().for_each(Vec::clear);
        worker.current.copy_from_slice(state);
        self.state(worker, 0, Pass::Within);
        if self.inner != Which::All {
            self.state(worker, 0, Pass::Onward);
        }
    }

    /// Looks for a violation depth first, among `limit` states, in an order that `seed` chooses.
    fn probe(&self, limit: usize, seed: u64, watch: &mut Watch) -> Result<Option<Found>, Spent> {
        let words = self.network.layout.words;
        let mut worker = self.worker();
        let mut seen = Store::new(words, 1);
        let mut parents: Vec<u32> = vec![0];
        seen.insert(&self.network.initial());
        let mut stack = vec![0u32];
        let mut visited = 0u64;
        while let Some(index) = stack.pop() {
            visited += 1;
            if visited.is_multiple_of(1 << 12) {
                let states = (self.store.len() + seen.len()) as u64;
                let bytes = self.store.bytes() + seen.bytes() + 4 * parents.len();
                let spent = watch.meter.spent(Activity::Searching, states, bytes as u64);
                if let Some(spent) = spent {
                    return Err(spent);
                }
            }
            let state = seen.shards[0].state(index).into_owned();
            self.step(&mut worker, &state);
            if let Some(found) = worker.found.pop() {
                let mut way = vec![state];
                let mut at = index;
                while at != 0 {
                    at = parents[at as usize];
                    way.push(seen.shards[0].state(at).into_owned());
                }
                way.reverse();
                let way = self.shortened(way);
                return Ok(Some(Found { way, ..found }));
            }
            if seen.len() >= limit {
                continue;
            }
            let mut next: Vec<&[u64]> = worker
                .out
                .iter()
                .flat_map(|out| out.chunks_exact(words))
                .collect();
            // The last one is looked at first.
            next.sort_unstable_by_key(|state| ((hash(state) ^ seed).wrapping_mul(MIX), *state));
            for state in next {
                let number = seen.shards[0].number(state);
                if number as usize == parents.len() {
                    parents.push(index);
                    stack.push(number);
                }
            }
        }
        Ok(None)
    }

    /// A shortest way from the first to the last of these states, over no others.
    fn shortened(&self, way: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
        let last = way.len() - 1;
        let places: FxHashMap<&[u64], usize> =
            way.iter().enumerate().map(|(i, s)| (&s[..], i)).collect();
        let mut before = vec![usize::MAX; way.len()];
        let mut queue = VecDeque::from([0]);
        let mut worker = self.worker();
        while let Some(at) = queue.pop_front() {
            if at == last {
                break;
            }
            self.step(&mut worker, &way[at]);
            let words = self.network.layout.words;
            for state in worker.out.iter().flat_map(|out| out.chunks_exact(words)) {
                if let Some(&next) = places.get(state)
                    && next != 0
                    && before[next] == usize::MAX
                {
                    before[next] = at;
                    queue.push_back(next);
                }
            }
        }
        let mut short = vec![last];
        while let Some(&at) = short.last()
            && at != 0
        {
            short.push(before[at]);
        }
        short.iter().rev().map(|&at| way[at].clone()).collect()
    }
}

// An odd number whose multiples spread over all bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
