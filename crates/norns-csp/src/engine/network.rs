//! A compiled process: components, formats, and the rules of each format, indexed so that the
//! enabled rules of a state are found by looking at few components.
//!
//! Every rule is led by one of its components, the one with the fewest transitions a state: a
//! thread leads its lock operations, not the mutex, which offers itself to everybody.

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::CheckError;
use crate::engine::compress;
use crate::engine::layout::Layout;
use crate::engine::lts::Lts;
use crate::engine::machine::Machine;
use crate::engine::semantics::{Context, Semantics};
use crate::engine::shape::{NodeId, Shapes, Split};
use crate::event::EventId;
use crate::process::{ProcId, Process};

/// One component.
#[derive(Clone, Debug)]
pub struct Component {
    pub name: String,
    pub machine: Arc<Machine>,
}

/// The format after termination.
pub const TERMINATED: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub struct Rule {
    pub event: EventId,
    /// The format after it, or [`TERMINATED`].
    pub next: u32,
    // `actions[from..to]` of the format: (component, label); the leader first.
    from: u32,
    to: u32,
    // `resets[…]`: components that the next format does not use.
    resets: u32,
}

#[derive(Debug)]
struct Lead {
    component: u32,
    // For each label: rules `start..middle` are tau, `middle..end` are not.
    ranges: Vec<(u32, u32, u32)>,
}

/// A state of the static part, with its rules.
#[derive(Debug, Default)]
pub struct Format {
    // Rules without components first, then by leader, label, and tau before the rest.
    pub rules: Vec<Rule>,
    actions: Vec<(u32, u32)>,
    free: usize,
    leads: Vec<Lead>,
    resets: Vec<Vec<u32>>,
    /// Components that take part in some rule.
    pub active: Vec<u32>,
}

impl Format {
    /// The components of a rule and their labels.
    #[inline]
    pub fn actions(&self, rule: &Rule) -> &[(u32, u32)] {
        &self.actions[rule.from as usize..rule.to as usize]
    }
}

#[derive(Debug)]
pub struct Network {
    pub components: Vec<Component>,
    pub formats: Vec<Format>,
    /// The layout of states: field 0 for the specification, 1 the format, then components.
    pub layout: Layout,
    /// Whether some component was not explored to its end.
    pub cut: bool,
}

pub const SPEC_FIELD: usize = 0;
pub const FORMAT_FIELD: usize = 1;

#[inline]
pub const fn field(component: u32) -> usize {
    component as usize + 2
}

/// Which rules to fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    Tau,
    NotTau,
    All,
}

/// How large a component or a specification may become while compiling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub states: usize,
    pub until: Option<Instant>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            states: 2_000_000,
            until: None,
        }
    }
}

impl Limits {
    /// Whether a system with this many states has to be cut short here.
    pub fn reached(&self, states: usize) -> bool {
        states >= self.states
            || states.is_multiple_of(1024) && self.until.is_some_and(|until| Instant::now() > until)
    }
}

const MAX_FORMATS: usize = 512;
const MAX_RULES: usize = 4_000_000;

/// Compiles processes; remembers the components it has built.
#[derive(Default)]
pub struct Compiler {
    semantics: Semantics,
    machines: FxHashMap<ProcId, Arc<Machine>>,
    limits: Limits,
}

impl Compiler {
    /// Sets the limits; components that were cut short under others are forgotten.
    pub fn set_limits(&mut self, limits: Limits) {
        self.machines
            .retain(|_, machine| machine.unexplored.is_empty());
        self.limits = limits;
    }

    /// The network of a process.
    pub fn network(
        &mut self,
        context: &mut Context,
        process: ProcId,
    ) -> Result<Network, CheckError> {
        match self.split(context, process, Split::Everything)? {
            Some(network) => Ok(network),
            None => Ok(self
                .split(context, process, Split::ParallelOnly)?
                .expect("without control operators there is one format")),
        }
    }

