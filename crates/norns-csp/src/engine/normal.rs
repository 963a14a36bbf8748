//! Normal forms: a specification made deterministic, with what each of its states must accept
//! and whether it may diverge.
//!
//! After Roscoe 2010, 8.5 and 16.1: a node is the set of states
//! that a trace leads to, closed under tau. Its acceptances are the events offered by its
//! stable states, minimal ones only. A state that can tick may refuse everything else whether
//! or not it is stable, so it gives the acceptance {tick}.

use rustc_hash::FxHashMap;

use crate::engine::lts::Lts;
use crate::event::EventId;

/// A deterministic specification.
#[derive(Clone, Debug, Default)]
pub struct NormalForm {
    /// The events of the specification, sorted.
    pub alphabet: Vec<EventId>,
    // For each event number, its place in `alphabet`, or NONE.
    places: Vec<u32>,
    // Dense: `table[node * alphabet.len() + place]`; sparse: rows of (place, node).
    table: Vec<u32>,
    rows: Vec<(u32, u32)>,
    row_offsets: Vec<u32>,
    // Acceptances as bit sets over places, `accept_words` words each.
    accept_words: usize,
    accepts: Vec<u64>,
    accept_offsets: Vec<u32>,
    pub divergent: Vec<bool>,
}

pub const NONE: u32 = u32::MAX;

const DENSE_LIMIT: usize = 1 << 22;

/// Why there is no normal form: the limit was reached.
#[derive(Clone, Copy, Debug)]
pub struct TooLarge {
    pub nodes: usize,
}

/// States with an infinite path of taus.
pub fn divergent_states(lts: &Lts) -> Vec<bool> {
    // Remove states without a tau to a remaining state, until nothing changes.
    let n = lts.len();
    let mut out = vec![0u32; n];
    let mut offsets = vec![0u32; n + 1];
    let taus = |s: u32| {
        lts.steps(s)
            .iter()
            .take_while(|step| step.0 == EventId::TAU)
            .map(|step| step.1)
    };
    for s in 0..n as u32 {
        for to in taus(s) {
            out[s as usize] += 1;
            offsets[to as usize + 1] += 1;
        }
    }
    for i in 0..n {
        offsets[i + 1] += offsets[i];
    }
    let mut fill = offsets.clone();
    let mut preds = vec![0u32; offsets[n] as usize];
    for s in 0..n as u32 {
        for to in taus(s) {
            preds[fill[to as usize] as usize] = s;
            fill[to as usize] += 1;
        }
    }
    let mut gone: Vec<u32> = (0..n as u32).filter(|&s| out[s as usize] == 0).collect();
    let mut at = 0;
    while at < gone.len() {
        let s = gone[at] as usize;
        at += 1;
        for &p in &preds[offsets[s] as usize..offsets[s + 1] as usize] {
            out[p as usize] -= 1;
            if out[p as usize] == 0 {
                gone.push(p);
            }
        }
    }
    out.into_iter().map(|left| left > 0).collect()
}

/// What a set of states, closed under tau, must accept: minimal sets of events, sorted.
pub fn minimal_acceptances(lts: &Lts, states: &[u32]) -> Vec<Vec<EventId>> {
    let mut all: Vec<Vec<EventId>> = Vec::new();
    for &s in states {
        let steps = lts.steps(s);
        if steps.iter().any(|step| step.0 == EventId::TICK) {
            all.push(vec![EventId::TICK]);
        } else if steps.first().is_none_or(|step| step.0 != EventId::TAU) {
            let mut events: Vec<_> = steps.iter().map(|step| step.0).collect();
            events.dedup();
            all.push(events);
        }
    }
    all.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    all.dedup();
    let mut minimal: Vec<Vec<EventId>> = Vec::new();
    for set in all {
        let covered = |m: &Vec<EventId>| m.iter().all(|e| set.binary_search(e).is_ok());
        if !minimal.iter().any(covered) {
            minimal.push(set);
        }
    }
    minimal
}

