//! Compressions: a transition system replaced by one that no check can tell from it.
//!
//! All of them respect traces, failures and divergences. Acceptances of a normal form are
//! written back as states: a node with several gets a tau to a stable state for each.
//! Weak and delay bisimulation are approximated from below by factoring tau loops and then
//! strong bisimulation, so they may leave more states than FDR's.

use rustc_hash::FxHashMap;

use crate::engine::budget::{Budget, Meter};
use crate::engine::lts::Lts;
use crate::engine::normal::{
    Acceptances, BelowDivergence, Closure, NormalForm, acceptances, divergent_states,
};
use crate::event::EventId;
use crate::process::Compression;

// A normal form may be exponentially larger; past this it is given up for strong bisimulation.
const NORMAL_NODES: u64 = 1_000_000;

/// The compressed system.
pub fn compress(lts: &Lts, how: Compression) -> Lts {
    match how {
        Compression::Explicate => lts.clone(),
        Compression::Sbisim => sbisim(lts),
        Compression::Wbisim | Compression::Dbisim => sbisim(&tau_loop_factor(lts)),
        Compression::TauLoopFactor => tau_loop_factor(lts),
        Compression::Diamond => diamond(lts),
        Compression::Normal => {
            let nodes = Meter::new(Budget {
                states: Some(NORMAL_NODES),
                bytes: Some(NORMAL_NODES * 256),
                time: None,
            });
            match NormalForm::new(lts, BelowDivergence::Itself, Acceptances::Minimal, &nodes) {
                Ok(form) => sbisim(&expand(&form)),
                Err(_) => sbisim(lts),
            }
        }
    }
}

/// Whether strong bisimulation is worth trying on a component: it is small, and it branches, so
/// that terms written differently may behave alike. A recorded thread is a line.
pub fn pays(lts: &Lts) -> bool {
    (4..=20_000).contains(&lts.len())
        && lts.unexplored.is_empty()
        && (0..lts.len() as u32).any(|s| lts.steps(s).len() > 1)
}

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

/// States that reach each other by tau become one, which keeps a tau to itself.
pub fn tau_loop_factor(lts: &Lts) -> Lts {
    let component = components(lts.len(), |s| {
        lts.steps(s)
            .iter()
            .take_while(|step| step.0 == EventId::TAU)
            .map(|step| step.1)
    });
    quotient(lts, &component)
}

