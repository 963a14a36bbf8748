//! Condition variables: a wait ends after something woke it.
//!
//! A thread is in the queue from the `Unlock` that begins its wait to the `Wait` that ends it.
//! Between the two there is a broadcast, or a signal that wakes this thread and no other. A signal
//! with no thread in the queue is lost, and a signal may wake any thread in the queue. Said et al.
//! (2011), section 4.1, model this with a flag for every thread and object. Here the rule is that
//! the waits whose time in the queue lies within an interval are no more than the signals in that
//! interval, which is equivalent (Hall's theorem for intervals).

use norns_model::Model;
use norns_order::{Formula, Node};
use norns_trace::Effect;
use norns_trace::effect::OnCondition;

use super::clause::{Atom, CurrentOrder, Frame, node, prefer_observed};
use super::thread_chains::{ThreadChains, thread_of};

/// What an event does to a condition. Waits are given by their index in `Condition::waits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOp {
    /// The wait begins: its thread enters the queue.
    Sleep(u32),
    /// The wait ends.
    Wake(u32),
    Signal,
    Broadcast,
}

/// A wait that needs a signal or a broadcast to end.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    thread: u32,
    /// The `Unlock` with which the thread enters the queue.
    pub sleep: Node,
    /// The `Wait` event, with which it continues.
    pub wake: Node,
}

pub struct Condition {
    /// Sorted by `wake`.
    pub waits: Vec<Wait>,
    signals: Vec<Node>,
    broadcasts: Vec<Node>,
    signals_by_thread: ThreadChains,
    broadcasts_by_thread: ThreadChains,
}

pub fn conditions(model: &Model<'_>) -> Vec<Condition> {
    let objects = model.trace.objects.len();
    let mut waits: Vec<Vec<Wait>> = vec![Vec::new(); objects];
    let mut signals: Vec<Vec<Node>> = vec![Vec::new(); objects];
    let mut broadcasts: Vec<Vec<Node>> = vec![Vec::new(); objects];
    for events in &model.threads {
        for (k, &event) in events.iter().enumerate() {
            let Effect::Condition(o, act) = model.op(event).effect() else {
                continue;
            };
            match act {
                OnCondition::Wait if model.wait_needs_signal(event) && k > 0 => {
                    waits[o.index()].push(Wait {
                        thread: thread_of(model, node(event)),
                        sleep: node(events[k - 1]),
                        wake: node(event),
                    });
                }
                OnCondition::Signal => signals[o.index()].push(node(event)),
                OnCondition::Broadcast => broadcasts[o.index()].push(node(event)),
                OnCondition::Wait | OnCondition::TimedOut => {}
            }
        }
    }
    let objects = waits.into_iter().zip(signals).zip(broadcasts);
    let used = objects.filter(|((waits, _), _)| !waits.is_empty());
    used.map(|((mut waits, mut signals), mut broadcasts)| {
        waits.sort_unstable_by_key(|wait| wait.wake);
        signals.sort_unstable();
        broadcasts.sort_unstable();
        Condition {
            signals_by_thread: ThreadChains::new(signals.iter().copied(), model),
            broadcasts_by_thread: ThreadChains::new(broadcasts.iter().copied(), model),
            waits,
            signals,
            broadcasts,
        }
    })
    .collect()
}

/// The state of a condition while an order is simulated. Each wait that ends without a broadcast
/// consumes the earliest signal since its beginning that no other wait has consumed. The choice is
/// optimal: a wait that ends later can as well consume a later signal.
pub struct WaitQueue {
    /// For every wait, what had happened when it began.
    began: Vec<Began>,
    /// For every signal so far, the wait that consumed it.
    signals: Vec<Option<u32>>,
    broadcasts: u32,
}

/// The numbers of signals and broadcasts before the beginning of a wait.
#[derive(Clone, Copy, Default)]
struct Began {
    signals: u32,
    broadcasts: u32,
}

impl WaitQueue {
    pub fn new(condition: &Condition) -> Self {
        WaitQueue {
            began: vec![Began::default(); condition.waits.len()],
            signals: Vec::new(),
            broadcasts: 0,
        }
    }

    fn had_broadcast(&self, wait: u32) -> bool {
        self.began[wait as usize].broadcasts < self.broadcasts
    }

    /// The signal that this wait consumes if it ends now.
    fn signal_for(&self, wait: u32) -> Option<usize> {
        let from = self.began[wait as usize].signals as usize;
        (from..self.signals.len()).find(|&signal| self.signals[signal].is_none())
    }

    /// Returns the signal that was consumed, if one was.
    pub fn take(&mut self, op: ConditionOp) -> Option<u32> {
        match op {
            ConditionOp::Sleep(wait) => {
                self.began[wait as usize] = Began {
                    signals: self.signals.len() as u32,
                    broadcasts: self.broadcasts,
                };
            }
            ConditionOp::Signal => self.signals.push(None),
            ConditionOp::Broadcast => self.broadcasts += 1,
            ConditionOp::Wake(wait) if self.had_broadcast(wait) => {}
            ConditionOp::Wake(wait) => {
                let signal = self.signal_for(wait)?;
                self.signals[signal] = Some(wait);
                return Some(signal as u32);
            }
        }
        None
    }

    /// Undoes the last operation, which consumed `signal`.
    pub fn undo(&mut self, op: ConditionOp, signal: Option<u32>) {
        match op {
            ConditionOp::Sleep(_) => {}
            ConditionOp::Signal => drop(self.signals.pop()),
            ConditionOp::Broadcast => self.broadcasts -= 1,
            ConditionOp::Wake(_) => {
                if let Some(signal) = signal {
                    self.signals[signal as usize] = None;
                }
            }
        }
    }

