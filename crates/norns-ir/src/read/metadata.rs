//! Metadata: the nodes that carry debug information, kept as records until something asks for them.

use super::Fault;
use super::bits::Bits;
use super::module::Module;
use super::record::Fields;
use super::stream::Item;

/// The nodes of a module by number, and while a function is read, its own behind them.
#[derive(Default)]
pub(super) struct Metadata<'a> {
    entries: Vec<Entry<'a>>,
    fields: Vec<u64>,
    /// How many of the nodes are the module's own.
    shared: usize,
    /// How many functions have added nodes.
    functions: u64,
    /// Globals by value number, with the node that describes each.
    pub(super) global_attachments: Vec<(u64, u64)>,
}

#[derive(Clone, Copy)]
enum Entry<'a> {
    String(&'a [u8]),
    /// A node by its code and its part of the fields.
    Node {
        code: u8,
        start: u32,
        length: u32,
    },
}

/// The codes of nodes.
pub(super) mod node {
    pub(in crate::read) const VALUE: u8 = 2;
    pub(in crate::read) const NODE: u8 = 3;
    pub(in crate::read) const LOCATION: u8 = 7;
    pub(in crate::read) const BASIC_TYPE: u8 = 15;
    pub(in crate::read) const FILE: u8 = 16;
    pub(in crate::read) const DERIVED_TYPE: u8 = 17;
    pub(in crate::read) const COMPOSITE_TYPE: u8 = 18;
    pub(in crate::read) const SUBROUTINE_TYPE: u8 = 19;
    pub(in crate::read) const SUBPROGRAM: u8 = 21;
    pub(in crate::read) const LEXICAL_BLOCK: u8 = 22;
    pub(in crate::read) const LEXICAL_BLOCK_FILE: u8 = 23;
    pub(in crate::read) const NAMESPACE: u8 = 24;
    pub(in crate::read) const GLOBAL_VARIABLE: u8 = 27;
    pub(in crate::read) const LOCAL_VARIABLE: u8 = 28;
    pub(in crate::read) const EXPRESSION: u8 = 29;
    pub(in crate::read) const GLOBAL_VARIABLE_EXPRESSION: u8 = 37;
}

/// How much metadata there was before a function added its own.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    entries: usize,
    fields: usize,
}

/// A variable as its node describes it; the numbers are those of other nodes.
pub(super) struct VariableNode {
    pub(super) name: Option<String>,
    pub(super) file: Option<u64>,
    pub(super) line: u32,
    pub(super) r#type: Option<u64>,
}

impl<'a> Metadata<'a> {
    /// Begins a function, whose nodes `reset` will remove.
    pub(super) fn mark(&mut self) -> Mark {
        self.shared = self.entries.len();
        self.functions += 1;
        Mark {
            entries: self.entries.len(),
            fields: self.fields.len(),
        }
    }

    pub(super) fn reset(&mut self, mark: Mark) {
        self.entries.truncate(mark.entries);
        self.fields.truncate(mark.fields);
    }

    /// What stands for a node in a table that is kept from one function to the next: the numbers of a
    /// function's own nodes are used again by the next one.
    pub(super) fn key(&self, number: u64) -> u64 {
        match usize::try_from(number) {
            Ok(index) if index < self.shared => number,
            _ => number ^ (self.functions << 32),
        }
    }

    /// The code and fields of a node.
    pub(super) fn node(&self, number: u64) -> Option<(u8, &[u64])> {
        match *self.entries.get(usize::try_from(number).ok()?)? {
            Entry::Node {
                code,
                start,
                length,
            } => {
                let start = start as usize;
                Some((code, &self.fields[start..start + length as usize]))
            }
            Entry::String(_) => None,
        }
    }

    /// The fields of a node, if it has this code.
    pub(super) fn fields_of(&self, number: u64, code: u8) -> Option<&[u64]> {
        self.node(number)
            .filter(|&(found, _)| found == code)
            .map(|(_, fields)| fields)
    }

