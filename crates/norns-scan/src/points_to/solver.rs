//! The constraint graph: sets of places, copy edges with difference propagation, and cycles merged into one
//! node (Andersen 1994; Hardekopf and Lin, "The Ant and the Grasshopper", 2007).

use norns_ir::id;
use rustc_hash::FxHashSet;

use super::{Constraint, WIDE};
use crate::object::LocationId;

id! {
    /// A pointer variable of the constraint graph.
    NodeId
}

#[derive(Clone, Debug, Default)]
pub struct Solver {
    parent: Vec<u32>,
    /// Sorted.
    sets: Vec<Vec<LocationId>>,
    /// What was added to the set since the node was last visited.
    fresh: Vec<Vec<LocationId>>,
    copies: Vec<Vec<NodeId>>,
    complex: Vec<Vec<Constraint>>,
    /// What lies behind each pointer, for all who load through it; `NONE` if nobody does.
    loaded: Vec<u32>,
    /// What is put behind each pointer, by all who store through it; `NONE` if nobody does.
    stored: Vec<u32>,
    edges: FxHashSet<(NodeId, NodeId)>,
    /// Nodes of numbers that are too small for a pointer; they hold nothing but descriptors.
    narrow: Vec<bool>,
    /// Sorted.
    descriptors: Vec<LocationId>,
    /// Places that even a set which is full takes, by number: functions, on which the call graph depends.
    essential: Vec<bool>,
    queue: Vec<NodeId>,
    /// The part of the queue that is being worked on: sources of copies last.
    wave: Vec<NodeId>,
    /// The component of each node when cycles were last looked for; copies lead to lower ones.
    order: Vec<u32>,
    is_queued: Vec<bool>,
    /// Edges that were added since cycles were last looked for.
    edges_since_merge: usize,
}

const NONE: u32 = u32::MAX;

/// A node whose set has grown, what is new in it and which constraints look at it.
pub struct Visit {
    pub new: Vec<LocationId>,
    pub complex: Vec<Constraint>,
}

impl Solver {
    pub fn node(&mut self) -> NodeId {
        self.nodes(1)
    }

    /// The first of several new nodes with consecutive numbers.
    pub fn nodes(&mut self, count: usize) -> NodeId {
        let first = self.parent.len();
        for at in first..first + count {
            self.parent.push(number(at));
        }
        let end = self.parent.len();
        self.sets.resize_with(end, Vec::new);
        self.fresh.resize_with(end, Vec::new);
        self.copies.resize_with(end, Vec::new);
        self.complex.resize_with(end, Vec::new);
        self.loaded.resize(end, NONE);
        self.stored.resize(end, NONE);
        self.is_queued.resize(end, false);
        self.narrow.resize(end, false);
        NodeId::from_index(first)
    }

    pub fn find(&mut self, node: NodeId) -> NodeId {
        let mut at = node.index();
        while self.parent[at] as usize != at {
            let up = self.parent[at] as usize;
            self.parent[at] = self.parent[up];
            at = up;
        }
        NodeId::from_index(at)
    }

    #[must_use]
    pub fn set(&self, node: NodeId) -> &[LocationId] {
        let mut at = node.index();
        while self.parent[at] as usize != at {
            at = self.parent[at] as usize;
        }
        &self.sets[at]
    }

    pub fn add(&mut self, node: NodeId, location: LocationId) {
        self.add_all(node, &[location]);
    }

    /// Says that a node is of a number with fewer bits than a pointer.
    pub fn make_narrow(&mut self, node: NodeId) {
        self.narrow[node.index()] = true;
    }

    /// Says that a place stands for a descriptor, which fits into a small number.
    pub fn make_descriptor(&mut self, location: LocationId) {
        if let Err(at) = self.descriptors.binary_search(&location) {
            self.descriptors.insert(at, location);
        }
    }

    /// Says that a place belongs into every set that it reaches.
    pub fn make_essential(&mut self, location: LocationId) {
        if self.essential.len() <= location.index() {
            self.essential.resize(location.index() + 1, false);
        }
        self.essential[location.index()] = true;
    }