    /// For a wait that nothing can have woken: a set of waits, this one among them, that consume
    /// all signals since the first of them began.
    fn too_many(&self, wait: u32) -> Vec<u32> {
        let mut found = vec![wait];
        let mut from = self.began[wait as usize].signals;
        let mut looked_at = self.signals.len() as u32;
        while from < looked_at {
            looked_at -= 1;
            let consumer = self.signals[looked_at as usize];
            let consumer = consumer.expect("a free signal in this interval would wake the wait");
            from = from.min(self.began[consumer as usize].signals);
            found.push(consumer);
        }
        found
    }
}

/// Where an interval that contains more waits than signals begins.
#[derive(Clone, Copy)]
enum Since {
    Beginning,
    FirstWait,
}

impl Condition {
    /// All events of the condition and what they do to it.
    pub fn operations(&self) -> impl Iterator<Item = (Node, ConditionOp)> + '_ {
        let waits = self.waits.iter().zip(0..).flat_map(|(wait, i)| {
            [
                (wait.sleep, ConditionOp::Sleep(i)),
                (wait.wake, ConditionOp::Wake(i)),
            ]
        });
        let signals = self.signals.iter();
        let signals = signals.map(|&node| (node, ConditionOp::Signal));
        let broadcasts = self.broadcasts.iter();
        let broadcasts = broadcasts.map(|&node| (node, ConditionOp::Broadcast));
        waits.chain(signals).chain(broadcasts)
    }

    /// Signals and broadcasts in the order of the trace.
    pub fn wakers(&self) -> Vec<Node> {
        let mut wakers = [self.signals.as_slice(), &self.broadcasts].concat();
        wakers.sort_unstable();
        wakers
    }

    /// Adds a clause if nothing can have woken `wait`, which ends now.
    pub fn check(
        &self,
        wait: u32,
        queue: &WaitQueue,
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        if !queue.had_broadcast(wait) && queue.signal_for(wait).is_none() {
            // If no signal was lost, the waits since the beginning of the schedule are too many. A
            // clause about that interval does not mention where it begins, so it is stronger. With
            // broadcasts it would have to pair each of them with each wait.
            let consumers: Option<Vec<u32>> = queue.signals.iter().copied().collect();
            if let Some(mut all) = consumers.filter(|_| self.broadcasts.is_empty()) {
                all.push(wait);
                self.refuse(wait, &all, Since::Beginning, current, formula);
            } else {
                let some = queue.too_many(wait);
                self.refuse(wait, &some, Since::FirstWait, current, formula);
            }
        }
    }

    /// The clause that these waits, of which `last` ends last, are not more than the signals in the
    /// interval from `since` to the end of `last`. One of the waits has to leave the interval, a
    /// signal has to enter it, or a broadcast has to end one of the waits.
    fn refuse(
        &self,
        last: u32,
        waits: &[u32],
        since: Since,
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        let waits = waits.iter().map(|&i| self.waits[i as usize]);
        let sleeps = waits.clone().map(|wait| wait.sleep);
        let from = match since {
            Since::Beginning => None,
            Since::FirstWait => sleeps.min_by_key(|&sleep| current.view.order.label(sleep)),
        };
        let to = self.waits[last as usize].wake;
        let mut atoms = Vec::new();
        if let Some(from) = from {
            let earlier = self.signals_by_thread.last_before(current, from);
            atoms.extend(earlier.map(|signal| Atom::Before(from, signal)));
        }
        let later = self.signals_by_thread.first_after(current, to);
        atoms.extend(later.map(|signal| Atom::Before(signal, to)));
        for wait in waits.clone() {
            let broadcasts = &self.broadcasts_by_thread;
            atoms.extend(broadcasts.between(current, wait.sleep, wait.wake));
        }
        // Of the waits of one thread, the first can leave the interval by beginning earlier and the
        // last by ending later.
        let mut by_thread: Vec<Wait> = waits.collect();
        by_thread.sort_unstable_by_key(|wait| (wait.thread, wait.sleep));
        for chain in by_thread.chunk_by(|one, other| one.thread == other.thread) {
            let (sleep, wake) = (chain[0].sleep, chain[chain.len() - 1].wake);
            if let Some(from) = from.filter(|&from| from != sleep) {
                atoms.push(Atom::Before(sleep, from));
            }
            if wake != to {
                atoms.push(Atom::Before(to, wake));
            }
        }
        atoms.push(Atom::Absent(to));
        prefer_observed(&mut atoms);
        current.frame.clause(formula, atoms);
    }

    /// Adds the complete encoding, for another solver.
    pub fn all(&self, frame: &Frame, formula: &mut Formula) {
        let mut woken_by: Vec<Vec<Atom>> = vec![Vec::new(); self.signals.len()];
        for wait in &self.waits {
            let mut choice = vec![Atom::Absent(wait.wake)];
            let wakers = self.signals.iter().chain(&self.broadcasts);
            for (k, &waker) in wakers.enumerate() {
                let wakes = formula.boolean(false);
                choice.push(Atom::Literal(wakes));
                let not = Atom::Literal(!wakes);
                frame.clause(formula, [not, Atom::Before(wait.sleep, waker)]);
                frame.clause(formula, [not, Atom::Before(waker, wait.wake)]);
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
