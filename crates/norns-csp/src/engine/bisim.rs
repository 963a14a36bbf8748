//! Bisimulations: strong, and the divergence-respecting weak and delay bisimulations of FDR4
//! (Boulgakov et al. 2016).
//!
//! All of them split classes of states until the members of each class have the same signature:
//! which events lead into which classes. For the weak ones the signature follows taus as well;
//! two states are kept apart if one diverges and the other does not. After a round only the states
//! are looked at again whose signature has a class in it that was split.

use rustc_hash::FxHashMap;

use crate::engine::budget::{Meter, Spent};
use crate::engine::compress::{quotient, tau_loop_factor};
use crate::engine::lts::Lts;
use crate::engine::normal::divergent_states;
use crate::event::EventId;
use crate::graph::strongly_connected;

/// Whether a state is what remains after a tick. A deadlocked state has no transitions either
/// but is not the same thing to a parallel composition.
fn terminated(lts: &Lts) -> Vec<bool> {
    let mut after = vec![false; lts.len()];
    for s in 0..lts.len() as u32 {
        for &(event, to) in lts.steps(s) {
            if event == EventId::TICK {
                after[to as usize] = true;
            }
        }
    }
    after
}

// States between two looks at the clock.
const LOOK_AT_CLOCK: usize = 4096;

/// Which event leads into which class.
type Signature = Vec<(EventId, u32)>;

/// States in classes that are split until the members of each have the same signature.
struct Partition {
    class: Vec<u32>,
    size: Vec<usize>,
    // By class: the signature of the members whose signature was not computed again.
    shared: Vec<Option<Signature>>,
}

impl Partition {
    fn new(class: Vec<u32>) -> Self {
        let classes = class.iter().max().map_or(0, |c| *c as usize + 1);
        let mut size = vec![0usize; classes];
        for &c in &class {
            size[c as usize] += 1;
        }
        Partition {
            class,
            size,
            shared: vec![None; classes],
        }
    }

    /// Splits the classes of the states in `dirty`, which may have another signature than before.
    /// Returns the states that are in a new class. The largest part of a class keeps its number, so
    /// a long chain costs n log n.
    fn split(
        &mut self,
        dirty: &[u32],
        signature: impl Fn(u32, &[u32]) -> Signature,
        meter: &Meter,
    ) -> Result<Vec<u32>, Spent> {
        let mut numbers: FxHashMap<(u32, Signature), usize> = FxHashMap::default();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for (looked, &s) in dirty.iter().enumerate() {
            if looked % LOOK_AT_CLOCK == 0 {
                meter.in_time()?;
            }
            let key = (self.class[s as usize], signature(s, &self.class));
            let number = *numbers.entry(key).or_insert(groups.len());
            if number == groups.len() {
                groups.push(Vec::new());
            }
            groups[number].push(s);
        }
        let mut keys: Vec<((u32, Signature), usize)> = numbers.into_iter().collect();
        keys.sort_unstable_by_key(|key| key.1);
        let mut by_class: FxHashMap<u32, Vec<(Signature, Vec<u32>)>> = FxHashMap::default();
        let mut order = Vec::new();
        for (((c, signature), _), members) in keys.into_iter().zip(groups) {
            let parts = by_class.entry(c).or_insert_with(|| {
                order.push(c);
                Vec::new()
            });
            parts.push((signature, members));
        }
        let mut changed = Vec::new();
        for c in order {
            let mut parts = by_class.remove(&c).expect("each class was seen once");
            let touched: usize = parts.iter().map(|p| p.1.len()).sum();
            // The part that keeps the number: the untouched members, or the largest part.
            let keeps = if self.size[c as usize] > touched {
                let old = self.shared[c as usize].clone();
                // Dirty states whose signature is the old one stay with the untouched.
                parts.retain(|(signature, _)| Some(signature) != old.as_ref());
                None
            } else {
                let largest = (0..parts.len())
                    .rev()
                    .max_by_key(|&i| parts[i].1.len())
                    .expect("a part");
                Some(largest)
            };
            for (i, (signature, members)) in parts.into_iter().enumerate() {
                if Some(i) == keeps {
                    self.shared[c as usize] = Some(signature);
                    continue;
                }
                let new = self.size.len() as u32;
                self.size.push(members.len());
                self.size[c as usize] -= members.len();
                self.shared.push(Some(signature));
                for &s in &members {
                    self.class[s as usize] = new;
                }
                changed.extend(members);
            }
        }
        Ok(changed)
    }
}

