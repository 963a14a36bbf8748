//! What the constraints of all objects share: nodes, the end of the schedule, what is known to be
//! ordered, and the writing of clauses.
//!
//! Every event of the trace is a node, with the event's number. One node more is the end of the
//! schedule: an event takes place when it stands before the end. Events behind it are not placed
//! at all, so every constraint speaks of events before the end only (the "after infinity" of
//! RV-Predict, Huang et al. 2014).

use norns_order::{Formula, Literal, Node, View};
use norns_trace::EventIndex;

use super::clocks::Clocks;

pub(super) struct Frame {
    pub end: Node,
    pub clocks: Clocks,
}

/// A part of a clause.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Before(Node, Node),
    /// The event does not take place.
    Absent(Node),
    Literal(Literal),
}

pub(super) fn node(event: EventIndex) -> Node {
    Node(event.0)
}

impl Frame {
    /// Adds a clause without what is known to be false, and none when a part is known to be true.
    pub fn clause(&self, formula: &mut Formula, parts: impl IntoIterator<Item = Part>) {
        let mut literals = Vec::new();
        for part in parts {
            match part {
                Part::Before(a, b) if self.clocks.ordered(a, b) => return,
                Part::Before(a, b) if self.clocks.ordered(b, a) => {}
                Part::Before(a, b) => literals.push(formula.before(a, b)),
                Part::Absent(a) => literals.push(formula.before(self.end, a)),
                Part::Literal(literal) => literals.push(literal),
            }
        }
        formula.clause(literals);
    }

    pub fn ordered(&self, a: Node, b: Node) -> bool {
        self.clocks.ordered(a, b)
    }
}

/// The current order, as the constraint of one object looks at it.
pub(super) struct Sight<'s> {
    pub frame: &'s Frame,
    pub view: &'s View<'s>,
}

impl Sight<'_> {
    pub fn takes_place(&self, node: Node) -> bool {
        self.view.order.is_before(node, self.frame.end)
    }

    pub fn is_before(&self, a: Node, b: Node) -> bool {
        self.view.order.is_before(a, b)
    }

    /// Whether the variable was there when the current assignment was made.
    pub fn knows(&self, literal: Literal) -> bool {
        self.view.knows(literal)
    }
}

/// The rules of one object that a `Run` does not follow.
pub(super) trait Constraint {
    /// Adds clauses that the current order violates; none when it violates none. `formula` need
    /// not get all of them.
    fn violated(&self, sight: &Sight<'_>, formula: &mut Formula);

    /// Adds everything, for another solver.
    fn all(&self, frame: &Frame, formula: &mut Formula);
}

/// Orders that the trace has come first, the nearest before the others: so they are tried.
pub(super) fn prefer_observed(parts: &mut [Part]) {
    parts.sort_by_key(|part| match part {
        Part::Before(a, b) => (u8::from(a > b), a.0.abs_diff(b.0)),
        Part::Absent(_) | Part::Literal(_) => (2, 0),
    });
}
