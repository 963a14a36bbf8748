//! What can have run before an instruction: backward over the control flow of the whole program, in which a
//! call leads to its function and back, a creation to the first function of the thread, and the end of a
//! thread to where it is joined (the TICFG of Kasikci 2015, section 4.2).
//!
//! Not sensitive to contexts beyond the instances of functions: a shared function returns to all its
//! callers.

use norns_ir::{BlockId, Kind};
use rustc_hash::FxHashMap;

use crate::code::Code;
use crate::instance::{InstanceId, Point};
use crate::join;

/// How much of each block can have run: so many of its first instructions.
pub struct Before {
    blocks: FxHashMap<(InstanceId, BlockId), usize>,
}

impl Before {
    pub fn new(code: &Code, point: Point) -> Self {
        let mut search = Search {
            code,
            blocks: FxHashMap::default(),
            waiting: Vec::new(),
        };
        search.until(point);
        while let Some((instance, block, from, to)) = search.waiting.pop() {
            search.expand(instance, block, from, to);
        }
        Self {
            blocks: search.blocks,
        }
    }

    pub fn contains(&self, code: &Code, point: Point) -> bool {
        let at = code.flow(point.instance).position(point.instruction);
        at.is_some_and(|(block, at)| {
            let until = self.blocks.get(&(point.instance, block));
            until.is_some_and(|&until| at < until)
        })
    }
}

struct Search<'a, 'p> {
    code: &'a Code<'p>,
    blocks: FxHashMap<(InstanceId, BlockId), usize>,
    /// Blocks of which this range of instructions is new.
    waiting: Vec<(InstanceId, BlockId, usize, usize)>,
}

impl Search<'_, '_> {
    /// All that runs before an instruction in its block, and before that.
    fn until(&mut self, point: Point) {
        let position = self.code.flow(point.instance).position(point.instruction);
        if let Some((block, at)) = position {
            self.reach(point.instance, block, at);
        }
    }

    fn reach(&mut self, instance: InstanceId, block: BlockId, until: usize) {
        let known = self.blocks.get(&(instance, block)).copied();
        if known.is_some_and(|known| known >= until) {
            return;
        }
        self.blocks.insert((instance, block), until);
        let from = known.unwrap_or(0);
        self.waiting.push((instance, block, from, until));
    }

    fn expand(&mut self, instance: InstanceId, block: BlockId, from: usize, to: usize) {
        let code = self.code;
        let function = code.function(instance);
        for &instruction in &function.blocks[block.index()].instructions[from..to] {
            let point = Point {
                instance,
                instruction,
            };
            for &callee in code.points_to.instances.callees(point) {
                self.ends_of(callee);
            }
            for thread in join::named(code, point) {
                for &entry in &code.points_to.instances.thread(thread).entries {
                    self.ends_of(entry);
                }
            }
        }
        let flow = code.flow(instance);
        for &before in flow.predecessors(block) {
            let all = function.blocks[before.index()].instructions.len();
            self.reach(instance, before, all);
        }
        if block.index() == 0 {
            let instances = &code.points_to.instances;
            for &call in &instances.get(instance).callers {
                self.until(call);
            }
            if let Some(thread) = instances.entered_by(instance) {
                for &call in &instances.thread(thread).created {
                    self.until(call);
                }
            }
        }
    }

    /// The blocks in which a function returns.
    fn ends_of(&mut self, instance: InstanceId) {
        let function = self.code.function(instance);
        for (block, instruction, inside) in function.listed() {
            if matches!(inside.kind, Kind::Return(_)) {
                self.until(Point {
                    instance,
                    instruction,
                });
                let all = function.blocks[block.index()].instructions.len();
                self.reach(instance, block, all);
            }
        }
    }
}