    /// Whether a set has so many places that nothing more is put into it: the work stays near linear in the
    /// size of the program, and the accesses through such a pointer are counted as not analysed.
    fn is_full(&self, node: NodeId) -> bool {
        self.sets[node.index()].len() > WIDE
    }

    fn essential(&self, locations: &[LocationId]) -> Vec<LocationId> {
        let is_essential = |at: &&LocationId| self.essential.get(at.index()) == Some(&true);
        locations.iter().filter(is_essential).copied().collect()
    }

    fn add_all(&mut self, node: NodeId, locations: &[LocationId]) {
        let narrowed: Vec<LocationId>;
        let mut locations = locations;
        if self.narrow[node.index()] {
            let is_descriptor = |at: &&LocationId| self.descriptors.binary_search(at).is_ok();
            narrowed = locations.iter().filter(is_descriptor).copied().collect();
            if narrowed.is_empty() {
                return;
            }
            locations = &narrowed;
        }
        let node = self.find(node);
        let essential: Vec<LocationId>;
        if self.is_full(node) {
            essential = self.essential(locations);
            if essential.is_empty() {
                return;
            }
            locations = &essential;
        }
        let set = &mut self.sets[node.index()];
        let new: Vec<LocationId> = match locations {
            [one] => match set.binary_search(one) {
                Ok(_) => return,
                Err(at) => {
                    set.insert(at, *one);
                    vec![*one]
                }
            },
            _ => {
                let new = difference(locations, set);
                if new.is_empty() {
                    return;
                }
                *set = union(set, &new);
                new
            }
        };
        let fresh = &mut self.fresh[node.index()];
        *fresh = if fresh.is_empty() {
            new
        } else {
            union(fresh, &new)
        };
        if !std::mem::replace(&mut self.is_queued[node.index()], true) {
            self.queue.push(node);
        }
    }

    /// Says that two nodes always point to the same places; `new` has no sources yet.
    pub fn unify(&mut self, new: NodeId, with: NodeId) {
        let (from, into) = (self.find(new), self.find(with));
        if self.narrow[new.index()] || self.narrow[with.index()] || from != new || from == into {
            self.copy(with, new);
            return;
        }
        self.merge(from.index(), into.index());
    }

    /// The node of what lies behind a pointer, and whether it is new: then a constraint has to fill it.
    pub fn loaded(&mut self, pointer: NodeId) -> (NodeId, bool) {
        let pointer = self.find(pointer);
        match self.loaded[pointer.index()] {
            NONE => {
                let node = self.node();
                self.loaded[pointer.index()] = number(node.index());
                (node, true)
            }
            known => (NodeId::from_index(known as usize), false),
        }
    }

    /// The node of what is put behind a pointer, and whether it is new.
    pub fn stored(&mut self, pointer: NodeId) -> (NodeId, bool) {
        let pointer = self.find(pointer);
        match self.stored[pointer.index()] {
            NONE => {
                let node = self.node();
                self.stored[pointer.index()] = number(node.index());
                (node, true)
            }
            known => (NodeId::from_index(known as usize), false),
        }
    }

    pub fn copy(&mut self, from: NodeId, to: NodeId) {
        let (from, to) = (self.find(from), self.find(to));
        if from == to || !self.edges.insert((from, to)) {
            return;
        }
        self.edges_since_merge += 1;
        self.copies[from.index()].push(to);
        let set = std::mem::take(&mut self.sets[from.index()]);
        if !set.is_empty() {
            self.add_all(to, &set);
        }
        self.sets[from.index()] = set;
    }

    #[must_use]
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Adds a constraint on a node; what the set has already is returned, to be applied by the caller.
    #[must_use]
    pub fn watch(&mut self, node: NodeId, constraint: Constraint) -> Vec<LocationId> {
        let node = self.find(node);
        self.complex[node.index()].push(constraint);
        self.sets[node.index()].clone()
    }

