//! A compiled process: components, formats, and the rules of each format, indexed so that the
//! enabled rules of a state are found by looking at few components.
//!
//! Every rule is led by one of its components, the one with the fewest transitions a state: a
//! thread leads its lock operations, and not the mutex, which offers them to all threads.

use std::sync::Arc;

use crate::engine::budget::Spent;
use crate::engine::layout::Layout;
use crate::engine::machine::Machine;
use crate::event::EventId;
use crate::process::ProcId;

/// One component.
#[derive(Clone, Debug)]
pub struct Component {
    pub name: String,
    /// The term that it started as.
    pub process: ProcId,
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
    pub(super) from: u32,
    pub(super) to: u32,
    // `resets[…]`: components that the next format does not use.
    pub(super) resets: u32,
}

#[derive(Debug)]
pub(super) struct Lead {
    pub component: u32,
    // For each label: rules `start..middle` are tau, `middle..end` are not.
    pub ranges: Vec<(u32, u32, u32)>,
}

/// A state of the static part, with its rules.
#[derive(Debug, Default)]
pub struct Format {
    // Rules without components first, then by leader, label, and tau before the rest.
    pub rules: Vec<Rule>,
    pub(super) actions: Vec<(u32, u32)>,
    pub(super) free: usize,
    pub(super) leads: Vec<Lead>,
    pub(super) resets: Vec<Vec<u32>>,
    /// Components that take part in some rule; sorted.
    pub active: Vec<u32>,
    /// Components that are there, whether or not some rule needs them; sorted. One that was cut
    /// short before its first transition takes part in no rule.
    pub present: Vec<u32>,
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

pub fn bits_for(values: usize) -> u32 {
    usize::BITS - values.saturating_sub(1).leading_zeros()
}

impl Network {
    /// Memory of the rules; that of the components is counted where they are built.
    pub fn rule_bytes(&self) -> u64 {
        let of = |format: &Format| {
            size_of_val(&format.rules[..])
                + size_of_val(&format.actions[..])
                + format
                    .leads
                    .iter()
                    .map(|lead| size_of_val(&lead.ranges[..]))
                    .sum::<usize>()
        };
        self.formats.iter().map(of).sum::<usize>() as u64
    }

    /// The state in which everything starts.
    pub fn initial(&self) -> Vec<u64> {
        vec![0; self.layout.words]
    }

    /// Lays states out again, with so many bits for the node of the specification.
    pub fn set_spec_bits(&mut self, spec: u32) {
        let mut bits = vec![spec, bits_for(self.formats.len())];
        bits.extend(self.components.iter().map(|c| bits_for(c.machine.len())));
        self.layout = Layout::new(&bits);
    }

    pub fn format(&self, state: &[u64]) -> &Format {
        &self.formats[self.layout.get(state, FORMAT_FIELD) as usize]
    }

    /// The component that was cut short, and what ended its exploration.
    pub fn cut_component(&self) -> Option<(&Component, &Spent)> {
        self.components
            .iter()
            .find_map(|c| c.machine.spent.as_ref().map(|spent| (c, spent)))
    }

    /// Whether a component stands in a state that was not explored.
    pub fn at_cut(&self, state: &[u64]) -> bool {
        self.cut
            && self.format(state).present.iter().any(|&c| {
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

    /// Whether a state is unstable.
    pub fn has_tau(&self, state: &[u64]) -> bool {
        let mut any = false;
        self.enabled_rules(state, Which::Tau, |_, _| {
            any = true;
            false
        });
        any
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
}
