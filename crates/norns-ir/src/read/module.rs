//! A module: its symbols, then its function bodies.

use std::collections::{HashMap, HashSet, VecDeque};

use super::attributes::Attributes;
use super::link::{Bound, Linker, Strength, Visibility};
use super::metadata::Metadata;
use super::places::Places;
use super::record::Fields;
use super::stream::{Item, Record, Stream};
use super::types::TypeTable;
use super::{Error, Fault};
use crate::debug::DebugTypeId;
use crate::instruction::{Cast, Kind, Operand};
use crate::program::{Constant, ConstantId, FunctionId, Global, GlobalId};
use crate::types::{Type, TypeId};

/// The kinds of blocks.
pub(super) mod block {
    pub(in crate::read) const MODULE: u32 = 8;
    pub(in crate::read) const ATTRIBUTES: u32 = 9;
    pub(in crate::read) const ATTRIBUTE_GROUPS: u32 = 10;
    pub(in crate::read) const CONSTANTS: u32 = 11;
    pub(in crate::read) const FUNCTION: u32 = 12;
    pub(in crate::read) const METADATA: u32 = 15;
    pub(in crate::read) const METADATA_ATTACHMENT: u32 = 16;
    pub(in crate::read) const TYPES: u32 = 17;
    pub(in crate::read) const STRTAB: u32 = 23;
}

/// A module while it is read.
pub(super) struct Module<'a, 'l> {
    pub(super) linker: &'l mut Linker,
    pub(super) name: &'l str,
    pub(super) stream: Stream<'a>,
    pub(super) record: Record<'a>,
    /// The names of all symbols.
    strtab: &'a [u8],
    pub(super) types: TypeTable,
    attributes: Attributes,
    /// By value number: globals and constants, and while a function is read, what it defines.
    pub(super) values: Vec<Value>,
    /// The largest constant that another one refers to before it is read.
    pub(super) farthest_constant: usize,
    /// How deeply constants with parts are nested.
    pub(super) constant_depths: HashMap<ConstantId, u32>,
    /// Inline assembler: its text and constraints.
    pub(super) assembler: HashMap<ConstantId, (String, String)>,
    pub(super) metadata: Metadata<'a>,
    pub(super) places: Places,
    pub(super) debug_types: HashMap<u64, DebugTypeId>,
    /// The functions whose bodies follow; `None` if another module's definition is taken.
    bodies: VecDeque<Option<FunctionId>>,
    /// What waits for the module's constants.
    initial: Vec<(GlobalId, u64)>,
    aliases: Vec<Alias>,
}

#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) operand: Operand,
    pub(super) r#type: TypeId,
}

struct Alias {
    name: String,
    constant: ConstantId,
    target: u64,
    visibility: Visibility,
}

impl<'a, 'l> Module<'a, 'l> {
    /// Reads a file of bitcode into the linker's program.
    pub(super) fn read(
        linker: &'l mut Linker,
        name: &'l str,
        bytes: &'a [u8],
    ) -> Result<(), Error> {
        let body = unwrap(bytes).map_err(|fault| fault.of(name, 0))?;
        let strtab = find_strtab(body).map_err(|fault| fault.of(name, 0))?;
        let mut module = Module {
            linker,
            name,
            stream: Stream::new(body),
            record: Record::default(),
            strtab,
            types: TypeTable::default(),
            attributes: Attributes::default(),
            values: Vec::new(),
            farthest_constant: 0,
            constant_depths: HashMap::new(),
            assembler: HashMap::new(),
            metadata: Metadata::default(),
            places: Places::default(),
            debug_types: HashMap::new(),
            bodies: VecDeque::new(),
            initial: Vec::new(),
            aliases: Vec::new(),
        };
        match module.read_file() {
            Ok(()) => Ok(()),
            Err(fault) => Err(fault.of(name, module.stream.position())),
        }
    }

    pub(super) fn next(&mut self) -> Result<Item, Fault> {
        self.stream.next(&mut self.record)
    }

    pub(super) fn omit(&mut self, what: impl Into<String>) {
        self.linker.omit(self.name, what);
    }

    pub(super) fn type_of(&self, id: TypeId) -> &Type {
        self.linker.program.types.get(id)
    }

