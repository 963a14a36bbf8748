//! Watchdogs: a specification turned into a process that runs beside an implementation and
//! notices when it strays (Goldsmith et al. 2003).
//!
//! The watchdog W of S synchronises with an implementation on the watched events A.
//!
//! - `trace_watchdog`: W follows the events that S allows; after any other event of A it does
//!   `bark` and stops. So S [T= P exactly if P [|A|] W never barks, for a P with events in A.
//! - `failure_watchdog`: moreover W chooses a set that meets every acceptance of S, and offers
//!   no event that S allows outside of it. A stable state of P is in order exactly if it offers
//!   an event of each such set, so S [F= P exactly if P [|A|] W neither barks nor deadlocks.
//!   Where S itself may refuse everything, W is never stable.

use std::collections::BTreeSet;

use crate::engine::lts::Lts;
use crate::engine::normal::NormalForm;
use crate::event::EventId;
use crate::process::Watchdog;

/// The watchdog of a specification. Tick is not watched.
pub fn watchdog(what: Watchdog, form: &NormalForm, watched: &[EventId], bark: EventId) -> Lts {
    let mut rows: Vec<Vec<(EventId, u32)>> = Vec::new();
    let nodes = form.len() as u32;
    let (barks, stopped) = (nodes, nodes + 1);
    let mut tests: Vec<Vec<(EventId, u32)>> = Vec::new();
    for node in 0..nodes {
        let allowed: Vec<(EventId, u32)> = form
            .steps(node)
            .filter(|step| watched.binary_search(&step.0).is_ok())
            .collect();
        let wrong = watched
            .iter()
            .filter(|event| !allowed.iter().any(|step| step.0 == **event))
            .map(|&event| (event, barks));
        let mut row: Vec<(EventId, u32)> = wrong.chain(allowed.iter().copied()).collect();
        if what == Watchdog::Failures {
            let refusable = &row[..row.len() - allowed.len()];
            let sets = hitting_sets(&form.acceptances(node));
            let mut choices = Vec::new();
            for set in &sets {
                let test: Vec<(EventId, u32)> = allowed
                    .iter()
                    .filter(|step| set.contains(&step.0))
                    .chain(refusable)
                    .copied()
                    .collect();
                choices.push((EventId::TAU, stopped + 1 + tests.len() as u32));
                tests.push(test);
            }
            if sets.is_empty() {
                // Everything may be refused here.
                choices.push((EventId::TAU, node));
            }
            row.extend(choices);
        }
        rows.push(row);
    }
    rows.push(vec![(bark, stopped)]);
    rows.push(Vec::new());
    rows.append(&mut tests);
    Lts::new(rows)
}

/// The minimal sets that meet each of `acceptances`; none if one of those is empty.
fn hitting_sets(acceptances: &[Vec<EventId>]) -> Vec<BTreeSet<EventId>> {
    let mut sets: Vec<BTreeSet<EventId>> = vec![BTreeSet::new()];
    for acceptance in acceptances {
        let mut longer: BTreeSet<BTreeSet<EventId>> = BTreeSet::new();
        for set in sets {
            if acceptance.iter().any(|event| set.contains(event)) {
                longer.insert(set);
                continue;
            }
            for &event in acceptance {
                let mut set = set.clone();
                set.insert(event);
                longer.insert(set);
            }
        }
        let all: Vec<BTreeSet<EventId>> = longer.into_iter().collect();
        sets = all
            .iter()
            .filter(|set| {
                !all.iter()
                    .any(|other| other != *set && other.is_subset(set))
            })
            .cloned()
            .collect();
    }
    sets
}
