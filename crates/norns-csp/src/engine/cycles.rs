//! Which rules can be part of a cycle of the product, found on the components alone.
//!
//! On a cycle every component comes back to where it was, so each of its steps lies in a
//! strongly connected component of its own transition system. A rule for which some component has
//! no such step is on no cycle. Removing such rules removes transitions from the components, so this
//! is repeated until nothing changes. A recorded thread has no cycle, so of a network of such threads
//! and their mutexes no rule remains.

use crate::engine::network::{Network, Rule};
use crate::graph::strongly_connected;

/// For each rule of a format, whether rules that pass `filter` and stay in this format can
/// make a cycle with it.
pub fn cyclic_rules(network: &Network, format: usize, filter: impl Fn(&Rule) -> bool) -> Vec<bool> {
    let rules = &network.formats[format].rules;
    let mut alive: Vec<bool> = rules
        .iter()
        .map(|rule| rule.next as usize == format && filter(rule))
        .collect();
    loop {
        // For each component, which labels are still used.
        let mut used: Vec<Vec<bool>> = network
            .components
            .iter()
            .map(|c| vec![false; c.machine.alphabet.len()])
            .collect();
        for (rule, _) in rules.iter().zip(&alive).filter(|(_, alive)| **alive) {
            for &(component, label) in network.formats[format].actions(rule) {
                used[component as usize][label as usize] = true;
            }
        }
        // For each component, which labels occur inside a strongly connected part.
        let mut inside: Vec<Vec<bool>> = Vec::new();
        for (component, used) in network.components.iter().zip(&used) {
            let machine = &component.machine;
            let mut on_cycle = vec![false; used.len()];
            if used.contains(&true) {
                let part = strongly_connected(machine.len(), |s| {
                    machine
                        .span(s)
                        .filter(|&at| used[machine.label(at) as usize])
                        .map(|at| machine.target(at))
                });
                for s in 0..machine.len() as u32 {
                    for at in machine.span(s) {
                        if part[s as usize] == part[machine.target(at) as usize] {
                            on_cycle[machine.label(at) as usize] = true;
                        }
                    }
                }
            }
            inside.push(on_cycle);
        }
        let mut changed = false;
        for (rule, alive) in rules.iter().zip(&mut alive) {
            let possible = network.formats[format]
                .actions(rule)
                .iter()
                .all(|&(component, label)| inside[component as usize][label as usize]);
            if *alive && !possible {
                *alive = false;
                changed = true;
            }
        }
        if !changed {
            return alive;
        }
    }
}

/// Whether rules that pass `filter` might form a cycle.
pub fn possible(network: &Network, filter: impl Fn(&Rule) -> bool + Copy) -> bool {
    // A cycle through several formats is not looked at more closely.
    let next = |format: u32| {
        network.formats[format as usize]
            .rules
            .iter()
            .filter(move |rule| filter(rule))
            .map(|rule| rule.next)
            .filter(move |&to| to != crate::engine::network::TERMINATED && to != format)
    };
    let part = strongly_connected(network.formats.len(), next);
    let mut size = vec![0; network.formats.len()];
    for &p in &part {
        size[p as usize] += 1;
    }
    size.iter().any(|&size| size > 1)
        || (0..network.formats.len())
            .any(|format| cyclic_rules(network, format, filter).contains(&true))
}
