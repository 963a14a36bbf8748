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

use super::by_thread::{ByThread, thread_of};
use super::frame::{Frame, Part, Sight, node, prefer_observed};
use super::run::NOBODY;

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
    /// The thread of each wait.
    sleepers: Vec<u32>,
    signals_by_thread: ByThread,
    broadcasts_by_thread: ByThread,
}

pub(super) fn conditions(model: &Model<'_>) -> Vec<Condition> {
    let objects = model.trace.objects.len();
    let mut waits: Vec<Vec<(Node, Node)>> = vec![Vec::new(); objects];
    let mut signals: Vec<Vec<Node>> = vec![Vec::new(); objects];
    let mut broadcasts: Vec<Vec<Node>> = vec![Vec::new(); objects];
    for events in &model.threads {
        for (k, &event) in events.iter().enumerate() {
            match model.op(event) {
                Op::Wait(o) if model.wait_needs_signal(event) && k > 0 => {
                    waits[o.index()].push((node(events[k - 1]), node(event)));
                }
                Op::Signal(o) => signals[o.index()].push(node(event)),
                Op::Broadcast(o) => broadcasts[o.index()].push(node(event)),
                _ => {}
            }
        }
    }
    let objects = waits.into_iter().zip(signals).zip(broadcasts);
    let used = objects.filter(|((waits, _), _)| !waits.is_empty());
    used.map(|((mut waits, mut signals), mut broadcasts)| {
        waits.sort_unstable_by_key(|&(_, wait)| wait);
        signals.sort_unstable();
        broadcasts.sort_unstable();
        Condition {
            sleepers: waits.iter().map(|wait| thread_of(model, wait.1)).collect(),
            signals_by_thread: ByThread::new(signals.iter().copied(), model),
            broadcasts_by_thread: ByThread::new(broadcasts.iter().copied(), model),
            waits,
            signals,
            broadcasts,
        }
    })
    .collect()
}

/// A condition in a run. Each wait that ends without a broadcast takes the earliest signal that
/// is left since it began. That is best: waits that end later can as well take a later one.
pub(super) struct Queue {
    /// For every wait how many signals and broadcasts there had been when it began.
    began: Vec<(u32, u32)>,
    /// For every signal so far the wait that took it, or `NOBODY`.
    signals: Vec<u32>,
    broadcasts: u32,
}

impl Queue {
    pub fn new(condition: &Condition) -> Self {
        Queue {
            began: vec![(0, 0); condition.waits.len()],
            signals: Vec::new(),
            broadcasts: 0,
        }
    }

    fn had_broadcast(&self, wait: u32) -> bool {
        self.began[wait as usize].1 < self.broadcasts
    }

    /// The signal that this wait takes when it ends now.
    fn signal_for(&self, wait: u32) -> Option<usize> {
        let from = self.began[wait as usize].0 as usize;
        (from..self.signals.len()).find(|&signal| self.signals[signal] == NOBODY)
    }

    /// Returns the signal that was taken; `NOBODY` when none was.
    pub fn take(&mut self, act: Act) -> u32 {
        match act {
            Act::Sleep(wait) => {
                self.began[wait as usize] = (self.signals.len() as u32, self.broadcasts);
            }
            Act::Signal => self.signals.push(NOBODY),
            Act::Broadcast => self.broadcasts += 1,
            Act::Wake(wait) if self.had_broadcast(wait) => {}
            Act::Wake(wait) => {
                if let Some(signal) = self.signal_for(wait) {
                    self.signals[signal] = wait;
                    return signal as u32;
                }
            }
        }
        NOBODY
    }

    /// Takes back the last act, which took this signal.
    pub fn undo(&mut self, act: Act, signal: u32) {
        match act {
            Act::Sleep(_) => {}
            Act::Signal => drop(self.signals.pop()),
            Act::Broadcast => self.broadcasts -= 1,
            Act::Wake(_) if signal == NOBODY => {}
            Act::Wake(_) => self.signals[signal as usize] = NOBODY,
        }
    }