/// The sources of some transitions, by their targets.
pub(super) struct Predecessors {
    offsets: Vec<u32>,
    sources: Vec<u32>,
}

impl Predecessors {
    pub(super) fn new(lts: &Lts, counts: impl Fn(u32, &(EventId, u32)) -> bool) -> Self {
        let n = lts.len();
        let counts = &counts;
        let targets = |s: u32| {
            let steps = lts.steps(s).iter();
            steps.filter(move |step| counts(s, step)).map(|step| step.1)
        };
        let mut offsets = vec![0u32; n + 1];
        for s in 0..n as u32 {
            for to in targets(s) {
                offsets[to as usize + 1] += 1;
            }
        }
        for i in 0..n {
            offsets[i + 1] += offsets[i];
        }
        let mut fill = offsets.clone();
        let mut sources = vec![0u32; offsets[n] as usize];
        for s in 0..n as u32 {
            for to in targets(s) {
                sources[fill[to as usize] as usize] = s;
                fill[to as usize] += 1;
            }
        }
        Predecessors { offsets, sources }
    }

    pub(super) fn of(&self, s: u32) -> &[u32] {
        let s = s as usize;
        &self.sources[self.offsets[s] as usize..self.offsets[s + 1] as usize]
    }
}

/// A set of states that is listed and emptied again.
struct Marked {
    is: Vec<bool>,
    list: Vec<u32>,
}

impl Marked {
    fn new(states: usize) -> Self {
        Marked {
            is: vec![false; states],
            list: Vec::new(),
        }
    }

    fn add(&mut self, s: u32) {
        if !std::mem::replace(&mut self.is[s as usize], true) {
            self.list.push(s);
        }
    }

    /// Adds all that leads to the listed states from `from` on.
    fn close(&mut self, from: usize, before: &Predecessors) {
        let mut at = from;
        while at < self.list.len() {
            for &p in before.of(self.list[at]) {
                self.add(p);
            }
            at += 1;
        }
    }

    fn take(&mut self) -> Vec<u32> {
        for &s in &self.list {
            self.is[s as usize] = false;
        }
        std::mem::take(&mut self.list)
    }
}

/// The quotient under strong bisimulation. Only states with a transition into a changed class are
/// looked at again.
pub fn sbisim(lts: &Lts, meter: &Meter) -> Result<Lts, Spent> {
    let mut partition = Partition::new(terminated(lts).into_iter().map(u32::from).collect());
    let before = Predecessors::new(lts, |_, _| true);
    let signature = |s: u32, class: &[u32]| {
        let steps = lts.steps(s).iter();
        let mut signature: Signature = steps.map(|&(e, to)| (e, class[to as usize])).collect();
        signature.sort_unstable();
        signature.dedup();
        signature
    };
    let mut dirty: Vec<u32> = (0..lts.len() as u32).collect();
    let mut marked = Marked::new(lts.len());
    while !dirty.is_empty() {
        for s in partition.split(&dirty, signature, meter)? {
            before.of(s).iter().for_each(|&p| marked.add(p));
        }
        dirty = marked.take();
        dirty.sort_unstable();
    }
    Ok(quotient(lts, &partition.class))
}

/// What answers a visible event of a bisimilar state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Matching {
    /// The event with taus before and after it.
    Weak,
    /// The event with taus before it.
    Delay,
}

// Entries of all signatures together, past which strong bisimulation has to do.
const SIGNATURE_LIMIT: usize = 20_000_000;

