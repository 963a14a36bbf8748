//! The static part of a process: which operators stand above the components, and the rules by
//! which the components act together.
//!
//! This is FDR's idea of supercombinators (Roscoe 2010, 20.3):
//! parallel composition, hiding and renaming need no state of their own, so a product is never
//! built; a rule says which components do what, and what is seen. Operators that do change
//! (a sequential composition above a parallel one, say) give the network several *formats*,
//! each with rules of its own; a rule may lead to another format.
//!
//! A process whose recursion goes through one of these operators has no finite shape. It
//! becomes one component whose states are terms: correct, but its product is built.

mod build;
mod derive;

use rustc_hash::FxHashMap;

use crate::event::EventId;
use crate::process::{AlphabetsId, ProcId, RenamingId, SetId};

/// A node of the static part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// What a component does in its last state, after its tick: waits for the others.
pub const DONE: EventId = EventId(u32::MAX);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sync {
    Nothing,
    On(SetId),
    Alphabets(AlphabetsId),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Shape {
    Leaf(u32),
    Omega,
    Prefix(EventId, NodeId),
    Internal(Box<[NodeId]>),
    External(Box<[NodeId]>),
    Sliding(NodeId, NodeId),
    Interrupt(NodeId, NodeId),
    Exception(NodeId, SetId, NodeId),
    Sequence(NodeId, NodeId),
    Hide(NodeId, SetId),
    Rename(NodeId, RenamingId),
    Parallel(Box<[NodeId]>, Sync),
    SyncChoice(Box<[NodeId]>, SetId),
    SyncInterrupt(NodeId, SetId, NodeId),
}

/// How components act together: each does its event, `event` is seen, `next` is what the
/// static part becomes.
#[derive(Clone, Debug)]
pub struct Rule {
    pub event: EventId,
    // (leaf, event of the leaf), each leaf at most once
    pub actions: Vec<(u32, EventId)>,
    pub next: NodeId,
}

/// A component to be: the term it starts as.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub process: ProcId,
    /// The innermost named process around it.
    pub name: Option<String>,
}

/// Which operators may take part in the static part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// All.
    Everything,
    /// Parallel composition, hiding and renaming: one format.
    ParallelOnly,
}

#[derive(Default)]
pub struct Shapes {
    nodes: Vec<Shape>,
    ids: FxHashMap<Shape, NodeId>,
    pub leaves: Vec<Leaf>,
}

impl Shapes {
    fn intern(&mut self, shape: Shape) -> NodeId {
        let next = NodeId(self.nodes.len() as u32);
        let id = *self.ids.entry(shape.clone()).or_insert(next);
        if id == next {
            self.nodes.push(shape);
        }
        id
    }

    /// The terminated process.
    pub fn omega(&mut self) -> NodeId {
        self.intern(Shape::Omega)
    }

    /// The leaves below a node, sorted.
    pub fn leaves_of(&self, node: NodeId) -> Vec<u32> {
        let mut leaves = Vec::new();
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            match &self.nodes[node.0 as usize] {
                Shape::Leaf(leaf) => leaves.push(*leaf),
                Shape::Omega => {}
                Shape::Prefix(_, n) | Shape::Hide(n, _) | Shape::Rename(n, _) => stack.push(*n),
                Shape::Sliding(a, b)
                | Shape::Interrupt(a, b)
                | Shape::Exception(a, _, b)
                | Shape::Sequence(a, b)
                | Shape::SyncInterrupt(a, _, b) => stack.extend([*a, *b]),
                Shape::Internal(list)
                | Shape::External(list)
                | Shape::Parallel(list, _)
                | Shape::SyncChoice(list, _) => stack.extend(list.iter()),
            }
        }
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    /// The leaves that all wait in their last state when this node has terminated; none for a
    /// node that terminates by becoming Omega.
    fn done(&self, node: NodeId) -> Option<Vec<u32>> {
        match &self.nodes[node.0 as usize] {
            Shape::Leaf(leaf) => Some(vec![*leaf]),
            Shape::Omega => Some(Vec::new()),
            Shape::Hide(n, _) | Shape::Rename(n, _) => self.done(*n),
            Shape::Parallel(list, _) => {
                let mut all = Vec::new();
                for &n in list {
                    all.extend(self.done(n)?);
                }
                Some(all)
            }
            _ => None,
        }
    }
}
