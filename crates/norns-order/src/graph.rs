//! A total order that is kept while edges come and go.
//!
//! After Pearce and Kelly (2007): an edge that agrees with the order costs nothing; one that does not starts a search
//! over the nodes between its ends. Unlike there, only one side moves: either what leads to the
//! edge's beginning goes to just before its end, or what its end leads to goes to just after its
//! beginning, whichever is found first. So everything else keeps its order, and a query changes
//! little. Removing an edge leaves the order as it is. Explanations are the paths with the fewest
//! conditional edges (`chains`).

use crate::chains::Chains;
use crate::formula::{Literal, Node};

const NOBODY: u32 = u32::MAX;
const GAP: u64 = 1 << 32;
/// The distance between nodes that are moved together, where there is room.
const STRIDE: u64 = 1 << 12;

/// The current order of all nodes.
pub struct Order {
    /// Grows along the order; all different.
    label: Vec<u64>,
    previous: Vec<u32>,
    next: Vec<u32>,
    first: u32,
}

impl Order {
    pub fn is_before(&self, a: Node, b: Node) -> bool {
        self.label[a.index()] < self.label[b.index()]
    }

    /// Comparable with other labels of the same order only.
    pub fn label(&self, node: Node) -> u64 {
        self.label[node.index()]
    }

    /// The node behind this one; the first node for `None`.
    pub fn behind(&self, node: Option<Node>) -> Option<Node> {
        let next = match node {
            None => self.first,
            Some(node) => self.next[node.index()],
        };
        (next != NOBODY).then_some(Node(next))
    }

    /// All nodes, first to last.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let some = |node: u32| (node != NOBODY).then_some(node);
        std::iter::successors(some(self.first), move |&node| {
            some(self.next[node as usize])
        })
        .map(Node)
    }

    fn unlink(&mut self, node: u32) {
        let (previous, next) = (self.previous[node as usize], self.next[node as usize]);
        if previous == NOBODY {
            self.first = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next != NOBODY {
            self.previous[next as usize] = previous;
        }
    }

    fn link_after(&mut self, node: u32, previous: u32) {
        let next = match previous {
            NOBODY => self.first,
            _ => self.next[previous as usize],
        };
        self.previous[node as usize] = previous;
        self.next[node as usize] = next;
        if previous == NOBODY {
            self.first = node;
        } else {
            self.next[previous as usize] = node;
        }
        if next != NOBODY {
            self.previous[next as usize] = node;
        }
    }

    /// Moves nodes, in their order, to just behind `previous`, which is not one of them.
    fn move_behind(&mut self, nodes: &[u32], mut previous: u32) {
        for &node in nodes {
            self.unlink(node);
        }
        let after = match previous {
            NOBODY => self.first,
            _ => self.next[previous as usize],
        };
        let mut label = if previous == NOBODY {
            0
        } else {
            self.label[previous as usize]
        };
        let limit = if after == NOBODY {
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
        while node != NOBODY {
            label += GAP;
            self.label[node as usize] = label;
            node = self.next[node as usize];
        }
    }
}

/// Fixed edges by node, in one array.
struct Fixed {
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
    /// The order to start from.
    start: (Vec<u64>, Vec<u32>, Vec<u32>),
    fixed_out: Fixed,
    fixed_in: Fixed,
    out: Vec<Vec<(u32, Literal)>>,
    into: Vec<Vec<(u32, Literal)>>,
    /// The number of the search that reached a node last.
    mark: [Vec<u32>; 2],
    search: u32,
    chains: Chains,
    /// What the last insertion moved, in its order.
    pub moved: Vec<u32>,
    moved_side: Side,
    frontier: [Vec<u32>; 2],
    /// Never moves.
    pub steady: Option<Node>,
    pub visits: u64,
}

/// The edge would close a cycle.
pub(crate) struct Cycle;

/// Everything up to this node keeps its place; `None`: nothing need.
pub(crate) type Behind = Option<Node>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Backward,
    Forward,
}

impl Graph {
    /// The order to start from is the order of the numbers, and `edges` agree with it. `chain` of
    /// every node, see `Chains`.
    pub fn new(chain: Vec<u32>, edges: &[(Node, Node)]) -> Self {
        let count = chain.len();
        let label: Vec<u64> = (1..=count as u64).map(|i| i * GAP).collect();
        let previous: Vec<u32> = (0..count as u32).map(|i| i.wrapping_sub(1)).collect();
        let mut next: Vec<u32> = (1..=count as u32).collect();
        if let Some(last) = next.last_mut() {
            *last = NOBODY;
        }
        let first = if count == 0 { NOBODY } else { 0 };
        Graph {
            start: (label.clone(), previous.clone(), next.clone()),
            order: Order {
                label,
                previous,
                next,
                first,
            },
            fixed_out: Fixed::new(count, edges.iter().map(|&(a, b)| (a.0, b.0))),
            fixed_in: Fixed::new(count, edges.iter().map(|&(a, b)| (b.0, a.0))),
            out: vec![Vec::new(); count],
            into: vec![Vec::new(); count],
            mark: [vec![0; count], vec![0; count]],
            search: 0,
            chains: Chains::new(chain, edges),
            moved: Vec::new(),
            moved_side: Side::Backward,
            frontier: [Vec::new(), Vec::new()],
            steady: None,
            visits: 0,
        }
    }