    fn split(
        &mut self,
        context: &mut Context,
        process: ProcId,
        split: Split,
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
            let machine = self.machine(context, of.process)?;
            let name = of
                .name
                .clone()
                .unwrap_or_else(|| format!("process {}", leaf + 1));
            components.push(Component { name, machine });
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
        while formats.len() < order.len() {
            if split == Split::Everything && (order.len() > MAX_FORMATS || total > MAX_RULES) {
                return Ok(None);
            }
            let node = order[formats.len()];
            let rules = shapes.rules(context, &alphabet, node);
            total += rules.len();
            let here = shapes.leaves_of(node);
            let mut format = Format::default();
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
    ) -> Result<Arc<Machine>, CheckError> {
        if let Some(machine) = self.machines.get(&process) {
            return Ok(machine.clone());
        }
        let lts = self.lts(context, process)?;
        let machine = Arc::new(Machine::new(&lts));
        self.machines.insert(process, machine.clone());
        Ok(machine)
    }

    /// The transition system of a component: from the firing rules of its terms, or, for a
    /// compression, from the network below it.
    fn lts(&mut self, context: &mut Context, process: ProcId) -> Result<Lts, CheckError> {
        // A compression may stand behind calls.
        let mut below = process;
        let mut seen = Vec::new();
        while let Process::Call(call) = context.processes.get(below)
            && !seen.contains(&call)
        {
            seen.push(call);
            below = context.processes.unfold(call, context.definitions)?;
        }
        if let Process::Compress(compression, inner) = context.processes.get(below) {
            let lts = self.explicit(context, inner)?;
            return Ok(if lts.unexplored.is_empty() {
                compress::compress(&lts, compression)
            } else {
                lts
            });
        }
        let lts = Lts::of_process(context, &mut self.semantics, process, &self.limits)?;
        Ok(if compress::pays(&lts) {
            compress::sbisim(&lts)
        } else {
            lts
        })
    }

    /// The whole product of a process, as one transition system.
    pub fn explicit(&mut self, context: &mut Context, process: ProcId) -> Result<Lts, CheckError> {
        let network = self.network(context, process)?;
        Ok(network.explore(&self.limits))
    }
}

pub fn bits_for(values: usize) -> u32 {
    usize::BITS - values.saturating_sub(1).leading_zeros()
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

impl Network {
    /// The state in which everything starts.
    pub fn initial(&self) -> Vec<u64> {
        vec![0; self.layout.words]
    }

    /// Gives the specification's field so many bits.
    pub fn set_spec_bits(&mut self, spec: u32) {
        let mut bits = vec![spec, bits_for(self.formats.len())];
        bits.extend(self.components.iter().map(|c| bits_for(c.machine.len())));
        self.layout = Layout::new(&bits);
    }

    pub fn format(&self, state: &[u64]) -> &Format {
        &self.formats[self.layout.get(state, FORMAT_FIELD) as usize]
    }

    /// Whether a component stands in a state that was not explored.
    pub fn at_cut(&self, state: &[u64]) -> bool {
        self.cut
            && self.format(state).active.iter().any(|&c| {
                let local = self.layout.get(state, field(c)) as u32;
                self.components[c as usize]
                    .machine
                    .unexplored
                    .binary_search(&local)
                    .is_ok()
            })
    }

    /// Whether a rule can fire: each of its components has a transition with its label.
    #[inline]
    pub fn enabled(&self, state: &[u64], actions: &[(u32, u32)]) -> bool {
        actions.iter().all(|&(component, label)| {
            let local = self.layout.get(state, field(component)) as u32;
            !self.components[component as usize]
                .machine
                .find(local, label)
                .is_empty()
        })
    }

    /// Calls `visit` with each enabled rule until it returns false.
    #[inline]
    pub fn enabled_rules(
        &self,
        state: &[u64],
        which: Which,
        mut visit: impl FnMut(usize, &Rule) -> bool,
    ) {
        let format = self.format(state);
        for (at, rule) in format.rules[..format.free].iter().enumerate() {
            let wanted = match which {
                Which::Tau => rule.event == EventId::TAU,
                Which::NotTau => rule.event != EventId::TAU,
                Which::All => true,
            };
            if wanted && !visit(at, rule) {
                return;
            }
        }
        for lead in &format.leads {
            let machine = &self.components[lead.component as usize].machine;
            let local = self.layout.get(state, field(lead.component)) as u32;
            let span = machine.span(local);
            let mut last = u32::MAX;
            for at in span {
                let label = machine.label(at);
                if label == last {
                    continue;
                }
                last = label;
                let (start, middle, end) = lead.ranges[label as usize];
                let range = match which {
                    Which::Tau => start..middle,
                    Which::NotTau => middle..end,
                    Which::All => start..end,
                };
                for at in range {
                    let rule = &format.rules[at as usize];
                    let others = &format.actions[rule.from as usize + 1..rule.to as usize];
                    if self.enabled(state, others) && !visit(at as usize, rule) {
                        return;
                    }
                }
            }
        }
    }

    /// Calls `emit` with each state that an enabled rule leads to. `next` is scratch space of
    /// one state. The field of the specification is copied.
    #[inline]
    pub fn fire(
        &self,
        state: &[u64],
        rule: &Rule,
        next: &mut [u64],
        emit: &mut impl FnMut(&mut [u64]),
    ) {
        let format = self.format(state);
        next.copy_from_slice(state);
        if rule.next == TERMINATED {
            emit(next);
            return;
        }
        let actions = format.actions(rule);
        let mut several = false;
        for &(component, label) in actions {
            let machine = &self.components[component as usize].machine;
            let local = self.layout.get(state, field(component)) as u32;
            let found = machine.find(local, label);
            several |= found.len() > 1;
            self.layout.set(
                next,
                field(component),
                u64::from(machine.target(found.start)),
            );
        }
        let changes = !format.resets[rule.resets as usize].is_empty() || self.formats.len() > 1;
        let finish = |next: &mut [u64]| {
            if changes {
                self.layout.set(next, FORMAT_FIELD, u64::from(rule.next));
                for &component in &format.resets[rule.resets as usize] {
                    self.layout.set(next, field(component), 0);
                }
            }
        };
        if !several {
            finish(next);
            emit(next);
            return;
        }
        let ranges: Vec<_> = actions
            .iter()
            .map(|&(component, label)| {
                let machine = &self.components[component as usize].machine;
                machine.find(self.layout.get(state, field(component)) as u32, label)
            })
            .collect();
        let mut choice: Vec<usize> = ranges.iter().map(|r| r.start).collect();
        loop {
            next.copy_from_slice(state);
            for (&(component, _), &at) in actions.iter().zip(&choice) {
                let machine = &self.components[component as usize].machine;
                self.layout
                    .set(next, field(component), u64::from(machine.target(at)));
            }
            finish(next);
            emit(next);
            let Some(d) = (0..choice.len()).find(|&d| choice[d] + 1 < ranges[d].end) else {
                return;
            };
            choice[d] += 1;
            for lower in 0..d {
                choice[lower] = ranges[lower].start;
            }
        }
    }

    /// The whole product, breadth-first, up to the limits.
    pub fn explore(&self, limits: &Limits) -> Lts {
        let words = self.layout.words;
        let mut ids: FxHashMap<Box<[u64]>, u32> = FxHashMap::default();
        let mut order: Vec<Option<Box<[u64]>>> = vec![Some(self.initial().into())];
        ids.insert(self.initial().into(), 0);
        let mut omega = None;
        let mut full = false;
        let mut lts = Lts::start();
        let mut at = 0;
        let mut next = vec![0; words];
        while at < order.len() {
            let Some(state) = order[at].clone() else {
                lts.push(Vec::new());
                at += 1;
                continue;
            };
            if full || limits.reached(at) {
                full = true;
                lts.unexplored.push(at as u32);
                lts.push(Vec::new());
                at += 1;
                continue;
            }
            if self.at_cut(&state) {
                lts.unexplored.push(at as u32);
                lts.push(Vec::new());
                at += 1;
                continue;
            }
            let mut steps = Vec::new();
            self.enabled_rules(&state, Which::All, |_, rule| {
                if rule.next == TERMINATED {
                    let id = *omega.get_or_insert_with(|| {
                        order.push(None);
                        order.len() as u32 - 1
                    });
                    steps.push((rule.event, id));
                    return true;
                }
                self.fire(&state, rule, &mut next, &mut |next| {
                    let id = match ids.get(&*next) {
                        Some(&id) => id,
                        None => {
                            let id = order.len() as u32;
                            ids.insert((&*next).into(), id);
                            order.push(Some((&*next).into()));
                            id
                        }
                    };
                    steps.push((rule.event, id));
                });
                true
            });
            lts.push(steps);
            at += 1;
        }
        lts
    }
}
