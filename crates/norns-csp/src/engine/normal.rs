//! Normal forms: a specification made deterministic, with what each of its states must accept
//! and whether it may diverge.
//!
//! After Roscoe 2010, 8.5 and 16.1: a node is the set of states
//! that a trace leads to, closed under tau. Its acceptances are the events offered by its
//! stable states, minimal ones only. A state that can tick may refuse everything else whether
//! or not it is stable, so it gives the acceptance {tick}.

use rustc_hash::FxHashMap;

use crate::engine::bisim::Predecessors;
use crate::engine::budget::{Activity, Meter, Spent};
use crate::engine::lts::Lts;
use crate::event::EventId;

/// A deterministic specification.
#[derive(Clone, Debug, Default)]
pub struct NormalForm {
    /// The events of the specification, sorted.
    pub alphabet: Vec<EventId>,
    // By event number: the index in `alphabet`, or NONE. Called a place below.
    places: Vec<u32>,
    // Dense: `table[node * alphabet.len() + place]`; sparse: rows of (place, node).
    table: Vec<u32>,
    rows: Vec<(u32, u32)>,
    row_offsets: Vec<u32>,
    // Acceptances as bit sets over places, `accept_words` words each.
    accept_words: usize,
    accepts: Vec<u64>,
    accept_offsets: Vec<u32>,
    // For refusal testing: (node, union of the acceptances within what was offered) to the node
    // of the states that can have refused the rest.
    refusals: FxHashMap<(u32, Box<[u64]>), u32>,
    pub divergent: Vec<bool>,
}

pub const NONE: u32 = u32::MAX;

const DENSE_LIMIT: usize = 1 << 22;

/// States with an infinite path of taus.
pub fn divergent_states(lts: &Lts) -> Vec<bool> {
    // Remove states without a tau to a remaining state, until nothing changes.
    let n = lts.len();
    let before = Predecessors::new(lts, |_, step| step.0 == EventId::TAU);
    let taus = |s: u32| {
        let steps = lts.steps(s).iter();
        steps.take_while(|step| step.0 == EventId::TAU).count()
    };
    let mut out: Vec<usize> = (0..n as u32).map(taus).collect();
    let mut gone: Vec<u32> = (0..n as u32).filter(|&s| out[s as usize] == 0).collect();
    let mut at = 0;
    while at < gone.len() {
        for &p in before.of(gone[at]) {
            out[p as usize] -= 1;
            if out[p as usize] == 0 {
                gone.push(p);
            }
        }
        at += 1;
    }
    out.into_iter().map(|left| left > 0).collect()
}

/// What the stable states among `states` accept: sets of events, the smaller ones first.
pub fn acceptances(lts: &Lts, states: &[u32], which: Acceptances) -> Vec<Vec<EventId>> {
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
    if which == Acceptances::All {
        return all;
    }
    let mut minimal: Vec<Vec<EventId>> = Vec::new();
    for set in all {
        let covered = |m: &Vec<EventId>| m.iter().all(|e| set.binary_search(e).is_ok());
        if !minimal.iter().any(covered) {
            minimal.push(set);
        }
    }
    minimal
}

/// Tau closures of sets of states. A mark is valid if it equals the current round, so nothing
/// has to be cleared between two closures.
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

/// Which acceptances of a node are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acceptances {
    /// Those without a smaller one: all that failures depend on.
    Minimal,
    /// All of them.
    All,
}

impl NormalForm {
    /// The normal form of a system, unless the budget ends first.
    pub fn new(
        lts: &Lts,
        below: BelowDivergence,
        which: Acceptances,
        meter: &Meter,
    ) -> Result<NormalForm, Spent> {
        Determiniser::new(lts, below, which, meter).run(Refusals::Ignored)
    }

    /// The normal form for refusal testing: what follows a node also depends on what is refused
    /// before. No state of the system may tick and do something else (see [`split_ticks`]).
    pub fn with_refusals(
        lts: &Lts,
        below: BelowDivergence,
        meter: &Meter,
    ) -> Result<NormalForm, Spent> {
        Determiniser::new(lts, below, Acceptances::All, meter).run(Refusals::Observed)
    }

    /// Memory of the form.
    pub fn bytes(&self) -> u64 {
        let words = self.table.len() + 2 * self.rows.len() + 2 * self.accepts.len();
        (words * 4 + self.len() * 9) as u64
    }

