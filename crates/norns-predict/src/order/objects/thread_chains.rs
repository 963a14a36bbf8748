//! Nodes of one kind, grouped by thread.
//!
//! The events of one thread form a chain: if one of them comes before some point, all earlier ones
//! do. A clause that asks for one of several events to come before a point therefore needs to name
//! only one event of each thread, the first that does not come before it in the current order; a
//! clause that asks for one of them to come after it, only the last. The others are weaker. This
//! keeps the length of clauses below the number of threads.

use norns_model::Model;
use norns_order::Node;
use norns_trace::EventIndex;

use super::clause::{Atom, CurrentOrder};

#[derive(Clone, Debug, Default)]
pub struct ThreadChains {
    /// For each thread that has any of the nodes: these, in program order.
    chains: Vec<Vec<Node>>,
}

/// Some events of one thread.
pub struct ThreadPositions {
    pub thread: usize,
    /// Positions in the thread, in ascending order.
    pub positions: Vec<u32>,
}

/// The thread of an event.
pub fn thread_of(model: &Model<'_>, node: Node) -> u32 {
    model.thread_of(EventIndex(node.0)).0
}

impl ThreadChains {
    pub fn new(nodes: impl IntoIterator<Item = Node>, model: &Model<'_>) -> Self {
        let mut found: Vec<(u32, Node)> = nodes
            .into_iter()
            .map(|node| (thread_of(model, node), node))
            .collect();
        found.sort_unstable();
        let chains = found.chunk_by(|one, other| one.0 == other.0);
        ThreadChains {
            chains: chains
                .map(|chain| chain.iter().map(|&(_, node)| node).collect())
                .collect(),
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.chains.iter().flatten().copied()
    }

    pub fn positions(&self, model: &Model<'_>) -> Vec<ThreadPositions> {
        let position = |node: &Node| model.position[node.index()];
        let chains = self.chains.iter();
        chains
            .map(|chain| ThreadPositions {
                thread: thread_of(model, chain[0]) as usize,
                positions: chain.iter().map(position).collect(),
            })
            .collect()
    }

    /// The node, if there is exactly one.
    pub fn only(&self) -> Option<Node> {
        let mut nodes = self.nodes();
        nodes.next().filter(|_| nodes.next().is_none())
    }

    /// The alternatives of "one of these nodes comes between `low` and `high`", given that none
    /// does in the current order.
    pub fn between(
        &self,
        current: &CurrentOrder<'_>,
        low: Node,
        high: Node,
    ) -> impl Iterator<Item = Atom> {
        let early = self.last_before(current, low);
        let late = self.first_after(current, high);
        let early = early.map(move |node| Atom::Before(low, node));
        early.chain(late.map(move |node| Atom::Before(node, high)))
    }

    /// Of each thread, the first node after `point`.
    pub fn first_after(
        &self,
        current: &CurrentOrder<'_>,
        point: Node,
    ) -> impl Iterator<Item = Node> {
        self.chains.iter().filter_map(move |chain| {
            let at = chain.partition_point(|&node| !current.is_before(point, node));
            chain.get(at).copied()
        })
    }

    pub fn count_before(&self, current: &CurrentOrder<'_>, point: Node) -> usize {
        let before = |chain: &Vec<Node>| chain.partition_point(|&n| current.is_before(n, point));
        self.chains.iter().map(before).sum()
    }

    /// Of each thread, the last node before `point` or at it.
    pub fn last_up_to(
        &self,
        current: &CurrentOrder<'_>,
        point: Node,
    ) -> impl Iterator<Item = Node> {
        self.chains.iter().filter_map(move |chain| {
            let at = chain.partition_point(|&node| !current.is_before(point, node));
            chain[..at].last().copied()
        })
    }

    /// Of each thread, the last node before `point`.
    pub fn last_before(
        &self,
        current: &CurrentOrder<'_>,
        point: Node,
    ) -> impl Iterator<Item = Node> {
        self.chains.iter().filter_map(move |chain| {
            let at = chain.partition_point(|&node| current.is_before(node, point));
            chain[..at].last().copied()
        })
    }
}
