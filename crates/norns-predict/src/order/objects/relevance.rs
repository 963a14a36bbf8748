//! Relevance: which reads need their values in a trace with branch events.
//!
//! A read is *relevant* if its value may decide what the program does within the schedule. There is
//! one Boolean variable for every read. It holds if the next branch of the read's thread takes
//! place, and if it holds for the next read of the thread, because a branch depends on all reads
//! before it. (If there is a branch between the two reads, that branch takes place whenever the
//! later read does, so the second rule adds nothing.) And if a relevant read sees a write, the reads
//! before that write in its thread are relevant, because the written value may depend on them.
//!
//! Our solver gets an instance of these rules when a read sees a wrong value (`relevant_reads`),
//! another solver gets all of them.
//!
//! A value that the program computes from an irrelevant read may be written to memory, but no
//! relevant read sees it.

use std::cell::RefCell;

use norns_model::Model;
use norns_order::{Formula, Literal, Node};
use norns_trace::{EventIndex, Op, Touch};

use super::clause::{Atom, CurrentOrder, Frame, node};
use super::thread_chains::ThreadChains;

/// The position of an event in its thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPosition {
    pub thread: usize,
    pub position: u32,
}

pub struct Relevance {
    /// For every event, the next branch of its thread.
    next_branch: Vec<Option<Node>>,
    /// For every event, the next read of its thread if it comes before `next_branch`.
    next_read: Vec<Option<Node>>,
    /// For every event, the last read of its thread up to the event.
    last_read: Vec<Option<Node>>,
    /// For every event.
    positions: Vec<ThreadPosition>,
    threads: usize,
    branches: Vec<Node>,
    /// For every event, the variable "this read is relevant", once it has been asked for.
    variables: RefCell<Vec<Option<Literal>>>,
}

/// Whether this is a branch event: a custom event with that name.
pub fn is_branch(model: &Model<'_>, event: EventIndex) -> bool {
    let Op::Custom(custom) = model.op(event) else {
        return false;
    };
    model.trace.customs[custom as usize].name == "branch"
}

impl Relevance {
    /// `None` if the trace has no branch events.
    pub fn of(model: &Model<'_>) -> Option<Relevance> {
        let count = model.trace.events.len();
        let all = || (0..count).map(EventIndex::from_index);
        let branches: Vec<Node> = all()
            .filter(|&event| is_branch(model, event))
            .map(node)
            .collect();
        if branches.is_empty() {
            return None;
        }
        let position = |event| ThreadPosition {
            thread: model.thread_of(event).index(),
            position: model.position[event.index()],
        };
        let mut relevance = Relevance {
            positions: all().map(position).collect(),
            threads: model.threads.len(),
            branches,
            next_branch: vec![None; count],
            next_read: vec![None; count],
            last_read: vec![None; count],
            variables: RefCell::new(vec![None; count]),
        };
        for events in &model.threads {
            let is_read =
                |event: EventIndex| Touch::of(model.op(event)).is_some_and(|touch| touch.reads);
            let (mut branch, mut read) = (None, None);
            for &event in events.iter().rev() {
                relevance.next_branch[event.index()] = branch;
                relevance.next_read[event.index()] = read;
                if is_branch(model, event) {
                    (branch, read) = (Some(node(event)), None);
                }
                if is_read(event) {
                    read = Some(node(event));
                }
            }
            let mut read = None;
            for &event in events {
                // The write of a read-modify-write depends on its own read.
                if is_read(event) {
                    read = Some(node(event));
                }
                relevance.last_read[event.index()] = read;
            }
        }
        Some(relevance)
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    pub fn position(&self, node: Node) -> ThreadPosition {
        self.positions[node.index()]
    }

    pub fn branches(&self) -> impl Iterator<Item = Node> + '_ {
        self.branches.iter().copied()
    }

    /// Has to be called when the solver forgets its variables.
    pub fn forget_variables(&self) {
        self.variables.borrow_mut().fill(None);
    }

