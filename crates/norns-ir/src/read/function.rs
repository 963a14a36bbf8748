//! A function body: blocks, the places of instructions, local variables.

use super::Fault;
use super::instructions::Decoded;
use super::metadata::{debug_attachment, node, reference};
use super::module::{Module, Value, block};
use super::places::Location;
use super::record::Fields;
use super::stream::Item;
use crate::debug::{PlaceId, Variable};
use crate::instruction::{Instruction, Operand};
use crate::program::{Block, BlockId, FunctionId, InstructionId};
use crate::types::Type;

/// Added to the number of a value that is used before its instruction was read, to tell it from an
/// instruction. There cannot be this many instructions: the input would have to be larger than memory.
const FORWARD: u32 = 1 << 31;

/// A body while it is read.
#[derive(Default)]
pub(super) struct Body {
    instructions: Vec<Instruction>,
    blocks: Vec<Block>,
    /// How many blocks there will be.
    block_count: u64,
    /// Whether the last block has no terminator yet.
    is_open: bool,
    place: Option<PlaceId>,
    variables: Vec<Variable>,
    pub(super) has_forward: bool,
}

impl Module<'_, '_> {
    /// Reads the body that the stream has just entered.
    pub(super) fn read_function(&mut self, function: FunctionId) -> Result<(), Fault> {
        let mark = self.metadata.mark();
        let value_count = self.values.len();
        let signature = self.linker.program.function(function).r#type;
        if let Type::Function { parameters, .. } = self.type_of(signature) {
            let values = parameters.iter().enumerate().map(|(index, &r#type)| Value {
                operand: Operand::Parameter(index as u32),
                r#type,
            });
            let values: Vec<Value> = values.collect();
            self.values.extend(values);
        }
        let outcome = self.read_body(function);
        self.values.truncate(value_count);
        self.metadata.reset(mark);
        let Some(body) = outcome? else {
            return Ok(());
        };
        let function = &mut self.linker.program.functions[function.index()];
        function.instructions = body.instructions;
        function.blocks = body.blocks;
        function.variables = body.variables;
        Ok(())
    }

    /// `None` if the function has an instruction that is not known.
    fn read_body(&mut self, function: FunctionId) -> Result<Option<Body>, Fault> {
        let mut body = Body::default();
        loop {
            match self.next()? {
                Item::End => break,
                Item::Block(block::CONSTANTS) => self.read_constants()?,
                Item::Block(block::METADATA) => self.read_metadata()?,
                Item::Block(block::METADATA_ATTACHMENT) => self.read_attachments(function)?,
                Item::Block(_) => self.stream.skip()?,
                Item::Record => {
                    let code = self.record.code;
                    let fields = std::mem::take(&mut self.record.fields);
                    let is_known = self.read_body_record(&mut body, code, &fields);
                    self.record.fields = fields;
                    if !is_known? {
                        let name = self.linker.program.function(function).name.clone();
                        self.omit(format!("function {name}: instruction of code {code}"));
                        self.stream.skip()?;
                        return Ok(None);
                    }
                }
            }
        }
        if body.is_open || body.blocks.len() as u64 != body.block_count {
            return Err(Fault::Malformed("a function has no end"));
        }
        if body.has_forward {
            self.resolve_forward(&mut body)?;
        }
        Ok(Some(body))
    }

