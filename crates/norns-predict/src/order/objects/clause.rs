//! What the rules of all objects share: nodes, the end of the schedule, and the writing of clauses.
//!
//! Every event of the trace is a node with the event's number. One additional node is the end of
//! the schedule: an event takes place if its node stands before the end. Events after the end are
//! not placed at all, so every rule speaks only of events before it. (RV-Predict has the same idea,
//! Huang et al. 2014: the remaining events come "after infinity".)

use norns_order::{Formula, Literal, Node, View};
use norns_trace::EventIndex;

use crate::order::known::clocks::Clocks;

/// The nodes of a trace and what is known about their order in every schedule.
pub struct Frame {
    /// The end of the schedule.
    pub end: Node,
    /// Must-happen-before.
    pub clocks: Clocks,
}

/// One alternative of a clause.
#[derive(Clone, Copy)]
pub enum Atom {
    /// The first node stands before the second.
    Before(Node, Node),
    /// The event does not take place.
    Absent(Node),
    Literal(Literal),
}

pub fn node(event: EventIndex) -> Node {
    Node(event.0)
}

impl Frame {
    /// Adds a clause. Atoms that must-happen-before refutes are left out, and a clause with an atom
    /// that it implies is not added.
    pub fn clause(&self, formula: &mut Formula, atoms: impl IntoIterator<Item = Atom>) {
        let mut literals = Vec::new();
        for atom in atoms {
            match atom {
                Atom::Before(a, b) if self.clocks.ordered(a, b) => return,
                Atom::Before(a, b) if self.clocks.ordered(b, a) => {}
                Atom::Before(a, b) => literals.push(formula.before(a, b)),
                Atom::Absent(a) => literals.push(formula.before(self.end, a)),
                Atom::Literal(literal) => literals.push(literal),
            }
        }
        formula.clause(literals);
    }

    /// Whether `a` comes before `b` in every schedule.
    pub fn ordered(&self, a: Node, b: Node) -> bool {
        self.clocks.ordered(a, b)
    }
}

/// The total order that the solver currently proposes.
pub struct CurrentOrder<'s> {
    pub frame: &'s Frame,
    pub view: &'s View<'s>,
}

impl CurrentOrder<'_> {
    pub fn takes_place(&self, node: Node) -> bool {
        self.view.order.is_before(node, self.frame.end)
    }

    pub fn is_before(&self, a: Node, b: Node) -> bool {
        self.view.order.is_before(a, b)
    }

    /// Whether the solver already had the literal's variable when it made this assignment.
    pub fn knows(&self, literal: Literal) -> bool {
        self.view.knows(literal)
    }
}

/// The rules of an object that `Simulation` does not follow; they are checked on the whole order.
pub trait Constraint {
    /// Adds clauses that the current order violates. Adds none only if it violates none, but need
    /// not add all.
    fn violated(&self, current: &CurrentOrder<'_>, formula: &mut Formula);

    /// Adds the complete encoding, for another solver.
    fn all(&self, frame: &Frame, formula: &mut Formula);
}

/// Puts orders that the trace has first, those of near events before those of distant ones. The
/// solver tries the atoms of a clause from left to right.
pub fn prefer_observed(atoms: &mut [Atom]) {
    atoms.sort_by_key(|atom| match atom {
        Atom::Before(a, b) => (u8::from(a > b), a.0.abs_diff(b.0)),
        Atom::Absent(_) | Atom::Literal(_) => (2, 0),
    });
}
