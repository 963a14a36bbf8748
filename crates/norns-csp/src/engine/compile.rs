//! From a process to its network: splits it, builds the machines of the components, derives the
//! rules and indexes them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::CheckError;
use crate::engine::budget::{Activity, Meter, Spent};
use crate::engine::compress;
use crate::engine::context::Context;
use crate::engine::explore::Keep;
use crate::engine::layout::Layout;
use crate::engine::lts::Lts;
use crate::engine::machine::Machine;
use crate::engine::network::{Component, Format, Lead, Network, Rule, TERMINATED, bits_for};
use crate::engine::normal::{Acceptances, BelowDivergence, NormalForm};
use crate::engine::semantics::Semantics;
use crate::engine::shape::{NodeId, Shapes, Split};
use crate::engine::watchdog::watchdog;
use crate::event::EventId;
use crate::process::{Compression, ProcId, Process};

// Past these, operators that change are not split; the process becomes fewer, larger components.
const MAX_FORMATS: usize = 512;
const MAX_RULES: usize = 4_000_000;

// A rule while it is derived, with its actions; in the end it takes a quarter of that.
const BYTES_PER_RULE: u64 = 160;

// Remembered transitions of terms are dropped after a component when they take more than this.
const SEMANTICS_BYTES: u64 = 64 << 20;

// States of a compression inside a recursion, and of all those that were explored in vain.
const MAX_INNER: u64 = 30_000;
const MAX_WASTED: u64 = 20 * MAX_INNER;

// How many names a compression may stand behind to be seen as one.
const MAX_CALLS: usize = 32;

/// Which semantic model the result is compared in: it decides which compressions keep the answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Observed {
    /// Traces, failures, divergences.
    Failures,
    /// Also what a process does after a refusal was seen. Compressions that are only correct for
    /// failures are replaced by one that respects delay bisimulation.
    AfterRefusal,
}

/// Compiles processes; remembers the components it has built.
#[derive(Default)]
pub struct Compiler {
    semantics: Semantics,
    machines: FxHashMap<(ProcId, Observed), Arc<Machine>>,
    // Compressions and the like that are being built, outermost first. One that needs itself is
    // explored term by term instead.
    building: Vec<ProcId>,
    // The model for which `semantics` has built compressions.
    observed: Option<Observed>,
    // States that were explored of compressions that turned out to be too large.
    wasted: u64,
}

/// What a compilation may spend and has to respect.
#[derive(Clone, Copy)]
pub struct Terms<'m> {
    pub meter: &'m Meter,
    pub observed: Observed,
}

impl Compiler {
    /// Starts a new check: counts the memory of the components that are kept of others. They are
    /// dropped if they would leave this one too little.
    pub fn begin(&mut self, context: &Context, meter: &Meter) {
        self.wasted = 0;
        let machines: u64 = self.machines.values().map(|m| m.bytes()).sum();
        let mut kept = machines + self.semantics.bytes();
        if meter.byte_limit().is_some_and(|limit| kept > limit / 4) {
            self.machines.clear();
            self.semantics.clear();
            kept = self.semantics.bytes();
        }
        meter.keep(0, kept + context.bytes());
    }

    /// The network of a process.
    pub fn network(
        &mut self,
        context: &mut Context,
        process: ProcId,
        terms: Terms,
    ) -> Result<Network, CheckError> {
        if let Some(network) = self.split(context, process, Split::Everything, terms)? {
            return Ok(network);
        }
        if let Some(network) = self.split(context, process, Split::ParallelOnly, terms)? {
            return Ok(network);
        }
        let message = match terms.meter.byte_limit() {
            Some(bytes) => format!(
                "the budget of {} MB ended while joining the components, which have too many ways \
                 to act together",
                bytes >> 20
            ),
            None => format!(
                "the components have more than {MAX_RULES} ways to act together; this is too many to list"
            ),
        };
        Err(CheckError::Spent(Spent(message)))
    }

    /// How many rules a network may have.
    fn most_rules(split: Split, meter: &Meter) -> usize {
        let room = meter.bytes_left().map(|bytes| bytes / BYTES_PER_RULE);
        let room = room.map(|rules| usize::try_from(rules).unwrap_or(usize::MAX));
        match split {
            Split::Everything => room.map_or(MAX_RULES, |room| room.min(MAX_RULES)),
            Split::ParallelOnly => room.unwrap_or(MAX_RULES).min(u32::MAX as usize / 4),
        }
    }