/// Marks that are cleared by counting.
pub struct Closure {
    seen: Vec<u32>,
    round: u32,
}

impl Closure {
    pub fn new(lts: &Lts) -> Self {
        Closure {
            seen: vec![0; lts.len()],
            round: 0,
        }
    }

    /// The states reachable by taus, sorted.
    pub fn of(&mut self, lts: &Lts, from: impl IntoIterator<Item = u32>) -> Vec<u32> {
        self.round += 1;
        let mut set = Vec::new();
        for s in from {
            if self.seen[s as usize] != self.round {
                self.seen[s as usize] = self.round;
                set.push(s);
            }
        }
        let mut at = 0;
        while at < set.len() {
            for &(event, to) in lts.steps(set[at]) {
                if event != EventId::TAU {
                    break;
                }
                if self.seen[to as usize] != self.round {
                    self.seen[to as usize] = self.round;
                    set.push(to);
                }
            }
            at += 1;
        }
        set.sort_unstable();
        set
    }
}

/// What lies below a divergent node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BelowDivergence {
    /// Nothing matters: failures-divergences.
    Anything,
    /// What the process does: traces and failures.
    Itself,
}

impl NormalForm {
    /// The normal form of a system; `limit` bounds the nodes and, by a factor, the work.
    pub fn new(lts: &Lts, below: BelowDivergence, limit: usize) -> Result<NormalForm, TooLarge> {
        let mut form = NormalForm::default();
        let mut alphabet: Vec<EventId> = (0..lts.len() as u32)
            .flat_map(|s| lts.steps(s))
            .map(|step| step.0)
            .filter(|&event| event != EventId::TAU)
            .collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        form.set_alphabet(alphabet);
        let diverges = divergent_states(lts);
        let mut closure = Closure::new(lts);
        let mut ids: FxHashMap<Box<[u32]>, u32> = FxHashMap::default();
        let mut order: Vec<Box<[u32]>> = vec![closure.of(lts, [0]).into()];
        ids.insert(order[0].clone(), 0);
        let mut work = 0;
        form.row_offsets.push(0);
        form.accept_offsets.push(0);
        let mut at = 0;
        while at < order.len() {
            let set = std::mem::take(&mut order[at]);
            work += set.len();
            if at >= limit || work >= limit.saturating_mul(64) {
                return Err(TooLarge { nodes: at });
            }
            let divergent = set.iter().any(|&s| diverges[s as usize]);
            form.divergent.push(divergent);
            if !(divergent && below == BelowDivergence::Anything) {
                for acceptance in minimal_acceptances(lts, &set) {
                    form.push_acceptance(&acceptance);
                }
                let mut steps: Vec<(EventId, u32)> = set
                    .iter()
                    .flat_map(|&s| lts.steps(s))
                    .filter(|step| step.0 != EventId::TAU)
                    .copied()
                    .collect();
                steps.sort_unstable();
                steps.dedup();
                for group in steps.chunk_by(|a, b| a.0 == b.0) {
                    let target = closure.of(lts, group.iter().map(|step| step.1));
                    let node = match ids.get(&target[..]) {
                        Some(&node) => node,
                        None => {
                            let node = order.len() as u32;
                            let target: Box<[u32]> = target.into();
                            ids.insert(target.clone(), node);
                            order.push(target);
                            node
                        }
                    };
                    form.rows.push((form.places[group[0].0.0 as usize], node));
                }
            }
            form.row_offsets.push(form.rows.len() as u32);
            form.accept_offsets
                .push((form.accepts.len() / form.accept_words) as u32);
            at += 1;
        }
        form.finish();
        Ok(form)
    }

    fn set_alphabet(&mut self, alphabet: Vec<EventId>) {
        let highest = alphabet.last().map_or(0, |event| event.0 as usize + 1);
        self.places = vec![NONE; highest];
        for (place, event) in alphabet.iter().enumerate() {
            self.places[event.0 as usize] = place as u32;
        }
        self.accept_words = alphabet.len().div_ceil(64).max(1);
        self.alphabet = alphabet;
    }

