//! Branch mode: which reads need their values.
//!
//! One Boolean for every read, "its value matters". It holds when the next branch of the thread
//! takes place, and when it holds for the next read of the thread: a branch depends on all reads
//! before it. (When there is a branch between the two reads, it takes place with the later one, so
//! the second rule says nothing new.) And when a read that matters sees a write, the reads before
//! that write matter, since the written value may come from them.
//!
//! Our solver gets these rules where the value of a read is wrong (`branches`), another solver all
//! of them.
//!
//! What the program computes from a read that does not matter may be written, but nobody whose
//! value matters sees it.

use norns_model::Model;
use norns_model::location::Touch;
use norns_order::{Formula, Literal, Node};
use norns_trace::{EventIndex, Op};
use std::cell::RefCell;

use super::by_thread::ByThread;
use super::frame::{Frame, Part, Sight, node};

pub(super) struct Needs {
    /// For every event the next branch of its thread, and the next read before that.
    next_branch: Vec<Option<Node>>,
    next_read: Vec<Option<Node>>,
    /// The last read of the thread before the event.
    last_read: Vec<Option<Node>>,
    /// For every event its thread, and its position there.
    places: Vec<(u32, u32)>,
    threads: usize,
    branches: Vec<Node>,
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
        let all = || (0..count).map(EventIndex::from_index);
        let branches: Vec<Node> = all()
            .filter(|&event| is_branch(model, event))
            .map(node)
            .collect();
        if branches.is_empty() {
            return None;
        }
        let place = |event| (model.thread_of(event).0, model.position[event.index()]);
        let mut needs = Needs {
            places: all().map(place).collect(),
            threads: model.threads.len(),
            branches,
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
                    (branch, read) = (Some(Node(event.0)), None);
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

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The thread of an event, and its position there.
    pub fn place(&self, node: Node) -> (usize, u32) {
        let (thread, position) = self.places[node.index()];
        (thread as usize, position)
    }

    pub fn branches(&self) -> impl Iterator<Item = Node> + '_ {
        self.branches.iter().copied()
    }

    /// The solver has forgotten all variables.
    pub fn forget_literals(&self) {
        self.matters.borrow_mut().fill(None);
    }

    /// For another solver: the variable of a read, with its rules when it is new.
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

    /// For another solver: the literal "this read does not matter".
    pub fn irrelevant(&self, frame: &Frame, read: Node, formula: &mut Formula) -> Literal {
        !self.matters(frame, read, formula)
    }

    /// The literal "this read does not matter", without rules: who refuses what the read sees
    /// says why it matters.
    pub fn released(&self, read: Node, formula: &mut Formula) -> Literal {
        !self.literal(read, formula)
    }

    fn literal(&self, read: Node, formula: &mut Formula) -> Literal {
        let mut matters = self.matters.borrow_mut();
        *matters[read.index()].get_or_insert_with(|| formula.boolean(false))
    }

    /// The variable of a read that matters, unless the current assignment has it right.
    fn not_yet(&self, sight: &Sight<'_>, read: Node, formula: &mut Formula) -> Option<Literal> {
        let literal = self.literal(read, formula);
        let right = sight.knows(literal) && sight.view.value(literal);
        (!right).then_some(literal)
    }

    /// A read matters, since the next branch of its thread takes place.
    pub fn branched(&self, sight: &Sight<'_>, read: Node, formula: &mut Formula) {
        if let (Some(literal), Some(branch)) = (
            self.not_yet(sight, read, formula),
            self.next_branch[read.index()],
        ) {
            let parts = [Part::Literal(literal), Part::Absent(branch)];
            sight.frame.clause(formula, parts);
        }
    }

    /// A read that matters sees `write`, so `earlier`, a read of the writer before that, matters
    /// too. `writes` are those of the register, by thread.
    pub fn pass_on(
        &self,
        sight: &Sight<'_>,
        (read, write): (Node, Node),
        writes: &ByThread,
        earlier: Node,
        formula: &mut Formula,
    ) {
        let Some(literal) = self.not_yet(sight, earlier, formula) else {
            return;
        };
        let mut parts = vec![Part::Literal(literal), Part::Before(read, write)];
        // Or another write stands between them.
        parts.extend(writes.between(sight, write, read));
        parts.push(Part::Literal(!self.literal(read, formula)));
        sight.frame.clause(formula, parts);
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
