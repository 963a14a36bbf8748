//! Nodes of one kind, thread by thread.
//!
//! The events of a thread are a chain: when one of them comes before some point, all earlier ones
//! do. So of "one of these comes before it" only the first of each thread that does not do so now
//! has to be said, and of "one of these comes after it" only the last; the others say less. This
//! keeps clauses as short as there are threads.

use norns_model::Model;
use norns_order::Node;
use norns_trace::EventIndex;

use super::frame::{Part, Sight};

#[derive(Clone, Debug, Default)]
pub(super) struct ByThread {
    /// For each thread that has any, its nodes in their order.
    chains: Vec<Vec<Node>>,
}

/// Threads, and of each the positions of some of its events, ascending.
pub(super) type Positions = Vec<(usize, Vec<u32>)>;

/// The thread of an event.
pub(super) fn thread_of(model: &Model<'_>, node: Node) -> u32 {
    model.thread_of(EventIndex(node.0)).0
}

impl ByThread {
    pub fn new(nodes: impl IntoIterator<Item = Node>, model: &Model<'_>) -> Self {
        let mut found: Vec<(u32, Node)> = nodes
            .into_iter()
            .map(|node| (thread_of(model, node), node))
            .collect();
        found.sort_unstable();
        let chains = found.chunk_by(|one, other| one.0 == other.0);
        ByThread {
            chains: chains
                .map(|chain| chain.iter().map(|&(_, node)| node).collect())
                .collect(),
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.chains.iter().flatten().copied()
    }

    pub fn positions(&self, model: &Model<'_>) -> Positions {
        let position = |node: &Node| model.position[node.index()];
        let chains = self.chains.iter();
        chains
            .map(|chain| {
                let thread = thread_of(model, chain[0]) as usize;
                (thread, chain.iter().map(position).collect())
            })
            .collect()
    }

    /// The node, if there is only one.
    pub fn only(&self) -> Option<Node> {
        let mut nodes = self.nodes();
        nodes.next().filter(|_| nodes.next().is_none())
    }

    /// Parts of a clause: one of these has to come between the two points, where none is now.
    pub fn between(&self, sight: &Sight<'_>, low: Node, high: Node) -> impl Iterator<Item = Part> {
        let early = self.last_before(sight, low);
        let late = self.first_after(sight, high);
        let early = early.map(move |node| Part::Before(low, node));
        early.chain(late.map(move |node| Part::Before(node, high)))
    }

    /// Of each thread the first node behind `point`.
    pub fn first_after(&self, sight: &Sight<'_>, point: Node) -> impl Iterator<Item = Node> {
        self.chains.iter().filter_map(move |chain| {
            let at = chain.partition_point(|&node| !sight.is_before(point, node));
            chain.get(at).copied()
        })
    }

    pub fn count_before(&self, sight: &Sight<'_>, point: Node) -> usize {
        let before = |chain: &Vec<Node>| chain.partition_point(|&n| sight.is_before(n, point));
        self.chains.iter().map(before).sum()
    }

    /// Of each thread the last node before `point`, or `point`.
    pub fn last_up_to(&self, sight: &Sight<'_>, point: Node) -> impl Iterator<Item = Node> {
        self.chains.iter().filter_map(move |chain| {
            let at = chain.partition_point(|&node| !sight.is_before(point, node));
            chain[..at].last().copied()
        })
    }

    /// Of each thread the last node before `point`.
    pub fn last_before(&self, sight: &Sight<'_>, point: Node) -> impl Iterator<Item = Node> {
        self.chains.iter().filter_map(move |chain| {
            let at = chain.partition_point(|&node| sight.is_before(node, point));
            chain[..at].last().copied()
        })
    }
}
