//! The simulation of an order from its beginning, which finds the events that their objects do not
//! allow.
//!
//! An event that is not allowed is executed nevertheless, so that the solver gets to see more than
//! one violation and can start with the one that leaves the fewest choices. When the order changes,
//! the simulation goes back to the change, or to the first event that was not allowed, and continues
//! from there. Undoing a step is as cheap as making it.

use std::rc::Rc;

use norns_budget::Budget;
use norns_order::{Formula, Node};

use super::relevant_reads::RelevantReads;
use crate::order::objects::clause::CurrentOrder;
use crate::order::objects::conditions::{Condition, ConditionOp, WaitQueue};
use crate::order::objects::locks::{Lock, Role};
use crate::order::objects::registers::Register;
use crate::order::objects::relevance::Relevance;
use crate::order::objects::semaphores::Semaphore;

/// The objects that a simulation follows.
pub struct Objects {
    pub locks: Vec<Lock>,
    pub registers: Vec<Register>,
    pub semaphores: Vec<Semaphore>,
    pub conditions: Vec<Condition>,
    /// Which reads need their values. `None`: all that take place.
    pub relevance: Option<Rc<Relevance>>,
}

/// What an event does to one object. Objects are given by their index in `Objects`, and the event by
/// its index among the events of the object.
#[derive(Clone, Copy, Debug)]
enum Step {
    Access { register: u32, access: u32 },
    Lock { lock: u32, number: u32 },
    Semaphore { semaphore: u32, number: u32 },
    Condition { condition: u32, op: ConditionOp },
    Branch,
}

/// How to undo a step.
enum Undo {
    LastWriter {
        register: u32,
        previous: Option<u32>,
    },
    Acquired {
        lock: u32,
        section: u32,
    },
    Released {
        lock: u32,
        section: u32,
    },
    Value {
        semaphore: u32,
        previous: i64,
    },
    Condition {
        condition: u32,
        op: ConditionOp,
        consumed: Option<u32>,
    },
    /// More reads of this thread became relevant.
    Relevant {
        thread: u32,
    },
}

/// A simulation stops once it has found this many clauses.
const ENOUGH_CLAUSES: usize = 1000;
/// The index of a node that has not been executed.
const NOT_DONE: u32 = u32::MAX;

pub struct Simulation {
    /// For every node, where its steps begin in `steps`.
    first_step: Vec<u32>,
    steps: Vec<Step>,
    /// The nodes executed so far, in order.
    done: Vec<Node>,
    /// For every node its index in `done`, or `NOT_DONE`.
    index: Vec<u32>,
    /// The index in `done` of the first node that was not allowed; `usize::MAX` if all were.
    first_violation: usize,
    /// Each with the number of nodes executed before the step. Sorted by that number.
    undo: Vec<(u32, Undo)>,
    /// For every register, the access that wrote last.
    last_writer: Vec<Option<u32>>,
    /// For every lock, the sections that are open.
    held: Vec<Vec<u32>>,
    /// For every semaphore.
    value: Vec<i64>,
    /// For every condition.
    queues: Vec<WaitQueue>,
    relevant_reads: Option<RelevantReads>,
    /// Counts the nodes that are executed.
    budget: Budget,
}

impl Simulation {
    /// A simulation of `count` events.
    pub fn new(count: usize, objects: &Objects, budget: Budget) -> Self {
        let all = all_steps(objects);
        let mut first_step = vec![0u32; count + 1];
        for (node, _) in &all {
            first_step[node.index() + 1] += 1;
        }
        for i in 0..count {
            first_step[i + 1] += first_step[i];
        }
        let relevance = objects.relevance.clone();
        Simulation {
            first_step,
            steps: all.into_iter().map(|(_, step)| step).collect(),
            done: Vec::new(),
            // One more than events: the end of the schedule is a node too, and never executed.
            index: vec![NOT_DONE; count + 1],
            first_violation: usize::MAX,
            undo: Vec::new(),
            last_writer: vec![None; objects.registers.len()],
            held: vec![Vec::new(); objects.locks.len()],
            value: objects.semaphores.iter().map(|s| s.initial).collect(),
            queues: objects.conditions.iter().map(WaitQueue::new).collect(),
            relevant_reads: relevance.map(|r| RelevantReads::new(r, &objects.registers)),
            budget,
        }
    }