    fn read_body_record(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &[u64],
    ) -> Result<bool, Fault> {
        match code {
            1 => {
                body.block_count = Fields::new(fields).take()?;
                return Ok(true);
            }
            33 => {
                body.set_place(body.place);
                return Ok(true);
            }
            35 => {
                let mut fields = Fields::new(fields);
                let (line, column) = (fields.take_u32()?, fields.take_u32()?);
                let scope = reference(Some(&fields.take()?));
                let inlined_at = reference(Some(&fields.take()?));
                let place = scope.and_then(|scope| {
                    self.place(Location {
                        line,
                        column,
                        scope,
                        inlined_at,
                    })
                });
                body.set_place(place);
                return Ok(true);
            }
            61..=64 => {
                self.read_debug_record(body, code, fields)?;
                return Ok(true);
            }
            // Operand bundles, users of block addresses, labels.
            55 | 60 | 65 => return Ok(true),
            _ => {}
        }
        match self.decode(body, code, fields)? {
            Decoded::Unknown => Ok(false),
            Decoded::Nothing => Ok(true),
            Decoded::Instruction(kind, r#type) => {
                let is_terminator = kind.is_terminator();
                for target in kind.successors() {
                    if target.index() as u64 >= body.block_count {
                        return Err(Fault::Malformed("a jump leads to no block"));
                    }
                }
                let id = InstructionId::from_index(body.instructions.len());
                body.instructions.push(Instruction {
                    kind,
                    r#type,
                    place: None,
                });
                if !std::mem::replace(&mut body.is_open, !is_terminator) {
                    body.blocks.push(Block::default());
                }
                let block = body.blocks.last_mut().expect("a block was opened");
                block.instructions.push(id);
                if !matches!(self.type_of(r#type), Type::Void) {
                    self.values.push(Value {
                        operand: Operand::Result(id),
                        r#type,
                    });
                }
                Ok(true)
            }
        }
    }

    /// The operand with a value number, which may be the result of an instruction that comes later.
    pub(super) fn operand(&self, body: &mut Body, number: u32) -> Result<Operand, Fault> {
        if let Some(value) = self.values.get(number as usize) {
            return Ok(value.operand);
        }
        if number >= FORWARD {
            return Err(Fault::Malformed("an operand does not exist"));
        }
        body.has_forward = true;
        Ok(forward(number))
    }

    /// Replaces the numbers of values that were used before their instructions were read.
    fn resolve_forward(&self, body: &mut Body) -> Result<(), Fault> {
        let mut is_missing = false;
        let mut resolve = |operand: &mut Operand| {
            if let Some(number) = forward_number(*operand) {
                match self.values.get(number) {
                    Some(value) => *operand = value.operand,
                    None => is_missing = true,
                }
            }
        };
        for instruction in &mut body.instructions {
            instruction.kind.for_each_operand_mut(&mut resolve);
        }
        for variable in &mut body.variables {
            resolve(&mut variable.value);
        }
        match is_missing {
            true => Err(Fault::Malformed("an operand does not exist")),
            false => Ok(()),
        }
    }

    /// What is known of the function itself.
    fn read_attachments(&mut self, function: FunctionId) -> Result<(), Fault> {
        loop {
            match self.next()? {
                Item::End => return Ok(()),
                Item::Block(_) => self.stream.skip()?,
                // An odd number of fields begins with the instruction that is meant.
                Item::Record if self.record.fields.len().is_multiple_of(2) => {
                    if let Some(subprogram) = debug_attachment(&self.record.fields) {
                        self.place_function(function, subprogram);
                    }
                }
                Item::Record => {}
            }
        }
    }

    /// A debug record of LLVM 19: location, variable, expression and value.
    fn read_debug_record(
        &mut self,
        body: &mut Body,
        code: u64,
        fields: &[u64],
    ) -> Result<(), Fault> {
        const DECLARE: u64 = 62;
        const SIMPLE: u64 = 64;
        let mut fields = Fields::new(fields);
        fields.take()?;
        let variable = fields.take()?;
        let expression = fields.take()?;
        let value = match code {
            SIMPLE => Some(self.typed_operand(body, &mut fields)?.operand),
            _ => self.metadata_operand(body, fields.take()?)?,
        };
        if let Some(value) = value {
            self.add_variable(body, variable, expression, value, code == DECLARE);
        }
        Ok(())
    }

    /// The value that a node stands for.
    pub(super) fn metadata_operand(
        &self,
        body: &mut Body,
        number: u64,
    ) -> Result<Option<Operand>, Fault> {
        let fields = self.metadata.fields_of(number, node::VALUE);
        let number = fields.and_then(|fields| u32::try_from(*fields.get(1)?).ok());
        number.map(|number| self.operand(body, number)).transpose()
    }

    pub(super) fn add_variable(
        &mut self,
        body: &mut Body,
        variable: u64,
        expression: u64,
        value: Operand,
        is_address: bool,
    ) {
        const DEREFERENCE: u64 = 6;
        let is_address = match self.metadata.expression(expression) {
            Some([]) => is_address,
            Some([DEREFERENCE]) if !is_address => true,
            _ => return,
        };
        let Some(node) = self.metadata.local_variable(variable) else {
            return;
        };
        let r#type = node.r#type.map(|number| self.debug_type(number));
        body.variables.extend(node.name.map(|name| Variable {
            name,
            r#type,
            value,
            is_address,
        }));
    }
}

impl Body {
    fn set_place(&mut self, place: Option<PlaceId>) {
        self.place = place;
        if let Some(last) = self.instructions.last_mut() {
            last.place = place;
        }
    }

    pub(super) fn block(&self, number: u64) -> Result<BlockId, Fault> {
        match usize::try_from(number) {
            Ok(index) if number < self.block_count && number < u64::from(FORWARD) => {
                Ok(BlockId::from_index(index))
            }
            _ => Err(Fault::Malformed("a jump leads to no block")),
        }
    }
}

fn forward(number: u32) -> Operand {
    Operand::Result(InstructionId::from_index((FORWARD + number) as usize))
}

fn forward_number(operand: Operand) -> Option<usize> {
    match operand {
        Operand::Result(id) => id.index().checked_sub(FORWARD as usize),
        _ => None,
    }
}