    /// Splits a process; none if that gives too many formats or rules.
    fn split(
        &mut self,
        context: &mut Context,
        process: ProcId,
        split: Split,
        terms: Terms,
    ) -> Result<Option<Network>, CheckError> {
        let mut shapes = Shapes::default();
        let root = shapes.build(context, process, split)?;
        let used = shapes.leaves_of(root);
        let mut components = Vec::with_capacity(used.len());
        let mut number = vec![u32::MAX; shapes.leaves.len()];
        let leaves = shapes.leaves.clone();
        for &leaf in &used {
            number[leaf as usize] = components.len() as u32;
            let of = &leaves[leaf as usize];
            let machine = self.machine(context, of.process, terms);
            let name = of
                .name
                .clone()
                .unwrap_or_else(|| context.sketch(of.process));
            let machine = machine.map_err(|error| match error {
                // The innermost component is named.
                CheckError::Spent(Spent(why)) if !why.contains(" while ") => {
                    CheckError::Spent(Spent(format!("{why} while building the component {name}")))
                }
                other => other,
            })?;
            components.push(Component {
                name,
                process: of.process,
                machine,
            });
        }
        name_apart(&mut components);
        let alphabet = |leaf: u32| {
            components[number[leaf as usize] as usize]
                .machine
                .alphabet
                .clone()
        };
        let omega = shapes.omega();
        let mut ids: FxHashMap<NodeId, u32> = FxHashMap::default();
        ids.insert(root, 0);
        let mut order = vec![root];
        let mut formats = Vec::new();
        let mut total = 0;
        let most_rules = Self::most_rules(split, terms.meter);
        while formats.len() < order.len() {
            if split == Split::Everything && order.len() > MAX_FORMATS {
                return Ok(None);
            }
            // The time for compiling may have ended with a component that was cut short.
            if let Some(Spent(why)) = terms.meter.spent(Activity::Searching, 0, 0) {
                let why = format!("{why} while joining the components");
                return Err(CheckError::Spent(Spent(why)));
            }
            let node = order[formats.len()];
            let room = most_rules - total;
            let Some(rules) = shapes.rules(context, &alphabet, node, room, terms.meter) else {
                return Ok(None);
            };
            total += rules.len();
            let here = shapes.leaves_of(node);
            let mut format = Format {
                present: here.iter().map(|&leaf| number[leaf as usize]).collect(),
                ..Format::default()
            };
            let mut resets: FxHashMap<NodeId, u32> = FxHashMap::default();
            let mut built = Vec::with_capacity(rules.len());
            for rule in rules {
                let next = if rule.next == omega {
                    TERMINATED
                } else {
                    *ids.entry(rule.next).or_insert_with(|| {
                        order.push(rule.next);
                        order.len() as u32 - 1
                    })
                };
                let resets = *resets.entry(rule.next).or_insert_with(|| {
                    let there = shapes.leaves_of(rule.next);
                    let dropped = here.iter().filter(|l| there.binary_search(l).is_err());
                    format
                        .resets
                        .push(dropped.map(|&l| number[l as usize]).collect());
                    format.resets.len() as u32 - 1
                });
                let mut actions: Vec<(u32, u32)> = rule
                    .actions
                    .iter()
                    .map(|&(leaf, event)| {
                        let component = number[leaf as usize];
                        let label = components[component as usize]
                            .machine
                            .alphabet
                            .binary_search(&event)
                            .expect("rules use the events of their leaves");
                        (component, label as u32)
                    })
                    .collect();
                if let Some(leader) = (0..actions.len()).min_by(|&a, &b| {
                    let breadth = |i: usize| components[actions[i].0 as usize].machine.breadth();
                    breadth(a).total_cmp(&breadth(b))
                }) {
                    actions.swap(0, leader);
                }
                built.push((actions, rule.event, next, resets));
            }
            // Leader and label first; then tau before others; then a fixed order.
            built.sort_by(|a, b| {
                let key = |r: &(Vec<(u32, u32)>, EventId, u32, u32)| {
                    (r.0.first().copied(), r.1 != EventId::TAU)
                };
                key(a)
                    .cmp(&key(b))
                    .then_with(|| (a.1, &a.0, a.2).cmp(&(b.1, &b.0, b.2)))
            });
            built.dedup();
            for (actions, event, next, resets) in built {
                let from = format.actions.len() as u32;
                format.actions.extend(actions);
                let to = format.actions.len() as u32;
                format.rules.push(Rule {
                    event,
                    next,
                    from,
                    to,
                    resets,
                });
            }
            index(&mut format, &components);
            formats.push(format);
        }
        let mut bits = vec![0, bits_for(formats.len())];
        bits.extend(components.iter().map(|c| bits_for(c.machine.len())));
        let cut = components.iter().any(|c| !c.machine.unexplored.is_empty());
        Ok(Some(Network {
            components,
            formats,
            layout: Layout::new(&bits),
            cut,
        }))
    }

