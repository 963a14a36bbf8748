//! The current order, run from its beginning: the events that their objects do not allow.
//!
//! An event that is not allowed is taken nevertheless, so that the solver sees more than one and
//! can begin with the one that leaves the least choice. When the order changes, the run goes back
//! to where it changed, or to the first event that was not allowed, and on from there: a step is
//! undone as cheaply as it is made.

use std::rc::Rc;

use norns_order::{Formula, Node};

use super::branches::Branches;
use super::conditions::{Act, Condition, Queue};
use super::counters::Semaphore;
use super::frame::Sight;
use super::locks::{Lock, Role};
use super::needs::Needs;
use super::registers::Register;

/// The objects that a run follows.
pub(super) struct Objects {
    pub locks: Vec<Lock>,
    pub registers: Vec<Register>,
    pub semaphores: Vec<Semaphore>,
    pub conditions: Vec<Condition>,
    /// Where branches say which reads count.
    pub needs: Option<Rc<Needs>>,
}

/// What an event does to one object: the object's number, and the event's among those of the
/// object.
#[derive(Clone, Copy, Debug)]
enum Step {
    Access(u32, u32),
    Lock(u32, u32),
    Semaphore(u32, u32),
    Condition(u32, Act),
    Branch,
}

enum Undo {
    Writer(u32, u32),
    Acquired(u32, u32),
    Released(u32, u32),
    Value(u32, i64),
    Act(u32, Act, u32),
    /// Reads of this thread matter.
    Matters(u32),
}

/// A run ends when it has found so many clauses.
const ENOUGH: usize = 1000;
const NOT_DONE: u32 = u32::MAX;
pub(super) const NOBODY: u32 = u32::MAX;

pub(super) struct Run {
    /// For every node its steps: a range of `steps`.
    first_step: Vec<u32>,
    steps: Vec<Step>,
    /// The nodes so far, and for every node where it is among them.
    done: Vec<Node>,
    place: Vec<u32>,
    /// The place of the first node that was not allowed.
    first_wrong: usize,
    /// How many nodes were done before the step, and how to take it back.
    undo: Vec<(u32, Undo)>,
    /// Of every register the access that wrote last.
    writer: Vec<u32>,
    /// Of every lock the sections that are open.
    held: Vec<Vec<u32>>,
    /// Of every semaphore.
    value: Vec<i64>,
    /// Of every condition.
    queues: Vec<Queue>,
    branches: Option<Branches>,
}

impl Run {
    pub fn new(count: usize, objects: &Objects) -> Self {
        let mut all: Vec<(Node, Step)> = Vec::new();
        for (r, register) in objects.registers.iter().enumerate() {
            let accesses = register.accesses.iter().enumerate();
            all.extend(accesses.map(|(i, a)| (a.node, Step::Access(r as u32, i as u32))));
        }
        for (l, lock) in objects.locks.iter().enumerate() {
            let nodes = lock.nodes().iter().enumerate();
            all.extend(nodes.map(|(i, &node)| (node, Step::Lock(l as u32, i as u32))));
        }
        for (s, semaphore) in objects.semaphores.iter().enumerate() {
            let nodes = semaphore.nodes().iter().enumerate();
            all.extend(nodes.map(|(i, &node)| (node, Step::Semaphore(s as u32, i as u32))));
        }
        for (c, condition) in objects.conditions.iter().enumerate() {
            let acts = condition.acts();
            all.extend(acts.map(|(node, act)| (node, Step::Condition(c as u32, act))));
        }
        let branches = objects.needs.iter().flat_map(|needs| needs.branches());
        all.extend(branches.map(|node| (node, Step::Branch)));
        // Stable: registers before locks, and so on.
        all.sort_by_key(|&(node, _)| node);
        let mut first_step = vec![0u32; count + 1];
        for (node, _) in &all {
            first_step[node.index() + 1] += 1;
        }
        for i in 0..count {
            first_step[i + 1] += first_step[i];
        }
        Run {
            first_step,
            steps: all.into_iter().map(|(_, step)| step).collect(),
            done: Vec::new(),
            // The end of the schedule is a node too, and never done.
            place: vec![NOT_DONE; count + 1],
            first_wrong: usize::MAX,
            undo: Vec::new(),
            writer: vec![NOBODY; objects.registers.len()],
            held: vec![Vec::new(); objects.locks.len()],
            value: objects.semaphores.iter().map(|s| s.initial).collect(),
            queues: objects.conditions.iter().map(Queue::new).collect(),
            branches: objects
                .needs
                .clone()
                .map(|needs| Branches::new(needs, &objects.registers)),
        }
    }

    /// Another query: the first `same` nodes stand in the order of their numbers.
    pub fn begin(&mut self, same: u32) {
        let kept = self.done.iter().zip(0..same);
        let kept = kept.take_while(|(node, number)| node.0 == *number).count();
        self.back_to(kept.min(self.first_wrong));
    }