    /// For a wait that nothing can have woken: it and others, so that all signals since the first
    /// of them began are taken by them.
    fn too_many(&self, wait: u32) -> Vec<u32> {
        let mut found = vec![wait];
        let mut from = self.began[wait as usize].0;
        let mut looked_at = self.signals.len() as u32;
        while from < looked_at {
            looked_at -= 1;
            let user = self.signals[looked_at as usize];
            from = from.min(self.began[user as usize].0);
            found.push(user);
        }
        found
    }
}

/// Where an interval with too many waits begins.
#[derive(Clone, Copy)]
enum Since {
    Beginning,
    FirstWait,
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

    /// Where each wait enters the queue, and where it ends.
    pub fn sleeps(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        self.waits.iter().copied()
    }

    pub fn wakes(&self) -> impl Iterator<Item = Node> + '_ {
        self.waits.iter().map(|&(_, wait)| wait)
    }

    /// Signals and broadcasts in the order of the trace.
    pub fn wakers(&self) -> Vec<Node> {
        let mut wakers = [self.signals.as_slice(), &self.broadcasts].concat();
        wakers.sort_unstable();
        wakers
    }

    /// Adds a clause when nothing can have woken `wait`, which ends now.
    pub fn check(&self, wait: u32, queue: &Queue, sight: &Sight<'_>, formula: &mut Formula) {
        if !queue.had_broadcast(wait) && queue.signal_for(wait).is_none() {
            // When no signal was lost, all that ever waited are too many: a clause that does not
            // speak of the beginning of an interval says more. (Not with broadcasts, each of
            // which it would have to set against each wait.)
            if self.broadcasts.is_empty() && !queue.signals.contains(&NOBODY) {
                let all = [queue.signals.as_slice(), &[wait]].concat();
                self.refuse(wait, &all, Since::Beginning, sight, formula);
            } else {
                let some = queue.too_many(wait);
                self.refuse(wait, &some, Since::FirstWait, sight, formula);
            }
        }
    }

    /// These waits, of which `last` ends last, are more than the signals since the beginning, or
    /// since the first of them began: something has to give.
    fn refuse(
        &self,
        last: u32,
        waits: &[u32],
        since: Since,
        sight: &Sight<'_>,
        formula: &mut Formula,
    ) {
        let nodes = || waits.iter().map(|&i| self.waits[i as usize]);
        let entries = nodes().map(|(unlock, _)| unlock);
        let from = match since {
            Since::Beginning => None,
            Since::FirstWait => entries.min_by_key(|&entry| sight.view.order.label(entry)),
        };
        let to = self.waits[last as usize].1;
        let mut parts = Vec::new();
        if let Some(from) = from {
            let earlier = self.signals_by_thread.last_before(sight, from);
            parts.extend(earlier.map(|signal| Part::Before(from, signal)));
        }
        let later = self.signals_by_thread.first_after(sight, to);
        parts.extend(later.map(|signal| Part::Before(signal, to)));
        for (unlock, wait) in nodes() {
            parts.extend(self.broadcasts_by_thread.between(sight, unlock, wait));
        }
        // Of the waits of one thread the first is the one that can begin earlier, and the last
        // the one that can end later.
        let mut by_thread: Vec<(u32, Node, Node)> = waits
            .iter()
            .map(|&i| self.waits[i as usize])
            .zip(waits.iter().map(|&i| self.sleepers[i as usize]))
            .map(|((unlock, wait), thread)| (thread, unlock, wait))
            .collect();
        by_thread.sort_unstable();
        for chain in by_thread.chunk_by(|one, other| one.0 == other.0) {
            let (unlock, wait) = (chain[0].1, chain[chain.len() - 1].2);
            if let Some(from) = from.filter(|&from| from != unlock) {
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
