//! The scalars that a value consists of, in the order of memory.

use norns_ir::{Type, TypeId, Types};

use crate::op::Shape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Integer(u8),
    Float,
    Double,
    Pointer,
}

/// A scalar and its offset in bytes from the start of the value in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar {
    pub(crate) kind: ScalarKind,
    pub(crate) offset: u64,
}

/// A value with more scalars than this is given up on.
const MAX_SCALARS: usize = 256;

impl Scalar {
    pub(crate) fn bits(self) -> u8 {
        match self.kind {
            ScalarKind::Integer(bits) => bits,
            ScalarKind::Float => 32,
            ScalarKind::Double | ScalarKind::Pointer => 64,
        }
    }

    pub(crate) fn bytes(self) -> u8 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn shape(self) -> Shape {
        Shape {
            bytes: self.bytes(),
            is_float: matches!(self.kind, ScalarKind::Float | ScalarKind::Double),
        }
    }
}

pub(crate) fn scalars(types: &Types, id: TypeId) -> Result<Vec<Scalar>, String> {
    let mut all = Vec::new();
    collect(types, id, 0, &mut all)?;
    Ok(all)
}

fn collect(types: &Types, id: TypeId, offset: u64, all: &mut Vec<Scalar>) -> Result<(), String> {
    let mut add = |kind, offset| {
        all.push(Scalar { kind, offset });
        Ok(())
    };
    match types.get(id) {
        Type::Void => Ok(()),
        Type::Integer(bits @ 1..=64) => add(ScalarKind::Integer(*bits as u8), offset),
        Type::Integer(128) => {
            add(ScalarKind::Integer(64), offset)?;
            add(ScalarKind::Integer(64), offset + 8)
        }
        Type::Integer(bits) => Err(format!("an integer of {bits} bits")),
        Type::Float(32) => add(ScalarKind::Float, offset),
        Type::Float(64) => add(ScalarKind::Double, offset),
        Type::Float(bits) => Err(format!("a floating-point number of {bits} bits")),
        Type::Pointer => add(ScalarKind::Pointer, offset),
        Type::Array { element, count } | Type::Vector { element, count } => {
            if *count as usize > MAX_SCALARS {
                return Err("a value of more than 256 parts".to_owned());
            }
            let size = types.size(*element);
            (0..*count).try_for_each(|at| collect(types, *element, offset + at * size, all))
        }
        Type::Struct {
            fields, is_packed, ..
        } => {
            let offsets = types.field_offsets(fields, *is_packed);
            let mut fields = fields.iter().zip(offsets);
            fields.try_for_each(|(&field, start)| collect(types, field, offset + start, all))
        }
        Type::Function { .. } | Type::Opaque(_) => Err("a value without a size".to_owned()),
    }?;
    match all.len() > MAX_SCALARS {
        true => Err("a value of more than 256 parts".to_owned()),
        false => Ok(()),
    }
}

/// Where a part of an aggregate begins among its scalars, and the part's type.
pub(crate) fn part(types: &Types, id: TypeId, path: &[u32]) -> Result<(usize, TypeId), String> {
    let Some((&first, rest)) = path.split_first() else {
        return Ok((0, id));
    };
    let mut before = 0;
    for index in 0..u64::from(first) {
        let part = types
            .part(id, index)
            .ok_or("a part that its type does not have")?;
        before += scalars(types, part)?.len();
    }
    let inner = types
        .part(id, u64::from(first))
        .ok_or("a part that its type does not have")?;
    let (start, found) = part(types, inner, rest)?;
    Ok((before + start, found))
}