/// The strongly connected component of each node, numbered (Tarjan 1972, without recursion).
pub fn components<I: Iterator<Item = u32>>(n: usize, next: impl Fn(u32) -> I) -> Vec<u32> {
    const NEW: u32 = u32::MAX;
    let mut index = vec![NEW; n];
    let mut low = vec![0u32; n];
    let mut component = vec![NEW; n];
    let (mut count, mut found) = (0, 0);
    let mut path: Vec<u32> = Vec::new();
    let mut calls: Vec<(u32, I)> = Vec::new();
    for root in 0..n as u32 {
        if index[root as usize] != NEW {
            continue;
        }
        index[root as usize] = count;
        low[root as usize] = count;
        count += 1;
        path.push(root);
        calls.push((root, next(root)));
        while let Some((s, iter)) = calls.last_mut() {
            let s = *s;
            if let Some(to) = iter.next() {
                if index[to as usize] == NEW {
                    index[to as usize] = count;
                    low[to as usize] = count;
                    count += 1;
                    path.push(to);
                    calls.push((to, next(to)));
                } else if component[to as usize] == NEW {
                    low[s as usize] = low[s as usize].min(index[to as usize]);
                }
                continue;
            }
            calls.pop();
            if let Some((parent, _)) = calls.last() {
                low[*parent as usize] = low[*parent as usize].min(low[s as usize]);
            }
            if low[s as usize] == index[s as usize] {
                while let Some(member) = path.pop() {
                    component[member as usize] = found;
                    if member == s {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    component
}

/// One state for each class, numbered breadth-first from the initial one.
fn quotient(lts: &Lts, class: &[u32]) -> Lts {
    let classes = class.iter().max().map_or(0, |c| *c as usize + 1);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); classes];
    for (s, &c) in class.iter().enumerate() {
        members[c as usize].push(s as u32);
    }
    let mut number = vec![u32::MAX; classes];
    let mut order = vec![class[0]];
    number[class[0] as usize] = 0;
    let mut out = Lts::start();
    let mut at = 0;
    while at < order.len() {
        let c = order[at];
        let mut steps = Vec::new();
        for &s in &members[c as usize] {
            for &(event, to) in lts.steps(s) {
                let target = class[to as usize];
                if number[target as usize] == u32::MAX {
                    number[target as usize] = order.len() as u32;
                    order.push(target);
                }
                steps.push((event, number[target as usize]));
            }
        }
        out.push(steps);
        at += 1;
    }
    out
}

/// Collects states with visible steps, acceptances and divergence, and writes them as a
/// transition system: numbers below `main` are the states themselves, further ones are the
/// stable states for acceptances.
fn with_acceptances(
    main: usize,
    steps: impl Fn(u32) -> Vec<(EventId, u32)>,
    acceptances: impl Fn(u32) -> Vec<Vec<EventId>>,
    divergent: impl Fn(u32) -> bool,
) -> Lts {
    let mut rows: Vec<Vec<(EventId, u32)>> = Vec::new();
    let mut extra: Vec<Vec<(EventId, u32)>> = Vec::new();
    let mut known: FxHashMap<Vec<(EventId, u32)>, u32> = FxHashMap::default();
    for s in 0..main as u32 {
        let mut row = steps(s);
        row.sort_unstable();
        let mut initials: Vec<_> = row.iter().map(|step| step.0).collect();
        initials.dedup();
        let accepts = acceptances(s);
        if divergent(s) {
            row.push((EventId::TAU, s));
        }
        if divergent(s) || accepts != [initials] {
            for acceptance in accepts {
                let stable: Vec<_> = row
                    .iter()
                    .filter(|step| acceptance.binary_search(&step.0).is_ok())
                    .copied()
                    .collect();
                let id = *known.entry(stable.clone()).or_insert_with(|| {
                    extra.push(stable);
                    (main + extra.len() - 1) as u32
                });
                row.push((EventId::TAU, id));
            }
        }
        rows.push(row);
    }
    rows.append(&mut extra);
    Lts::new(rows)
}

/// A normal form as a transition system.
pub fn expand(form: &NormalForm) -> Lts {
    with_acceptances(
        form.len(),
        |node| form.steps(node).collect(),
        |node| form.acceptances(node),
        |node| form.divergent[node as usize],
    )
}

/// Taus removed by giving each state what its tau closure can do; states that only taus reach
/// vanish.
pub fn diamond(lts: &Lts) -> Lts {
    let diverges = divergent_states(lts);
    let mut closure = Closure::new(lts);
    let mut number: FxHashMap<u32, u32> = FxHashMap::default();
    number.insert(0, 0);
    let mut order = vec![0u32];
    let mut rows = Vec::new();
    let mut accepts = Vec::new();
    let mut divergent = Vec::new();
    let mut at = 0;
    while at < order.len() {
        let set = closure.of(lts, [order[at]]);
        let mut row: Vec<(EventId, u32)> = set
            .iter()
            .flat_map(|&s| lts.steps(s))
            .filter(|step| step.0 != EventId::TAU)
            .copied()
            .collect();
        row.sort_unstable();
        row.dedup();
        for step in &mut row {
            step.1 = *number.entry(step.1).or_insert_with(|| {
                order.push(step.1);
                order.len() as u32 - 1
            });
        }
        rows.push(row);
        accepts.push(acceptances(lts, &set, Acceptances::Minimal));
        divergent.push(diverges[order[at] as usize]);
        at += 1;
    }
    let result = with_acceptances(
        rows.len(),
        |s| rows[s as usize].clone(),
        |s| accepts[s as usize].clone(),
        |s| divergent[s as usize],
    );
    sbisim(&result)
}