/// The quotient under divergence-respecting weak or delay bisimulation. A system whose taus
/// reach too far gets its quotient under strong bisimulation, with tau loops factored.
pub fn weak(lts: &Lts, matching: Matching, meter: &Meter) -> Result<Lts, Spent> {
    // Both respect the weaker bisimulations. Afterwards taus form no cycle but self-loops.
    let lts = sbisim(&tau_loop_factor(lts), meter)?;
    let n = lts.len();
    let taus = |s: u32| {
        lts.steps(s)
            .iter()
            .take_while(|step| step.0 == EventId::TAU)
            .map(|step| step.1)
    };
    // Components are numbered so that a tau leads to a smaller or the same number.
    let rank = strongly_connected(n, taus);
    let mut dirty: Vec<u32> = (0..n as u32).collect();
    dirty.sort_by_key(|&s| rank[s as usize]);
    let diverges = divergent_states(&lts);
    let ended = terminated(&lts);
    let mut partition = Partition::new(
        (0..n)
            .map(|s| u32::from(diverges[s]) + 2 * u32::from(ended[s]))
            .collect(),
    );
    let before_tau = Predecessors::new(&lts, |s, step| step.0 == EventId::TAU && step.1 != s);
    let before_event = Predecessors::new(&lts, |_, step| step.0 != EventId::TAU);
    // For each state: tau with the classes that taus lead to, its own among them; and the events
    // that are possible after taus, with the classes behind them.
    let mut reach: Vec<Signature> = vec![Vec::new(); n];
    let mut offers: Vec<Signature> = vec![Vec::new(); n];
    let mut entries = 0;
    let mut marked = Marked::new(n);
    while !dirty.is_empty() {
        let class = &partition.class;
        for (looked, &s) in dirty.iter().enumerate() {
            if looked % LOOK_AT_CLOCK == 0 {
                meter.in_time()?;
            }
            let mut reached = vec![(EventId::TAU, class[s as usize])];
            for to in taus(s).filter(|&to| to != s) {
                reached.extend(&reach[to as usize]);
            }
            reached.sort_unstable();
            reached.dedup();
            entries += reached.len();
            entries -= std::mem::replace(&mut reach[s as usize], reached).len();
        }
        for (looked, &s) in dirty.iter().enumerate() {
            if looked % LOOK_AT_CLOCK == 0 {
                meter.in_time()?;
            }
            let mut offered: Signature = Vec::new();
            for to in taus(s).filter(|&to| to != s) {
                offered.extend(&offers[to as usize]);
            }
            for &(event, to) in lts.steps(s).iter().filter(|step| step.0 != EventId::TAU) {
                match matching {
                    Matching::Delay => offered.push((event, class[to as usize])),
                    Matching::Weak => {
                        offered.extend(reach[to as usize].iter().map(|&(_, c)| (event, c)));
                    }
                }
            }
            offered.sort_unstable();
            offered.dedup();
            entries += offered.len();
            entries -= std::mem::replace(&mut offers[s as usize], offered).len();
            if entries > SIGNATURE_LIMIT {
                return Ok(lts);
            }
        }
        let signature = |s: u32, _: &[u32]| [&reach[s as usize][..], &offers[s as usize]].concat();
        let changed = partition.split(&dirty, signature, meter)?;
        // What a state reaches by taus changes with the classes of these, and what it offers with
        // those of the states behind its events.
        changed.iter().for_each(|&s| marked.add(s));
        if matching == Matching::Delay {
            for &s in &changed {
                before_event.of(s).iter().for_each(|&p| marked.add(p));
            }
            marked.close(0, &before_tau);
        } else {
            marked.close(0, &before_tau);
            let reaching = marked.list.clone();
            for &s in &reaching {
                before_event.of(s).iter().for_each(|&p| marked.add(p));
            }
            marked.close(reaching.len(), &before_tau);
        }
        dirty = marked.take();
        dirty.sort_unstable_by_key(|&s| (rank[s as usize], s));
    }
    let Partition { class, size, .. } = partition;
    let classes = size.len();
    let mut divergent = vec![false; classes];
    for s in 0..n {
        divergent[class[s] as usize] |= diverges[s];
    }
    // A tau inside a class is not seen, unless it goes on for ever.
    let inert = |s: u32, to: u32| {
        let c = class[s as usize];
        c == class[to as usize] && !divergent[c as usize]
    };
    let without = Lts::new((0..n as u32).map(|s| {
        let steps = lts.steps(s).iter();
        steps
            .filter(|step| !(step.0 == EventId::TAU && inert(s, step.1)))
            .copied()
            .collect()
    }));
    Ok(quotient(&without, &class))
}
