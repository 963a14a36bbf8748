//! Types as the source has them, with the names of their fields.

use super::metadata::{node, reference};
use super::module::Module;
use crate::debug::{DebugField, DebugType, DebugTypeId};

/// DWARF's numbers for kinds of types.
mod tag {
    pub(super) const ARRAY: u64 = 0x01;
    pub(super) const CLASS: u64 = 0x02;
    pub(super) const MEMBER: u64 = 0x0d;
    pub(super) const POINTER: u64 = 0x0f;
    pub(super) const REFERENCE: u64 = 0x10;
    pub(super) const STRUCTURE: u64 = 0x13;
    pub(super) const TYPEDEF: u64 = 0x16;
    pub(super) const UNION: u64 = 0x17;
    pub(super) const INHERITANCE: u64 = 0x1c;
    pub(super) const CONST: u64 = 0x26;
    pub(super) const VOLATILE: u64 = 0x35;
    pub(super) const RESTRICT: u64 = 0x37;
    pub(super) const RVALUE_REFERENCE: u64 = 0x42;
    pub(super) const TEMPLATE_ALIAS: u64 = 0x43;
    pub(super) const ATOMIC: u64 = 0x47;
}

const STATIC_MEMBER: u64 = 1 << 12;

impl Module<'_, '_> {
    /// The type that a node describes, with all that it refers to.
    pub(super) fn debug_type(&mut self, number: u64) -> DebugTypeId {
        let mut waiting = Vec::new();
        let id = self.debug_type_id(number, &mut waiting);
        while let Some(number) = waiting.pop() {
            let described = self.describe_type(number, &mut waiting);
            let id = self.debug_types[&self.metadata.key(number)];
            self.linker.program.debug_types[id.index()] = described;
        }
        id
    }

    /// The id of a type; it waits to be described if it is new.
    fn debug_type_id(&mut self, number: u64, waiting: &mut Vec<u64>) -> DebugTypeId {
        let key = self.metadata.key(number);
        if let Some(&id) = self.debug_types.get(&key) {
            return id;
        }
        let types = &mut self.linker.program.debug_types;
        let id = DebugTypeId::from_index(types.len());
        types.push(DebugType::Other(None));
        self.debug_types.insert(key, id);
        waiting.push(number);
        id
    }

    fn describe_type(&mut self, number: u64, waiting: &mut Vec<u64>) -> DebugType {
        let Some((code, fields)) = self.metadata.node(number) else {
            return DebugType::Other(None);
        };
        let name = self.metadata.string(fields.get(2));
        let tag = fields.get(1).copied().unwrap_or_default();
        match code {
            node::BASIC_TYPE => DebugType::Base(name.unwrap_or_default()),
            node::SUBROUTINE_TYPE => DebugType::Function,
            node::DERIVED_TYPE => {
                let target = reference(fields.get(6));
                let target = target.map(|number| self.debug_type_id(number, waiting));
                match tag {
                    tag::POINTER | tag::REFERENCE | tag::RVALUE_REFERENCE => {
                        DebugType::Pointer(target)
                    }
                    tag::TYPEDEF
                    | tag::CONST
                    | tag::VOLATILE
                    | tag::RESTRICT
                    | tag::ATOMIC
                    | tag::TEMPLATE_ALIAS => DebugType::Alias { name, target },
                    _ => DebugType::Other(name),
                }
            }
            node::COMPOSITE_TYPE => match tag {
                tag::ARRAY => match reference(fields.get(6)) {
                    Some(element) => DebugType::Array(self.debug_type_id(element, waiting)),
                    None => DebugType::Other(name),
                },
                tag::STRUCTURE | tag::CLASS | tag::UNION => {
                    let elements = reference(fields.get(11));
                    let fields = self.debug_fields(elements, waiting);
                    DebugType::Record { name, fields }
                }
                _ => DebugType::Other(name),
            },
            _ => DebugType::Other(None),
        }
    }

    fn debug_fields(&mut self, elements: Option<u64>, waiting: &mut Vec<u64>) -> Vec<DebugField> {
        let list = elements.and_then(|number| self.metadata.fields_of(number, node::NODE));
        let list = list.map(<[u64]>::to_vec).unwrap_or_default();
        let mut found = Vec::new();
        for element in &list {
            let Some(element) = reference(Some(element)) else {
                continue;
            };
            let Some(fields) = self.metadata.fields_of(element, node::DERIVED_TYPE) else {
                continue;
            };
            let field = |index: usize| fields.get(index).copied().unwrap_or_default();
            if !matches!(field(1), tag::MEMBER | tag::INHERITANCE) || field(10) & STATIC_MEMBER != 0
            {
                continue;
            }
            let (size, offset) = (field(7), field(9));
            let name = match field(1) {
                tag::MEMBER => self.metadata.string(fields.get(2)).unwrap_or_default(),
                _ => String::new(),
            };
            let r#type = reference(fields.get(6));
            found.push(DebugField {
                name,
                offset,
                size,
                r#type: r#type.map(|number| self.debug_type_id(number, waiting)),
            });
        }
        found
    }
}
