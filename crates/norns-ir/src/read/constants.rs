//! The constants of a module or function.

use super::Fault;
use super::module::{Module, Value};
use super::record::{Fields, signed, string};
use super::stream::Item;
use crate::instruction::{BinaryOperator, Cast, Instruction, Kind, Operand, Predicate};
use crate::program::{Constant, ConstantId};
use crate::types::{Type, TypeId};

impl<'a> Module<'a, '_> {
    /// Reads the block of constants that the stream has just entered. Each gets the next value number.
    pub(super) fn read_constants(&mut self) -> Result<(), Fault> {
        let first = self.linker.program.constants.len();
        let mut current = self.linker.program.types.add(Type::Integer(32));
        loop {
            match self.next()? {
                Item::End => break,
                Item::Block(_) => self.stream.skip()?,
                Item::Record if self.record.code == 1 => {
                    let number = Fields::new(&self.record.fields).take()?;
                    current = self.types.get(number)?;
                }
                Item::Record => {
                    let fields = std::mem::take(&mut self.record.fields);
                    let constant = self.read_constant(self.record.code, &fields, current);
                    self.record.fields = fields;
                    let id = self.linker.constant(constant?);
                    self.values.push(Value {
                        operand: Operand::Constant(id),
                        r#type: current,
                    });
                }
            }
        }
        if self.farthest_constant >= self.linker.program.constants.len() {
            return Err(Fault::Malformed("a constant refers to one that is missing"));
        }
        self.check_nesting(first)
    }

    /// Refuses constants that contain themselves, or others too deeply for a recursion over them.
    fn check_nesting(&mut self, first: usize) -> Result<(), Fault> {
        /// A part of a constant is at least one level less deep. Simple constants have no entry.
        const MAX_DEPTH: u32 = 500;
        let constants = &self.linker.program.constants;
        let is_simple = |constant: &Constant| {
            !matches!(constant, Constant::Aggregate(..) | Constant::Computed(_))
        };
        let mut entered = vec![false; constants.len() - first];
        let mut open = Vec::new();
        for index in first..constants.len() {
            open.push(index);
            while let Some(&current) = open.last() {
                let id = ConstantId::from_index(current);
                if is_simple(&constants[current]) || self.constant_depths.contains_key(&id) {
                    open.pop();
                    continue;
                }
                let mut depth = 1;
                let waiting = open.len();
                constants[current].for_each_part(|part| {
                    if is_simple(&constants[part.index()]) {
                        return;
                    }
                    match self.constant_depths.get(&part) {
                        Some(below) => depth = depth.max(below + 1),
                        None => open.push(part.index()),
                    }
                });
                if open.len() == waiting {
                    self.constant_depths.insert(id, depth);
                } else if current < first || std::mem::replace(&mut entered[current - first], true)
                {
                    return Err(Fault::Malformed("a constant contains itself"));
                }
                if depth > MAX_DEPTH {
                    return Err(Fault::Malformed("constants are nested too deeply"));
                }
            }
        }
        Ok(())
    }

    /// The constant with a value number, which may be one of the same block that comes later.
    pub(super) fn constant_of(&mut self, number: u64) -> Result<ConstantId, Fault> {
        let missing = Fault::Malformed("a constant refers to one that is missing");
        let number = u32::try_from(number).map_err(|_| missing)? as usize;
        match self.values.get(number).map(|value| value.operand) {
            Some(Operand::Constant(id)) => Ok(id),
            Some(_) => Err(Fault::Malformed("a constant is made from a variable")),
            None => {
                let later = number - self.values.len();
                let index = self.linker.program.constants.len() + later;
                self.farthest_constant = self.farthest_constant.max(index);
                Ok(ConstantId::from_index(index))
            }
        }
    }

    fn constant_operand(&mut self, fields: &mut Fields<'_>) -> Result<Operand, Fault> {
        let number = fields.take()?;
        Ok(Operand::Constant(self.constant_of(number)?))
    }

    fn read_constant(
        &mut self,
        code: u64,
        all: &[u64],
        current: TypeId,
    ) -> Result<Constant, Fault> {
        let mut fields = Fields::new(all);
        let computed = |kind| {
            Constant::Computed(Box::new(Instruction {
                kind,
                r#type: current,
                place: None,
            }))
        };
        Ok(match code {
            2 => match self.type_of(current) {
                Type::Integer(_) => Constant::Integer(current, 0),
                Type::Float(_) => Constant::Float(current, 0),
                Type::Pointer => Constant::Null(current),
                _ => Constant::Zero(current),
            },
            3 | 26 => Constant::Undefined(current),
            4 => Constant::Integer(
                current,
                self.bits_of(current, signed(fields.take()?).into()),
            ),
            5 => {
                let low = signed(fields.take()?) as u64;
                let high = fields.take().map_or(0, |word| signed(word) as u64);
                let wide = (u128::from(high) << 64) | u128::from(low);
                Constant::Integer(current, self.bits_of(current, wide as i128))
            }
            6 => Constant::Float(current, self.read_float(current, all)?),
            7 => {
                let parts = all.iter().map(|&number| self.constant_of(number));
                Constant::Aggregate(current, parts.collect::<Result<_, _>>()?)
            }
            8 => Constant::Bytes(current, all.iter().map(|&byte| byte as u8).collect()),
            9 => {
                let bytes = all.iter().map(|&byte| byte as u8);
                Constant::Bytes(current, bytes.chain(std::iter::once(0)).collect())
            }
            10 => {
                let operator = fields.take()?;
                let left = self.constant_operand(&mut fields)?;
                let right = self.constant_operand(&mut fields)?;
                let is_float = self.is_float(current);
                computed(Kind::Binary(
                    binary_operator(operator, is_float)?,
                    left,
                    right,
                ))
            }
            11 => {
                let cast = cast(fields.take()?)?;
                fields.take()?;
                computed(Kind::Cast(cast, self.constant_operand(&mut fields)?))
            }
            12 | 20 | 24 | 31 | 32 => computed(self.read_constant_address(code, all)?),
            13 => computed(Kind::Select {
                condition: self.constant_operand(&mut fields)?,
                then: self.constant_operand(&mut fields)?,
                otherwise: self.constant_operand(&mut fields)?,
            }),
            17 => {
                fields.take()?;
                let left = self.constant_operand(&mut fields)?;
                let right = self.constant_operand(&mut fields)?;
                computed(Kind::Compare(predicate(fields.take()?)?, left, right))
            }
            18 | 23 | 28 | 30 => self.read_assembler(code, fields, current)?,
            21 => Constant::Other(current, "block address".to_owned()),
            22 => self.read_data(current, all)?,
            // `dso_local_equivalent` and `no_cfi`: the function itself.
            27 | 29 => {
                fields.take()?;
                let function = self.constant_operand(&mut fields)?;
                computed(Kind::Cast(Cast::Bits, function))
            }
            14..=16 | 19 => Constant::Other(current, "vector expression".to_owned()),
            25 => Constant::Other(current, "negation".to_owned()),
            33 => computed(Kind::Cast(Cast::Bits, self.constant_operand(&mut fields)?)),
            _ => {
                self.omit(format!("constant of code {code}"));
                Constant::Other(current, format!("constant of code {code}"))
            }
        })
    }

    /// `getelementptr` of constants.
    fn read_constant_address(&mut self, code: u64, all: &[u64]) -> Result<Kind, Fault> {
        let mut fields = Fields::new(all);
        let has_type = matches!(code, 24 | 31 | 32) || all.len() % 2 == 1;
        let mut source = match has_type {
            true => Some(self.types.get(fields.take()?)?),
            false => None,
        };
        if matches!(code, 24 | 31 | 32) {
            fields.take()?; // flags
        }
        if code == 31 {
            // The range in which the address may be used: its width in bits, start and end.
            if fields.take()? > 64 {
                let counts = fields.take()?;
                fields.take_many((counts & 0xffff_ffff).saturating_add(counts >> 32))?;
            } else {
                fields.take_many(2)?;
            }
        }
        let mut operands = Vec::new();
        while fields.left() > 0 {
            let r#type = self.types.get(fields.take()?)?;
            source.get_or_insert(r#type);
            operands.push(self.constant_operand(&mut fields)?);
        }
        if operands.is_empty() {
            return Err(Fault::Malformed("an address has no base"));
        }
        Ok(Kind::ElementAddress {
            source: source.ok_or(Fault::Malformed("an address has no type"))?,
            base: operands.remove(0),
            indices: operands,
        })
    }

    fn read_assembler(
        &mut self,
        code: u64,
        mut fields: Fields<'_>,
        current: TypeId,
    ) -> Result<Constant, Fault> {
        if code == 30 {
            fields.take()?; // its function type, which the call has too
        }
        fields.take()?; // flags
        let length = fields.take()?;
        let text = string(fields.take_many(length)?);
        let length = fields.take()?;
        let constraints = string(fields.take_many(length)?);
        let id = ConstantId::from_index(self.linker.program.constants.len());
        self.assembler.insert(id, (text.clone(), constraints));
        Ok(Constant::Other(current, format!("assembler: {text}")))
    }

    /// An array of numbers that stand in the record themselves.
    fn read_data(&self, current: TypeId, all: &[u64]) -> Result<Constant, Fault> {
        let element = match self.type_of(current) {
            Type::Array { element, .. } | Type::Vector { element, .. } => *element,
            _ => return Err(Fault::Malformed("an array of numbers has another type")),
        };
        if let Type::Integer(8) = self.type_of(element) {
            let bytes = all.iter().map(|&byte| byte as u8);
            return Ok(Constant::Bytes(current, bytes.collect()));
        }
        Ok(Constant::Numbers(current, all.to_vec()))
    }

    fn read_float(&self, current: TypeId, all: &[u64]) -> Result<u128, Fault> {
        let mut fields = Fields::new(all);
        let first = u128::from(fields.take()?);
        Ok(match self.type_of(current) {
            // The mantissa's low 16 bits are in the second word.
            Type::Float(80) => (first << 16) | u128::from(fields.take()? & 0xffff),
            Type::Float(128) => first | (u128::from(fields.take()?) << 64),
            _ => first,
        })
    }

    /// The bits of an integer, without those that its type does not have.
    fn bits_of(&self, r#type: TypeId, value: i128) -> u128 {
        match self.type_of(r#type) {
            Type::Integer(bits @ 1..=127) => value as u128 & ((1 << bits) - 1),
            _ => value as u128,
        }
    }
}