    /// The order has changed behind this node.
    pub fn changed_behind(&mut self, node: Option<Node>) {
        // A node that has moved itself since it was done was done after an earlier change, which
        // takes the run back further.
        match node.map(|node| self.place[node.index()]) {
            None => self.back_to(0),
            Some(NOT_DONE) => {}
            Some(place) => self.back_to(place as usize + 1),
        }
    }

    fn back_to(&mut self, kept: usize) {
        if kept <= self.first_wrong {
            self.first_wrong = usize::MAX;
        }
        while let Some((before, _)) = self.undo.last()
            && *before as usize >= kept
        {
            let (_, undo) = self.undo.pop().expect("just seen");
            match undo {
                Undo::Writer(register, writer) => self.writer[register as usize] = writer,
                Undo::Acquired(lock, section) => {
                    self.held[lock as usize].retain(|&other| other != section);
                }
                Undo::Released(lock, section) => self.held[lock as usize].push(section),
                Undo::Value(semaphore, value) => self.value[semaphore as usize] = value,
                Undo::Act(condition, act, signal) => {
                    self.queues[condition as usize].undo(act, signal);
                }
                Undo::Matters(thread) => {
                    self.branches.as_mut().expect("see `take`").undo(thread);
                }
            }
        }
        for node in self.done.drain(kept.min(self.done.len())..) {
            self.place[node.index()] = NOT_DONE;
        }
    }

    /// Runs the order to its end and adds clauses for what is not allowed.
    pub fn go_on(&mut self, objects: &Objects, sight: &Sight<'_>, formula: &mut Formula) {
        if self.first_wrong < self.done.len() {
            self.back_to(self.first_wrong);
        }
        loop {
            let next = sight.view.order.behind(self.done.last().copied());
            let next = next.expect("the end of the schedule is behind every event of it");
            if next == sight.frame.end {
                return;
            }
            let steps = self.first_step[next.index()]..self.first_step[next.index() + 1];
            let before = formula.clauses.len();
            for i in steps.clone() {
                self.check(self.steps[i as usize], next, objects, sight, formula);
            }
            let allowed = formula.clauses.len() == before;
            if !allowed {
                self.first_wrong = self.first_wrong.min(self.done.len());
            }
            for i in steps {
                self.take(self.steps[i as usize], allowed, objects);
            }
            if formula.clauses.len() >= ENOUGH {
                return;
            }
            self.place[next.index()] = self.done.len() as u32;
            self.done.push(next);
        }
    }

    fn check(
        &mut self,
        step: Step,
        node: Node,
        objects: &Objects,
        sight: &Sight<'_>,
        formula: &mut Formula,
    ) {
        match step {
            Step::Access(r, i) => {
                let register = &objects.registers[r as usize];
                let writer = self.writer[r as usize];
                match &mut self.branches {
                    // It counts when a branch follows.
                    Some(branches) if !register.always_counts() => branches.saw(r, i, writer),
                    _ => register.check(i, writer, sight, formula),
                }
            }
            Step::Branch => {
                let branches = self.branches.as_mut().expect("there is a branch");
                let now = self.done.len() as u32;
                let undo = &mut self.undo;
                let extended = |thread| undo.push((now, Undo::Matters(thread)));
                branches.take_place(node, &objects.registers, sight, formula, extended);
            }
            Step::Lock(l, i) => {
                objects.locks[l as usize].check(i, &self.held[l as usize], sight, formula);
            }
            Step::Semaphore(s, i) => {
                objects.semaphores[s as usize].check(i, self.value[s as usize], sight, formula);
            }
            Step::Condition(c, Act::Wake(wait)) => {
                let queue = &self.queues[c as usize];
                objects.conditions[c as usize].check(wait, queue, sight, formula);
            }
            Step::Condition(..) => {}
        }
    }

    fn take(&mut self, step: Step, allowed: bool, objects: &Objects) {
        let undo = match step {
            Step::Access(r, i) => {
                if objects.registers[r as usize].accesses[i as usize]
                    .writes
                    .is_none()
                {
                    return;
                }
                let writer = std::mem::replace(&mut self.writer[r as usize], i);
                Undo::Writer(r, writer)
            }
            Step::Lock(l, i) => {
                let held = &mut self.held[l as usize];
                match objects.locks[l as usize].role(i) {
                    Role::Acquire(section) => {
                        held.push(section as u32);
                        Undo::Acquired(l, section as u32)
                    }
                    Role::Release(section) => {
                        let at = held.iter().position(|&other| other == section as u32);
                        let Some(at) = at else { return };
                        Undo::Released(l, held.swap_remove(at))
                    }
                    Role::Failed(_) => return,
                }
            }
            Step::Semaphore(s, i) => {
                if !allowed {
                    // Nobody takes what is not there.
                    return;
                }
                let change = objects.semaphores[s as usize].change(i);
                let value = self.value[s as usize];
                self.value[s as usize] += change;
                Undo::Value(s, value)
            }
            Step::Branch => return,
            Step::Condition(c, act) => {
                let signal = self.queues[c as usize].take(act);
                Undo::Act(c, act, signal)
            }
        };
        self.undo.push((self.done.len() as u32, undo));
    }
}
