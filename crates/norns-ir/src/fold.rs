//! Branches that a constant decides.
//!
//! Headers ask questions whose answer the platform gives: the C++ library calls a function that always returns 1
//! to learn whether there are threads, and locks its mutexes only then. A branch on the result of a function
//! that does nothing but return a constant becomes a jump; blocks that nothing reaches any more end at once.
//! The variable of the C library that says whether there is only one thread counts as false: what the program
//! does then is what it does otherwise, without atomic operations. What `std::function` asks the managers of its
//! functions for depends on which of its methods the program has.

use std::collections::HashMap;

use crate::control_flow::ControlFlow;
use crate::instruction::{Callee, Kind, Operand, Predicate};
use crate::program::{BlockId, Constant, Function, FunctionId, Program};
use crate::types::Type;

/// The part of the name of each manager of a `std::function` in libstdc++.
const MANAGER: &str = "10_M_managerERSt9_Any_data";
/// The operations of a manager, and the parts of the names of the methods that ask for them: the type, a pointer
/// to the function object, a copy.
const MANAGED: [(i128, &[&str]); 3] = [
    (0, &["11target_typeEv", "6targetI"]),
    (1, &["6targetI"]),
    (2, &["EC1ERKS", "EC2ERKS"]),
];

/// Conditions are a few operators deep.
const DEEPEST: u32 = 8;

/// What is always returned, by function.
type Answers = HashMap<FunctionId, i128>;

impl Program {
    /// Turns branches that a constant decides into jumps, in all functions.
    pub(crate) fn fold_branches(&mut self) {
        let functions = self.functions.iter().enumerate();
        let answers: Answers = functions
            .filter_map(|(at, function)| {
                let answer = only_answer(self, function)?;
                Some((FunctionId::from_index(at), answer))
            })
            .collect();
        let has_method = |words: &[&str]| {
            self.functions.iter().any(|function| {
                let name = function.name.as_str();
                let is_method =
                    name.starts_with("_ZNSt8functionI") || name.starts_with("_ZNKSt8functionI");
                is_method && words.iter().any(|word| name.contains(word))
            })
        };
        let mut never = Vec::new();
        for (operation, methods) in MANAGED {
            if !has_method(methods) {
                never.push(operation);
            }
        }
        for at in 0..self.functions.len() {
            let decided = decided(self, &answers, &self.functions[at]);
            let is_manager = self.functions[at].name.contains(MANAGER);
            let is_narrowed = is_manager && self.remove_cases(at, &never);
            if is_narrowed || !decided.is_empty() {
                rewrite(&mut self.functions[at], &decided);
            }
        }
    }

    /// Removes the cases of these values from the switches of a function. Returns whether there was one.
    fn remove_cases(&mut self, function: usize, values: &[i128]) -> bool {
        let is_removed = |case| integer(self, case).is_some_and(|number| values.contains(&number));
        let mut switches = Vec::new();
        for (_, id, instruction) in self.functions[function].listed() {
            if let Kind::Switch { cases, .. } = &instruction.kind
                && cases.iter().any(|&(case, _)| is_removed(case))
            {
                let kept = cases.iter().copied();
                let kept = kept.filter(|&(case, _)| !is_removed(case));
                switches.push((id, kept.collect::<Vec<_>>()));
            }
        }
        let is_found = !switches.is_empty();
        for (id, kept) in switches {
            let kind = &mut self.functions[function].instructions[id.index()].kind;
            if let Kind::Switch { cases, .. } = kind {
                *cases = kept;
            }
        }
        is_found
    }
}

/// The constant that a function returns, if it does nothing else.
fn only_answer(program: &Program, function: &Function) -> Option<i128> {
    let [block] = function.blocks.as_slice() else {
        return None;
    };
    if asks_for_threads(program, function) {
        return Some(0);
    }
    let &[only] = block.instructions.as_slice() else {
        return None;
    };
    match function.instruction(only).kind {
        Kind::Return(Some(Operand::Constant(id))) => integer(program, id),
        _ => None,
    }
}

