//! The revivals and refusal-testing models, from their definitions (Roscoe 2010, chapters 11
//! and 12), by enumeration. Shares no code with the engine.
//!
//! An observation of refusal testing alternates between what is refused in a stable state (or
//! nothing was looked at) and an event. A state that can tick may, whatever else it can do,
//! become one that can do nothing but tick.

use std::collections::BTreeSet;

use crate::reference::{EVENTS, Graph, TAU, TICK};

const TICK_BIT: u8 = 1 << 7;
const ALL: u8 = (1 << EVENTS) - 1;

/// A state, or what is left of it once it can only tick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum At {
    State(usize),
    Ending(usize),
}

fn steps(graph: &Graph, at: At) -> Vec<(u8, At)> {
    match at {
        At::State(s) => {
            let all = &graph.steps[s];
            let ticks = all.iter().any(|step| step.0 == TICK);
            let mut out: Vec<(u8, At)> = all
                .iter()
                .filter(|step| step.0 != TICK)
                .map(|&(e, to)| (e, At::State(to)))
                .collect();
            if ticks {
                out.push((TAU, At::Ending(s)));
            }
            out
        }
        At::Ending(s) => graph.steps[s]
            .iter()
            .filter(|step| step.0 == TICK)
            .map(|&(e, to)| (e, At::State(to)))
            .collect(),
    }
}

/// What a state refuses at most; none if it is not stable.
fn refuses(graph: &Graph, at: At) -> Option<u8> {
    let mut refused = ALL | TICK_BIT;
    for (e, _) in steps(graph, at) {
        match e {
            TAU => return None,
            TICK => refused &= !TICK_BIT,
            e => refused &= !(1 << e),
        }
    }
    Some(refused)
}

fn closure(graph: &Graph, from: BTreeSet<At>) -> BTreeSet<At> {
    let mut todo: Vec<At> = from.iter().copied().collect();
    let mut all = from;
    while let Some(at) = todo.pop() {
        for (e, to) in steps(graph, at) {
            if e == TAU && all.insert(to) {
                todo.push(to);
            }
        }
    }
    all
}

fn diverges(graph: &Graph, at: At) -> bool {
    matches!(at, At::State(s) if graph.diverges(s))
}

type Behaviour = Vec<(Option<u8>, u8)>;

fn after(graph: &Graph, from: &BTreeSet<At>, refused: Option<u8>, event: u8) -> BTreeSet<At> {
    let next = from
        .iter()
        .filter(|&&at| match refused {
            None => true,
            Some(x) => refuses(graph, at).is_some_and(|all| x & !all == 0),
        })
        .flat_map(|&at| steps(graph, at))
        .filter(|step| step.0 == event)
        .map(|step| step.1)
        .collect();
    closure(graph, next)
}

/// Where a behaviour leads.
fn follow(graph: &Graph, behaviour: &[(Option<u8>, u8)]) -> BTreeSet<At> {
    let mut now = closure(graph, BTreeSet::from([At::State(0)]));
    for &(refused, event) in behaviour {
        now = after(graph, &now, refused, event);
    }
    now
}

/// A behaviour of `implementation`, up to the length, that `spec` does not have.
pub fn refusal_difference(
    strict: bool,
    spec: &Graph,
    implementation: &Graph,
    length: usize,
) -> Option<String> {
    let mut todo: Vec<Behaviour> = vec![Vec::new()];
    let mut seen: BTreeSet<Behaviour> = BTreeSet::new();
    while let Some(behaviour) = todo.pop() {
        if !seen.insert(behaviour.clone()) {
            continue;
        }
        // Behind a divergence of the specification everything is allowed.
        let chaotic = strict
            && (0..=behaviour.len()).any(|n| {
                follow(spec, &behaviour[..n])
                    .iter()
                    .any(|&at| diverges(spec, at))
            });
        if chaotic {
            continue;
        }
        let (mine, theirs) = (follow(implementation, &behaviour), follow(spec, &behaviour));
        if theirs.is_empty() {
            return Some(format!("behaviour {behaviour:?}"));
        }
        if strict && mine.iter().any(|&at| diverges(implementation, at)) {
            return Some(format!("divergence {behaviour:?}"));
        }
        for &at in &mine {
            let refused = refuses(implementation, at);
            if let Some(x) = refused
                && !theirs
                    .iter()
                    .any(|&t| refuses(spec, t).is_some_and(|all| x & !all == 0))
            {
                return Some(format!("refusal {behaviour:?} {x:b}"));
            }
            if behaviour.len() < length {
                for (e, _) in steps(implementation, at) {
                    if e != TAU {
                        for refused in [None, refused] {
                            let mut longer = behaviour.clone();
                            longer.push((refused, e));
                            todo.push(longer);
                        }
                    }
                }
            }
        }
    }
    None
}

/// A trace, deadlock or revival of `implementation`, up to the length, that `spec` does not have.
pub fn revival_difference(
    strict: bool,
    spec: &Graph,
    implementation: &Graph,
    length: usize,
) -> Option<String> {
    let mut todo: Vec<Behaviour> = vec![Vec::new()];
    while let Some(trace) = todo.pop() {
        let chaotic = strict
            && (0..=trace.len()).any(|n| {
                follow(spec, &trace[..n])
                    .iter()
                    .any(|&at| diverges(spec, at))
            });
        if chaotic {
            continue;
        }
        let (mine, theirs) = (follow(implementation, &trace), follow(spec, &trace));
        if theirs.is_empty() {
            return Some(format!("trace {trace:?}"));
        }
        if strict && mine.iter().any(|&at| diverges(implementation, at)) {
            return Some(format!("divergence {trace:?}"));
        }
        let mut events = BTreeSet::new();
        for &at in &mine {
            let offers: BTreeSet<u8> = steps(implementation, at).iter().map(|s| s.0).collect();
            events.extend(offers.iter().copied().filter(|&e| e != TAU));
            let Some(x) = refuses(implementation, at) else {
                continue;
            };
            let revived = |e: u8| {
                theirs.iter().any(|&t| {
                    refuses(spec, t).is_some_and(|all| x & !all == 0)
                        && steps(spec, t).iter().any(|step| step.0 == e)
                })
            };
            if let Some(e) = offers.iter().find(|&&e| !revived(e)) {
                return Some(format!("revival {trace:?} {x:b} {e}"));
            }
            let deadlocked = |t: At| refuses(spec, t) == Some(ALL | TICK_BIT);
            if offers.is_empty() && !theirs.iter().any(|&t| deadlocked(t)) {
                return Some(format!("deadlock {trace:?}"));
            }
        }
        if trace.len() < length {
            for e in events {
                let mut longer = trace.clone();
                longer.push((None, e));
                todo.push(longer);
            }
        }
    }
    None
}
