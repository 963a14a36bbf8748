//! The operations of one function.

use norns_ir::{
    BlockId, Cast, Function, Instruction, InstructionId, Kind, LandingClause, Operand, PlaceId,
    Program, Type, TypeId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::constant::{is_thread_local, values};
use super::scalar::{Scalar, scalars};
use crate::op::{CodeFunction, Op, Pad, Register, SwitchTable};

/// The registers of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) first: Register,
    pub(super) count: u32,
}

/// A jump whose target is not known yet.
#[derive(Clone, Copy)]
pub(super) enum Fix {
    Jump,
    Then,
    Otherwise,
    Case(u32, usize),
    Default(u32),
    Unwind(u32),
}

pub(super) struct Lowering<'a> {
    pub(super) program: &'a Program,
    pub(super) function: &'a Function,
    pub(super) code: CodeFunction,
    /// The registers of parameters and of results.
    pub(super) parameters: Vec<Range>,
    pub(super) results: FxHashMap<InstructionId, Range>,
    /// Registers that hold a scalar constant.
    pub(super) constants: FxHashMap<u64, Register>,
    pub(super) starts: Vec<u32>,
    pub(super) fixes: Vec<(u32, Fix, BlockId, BlockId)>,
    pub(super) strict: FxHashSet<InstructionId>,
    pub(super) place: Option<PlaceId>,
}

pub(super) type Lowered<T> = Result<T, String>;

pub(super) fn lower(program: &Program, function: &Function) -> CodeFunction {
    let mut lowering = Lowering {
        program,
        function,
        code: CodeFunction::default(),
        parameters: Vec::new(),
        results: FxHashMap::default(),
        constants: FxHashMap::default(),
        starts: vec![0; function.blocks.len()],
        fixes: Vec::new(),
        strict: strict_loads(function),
        place: function.place,
    };
    match lowering.run() {
        Ok(()) => lowering.code,
        Err(reason) => CodeFunction {
            ops: vec![Op::GiveUp(0)],
            places: vec![function.place],
            reasons: vec![reason],
            ..CodeFunction::default()
        },
    }
}

/// The loads on which a branch or an address depends directly.
fn strict_loads(function: &Function) -> FxHashSet<InstructionId> {
    let mut found = FxHashSet::default();
    let mut note = |operand: Operand| {
        if let Operand::Result(id) = operand
            && let Kind::Load { .. } = function.instruction(id).kind
        {
            found.insert(id);
        }
    };
    for (_, _, instruction) in function.listed() {
        match &instruction.kind {
            Kind::Branch { condition, .. } => {
                if let Operand::Result(id) = condition {
                    match &function.instruction(*id).kind {
                        Kind::Compare(_, left, right) => {
                            note(*left);
                            note(*right);
                        }
                        Kind::Cast(Cast::Truncate, inner) => note(*inner),
                        _ => note(*condition),
                    }
                }
            }
            Kind::Switch { value, .. } => note(*value),
            Kind::Load { address, .. } | Kind::Store { address, .. } => note(*address),
            _ => {}
        }
    }
    found
}

