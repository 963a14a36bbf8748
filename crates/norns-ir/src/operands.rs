//! The operands of an instruction, the blocks that a terminator leads to, the parts of a constant.

use crate::instruction::{Callee, Kind, LandingClause, Operand};
use crate::program::{BlockId, Constant, ConstantId};

/// One exhaustive list of the operands of every kind, for shared and for mutable access.
macro_rules! visit_operands {
    ($kind:expr, $iter:ident, $visit:ident) => {
        match $kind {
            Kind::Binary(_, left, right)
            | Kind::Compare(_, left, right)
            | Kind::ExtractElement(left, right) => {
                $visit(left);
                $visit(right);
            }
            Kind::Negate(value)
            | Kind::Cast(_, value)
            | Kind::Freeze(value)
            | Kind::ExtractValue(value, _)
            | Kind::VariadicArgument(value)
            | Kind::Resume(value)
            | Kind::IndirectJump(value, _)
            | Kind::Allocate { count: value, .. }
            | Kind::Load { address: value, .. }
            | Kind::Branch {
                condition: value, ..
            }
            | Kind::Switch { value, .. } => $visit(value),
            Kind::Select {
                condition,
                then,
                otherwise,
            } => {
                $visit(condition);
                $visit(then);
                $visit(otherwise);
            }
            Kind::Phi(incoming) => {
                for (_, value) in incoming.$iter() {
                    $visit(value);
                }
            }
            Kind::Store { address, value, .. } | Kind::Update { address, value, .. } => {
                $visit(address);
                $visit(value);
            }
            Kind::CompareExchange {
                address,
                expected,
                new,
                ..
            } => {
                $visit(address);
                $visit(expected);
                $visit(new);
            }
            Kind::ElementAddress { base, indices, .. } => {
                $visit(base);
                for index in indices.$iter() {
                    $visit(index);
                }
            }
            Kind::InsertValue {
                aggregate, value, ..
            } => {
                $visit(aggregate);
                $visit(value);
            }
            Kind::InsertElement {
                vector,
                value,
                index,
            } => {
                $visit(vector);
                $visit(value);
                $visit(index);
            }
            Kind::Shuffle(first, second, mask) => {
                $visit(first);
                $visit(second);
                $visit(mask);
            }
            Kind::Call {
                callee, arguments, ..
            }
            | Kind::Invoke {
                callee, arguments, ..
            }
            | Kind::CallBranch {
                callee, arguments, ..
            } => {
                if let Callee::Indirect(target) = callee {
                    $visit(target);
                }
                for argument in arguments.$iter() {
                    $visit(argument);
                }
            }
            Kind::LandingPad { clauses, .. } => {
                for clause in clauses.$iter() {
                    match clause {
                        LandingClause::Catch(value) | LandingClause::Filter(value) => $visit(value),
                    }
                }
            }
            Kind::Other(_, operands) => {
                for operand in operands.$iter() {
                    $visit(operand);
                }
            }
            Kind::Return(value) => {
                if let Some(value) = value {
                    $visit(value);
                }
            }
            Kind::Fence(_) | Kind::Jump(_) | Kind::Unreachable => {}
        }
    };
}

impl Kind {
    /// Calls `visit` with every operand, in the order of the fields. The function of an indirect call
    /// comes before its arguments.
    pub fn for_each_operand(&self, mut visit: impl FnMut(Operand)) {
        let mut visit = |operand: &Operand| visit(*operand);
        visit_operands!(self, iter, visit);
    }

    pub fn for_each_operand_mut(&mut self, mut visit: impl FnMut(&mut Operand)) {
        visit_operands!(self, iter_mut, visit);
    }

    #[must_use]
    pub fn is_terminator(&self) -> bool {
        match self {
            Kind::Return(_)
            | Kind::Jump(_)
            | Kind::Branch { .. }
            | Kind::Switch { .. }
            | Kind::IndirectJump(..)
            | Kind::Invoke { .. }
            | Kind::CallBranch { .. }
            | Kind::Resume(_)
            | Kind::Unreachable => true,
            Kind::Other(name, _) => {
                matches!(name.as_str(), "cleanupret" | "catchret" | "catchswitch")
            }
            _ => false,
        }
    }

    /// The blocks that may run next after a terminator, in the order of its fields; one may occur twice.
    #[must_use]
    pub fn successors(&self) -> Vec<BlockId> {
        match self {
            Kind::Jump(target) => vec![*target],
            Kind::Branch {
                then, otherwise, ..
            } => vec![*then, *otherwise],
            Kind::Switch { default, cases, .. } => {
                let cases = cases.iter().map(|&(_, block)| block);
                std::iter::once(*default).chain(cases).collect()
            }
            Kind::IndirectJump(_, targets) => targets.clone(),
            Kind::Invoke { normal, unwind, .. } => vec![*normal, *unwind],
            Kind::CallBranch {
                default, others, ..
            } => std::iter::once(*default)
                .chain(others.iter().copied())
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl Constant {
    /// Calls `visit` with every constant that this one is made from. No constant is made from itself.
    pub fn for_each_part(&self, mut visit: impl FnMut(ConstantId)) {
        match self {
            Constant::Aggregate(_, parts) => parts.iter().copied().for_each(visit),
            Constant::Computed(instruction) => instruction.kind.for_each_operand(|operand| {
                if let Operand::Constant(part) = operand {
                    visit(part);
                }
            }),
            Constant::Integer(..)
            | Constant::Float(..)
            | Constant::Null(_)
            | Constant::Undefined(_)
            | Constant::Zero(_)
            | Constant::Bytes(..)
            | Constant::Numbers(..)
            | Constant::Global(_)
            | Constant::Function(_)
            | Constant::Other(..) => {}
        }
    }
}
