//! The counterexample of a state that a search found: the steps that lead to it, what each
//! component did in them, and what each offers at the end.

use crate::engine::counterexample::{Counterexample, Step, Violation};
use crate::engine::network::{FORMAT_FIELD, Network, Rule, SPEC_FIELD, Which, field};
use crate::engine::search::{Found, Kind, Search};
use crate::event::EventId;

/// The events that a state offers, tau left out.
pub fn offered(network: &Network, state: &[u64]) -> Vec<EventId> {
    let mut events = Vec::new();
    network.enabled_rules(state, Which::NotTau, |_, rule| {
        events.push(rule.event);
        true
    });
    events.sort_unstable();
    events.dedup();
    events
}

/// The counterexample that ends in `found`.
pub fn counterexample(
    network: &Network,
    search: &Search,
    found: &Found,
    explain: &dyn Fn(&Network, &Found) -> Violation,
) -> Counterexample {
    let mut states = match found.way.is_empty() {
        true => search.path(found.level, &found.state),
        false => found.way.clone(),
    };
    let mut repeats = Vec::new();
    if found.kind == Kind::Divergence {
        let (way, again) = search.divergent_path(found);
        states.pop();
        states.extend(way);
        repeats = steps_along(network, search, &again);
    }
    let mut steps = steps_along(network, search, &states);
    let last = states.last().expect("a path has a state").clone();
    if let Some(event) = found.event {
        let mut parts = None;
        network.enabled_rules(&last, Which::NotTau, |_, rule| {
            if rule.event == event && parts.is_none() {
                parts = Some(step(network, &last, rule));
            }
            parts.is_none()
        });
        steps.push(parts.expect("the event that was found is enabled"));
    }
    let violation = if found.kind == Kind::Divergence {
        Violation::Divergence { repeats }
    } else {
        explain(network, found)
    };
    let format = network.layout.get(&last, FORMAT_FIELD) as usize;
    let waiting = network.formats[format]
        .active
        .iter()
        .map(|&c| {
            let machine = &network.components[c as usize].machine;
            let local = network.layout.get(&last, field(c)) as u32;
            let mut events: Vec<EventId> = machine
                .span(local)
                .map(|at| machine.alphabet[machine.label(at) as usize])
                .collect();
            events.dedup();
            (c as usize, events)
        })
        .collect();
    let allowed = match search.spec() {
        None => Vec::new(),
        Some(spec) => states
            .iter()
            .map(|state| {
                let node = network.layout.get(state, SPEC_FIELD) as u32;
                spec.steps(node).map(|step| step.0).collect()
            })
            .collect(),
    };
    Counterexample {
        components: network.components.iter().map(|c| c.name.clone()).collect(),
        origins: network.components.iter().map(|c| c.process).collect(),
        allowed,
        steps,
        violation,
        waiting,
        shortest: !search.is_reduced() && found.way.is_empty(),
    }
}

fn steps_along(network: &Network, search: &Search, states: &[Vec<u64>]) -> Vec<Step> {
    states
        .windows(2)
        .map(|pair| step(network, &pair[0], search.rule_between(&pair[0], &pair[1])))
        .collect()
}

fn step(network: &Network, state: &[u64], rule: &Rule) -> Step {
    let mut parts: Vec<(usize, EventId)> = network
        .format(state)
        .actions(rule)
        .iter()
        .map(|&(component, label)| {
            let machine = &network.components[component as usize].machine;
            (component as usize, machine.alphabet[label as usize])
        })
        .collect();
    parts.sort_unstable();
    Step {
        event: rule.event,
        parts,
        inside: Vec::new(),
    }
}