impl Lowering<'_> {
    pub(super) fn run(&mut self) -> Lowered<()> {
        let types = &self.program.types;
        if let Type::Function {
            parameters,
            is_variadic,
            ..
        } = types.get(self.function.r#type)
        {
            self.code.is_variadic = *is_variadic;
            for &parameter in parameters {
                let count = scalars(types, parameter)?.len() as u32;
                let range = self.new_registers(count);
                self.parameters.push(range);
            }
        }
        self.code.parameters = self.code.template.len() as u32;
        self.copy_by_value();
        // Results have their registers before the first use, which for phis can come before.
        for (_, id, instruction) in self.function.listed() {
            let count = scalars(types, instruction.r#type).map_or(0, |all| all.len() as u32);
            let range = self.new_registers(count);
            self.results.insert(id, range);
        }
        for (index, block) in self.function.blocks.iter().enumerate() {
            self.starts[index] = self.code.ops.len() as u32;
            for &id in &block.instructions {
                let instruction = self.function.instruction(id);
                if let Kind::Phi(_) = instruction.kind {
                    continue;
                }
                self.place = instruction.place.or(self.place);
                if let Err(reason) = self.instruction(BlockId::from_index(index), id, instruction) {
                    self.give_up(reason);
                }
            }
        }
        self.resolve()
    }

    /// A parameter that is passed by value is a pointer to a copy, which the function makes.
    pub(super) fn copy_by_value(&mut self) {
        for &(parameter, r#type) in &self.function.by_value {
            let size = self.program.types.size(r#type);
            let Some(pointer) = self
                .parameters
                .get(parameter as usize)
                .map(|range| range.first)
            else {
                continue;
            };
            let one = self.constant(1);
            let copy = self.new_registers(1).first;
            let size = u32::try_from(size).unwrap_or(u32::MAX);
            self.emit(Op::Allocate {
                d: copy,
                count: one,
                size,
            });
            self.emit(Op::Copy {
                to: copy,
                from: pointer,
                bytes: size,
            });
            self.emit(Op::Move {
                d: pointer,
                a: copy,
            });
        }
    }

    pub(super) fn give_up(&mut self, reason: String) {
        let number = self.code.reasons.len() as u32;
        self.code.reasons.push(reason);
        self.emit(Op::GiveUp(number));
    }

    pub(super) fn emit(&mut self, op: Op) {
        self.code.ops.push(op);
        self.code.places.push(self.place);
    }

    pub(super) fn new_registers(&mut self, count: u32) -> Range {
        let first = self.code.template.len() as u32;
        self.code.template.extend((0..count).map(|_| 0));
        Range { first, count }
    }

    pub(super) fn constant(&mut self, value: u64) -> Register {
        let template = &mut self.code.template;
        *self.constants.entry(value).or_insert_with(|| {
            template.push(value);
            template.len() as u32 - 1
        })
    }

    pub(super) fn type_of(&self, operand: Operand) -> Lowered<TypeId> {
        let found = self.program.operand_type(self.function, operand);
        found.ok_or_else(|| "an operand without a type".to_owned())
    }

    pub(super) fn scalars_of(&self, operand: Operand) -> Lowered<Vec<Scalar>> {
        scalars(&self.program.types, self.type_of(operand)?)
    }

    pub(super) fn operand(&mut self, operand: Operand) -> Lowered<Range> {
        match operand {
            Operand::Parameter(index) => Ok(self.parameters[index as usize]),
            Operand::Result(id) => {
                let found = self.results.get(&id).copied();
                found.ok_or_else(|| "a result of no block".to_owned())
            }
            Operand::Constant(id) => {
                if is_thread_local(self.program, id) {
                    return self.thread_local(id);
                }
                let values = values(self.program, id)?;
                if let [value] = values[..] {
                    let first = self.constant(value);
                    return Ok(Range { first, count: 1 });
                }
                let first = self.code.template.len() as u32;
                let count = values.len() as u32;
                self.code.template.extend(values);
                Ok(Range { first, count })
            }
        }
    }

    pub(super) fn thread_local(&mut self, id: norns_ir::ConstantId) -> Lowered<Range> {
        match self.program.constant(id) {
            norns_ir::Constant::Global(global) => {
                let range = self.new_registers(1);
                self.emit(Op::ThreadLocal {
                    d: range.first,
                    global: *global,
                });
                Ok(range)
            }
            norns_ir::Constant::Computed(instruction) => {
                let range = self.new_registers(1);
                self.value(range, instruction)?;
                Ok(range)
            }
            _ => Err("an aggregate with the address of a thread-local variable".to_owned()),
        }
    }

    pub(super) fn one(&mut self, operand: Operand) -> Lowered<Register> {
        let range = self.operand(operand)?;
        match range.count {
            1 => Ok(range.first),
            _ => Err("an operation on a value of several parts".to_owned()),
        }
    }

    pub(super) fn instruction(
        &mut self,
        block: BlockId,
        id: InstructionId,
        instruction: &Instruction,
    ) -> Lowered<()> {
        let result = self.results[&id];
        let d = result.first;
        match &instruction.kind {
            Kind::Load { address, order, .. } => {
                let address = self.one(*address)?;
                let parts = scalars(&self.program.types, instruction.r#type)?;
                for (at, scalar) in parts.iter().enumerate() {
                    let address = self.offset(address, scalar.offset);
                    let (bytes, d) = (scalar.bytes(), d + at as u32);
                    match order {
                        Some(_) if parts.len() > 1 => {
                            return Err("an atomic operation on more than 8 bytes".to_owned());
                        }
                        Some(order) => self.emit(Op::AtomicLoad {
                            bytes,
                            order: *order,
                            d,
                            address,
                        }),
                        None => {
                            let is_strict = parts.len() == 1 && self.strict.contains(&id);
                            self.emit(Op::Load {
                                bytes,
                                is_strict,
                                d,
                                address,
                            });
                        }
                    }
                    if scalar.bits() % 8 != 0 {
                        self.emit(Op::Truncate {
                            s: 64 - scalar.bits(),
                            d,
                            a: d,
                        });
                    }
                }
                Ok(())
            }
            Kind::Store {
                address,
                value,
                order,
                ..
            } => {
                let parts = self.scalars_of(*value)?;
                let address = self.one(*address)?;
                let value = self.operand(*value)?;
                for (at, scalar) in parts.iter().enumerate() {
                    let address = self.offset(address, scalar.offset);
                    let (bytes, value) = (scalar.bytes(), value.first + at as u32);
                    match order {
                        Some(_) if parts.len() > 1 => {
                            return Err("an atomic operation on more than 8 bytes".to_owned());
                        }
                        Some(order) => self.emit(Op::AtomicStore {
                            bytes,
                            order: *order,
                            address,
                            value,
                        }),
                        None => self.emit(Op::Store {
                            bytes,
                            address,
                            value,
                        }),
                    }
                }
                Ok(())
            }
            Kind::Update {
                update,
                address,
                value,
                order,
                ..
            } => {
                let bytes = self.one_scalar(*value)?.bytes();
                let (address, value) = (self.one(*address)?, self.one(*value)?);
                self.emit(Op::Update {
                    bytes,
                    update: *update,
                    order: *order,
                    d,
                    address,
                    value,
                });
                Ok(())
            }
            Kind::CompareExchange {
                address,
                expected,
                new,
                success,
                ..
            } => {
                let bytes = self.one_scalar(*new)?.bytes();
                let (address, expected, new) =
                    (self.one(*address)?, self.one(*expected)?, self.one(*new)?);
                self.emit(Op::CompareExchange {
                    bytes,
                    order: *success,
                    d,
                    address,
                    expected,
                    new,
                });
                Ok(())
            }
            Kind::Fence(order) => {
                self.emit(Op::Fence(*order));
                Ok(())
            }
            Kind::Allocate { r#type, count } => {
                let count = self.one(*count)?;
                let size = u32::try_from(self.program.types.size(*r#type))
                    .map_err(|_| "a stack slot of more than 4 GB".to_owned())?;
                self.emit(Op::Allocate { d, count, size });
                Ok(())
            }
            Kind::Call {
                callee,
                arguments,
                signature,
            } => self.call(result, callee, arguments, *signature, None),
            Kind::Invoke {
                callee,
                arguments,
                signature,
                normal,
                unwind,
            } => {
                let done = self.call(
                    result,
                    callee,
                    arguments,
                    *signature,
                    Some((block, *unwind)),
                );
                if let Err(reason) = done {
                    self.give_up(reason);
                }
                self.jump(block, *normal);
                Ok(())
            }
            Kind::LandingPad {
                is_cleanup,
                clauses,
            } => {
                let mut pad = Pad {
                    is_cleanup: *is_cleanup,
                    ..Pad::default()
                };
                for clause in clauses {
                    match clause {
                        LandingClause::Catch(Operand::Constant(id)) => {
                            let found = values(self.program, *id)?;
                            pad.catches.push(found.first().copied().unwrap_or_default());
                        }
                        LandingClause::Catch(_) | LandingClause::Filter(_) => pad.has_filter = true,
                    }
                }
                self.code.pads.insert(self.code.ops.len() as u32, pad);
                self.emit(Op::LandingPad { d });
                Ok(())
            }
            Kind::Resume(value) => {
                let exception = self.operand(*value)?.first;
                self.emit(Op::Resume { exception });
                Ok(())
            }
            Kind::Return(value) => {
                let range = match value {
                    Some(value) => self.operand(*value)?,
                    None => Range { first: 0, count: 0 },
                };
                self.emit(Op::Return {
                    first: range.first,
                    count: range.count,
                });
                Ok(())
            }
            Kind::Jump(target) => {
                self.jump(block, *target);
                Ok(())
            }
            Kind::Branch {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.one(*condition)?;
                let at = self.code.ops.len() as u32;
                self.fixes.push((at, Fix::Then, block, *then));
                self.fixes.push((at, Fix::Otherwise, block, *otherwise));
                self.emit(Op::Branch {
                    condition,
                    then: 0,
                    otherwise: 0,
                });
                Ok(())
            }
            Kind::Switch {
                value,
                default,
                cases,
            } => {
                let value = self.one(*value)?;
                let table = self.code.switches.len() as u32;
                let at = self.code.ops.len() as u32;
                let mut list = Vec::new();
                for (case, target) in cases {
                    list.push((values(self.program, *case)?[0], *target));
                }
                list.sort_by_key(|&(value, _)| value);
                for (index, &(_, target)) in list.iter().enumerate() {
                    self.fixes
                        .push((at, Fix::Case(table, index), block, target));
                }
                self.fixes.push((at, Fix::Default(table), block, *default));
                self.code.switches.push(SwitchTable {
                    cases: list.iter().map(|&(value, _)| (value, 0)).collect(),
                    default: 0,
                });
                self.emit(Op::Switch { value, table });
                Ok(())
            }
            Kind::Unreachable => {
                self.emit(Op::Unreachable);
                Ok(())
            }
            Kind::IndirectJump(..) => Err("a computed goto".to_owned()),
            Kind::CallBranch { .. } => Err("asm goto".to_owned()),
            Kind::VariadicArgument(_) => Err("va_arg as an instruction".to_owned()),
            Kind::Other(name, _) => Err(format!("the instruction {name}")),
            Kind::Phi(_) => Ok(()),
            Kind::Binary(..)
            | Kind::Negate(_)
            | Kind::Cast(..)
            | Kind::Compare(..)
            | Kind::Select { .. }
            | Kind::Freeze(_)
            | Kind::ElementAddress { .. }
            | Kind::ExtractValue(..)
            | Kind::InsertValue { .. }
            | Kind::ExtractElement(..)
            | Kind::InsertElement { .. }
            | Kind::Shuffle(..) => self.value(result, instruction),
        }
    }

    pub(super) fn one_scalar(&self, operand: Operand) -> Lowered<Scalar> {
        match self.scalars_of(operand)?[..] {
            [scalar] => Ok(scalar),
            _ => Err("an operation on a value of several parts".to_owned()),
        }
    }

    /// The register of an address plus a constant.
    pub(super) fn offset(&mut self, address: Register, offset: u64) -> Register {
        if offset == 0 {
            return address;
        }
        let range = self.new_registers(1);
        let b = self.constant(offset);
        self.emit(Op::Add {
            s: 0,
            d: range.first,
            a: address,
            b,
        });
        range.first
    }
}
