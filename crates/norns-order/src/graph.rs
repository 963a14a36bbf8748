//! A total order that is maintained while edges are added and removed.
//!
//! Follows Pearce and Kelly (2007): an edge that agrees with the order costs nothing; one that does
//! not starts a search over the nodes between its ends. Unlike there, only one side moves: either
//! everything that leads to the edge's beginning moves to just before its end, or everything that its
//! end leads to moves to just after its beginning, whichever is found first. Everything else keeps
//! its order, so a query changes little. Removing an edge leaves the order as it is. Explanations are
//! the paths with the fewest conditional edges (`chains`).

use crate::chains::Chains;
use crate::formula::{Literal, Node};

/// The end of a linked list of nodes.
const NONE: u32 = u32::MAX;
/// The distance between labels when all nodes are relabelled.
const GAP: u64 = 1 << 32;
/// The distance between labels of nodes that are moved together, if there is room.
const STRIDE: u64 = 1 << 12;

/// The current order of all nodes, as a linked list.
#[derive(Clone)]
pub struct Order {
    /// For every node. Increases along the order; all are different.
    label: Vec<u64>,
    previous: Vec<u32>,
    next: Vec<u32>,
    first: u32,
}

impl Order {
    pub fn is_before(&self, a: Node, b: Node) -> bool {
        self.label[a.index()] < self.label[b.index()]
    }

    /// Increases along the order. Comparable only with other labels of the same order.
    pub fn label(&self, node: Node) -> u64 {
        self.label[node.index()]
    }

    /// The node that directly follows this one; the first node for `None`.
    pub fn following(&self, node: Option<Node>) -> Option<Node> {
        let next = match node {
            None => self.first,
            Some(node) => self.next[node.index()],
        };
        (next != NONE).then_some(Node(next))
    }

    /// All nodes, from first to last.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let some = |node: u32| (node != NONE).then_some(node);
        std::iter::successors(some(self.first), move |&node| {
            some(self.next[node as usize])
        })
        .map(Node)
    }

    fn unlink(&mut self, node: u32) {
        let (previous, next) = (self.previous[node as usize], self.next[node as usize]);
        if previous == NONE {
            self.first = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
    }

    fn link_after(&mut self, node: u32, previous: u32) {
        let next = match previous {
            NONE => self.first,
            _ => self.next[previous as usize],
        };
        self.previous[node as usize] = previous;
        self.next[node as usize] = next;
        if previous == NONE {
            self.first = node;
        } else {
            self.next[previous as usize] = node;
        }
        if next != NONE {
            self.previous[next as usize] = node;
        }
    }

    /// Moves these nodes, in this order, to just after `previous`, which is not one of them.
    fn move_after(&mut self, nodes: &[u32], mut previous: u32) {
        for &node in nodes {
            self.unlink(node);
        }
        let after = match previous {
            NONE => self.first,
            _ => self.next[previous as usize],
        };
        let mut label = if previous == NONE {
            0
        } else {
            self.label[previous as usize]
        };
        let limit = if after == NONE {
            label + GAP
        } else {
            self.label[after as usize]
        };
        let step = ((limit - label) / (nodes.len() as u64 + 1)).min(STRIDE);
        for &node in nodes {
            self.link_after(node, previous);
            label += step;
            self.label[node as usize] = label;
            previous = node;
        }
        if step == 0 {
            self.relabel();
        }
    }

    fn relabel(&mut self) {
        let mut node = self.first;
        let mut label = 0;
        while node != NONE {
            label += GAP;
            self.label[node as usize] = label;
            node = self.next[node as usize];
        }
    }
}

/// The fixed edges of every node in one direction, in one array.
struct Fixed {
    /// For every node, where its edges begin in `nodes`; with one entry more for the end.
    first: Vec<u32>,
    nodes: Vec<u32>,
}