/// Whether a function does nothing but tell whether the process has one thread.
fn asks_for_threads(program: &Program, function: &Function) -> bool {
    let [block] = function.blocks.as_slice() else {
        return false;
    };
    let is_variable = |address: Operand| match address {
        Operand::Constant(id) => match program.constant(id) {
            Constant::Global(global) => program.global(*global).name == "__libc_single_threaded",
            _ => false,
        },
        _ => false,
    };
    let mut loads = false;
    block
        .instructions
        .iter()
        .all(|&id| match function.instruction(id).kind {
            Kind::Load { address, .. } => {
                loads = true;
                is_variable(address)
            }
            Kind::Cast(..) | Kind::Compare(..) | Kind::Return(Some(Operand::Result(_))) => true,
            _ => false,
        })
        && loads
}

fn integer(program: &Program, id: crate::program::ConstantId) -> Option<i128> {
    match program.constant(id) {
        Constant::Integer(r#type, value) => match program.types.get(*r#type) {
            Type::Integer(1..=64) => i128::try_from(*value).ok(),
            _ => None,
        },
        Constant::Zero(_) => Some(0),
        _ => None,
    }
}

/// The blocks whose branch always goes to the same block.
fn decided(program: &Program, answers: &Answers, function: &Function) -> Vec<(BlockId, BlockId)> {
    let mut decided = Vec::new();
    for (at, block) in function.blocks.iter().enumerate() {
        let Some(&last) = block.instructions.last() else {
            continue;
        };
        let Kind::Branch {
            condition,
            then,
            otherwise,
        } = function.instruction(last).kind
        else {
            continue;
        };
        let is_call = matches!(condition, Operand::Result(_));
        let value = is_call.then(|| value(program, answers, function, condition, DEEPEST));
        if let Some(value) = value.flatten() {
            let to = if value & 1 == 1 { then } else { otherwise };
            decided.push((BlockId::from_index(at), to));
        }
    }
    decided
}

fn value(
    program: &Program,
    answers: &Answers,
    function: &Function,
    operand: Operand,
    depth: u32,
) -> Option<i128> {
    let id = match operand {
        Operand::Constant(id) => return integer(program, id),
        Operand::Parameter(_) => return None,
        Operand::Result(id) => id,
    };
    let depth = depth.checked_sub(1)?;
    let of = |operand| value(program, answers, function, operand, depth);
    match function.instruction(id).kind {
        Kind::Call {
            callee: Callee::Function(called),
            ..
        } => answers.get(&called).copied(),
        Kind::Compare(Predicate::Equal, a, b) => Some(i128::from(of(a)? == of(b)?)),
        Kind::Compare(Predicate::NotEqual, a, b) => Some(i128::from(of(a)? != of(b)?)),
        _ => None,
    }
}

fn rewrite(function: &mut Function, decided: &[(BlockId, BlockId)]) {
    for &(block, to) in decided {
        let last = *function.blocks[block.index()]
            .instructions
            .last()
            .expect("a block that branches has a terminator");
        function.instructions[last.index()].kind = Kind::Jump(to);
    }
    let flow = ControlFlow::new(function);
    for at in 0..function.blocks.len() {
        let block = BlockId::from_index(at);
        if !flow.is_reached(block) {
            // Every block has a terminator.
            let last = function.blocks[at].instructions.pop();
            function.blocks[at].instructions.clear();
            if let Some(last) = last {
                function.instructions[last.index()].kind = Kind::Unreachable;
                function.blocks[at].instructions.push(last);
            }
            continue;
        }
        let predecessors = flow.predecessors(block);
        for id in function.blocks[at].instructions.clone() {
            if let Kind::Phi(incoming) = &mut function.instructions[id.index()].kind {
                incoming.retain(|(from, _)| predecessors.contains(from) && flow.is_reached(*from));
            }
        }
    }
}