    fn machine(
        &mut self,
        context: &mut Context,
        process: ProcId,
        terms: Terms,
    ) -> Result<Arc<Machine>, CheckError> {
        let key = (process, terms.observed);
        if let Some(machine) = self.machines.get(&key) {
            terms.meter.keep(machine.len() as u64, 0);
            return Ok(machine.clone());
        }
        let lts = self.lts(context, process, terms)?;
        let machine = Arc::new(Machine::new(&lts));
        terms.meter.keep(0, machine.bytes());
        // One that was cut short may have had only a part of the budget.
        if machine.unexplored.is_empty() {
            self.machines.insert(key, machine.clone());
        }
        let remembered = self.semantics.bytes();
        if remembered > SEMANTICS_BYTES {
            self.semantics.clear();
            terms.meter.release(remembered);
        }
        Ok(machine)
    }

    /// The transition system of a component: from the network below it for a compression or an
    /// operator that looks at whole states, otherwise from the firing rules of its terms.
    fn lts(
        &mut self,
        context: &mut Context,
        process: ProcId,
        terms: Terms,
    ) -> Result<Lts, CheckError> {
        // Such an operator may stand behind calls.
        let mut below = process;
        let mut seen = Vec::new();
        while let Process::Call(call) = context.processes.get(below)
            && !seen.contains(&call)
        {
            seen.push(call);
            below = context.processes.unfold(call, context.definitions)?;
        }
        if !self.building.contains(&below) {
            self.building.push(below);
            let built = self.whole(context, below, terms);
            self.building.pop();
            if let Some(lts) = built? {
                return Ok(lts);
            }
        }
        if self.observed.replace(terms.observed) != Some(terms.observed) {
            self.semantics = Semantics::default();
        }
        // Compressions inside are built with another table of transitions.
        let mut semantics = std::mem::take(&mut self.semantics);
        let mut build = |context: &mut Context, term| self.inner(context, term, terms);
        let lts = Lts::of_process(context, &mut semantics, process, terms.meter, &mut build);
        self.semantics = semantics;
        let lts = lts?;
        Ok(if compress::pays(&lts) {
            compress::sbisim(&lts, terms.meter).map_err(CheckError::Spent)?
        } else {
            lts
        })
    }

    /// The transition system of a compression inside a term that is explored state by state: a
    /// recursion, say, that runs a compressed process again and again. None if it needs itself or is
    /// large, since it may go on with all that follows it.
    fn inner(
        &mut self,
        context: &mut Context,
        term: ProcId,
        terms: Terms,
    ) -> Result<Option<Lts>, CheckError> {
        if self.wasted > MAX_WASTED || self.building.contains(&term) {
            return Ok(None);
        }
        let meter = terms.meter.part(MAX_INNER);
        let part = Terms {
            meter: &meter,
            observed: terms.observed,
        };
        self.building.push(term);
        let built = self.whole(context, term, part);
        self.building.pop();
        terms.meter.keep_part(&meter);
        match built {
            Ok(Some(lts)) if lts.unexplored.is_empty() => return Ok(Some(lts)),
            Ok(_) | Err(CheckError::Spent(_)) => self.wasted += MAX_INNER,
            // An error counts where the process comes to it.
            Err(_) => {}
        }
        match terms.meter.spent(Activity::Compiling, 0, 0) {
            Some(spent) => Err(CheckError::Spent(spent)),
            None => Ok(None),
        }
    }

