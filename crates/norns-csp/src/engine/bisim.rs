//! Bisimulations: strong, and the divergence-respecting weak and delay bisimulations of FDR4
//! (Boulgakov et al. 2016).
//!
//! All of them split classes of states until the members of each class have the same signature:
//! which events lead into which classes. For the weak ones the signature follows taus as well;
//! two states are kept apart if one diverges and the other does not.

use rustc_hash::FxHashMap;

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

/// Which event leads into which class.
type Signature = Vec<(EventId, u32)>;

/// The quotient under strong bisimulation, by splitting classes until each has one signature.
/// Only states with a transition into a changed class are looked at again, and the largest
/// part of a class keeps its number, so a long chain costs n log n.
pub fn sbisim(lts: &Lts) -> Lts {
    let n = lts.len();
    let mut class: Vec<u32> = terminated(lts).into_iter().map(u32::from).collect();
    let mut classes = 2u32;
    let mut size = vec![0usize; 2];
    for &c in &class {
        size[c as usize] += 1;
    }
    let mut offsets = vec![0u32; n + 1];
    for s in 0..n as u32 {
        for &(_, to) in lts.steps(s) {
            offsets[to as usize + 1] += 1;
        }
    }
    for i in 0..n {
        offsets[i + 1] += offsets[i];
    }
    let mut fill = offsets.clone();
    let mut preds = vec![0u32; offsets[n] as usize];
    for s in 0..n as u32 {
        for &(_, to) in lts.steps(s) {
            preds[fill[to as usize] as usize] = s;
            fill[to as usize] += 1;
        }
    }
    // The signature that the unchanged members of a class share.
    let mut shared: Vec<Option<Signature>> = vec![None; 2];
    let mut dirty: Vec<u32> = (0..n as u32).collect();
    let mut is_dirty = vec![true; n];
    while !dirty.is_empty() {
        for &s in &dirty {
            is_dirty[s as usize] = false;
        }
        // (class, signature) of the dirty states, grouped.
        let mut groups: FxHashMap<(u32, Signature), Vec<u32>> = FxHashMap::default();
        let mut first_seen = Vec::new();
        for &s in &dirty {
            let mut signature: Vec<_> = lts
                .steps(s)
                .iter()
                .map(|&(e, to)| (e, class[to as usize]))
                .collect();
            signature.sort_unstable();
            signature.dedup();
            let key = (class[s as usize], signature);
            if !groups.contains_key(&key) {
                first_seen.push(key.clone());
            }
            groups.entry(key).or_default().push(s);
        }
        let mut by_class: FxHashMap<u32, Vec<(Signature, Vec<u32>)>> = FxHashMap::default();
        let mut order = Vec::new();
        for key in first_seen {
            let members = groups.remove(&key).expect("each key was seen once");
            let of = by_class.entry(key.0).or_insert_with(|| {
                order.push(key.0);
                Vec::new()
            });
            of.push((key.1, members));
        }
        let mut changed = Vec::new();
        for c in order {
            let mut parts = by_class.remove(&c).expect("each class was seen once");
            let touched: usize = parts.iter().map(|p| p.1.len()).sum();
            let rest = size[c as usize] - touched;
            // The part that keeps the number: the untouched members, or the largest part.
            let keeps = if rest > 0 {
                let old = shared[c as usize].clone();
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
                    shared[c as usize] = Some(signature);
                    continue;
                }
                let new = classes;
                classes += 1;
                size.push(members.len());
                size[c as usize] -= members.len();
                shared.push(Some(signature));
                for s in members {
                    class[s as usize] = new;
                    changed.push(s);
                }
            }
        }
        dirty.clear();
        for s in changed {
            for &p in &preds[offsets[s as usize] as usize..offsets[s as usize + 1] as usize] {
                if !is_dirty[p as usize] {
                    is_dirty[p as usize] = true;
                    dirty.push(p);
                }
            }
        }
        dirty.sort_unstable();
    }
    quotient(lts, &class)
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
pub fn weak(lts: &Lts, matching: Matching) -> Lts {
    // Both respect the weaker bisimulations. Afterwards taus form no cycle but self-loops.
    let lts = sbisim(&tau_loop_factor(lts));
    let n = lts.len();
    let taus = |s: u32| {
        lts.steps(s)
            .iter()
            .take_while(|step| step.0 == EventId::TAU)
            .map(|step| step.1)
    };
    // Components are numbered so that a tau leads to a smaller or the same number.
    let rank = strongly_connected(n, taus);
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_key(|&s| rank[s as usize]);
    let diverges = divergent_states(&lts);
    let ended = terminated(&lts);
    let mut class: Vec<u32> = (0..n)
        .map(|s| u32::from(diverges[s]) + 2 * u32::from(ended[s]))
        .collect();
    let mut classes = 0;
    loop {
        // For each state: the classes that taus lead to, its own among them, and the events
        // with the classes behind them.
        let mut reach: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut offers: Vec<Signature> = vec![Vec::new(); n];
        let mut entries = 0;
        for &s in &order {
            let mut reached = vec![class[s as usize]];
            let mut offered: Signature = Vec::new();
            for to in taus(s).filter(|&to| to != s) {
                reached.extend(&reach[to as usize]);
                offered.extend(&offers[to as usize]);
            }
            for &(event, to) in lts.steps(s).iter().filter(|step| step.0 != EventId::TAU) {
                match matching {
                    Matching::Delay => offered.push((event, class[to as usize])),
                    // What taus reach behind the event is not yet known if `to` comes later in
                    // the order; it is added below.
                    Matching::Weak => offered.push((event, to)),
                }
            }
            reached.sort_unstable();
            reached.dedup();
            offered.sort_unstable();
            offered.dedup();
            entries += reached.len() + offered.len();
            if entries > SIGNATURE_LIMIT {
                return lts;
            }
            reach[s as usize] = reached;
            offers[s as usize] = offered;
        }
        if matching == Matching::Weak {
            for offered in &mut offers {
                let mut behind: Signature = offered
                    .iter()
                    .flat_map(|&(event, to)| reach[to as usize].iter().map(move |&c| (event, c)))
                    .collect();
                behind.sort_unstable();
                behind.dedup();
                *offered = behind;
            }
        }
        let mut numbers: FxHashMap<(u32, Vec<u32>, Signature), u32> = FxHashMap::default();
        let next: Vec<u32> = reach
            .into_iter()
            .zip(offers)
            .zip(&class)
            .map(|((reach, offers), &class)| {
                let new = numbers.len() as u32;
                *numbers.entry((class, reach, offers)).or_insert(new)
            })
            .collect();
        class = next;
        if numbers.len() == classes {
            break;
        }
        classes = numbers.len();
    }
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
    quotient(&without, &class)
}
