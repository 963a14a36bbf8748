//! Which branches decide whether a block runs: control dependence.
//!
//! A block depends on a branch if it is on every way to the end from one of the branch's targets and not on
//! every way from the branch itself (Cytron et al. 1991, section 6). Blocks from which no way leads
//! to the end of the function, such as endless loops, end where they are.

use norns_ir::{BlockId, ControlFlow, Function, FunctionId, InstructionId};
use rustc_hash::FxHashMap;

/// The dependences of the functions that were asked for.
#[derive(Default)]
pub struct Decisions {
    /// For each block of a function the branches that it depends on.
    known: FxHashMap<FunctionId, Vec<Vec<InstructionId>>>,
}

impl Decisions {
    /// The terminators that decide whether the block runs, in the order of their blocks.
    pub fn of(
        &mut self,
        id: FunctionId,
        function: &Function,
        block: BlockId,
    ) -> Vec<InstructionId> {
        let all = self
            .known
            .entry(id)
            .or_insert_with(|| dependences(function));
        all[block.index()].clone()
    }
}

fn dependences(function: &Function) -> Vec<Vec<InstructionId>> {
    let flow = ControlFlow::new(function);
    let count = function.blocks.len();
    let after = post_dominators(&flow, count);
    let mut all = vec![Vec::new(); count];
    for &block in flow.order() {
        let next = flow.successors(block);
        let Some(&branch) = function.blocks[block.index()].instructions.last() else {
            continue;
        };
        if next.len() < 2 {
            continue;
        }
        // Everything that follows a target for certain, up to where the ways meet again.
        let end = after[block.index()];
        for &target in next {
            let mut runner = Some(target.index());
            let mut steps = 0;
            while let Some(at) = runner.filter(|_| runner != end && steps <= count) {
                if !all[at].contains(&branch) {
                    all[at].push(branch);
                }
                runner = after[at];
                steps += 1;
            }
        }
    }
    all
}

/// The closest block that is on every way from a block to the end, without the block itself; `None` if that
/// is the end. Dominators of the reversed flow, computed as in `norns_ir::ControlFlow`.
fn post_dominators(flow: &ControlFlow, count: usize) -> Vec<Option<usize>> {
    let end = count;
    let ends = |block: &BlockId| flow.successors(*block).is_empty();
    let mut order: Vec<usize> = Vec::new();
    let mut seen = vec![false; count];
    // Blocks that reach no end are made ends themselves, the last ones first.
    let roots = flow.order().iter().filter(|block| ends(block));
    let others = flow.order().iter().rev();
    let mut is_end = vec![false; count];
    for root in roots.chain(others) {
        if std::mem::replace(&mut seen[root.index()], true) {
            continue;
        }
        is_end[root.index()] = true;
        let mut open = vec![(*root, 0)];
        while let Some((block, visited)) = open.last_mut() {
            match flow.predecessors(*block).get(*visited) {
                Some(&before) => {
                    *visited += 1;
                    let is_new = flow.is_reached(before)
                        && !std::mem::replace(&mut seen[before.index()], true);
                    if is_new {
                        open.push((before, 0));
                    }
                }
                None => {
                    order.push(block.index());
                    open.pop();
                }
            }
        }
    }
    order.reverse();
    let mut position = vec![0; count + 1];
    for (place, &block) in order.iter().enumerate() {
        position[block] = place + 1;
    }
    let mut dominator = vec![None; count + 1];
    dominator[end] = Some(end);
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for &block in &order {
            let next = flow.successors(BlockId::from_index(block)).iter();
            let next = next.map(|next| next.index());
            let next = next.chain(is_end[block].then_some(end));
            let mut known = next.filter(|next| dominator[*next].is_some());
            let Some(first) = known.next() else { continue };
            let new = known.fold(first, |one, other| meet(&dominator, &position, one, other));
            if dominator[block] != Some(new) {
                dominator[block] = Some(new);
                has_changed = true;
            }
        }
    }
    let found = dominator.into_iter().take(count);
    found.map(|at| at.filter(|&at| at != end)).collect()
}

fn meet(
    dominator: &[Option<usize>],
    position: &[usize],
    mut one: usize,
    mut other: usize,
) -> usize {
    while one != other {
        let later = match position[one] > position[other] {
            true => &mut one,
            false => &mut other,
        };
        *later = dominator[*later].expect("only blocks with a dominator are met");
    }
    one
}