    /// Goes back to the order to start from: `start`, or that of the numbers. Returns how many
    /// nodes stand first in the order of their numbers.
    pub fn begin(&mut self, start: Option<&[Node]>) -> u32 {
        let order = &mut self.order;
        let Some(start) = start else {
            order.label.copy_from_slice(&self.start.0);
            order.previous.copy_from_slice(&self.start.1);
            order.next.copy_from_slice(&self.start.2);
            order.first = if order.label.is_empty() { NOBODY } else { 0 };
            return order.label.len() as u32;
        };
        assert_eq!(start.len(), order.label.len(), "the order has every node");
        order.label.fill(0);
        let mut last = NOBODY;
        order.first = NOBODY;
        for (i, node) in start.iter().enumerate() {
            assert_eq!(order.label[node.index()], 0, "no node comes twice");
            order.label[node.index()] = (i as u64 + 1) * GAP;
            order.previous[node.index()] = last;
            match last {
                NOBODY => order.first = node.0,
                _ => order.next[last as usize] = node.0,
            }
            last = node.0;
        }
        if last != NOBODY {
            order.next[last as usize] = NOBODY;
        }
        // What is found by moving nodes about would be nonsense.
        assert!(
            self.fixed_edges().all(|(a, b)| self.order.is_before(a, b)),
            "fixed edges agree with the order to start from"
        );
        let same = start.iter().zip(0..).take_while(|(node, i)| node.0 == *i);
        same.count() as u32
    }

    /// Adds an edge. `moved` says which nodes had to move; when some had, the node behind which
    /// the order has changed is returned.
    pub fn insert(&mut self, a: Node, b: Node, literal: Literal) -> Result<Option<Behind>, Cycle> {
        self.moved.clear();
        let mut changed = None;
        if self.order.label[b.index()] < self.order.label[a.index()] {
            let side = self.search_between(a, b)?;
            self.moved_side = side;
            let label = &self.order.label;
            self.moved = std::mem::take(&mut self.frontier[side as usize]);
            self.moved
                .sort_unstable_by_key(|&node| label[node as usize]);
            let before_b = self.order.previous[b.index()];
            let behind = match side {
                Side::Backward => before_b,
                Side::Forward => a.0,
            };
            self.order.move_behind(&self.moved, behind);
            changed = Some((before_b != NOBODY).then_some(Node(before_b)));
        }
        self.out[a.index()].push((b.0, literal));
        self.into[b.index()].push((a.0, literal));
        self.chains.insert(a, b, literal);
        Ok(changed)
    }

    /// Whether the last insertion moved this node.
    pub fn has_moved(&self, node: Node) -> bool {
        self.mark[self.moved_side as usize][node.index()] == self.search
    }

    /// Searches from both ends at the same pace. The side that is exhausted first is returned,
    /// with all its nodes in its frontier. A side that would move the steady node is given up;
    /// when both would, the steady node is on a cycle.
    fn search_between(&mut self, a: Node, b: Node) -> Result<Side, Cycle> {
        self.search += 1;
        let search = self.search;
        let label = &self.order.label;
        let (low, high) = (label[b.index()], label[a.index()]);
        let steady = self.steady.map_or(NOBODY, |node| node.0);
        let [back, front] = &mut self.frontier;
        let [mark_back, mark_front] = &mut self.mark;
        back.clear();
        front.clear();
        back.push(a.0);
        front.push(b.0);
        mark_back[a.index()] = search;
        mark_front[b.index()] = search;
        let (mut back_done, mut front_done) = (0, 0);
        let (mut try_back, mut try_front) = (a.0 != steady, b.0 != steady);
        while try_back || try_front {
            if try_back {
                let Some(&node) = back.get(back_done) else {
                    return Ok(Side::Backward);
                };
                back_done += 1;
                self.visits += 1;
                let dynamic = self.into[node as usize].iter().map(|&(from, _)| from);
                for from in self.fixed_in.of(node).iter().copied().chain(dynamic) {
                    if from == b.0 {
                        return Err(Cycle);
                    }
                    if label[from as usize] > low && mark_back[from as usize] != search {
                        mark_back[from as usize] = search;
                        back.push(from);
                        try_back &= from != steady;
                    }
                }
            }
            if try_front {
                let Some(&node) = front.get(front_done) else {
                    return Ok(Side::Forward);
                };
                front_done += 1;
                self.visits += 1;
                let dynamic = self.out[node as usize].iter().map(|&(to, _)| to);
                for to in self.fixed_out.of(node).iter().copied().chain(dynamic) {
                    if to == a.0 {
                        return Err(Cycle);
                    }
                    if label[to as usize] < high && mark_front[to as usize] != search {
                        mark_front[to as usize] = search;
                        front.push(to);
                        try_front &= to != steady;
                    }
                }
            }
        }
        Err(Cycle)
    }

    /// Removes the edge that was added last at both its ends.
    pub fn remove(&mut self, a: Node, b: Node) {
        self.chains.remove(a);
        let removed = self.out[a.index()].pop();
        let other = self.into[b.index()].pop();
        assert!(
            removed.is_some_and(|(to, _)| to == b.0) && other.is_some_and(|(from, _)| from == a.0),
            "edges are removed in the reverse of the order in which they were added"
        );
    }

    /// The literals of a path from `a` to `b` with as few literals as possible, over edges that
    /// `usable` admits.
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