pub(super) fn binary_operator(code: u64, is_float: bool) -> Result<BinaryOperator, Fault> {
    Ok(match (code, is_float) {
        (0, false) => BinaryOperator::Add,
        (1, false) => BinaryOperator::Subtract,
        (2, false) => BinaryOperator::Multiply,
        (3, false) => BinaryOperator::DivideUnsigned,
        (4, false) => BinaryOperator::DivideSigned,
        (5, false) => BinaryOperator::RemainderUnsigned,
        (6, false) => BinaryOperator::RemainderSigned,
        (7, false) => BinaryOperator::ShiftLeft,
        (8, false) => BinaryOperator::ShiftRightLogical,
        (9, false) => BinaryOperator::ShiftRightArithmetic,
        (10, false) => BinaryOperator::And,
        (11, false) => BinaryOperator::Or,
        (12, false) => BinaryOperator::Xor,
        (0, true) => BinaryOperator::AddFloat,
        (1, true) => BinaryOperator::SubtractFloat,
        (2, true) => BinaryOperator::MultiplyFloat,
        (4, true) => BinaryOperator::DivideFloat,
        (6, true) => BinaryOperator::RemainderFloat,
        _ => return Err(Fault::Malformed("a binary operator is unknown")),
    })
}

pub(super) fn cast(code: u64) -> Result<Cast, Fault> {
    Ok(match code {
        0 => Cast::Truncate,
        1 => Cast::ZeroExtend,
        2 => Cast::SignExtend,
        3 => Cast::FloatToUnsigned,
        4 => Cast::FloatToSigned,
        5 => Cast::UnsignedToFloat,
        6 => Cast::SignedToFloat,
        7 => Cast::FloatTruncate,
        8 => Cast::FloatExtend,
        9 => Cast::PointerToInteger,
        10 => Cast::IntegerToPointer,
        11 => Cast::Bits,
        12 => Cast::AddressSpace,
        _ => return Err(Fault::Malformed("a cast is unknown")),
    })
}

pub(super) fn predicate(code: u64) -> Result<Predicate, Fault> {
    Ok(match code {
        0..=15 => Predicate::Float(code as u8),
        32 => Predicate::Equal,
        33 => Predicate::NotEqual,
        34 => Predicate::UnsignedGreater,
        35 => Predicate::UnsignedGreaterOrEqual,
        36 => Predicate::UnsignedLess,
        37 => Predicate::UnsignedLessOrEqual,
        38 => Predicate::SignedGreater,
        39 => Predicate::SignedGreaterOrEqual,
        40 => Predicate::SignedLess,
        41 => Predicate::SignedLessOrEqual,
        _ => return Err(Fault::Malformed("a comparison is unknown")),
    })
}
