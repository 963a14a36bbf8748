//! Formulas over the order of nodes: literals, clauses and counts.
//!
//! An order is total, so one variable serves for both "a before b" and "b before a": its two
//! polarities are the two edges. The same type is used for a complete formula (for Z3 and SMT-LIB)
//! and as the place where a `Lazy` source of clauses puts new ones.

use rustc_hash::FxHashMap;

/// Something that has a place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

impl Node {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A variable or its negation: twice the variable, plus one if negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Literal(pub(crate) u32);

impl Literal {
    pub(crate) fn new(variable: usize, negated: bool) -> Self {
        let variable = u32::try_from(variable).expect("fewer than 2^31 variables");
        Literal(variable * 2 + u32::from(negated))
    }

    pub fn variable(self) -> usize {
        (self.0 / 2) as usize
    }

    pub fn negated(self) -> bool {
        self.0 % 2 == 1
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::ops::Not for Literal {
    type Output = Literal;

    fn not(self) -> Literal {
        Literal(self.0 ^ 1)
    }
}

/// What a variable means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atom {
    /// True if the first node comes before the second. The first has the smaller number.
    Before(Node, Node),
    /// A plain Boolean, with the value that a search starts from.
    Boolean(bool),
}

/// Holds if at least `at_least` of the terms hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    pub terms: Vec<Literal>,
    pub at_least: usize,
}

/// Holds if one of the literals or one of the sums does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub literals: Vec<Literal>,
    pub sums: Vec<Sum>,
}

/// A conjunction of clauses and counts over `atoms`.
#[derive(Clone, Debug, Default)]
pub struct Formula {
    atoms: Vec<Atom>,
    /// The variable of each pair of nodes, the smaller first.
    pairs: FxHashMap<(Node, Node), u32>,
    pub clauses: Vec<Vec<Literal>>,
    /// `Solver` does not support these: a `Lazy` source gives it the clauses that follow from a count
    /// when they are violated.
    pub counts: Vec<Count>,
}

impl Formula {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// The literal "a before b".
    pub fn before(&mut self, a: Node, b: Node) -> Literal {
        assert!(a != b, "a node has one place in the order");
        let (first, second) = if a < b { (a, b) } else { (b, a) };
        let atoms = &mut self.atoms;
        let variable = *self.pairs.entry((first, second)).or_insert_with(|| {
            atoms.push(Atom::Before(first, second));
            (atoms.len() - 1) as u32
        });
        Literal::new(variable as usize, a > b)
    }

    /// The variable for the order of the two nodes, if there is one.
    pub(crate) fn variable(&self, a: Node, b: Node) -> Option<usize> {
        let pair = (a.min(b), a.max(b));
        self.pairs.get(&pair).map(|&variable| variable as usize)
    }

    /// A new Boolean variable. `start` is the value that a search starts from.
    pub fn boolean(&mut self, start: bool) -> Literal {
        self.atoms.push(Atom::Boolean(start));
        Literal::new(self.atoms.len() - 1, false)
    }

    pub fn clause(&mut self, literals: Vec<Literal>) {
        self.clauses.push(literals);
    }

    pub fn count(&mut self, literals: Vec<Literal>, sums: Vec<Sum>) {
        self.counts.push(Count { literals, sums });
    }

    /// The two nodes of an order literal, the earlier first; `None` for a Boolean.
    pub fn edge(&self, literal: Literal) -> Option<(Node, Node)> {
        match self.atoms[literal.variable()] {
            Atom::Before(a, b) if literal.negated() => Some((b, a)),
            Atom::Before(a, b) => Some((a, b)),
            Atom::Boolean(_) => None,
        }
    }
}