    /// Whether a type is a floating-point number or a vector of them.
    pub(super) fn is_float(&self, id: TypeId) -> bool {
        match self.type_of(id) {
            Type::Float(_) => true,
            Type::Vector { element, .. } => matches!(self.type_of(*element), Type::Float(_)),
            _ => false,
        }
    }

    fn read_file(&mut self) -> Result<(), Fault> {
        let mut is_read = false;
        loop {
            match self.next()? {
                Item::End if is_read => return Ok(()),
                Item::End => return Err(Fault::Malformed("it has no module")),
                Item::Record => {}
                Item::Block(block::MODULE) if !is_read => {
                    is_read = true;
                    self.read_module()?;
                }
                Item::Block(block::MODULE) => {
                    self.omit("a second module in the same file");
                    self.stream.skip()?;
                }
                Item::Block(_) => self.stream.skip()?,
            }
        }
    }

    fn read_module(&mut self) -> Result<(), Fault> {
        let mut is_bound = false;
        loop {
            match self.next()? {
                Item::End => break,
                Item::Block(block::TYPES) => self.read_types()?,
                Item::Block(block::CONSTANTS) => self.read_constants()?,
                Item::Block(block::METADATA) => self.read_metadata()?,
                Item::Block(block::FUNCTION) => {
                    if !is_bound {
                        is_bound = true;
                        self.bind()?;
                    }
                    match self.bodies.pop_front() {
                        Some(Some(function)) => self.read_function(function)?,
                        Some(None) => self.stream.skip()?,
                        None => return Err(Fault::Malformed("it has a body of no function")),
                    }
                }
                Item::Block(block::ATTRIBUTE_GROUPS) => {
                    let (stream, record) = (&mut self.stream, &mut self.record);
                    self.attributes.read_groups(stream, record, &self.types)?;
                }
                Item::Block(block::ATTRIBUTES) => {
                    self.attributes
                        .read_lists(&mut self.stream, &mut self.record)?;
                }
                // Symbol tables, names of metadata kinds, scopes and bundles.
                Item::Block(13 | 14 | 18 | 19 | 20 | 21 | 22 | 24 | 25 | 26) => {
                    self.stream.skip()?;
                }
                Item::Block(kind) => {
                    self.omit(format!("block of kind {kind}"));
                    self.stream.skip()?;
                }
                Item::Record => {
                    let fields = std::mem::take(&mut self.record.fields);
                    let outcome = self.read_module_record(self.record.code, &fields);
                    self.record.fields = fields;
                    outcome?;
                }
            }
        }
        if !is_bound {
            self.bind()?;
        }
        Ok(())
    }

    fn read_types(&mut self) -> Result<(), Fault> {
        let mut unknown = Vec::new();
        self.types = TypeTable::read(
            &mut self.stream,
            &mut self.record,
            &mut self.linker.program.types,
            |code| unknown.push(code),
        )?;
        for code in unknown {
            self.omit(format!("type of code {code}"));
        }
        Ok(())
    }

    fn read_module_record(&mut self, code: u64, fields: &[u64]) -> Result<(), Fault> {
        match code {
            // VERSION: from 2 on (LLVM 5), names are in the string table.
            1 if fields.first().is_none_or(|&version| version < 2) => {
                Err(Fault::Malformed("it was written by a clang before 5"))
            }
            4 => {
                self.omit("assembler outside of functions");
                Ok(())
            }
            7 => self.read_global(fields),
            8 => self.read_function_symbol(fields),
            14 | 18 => self.read_alias(code, fields),
            // Triple, layout, sections, collectors, comdats, offsets, the source's name, hashes.
            1..=3 | 5 | 6 | 11 | 12 | 13 | 16 | 17 => Ok(()),
            _ => {
                self.omit(format!("module record of code {code}"));
                Ok(())
            }
        }
    }