    /// A new query begins. In its initial order the first `same` nodes stand in the order of their
    /// numbers.
    pub fn begin(&mut self, same: u32) {
        let kept = self.done.iter().zip(0..same);
        let kept = kept.take_while(|(node, number)| node.0 == *number).count();
        self.back_to(kept.min(self.first_violation));
    }

    /// The order has changed after this node; `None`: from its beginning.
    pub fn changed_after(&mut self, node: Option<Node>) {
        // If the node itself has moved since it was executed, an earlier change that takes the
        // simulation back further is reported as well.
        match node.map(|node| self.index[node.index()]) {
            None => self.back_to(0),
            Some(NOT_DONE) => {}
            Some(index) => self.back_to(index as usize + 1),
        }
    }

    /// Undoes everything after the first `kept` nodes.
    fn back_to(&mut self, kept: usize) {
        if kept <= self.first_violation {
            self.first_violation = usize::MAX;
        }
        while let Some((_, undo)) = self.undo.pop_if(|(before, _)| *before as usize >= kept) {
            match undo {
                Undo::LastWriter { register, previous } => {
                    self.last_writer[register as usize] = previous;
                }
                Undo::Acquired { lock, section } => {
                    self.held[lock as usize].retain(|&other| other != section);
                }
                Undo::Released { lock, section } => self.held[lock as usize].push(section),
                Undo::Value {
                    semaphore,
                    previous,
                } => self.value[semaphore as usize] = previous,
                Undo::Condition {
                    condition,
                    op,
                    consumed,
                } => self.queues[condition as usize].undo(op, consumed),
                Undo::Relevant { thread } => {
                    let reads = self.relevant_reads.as_mut();
                    reads
                        .expect("only a branch makes reads relevant")
                        .undo(thread);
                }
            }
        }
        for node in self.done.drain(kept.min(self.done.len())..) {
            self.index[node.index()] = NOT_DONE;
        }
    }

    /// Simulates the order to its end and adds clauses for what is not allowed.
    pub fn advance(
        &mut self,
        objects: &Objects,
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        if self.first_violation < self.done.len() {
            self.back_to(self.first_violation);
        }
        loop {
            let next = current.view.order.following(self.done.last().copied());
            let next = next.expect("the end of the schedule follows every event of it");
            if next == current.frame.end {
                return;
            }
            self.budget.count(4);
            let steps = self.first_step[next.index()]..self.first_step[next.index() + 1];
            let before = formula.clauses.len();
            for i in steps.clone() {
                self.check(self.steps[i as usize], next, objects, current, formula);
            }
            let allowed = formula.clauses.len() == before;
            if !allowed {
                self.first_violation = self.first_violation.min(self.done.len());
            }
            for i in steps {
                if let Some(undo) = self.execute(self.steps[i as usize], allowed, objects) {
                    self.undo.push((self.done.len() as u32, undo));
                }
            }
            if formula.clauses.len() >= ENOUGH_CLAUSES {
                return;
            }
            self.index[next.index()] = self.done.len() as u32;
            self.done.push(next);
        }
    }

