//! Condition variables: a wait ends after something woke it.
//!
//! A wait is in the queue from its `Unlock` on. Between that and its `Wait` there is a broadcast,
//! or a signal that wakes it and nobody else. Signals with nobody in the queue are lost, and
//! which sleeper a signal wakes is open. Said et al. (2011), section 4.1, model this with a flag
//! for every thread and object; here the waits whose time in the queue lies between two points
//! must not be more than the signals there, which says the same (Hall's theorem for intervals).

use norns_model::Model;
use norns_order::{Formula, Node};
use norns_trace::Op;

use super::frame::{Constraint, Frame, Part, Sight, node, prefer_observed};

pub(super) struct Condition {
    nodes: Vec<Node>,
    /// Entry into the queue and wake-up, for waits that need a signal.
    waits: Vec<(Node, Node)>,
    signals: Vec<Node>,
    broadcasts: Vec<Node>,
}

pub(super) fn conditions(model: &Model<'_>) -> Vec<Condition> {
    let mut found: Vec<Condition> = (0..model.trace.objects.len())
        .map(|_| Condition {
            nodes: Vec::new(),
            waits: Vec::new(),
            signals: Vec::new(),
            broadcasts: Vec::new(),
        })
        .collect();
    for events in &model.threads {
        for (k, &event) in events.iter().enumerate() {
            match model.op(event) {
                Op::Wait(o) if model.wait_needs_signal(event) && k > 0 => {
                    found[o.index()]
                        .waits
                        .push((node(events[k - 1]), node(event)));
                }
                Op::Signal(o) => found[o.index()].signals.push(node(event)),
                Op::Broadcast(o) => found[o.index()].broadcasts.push(node(event)),
                _ => {}
            }
        }
    }
    found.retain(|condition| !condition.waits.is_empty());
    for condition in &mut found {
        condition.waits.sort_unstable_by_key(|&(_, wait)| wait);
        condition.signals.sort_unstable();
        condition.broadcasts.sort_unstable();
        let waits = condition
            .waits
            .iter()
            .flat_map(|&(unlock, wait)| [unlock, wait]);
        let wakers = condition
            .signals
            .iter()
            .chain(&condition.broadcasts)
            .copied();
        condition.nodes = waits.chain(wakers).collect();
        condition.nodes.sort_unstable();
    }
    found
}

impl Condition {
    /// Waits that take place and that no broadcast wakes, by the time of their wake-up.
    fn to_signal(&self, sight: &Sight<'_>) -> Vec<(Node, Node)> {
        let inside = |unlock: Node, wait: Node, b: Node| {
            sight.is_before(unlock, b) && sight.is_before(b, wait)
        };
        let mut waits: Vec<(Node, Node)> = self
            .waits
            .iter()
            .copied()
            .filter(|&(unlock, wait)| {
                sight.takes_place(wait) && !self.broadcasts.iter().any(|&b| inside(unlock, wait, b))
            })
            .collect();
        waits.sort_by_key(|&(_, wait)| sight.view.order.label(wait));
        waits
    }

    /// The first wait that gets no signal when each signal goes to the sleeper that wakes first.
    fn first_unwoken(&self, sight: &Sight<'_>, waits: &[(Node, Node)]) -> Option<usize> {
        enum Act {
            Sleep(usize),
            Signal,
            Wake(usize),
        }
        let label = |node: Node| sight.view.order.label(node);
        let mut acts: Vec<(u64, Act)> = self
            .signals
            .iter()
            .filter(|&&signal| sight.takes_place(signal))
            .map(|&signal| (label(signal), Act::Signal))
            .collect();
        for (i, &(unlock, wait)) in waits.iter().enumerate() {
            acts.push((label(unlock), Act::Sleep(i)));
            acts.push((label(wait), Act::Wake(i)));
        }
        acts.sort_by_key(|&(label, _)| label);
        let mut asleep = std::collections::BTreeSet::new();
        for (_, act) in acts {
            match act {
                Act::Sleep(i) => drop(asleep.insert(i)),
                Act::Signal => drop(asleep.pop_first()),
                Act::Wake(i) if asleep.contains(&i) => return Some(i),
                Act::Wake(_) => {}
            }
        }
        None
    }

    /// The waits between `from` and `to` are more than the signals there: something has to give.
    fn refuse(
        &self,
        sight: &Sight<'_>,
        from: Node,
        to: Node,
        waits: &[(Node, Node)],
        formula: &mut Formula,
    ) {
        let mut parts = Vec::new();
        for &signal in &self.signals {
            if sight.is_before(signal, from) {
                parts.push(Part::Before(from, signal));
            } else if sight.is_before(to, signal) {
                parts.push(Part::Before(signal, to));
            }
        }
        for &(unlock, wait) in waits {
            for &broadcast in &self.broadcasts {
                parts.push(if sight.is_before(broadcast, unlock) {
                    Part::Before(unlock, broadcast)
                } else {
                    Part::Before(broadcast, wait)
                });
            }
            if unlock != from {
                parts.push(Part::Before(unlock, from));
            }
            if wait != to {
                parts.push(Part::Before(to, wait));
            }
        }
        parts.push(Part::Absent(to));
        prefer_observed(&mut parts);
        sight.frame.clause(formula, parts);
    }
}

impl Constraint for Condition {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn violated(&self, sight: &Sight<'_>, formula: &mut Formula) {
        let waits = self.to_signal(sight);
        let Some(k) = self.first_unwoken(sight, &waits) else {
            return;
        };
        let to = waits[k].1;
        let mut starts: Vec<Node> = waits[..=k].iter().map(|&(unlock, _)| unlock).collect();
        starts.sort_by_key(|&unlock| std::cmp::Reverse(sight.view.order.label(unlock)));
        // The latest start first: the fewest waits are to blame.
        for from in starts {
            let mut between = waits[..=k].to_vec();
            between.retain(|&(unlock, _)| !sight.is_before(unlock, from));
            let inside = |&&s: &&Node| sight.is_before(from, s) && sight.is_before(s, to);
            if between.len() > self.signals.iter().filter(inside).count() {
                self.refuse(sight, from, to, &between, formula);
                return;
            }
        }
        unreachable!("a wait without a signal has too many waits in some interval before it");
    }

    fn all(&self, frame: &Frame, formula: &mut Formula) {
        let mut woken_by: Vec<Vec<Part>> = vec![Vec::new(); self.signals.len()];
        for &(unlock, wait) in &self.waits {
            let mut choice = vec![Part::Absent(wait)];
            let wakers = self.signals.iter().chain(&self.broadcasts);
            for (k, &waker) in wakers.enumerate() {
                let wakes = formula.boolean(false);
                choice.push(Part::Literal(wakes));
                let not = Part::Literal(!wakes);
                frame.clause(formula, [not, Part::Before(unlock, waker)]);
                frame.clause(formula, [not, Part::Before(waker, wait)]);
                if k < self.signals.len() {
                    for &other in &woken_by[k] {
                        frame.clause(formula, [not, other]);
                    }
                    woken_by[k].push(not);
                }
            }
            frame.clause(formula, choice);
        }
    }
}