    fn symbol_name(&self, fields: &mut Fields<'_>) -> Result<String, Fault> {
        let start = fields.take_u32()? as usize;
        let length = fields.take_u32()? as usize;
        let name = self
            .strtab
            .get(start..start + length)
            .ok_or(Fault::Malformed("a name is not in the string table"))?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn push_global_value(&mut self, constant: Constant) -> ConstantId {
        let r#type = self.linker.program.types.add(Type::Pointer);
        let id = self.linker.constant(constant);
        self.values.push(Value {
            operand: Operand::Constant(id),
            r#type,
        });
        id
    }

    fn read_global(&mut self, fields: &[u64]) -> Result<(), Fault> {
        let mut fields = Fields::new(fields);
        let name = self.symbol_name(&mut fields)?;
        let r#type = self.types.get(fields.take()?)?;
        let flags = fields.take()?;
        let initial = fields.take()?;
        let visibility = Visibility::new(fields.take()?, initial != 0);
        let thread_local = fields.rest().get(3).copied().unwrap_or_default();
        let global = Global {
            name,
            linkage: visibility.linkage,
            r#type,
            initial: None,
            is_constant: flags & 1 != 0,
            is_thread_local: thread_local != 0,
            source_name: None,
            debug_type: None,
            place: None,
        };
        let constant = match self.linker.global(global, &visibility) {
            Bound::Own(id) => {
                if initial != 0 {
                    self.initial.push((id, initial - 1));
                }
                Constant::Global(id)
            }
            Bound::Other(id) => Constant::Global(id),
            Bound::Alias(target) => self.linker.program.constant(target).clone(),
        };
        self.push_global_value(constant);
        Ok(())
    }

    fn read_function_symbol(&mut self, fields: &[u64]) -> Result<(), Fault> {
        let mut fields = Fields::new(fields);
        let name = self.symbol_name(&mut fields)?;
        let r#type = self.types.get(fields.take()?)?;
        if !matches!(self.type_of(r#type), Type::Function { .. }) {
            return Err(Fault::Malformed("a function has another type"));
        }
        fields.take()?; // calling convention
        let is_definition = fields.take()? == 0;
        let visibility = Visibility::new(fields.take()?, is_definition);
        let by_value = match fields.left() {
            0 => Vec::new(),
            _ => self.attributes.by_value(fields.take()?),
        };
        let is_strong = visibility.strength == Strength::Strong;
        let (constant, body) = match self.linker.function(name, r#type, &visibility) {
            Bound::Own(id) => {
                self.linker.program.functions[id.index()].by_value = by_value;
                (Constant::Function(id), Some(id))
            }
            Bound::Other(id) => {
                if is_strong {
                    let name = &self.linker.program.function(id).name;
                    self.omit(format!("a second function {name}"));
                }
                (Constant::Function(id), None)
            }
            Bound::Alias(target) => (self.linker.program.constant(target).clone(), None),
        };
        if is_definition {
            self.bodies.push_back(body);
        }
        self.push_global_value(constant);
        Ok(())
    }

    /// An alias; an indirect function counts as another name of its resolver.
    fn read_alias(&mut self, code: u64, fields: &[u64]) -> Result<(), Fault> {
        let mut fields = Fields::new(fields);
        let name = self.symbol_name(&mut fields)?;
        let r#type = self.types.get(fields.take()?)?;
        fields.take()?; // address space
        let target = fields.take()?;
        let visibility = Visibility::new(fields.take()?, true);
        if code == 18 {
            self.omit(format!("the choice of the indirect function {name}"));
        }
        let constant = self.push_global_value(Constant::Undefined(r#type));
        self.aliases.push(Alias {
            name,
            constant,
            target,
            visibility,
        });
        Ok(())
    }

    /// Fills in what refers to the module's constants, once they are read.
    fn bind(&mut self) -> Result<(), Fault> {
        for (global, number) in std::mem::take(&mut self.initial) {
            let initial = self.bound_constant(number)?;
            self.linker.program.globals[global.index()].initial = Some(initial);
            if self.linker.program.global(global).name == "llvm.global_ctors" {
                self.collect_constructors(initial);
            }
        }
        let aliases = std::mem::take(&mut self.aliases);
        let names: HashSet<ConstantId> = aliases.iter().map(|alias| alias.constant).collect();
        for alias in aliases {
            let target = self.bound_constant(alias.target)?;
            let target = self.strip_casts(target);
            let constant = self.linker.program.constant(target).clone();
            // An alias that is computed from an alias could be computed from itself.
            let mut is_circular = false;
            constant.for_each_part(|part| is_circular |= names.contains(&part));
            if is_circular {
                self.omit(format!("what {} is another name of", alias.name));
                continue;
            }
            self.linker.program.constants[alias.constant.index()] = constant;
            self.linker
                .alias(alias.name, alias.constant, &alias.visibility);
        }
        self.name_globals();
        Ok(())
    }

    fn bound_constant(&self, number: u64) -> Result<ConstantId, Fault> {
        let value = usize::try_from(number)
            .ok()
            .and_then(|number| self.values.get(number));
        match value.map(|value| value.operand) {
            Some(Operand::Constant(id)) => Ok(id),
            _ => Err(Fault::Malformed("a symbol has no value")),
        }
    }

    /// The constant that casts between pointers were applied to.
    pub(super) fn strip_casts(&self, constant: ConstantId) -> ConstantId {
        /// clang makes one or two.
        const MAX_CASTS: usize = 8;
        let mut id = constant;
        for _ in 0..MAX_CASTS {
            match self.linker.program.constant(id) {
                Constant::Computed(instruction) => match instruction.kind {
                    Kind::Cast(Cast::Bits, Operand::Constant(inner)) => id = inner,
                    _ => break,
                },
                _ => break,
            }
        }
        id
    }

    /// `llvm.global_ctors` is an array of a priority, a function and data.
    fn collect_constructors(&mut self, list: ConstantId) {
        let program = &self.linker.program;
        let Constant::Aggregate(_, entries) = program.constant(list) else {
            return;
        };
        let mut found = Vec::new();
        for &entry in entries {
            if let Constant::Aggregate(_, parts) = program.constant(entry)
                && let [priority, function, ..] = parts[..]
                && let Constant::Integer(_, priority) = *program.constant(priority)
                && let Constant::Function(function) = *program.constant(self.strip_casts(function))
            {
                found.push((priority, function));
            }
        }
        for (priority, function) in found {
            self.linker.constructor(priority, function);
        }
    }

    /// Gives globals the names and types that the source has for them.
    fn name_globals(&mut self) {
        for (number, node) in std::mem::take(&mut self.metadata.global_attachments) {
            let Ok(constant) = self.bound_constant(number) else {
                continue;
            };
            let Constant::Global(global) = *self.linker.program.constant(constant) else {
                continue;
            };
            let Some(variable) = self.metadata.global_variable(node) else {
                continue;
            };
            let debug_type = variable.r#type.map(|node| self.debug_type(node));
            let place = self.declaration_place(variable.file, variable.line);
            let global = &mut self.linker.program.globals[global.index()];
            if global.source_name.is_none() {
                global.source_name = variable.name;
                global.debug_type = debug_type;
                global.place = place;
            }
        }
    }
}

/// Removes the magic number, and the header that Apple's tools put before it.
fn unwrap(bytes: &[u8]) -> Result<&[u8], Fault> {
    let word = |at: usize| -> Option<usize> {
        let bytes = bytes.get(at..at + 4)?;
        let bytes = bytes.try_into().expect("the slice has four bytes");
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let mut file = bytes;
    if bytes.starts_with(&[0xde, 0xc0, 0x17, 0x0b]) {
        let (Some(start), Some(length)) = (word(8), word(12)) else {
            return Err(Fault::End);
        };
        let end = start.checked_add(length).ok_or(Fault::End)?;
        file = bytes.get(start..end).ok_or(Fault::End)?;
    }
    file.strip_prefix(b"BC\xc0\xde").ok_or(Fault::NotBitcode)
}

/// The names of symbols come after the module that uses them.
fn find_strtab(body: &[u8]) -> Result<&[u8], Fault> {
    let mut stream = Stream::new(body);
    let mut record = Record::default();
    loop {
        match stream.next(&mut record)? {
            Item::End => return Err(Fault::Malformed("it has no string table")),
            Item::Record => {}
            Item::Block(block::STRTAB) => loop {
                match stream.next(&mut record)? {
                    Item::Record if record.code == 1 => return Ok(record.blob),
                    Item::Record => {}
                    Item::Block(_) => stream.skip()?,
                    Item::End => break,
                }
            },
            Item::Block(_) => stream.skip()?,
        }
    }
}
