//! Promotion of local variables from stack slots to values.
//!
//! Unoptimised code keeps every local variable in memory. A slot of one scalar whose address goes nowhere
//! but into loads and stores becomes values and phis, as LLVM's `mem2reg` does it: phis at the iterated
//! dominance frontiers of the stores (Cytron et al. 1991) where the variable is live, then a walk over the
//! dominator tree. Structures and arrays stay in memory.

use std::collections::HashMap;

use crate::control_flow::ControlFlow;
use crate::debug::Variable;
use crate::instruction::{Callee, Cast, Instruction, Kind, Operand};
use crate::program::{BlockId, Constant, ConstantId, Function, InstructionId, Program};
use crate::types::{Type, TypeId};

impl Program {
    /// Turns local variables whose address is not taken into values, in all functions, after branches that a
    /// constant decides were removed.
    pub fn promote_locals(&mut self) {
        self.fold_branches();
        let mut undefined = HashMap::new();
        for index in 0..self.functions.len() {
            let slots = find_slots(self, &self.functions[index]);
            if slots.of_instruction.is_empty() {
                continue;
            }
            for &r#type in &slots.types {
                undefined.entry(r#type).or_insert_with(|| {
                    self.constants.push(Constant::Undefined(r#type));
                    ConstantId::from_index(self.constants.len() - 1)
                });
            }
            let function = &mut self.functions[index];
            let flow = ControlFlow::new(function);
            Promotion::new(function, &flow, slots, &undefined).run();
        }
    }
}

/// The slots of a function that become values. Each has a number.
struct Slots {
    of_instruction: HashMap<InstructionId, usize>,
    types: Vec<TypeId>,
    /// Instructions that only tell where a slot is alive.
    markers: Vec<InstructionId>,
}

/// What an instruction does with a slot.
enum Access {
    Load(usize),
    Store(usize, Operand),
}

impl Slots {
    fn access(&self, kind: &Kind) -> Option<Access> {
        let slot = |address: &Operand| match address {
            Operand::Result(id) => self.of_instruction.get(id).copied(),
            _ => None,
        };
        match kind {
            Kind::Load { address, .. } => slot(address).map(Access::Load),
            Kind::Store { address, value, .. } => {
                slot(address).map(|slot| Access::Store(slot, *value))
            }
            _ => None,
        }
    }
}