    fn set_alphabet(&mut self, alphabet: Vec<EventId>) {
        let highest = alphabet.last().map_or(0, |event| event.0 as usize + 1);
        // Events of large channels are far apart.
        if highest <= 4096 + 64 * alphabet.len() {
            self.places = vec![NONE; highest];
            for (place, event) in alphabet.iter().enumerate() {
                self.places[event.0 as usize] = place as u32;
            }
        }
        self.accept_words = alphabet.len().div_ceil(64).max(1);
        self.alphabet = alphabet;
    }

    fn push_acceptance(&mut self, events: &[EventId]) {
        let start = self.accepts.len();
        self.accepts.resize(start + self.accept_words, 0);
        for event in events {
            let place = self.place(*event).expect("an event of the system");
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

    /// The number of nodes. Node 0 is the initial one.
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
            None if self.places.is_empty() => self.alphabet.binary_search(&event).ok(),
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

    /// Whether a stable state offering just these events (a bit set over places) is allowed in
    /// the revivals model: each of its events must be offered by a stable state of the
    /// specification that offers nothing else than they do.
    pub fn revives(&self, node: u32, offered: &[u64]) -> bool {
        match self.union_within(node, offered) {
            Some(union) => offered.iter().zip(&union).all(|(o, u)| o & !u == 0),
            None => false,
        }
    }

    /// The union of the acceptances that lie within a set; none if no acceptance does.
    fn union_within(&self, node: u32, offered: &[u64]) -> Option<Box<[u64]>> {
        let mut union: Option<Box<[u64]>> = None;
        for i in self.accept_offsets[node as usize]..self.accept_offsets[node as usize + 1] {
            let start = i as usize * self.accept_words;
            let set = &self.accepts[start..start + self.accept_words];
            if set.iter().zip(offered).all(|(w, o)| w & !o == 0) {
                let union = union.get_or_insert_with(|| vec![0; self.accept_words].into());
                union.iter_mut().zip(set).for_each(|(u, w)| *u |= w);
            }
        }
        union
    }

    /// For refusal testing: the node of the states that can have refused everything but
    /// `offered` (a bit set over places); none if no state can.
    pub fn refusing_rest(&self, node: u32, offered: &[u64]) -> Option<u32> {
        let union = self.union_within(node, offered)?;
        self.refusals.get(&(node, union)).copied()
    }

    /// As [`NormalForm::refusing_rest`], for a list of events.
    pub fn after_refusal(&self, node: u32, offered: &[EventId]) -> Option<u32> {
        let mut set = vec![0; self.accept_words];
        for place in offered.iter().filter_map(|&event| self.place(event)) {
            set[place / 64] |= 1 << (place % 64);
        }
        self.refusing_rest(node, &set)
    }

    /// The acceptances of a node that are kept.
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

/// Whether a normal form follows what happens after refusals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusals {
    Ignored,
    Observed,
}

/// The subset construction.
struct Determiniser<'a> {
    lts: &'a Lts,
    below: BelowDivergence,
    which: Acceptances,
    meter: &'a Meter,
    form: NormalForm,
    ids: FxHashMap<Box<[u32]>, u32>,
    // Sets of states by node; taken out once a node is done.
    order: Vec<Box<[u32]>>,
    // States in all of those sets.
    members: usize,
}

impl<'a> Determiniser<'a> {
    fn new(lts: &'a Lts, below: BelowDivergence, which: Acceptances, meter: &'a Meter) -> Self {
        let mut alphabet: Vec<EventId> = (0..lts.len() as u32)
            .flat_map(|s| lts.steps(s))
            .map(|step| step.0)
            .filter(|&event| event != EventId::TAU)
            .collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        let mut form = NormalForm::default();
        form.set_alphabet(alphabet);
        Determiniser {
            lts,
            below,
            which,
            meter,
            form,
            ids: FxHashMap::default(),
            order: Vec::new(),
            members: 0,
        }
    }

    /// The node of a set of states that is closed under tau.
    fn node(&mut self, set: Vec<u32>) -> u32 {
        if let Some(&node) = self.ids.get(&set[..]) {
            return node;
        }
        let node = self.order.len() as u32;
        let set: Box<[u32]> = set.into();
        self.members += set.len();
        self.ids.insert(set.clone(), node);
        self.order.push(set);
        node
    }

