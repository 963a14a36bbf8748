//! The records of instructions.

use super::Fault;
use super::constants::{binary_operator, cast, predicate};
use super::function::Body;
use super::module::{Module, Value};
use super::record::{Fields, signed};
use super::types::{LABEL, METADATA};
use crate::instruction::{AtomicOrder, AtomicUpdate, Callee, Kind, LandingClause, Operand};
use crate::program::{BlockId, Constant};
use crate::types::{Type, TypeId};

pub(super) enum Decoded {
    Instruction(Kind, TypeId),
    /// A call that only tells the debugger something.
    Nothing,
    Unknown,
}

/// Set in the calling convention of calls that name the type of the function.
const CALL_HAS_TYPE: u64 = 1 << 15;
const CALL_HAS_FLAGS: u64 = 1 << 17;
const INVOKE_HAS_TYPE: u64 = 1 << 13;

impl Module<'_, '_> {
    pub(super) fn decode(
        &mut self,
        body: &mut Body,
        code: u64,
        all: &[u64],
    ) -> Result<Decoded, Fault> {
        let fields = &mut Fields::new(all);
        let void = self.linker.program.types.add(Type::Void);
        let (kind, r#type) = match code {
            2 => {
                let left = self.typed_operand(body, fields)?;
                let right = self.relative_operand(body, fields)?;
                let operator = binary_operator(fields.take()?, self.is_float(left.r#type))?;
                (Kind::Binary(operator, left.operand, right), left.r#type)
            }
            3 => {
                let value = self.typed_operand(body, fields)?;
                let r#type = self.types.get(fields.take()?)?;
                (Kind::Cast(cast(fields.take()?)?, value.operand), r#type)
            }
            4 | 30 | 43 => self.decode_address(body, code, fields)?,
            5 | 29 => self.decode_select(body, code, fields)?,
            6..=8 | 26 | 27 => self.decode_parts(body, code, fields)?,
            9 | 28 => {
                let left = self.typed_operand(body, fields)?;
                let right = self.relative_operand(body, fields)?;
                let predicate = predicate(fields.take()?)?;
                let r#type = self.truth_type(left.r#type);
                (Kind::Compare(predicate, left.operand, right), r#type)
            }
            10..=12 | 15 | 31 | 39 => (self.decode_terminator(body, code, fields)?, void),
            13 | 34 | 57 => return self.decode_call(body, code, fields),
            16 => self.decode_phi(body, fields)?,
            19 => self.decode_allocation(body, fields)?,
            20 | 41 => self.decode_load(body, code, fields)?,
            23 => {
                fields.take()?;
                let list = self.relative_operand(body, fields)?;
                let r#type = self.types.get(fields.take()?)?;
                (Kind::VariadicArgument(list), r#type)
            }
            24 | 42 | 44 | 45 => (self.decode_store(body, code, fields)?, void),
            36 => {
                let order = order(fields.take()?)?;
                let order = order.ok_or(Fault::Malformed("a fence has no order"))?;
                (Kind::Fence(order), void)
            }
            37 | 46 => self.decode_exchange(body, code, fields)?,
            38 | 59 => self.decode_update(body, code, fields)?,
            40 | 47 => self.decode_landing_pad(body, code, fields)?,
            48..=52 => self.decode_funclet(body, code, fields)?,
            56 => {
                let value = self.typed_operand(body, fields)?;
                (Kind::Negate(value.operand), value.r#type)
            }
            58 => {
                let value = self.typed_operand(body, fields)?;
                (Kind::Freeze(value.operand), value.r#type)
            }
            _ => return Ok(Decoded::Unknown),
        };
        Ok(Decoded::Instruction(kind, r#type))
    }

    /// Operands count backwards from the number of the next value.
    fn relative(&self, field: u64) -> u32 {
        (self.values.len() as u32).wrapping_sub(field as u32)
    }

    fn relative_operand(&self, body: &mut Body, fields: &mut Fields<'_>) -> Result<Operand, Fault> {
        self.operand(body, self.relative(fields.take()?))
    }

    /// An operand whose type follows if its instruction comes later.
    pub(super) fn typed_operand(
        &self,
        body: &mut Body,
        fields: &mut Fields<'_>,
    ) -> Result<Value, Fault> {
        let number = self.relative(fields.take()?);
        if let Some(&value) = self.values.get(number as usize) {
            return Ok(value);
        }
        let r#type = self.types.get(fields.take()?)?;
        let operand = self.operand(body, number)?;
        Ok(Value { operand, r#type })
    }

    /// The type of a comparison of two values of a type.
    fn truth_type(&mut self, compared: TypeId) -> TypeId {
        let count = match *self.type_of(compared) {
            Type::Vector { count, .. } => Some(count),
            _ => None,
        };
        let types = &mut self.linker.program.types;
        let element = types.add(Type::Integer(1));
        match count {
            Some(count) => types.add(Type::Vector { element, count }),
            None => element,
        }
    }

    fn decode_address(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        if code != 43 {
            return Err(Fault::Malformed("it was written by a clang before 4"));
        }
        fields.take()?; // flags
        let source = self.types.get(fields.take()?)?;
        let base = self.typed_operand(body, fields)?;
        let mut r#type = base.r#type;
        let mut indices = Vec::new();
        while fields.left() > 0 {
            let index = self.typed_operand(body, fields)?;
            // A vector of indices makes a vector of addresses.
            if let Type::Vector { count, .. } = *self.type_of(index.r#type)
                && !matches!(self.type_of(r#type), Type::Vector { .. })
            {
                let element = r#type;
                r#type = self
                    .linker
                    .program
                    .types
                    .add(Type::Vector { element, count });
            }
            indices.push(index.operand);
        }
        let kind = Kind::ElementAddress {
            source,
            base: base.operand,
            indices,
        };
        Ok((kind, r#type))
    }

    fn decode_select(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        let then = self.typed_operand(body, fields)?;
        let otherwise = self.relative_operand(body, fields)?;
        let condition = match code {
            29 => self.typed_operand(body, fields)?.operand,
            _ => self.relative_operand(body, fields)?,
        };
        let kind = Kind::Select {
            condition,
            then: then.operand,
            otherwise,
        };
        Ok((kind, then.r#type))
    }

    /// Elements of vectors, fields of structures held in registers.
    fn decode_parts(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        let no_part = Fault::Malformed("a value has no such part");
        let whole = self.typed_operand(body, fields)?;
        let indices = |fields: &Fields<'_>| -> Result<Vec<u32>, Fault> {
            let indices = fields.rest().iter().map(|&index| u32::try_from(index));
            indices.collect::<Result<_, _>>().map_err(|_| no_part)
        };
        Ok(match code {
            6 => {
                let index = self.typed_operand(body, fields)?;
                let element = self.linker.program.types.part(whole.r#type, 0);
                let kind = Kind::ExtractElement(whole.operand, index.operand);
                (kind, element.ok_or(no_part)?)
            }
            7 => {
                let value = self.relative_operand(body, fields)?;
                let index = self.typed_operand(body, fields)?.operand;
                let vector = whole.operand;
                let kind = Kind::InsertElement {
                    vector,
                    value,
                    index,
                };
                (kind, whole.r#type)
            }
            8 => {
                let second = self.relative_operand(body, fields)?;
                let mask = self.typed_operand(body, fields)?;
                let element = self.linker.program.types.part(whole.r#type, 0);
                let Type::Vector { count, .. } = *self.type_of(mask.r#type) else {
                    return Err(no_part);
                };
                let r#type = self.linker.program.types.add(Type::Vector {
                    element: element.ok_or(no_part)?,
                    count,
                });
                (Kind::Shuffle(whole.operand, second, mask.operand), r#type)
            }
            26 => {
                let indices = indices(fields)?;
                let mut r#type = whole.r#type;
                for &index in &indices {
                    let part = self.linker.program.types.part(r#type, index.into());
                    r#type = part.ok_or(no_part)?;
                }
                (Kind::ExtractValue(whole.operand, indices), r#type)
            }
            _ => {
                let value = self.typed_operand(body, fields)?.operand;
                let kind = Kind::InsertValue {
                    aggregate: whole.operand,
                    value,
                    indices: indices(fields)?,
                };
                (kind, whole.r#type)
            }
        })
    }

    fn decode_terminator(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<Kind, Fault> {
        Ok(match code {
            10 if fields.left() == 0 => Kind::Return(None),
            10 => Kind::Return(Some(self.typed_operand(body, fields)?.operand)),
            11 => {
                let then = body.block(fields.take()?)?;
                match fields.left() {
                    0 => Kind::Jump(then),
                    _ => Kind::Branch {
                        then,
                        otherwise: body.block(fields.take()?)?,
                        condition: self.relative_operand(body, fields)?,
                    },
                }
            }
            12 => {
                fields.take()?;
                let value = self.relative_operand(body, fields)?;
                let default = body.block(fields.take()?)?;
                let mut cases = Vec::new();
                while fields.left() > 0 {
                    let number = fields.take()?;
                    let target = body.block(fields.take()?)?;
                    let case = usize::try_from(number).ok();
                    let case = case.and_then(|number| self.values.get(number));
                    match case.map(|value| value.operand) {
                        Some(Operand::Constant(case)) => cases.push((case, target)),
                        _ => return Err(Fault::Malformed("a case is not a constant")),
                    }
                }
                Kind::Switch {
                    value,
                    default,
                    cases,
                }
            }
            15 => Kind::Unreachable,
            31 => {
                fields.take()?;
                let value = self.relative_operand(body, fields)?;
                Kind::IndirectJump(value, blocks(body, fields.rest())?)
            }
            _ => Kind::Resume(self.typed_operand(body, fields)?.operand),
        })
    }

    /// `call`, `invoke` and `callbr`.
    fn decode_call(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<Decoded, Fault> {
        fields.take()?; // attributes
        let convention = fields.take()?;
        let mut targets = Vec::new();
        let has_type = match code {
            34 => {
                if convention & CALL_HAS_FLAGS != 0 {
                    fields.take()?;
                }
                convention & CALL_HAS_TYPE
            }
            13 => {
                targets = blocks(body, fields.take_many(2)?)?;
                convention & INVOKE_HAS_TYPE
            }
            _ => {
                targets.push(body.block(fields.take()?)?);
                let others = fields.take()?;
                targets.extend(blocks(body, fields.take_many(others)?)?);
                convention & CALL_HAS_TYPE
            }
        };
        if has_type == 0 {
            return Err(Fault::Malformed("it was written by a clang before 4"));
        }
        let signature = self.types.get(fields.take()?)?;
        let callee = self.typed_operand(body, fields)?.operand;
        let Type::Function {
            result, parameters, ..
        } = self.type_of(signature).clone()
        else {
            return Err(Fault::Malformed("a call has no function type"));
        };
        let callee = self.callee(callee);
        if let Callee::Function(id) = callee {
            let name = &self.linker.program.function(id).name;
            if name.starts_with("llvm.dbg.") {
                let name = name.clone();
                self.read_debug_call(body, &name, fields)?;
                return Ok(Decoded::Nothing);
            }
        }
        let mut arguments = Vec::with_capacity(parameters.len().min(fields.left()));
        for &parameter in &parameters {
            arguments.push(match self.type_of(parameter) {
                Type::Opaque(Some(name)) if name == LABEL || name == METADATA => {
                    fields.take()?;
                    self.undefined(parameter)
                }
                _ => self.relative_operand(body, fields)?,
            });
        }
        while fields.left() > 0 {
            arguments.push(self.typed_operand(body, fields)?.operand);
        }
        let kind = match (code, &targets[..]) {
            (13, &[normal, unwind]) => Kind::Invoke {
                callee,
                signature,
                arguments,
                normal,
                unwind,
            },
            (57, [default, others @ ..]) => Kind::CallBranch {
                callee,
                arguments,
                default: *default,
                others: others.to_vec(),
            },
            _ => Kind::Call {
                callee,
                signature,
                arguments,
            },
        };
        Ok(Decoded::Instruction(kind, result))
    }

    fn undefined(&mut self, r#type: TypeId) -> Operand {
        Operand::Constant(self.linker.constant(Constant::Undefined(r#type)))
    }

    fn callee(&self, operand: Operand) -> Callee {
        let Operand::Constant(id) = operand else {
            return Callee::Indirect(operand);
        };
        let id = self.strip_casts(id);
        if let Some((text, constraints)) = self.assembler.get(&id) {
            return Callee::Assembler(text.clone(), constraints.clone());
        }
        match self.linker.program.constant(id) {
            Constant::Function(function) => Callee::Function(*function),
            _ => Callee::Indirect(operand),
        }
    }

    /// `llvm.dbg.declare` and `llvm.dbg.value` of clang up to 18: a value, a variable and an expression.
    fn read_debug_call(
        &mut self,
        body: &mut Body,
        name: &str,
        fields: &mut Fields<'_>,
    ) -> Result<(), Fault> {
        let is_address = match name {
            "llvm.dbg.declare" => true,
            "llvm.dbg.value" => false,
            _ => return Ok(()),
        };
        let value = self.relative(fields.take()?);
        let variable = self.relative(fields.take()?);
        let expression = self.relative(fields.take()?);
        if let Some(value) = self.metadata_operand(body, value.into())? {
            self.add_variable(body, variable.into(), expression.into(), value, is_address);
        }
        Ok(())
    }

    fn decode_phi(
        &mut self,
        body: &mut Body,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        let r#type = self.types.get(fields.take()?)?;
        let mut incoming = Vec::new();
        // A last field alone holds floating-point flags.
        while fields.left() >= 2 {
            let distance = signed(fields.take()?);
            let number = (self.values.len() as u32).wrapping_sub(distance as u32);
            let value = self.operand(body, number)?;
            incoming.push((body.block(fields.take()?)?, value));
        }
        Ok((Kind::Phi(incoming), r#type))
    }

    fn decode_allocation(
        &mut self,
        body: &mut Body,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        const HAS_TYPE: u64 = 1 << 6;
        let r#type = self.types.get(fields.take()?)?;
        fields.take()?;
        let count = self.operand(body, fields.take_u32()?)?;
        if fields.take()? & HAS_TYPE == 0 {
            return Err(Fault::Malformed("it was written by a clang before 4"));
        }
        let pointer = self.linker.program.types.add(Type::Pointer);
        Ok((Kind::Allocate { r#type, count }, pointer))
    }

    fn decode_load(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        let address = self.typed_operand(body, fields)?.operand;
        let r#type = self.types.get(fields.take()?)?;
        fields.take()?; // alignment
        let is_volatile = fields.take()? != 0;
        let order = match code {
            41 => order(fields.take()?)?,
            _ => None,
        };
        let kind = Kind::Load {
            address,
            is_volatile,
            order,
        };
        Ok((kind, r#type))
    }

    fn decode_store(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<Kind, Fault> {
        let address = self.typed_operand(body, fields)?.operand;
        let value = match code {
            44 | 45 => self.typed_operand(body, fields)?.operand,
            _ => self.relative_operand(body, fields)?,
        };
        fields.take()?; // alignment
        let is_volatile = fields.take()? != 0;
        let order = match code {
            42 | 45 => order(fields.take()?)?,
            _ => None,
        };
        Ok(Kind::Store {
            address,
            value,
            is_volatile,
            order,
        })
    }

    fn decode_exchange(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        if code != 46 {
            return Err(Fault::Malformed("it was written by a clang before 4"));
        }
        let no_order = Fault::Malformed("an atomic operation has no order");
        let address = self.typed_operand(body, fields)?.operand;
        let expected = self.typed_operand(body, fields)?;
        let new = self.relative_operand(body, fields)?;
        let is_volatile = fields.take()? != 0;
        let success = order(fields.take()?)?.ok_or(no_order)?;
        fields.take()?; // scope
        let failure = order(fields.take()?)?.ok_or(no_order)?;
        let truth = self.linker.program.types.add(Type::Integer(1));
        let r#type = self.linker.program.types.add(Type::Struct {
            name: None,
            fields: vec![expected.r#type, truth],
            is_packed: false,
        });
        let kind = Kind::CompareExchange {
            address,
            expected: expected.operand,
            new,
            is_volatile,
            success,
            failure,
        };
        Ok((kind, r#type))
    }

    fn decode_update(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        if code != 59 {
            return Err(Fault::Malformed("it was written by a clang before 13"));
        }
        let address = self.typed_operand(body, fields)?.operand;
        let value = self.typed_operand(body, fields)?;
        let update = update(fields.take()?)?;
        let is_volatile = fields.take()? != 0;
        let order = order(fields.take()?)?;
        let kind = Kind::Update {
            update,
            address,
            value: value.operand,
            is_volatile,
            order: order.ok_or(Fault::Malformed("an atomic operation has no order"))?,
        };
        Ok((kind, value.r#type))
    }

    fn decode_landing_pad(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        const CATCH: u64 = 0;
        let r#type = self.types.get(fields.take()?)?;
        if code == 40 {
            self.typed_operand(body, fields)?; // the personality
        }
        let is_cleanup = fields.take()? != 0;
        let count = fields.take()?;
        let mut clauses = Vec::new();
        for _ in 0..count {
            let kind = fields.take()?;
            let value = self.typed_operand(body, fields)?.operand;
            clauses.push(match kind {
                CATCH => LandingClause::Catch(value),
                _ => LandingClause::Filter(value),
            });
        }
        let kind = Kind::LandingPad {
            is_cleanup,
            clauses,
        };
        Ok((kind, r#type))
    }

    /// Exception handling as Windows has it: read for the numbers of values, not for control flow.
    fn decode_funclet(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &mut Fields<'_>,
    ) -> Result<(Kind, TypeId), Fault> {
        let void = self.linker.program.types.add(Type::Void);
        let token = Type::Opaque(Some("llvm token".to_owned()));
        let token = self.linker.program.types.add(token);
        let pad = self.relative_operand(body, fields)?;
        let (name, r#type) = match code {
            48 => ("cleanupret", void),
            49 => ("catchret", void),
            50 => ("catchpad", token),
            51 => ("cleanuppad", token),
            _ => ("catchswitch", token),
        };
        Ok((Kind::Other(name.to_owned(), vec![pad]), r#type))
    }
}

fn blocks(body: &Body, fields: &[u64]) -> Result<Vec<BlockId>, Fault> {
    fields.iter().map(|&number| body.block(number)).collect()
}

fn order(code: u64) -> Result<Option<AtomicOrder>, Fault> {
    Ok(match code {
        0 => None,
        1 | 2 => Some(AtomicOrder::Relaxed),
        3 => Some(AtomicOrder::Acquire),
        4 => Some(AtomicOrder::Release),
        5 => Some(AtomicOrder::AcquireRelease),
        6 => Some(AtomicOrder::SequentiallyConsistent),
        _ => return Err(Fault::Malformed("a memory order is unknown")),
    })
}

fn update(code: u64) -> Result<AtomicUpdate, Fault> {
    Ok(match code {
        0 => AtomicUpdate::Exchange,
        1 => AtomicUpdate::Add,
        2 => AtomicUpdate::Subtract,
        3 => AtomicUpdate::And,
        4 => AtomicUpdate::Nand,
        5 => AtomicUpdate::Or,
        6 => AtomicUpdate::Xor,
        7 => AtomicUpdate::MaximumSigned,
        8 => AtomicUpdate::MinimumSigned,
        9 => AtomicUpdate::MaximumUnsigned,
        10 => AtomicUpdate::MinimumUnsigned,
        _ => AtomicUpdate::Other(
            u8::try_from(code).map_err(|_| Fault::Malformed("an atomic operation is unknown"))?,
        ),
    })
}