    /// A string by the field that refers to it: 0 for none, or one more than its number.
    pub(super) fn string(&self, field: Option<&u64>) -> Option<String> {
        let number = reference(field)?;
        match self.entries.get(usize::try_from(number).ok()?)? {
            Entry::String(bytes) if !bytes.is_empty() => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            _ => None,
        }
    }

    pub(super) fn global_variable(&self, number: u64) -> Option<VariableNode> {
        let number = match self.node(number)? {
            (node::GLOBAL_VARIABLE_EXPRESSION, fields) => reference(fields.get(1))?,
            (node::GLOBAL_VARIABLE, _) => number,
            _ => return None,
        };
        let fields = self.fields_of(number, node::GLOBAL_VARIABLE)?;
        Some(VariableNode {
            name: self.string(fields.get(2)),
            file: reference(fields.get(4)),
            line: line(fields.get(5)),
            r#type: reference(fields.get(6)),
        })
    }

    pub(super) fn local_variable(&self, number: u64) -> Option<VariableNode> {
        let fields = self.fields_of(number, node::LOCAL_VARIABLE)?;
        Some(VariableNode {
            name: self.string(fields.get(2)),
            file: reference(fields.get(3)),
            line: line(fields.get(4)),
            r#type: reference(fields.get(5)),
        })
    }

    /// The operators of an expression over a variable's value.
    pub(super) fn expression(&self, number: u64) -> Option<&[u64]> {
        self.fields_of(number, node::EXPRESSION)
            .map(|fields| fields.get(1..).unwrap_or_default())
    }

    fn push(&mut self, code: u8, fields: &[u64]) {
        let start = u32::try_from(self.fields.len()).unwrap_or(u32::MAX);
        self.fields.extend_from_slice(fields);
        self.entries.push(Entry::Node {
            code,
            start,
            length: fields.len() as u32,
        });
    }
}

/// A reference to a node in a field: 0 for none, or one more than its number.
pub(super) fn reference(field: Option<&u64>) -> Option<u64> {
    field?.checked_sub(1)
}

pub(super) fn line(field: Option<&u64>) -> u32 {
    field.map_or(0, |&line| u32::try_from(line).unwrap_or(0))
}

impl Module<'_, '_> {
    /// Reads the block of metadata that the stream has just entered.
    pub(super) fn read_metadata(&mut self) -> Result<(), Fault> {
        loop {
            match self.next()? {
                Item::End => return Ok(()),
                Item::Block(_) => self.stream.skip()?,
                Item::Record => self.read_metadata_record()?,
            }
        }
    }

    fn read_metadata_record(&mut self) -> Result<(), Fault> {
        let fields = &self.record.fields;
        match self.record.code {
            // Names and kinds, a list of nodes by name, the index: these are no nodes.
            4 | 6 | 10 | 38 | 39 => {}
            35 => {
                let mut fields = Fields::new(fields);
                let count = fields.take()?;
                let start = fields.take_u32()? as usize;
                let blob = self.record.blob;
                let (lengths, mut characters) = blob
                    .split_at_checked(start)
                    .ok_or(Fault::Malformed("metadata strings are cut off"))?;
                let mut lengths = Bits::new(lengths);
                for _ in 0..count {
                    let length = usize::try_from(lengths.variable(6)?).unwrap_or(usize::MAX);
                    let (string, rest) = characters
                        .split_at_checked(length)
                        .ok_or(Fault::Malformed("metadata strings are cut off"))?;
                    characters = rest;
                    self.metadata.entries.push(Entry::String(string));
                }
            }
            36 => {
                if let [value, attachments @ ..] = &fields[..] {
                    self.metadata
                        .global_attachments
                        .extend(debug_attachment(attachments).map(|node| (*value, node)));
                }
            }
            code => {
                let code = u8::try_from(code).unwrap_or(u8::MAX);
                self.metadata.push(code, fields);
            }
        }
        Ok(())
    }
}

/// The node that pairs of a kind and a node give for debug information.
pub(super) fn debug_attachment(pairs: &[u64]) -> Option<u64> {
    const DEBUG: u64 = 0;
    let mut pairs = pairs.chunks_exact(2);
    pairs.find(|pair| pair[0] == DEBUG).map(|pair| pair[1])
}
