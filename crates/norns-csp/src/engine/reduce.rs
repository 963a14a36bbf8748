//! Partial-order reduction: in many states it is enough to follow some of the enabled rules.
//!
//! Strong stubborn sets (Valmari 1991), with components as units: an enabled rule in the set brings
//! in every rule that one of its components could take part in from where it stands; a rule
//! that is not enabled brings in those of one component that is not ready for it, unless that
//! component never will be. A rule that changes the format is taken to touch everything.
//!
//! - For deadlock freedom that is all: every deadlock stays reachable.
//! - For refinement the chosen rules must also be taus, and no cycle may consist of states
//!   that were all reduced, so that what was left out is followed in the end. Then every trace,
//!   and every stable state with its trace, remains: a stable state has no tau, so a chosen
//!   tau must have happened on the way to it, and could have happened first. The cycle
//!   condition is a property of single transitions (a back edge of a component that every
//!   cyclic rule moves, or one of those), so the reduced states do not depend on search order.
//! - Divergence is not preserved by this argument; a check that looks for it where taus can
//!   form a cycle is not reduced.

use crate::engine::cycles::cyclic_rules;
use crate::engine::network::{Network, TERMINATED, Which, field};
use crate::event::EventId;

/// How hard to look for a small set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// [`Reduction::Precise`] where it is likely to pay: for deadlock freedom, and for the
    /// refinement of a specification by a network that is mostly hidden.
    #[default]
    Automatic,
    /// No reduction.
    None,
    /// The smallest set of all that can be grown from one enabled rule.
    Precise,
    /// The first set that leaves something out.
    Hybrid,
    /// One attempt.
    Fast,
}

pub struct Reducer {
    formats: Vec<FormatIndex>,
    machines: Vec<MachineIndex>,
    how: Reduction,
    /// Whether visible events may be left out too: only deadlocks are looked for.
    pub all_invisible: bool,
}

struct FormatIndex {
    // Rules with component c and label l: `rules[offsets[first[c] + l]..offsets[… + 1]]`.
    first: Vec<u32>,
    offsets: Vec<u32>,
    rules: Vec<u32>,
    // Rules that lead to another format.
    changers: Vec<u32>,
    // By component: which of its transitions are back edges, where these end a reduction.
    watched: Vec<Option<Vec<bool>>>,
    // By rule: may be part of a cycle, but no watched component takes part in it.
    refused: Vec<bool>,
}

struct MachineIndex {
    // By state: the number of its strongly connected component. It never grows along a transition.
    rank: Vec<u32>,
    // By label: the lowest rank of a state that can do it.
    lowest: Vec<u32>,
}

/// Space that a worker reuses.
#[derive(Default)]
pub struct Scratch {
    enabled: Vec<u32>,
    best: Vec<u32>,
    found: Vec<u32>,
    todo: Vec<u32>,
    // Rounds in which a rule or component was last marked.
    rule_mark: Vec<u32>,
    component_mark: Vec<u32>,
    enabled_mark: Vec<u32>,
    round: u32,
    // Rules that were looked at for the sets of the current state.
    grown: usize,
    /// What the reduction has cost and brought since this was last taken.
    pub tally: Tally,
}

/// What a reduction costs and brings, over many states.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    // States with a choice of rules, and those of them that were reduced.
    states: u64,
    reduced: u64,
    // Rules that were enabled in these states, and rules that were looked at to choose among them.
    enabled: u64,
    grown: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.states += other.states;
        self.reduced += other.reduced;
        self.enabled += other.enabled;
        self.grown += other.grown;
    }

    /// Whether the reduction costs much more than following all rules and leaves out hardly
    /// anything.
    pub fn is_wasteful(&self) -> bool {
        self.states > 2000 && self.reduced < self.states / 8 && self.grown > 16 * self.enabled
    }
}

// Rules that are looked at in a state before the best set so far has to do.
const MAX_GROWN: usize = 1 << 16;

impl Reducer {
    pub fn new(network: &Network, how: Reduction, all_invisible: bool) -> Self {
        let machines = network
            .components
            .iter()
            .map(|component| {
                let machine = &component.machine;
                let rank = crate::graph::strongly_connected(machine.len(), |s| {
                    machine.span(s).map(|at| machine.target(at))
                });
                let mut lowest = vec![u32::MAX; machine.alphabet.len()];
                for s in 0..machine.len() as u32 {
                    for at in machine.span(s) {
                        let low = &mut lowest[machine.label(at) as usize];
                        *low = (*low).min(rank[s as usize]);
                    }
                }
                MachineIndex { rank, lowest }
            })
            .collect();
        let formats = (0..network.formats.len())
            .map(|format| FormatIndex::new(network, format, all_invisible))
            .collect();
        Reducer {
            formats,
            machines,
            how,
            all_invisible,
        }
    }

