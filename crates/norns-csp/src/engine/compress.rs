//! Compressions: a transition system replaced by one that no check can tell from it.
//!
//! All of them respect traces, failures and divergences. Acceptances of a normal form are
//! written back as states: a node with several gets a tau to a stable state for each.
//! Bisimulations are in `bisim`.

use rustc_hash::FxHashMap;

pub use crate::engine::bisim::sbisim;
use crate::engine::bisim::{Matching, weak};
use crate::engine::budget::{Budget, Meter, Spent};
use crate::engine::lts::Lts;
use crate::engine::normal::{
    Acceptances, BelowDivergence, Closure, NormalForm, acceptances, divergent_states,
};
use crate::event::EventId;
use crate::graph::strongly_connected;
use crate::process::Compression;

// A normal form may be exponentially larger; past this it is given up for strong bisimulation.
const NORMAL_NODES: u64 = 1_000_000;

/// The compressed system.
pub fn compress(lts: &Lts, how: Compression) -> Lts {
    compress_within(lts, how, &Meter::unlimited()).expect("there is no budget to end")
}

/// The compressed system, unless the time ends first.
pub(super) fn compress_within(lts: &Lts, how: Compression, meter: &Meter) -> Result<Lts, Spent> {
    match how {
        Compression::Explicate => Ok(lts.clone()),
        Compression::Sbisim => sbisim(lts, meter),
        Compression::Wbisim => weak(lts, Matching::Weak, meter),
        Compression::Dbisim => weak(lts, Matching::Delay, meter),
        Compression::TauLoopFactor => Ok(tau_loop_factor(lts)),
        Compression::Diamond => diamond(lts, meter),
        Compression::Normal => {
            let nodes = Meter::new(Budget {
                states: Some(NORMAL_NODES),
                bytes: Some(NORMAL_NODES * 256),
                time: meter.time_left(),
            });
            match NormalForm::new(lts, BelowDivergence::Itself, Acceptances::Minimal, &nodes) {
                Ok(form) => sbisim(&expand(&form), meter),
                Err(_) => sbisim(lts, meter),
            }
        }
    }
}

/// Whether strong bisimulation is worth trying on a component: it is small, and it branches, so
/// that terms written differently may behave alike. A recorded thread does not branch and is left
/// as it is.
pub fn pays(lts: &Lts) -> bool {
    (4..=20_000).contains(&lts.len())
        && lts.unexplored.is_empty()
        && (0..lts.len() as u32).any(|s| lts.steps(s).len() > 1)
}

/// States that reach each other by tau become one, which keeps a tau to itself.
pub fn tau_loop_factor(lts: &Lts) -> Lts {
    let component = strongly_connected(lts.len(), |s| {
        lts.steps(s)
            .iter()
            .take_while(|step| step.0 == EventId::TAU)
            .map(|step| step.1)
    });
    quotient(lts, &component)
}

/// One state for each class, numbered breadth-first from the initial one.
pub(super) fn quotient(lts: &Lts, class: &[u32]) -> Lts {
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

/// The transition system of states that are given by their visible steps, acceptances and
/// divergence. States below `main` are those states; the ones after them are stable states, one
/// for each acceptance that needs its own.
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
fn diamond(lts: &Lts, meter: &Meter) -> Result<Lts, Spent> {
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
        if at % 1024 == 0 {
            meter.in_time()?;
        }
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
    sbisim(&result, meter)
}
