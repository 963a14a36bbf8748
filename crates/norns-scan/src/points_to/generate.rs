//! The constraints of one instance.

use norns_ir::{BinaryOperator, Callee, Cast, Constant, Kind, Operand, Program, Type, TypeId};

use super::solver::NodeId;
use super::{Constraint, Part, PointsTo};
use crate::instance::{InstanceId, Point};
use crate::object::Origin;

impl PointsTo<'_> {
    pub(super) fn generate(&mut self, instance: InstanceId) {
        let program = self.program;
        let function = program.function(self.instances.get(instance).function);
        for (_, id, instruction) in function.listed() {
            let to = self.value(instance, id);
            let point = Point {
                instance,
                instruction: id,
            };
            match &instruction.kind {
                Kind::Allocate { r#type, .. } => {
                    let origin = Origin::Stack(instance, id);
                    let object = self.objects.object(origin, Some(*r#type));
                    let place = self.location_of(object);
                    self.solver.add(to, place);
                }
                Kind::Load { address, .. } => {
                    if let Some(address) = self.operand(instance, *address) {
                        self.load(address, to);
                    }
                }
                Kind::Store { address, value, .. } => self.store(instance, *address, *value),
                Kind::Update { address, value, .. } => {
                    if let Some(address) = self.operand(instance, *address) {
                        self.load(address, to);
                    }
                    self.store(instance, *address, *value);
                }
                Kind::CompareExchange { address, new, .. } => {
                    if let Some(address) = self.operand(instance, *address) {
                        self.load(address, to);
                    }
                    self.store(instance, *address, *new);
                }
                Kind::ElementAddress {
                    source,
                    base,
                    indices,
                } => {
                    let (in_table, mut strides) = path(program, *source, indices);
                    let mut offset = in_table;
                    if is_walk(program, *source, indices) {
                        strides.push(program.types.size(*source));
                        offset = 0;
                    }
                    if let Some(base) = self.operand(instance, *base) {
                        self.part(
                            base,
                            Part {
                                to,
                                source: Some(*source),
                                offset,
                                in_table,
                                strides,
                            },
                        );
                    }
                }
                Kind::Return(Some(value)) => {
                    let result = self.result(instance);
                    self.copy_operand(instance, *value, result);
                }
                Kind::Call {
                    callee, arguments, ..
                }
                | Kind::Invoke {
                    callee, arguments, ..
                }
                | Kind::CallBranch {
                    callee, arguments, ..
                } => match callee {
                    Callee::Function(function) => self.call(point, *function, arguments, to),
                    Callee::Indirect(pointer) => self.call_through(point, *pointer, arguments, to),
                    Callee::Assembler(..) => {
                        self.assembler.insert(point);
                        // It can give back any pointer that it was given.
                        for &argument in arguments {
                            self.copy_operand(instance, argument, to);
                        }
                    }
                },
                kind => match passed_on(kind).as_slice() {
                    &[only] => {
                        if let Some(from) = self.operand(instance, only) {
                            self.solver.unify(to, from);
                        }
                    }
                    operands => {
                        for &operand in operands {
                            self.copy_operand(instance, operand, to);
                        }
                    }
                },
            }
        }
    }

    /// Gives a new instance its nodes; its constraints follow.
    pub(super) fn begin(&mut self, instance: InstanceId) {
        let function = self.program.function(self.instances.get(instance).function);
        while self.first.len() <= instance.index() {
            self.first.push(NodeId::from_index(0));
        }
        let count = self.parameter_count(instance) + function.instructions.len() + 1;
        let first = self.solver.nodes(count);
        self.first[instance.index()] = first;
        let types = &self.program.types;
        let is_narrow = |r#type: TypeId| match types.get(r#type) {
            Type::Integer(bits) => *bits < 64,
            Type::Float(_) => true,
            _ => false,
        };
        let parameters = match types.get(function.r#type) {
            Type::Function { parameters, .. } => parameters.as_slice(),
            _ => &[],
        };
        let results = function
            .instructions
            .iter()
            .map(|instruction| instruction.r#type);
        for (at, r#type) in parameters.iter().copied().chain(results).enumerate() {
            if is_narrow(r#type) {
                self.solver
                    .make_narrow(NodeId::from_index(first.index() + at));
            }
        }
        self.pending.push(instance);
    }

    pub(super) fn copy_operand(&mut self, instance: InstanceId, operand: Operand, to: NodeId) {
        if let Some(from) = self.operand(instance, operand) {
            self.solver.copy(from, to);
        }
    }

    pub(super) fn store(&mut self, instance: InstanceId, address: Operand, value: Operand) {
        let value = self.operand(instance, value);
        if let (Some(address), Some(value)) = (self.operand(instance, address), value) {
            self.store_behind(address, value);
        }
    }

    pub(super) fn part(&mut self, base: NodeId, part: Part) {
        let number = u32::try_from(self.parts.len()).expect("fewer parts than instructions");
        self.parts.push(part);
        self.watch(base, Constraint::Part(number));
    }
}

/// Whether an address computation is one step of a pointer through an array, as in `p++`.
fn is_walk(program: &Program, source: TypeId, indices: &[Operand]) -> bool {
    const LONGEST_STEP: i64 = 4;
    let is_scalar = !matches!(
        program.types.get(source),
        Type::Struct { .. } | Type::Array { .. }
    );
    let longest = if program.types.size(source) == 1 {
        1
    } else {
        LONGEST_STEP
    };
    match indices {
        [Operand::Constant(id)] => constant_integer(program, *id)
            .is_some_and(|step| is_scalar && step != 0 && step.abs() <= longest),
        _ => false,
    }
}

/// The operands whose pointers the result of an instruction can be.
fn passed_on(kind: &Kind) -> Vec<Operand> {
    match kind {
        Kind::Cast(
            Cast::Bits
            | Cast::AddressSpace
            | Cast::IntegerToPointer
            | Cast::PointerToInteger
            | Cast::ZeroExtend
            | Cast::SignExtend
            | Cast::Truncate,
            operand,
        )
        | Kind::Freeze(operand)
        | Kind::ExtractValue(operand, _)
        | Kind::ExtractElement(operand, _)
        | Kind::VariadicArgument(operand) => vec![*operand],
        Kind::Binary(
            BinaryOperator::Add
            | BinaryOperator::Subtract
            | BinaryOperator::And
            | BinaryOperator::Or
            | BinaryOperator::Xor,
            a,
            b,
        )
        | Kind::Select {
            then: a,
            otherwise: b,
            ..
        }
        | Kind::InsertValue {
            aggregate: a,
            value: b,
            ..
        }
        | Kind::InsertElement {
            vector: a,
            value: b,
            ..
        }
        | Kind::Shuffle(a, b, _) => vec![*a, *b],
        Kind::Phi(incoming) => incoming.iter().map(|&(_, value)| value).collect(),
        _ => Vec::new(),
    }
}

/// The constant part of an address computation in bytes, and the sizes of what it steps over by variables.
#[must_use]
pub fn path(program: &Program, source: TypeId, indices: &[Operand]) -> (i64, Vec<u64>) {
    let types = &program.types;
    let mut offset = 0_i64;
    let mut strides = Vec::new();
    let mut at = source;
    for (level, index) in indices.iter().enumerate() {
        let known = match index {
            Operand::Constant(id) => constant_integer(program, *id),
            _ => None,
        };
        let element = match (level, types.get(at)) {
            (0, _) => at,
            (_, Type::Array { element, .. } | Type::Vector { element, .. }) => *element,
            (_, Type::Struct { fields, .. }) => {
                let field = known
                    .and_then(|index| u64::try_from(index).ok())
                    .unwrap_or(0);
                let start = types.offset(at, field).unwrap_or(0);
                offset = offset.saturating_add(i64::try_from(start).unwrap_or(0));
                let next = usize::try_from(field)
                    .ok()
                    .and_then(|field| fields.get(field));
                let Some(&next) = next else {
                    break;
                };
                at = next;
                continue;
            }
            _ => break,
        };
        let size = types.size(element);
        match known {
            Some(index) => {
                let bytes = index.saturating_mul(i64::try_from(size).unwrap_or(i64::MAX));
                offset = offset.saturating_add(bytes);
            }
            None => strides.push(size),
        }
        at = element;
    }
    (offset, strides)
}

/// The value of an integer constant, with its sign.
#[must_use]
pub fn constant_integer(program: &Program, id: norns_ir::ConstantId) -> Option<i64> {
    match program.constant(id) {
        Constant::Integer(r#type, value) => match program.types.get(*r#type) {
            Type::Integer(bits @ 1..=64) => {
                let shift = 64 - bits;
                #[expect(clippy::cast_possible_truncation, reason = "at most 64 bits are used")]
                let low = *value as u64;
                Some((low << shift).cast_signed() >> shift)
            }
            _ => i64::try_from(*value).ok(),
        },
        Constant::Null(_) | Constant::Zero(_) => Some(0),
        _ => None,
    }
}