fn find_slots(program: &Program, function: &Function) -> Slots {
    let mut candidates: HashMap<InstructionId, TypeId> = HashMap::new();
    let mut views: HashMap<InstructionId, InstructionId> = HashMap::new();
    for (_, id, instruction) in function.listed() {
        match instruction.kind {
            Kind::Allocate { r#type, count } if is_scalar(program, r#type, count) => {
                candidates.insert(id, r#type);
            }
            // clang 14 casts the address that it passes to a lifetime marker.
            Kind::Cast(Cast::Bits, Operand::Result(slot)) if candidates.contains_key(&slot) => {
                views.insert(id, slot);
            }
            _ => {}
        }
    }
    let mut markers = Vec::new();
    for (_, id, instruction) in function.listed() {
        if views.contains_key(&id) {
            continue;
        }
        let allowed = match &instruction.kind {
            Kind::Load {
                address: Operand::Result(slot),
                is_volatile: false,
                order: None,
            } if candidates.get(slot) == Some(&instruction.r#type) => Some(*slot),
            Kind::Store {
                address: Operand::Result(slot),
                value,
                is_volatile: false,
                order: None,
            } if *value != Operand::Result(*slot)
                && candidates.get(slot).copied() == program.operand_type(function, *value) =>
            {
                Some(*slot)
            }
            Kind::Call {
                callee: Callee::Function(callee),
                arguments,
                ..
            } if program.function(*callee).name.starts_with("llvm.lifetime.") => {
                match arguments.last() {
                    Some(&Operand::Result(address)) => {
                        let slot = views.get(&address).copied().unwrap_or(address);
                        if candidates.contains_key(&slot) {
                            markers.push(id);
                        }
                        Some(address)
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        instruction.kind.for_each_operand(|operand| {
            if let Operand::Result(used) = operand
                && Some(used) != allowed
            {
                candidates.remove(&used);
                if let Some(slot) = views.get(&used) {
                    candidates.remove(slot);
                }
            }
        });
    }
    let is_kept = |address: InstructionId| {
        let slot = views.get(&address).unwrap_or(&address);
        candidates.contains_key(slot)
    };
    // A marker of a slot that stays in memory stays, too.
    markers.retain(|&marker| match &function.instruction(marker).kind {
        Kind::Call { arguments, .. } => match arguments.last() {
            Some(&Operand::Result(address)) => is_kept(address),
            _ => false,
        },
        _ => false,
    });
    markers.extend(views.keys().copied().filter(|&view| is_kept(view)));
    // In the order of the program, so that two runs number them alike.
    let mut slots: Vec<_> = candidates.into_iter().collect();
    slots.sort_unstable();
    let of_instruction = slots.iter().enumerate();
    Slots {
        of_instruction: of_instruction
            .map(|(number, &(id, _))| (id, number))
            .collect(),
        types: slots.into_iter().map(|(_, r#type)| r#type).collect(),
        markers,
    }
}

fn is_scalar(program: &Program, r#type: TypeId, count: Operand) -> bool {
    let is_one = match count {
        Operand::Constant(id) => matches!(program.constant(id), Constant::Integer(_, 1)),
        _ => false,
    };
    let r#type = program.types.get(r#type);
    is_one
        && matches!(
            r#type,
            Type::Integer(_) | Type::Float(_) | Type::Pointer | Type::Vector { .. }
        )
}

struct Promotion<'a> {
    function: &'a mut Function,
    flow: &'a ControlFlow,
    slots: Slots,
    undefined: &'a HashMap<TypeId, ConstantId>,
    /// The phis that were put at the start of each block, by slot.
    phis: Vec<Vec<(usize, InstructionId)>>,
    /// What each slot holds; `None` before the first store.
    current: Vec<Option<Operand>>,
    /// What each load gave.
    loaded: HashMap<InstructionId, Operand>,
    /// What was stored to each slot.
    stored: Vec<Vec<Operand>>,
}

/// A step of the walk over the dominator tree.
enum Step {
    Enter(BlockId),
    /// A slot gets back the value that it had above a block.
    Restore(usize, Option<Operand>),
}

impl<'a> Promotion<'a> {
    fn new(
        function: &'a mut Function,
        flow: &'a ControlFlow,
        slots: Slots,
        undefined: &'a HashMap<TypeId, ConstantId>,
    ) -> Self {
        Self {
            phis: vec![Vec::new(); function.blocks.len()],
            current: vec![None; slots.types.len()],
            loaded: HashMap::new(),
            stored: vec![Vec::new(); slots.types.len()],
            function,
            flow,
            slots,
            undefined,
        }
    }

    fn run(mut self) {
        self.place_phis();
        self.walk();
        self.remove_memory();
        self.name_values();
    }

    fn place_phis(&mut self) {
        let frontiers = self.flow.dominance_frontiers();
        let count = self.slots.types.len();
        let mut defined_in: Vec<Vec<BlockId>> = vec![Vec::new(); count];
        let mut read_first: Vec<Vec<BlockId>> = vec![Vec::new(); count];
        for &block in self.flow.order() {
            for &id in &self.function.blocks[block.index()].instructions {
                let Some(access) = self.slots.access(&self.function.instruction(id).kind) else {
                    continue;
                };
                let (Access::Load(slot) | Access::Store(slot, _)) = access;
                let list = match access {
                    _ if defined_in[slot].last() == Some(&block) => continue,
                    Access::Load(_) => &mut read_first[slot],
                    Access::Store(..) => &mut defined_in[slot],
                };
                if list.last() != Some(&block) {
                    list.push(block);
                }
            }
        }
        // The last slot for which a block was visited.
        let mut seen_live = vec![usize::MAX; self.function.blocks.len()];
        let mut seen_phi = vec![usize::MAX; self.function.blocks.len()];
        let mut seen_defined = vec![usize::MAX; self.function.blocks.len()];
        for slot in 0..count {
            for block in &defined_in[slot] {
                seen_defined[block.index()] = slot;
            }
            // The slot is live at the start of blocks from which a read is reached before a store.
            let mut waiting = std::mem::take(&mut read_first[slot]);
            while let Some(block) = waiting.pop() {
                if std::mem::replace(&mut seen_live[block.index()], slot) == slot {
                    continue;
                }
                let before = self.flow.predecessors(block).iter().copied();
                waiting.extend(before.filter(|before| seen_defined[before.index()] != slot));
            }
            let mut waiting = std::mem::take(&mut defined_in[slot]);
            while let Some(block) = waiting.pop() {
                for &join in &frontiers[block.index()] {
                    let is_live = seen_live[join.index()] == slot;
                    if is_live && std::mem::replace(&mut seen_phi[join.index()], slot) != slot {
                        let id = InstructionId::from_index(self.function.instructions.len());
                        self.function.instructions.push(Instruction {
                            kind: Kind::Phi(Vec::new()),
                            r#type: self.slots.types[slot],
                            place: None,
                        });
                        self.phis[join.index()].push((slot, id));
                        waiting.push(join);
                    }
                }
            }
        }
    }

    fn walk(&mut self) {
        let mut children: Vec<Vec<BlockId>> = vec![Vec::new(); self.function.blocks.len()];
        for &block in self.flow.order() {
            if let Some(dominator) = self.flow.immediate_dominator(block) {
                children[dominator.index()].push(block);
            }
        }
        let mut steps: Vec<Step> = self
            .flow
            .order()
            .first()
            .map(|&entry| Step::Enter(entry))
            .into_iter()
            .collect();
        while let Some(step) = steps.pop() {
            let block = match step {
                Step::Restore(slot, value) => {
                    self.current[slot] = value;
                    continue;
                }
                Step::Enter(block) => block,
            };
            self.rename_block(block, &mut steps);
            steps.extend(
                children[block.index()]
                    .iter()
                    .map(|&child| Step::Enter(child)),
            );
        }
    }

    fn rename_block(&mut self, block: BlockId, steps: &mut Vec<Step>) {
        let mut set = |current: &mut Vec<Option<Operand>>, slot: usize, value: Operand| {
            let before = current[slot].replace(value);
            steps.push(Step::Restore(slot, before));
        };
        for &(slot, phi) in &self.phis[block.index()] {
            set(&mut self.current, slot, Operand::Result(phi));
            self.stored[slot].push(Operand::Result(phi));
        }
        for &id in &self.function.blocks[block.index()].instructions {
            match self.slots.access(&self.function.instruction(id).kind) {
                Some(Access::Load(slot)) => {
                    let value = self.value(slot);
                    self.loaded.insert(id, value);
                }
                Some(Access::Store(slot, value)) => {
                    let value = self.resolve(value);
                    set(&mut self.current, slot, value);
                    self.stored[slot].push(value);
                }
                None => {}
            }
        }
        for &next in self.flow.successors(block) {
            for &(slot, phi) in &self.phis[next.index()] {
                let value = self.value(slot);
                if let Kind::Phi(incoming) = &mut self.function.instructions[phi.index()].kind {
                    incoming.push((block, value));
                }
            }
        }
    }

    /// What a slot holds now.
    fn value(&self, slot: usize) -> Operand {
        let undefined = self.undefined[&self.slots.types[slot]];
        self.current[slot].unwrap_or(Operand::Constant(undefined))
    }

    /// What an operand is once loads are gone.
    fn resolve(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Result(id) => self.loaded.get(&id).copied().unwrap_or(operand),
            _ => operand,
        }
    }

    /// Takes the slots, their loads and stores out of the blocks, and puts the phis in.
    fn remove_memory(&mut self) {
        let mut is_removed = vec![false; self.function.instructions.len()];
        for id in self.slots.of_instruction.keys().chain(&self.slots.markers) {
            is_removed[id.index()] = true;
        }
        for (index, instruction) in self.function.instructions.iter().enumerate() {
            let Some(access) = self.slots.access(&instruction.kind) else {
                continue;
            };
            is_removed[index] = true;
            // A load in a block that is never reached was not visited.
            if let Access::Load(slot) = access {
                let undefined = Operand::Constant(self.undefined[&self.slots.types[slot]]);
                let id = InstructionId::from_index(index);
                self.loaded.entry(id).or_insert(undefined);
            }
        }
        for (block, phis) in self.function.blocks.iter_mut().zip(&self.phis) {
            let old = std::mem::take(&mut block.instructions);
            let phis = phis.iter().map(|&(_, phi)| phi);
            let kept = old.into_iter().filter(|id| !is_removed[id.index()]);
            block.instructions = phis.chain(kept).collect();
        }
        let loaded = std::mem::take(&mut self.loaded);
        let resolve = |operand: &mut Operand| {
            if let Operand::Result(id) = operand
                && let Some(&value) = loaded.get(id)
            {
                *operand = value;
            }
        };
        for instruction in &mut self.function.instructions {
            instruction.kind.for_each_operand_mut(resolve);
        }
        for variable in &mut self.function.variables {
            resolve(&mut variable.value);
        }
    }

    /// A variable whose slot is gone names the values that were stored to it.
    fn name_values(&mut self) {
        let old = std::mem::take(&mut self.function.variables);
        for variable in old {
            let slot = match variable.value {
                Operand::Result(id) if variable.is_address => self.slots.of_instruction.get(&id),
                _ => None,
            };
            let Some(&slot) = slot else {
                self.function.variables.push(variable);
                continue;
            };
            let mut values = self.stored[slot].clone();
            values.sort_unstable();
            values.dedup();
            let values = values
                .into_iter()
                .filter(|value| !matches!(value, Operand::Constant(_)));
            self.function.variables.extend(values.map(|value| Variable {
                value,
                is_address: false,
                ..variable.clone()
            }));
        }
    }
}