    fn run(mut self, refusals: Refusals) -> Result<NormalForm, Spent> {
        let lts = self.lts;
        let diverges = divergent_states(lts);
        let mut closure = Closure::new(lts);
        self.node(closure.of(lts, [0]));
        self.form.row_offsets.push(0);
        self.form.accept_offsets.push(0);
        let mut at = 0;
        while at < self.order.len() {
            let bytes = self.members * 4
                + self.order.len() * 64
                + self.form.rows.len() * 8
                + self.form.accepts.len() * 8
                + self.form.refusals.len() * 64;
            if let Some(spent) = self
                .meter
                .spent(Activity::Compiling, at as u64, bytes as u64)
            {
                return Err(spent);
            }
            let set = std::mem::take(&mut self.order[at]);
            let divergent = set.iter().any(|&s| diverges[s as usize]);
            self.form.divergent.push(divergent);
            if !(divergent && self.below == BelowDivergence::Anything) {
                let accepts = acceptances(lts, &set, self.which);
                for acceptance in &accepts {
                    self.form.push_acceptance(acceptance);
                }
                if refusals == Refusals::Observed {
                    self.refusals(at as u32, &set, &accepts)?;
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
                    let node = self.node(closure.of(lts, group.iter().map(|step| step.1)));
                    let place = self.form.place(group[0].0).expect("an event of the system");
                    self.form.rows.push((place as u32, node));
                }
            }
            self.form.row_offsets.push(self.form.rows.len() as u32);
            self.form
                .accept_offsets
                .push((self.form.accepts.len() / self.form.accept_words) as u32);
            at += 1;
        }
        self.form.finish();
        self.meter.keep(self.form.len() as u64, self.form.bytes());
        Ok(self.form)
    }

    /// The nodes behind everything that may be refused at a node: one for each union of
    /// acceptances, with the stable states that offer nothing outside of it.
    fn refusals(&mut self, node: u32, set: &[u32], accepts: &[Vec<EventId>]) -> Result<(), Spent> {
        let words = self.form.accept_words;
        let mask = |events: &mut dyn Iterator<Item = EventId>, form: &NormalForm| {
            let mut mask: Box<[u64]> = vec![0; words].into();
            for event in events {
                let place = form.place(event).expect("an event of the system");
                mask[place / 64] |= 1 << (place % 64);
            }
            mask
        };
        let masks: Vec<Box<[u64]>> = accepts
            .iter()
            .map(|events| mask(&mut events.iter().copied(), &self.form))
            .collect();
        let stable: Vec<(u32, Box<[u64]>)> = set
            .iter()
            .filter(|&&s| {
                self.lts
                    .steps(s)
                    .first()
                    .is_none_or(|step| step.0 != EventId::TAU)
            })
            .map(|&s| {
                let mut events = self.lts.steps(s).iter().map(|step| step.0);
                (s, mask(&mut events, &self.form))
            })
            .collect();
        let mut unions: Vec<Box<[u64]>> = Vec::new();
        for acceptance in &masks {
            let mut new = vec![acceptance.clone()];
            for union in &unions {
                new.push(union.iter().zip(acceptance).map(|(u, a)| u | a).collect());
            }
            for union in new {
                if !unions.contains(&union) {
                    unions.push(union);
                }
            }
            let bytes = unions.len() * (words * 8 + 16);
            if let Some(spent) = self.meter.spent(Activity::Compiling, 0, bytes as u64) {
                return Err(spent);
            }
        }
        for union in unions {
            let within: Vec<u32> = stable
                .iter()
                .filter(|(_, offers)| offers.iter().zip(&union).all(|(o, u)| o & !u == 0))
                .map(|(s, _)| *s)
                .collect();
            let behind = self.node(within);
            self.form.refusals.insert((node, union), behind);
        }
        Ok(())
    }
}

/// The system with termination made a choice: a state that can tick and do something else gets
/// a tau to a state that can only tick. Failures and divergences stay as they are.
pub fn split_ticks(lts: &Lts) -> Lts {
    let mut rows: Vec<Vec<(EventId, u32)>> = Vec::with_capacity(lts.len());
    let mut ends: Vec<Vec<(EventId, u32)>> = Vec::new();
    for s in 0..lts.len() as u32 {
        let steps = lts.steps(s);
        let (ticks, mut others): (Vec<_>, Vec<_>) =
            steps.iter().partition(|step| step.0 == EventId::TICK);
        if ticks.is_empty() || others.is_empty() {
            rows.push(steps.to_vec());
            continue;
        }
        others.push((EventId::TAU, (lts.len() + ends.len()) as u32));
        rows.push(others);
        ends.push(ticks);
    }
    rows.append(&mut ends);
    Lts::new(rows)
}