    /// Rules that suffice in this state; none if all are needed. Sorted.
    pub fn ample<'s>(
        &self,
        network: &Network,
        state: &[u64],
        scratch: &'s mut Scratch,
    ) -> Option<&'s [u32]> {
        let format_id = network
            .layout
            .get(state, crate::engine::network::FORMAT_FIELD) as usize;
        scratch.enabled.clear();
        network.enabled_rules(state, Which::All, |at, _| {
            scratch.enabled.push(at as u32);
            true
        });
        if scratch.enabled.len() < 2 {
            return None;
        }
        let most = network
            .formats
            .iter()
            .map(|f| f.rules.len())
            .max()
            .unwrap_or(0);
        if scratch.rule_mark.len() < most {
            scratch.rule_mark.resize(most, 0);
            scratch.enabled_mark.resize(most, 0);
            scratch.component_mark.resize(network.components.len(), 0);
        }
        scratch.round += 1;
        let enabled_round = scratch.round;
        for &rule in &scratch.enabled {
            scratch.enabled_mark[rule as usize] = enabled_round;
        }
        let mut best = usize::MAX;
        // Where very many rules are enabled, a set for each of them would cost more than it saves.
        scratch.grown = 0;
        let most = MAX_GROWN.max(4 * scratch.enabled.len());
        for seed in 0..scratch.enabled.len() {
            if scratch.grown > most {
                break;
            }
            let seed = scratch.enabled[seed];
            if !self.allowed(network, format_id, state, seed) {
                continue;
            }
            if self.grow(network, format_id, state, seed, enabled_round, scratch)
                && scratch.found.len() < best.min(scratch.enabled.len())
            {
                best = scratch.found.len();
                std::mem::swap(&mut scratch.best, &mut scratch.found);
                if best == 1 || self.how == Reduction::Hybrid {
                    break;
                }
            }
            if self.how == Reduction::Fast {
                break;
            }
        }
        scratch.tally.add(Tally {
            states: 1,
            reduced: u64::from(best != usize::MAX),
            enabled: scratch.enabled.len() as u64,
            grown: scratch.grown as u64,
        });
        if best == usize::MAX {
            return None;
        }
        scratch.best.sort_unstable();
        Some(&scratch.best)
    }

    /// Whether an enabled rule may be in a reduced set.
    fn allowed(&self, network: &Network, format: usize, state: &[u64], rule: u32) -> bool {
        let of = &network.formats[format].rules[rule as usize];
        if of.next == TERMINATED {
            return false;
        }
        if self.all_invisible {
            return true;
        }
        if of.event != EventId::TAU || of.next as usize != format {
            return false;
        }
        let index = &self.formats[format];
        if index.refused[rule as usize] {
            return false;
        }
        network.formats[format]
            .actions(of)
            .iter()
            .all(|&(component, label)| {
                let Some(back) = &index.watched[component as usize] else {
                    return true;
                };
                let machine = &network.components[component as usize].machine;
                let local = network.layout.get(state, field(component)) as u32;
                machine.find(local, label).all(|at| !back[at])
            })
    }

    /// Grows a stubborn set from one rule; its enabled rules go to `scratch.found`. False if
    /// it would hold an enabled rule that is not allowed.
    fn grow(
        &self,
        network: &Network,
        format_id: usize,
        state: &[u64],
        seed: u32,
        enabled_round: u32,
        scratch: &mut Scratch,
    ) -> bool {
        let format = &network.formats[format_id];
        let index = &self.formats[format_id];
        scratch.round += 1;
        let round = scratch.round;
        scratch.found.clear();
        scratch.todo.clear();
        // The seed is taken first, so that its components are in when the others choose.
        scratch.rule_mark[seed as usize] = round;
        for &rule in &index.changers {
            if scratch.rule_mark[rule as usize] != round {
                scratch.rule_mark[rule as usize] = round;
                scratch.todo.push(rule);
            }
        }
        scratch.todo.push(seed);
        while let Some(rule) = scratch.todo.pop() {
            scratch.grown += 1;
            let actions = format.actions(&format.rules[rule as usize]);
            if scratch.enabled_mark[rule as usize] == enabled_round {
                if !self.allowed(network, format_id, state, rule) {
                    return false;
                }
                scratch.found.push(rule);
                if scratch.found.len() == scratch.enabled.len() {
                    return false;
                }
                for &(component, _) in actions {
                    self.include(network, index, state, component, round, scratch);
                }
                continue;
            }
            // Not enabled: one component that is not ready.
            let mut choice: Option<(usize, u32)> = None;
            for &(component, label) in actions {
                let machine = &network.components[component as usize].machine;
                let local = network.layout.get(state, field(component)) as u32;
                if !machine.find(local, label).is_empty() {
                    continue;
                }
                let of = &self.machines[component as usize];
                if of.lowest[label as usize] > of.rank[local as usize] {
                    // It never will be ready: the rule is dead.
                    choice = None;
                    break;
                }
                let cost = if scratch.component_mark[component as usize] == round {
                    0
                } else {
                    1 + machine.span(local).len()
                };
                if choice.is_none_or(|(least, _)| cost < least) {
                    choice = Some((cost, component));
                }
            }
            if let Some((_, component)) = choice {
                self.include(network, index, state, component, round, scratch);
            }
        }
        true
    }

    /// Adds every rule that a component can take part in from where it stands.
    fn include(
        &self,
        network: &Network,
        index: &FormatIndex,
        state: &[u64],
        component: u32,
        round: u32,
        scratch: &mut Scratch,
    ) {
        if scratch.component_mark[component as usize] == round {
            return;
        }
        scratch.component_mark[component as usize] = round;
        let machine = &network.components[component as usize].machine;
        let local = network.layout.get(state, field(component)) as u32;
        let first = index.first[component as usize] as usize;
        let mut last = u32::MAX;
        for at in machine.span(local) {
            let label = machine.label(at);
            if label == last {
                continue;
            }
            last = label;
            let at = first + label as usize;
            for i in index.offsets[at]..index.offsets[at + 1] {
                let rule = index.rules[i as usize];
                if scratch.rule_mark[rule as usize] != round {
                    scratch.rule_mark[rule as usize] = round;
                    scratch.todo.push(rule);
                }
            }
        }
    }
}