    fn push_acceptance(&mut self, events: &[EventId]) {
        let start = self.accepts.len();
        self.accepts.resize(start + self.accept_words, 0);
        for event in events {
            let place = self.places[event.0 as usize] as usize;
            self.accepts[start + place / 64] |= 1 << (place % 64);
        }
    }

    fn finish(&mut self) {
        let cells = self.len() * self.alphabet.len();
        if cells <= DENSE_LIMIT {
            let width = self.alphabet.len();
            self.table = vec![NONE; cells];
            for node in 0..self.len() {
                for &(place, to) in
                    &self.rows[self.row_offsets[node] as usize..self.row_offsets[node + 1] as usize]
                {
                    self.table[node * width + place as usize] = to;
                }
            }
        }
    }

    /// The deterministic specification with the same traces: each node accepts all it can do.
    pub fn deterministic(mut self) -> NormalForm {
        self.accepts.clear();
        self.accept_offsets = vec![0];
        for node in 0..self.len() as u32 {
            let events: Vec<EventId> = self.steps(node).map(|step| step.0).collect();
            self.push_acceptance(&events);
            self.accept_offsets.push(node + 1);
        }
        self.divergent.fill(false);
        self
    }

    /// How many nodes there are; the initial one is 0.
    pub fn len(&self) -> usize {
        self.divergent.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of an event in the alphabet.
    #[inline]
    pub fn place(&self, event: EventId) -> Option<usize> {
        match self.places.get(event.0 as usize) {
            Some(&place) if place != NONE => Some(place as usize),
            _ => None,
        }
    }

    /// The node after an event, if the specification allows the event.
    #[inline]
    pub fn step(&self, node: u32, event: EventId) -> Option<u32> {
        let place = self.place(event)?;
        let to = if self.table.is_empty() {
            let row = self.row(node);
            row.binary_search_by_key(&(place as u32), |r| r.0)
                .map_or(NONE, |i| row[i].1)
        } else {
            self.table[node as usize * self.alphabet.len() + place]
        };
        (to != NONE).then_some(to)
    }

    fn row(&self, node: u32) -> &[(u32, u32)] {
        let node = node as usize;
        &self.rows[self.row_offsets[node] as usize..self.row_offsets[node + 1] as usize]
    }

    /// What a node allows next.
    pub fn steps(&self, node: u32) -> impl Iterator<Item = (EventId, u32)> + '_ {
        self.row(node)
            .iter()
            .map(|&(place, to)| (self.alphabet[place as usize], to))
    }

    /// Words of a bit set over the alphabet.
    pub fn accept_words(&self) -> usize {
        self.accept_words
    }

    /// Whether a stable state offering just these events (a bit set over places) is allowed.
    #[inline]
    pub fn allows(&self, node: u32, offered: &[u64]) -> bool {
        let range = self.accept_offsets[node as usize]..self.accept_offsets[node as usize + 1];
        range.into_iter().any(|i| {
            let start = i as usize * self.accept_words;
            let wanted = &self.accepts[start..start + self.accept_words];
            wanted.iter().zip(offered).all(|(w, o)| w & !o == 0)
        })
    }

    /// The minimal acceptances of a node.
    pub fn acceptances(&self, node: u32) -> Vec<Vec<EventId>> {
        let range = self.accept_offsets[node as usize]..self.accept_offsets[node as usize + 1];
        range
            .map(|i| {
                let start = i as usize * self.accept_words;
                let set = &self.accepts[start..start + self.accept_words];
                (0..self.alphabet.len())
                    .filter(|place| set[place / 64] >> (place % 64) & 1 == 1)
                    .map(|place| self.alphabet[place])
                    .collect()
            })
            .collect()
    }
}