    /// Adds clauses if the object does not allow the step now.
    fn check(
        &mut self,
        step: Step,
        node: Node,
        objects: &Objects,
        current: &CurrentOrder<'_>,
        formula: &mut Formula,
    ) {
        match step {
            Step::Access { register, access } => {
                let of = &objects.registers[register as usize];
                let writer = self.last_writer[register as usize];
                match &mut self.relevant_reads {
                    // Whether the read is relevant is known only when a branch follows.
                    Some(reads) if !of.reads_are_always_relevant() => {
                        reads.saw(register, access, writer);
                    }
                    _ => of.check(access, writer, current, formula),
                }
            }
            Step::Branch => {
                let reads = self.relevant_reads.as_mut();
                let reads = reads.expect("a trace with a branch event has relevant reads");
                let now = self.done.len() as u32;
                let undo = &mut self.undo;
                let extended = |thread| undo.push((now, Undo::Relevant { thread }));
                reads.branch(node, &objects.registers, current, formula, extended);
            }
            Step::Lock { lock, number } => {
                let held = &self.held[lock as usize];
                objects.locks[lock as usize].check(number, held, current, formula);
            }
            Step::Semaphore { semaphore, number } => {
                let value = self.value[semaphore as usize];
                objects.semaphores[semaphore as usize].check(number, value, current, formula);
            }
            Step::Condition { condition, op } => {
                if let ConditionOp::Wake(wait) = op {
                    let queue = &self.queues[condition as usize];
                    objects.conditions[condition as usize].check(wait, queue, current, formula);
                }
            }
        }
    }

    /// Executes a step. Returns how to undo it, `None` if it has changed nothing.
    fn execute(&mut self, step: Step, allowed: bool, objects: &Objects) -> Option<Undo> {
        match step {
            Step::Access { register, access } => {
                objects.registers[register as usize].accesses[access as usize].writes?;
                let previous = self.last_writer[register as usize].replace(access);
                Some(Undo::LastWriter { register, previous })
            }
            Step::Lock { lock, number } => {
                let held = &mut self.held[lock as usize];
                match objects.locks[lock as usize].role(number) {
                    Role::Acquire(section) => {
                        let section = section as u32;
                        held.push(section);
                        Some(Undo::Acquired { lock, section })
                    }
                    Role::Release(section) => {
                        let at = held.iter().position(|&other| other == section as u32)?;
                        let section = held.swap_remove(at);
                        Some(Undo::Released { lock, section })
                    }
                    Role::Failed(_) => None,
                }
            }
            Step::Semaphore { semaphore, number } => {
                // A wait that is not allowed leaves the value alone, which never becomes negative.
                if !allowed {
                    return None;
                }
                let change = objects.semaphores[semaphore as usize].change(number);
                let value = &mut self.value[semaphore as usize];
                let previous = std::mem::replace(value, *value + change);
                Some(Undo::Value {
                    semaphore,
                    previous,
                })
            }
            Step::Branch => None,
            Step::Condition { condition, op } => {
                let consumed = self.queues[condition as usize].take(op);
                Some(Undo::Condition {
                    condition,
                    op,
                    consumed,
                })
            }
        }
    }
}

/// The steps of all events, sorted by event.
fn all_steps(objects: &Objects) -> Vec<(Node, Step)> {
    let mut all: Vec<(Node, Step)> = Vec::new();
    for (register, of) in (0..).zip(&objects.registers) {
        let accesses = (0..).zip(&of.accesses);
        all.extend(accesses.map(|(access, a)| (a.node, Step::Access { register, access })));
    }
    for (lock, of) in (0..).zip(&objects.locks) {
        let nodes = (0..).zip(of.nodes());
        all.extend(nodes.map(|(number, &node)| (node, Step::Lock { lock, number })));
    }
    for (semaphore, of) in (0..).zip(&objects.semaphores) {
        let nodes = (0..).zip(of.nodes());
        all.extend(nodes.map(|(number, &node)| (node, Step::Semaphore { semaphore, number })));
    }
    for (condition, of) in (0..).zip(&objects.conditions) {
        let operations = of.operations();
        all.extend(operations.map(|(node, op)| (node, Step::Condition { condition, op })));
    }
    let branches = objects.relevance.iter().flat_map(|r| r.branches());
    all.extend(branches.map(|node| (node, Step::Branch)));
    // Stable: of one event, registers come before locks, and so on.
    all.sort_by_key(|&(node, _)| node);
    all
}