impl FormatIndex {
    fn new(network: &Network, format_id: usize, all_invisible: bool) -> Self {
        let format = &network.formats[format_id];
        let mut first = Vec::with_capacity(network.components.len());
        let mut total = 0u32;
        for component in &network.components {
            first.push(total);
            total += component.machine.alphabet.len() as u32;
        }
        let mut offsets = vec![0u32; total as usize + 1];
        let each = |visit: &mut dyn FnMut(usize, u32)| {
            for (at, rule) in format.rules.iter().enumerate() {
                for &(component, label) in format.actions(rule) {
                    visit(
                        first[component as usize] as usize + label as usize,
                        at as u32,
                    );
                }
            }
        };
        each(&mut |place, _| offsets[place + 1] += 1);
        for i in 0..total as usize {
            offsets[i + 1] += offsets[i];
        }
        let mut fill = offsets.clone();
        let mut rules = vec![0u32; offsets[total as usize] as usize];
        each(&mut |place, rule| {
            rules[fill[place] as usize] = rule;
            fill[place] += 1;
        });
        let changers = (0..format.rules.len() as u32)
            .filter(|&rule| format.rules[rule as usize].next as usize != format_id)
            .collect();
        let mut watched = vec![None; network.components.len()];
        let mut refused = vec![false; format.rules.len()];
        if !all_invisible {
            let cyclic = cyclic_rules(network, format_id, |rule| rule.event == EventId::TAU);
            watch(network, format_id, &cyclic, &mut watched, &mut refused);
        }
        FormatIndex {
            first,
            offsets,
            rules,
            changers,
            watched,
            refused,
        }
    }
}

/// Chooses components such that every cyclic rule moves one of them, the busiest first, and
/// finds their back edges: every cycle goes through one.
fn watch(
    network: &Network,
    format_id: usize,
    cyclic: &[bool],
    watched: &mut [Option<Vec<bool>>],
    refused: &mut [bool],
) {
    let format = &network.formats[format_id];
    let mut open: Vec<usize> = (0..cyclic.len()).filter(|&rule| cyclic[rule]).collect();
    while !open.is_empty() {
        let mut count = vec![0usize; network.components.len()];
        for &rule in &open {
            for &(component, _) in format.actions(&format.rules[rule]) {
                count[component as usize] += 1;
            }
        }
        let busiest = (0..count.len()).rev().max_by_key(|&c| count[c]);
        let Some(busiest) = busiest.filter(|&c| count[c] > 0) else {
            for rule in open {
                refused[rule] = true;
            }
            return;
        };
        open.retain(|&rule| {
            format
                .actions(&format.rules[rule])
                .iter()
                .all(|a| a.0 as usize != busiest)
        });
        watched[busiest] = Some(back_edges(&network.components[busiest].machine));
    }
}

/// For each transition, whether a depth-first search finds that it closes a cycle.
fn back_edges(machine: &crate::engine::machine::Machine) -> Vec<bool> {
    const OPEN: u8 = 1;
    const CLOSED: u8 = 2;
    let count = machine.span(machine.len() as u32 - 1).end;
    let mut back = vec![false; count];
    let mut colour = vec![0u8; machine.len()];
    for root in 0..machine.len() as u32 {
        if colour[root as usize] != 0 {
            continue;
        }
        colour[root as usize] = OPEN;
        let mut stack = vec![(root, machine.span(root))];
        while let Some((state, span)) = stack.last_mut() {
            let Some(at) = span.next() else {
                colour[*state as usize] = CLOSED;
                stack.pop();
                continue;
            };
            let to = machine.target(at);
            match colour[to as usize] {
                OPEN => back[at] = true,
                CLOSED => {}
                _ => {
                    colour[to as usize] = OPEN;
                    stack.push((to, machine.span(to)));
                }
            }
        }
    }
    back
}
