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

use super::frame::{Frame, Part, Sight, node, prefer_observed};

/// What an event does to a condition: a wait, by its number, begins or ends, or a waker comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Sleep(u32),
    Wake(u32),
    Signal,
    Broadcast,
}

pub(super) struct Condition {
    /// Entry into the queue and wake-up, for waits that need a signal.
    waits: Vec<(Node, Node)>,
    signals: Vec<Node>,
    broadcasts: Vec<Node>,
}

pub(super) fn conditions(model: &Model<'_>) -> Vec<Condition> {
    let mut found: Vec<Condition> = (0..model.trace.objects.len())
        .map(|_| Condition {
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
    }
    found
}

impl Condition {
    /// What its events do to it.
    pub fn acts(&self) -> impl Iterator<Item = (Node, Act)> + '_ {
        let waits = self
            .waits
            .iter()
            .zip(0..)
            .flat_map(|(&(unlock, wait), i)| [(unlock, Act::Sleep(i)), (wait, Act::Wake(i))]);
        let signals = self.signals.iter().map(|&node| (node, Act::Signal));
        let broadcasts = self.broadcasts.iter().map(|&node| (node, Act::Broadcast));
        waits.chain(signals).chain(broadcasts)
    }

    pub fn wakes(&self) -> impl Iterator<Item = Node> + '_ {
        self.waits.iter().map(|&(_, wait)| wait)
    }

    pub fn wakers(&self) -> impl Iterator<Item = Node> + '_ {
        self.signals.iter().chain(&self.broadcasts).copied()
    }

    /// Adds a clause when nothing can have woken `wait` after these acts, each with the number of
    /// sleepers before it. All waits that have ended so far were woken.
    pub fn check(&self, wait: u32, acts: &[(Act, u32)], sight: &Sight<'_>, formula: &mut Formula) {
        // What came before a moment with an empty queue does not matter.
        let from = acts
            .iter()
            .rposition(|&(_, asleep)| asleep == 0)
            .unwrap_or(0);
        let acts = &acts[from..];
        let mut ends: Vec<(u32, usize)> = Vec::new();
        for (at, (act, _)) in acts.iter().enumerate() {
            if let Act::Wake(i) = act {
                ends.push((*i, at));
            }
        }
        ends.push((wait, acts.len()));
        let end_of = |i: u32| ends.iter().find(|end| end.0 == i).map(|end| end.1);
        // Each signal goes to the sleeper that has to wake first.
        let mut asleep: Vec<u32> = Vec::new();
        let mut woken = false;
        for (act, _) in acts {
            match act {
                Act::Sleep(i) => asleep.push(*i),
                Act::Wake(i) => asleep.retain(|other| other != i),
                Act::Broadcast => asleep.clear(),
                Act::Signal => {
                    let first =
                        (0..asleep.len()).min_by_key(|&k| end_of(asleep[k]).unwrap_or(usize::MAX));
                    if let Some(k) = first {
                        asleep.swap_remove(k);
                    }
                }
            }
        }
        woken |= !asleep.contains(&wait);
        if !woken {
            self.refuse_wake(wait, acts, &ends, sight, formula);
        }
    }

    /// Finds an interval in which more waits need a signal than there are.
    fn refuse_wake(
        &self,
        wait: u32,
        acts: &[(Act, u32)],
        ends: &[(u32, usize)],
        sight: &Sight<'_>,
        formula: &mut Formula,
    ) {
        let begin_of = |i: u32| acts.iter().position(|(act, _)| *act == Act::Sleep(i));
        let broadcast =
            |from: usize, to: usize| acts[from..to].iter().any(|(act, _)| *act == Act::Broadcast);
        // The latest start first: the fewest waits are to blame.
        let mut waits: Vec<(usize, u32)> = ends
            .iter()
            .filter_map(|&(i, to)| {
                begin_of(i)
                    .filter(|&from| !broadcast(from, to))
                    .map(|from| (from, i))
            })
            .collect();
        waits.sort_unstable_by_key(|&(from, _)| std::cmp::Reverse(from));
        for k in 0..waits.len() {
            let from = waits[k].0;
            let signals = acts[from..].iter().filter(|(act, _)| *act == Act::Signal);
            if k + 1 > signals.count() {
                let between: Vec<(Node, Node)> = waits[..=k]
                    .iter()
                    .map(|&(_, i)| self.waits[i as usize])
                    .collect();
                let from = self.waits[waits[k].1 as usize].0;
                let to = self.waits[wait as usize].1;
                self.refuse(sight, from, to, &between, formula);
                return;
            }
        }
        unreachable!("a wait without a signal has too many waits in some interval before it");
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

impl Condition {
    /// Adds everything, for another solver.
    pub fn all(&self, frame: &Frame, formula: &mut Formula) {
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