    /// Takes a node whose set has grown, after passing what is new along its edges.
    pub fn visit(&mut self) -> Option<Visit> {
        loop {
            if self.edges_since_merge > 10_000 + self.parent.len() / 4 {
                self.merge_cycles();
            }
            if self.wave.is_empty() {
                std::mem::swap(&mut self.wave, &mut self.queue);
                let order = &self.order;
                let key = |node: &NodeId| order.get(node.index()).copied().unwrap_or(u32::MAX);
                self.wave.sort_unstable_by_key(key);
            }
            let queued = self.wave.pop()?;
            self.is_queued[queued.index()] = false;
            let node = self.find(queued);
            if node != queued {
                continue;
            }
            let new = std::mem::take(&mut self.fresh[node.index()]);
            if new.is_empty() {
                continue;
            }
            let essential = self.essential(&new);
            for at in 0..self.copies[node.index()].len() {
                let to = self.copies[node.index()][at];
                let target = self.find(to);
                if self.is_full(target) && !self.narrow[to.index()] {
                    self.add_all(to, &essential);
                } else {
                    self.add_all(to, &new);
                }
            }
            let complex = self.complex[node.index()].clone();
            if !complex.is_empty() {
                return Some(Visit { new, complex });
            }
        }
    }

    /// Makes one node of every cycle of copy edges.
    fn merge_cycles(&mut self) {
        self.edges_since_merge = 0;
        let count = self.parent.len();
        let roots: Vec<NodeId> = (0..count)
            .map(|at| self.find(NodeId::from_index(at)))
            .collect();
        for at in 0..count {
            let mut targets = std::mem::take(&mut self.copies[at]);
            for to in &mut targets {
                *to = roots[to.index()];
            }
            targets.sort_unstable();
            targets.dedup();
            targets.retain(|to| to.index() != at);
            self.copies[at] = targets;
        }
        let copies = &self.copies;
        let edges = |at: usize| copies[at].iter().map(|to| to.index()).collect();
        let components = crate::flow::components(count, edges);
        self.order = components
            .iter()
            .map(|&component| u32::try_from(component).unwrap_or(u32::MAX))
            .collect();
        let mut first = vec![None; count];
        for at in 0..count {
            if roots[at].index() != at {
                continue;
            }
            if self.narrow[at] {
                continue;
            }
            match first[components[at]] {
                None => first[components[at]] = Some(at),
                Some(into) => self.merge(at, into),
            }
        }
        let edges: Vec<_> = self.edges.drain().collect();
        for (from, to) in edges {
            let (from, to) = (self.find(from), self.find(to));
            if from != to {
                self.edges.insert((from, to));
            }
        }
    }

    fn merge(&mut self, from: usize, into: usize) {
        self.parent[from] = number(into);
        let copies = std::mem::take(&mut self.copies[from]);
        let complex = std::mem::take(&mut self.complex[from]);
        let set = std::mem::take(&mut self.sets[from]);
        self.fresh[from].clear();
        // The constraints of both stay, so what both load and store stays complete.
        if self.loaded[into] == NONE {
            self.loaded[into] = self.loaded[from];
        }
        if self.stored[into] == NONE {
            self.stored[into] = self.stored[from];
        }
        let is_watched = !copies.is_empty() || !complex.is_empty();
        self.copies[into].extend(copies);
        self.complex[into].extend(complex);
        // Everything is looked at once more by the constraints and edges of both.
        let all = union(&self.sets[into], &set);
        if (is_watched || all.len() > self.sets[into].len()) && !all.is_empty() {
            self.fresh[into].clone_from(&all);
            if !std::mem::replace(&mut self.is_queued[into], true) {
                self.queue.push(NodeId::from_index(into));
            }
        }
        self.sets[into] = all;
    }
}

fn number(node: usize) -> u32 {
    u32::try_from(node).expect("fewer than four thousand million nodes")
}

fn union(a: &[LocationId], b: &[LocationId]) -> Vec<LocationId> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => {
                all.push(a[i]);
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                all.push(b[j]);
                j += 1;
            }
            std::cmp::Ordering::Equal => {
                all.push(a[i]);
                i += 1;
                j += 1;
            }
        }
    }
    all.extend_from_slice(&a[i..]);
    all.extend_from_slice(&b[j..]);
    all
}

/// What the first has and the second has not.
fn difference(a: &[LocationId], b: &[LocationId]) -> Vec<LocationId> {
    let mut rest = b;
    let mut new = Vec::new();
    for &location in a {
        let skip = rest.partition_point(|&other| other < location);
        rest = &rest[skip..];
        if rest.first() != Some(&location) {
            new.push(location);
        }
    }
    new
}
