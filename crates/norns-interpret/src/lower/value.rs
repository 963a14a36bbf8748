//! The operations of instructions that only compute.

use norns_ir::{BinaryOperator, Cast, Instruction, Kind, Operand, Predicate, Type, TypeId};

use super::constant::{extend, is_thread_local, values};
use super::function::{Lowered, Lowering, Range};
use super::scalar::{Scalar, ScalarKind, part, scalars};
use crate::op::{FloatOperator, Op, Register};

impl Lowering<'_> {
    /// An instruction that only computes.
    pub(super) fn value(&mut self, result: Range, instruction: &Instruction) -> Lowered<()> {
        let types = &self.program.types;
        let d = result.first;
        match &instruction.kind {
            Kind::Binary(operator, left, right) => {
                let parts = self.scalars_of(*left)?;
                let (left, right) = (self.operand(*left)?, self.operand(*right)?);
                if let Type::Integer(128) = types.get(instruction.r#type) {
                    self.emit(Op::Wide {
                        operator: *operator,
                        d,
                        a: left.first,
                        b: right.first,
                    });
                    return Ok(());
                }
                for (at, scalar) in (0..).zip(parts) {
                    self.binary(*operator, scalar, d + at, left.first + at, right.first + at)?;
                }
                Ok(())
            }
            Kind::Negate(value) => {
                let parts = self.scalars_of(*value)?;
                let value = self.operand(*value)?;
                for (at, scalar) in (0..).zip(parts) {
                    let is_double = scalar.kind == ScalarKind::Double;
                    self.emit(Op::Negate {
                        is_double,
                        d: d + at,
                        a: value.first + at,
                    });
                }
                Ok(())
            }
            Kind::Cast(cast, value) => self.cast(*cast, result, *value, instruction.r#type),
            Kind::Compare(predicate, left, right) => {
                let parts = self.scalars_of(*left)?;
                let is_wide = matches!(types.get(self.type_of(*left)?), Type::Integer(128));
                let (left, right) = (self.operand(*left)?, self.operand(*right)?);
                if is_wide {
                    self.emit(Op::CompareWide {
                        predicate: *predicate,
                        d,
                        a: left.first,
                        b: right.first,
                    });
                    return Ok(());
                }
                for (at, scalar) in (0..).zip(parts) {
                    self.compare(
                        *predicate,
                        scalar,
                        d + at,
                        left.first + at,
                        right.first + at,
                    );
                }
                Ok(())
            }
            Kind::Select {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.operand(*condition)?;
                let (a, b) = (self.operand(*then)?, self.operand(*otherwise)?);
                for at in 0..result.count {
                    let condition = match condition.count {
                        1 => condition.first,
                        _ => condition.first + at,
                    };
                    self.emit(Op::Select {
                        d: d + at,
                        condition,
                        a: a.first + at,
                        b: b.first + at,
                    });
                }
                Ok(())
            }
            Kind::Freeze(value) => {
                let value = self.operand(*value)?;
                self.moves(d, value.first, value.count);
                Ok(())
            }
            Kind::ElementAddress {
                source,
                base,
                indices,
            } => self.element_address(result, *source, *base, indices),
            Kind::ExtractValue(aggregate, path) => {
                let (start, found) = part(types, self.type_of(*aggregate)?, path)?;
                let count = scalars(types, found)?.len() as u32;
                let from = self.operand(*aggregate)?;
                self.moves(d, from.first + start as u32, count);
                Ok(())
            }
            Kind::InsertValue {
                aggregate,
                value,
                indices,
            } => {
                let (start, _) = part(types, self.type_of(*aggregate)?, indices)?;
                let from = self.operand(*aggregate)?;
                self.moves(d, from.first, from.count);
                let value = self.operand(*value)?;
                self.moves(d + start as u32, value.first, value.count);
                Ok(())
            }
            Kind::ExtractElement(vector, index) => {
                let from = self.operand(*vector)?;
                let index = self.known(*index)? as u32;
                self.moves(d, from.first + index * result.count, result.count);
                Ok(())
            }
            Kind::InsertElement {
                vector,
                value,
                index,
            } => {
                let from = self.operand(*vector)?;
                let index = self.known(*index)? as u32;
                self.moves(d, from.first, from.count);
                let value = self.operand(*value)?;
                self.moves(d + index * value.count, value.first, value.count);
                Ok(())
            }
            Kind::Shuffle(first, second, mask) => {
                let Operand::Constant(mask) = mask else {
                    return Err("a shuffle by a variable".to_owned());
                };
                let mask = values(self.program, *mask)?;
                let (first, second) = (self.operand(*first)?, self.operand(*second)?);
                for (at, from) in (0..).zip(mask) {
                    let from = from as u32;
                    let a = match from < first.count {
                        true => first.first + from,
                        false => second.first + (from - first.count).min(second.count - 1),
                    };
                    self.emit(Op::Move { d: d + at, a });
                }
                Ok(())
            }
            _ => Err("an operation that is none on values".to_owned()),
        }
    }

    pub(super) fn known(&self, operand: Operand) -> Lowered<u64> {
        match operand {
            Operand::Constant(id) => Ok(values(self.program, id)?[0]),
            Operand::Parameter(_) | Operand::Result(_) => {
                Err("an element of a vector by a variable index".to_owned())
            }
        }
    }

    pub(super) fn moves(&mut self, d: Register, from: Register, count: u32) {
        for at in 0..count {
            self.emit(Op::Move {
                d: d + at,
                a: from + at,
            });
        }
    }

    pub(super) fn binary(
        &mut self,
        operator: BinaryOperator,
        scalar: Scalar,
        d: Register,
        a: Register,
        b: Register,
    ) -> Lowered<()> {
        let s = 64 - scalar.bits();
        let is_double = scalar.kind == ScalarKind::Double;
        let float = |operator| Op::Float {
            operator,
            is_double,
            d,
            a,
            b,
        };
        self.emit(match operator {
            BinaryOperator::Add => Op::Add { s, d, a, b },
            BinaryOperator::Subtract => Op::Subtract { s, d, a, b },
            BinaryOperator::Multiply => Op::Multiply { s, d, a, b },
            BinaryOperator::DivideUnsigned => Op::DivideUnsigned { d, a, b },
            BinaryOperator::DivideSigned => Op::DivideSigned { s, d, a, b },
            BinaryOperator::RemainderUnsigned => Op::RemainderUnsigned { d, a, b },
            BinaryOperator::RemainderSigned => Op::RemainderSigned { s, d, a, b },
            BinaryOperator::ShiftLeft => Op::ShiftLeft { s, d, a, b },
            BinaryOperator::ShiftRightLogical => Op::ShiftRightLogical { d, a, b },
            BinaryOperator::ShiftRightArithmetic => Op::ShiftRightArithmetic { s, d, a, b },
            BinaryOperator::And => Op::And { d, a, b },
            BinaryOperator::Or => Op::Or { d, a, b },
            BinaryOperator::Xor => Op::Xor { d, a, b },
            BinaryOperator::AddFloat => float(FloatOperator::Add),
            BinaryOperator::SubtractFloat => float(FloatOperator::Subtract),
            BinaryOperator::MultiplyFloat => float(FloatOperator::Multiply),
            BinaryOperator::DivideFloat => float(FloatOperator::Divide),
            BinaryOperator::RemainderFloat => float(FloatOperator::Remainder),
        });
        Ok(())
    }

    pub(super) fn compare(
        &mut self,
        predicate: Predicate,
        scalar: Scalar,
        d: Register,
        a: Register,
        b: Register,
    ) {
        let s = 64 - scalar.bits();
        self.emit(match predicate {
            Predicate::Equal => Op::Equal { d, a, b },
            Predicate::NotEqual => Op::NotEqual { d, a, b },
            Predicate::UnsignedLess => Op::UnsignedLess { d, a, b },
            Predicate::UnsignedLessOrEqual => Op::UnsignedLessOrEqual { d, a, b },
            Predicate::UnsignedGreater => Op::UnsignedLess { d, a: b, b: a },
            Predicate::UnsignedGreaterOrEqual => Op::UnsignedLessOrEqual { d, a: b, b: a },
            Predicate::SignedLess => Op::SignedLess { s, d, a, b },
            Predicate::SignedLessOrEqual => Op::SignedLessOrEqual { s, d, a, b },
            Predicate::SignedGreater => Op::SignedLess { s, d, a: b, b: a },
            Predicate::SignedGreaterOrEqual => Op::SignedLessOrEqual { s, d, a: b, b: a },
            Predicate::Float(predicate) => Op::CompareFloats {
                predicate,
                is_double: scalar.kind == ScalarKind::Double,
                d,
                a,
                b,
            },
        });
    }

    pub(super) fn cast(
        &mut self,
        cast: Cast,
        result: Range,
        value: Operand,
        to: TypeId,
    ) -> Lowered<()> {
        let from_parts = self.scalars_of(value)?;
        let to_parts = scalars(&self.program.types, to)?;
        let from = self.operand(value)?;
        let types = &self.program.types;
        let is_wide = |r#type: TypeId| matches!(types.get(r#type), Type::Integer(128));
        if is_wide(to) && cast != Cast::Bits {
            let zero = self.constant(0);
            return match cast {
                Cast::ZeroExtend => {
                    self.moves(result.first, from.first, 1);
                    self.moves(result.first + 1, zero, 1);
                    Ok(())
                }
                Cast::SignExtend => {
                    let (d, sign) = (result.first, self.constant(63));
                    self.emit(Op::SignExtend {
                        from: 64 - from_parts[0].bits(),
                        to: 0,
                        d,
                        a: from.first,
                    });
                    self.emit(Op::ShiftRightArithmetic {
                        s: 0,
                        d: d + 1,
                        a: d,
                        b: sign,
                    });
                    Ok(())
                }
                _ => Err("a conversion to 128 bits".to_owned()),
            };
        }
        if is_wide(self.type_of(value)?) && cast == Cast::Truncate {
            let s = 64 - to_parts[0].bits();
            self.emit(Op::Truncate {
                s,
                d: result.first,
                a: from.first,
            });
            return Ok(());
        }
        if cast == Cast::Bits && from_parts.len() != to_parts.len() {
            return self.reinterpret(result, from, &from_parts, &to_parts);
        }
        if from_parts.len() != to_parts.len() {
            return Err("a conversion between values of different parts".to_owned());
        }
        for (at, (source, target)) in (0..).zip(from_parts.iter().zip(&to_parts)) {
            let (d, a) = (result.first + at, from.first + at);
            let from_double = source.kind == ScalarKind::Double;
            let to_double = target.kind == ScalarKind::Double;
            self.emit(match cast {
                Cast::Truncate | Cast::PointerToInteger => Op::Truncate {
                    s: 64 - target.bits(),
                    d,
                    a,
                },
                Cast::ZeroExtend | Cast::IntegerToPointer | Cast::Bits | Cast::AddressSpace => {
                    Op::Move { d, a }
                }
                Cast::SignExtend => Op::SignExtend {
                    from: 64 - source.bits(),
                    to: 64 - target.bits(),
                    d,
                    a,
                },
                Cast::UnsignedToFloat | Cast::SignedToFloat => Op::ToFloat {
                    is_signed: cast == Cast::SignedToFloat,
                    s: 64 - source.bits(),
                    is_double: to_double,
                    d,
                    a,
                },
                Cast::FloatToUnsigned | Cast::FloatToSigned => Op::FromFloat {
                    is_signed: cast == Cast::FloatToSigned,
                    s: 64 - target.bits(),
                    is_double: from_double,
                    d,
                    a,
                },
                Cast::FloatExtend => Op::FloatExtend { d, a },
                Cast::FloatTruncate => Op::FloatTruncate { d, a },
            });
        }
        Ok(())
    }

    /// A change of type that keeps the bits, between two 32-bit and one 64-bit scalar.
    pub(super) fn reinterpret(
        &mut self,
        result: Range,
        from: Range,
        source: &[Scalar],
        target: &[Scalar],
    ) -> Lowered<()> {
        let d = result.first;
        let shift = self.constant(32);
        match (source, target) {
            ([low, _], [_]) if low.bits() == 32 => {
                self.emit(Op::ShiftLeft {
                    s: 0,
                    d,
                    a: from.first + 1,
                    b: shift,
                });
                self.emit(Op::Or {
                    d,
                    a: d,
                    b: from.first,
                });
                Ok(())
            }
            ([_], [low, _]) if low.bits() == 32 => {
                self.emit(Op::ShiftRightLogical {
                    d: d + 1,
                    a: from.first,
                    b: shift,
                });
                self.emit(Op::Truncate {
                    s: 32,
                    d,
                    a: from.first,
                });
                Ok(())
            }
            _ => Err("a change of a vector's type".to_owned()),
        }
    }

    pub(super) fn element_address(
        &mut self,
        result: Range,
        source: TypeId,
        base: Operand,
        indices: &[Operand],
    ) -> Lowered<()> {
        let types = &self.program.types;
        let mut address = self.one(base)?;
        let mut current = source;
        let mut known = 0_u64;
        let d = result.first;
        for (position, &index) in indices.iter().enumerate() {
            let lacks = "an address of a part that its type does not have";
            let fixed = match index {
                Operand::Constant(id) if !is_thread_local(self.program, id) => {
                    let bits = u32::from(self.one_scalar(index)?.bits());
                    Some(extend(values(self.program, id)?[0], bits))
                }
                _ => None,
            };
            let part = match position {
                0 => current,
                _ => types
                    .part(current, fixed.unwrap_or(0) as u64)
                    .ok_or(lacks)?,
            };
            let is_field = position > 0 && matches!(types.get(current), Type::Struct { .. });
            let size = types.size(part);
            match fixed {
                Some(number) if is_field => {
                    known = known.wrapping_add(types.offset(current, number as u64).ok_or(lacks)?);
                }
                Some(number) => {
                    known = known.wrapping_add(number.wrapping_mul(size as i64) as u64);
                }
                None => {
                    let s = 64 - self.one_scalar(index)?.bits();
                    let scale = u32::try_from(size).map_err(|_| lacks.to_owned())?;
                    let index = self.one(index)?;
                    self.emit(Op::Address {
                        s,
                        d,
                        base: address,
                        index,
                        scale,
                    });
                    address = d;
                }
            }
            current = part;
        }
        if known != 0 {
            let b = self.constant(known);
            self.emit(Op::Add {
                s: 0,
                d,
                a: address,
                b,
            });
        } else if address != d {
            self.emit(Op::Move { d, a: address });
        }
        Ok(())
    }
}
