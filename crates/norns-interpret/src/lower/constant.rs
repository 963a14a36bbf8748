//! The values of constants, as scalars and as bytes in memory.

use norns_ir::{
    BinaryOperator, Cast, Constant, ConstantId, GlobalId, Instruction, Kind, Operand, Program,
    Type, TypeId,
};

use super::scalar::scalars;
use crate::memory::{ObjectId, address_of, function_address};

/// The object of a global variable: the objects of a program begin with them.
pub(crate) fn object_of_global(global: GlobalId) -> ObjectId {
    ObjectId(global.index() as u32 + 1)
}

/// Whether a constant contains the address of a thread-local variable.
pub(crate) fn is_thread_local(program: &Program, id: ConstantId) -> bool {
    let constant = program.constant(id);
    if let Constant::Global(global) = constant {
        return program.global(*global).is_thread_local;
    }
    let mut found = false;
    constant.for_each_part(|part| found |= is_thread_local(program, part));
    found
}

/// The scalars of a constant.
pub(crate) fn values(program: &Program, id: ConstantId) -> Result<Vec<u64>, String> {
    let zeros = |r#type: TypeId| Ok(vec![0; scalars(&program.types, r#type)?.len()]);
    match program.constant(id) {
        Constant::Integer(r#type, value) => match program.types.get(*r#type) {
            Type::Integer(128) => Ok(vec![*value as u64, (*value >> 64) as u64]),
            _ => Ok(vec![*value as u64]),
        },
        Constant::Float(r#type, bits) => match program.types.get(*r#type) {
            Type::Float(32 | 64) => Ok(vec![*bits as u64]),
            _ => zeros(*r#type),
        },
        Constant::Null(r#type) | Constant::Undefined(r#type) | Constant::Zero(r#type) => {
            zeros(*r#type)
        }
        Constant::Aggregate(_, parts) => {
            let mut all = Vec::new();
            for &part in parts {
                all.extend(values(program, part)?);
            }
            Ok(all)
        }
        Constant::Bytes(_, bytes) => Ok(bytes.iter().map(|&byte| u64::from(byte)).collect()),
        Constant::Numbers(_, numbers) => Ok(numbers.clone()),
        Constant::Global(global) => Ok(vec![address_of(object_of_global(*global))]),
        Constant::Function(function) => Ok(vec![function_address(function.index())]),
        Constant::Computed(instruction) => Ok(vec![compute(program, instruction)?]),
        Constant::Other(_, what) => Err(what.clone()),
    }
}

fn scalar(program: &Program, operand: Operand) -> Result<u64, String> {
    match operand {
        Operand::Constant(id) => match values(program, id)?[..] {
            [value] => Ok(value),
            _ => Err("a constant that is computed from aggregates".to_owned()),
        },
        Operand::Parameter(_) | Operand::Result(_) => {
            Err("a constant that is made from a variable".to_owned())
        }
    }
}

fn constant_type(program: &Program, operand: Operand) -> Option<TypeId> {
    match operand {
        Operand::Constant(id) => program.constant_type(id),
        Operand::Parameter(_) | Operand::Result(_) => None,
    }
}

fn bits_of(program: &Program, r#type: Option<TypeId>) -> u32 {
    match r#type.map(|r#type| program.types.get(r#type)) {
        Some(Type::Integer(bits @ 1..=64)) => *bits,
        _ => 64,
    }
}

pub(crate) fn extend(value: u64, bits: u32) -> i64 {
    ((value << (64 - bits)) as i64) >> (64 - bits)
}

fn compute(program: &Program, instruction: &Instruction) -> Result<u64, String> {
    let mask = u64::MAX >> (64 - bits_of(program, Some(instruction.r#type)));
    let value = match &instruction.kind {
        Kind::Cast(cast, operand) => {
            let value = scalar(program, *operand)?;
            match cast {
                Cast::SignExtend => {
                    extend(value, bits_of(program, constant_type(program, *operand))) as u64
                }
                Cast::Truncate
                | Cast::ZeroExtend
                | Cast::PointerToInteger
                | Cast::IntegerToPointer
                | Cast::Bits
                | Cast::AddressSpace => value,
                _ => return Err("a constant cast of a floating-point number".to_owned()),
            }
        }
        Kind::Binary(operator, left, right) => {
            let (left, right) = (scalar(program, *left)?, scalar(program, *right)?);
            match operator {
                BinaryOperator::Add => left.wrapping_add(right),
                BinaryOperator::Subtract => left.wrapping_sub(right),
                BinaryOperator::Multiply => left.wrapping_mul(right),
                BinaryOperator::And => left & right,
                BinaryOperator::Or => left | right,
                BinaryOperator::Xor => left ^ right,
                BinaryOperator::ShiftLeft => left << (right & 63),
                BinaryOperator::ShiftRightLogical => left >> (right & 63),
                _ => return Err("a rare operator of constants".to_owned()),
            }
        }
        Kind::ElementAddress {
            source,
            base,
            indices,
        } => {
            let mut address = scalar(program, *base)?;
            let mut current = *source;
            for (position, &index) in indices.iter().enumerate() {
                let bits = bits_of(program, constant_type(program, index));
                let number = extend(scalar(program, index)?, bits);
                if position == 0 {
                    let step = program.types.size(current) as i64;
                    address = address.wrapping_add(number.wrapping_mul(step) as u64);
                    continue;
                }
                let lacks = "an address of a part that its type does not have";
                let part = program.types.part(current, number as u64).ok_or(lacks)?;
                let step = match program.types.get(current) {
                    Type::Struct { .. } => {
                        program.types.offset(current, number as u64).ok_or(lacks)?
                    }
                    _ => number.wrapping_mul(program.types.size(part) as i64) as u64,
                };
                address = address.wrapping_add(step);
                current = part;
            }
            address
        }
        _ => return Err("a rare operation on constants".to_owned()),
    };
    Ok(value & mask)
}

/// The bytes of a constant in memory.
pub(crate) fn initial_bytes(program: &Program, id: ConstantId) -> Result<Vec<u8>, String> {
    let size = match program.constant_type(id) {
        Some(r#type) => program.types.size(r#type),
        None => 8,
    };
    let mut bytes = vec![0; size as usize];
    write(program, id, &mut bytes)?;
    Ok(bytes)
}

fn write(program: &Program, id: ConstantId, bytes: &mut [u8]) -> Result<(), String> {
    match program.constant(id) {
        Constant::Zero(_) | Constant::Undefined(_) | Constant::Null(_) => {}
        Constant::Integer(_, value) | Constant::Float(_, value) => {
            let all = value.to_le_bytes();
            let count = bytes.len().min(16);
            bytes[..count].copy_from_slice(&all[..count]);
        }
        Constant::Bytes(_, all) => bytes[..all.len()].copy_from_slice(all),
        Constant::Numbers(r#type, numbers) => {
            let element = program
                .types
                .part(*r#type, 0)
                .ok_or("numbers without a type")?;
            let size = program.types.size(element) as usize;
            for (number, bytes) in numbers.iter().zip(bytes.chunks_mut(size)) {
                bytes.copy_from_slice(&number.to_le_bytes()[..size]);
            }
        }
        Constant::Aggregate(r#type, parts) => {
            for (index, &part) in parts.iter().enumerate() {
                let lacks = "an aggregate with parts that its type does not have";
                let offset = program.types.offset(*r#type, index as u64).ok_or(lacks)? as usize;
                let inner = program.types.part(*r#type, index as u64).ok_or(lacks)?;
                let end = offset + program.types.size(inner) as usize;
                write(program, part, &mut bytes[offset..end])?;
            }
        }
        Constant::Global(_) | Constant::Function(_) | Constant::Computed(_) => {
            let [value] = values(program, id)?[..] else {
                return Err("an address of several parts".to_owned());
            };
            let count = bytes.len().min(8);
            bytes[..count].copy_from_slice(&value.to_le_bytes()[..count]);
        }
        Constant::Other(_, what) => return Err(what.clone()),
    }
    Ok(())
}
