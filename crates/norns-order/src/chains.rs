//! Paths over few edges and long chains.
//!
//! The nodes are divided into chains, in which every node has a fixed edge to the next (for our
//! callers, a chain is a thread). Vector clocks, with one entry for each chain, hold what the fixed
//! edges order. A path is then a sequence of conditional edges, and the clocks say whether one leads
//! to the next: a search visits edges, not nodes, and does not depend on the length of the chains.
//! (The idea of indexing a changing order by chains is that of collective sparse segment trees, Tunç
//! et al. 2024.)

use crate::formula::{Literal, Node};

pub(crate) struct Chains {
    /// For every node its chain.
    chain: Vec<u32>,
    /// For every node its position in the chain.
    position: Vec<u32>,
    /// For every chain its nodes, in their order.
    nodes: Vec<Vec<u32>>,
    /// For every node and chain: how many nodes of the chain come before the node or are it.
    known: Vec<u32>,
    /// For every chain, the conditional edges that leave it, in the order in which they were added.
    edges: Vec<Vec<Edge>>,
    /// For every chain, the lowest position that the search has reached.
    lowest: Vec<u32>,
    /// The steps of the search, in breadth-first order.
    steps: Vec<Step>,
}

struct Edge {
    /// The position of its first node in the chain.
    from: u32,
    to: u32,
    literal: Literal,
}

/// A node that a search has reached, by which conditional edge, and the step before.
struct Step {
    node: u32,
    literal: Option<Literal>,
    before: u32,
}

impl Chains {
    /// `chain` has the chain of every node. Edges lead from smaller to greater numbers; among them is
    /// one from each node to the next of its chain.
    pub fn new(chain: Vec<u32>, edges: &[(Node, Node)]) -> Self {
        let count = chain.len();
        let chains = chain.iter().map(|&c| c as usize + 1).max().unwrap_or(0);
        let mut into = edges.to_vec();
        into.sort_unstable_by_key(|&(a, b)| (b, a));
        let mut nodes = vec![Vec::new(); chains];
        let mut position = Vec::with_capacity(count);
        let mut known = vec![0u32; count * chains];
        let mut next = 0;
        for node in 0..count {
            let own = &mut nodes[chain[node] as usize];
            let (front, row) = known.split_at_mut(node * chains);
            let mut follows_own = own.is_empty();
            while let Some(&(a, b)) = into.get(next).filter(|edge| edge.1.index() == node) {
                next += 1;
                follows_own |= own.last() == Some(&a.0);
                let other = &front[a.index() * chains..(a.index() + 1) * chains];
                for (mine, theirs) in row.iter_mut().zip(other) {
                    *mine = (*mine).max(*theirs);
                }
                debug_assert!(a < b);
            }
            assert!(follows_own, "the nodes of a chain follow each other");
            position.push(own.len() as u32);
            own.push(node as u32);
            row[chain[node] as usize] = own.len() as u32;
        }
        Chains {
            chain,
            position,
            nodes,
            known,
            edges: (0..chains).map(|_| Vec::new()).collect(),
            lowest: vec![u32::MAX; chains],
            steps: Vec::new(),
        }
    }

    pub fn insert(&mut self, a: Node, b: Node, literal: Literal) {
        self.edges[self.chain[a.index()] as usize].push(Edge {
            from: self.position[a.index()],
            to: b.0,
            literal,
        });
    }

    /// Removes the edge that was added last to the chain of `a`.
    pub fn remove(&mut self, a: Node) {
        let removed = self.edges[self.chain[a.index()] as usize].pop();
        assert!(
            removed.is_some_and(|edge| edge.from == self.position[a.index()]),
            "edges are removed in the reverse of the order in which they were added"
        );
    }

    /// The first position of a chain that is reachable from `node` over fixed edges.
    fn first_after(&self, node: u32, chain: usize) -> u32 {
        let (own, position) = (
            self.chain[node as usize] as usize,
            self.position[node as usize],
        );
        if own == chain {
            return position;
        }
        let chains = self.nodes.len();
        let of_chain = &self.nodes[chain];
        of_chain.partition_point(|&other| self.known[other as usize * chains + own] <= position)
            as u32
    }

    /// The literals of a path from `a` to `b` with as few literals as possible, over edges whose
    /// literals are `usable`. `label` increases along every edge.
    pub fn path(
        &mut self,
        a: Node,
        b: Node,
        label: &[u64],
        usable: impl Fn(Literal) -> bool,
    ) -> Option<Vec<Literal>> {
        let high = label[b.index()];
        let goal = (self.chain[b.index()] as usize, self.position[b.index()]);
        self.lowest.fill(u32::MAX);
        self.steps.clear();
        self.steps.push(Step {
            node: a.0,
            literal: None,
            before: 0,
        });
        let mut at = 0;
        while at < self.steps.len() {
            let node = self.steps[at].node;
            if self.first_after(node, goal.0) <= goal.1 {
                return Some(self.literals(at));
            }
            for chain in 0..self.nodes.len() {
                if self.edges[chain].is_empty() {
                    continue;
                }
                let first = self.first_after(node, chain);
                let lowest = self.lowest[chain];
                if first >= lowest {
                    continue;
                }
                self.lowest[chain] = first;
                for edge in &self.edges[chain] {
                    if edge.from >= first
                        && edge.from < lowest
                        && label[edge.to as usize] <= high
                        && usable(edge.literal)
                    {
                        self.steps.push(Step {
                            node: edge.to,
                            literal: Some(edge.literal),
                            before: at as u32,
                        });
                    }
                }
            }
            at += 1;
        }
        None
    }

    /// The literals of the path to this step.
    fn literals(&self, mut at: usize) -> Vec<Literal> {
        let mut literals = Vec::new();
        while let Some(literal) = self.steps[at].literal {
            literals.push(literal);
            at = self.steps[at].before as usize;
        }
        literals
    }
}
