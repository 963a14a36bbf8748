//! The control flow of a function: predecessors, an order of its blocks, dominators and loops.
//!
//! Dominators follow Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).

use crate::program::{BlockId, Function};

/// Facts about the blocks of one function. Blocks that the entry does not reach have none.
#[derive(Clone, Debug)]
pub struct ControlFlow {
    successors: Vec<Vec<BlockId>>,
    predecessors: Vec<Vec<BlockId>>,
    /// The blocks that the entry reaches, each before its successors except along back edges.
    order: Vec<BlockId>,
    /// The place of a block in `order`.
    position: Vec<Option<u32>>,
    /// The immediate dominator; the entry has none.
    dominator: Vec<Option<BlockId>>,
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The block through which it is entered.
    pub header: BlockId,
    /// Sorted; the header is one of them.
    pub blocks: Vec<BlockId>,
    /// The edges that leave it: from a block of the loop to one outside.
    pub exits: Vec<(BlockId, BlockId)>,
}

impl ControlFlow {
    #[must_use]
    pub fn new(function: &Function) -> Self {
        let count = function.blocks.len();
        let mut successors = Vec::with_capacity(count);
        let mut predecessors = vec![Vec::new(); count];
        for (index, block) in function.blocks.iter().enumerate() {
            let mut next = match block.instructions.last() {
                Some(&last) => function.instruction(last).kind.successors(),
                None => Vec::new(),
            };
            next.sort_unstable();
            next.dedup();
            for target in &next {
                predecessors[target.index()].push(BlockId::from_index(index));
            }
            successors.push(next);
        }
        let order = reverse_postorder(&successors);
        let mut position = vec![None; count];
        for (place, block) in order.iter().enumerate() {
            position[block.index()] = Some(place as u32);
        }
        let mut flow = Self {
            successors,
            predecessors,
            order,
            position,
            dominator: vec![None; count],
        };
        flow.find_dominators();
        flow
    }

    /// The blocks that may run next, each once.
    #[must_use]
    pub fn successors(&self, block: BlockId) -> &[BlockId] {
        &self.successors[block.index()]
    }

    /// The blocks that may have run before, each once.
    #[must_use]
    pub fn predecessors(&self, block: BlockId) -> &[BlockId] {
        &self.predecessors[block.index()]
    }

    /// The blocks that the entry reaches, each before its successors except along back edges.
    #[must_use]
    pub fn order(&self) -> &[BlockId] {
        &self.order
    }

    #[must_use]
    pub fn is_reached(&self, block: BlockId) -> bool {
        self.position[block.index()].is_some()
    }

    #[must_use]
    pub fn immediate_dominator(&self, block: BlockId) -> Option<BlockId> {
        self.dominator[block.index()]
    }

    /// Whether every way from the entry to `second` goes through `first`. A block dominates itself.
    #[must_use]
    pub fn dominates(&self, first: BlockId, second: BlockId) -> bool {
        if !self.is_reached(first) || !self.is_reached(second) {
            return false;
        }
        let mut current = second;
        // A dominator stands before what it dominates.
        while self.position[current.index()] > self.position[first.index()] {
            match self.dominator[current.index()] {
                Some(next) => current = next,
                None => return false,
            }
        }
        current == first
    }

    /// For each block, the blocks where its dominance ends: each has a predecessor that the block
    /// dominates, and is not dominated by it itself.
    #[must_use]
    pub fn dominance_frontiers(&self) -> Vec<Vec<BlockId>> {
        let mut frontiers: Vec<Vec<BlockId>> = vec![Vec::new(); self.successors.len()];
        for &block in &self.order {
            if self.predecessors[block.index()].len() < 2 {
                continue;
            }
            let end = self.dominator[block.index()];
            for &before in &self.predecessors[block.index()] {
                let mut runner = Some(before).filter(|&before| self.is_reached(before));
                while runner != end
                    && let Some(current) = runner
                {
                    let frontier = &mut frontiers[current.index()];
                    if frontier.last() != Some(&block) {
                        frontier.push(block);
                    }
                    runner = self.dominator[current.index()];
                }
            }
        }
        frontiers
    }

    /// The natural loops, inner ones after those that contain them. Loops with the same header are one;
    /// a cycle that can be entered at two places is none.
    #[must_use]
    pub fn loops(&self) -> Vec<Loop> {
        let mut found = Vec::new();
        for &header in &self.order {
            let entered_from = &self.predecessors[header.index()];
            let back = entered_from
                .iter()
                .filter(|&&before| self.dominates(header, before));
            let mut waiting: Vec<BlockId> = back.copied().collect();
            if waiting.is_empty() {
                continue;
            }
            let mut is_inside = vec![false; self.successors.len()];
            is_inside[header.index()] = true;
            let mut blocks = vec![header];
            while let Some(block) = waiting.pop() {
                if !std::mem::replace(&mut is_inside[block.index()], true) {
                    blocks.push(block);
                    let before = self.predecessors[block.index()].iter().copied();
                    waiting.extend(before.filter(|&block| self.is_reached(block)));
                }
            }
            blocks.sort_unstable();
            let exits = blocks.iter().flat_map(|&block| {
                let next = self.successors[block.index()].iter();
                next.map(move |&next| (block, next))
            });
            let exits = exits.filter(|(_, next)| !is_inside[next.index()]).collect();
            found.push(Loop {
                header,
                blocks,
                exits,
            });
        }
        found
    }

    fn find_dominators(&mut self) {
        let Some(&entry) = self.order.first() else {
            return;
        };
        // While the dominators are computed, the entry is its own.
        self.dominator[entry.index()] = Some(entry);
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for &block in &self.order[1..] {
                let mut known = self.predecessors[block.index()]
                    .iter()
                    .copied()
                    .filter(|before| self.dominator[before.index()].is_some());
                let Some(first) = known.next() else {
                    continue;
                };
                let new = known.fold(first, |left, right| self.meet(left, right));
                if self.dominator[block.index()] != Some(new) {
                    self.dominator[block.index()] = Some(new);
                    has_changed = true;
                }
            }
        }
        self.dominator[entry.index()] = None;
    }

    /// The closest block that dominates both, as far as dominators are known.
    fn meet(&self, mut left: BlockId, mut right: BlockId) -> BlockId {
        while left != right {
            let is_left_later = self.position[left.index()] > self.position[right.index()];
            let later = if is_left_later { &mut left } else { &mut right };
            match self.dominator[later.index()] {
                Some(next) => *later = next,
                None => return *later,
            }
        }
        left
    }
}

fn reverse_postorder(successors: &[Vec<BlockId>]) -> Vec<BlockId> {
    if successors.is_empty() {
        return Vec::new();
    }
    let entry = BlockId::from_index(0);
    let mut is_seen = vec![false; successors.len()];
    is_seen[entry.index()] = true;
    let mut order = Vec::with_capacity(successors.len());
    // Each open block with how many of its successors were visited.
    let mut open = vec![(entry, 0)];
    while let Some((block, visited)) = open.last_mut() {
        match successors[block.index()].get(*visited) {
            Some(&next) => {
                *visited += 1;
                if !std::mem::replace(&mut is_seen[next.index()], true) {
                    open.push((next, 0));
                }
            }
            None => {
                order.push(*block);
                open.pop();
            }
        }
    }
    order.reverse();
    order
}