    /// The transition system of an operator that is applied to a whole network; none for other
    /// operators.
    fn whole(
        &mut self,
        context: &mut Context,
        process: ProcId,
        terms: Terms,
    ) -> Result<Option<Lts>, CheckError> {
        Ok(Some(match context.processes.get(process) {
            Process::Compress(compression, inner) => {
                let lts = match compression {
                    Compression::Explicate => {
                        let network = self.network(context, inner, terms)?;
                        network.explore(Keep::All, terms.meter)
                    }
                    _ => {
                        let inner = without_sbisim(context, inner)?;
                        self.explicit(context, inner, terms)?
                    }
                };
                let compression = match (compression, terms.observed) {
                    (Compression::Normal | Compression::Diamond, Observed::AfterRefusal) => {
                        Compression::Dbisim
                    }
                    (compression, _) => compression,
                };
                if lts.unexplored.is_empty() {
                    compress::compress_within(&lts, compression, terms.meter)
                        .map_err(CheckError::Spent)?
                } else {
                    lts
                }
            }
            Process::Prioritise(inner, priority) => {
                let priority = context.processes.get_priority(priority).clone();
                let network = self.network(context, inner, terms)?;
                network.explore(Keep::Highest(&priority), terms.meter)
            }
            Process::Resolve(how, inner) => {
                let network = self.network(context, inner, terms)?;
                network.explore(Keep::Resolved(how), terms.meter)
            }
            Process::Watchdog(what, spec, events, bark) => {
                let spec = self.explicit(context, spec, terms)?;
                if let Some(spent) = spec.spent {
                    return Err(CheckError::Spent(spent));
                }
                let form = NormalForm::new(
                    &spec,
                    BelowDivergence::Itself,
                    Acceptances::Minimal,
                    terms.meter,
                )
                .map_err(CheckError::Spent)?;
                let events = context.processes.get_set(events).clone();
                let members = events.members().expect("built with members");
                let members: Vec<EventId> = members.iter().collect();
                watchdog(what, &form, &members, bark)
            }
            _ => return Ok(None),
        }))
    }

    /// A process as one transition system that no model tells from its product.
    pub fn explicit(
        &mut self,
        context: &mut Context,
        process: ProcId,
        terms: Terms,
    ) -> Result<Lts, CheckError> {
        let network = self.network(context, process, terms)?;
        Ok(network.explicit(terms.meter))
    }
}

/// `P \ A` for `sbisim(P) \ A`, and the like with renaming: the same under a compression around
/// it, but the hidden events are known when P is explored.
fn without_sbisim(context: &mut Context, process: ProcId) -> Result<ProcId, CheckError> {
    let mut around = Vec::new();
    let mut below = process;
    let mut calls = 0;
    while calls < MAX_CALLS {
        below = match context.processes.get(below) {
            Process::Hide(inner, _) | Process::Rename(inner, _) => {
                around.push(below);
                inner
            }
            Process::Call(call) => {
                calls += 1;
                context.processes.unfold(call, context.definitions)?
            }
            Process::Compress(Compression::Sbisim, inner) => {
                let rebuilt = around.iter().rev().fold(inner, |inner, &outer| {
                    let outer = match context.processes.get(outer) {
                        Process::Hide(_, set) => Process::Hide(inner, set),
                        Process::Rename(_, renaming) => Process::Rename(inner, renaming),
                        _ => unreachable!("only these were put around"),
                    };
                    context.processes.intern(outer)
                });
                return Ok(rebuilt);
            }
            _ => break,
        };
    }
    Ok(process)
}

/// Numbers components of equal names.
fn name_apart(components: &mut [Component]) {
    let mut count: FxHashMap<String, usize> = FxHashMap::default();
    for component in components.iter() {
        *count.entry(component.name.clone()).or_default() += 1;
    }
    let mut next: FxHashMap<String, usize> = FxHashMap::default();
    for component in components {
        if count[&component.name] > 1 {
            let number = next.entry(component.name.clone()).or_default();
            *number += 1;
            component.name = format!("{} #{number}", component.name);
        }
    }
}

fn index(format: &mut Format, components: &[Component]) {
    format.free = format.rules.iter().take_while(|r| r.from == r.to).count();
    let mut at = format.free;
    while at < format.rules.len() {
        let (component, label) = format.actions(&format.rules[at])[0];
        let start = at;
        let same = |format: &Format, at: usize| {
            at < format.rules.len() && format.actions(&format.rules[at])[0] == (component, label)
        };
        while same(format, at) && format.rules[at].event == EventId::TAU {
            at += 1;
        }
        let middle = at;
        while same(format, at) {
            at += 1;
        }
        if format
            .leads
            .last()
            .is_none_or(|lead| lead.component != component)
        {
            let labels = components[component as usize].machine.alphabet.len();
            format.leads.push(Lead {
                component,
                ranges: vec![(0, 0, 0); labels],
            });
        }
        let lead = format.leads.last_mut().expect("just pushed");
        lead.ranges[label as usize] = (start as u32, middle as u32, at as u32);
    }
    let mut active: Vec<u32> = format.actions.iter().map(|a| a.0).collect();
    active.sort_unstable();
    active.dedup();
    format.active = active;
}