    /// The literal "this read is irrelevant", without the rules for it: the clauses that refuse
    /// what a read sees come with those that explain why it is relevant.
    pub fn irrelevant(&self, read: Node, formula: &mut Formula) -> Literal {
        !self.relevant(read, formula)
    }

    fn relevant(&self, read: Node, formula: &mut Formula) -> Literal {
        let mut variables = self.variables.borrow_mut();
        *variables[read.index()].get_or_insert_with(|| formula.boolean(false))
    }

    /// The literal "this read is relevant", unless it is true in the current assignment.
    fn relevant_unless_known(
        &self,
        current: &CurrentOrder<'_>,
        read: Node,
        formula: &mut Formula,
    ) -> Option<Literal> {
        let literal = self.relevant(read, formula);
        let is_true = current.knows(literal) && current.view.value(literal);
        (!is_true).then_some(literal)
    }

    /// Adds the rule that `read` is relevant if the next branch of its thread takes place.
    pub fn require_for_branch(
        &self,
        current: &CurrentOrder<'_>,
        read: Node,
        formula: &mut Formula,
    ) {
        if let (Some(literal), Some(branch)) = (
            self.relevant_unless_known(current, read, formula),
            self.next_branch[read.index()],
        ) {
            let atoms = [Atom::Literal(literal), Atom::Absent(branch)];
            current.frame.clause(formula, atoms);
        }
    }

    /// Adds the rule that, if `read` is relevant and sees `write`, then `earlier`, a read of the
    /// writing thread before the write, is relevant too. `writes` are those of the register.
    pub fn pass_on(
        &self,
        current: &CurrentOrder<'_>,
        read: Node,
        write: Node,
        writes: &ThreadChains,
        earlier: Node,
        formula: &mut Formula,
    ) {
        let Some(literal) = self.relevant_unless_known(current, earlier, formula) else {
            return;
        };
        let mut atoms = vec![Atom::Literal(literal), Atom::Before(read, write)];
        // The read does not see the write if another write comes between them.
        atoms.extend(writes.between(current, write, read));
        atoms.push(Atom::Literal(self.irrelevant(read, formula)));
        current.frame.clause(formula, atoms);
    }

    /// For another solver: the literal "this read is relevant". Adds its rules when it is new.
    pub fn relevant_with_rules(&self, frame: &Frame, read: Node, formula: &mut Formula) -> Literal {
        // Later reads come first. A loop, because recursion would be as deep as a thread is long.
        let mut chain = vec![read];
        while self.variables.borrow()[chain[chain.len() - 1].index()].is_none()
            && let Some(next) = self.next_read[chain[chain.len() - 1].index()]
        {
            chain.push(next);
        }
        let mut later: Option<Literal> = None;
        for &node in chain.iter().rev() {
            let known = self.variables.borrow()[node.index()];
            let literal = known.unwrap_or_else(|| {
                let literal = formula.boolean(false);
                self.variables.borrow_mut()[node.index()] = Some(literal);
                if let Some(branch) = self.next_branch[node.index()] {
                    let atoms = [Atom::Literal(literal), Atom::Absent(branch)];
                    frame.clause(formula, atoms);
                }
                if let Some(later) = later {
                    let atoms = [Atom::Literal(literal), Atom::Literal(!later)];
                    frame.clause(formula, atoms);
                }
                literal
            });
            later = Some(literal);
        }
        later.expect("the chain is not empty")
    }

    /// For another solver: the rule of `pass_on` for all reads before `write`. `chosen` is the
    /// literal "`read` sees `write`".
    pub fn pass_on_with_rules(
        &self,
        frame: &Frame,
        read: Node,
        write: Node,
        chosen: Literal,
        formula: &mut Formula,
    ) {
        let Some(before) = self.last_read[write.index()] else {
            return;
        };
        if before == read {
            return;
        }
        let before = self.relevant_with_rules(frame, before, formula);
        let read = self.relevant_with_rules(frame, read, formula);
        let atoms = [
            Atom::Literal(before),
            Atom::Literal(!chosen),
            Atom::Literal(!read),
        ];
        frame.clause(formula, atoms);
    }
}
