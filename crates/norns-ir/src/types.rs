//! The types of a program and how they lie in memory on a 64-bit machine.

use std::collections::HashMap;

use crate::program::id;

id! {
    /// A type of a [`Types`] table.
    TypeId
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Void,
    /// An integer of this many bits.
    Integer(u32),
    /// A floating-point number of this many bits: 16, 32, 64, 80 or 128.
    Float(u32),
    /// Any pointer; what it points to is said by the instructions that use it.
    Pointer,
    Array {
        element: TypeId,
        count: u64,
    },
    Vector {
        element: TypeId,
        count: u64,
    },
    Struct {
        name: Option<String>,
        fields: Vec<TypeId>,
        is_packed: bool,
    },
    Function {
        result: TypeId,
        parameters: Vec<TypeId>,
        is_variadic: bool,
    },
    /// A structure that is declared and not defined, or a type with no values in memory (labels,
    /// tokens, metadata).
    Opaque(Option<String>),
}

/// All types of a program, each once: types of two modules with the same name and parts are the same.
#[derive(Clone, Debug, Default)]
pub struct Types {
    types: Vec<Type>,
    /// Size and alignment of each type in bytes.
    layouts: Vec<(u64, u64)>,
    ids: HashMap<Type, TypeId>,
}

impl Types {
    /// The id of a type, which is added if the table does not have it. Its parts are in the table.
    pub fn add(&mut self, new: Type) -> TypeId {
        if let Some(&id) = self.ids.get(&new) {
            return id;
        }
        let id = TypeId::from_index(self.types.len());
        self.layouts.push(self.compute_layout(&new));
        self.types.push(new.clone());
        self.ids.insert(new, id);
        id
    }

    /// The id of a type that the table has.
    #[must_use]
    pub fn find(&self, r#type: &Type) -> Option<TypeId> {
        self.ids.get(r#type).copied()
    }

    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.index()]
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The bytes from one element of an array of this type to the next; 0 for what has no size.
    #[must_use]
    pub fn size(&self, id: TypeId) -> u64 {
        self.layout(id).0
    }

    /// The offset in bytes of a field of a structure or an element of an array.
    #[must_use]
    pub fn offset(&self, id: TypeId, index: u64) -> Option<u64> {
        match self.get(id) {
            Type::Array { element, .. } | Type::Vector { element, .. } => {
                self.size(*element).checked_mul(index)
            }
            Type::Struct {
                fields, is_packed, ..
            } => {
                let index = usize::try_from(index)
                    .ok()
                    .filter(|&at| at < fields.len())?;
                Some(self.field_offsets(fields, *is_packed)[index])
            }
            _ => None,
        }
    }

    /// The type of a field of a structure or of the elements of an array.
    #[must_use]
    pub fn part(&self, id: TypeId, index: u64) -> Option<TypeId> {
        match self.get(id) {
            Type::Array { element, .. } | Type::Vector { element, .. } => Some(*element),
            Type::Struct { fields, .. } => fields.get(usize::try_from(index).ok()?).copied(),
            _ => None,
        }
    }

    /// The offset of every field, in order.
    #[must_use]
    pub fn field_offsets(&self, fields: &[TypeId], is_packed: bool) -> Vec<u64> {
        let mut end = 0_u64;
        fields
            .iter()
            .map(|&field| {
                let (size, alignment) = self.layout(field);
                let start = match is_packed {
                    true => end,
                    false => round_up(end, alignment),
                };
                end = start.saturating_add(size);
                start
            })
            .collect()
    }

    fn layout(&self, id: TypeId) -> (u64, u64) {
        self.layouts[id.index()]
    }

    /// Size and alignment in bytes, by the rules of the System V ABI for x86-64 and AArch64.
    fn compute_layout(&self, r#type: &Type) -> (u64, u64) {
        match r#type {
            Type::Integer(bits) => {
                let size = u64::from(bits.div_ceil(8)).next_power_of_two().max(1);
                (size, size.min(16))
            }
            Type::Float(80) => (16, 16),
            Type::Float(bits) => (u64::from(bits / 8), u64::from(bits / 8).max(1)),
            Type::Pointer => (8, 8),
            Type::Array { element, count } => {
                let (size, alignment) = self.layout(*element);
                (size.saturating_mul(*count), alignment)
            }
            Type::Vector { element, count } => {
                let size = self.size(*element).saturating_mul(*count);
                let size = size.checked_next_power_of_two().unwrap_or(1 << 63);
                (size, size)
            }
            Type::Struct {
                fields, is_packed, ..
            } => {
                let offsets = self.field_offsets(fields, *is_packed);
                let end = match (offsets.last(), fields.last()) {
                    (Some(start), Some(&last)) => start.saturating_add(self.size(last)),
                    _ => 0,
                };
                let alignments = fields.iter().map(|&field| self.layout(field).1);
                let alignment = match is_packed {
                    true => 1,
                    false => alignments.max().unwrap_or(1),
                };
                (round_up(end, alignment), alignment)
            }
            Type::Void | Type::Function { .. } | Type::Opaque(_) => (0, 1),
        }
    }
}

fn round_up(size: u64, alignment: u64) -> u64 {
    size.checked_next_multiple_of(alignment).unwrap_or(size)
}
