//! Branch mode: which reads need their values.
//!
//! One Boolean for every read, "its value matters". It holds when the next branch of the thread
//! takes place, and when it holds for the next read of the thread: a branch depends on all reads
//! before it. And when a read that matters sees a write, the reads before that write matter,
//! since the written value may come from them.
//!
//! What the program computes from a read that does not matter may be written, but nobody whose
//! value matters sees it.

use norns_model::Model;
use norns_model::location::Touch;
use norns_order::{Formula, Literal, Node};
use norns_trace::{EventIndex, Op};
use std::cell::RefCell;

use super::frame::{Frame, Part, Sight};

pub(super) struct Needs {
    /// For every event the next branch of its thread, and the next read.
    next_branch: Vec<Option<Node>>,
    next_read: Vec<Option<Node>>,
    /// The last read of the thread before the event.
    last_read: Vec<Option<Node>>,
    /// For reads that were asked for: the Boolean.
    matters: RefCell<Vec<Option<Literal>>>,
}

/// Whether the trace has branch events: custom events with this name.
pub(super) fn is_branch(model: &Model<'_>, event: EventIndex) -> bool {
    match model.op(event) {
        Op::Custom(custom) => model.trace.customs[custom as usize].name == "branch",
        _ => false,
    }
}

impl Needs {
    /// `None` when the trace has no branch events.
    pub fn of(model: &Model<'_>) -> Option<Needs> {
        let count = model.trace.events.len();
        (0..count)
            .map(EventIndex::from_index)
            .find(|&event| is_branch(model, event))?;
        let mut needs = Needs {
            next_branch: vec![None; count],
            next_read: vec![None; count],
            last_read: vec![None; count],
            matters: RefCell::new(vec![None; count]),
        };
        for events in &model.threads {
            let is_read =
                |event: EventIndex| Touch::of(model.op(event)).is_some_and(|touch| touch.reads);
            let (mut branch, mut read) = (None, None);
            for &event in events.iter().rev() {
                needs.next_branch[event.index()] = branch;
                needs.next_read[event.index()] = read;
                if is_branch(model, event) {
                    branch = Some(Node(event.0));
                }
                if is_read(event) {
                    read = Some(Node(event.0));
                }
            }
            let mut read = None;
            for &event in events {
                // The write of a read-modify-write depends on its own read.
                if is_read(event) {
                    read = Some(Node(event.0));
                }
                needs.last_read[event.index()] = read;
            }
        }
        Some(needs)
    }

    /// The solver has forgotten all variables.
    pub fn forget_literals(&self) {
        self.matters.borrow_mut().fill(None);
    }

    /// The variable of a read, with its rules when it is new.
    fn matters(&self, frame: &Frame, read: Node, formula: &mut Formula) -> Literal {
        // Later reads first, without recursion: threads are long.
        let mut chain = vec![read];
        while self.matters.borrow()[chain[chain.len() - 1].index()].is_none()
            && let Some(next) = self.next_read[chain[chain.len() - 1].index()]
        {
            chain.push(next);
        }
        let mut later: Option<Literal> = None;
        for &node in chain.iter().rev() {
            let known = self.matters.borrow()[node.index()];
            let literal = known.unwrap_or_else(|| {
                let literal = formula.boolean(false);
                self.matters.borrow_mut()[node.index()] = Some(literal);
                if let Some(branch) = self.next_branch[node.index()] {
                    let parts = [Part::Literal(literal), Part::Absent(branch)];
                    frame.clause(formula, parts);
                }
                if let Some(later) = later {
                    let parts = [Part::Literal(literal), Part::Literal(!later)];
                    frame.clause(formula, parts);
                }
                literal
            });
            later = Some(literal);
        }
        later.expect("the chain is not empty")
    }

    /// The literal "this read does not matter".
    pub fn irrelevant(&self, frame: &Frame, read: Node, formula: &mut Formula) -> Literal {
        !self.matters(frame, read, formula)
    }

    /// Whether the read matters in the current assignment, which need not know its variable yet.
    pub fn is_needed(&self, sight: &Sight<'_>, read: Node) -> bool {
        match self.matters.borrow()[read.index()] {
            Some(literal) if sight.knows(literal) => sight.view.value(literal),
            _ => self.next_branch[read.index()].is_some_and(|branch| sight.takes_place(branch)),
        }
    }

    /// A read that matters sees `write`: so do the reads before that.
    pub fn pass_on(
        &self,
        sight: &Sight<'_>,
        read: Node,
        write: Node,
        writes: impl Iterator<Item = Node>,
        formula: &mut Formula,
    ) {
        let Some(before) = self.last_read[write.index()] else {
            return;
        };
        if self.is_needed(sight, before) || before == read {
            return;
        }
        let frame = sight.frame;
        let mut parts = vec![
            Part::Literal(self.matters(frame, before, formula)),
            Part::Before(read, write),
        ];
        let others = writes.filter(|&other| other != write && other != read);
        parts.extend(others.map(|other| {
            if sight.is_before(other, write) {
                Part::Before(write, other)
            } else {
                Part::Before(other, read)
            }
        }));
        parts.push(Part::Literal(!self.matters(frame, read, formula)));
        frame.clause(formula, parts);
    }

    /// The same rule for another solver: `chosen` says that `read` sees `write`.
    pub fn pass_on_always(
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
        let before = self.matters(frame, before, formula);
        let read = self.matters(frame, read, formula);
        let parts = [
            Part::Literal(before),
            Part::Literal(!chosen),
            Part::Literal(!read),
        ];
        frame.clause(formula, parts);
    }
}