impl Fixed {
    fn new(count: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut first = vec![0u32; count + 1];
        for (from, _) in edges.clone() {
            first[from as usize + 1] += 1;
        }
        for i in 0..count {
            first[i + 1] += first[i];
        }
        let mut next = first.clone();
        let mut nodes = vec![0u32; first[count] as usize];
        for (from, to) in edges {
            nodes[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
        Fixed { first, nodes }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.nodes[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}

pub(crate) struct Graph {
    pub order: Order,
    /// The order of the nodes' numbers, which a query starts from by default.
    by_number: Order,
    fixed_out: Fixed,
    fixed_in: Fixed,
    /// For every node, the other ends of the conditional edges that leave it, in the order in which
    /// they were added.
    out: Vec<Vec<u32>>,
    /// The same for the edges that enter it.
    into: Vec<Vec<u32>>,
    backward: Reached,
    forward: Reached,
    /// The number of the last search.
    search: u32,
    chains: Chains,
    /// The nodes that the last insertion moved, in their order.
    pub moved: Vec<u32>,
    moved_side: Side,
    /// A node that never moves.
    pub pinned: Option<Node>,
    /// How many nodes all searches have visited.
    pub visits: u64,
}

/// The nodes that a search has reached in one direction.
struct Reached {
    nodes: Vec<u32>,
    /// For every node, the number of the search that reached it last.
    mark: Vec<u32>,
}

impl Reached {
    fn new(count: usize) -> Self {
        Reached {
            nodes: Vec::new(),
            mark: vec![0; count],
        }
    }

    fn start(&mut self, node: Node, search: u32) {
        self.nodes.clear();
        self.nodes.push(node.0);
        self.mark[node.index()] = search;
    }
}

/// The edge would close a cycle.
pub(crate) struct Cycle;

/// The order has changed.
pub(crate) struct Change {
    /// Everything up to this node has kept its place; `None` if nothing need have.
    pub after: Option<Node>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Backward,
    Forward,
}

impl Graph {
    /// The initial order is that of the nodes' numbers, and `edges` agree with it. `chain` has the
    /// chain of every node, see `Chains`.
    pub fn new(chain: Vec<u32>, edges: &[(Node, Node)]) -> Self {
        let count = chain.len();
        let label: Vec<u64> = (1..=count as u64).map(|i| i * GAP).collect();
        let previous: Vec<u32> = (0..count as u32).map(|i| i.wrapping_sub(1)).collect();
        let mut next: Vec<u32> = (1..=count as u32).collect();
        if let Some(last) = next.last_mut() {
            *last = NONE;
        }
        let first = if count == 0 { NONE } else { 0 };
        let order = Order {
            label,
            previous,
            next,
            first,
        };
        Graph {
            by_number: order.clone(),
            order,
            fixed_out: Fixed::new(count, edges.iter().map(|&(a, b)| (a.0, b.0))),
            fixed_in: Fixed::new(count, edges.iter().map(|&(a, b)| (b.0, a.0))),
            out: vec![Vec::new(); count],
            into: vec![Vec::new(); count],
            backward: Reached::new(count),
            forward: Reached::new(count),
            search: 0,
            chains: Chains::new(chain, edges),
            moved: Vec::new(),
            moved_side: Side::Backward,
            pinned: None,
            visits: 0,
        }
    }

    /// Sets the order to `start`, or to that of the nodes' numbers. Returns how many nodes at its
    /// beginning are in the order of their numbers.
    pub fn begin(&mut self, start: Option<&[Node]>) -> u32 {
        let order = &mut self.order;
        let Some(start) = start else {
            order.clone_from(&self.by_number);
            return order.label.len() as u32;
        };
        assert_eq!(start.len(), order.label.len(), "the order has every node");
        order.label.fill(0);
        let mut last = NONE;
        order.first = NONE;
        for (i, node) in start.iter().enumerate() {
            assert_eq!(order.label[node.index()], 0, "no node comes twice");
            order.label[node.index()] = (i as u64 + 1) * GAP;
            order.previous[node.index()] = last;
            match last {
                NONE => order.first = node.0,
                _ => order.next[last as usize] = node.0,
            }
            last = node.0;
        }
        if last != NONE {
            order.next[last as usize] = NONE;
        }
        // Insertions rely on it.
        assert!(
            self.fixed_edges().all(|(a, b)| self.order.is_before(a, b)),
            "fixed edges agree with the initial order"
        );
        let same = start.iter().zip(0..).take_while(|(node, i)| node.0 == *i);
        same.count() as u32
    }

    /// Adds an edge. Returns how the order has changed, if it had to; `moved` has the nodes that
    /// moved.
    pub fn insert(&mut self, a: Node, b: Node, literal: Literal) -> Result<Option<Change>, Cycle> {
        self.moved.clear();
        let mut changed = None;
        if self.order.label[b.index()] < self.order.label[a.index()] {
            let side = self.search_between(a, b)?;
            self.moved_side = side;
            let label = &self.order.label;
            let reached = match side {
                Side::Backward => &mut self.backward,
                Side::Forward => &mut self.forward,
            };
            std::mem::swap(&mut self.moved, &mut reached.nodes);
            self.moved
                .sort_unstable_by_key(|&node| label[node as usize]);
            let before_b = self.order.previous[b.index()];
            let previous = match side {
                Side::Backward => before_b,
                Side::Forward => a.0,
            };
            self.order.move_after(&self.moved, previous);
            let after = (before_b != NONE).then_some(Node(before_b));
            changed = Some(Change { after });
        }
        self.out[a.index()].push(b.0);
        self.into[b.index()].push(a.0);
        self.chains.insert(a, b, literal);
        Ok(changed)
    }

    /// Whether the last insertion moved this node.
    pub fn has_moved(&self, node: Node) -> bool {
        let reached = match self.moved_side {
            Side::Backward => &self.backward,
            Side::Forward => &self.forward,
        };
        reached.mark[node.index()] == self.search
    }

    /// Searches from both ends at the same pace. Returns the side that is exhausted first, whose
    /// nodes have then been reached. The search gives up a side that would move the pinned node; if
    /// both sides would, the pinned node is on a cycle.
    fn search_between(&mut self, a: Node, b: Node) -> Result<Side, Cycle> {
        self.search += 1;
        let search = self.search;
        let label = &self.order.label;
        let (low, high) = (label[b.index()], label[a.index()]);
        let pinned = self.pinned.map_or(NONE, |node| node.0);
        let (back, front) = (&mut self.backward, &mut self.forward);
        back.start(a, search);
        front.start(b, search);
        let (mut back_done, mut front_done) = (0, 0);
        let (mut try_back, mut try_front) = (a.0 != pinned, b.0 != pinned);
        while try_back || try_front {
            if try_back {
                let Some(&node) = back.nodes.get(back_done) else {
                    return Ok(Side::Backward);
                };
                back_done += 1;
                self.visits += 1;
                let conditional = &self.into[node as usize];
                for &from in self.fixed_in.of(node).iter().chain(conditional) {
                    if from == b.0 {
                        return Err(Cycle);
                    }
                    if label[from as usize] > low && back.mark[from as usize] != search {
                        back.mark[from as usize] = search;
                        back.nodes.push(from);
                        try_back &= from != pinned;
                    }
                }
            }
            if try_front {
                let Some(&node) = front.nodes.get(front_done) else {
                    return Ok(Side::Forward);
                };
                front_done += 1;
                self.visits += 1;
                let conditional = &self.out[node as usize];
                for &to in self.fixed_out.of(node).iter().chain(conditional) {
                    if to == a.0 {
                        return Err(Cycle);
                    }
                    if label[to as usize] < high && front.mark[to as usize] != search {
                        front.mark[to as usize] = search;
                        front.nodes.push(to);
                        try_front &= to != pinned;
                    }
                }
            }
        }
        Err(Cycle)
    }

    /// Removes an edge, which has to be the one added last at both its ends.
    pub fn remove(&mut self, a: Node, b: Node) {
        self.chains.remove(a);
        let removed = self.out[a.index()].pop();
        let other = self.into[b.index()].pop();
        assert!(
            removed == Some(b.0) && other == Some(a.0),
            "edges are removed in the reverse of the order in which they were added"
        );
    }

    /// The literals of a path from `a` to `b` with as few literals as possible, over edges whose
    /// literals are `usable`.
    pub fn path(
        &mut self,
        a: Node,
        b: Node,
        usable: impl Fn(Literal) -> bool,
    ) -> Option<Vec<Literal>> {
        self.chains.path(a, b, &self.order.label, usable)
    }

    pub fn node_count(&self) -> usize {
        self.out.len()
    }

    pub fn fixed_edges(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        (0..self.out.len() as u32).flat_map(|a| {
            self.fixed_out
                .of(a)
                .iter()
                .map(move |&b| (Node(a), Node(b)))
        })
    }
}
