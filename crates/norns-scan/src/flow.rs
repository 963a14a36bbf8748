//! Control flow of one function: what can be executed again, what comes before what.

use norns_ir::{BlockId, ControlFlow, Function, InstructionId};

pub struct Flow {
    control: ControlFlow,
    /// The strongly connected component of each block, if it has a cycle.
    cycle: Vec<Option<usize>>,
    /// Where each listed instruction stands: its block and position there.
    position: Vec<Option<(BlockId, usize)>>,
}

impl Flow {
    #[must_use]
    pub fn new(function: &Function) -> Self {
        let mut flow = Self {
            control: ControlFlow::new(function),
            cycle: Vec::new(),
            position: vec![None; function.instructions.len()],
        };
        for (block, list) in function.blocks.iter().enumerate() {
            for (at, &id) in list.instructions.iter().enumerate() {
                flow.position[id.index()] = Some((BlockId::from_index(block), at));
            }
        }
        flow.find_cycles(function.blocks.len());
        flow
    }

    #[must_use]
    pub fn successors(&self, block: BlockId) -> &[BlockId] {
        self.control.successors(block)
    }

    #[must_use]
    pub fn predecessors(&self, block: BlockId) -> &[BlockId] {
        self.control.predecessors(block)
    }

    /// The blocks that can be reached, in reverse postorder.
    #[must_use]
    pub fn order(&self) -> &[BlockId] {
        self.control.order()
    }

    fn find_cycles(&mut self, count: usize) {
        let edges = |at: usize| -> Vec<usize> {
            let next = self.successors(BlockId::from_index(at)).iter();
            next.map(|to| to.index()).collect()
        };
        let components = components(count, edges);
        let mut sizes = vec![0_usize; count];
        for &component in &components {
            sizes[component] += 1;
        }
        self.cycle = (0..count)
            .map(|block| {
                let component = components[block];
                let id = BlockId::from_index(block);
                let loops_to_itself = self.successors(id).contains(&id);
                (sizes[component] > 1 || loops_to_itself).then_some(component)
            })
            .collect();
    }

    #[must_use]
    pub fn position(&self, instruction: InstructionId) -> Option<(BlockId, usize)> {
        self.position.get(instruction.index()).copied().flatten()
    }

    /// The cycle of blocks, if any, in which an instruction can be executed again.
    #[must_use]
    pub fn cycle(&self, block: BlockId) -> Option<usize> {
        self.cycle[block.index()]
    }

    #[must_use]
    pub fn is_in_cycle(&self, instruction: InstructionId) -> bool {
        self.position(instruction)
            .is_some_and(|(block, _)| self.cycle(block).is_some())
    }

    #[must_use]
    pub fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        self.control.dominates(a, b)
    }

    /// Whether every path from the entry to the second instruction has executed the first.
    #[must_use]
    pub fn precedes(&self, first: InstructionId, second: InstructionId) -> bool {
        match (self.position(first), self.position(second)) {
            (Some((a, at)), Some((b, bt))) if a == b => at < bt,
            (Some((a, _)), Some((b, _))) => self.dominates(a, b),
            _ => false,
        }
    }

    /// Whether the second instruction can be executed after the first in one call of the function.
    #[must_use]
    pub fn reaches(&self, first: InstructionId, second: InstructionId) -> bool {
        let (Some((a, at)), Some((b, bt))) = (self.position(first), self.position(second)) else {
            return false;
        };
        if a == b && at < bt {
            return true;
        }
        self.block_reaches(a, b)
    }

    /// Whether the second block can be entered after the first one ended.
    #[must_use]
    pub fn block_reaches(&self, from: BlockId, to: BlockId) -> bool {
        let mut seen = vec![false; self.cycle.len()];
        let mut stack = vec![from];
        while let Some(block) = stack.pop() {
            for &next in self.successors(block) {
                if next == to {
                    return true;
                }
                if !std::mem::replace(&mut seen[next.index()], true) {
                    stack.push(next);
                }
            }
        }
        false
    }
}

/// The strongly connected component of each node of a graph, numbered so that edges lead to lower or equal
/// numbers (Tarjan 1972, without recursion).
pub fn components(count: usize, edges: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut index = vec![NONE; count];
    let mut low = vec![0; count];
    let mut component = vec![NONE; count];
    let mut open = Vec::new();
    let (mut next_index, mut next_component) = (0, 0);
    for start in 0..count {
        if index[start] != NONE {
            continue;
        }
        let mut stack = vec![(start, edges(start), 0)];
        index[start] = next_index;
        low[start] = next_index;
        next_index += 1;
        open.push(start);
        while let Some((node, out, at)) = stack.last_mut() {
            let node = *node;
            if let Some(&to) = out.get(*at) {
                *at += 1;
                if index[to] == NONE {
                    index[to] = next_index;
                    low[to] = next_index;
                    next_index += 1;
                    open.push(to);
                    stack.push((to, edges(to), 0));
                } else if component[to] == NONE {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            stack.pop();
            if let Some((parent, ..)) = stack.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == index[node] {
                while let Some(top) = open.pop() {
                    component[top] = next_component;
                    if top == node {
                        break;
                    }
                }
                next_component += 1;
            }
        }
    }
    component
}
