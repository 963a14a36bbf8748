//! LLVM's bitstream container: nested blocks of records, whose layout abbreviations define.
//!
//! Format: <https://llvm.org/docs/BitCodeFormat.html>. Lengths in the input are never trusted: nothing is
//! allocated before the bits that fill it were read.

use std::collections::HashMap;
use std::rc::Rc;

use super::Fault;
use super::bits::Bits;

/// LLVM's own abbreviations have at most a few dozen operands. Without a limit, a record of two bits
/// could stand for any number of literal fields.
const MAX_OPERANDS: usize = 1024;

/// Nested deeper than this, blocks are not LLVM's.
const MAX_DEPTH: usize = 64;

const BLOCK_INFO: u32 = 0;

pub(super) struct Stream<'a> {
    bits: Bits<'a>,
    scopes: Vec<Scope>,
    /// The abbreviations that `BLOCKINFO` defines for each kind of block.
    shared: HashMap<u32, Vec<Rc<Abbreviation>>>,
}

struct Scope {
    width: u32,
    abbreviations: Vec<Rc<Abbreviation>>,
    /// Where the block ends by the length in its header, in bits.
    end: u64,
}

#[derive(Default)]
struct Abbreviation {
    scalars: Vec<Scalar>,
    tail: Option<Tail>,
}

#[derive(Clone, Copy)]
enum Scalar {
    Literal(u64),
    Fixed(u32),
    Variable(u32),
    Character,
}

#[derive(Clone, Copy)]
enum Tail {
    Array(Scalar),
    Blob,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// A block of this kind begins; its items follow.
    Block(u32),
    Record,
    /// The block that was entered last ends; at the top, the stream.
    End,
}

/// The record that was read last. Its memory is used again for the next one.
#[derive(Default)]
pub(super) struct Record<'a> {
    pub(super) code: u64,
    pub(super) fields: Vec<u64>,
    pub(super) blob: &'a [u8],
}

impl<'a> Stream<'a> {
    /// A stream whose magic number has been removed.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let bits = Bits::new(bytes);
        let top = Scope {
            width: 2,
            abbreviations: Vec::new(),
            end: bits.remaining(),
        };
        Self {
            bits,
            scopes: vec![top],
            shared: HashMap::new(),
        }
    }

    /// In bytes from the start.
    pub(super) fn position(&self) -> u64 {
        self.bits.position() / 8
    }

    pub(super) fn next(&mut self, record: &mut Record<'a>) -> Result<Item, Fault> {
        loop {
            let at_top = self.scopes.len() == 1;
            if at_top && self.bits.remaining() < 32 {
                return Ok(Item::End);
            }
            match self.bits.fixed(self.scope().width)? {
                0 if at_top => return Err(Fault::Malformed("a block ends that was not entered")),
                0 => {
                    self.bits.align()?;
                    self.scopes.pop();
                    return Ok(Item::End);
                }
                1 => {
                    let block = self.enter()?;
                    if block != BLOCK_INFO {
                        return Ok(Item::Block(block));
                    }
                    self.read_block_info(record)?;
                }
                2 => {
                    let abbreviation = Rc::new(self.read_abbreviation()?);
                    self.scope_mut().abbreviations.push(abbreviation);
                }
                3 => {
                    self.read_plain(record)?;
                    return Ok(Item::Record);
                }
                number => {
                    let abbreviation = usize::try_from(number - 4)
                        .ok()
                        .and_then(|index| self.scope().abbreviations.get(index))
                        .ok_or(Fault::Malformed("a record has an undefined abbreviation"))?;
                    let abbreviation = Rc::clone(abbreviation);
                    self.read_abbreviated(&abbreviation, record)?;
                    return Ok(Item::Record);
                }
            }
        }
    }

    /// Leaves the block that was entered last, with all that is left in it.
    pub(super) fn skip(&mut self) -> Result<(), Fault> {
        let end = self.scope().end;
        self.scopes.pop();
        self.bits.seek(end)
    }

    fn scope(&self) -> &Scope {
        self.scopes.last().expect("the outermost scope stays")
    }

    fn scope_mut(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("the outermost scope stays")
    }

    fn enter(&mut self) -> Result<u32, Fault> {
        let block = u32::try_from(self.bits.variable(8)?)
            .map_err(|_| Fault::Malformed("a block has an impossible kind"))?;
        let width = self.bits.variable(4)?;
        self.bits.align()?;
        let words = self.bits.fixed(32)?;
        let end = self.bits.position() + 32 * words;
        if end > self.bits.position() + self.bits.remaining() {
            return Err(Fault::End);
        }
        if !(2..=32).contains(&width) || self.scopes.len() > MAX_DEPTH {
            return Err(Fault::Malformed("a block has an impossible header"));
        }
        self.scopes.push(Scope {
            width: width as u32,
            abbreviations: self.shared.get(&block).cloned().unwrap_or_default(),
            end,
        });
        Ok(block)
    }

    fn read_block_info(&mut self, record: &mut Record<'a>) -> Result<(), Fault> {
        const SET_BLOCK: u64 = 1;
        let mut block = None;
        loop {
            match self.bits.fixed(self.scope().width)? {
                0 => {
                    self.bits.align()?;
                    self.scopes.pop();
                    return Ok(());
                }
                2 => {
                    let abbreviation = Rc::new(self.read_abbreviation()?);
                    let block = block.ok_or(Fault::Malformed(
                        "an abbreviation is defined for no kind of block",
                    ))?;
                    self.shared.entry(block).or_default().push(abbreviation);
                }
                3 => {
                    self.read_plain(record)?;
                    if record.code == SET_BLOCK {
                        block = record.fields.first().and_then(|&id| u32::try_from(id).ok());
                    }
                }
                _ => return Err(Fault::Malformed("a BLOCKINFO block holds something else")),
            }
        }
    }

    fn read_plain(&mut self, record: &mut Record<'a>) -> Result<(), Fault> {
        record.fields.clear();
        record.blob = &[];
        record.code = self.bits.variable(6)?;
        for _ in 0..self.bits.variable(6)? {
            let field = self.bits.variable(6)?;
            record.fields.push(field);
        }
        Ok(())
    }

    fn read_abbreviated(
        &mut self,
        abbreviation: &Abbreviation,
        record: &mut Record<'a>,
    ) -> Result<(), Fault> {
        record.fields.clear();
        record.blob = &[];
        for &scalar in &abbreviation.scalars {
            let field = self.read_scalar(scalar)?;
            record.fields.push(field);
        }
        match abbreviation.tail {
            None => {}
            Some(Tail::Array(element)) => {
                for _ in 0..self.bits.variable(6)? {
                    let field = self.read_scalar(element)?;
                    record.fields.push(field);
                }
            }
            Some(Tail::Blob) => {
                let length = self.bits.variable(6)?;
                self.bits.align()?;
                record.blob = self.bits.bytes(length)?;
                self.bits.align()?;
            }
        }
        if record.fields.is_empty() {
            return Err(Fault::Malformed("a record has no code"));
        }
        record.code = record.fields.remove(0);
        Ok(())
    }

    fn read_scalar(&mut self, scalar: Scalar) -> Result<u64, Fault> {
        const CHARACTERS: &[u8; 64] =
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
        match scalar {
            Scalar::Literal(value) => Ok(value),
            Scalar::Fixed(width) => self.bits.fixed(width),
            Scalar::Variable(width) => self.bits.variable(width),
            Scalar::Character => Ok(CHARACTERS[self.bits.fixed(6)? as usize].into()),
        }
    }

    fn read_abbreviation(&mut self) -> Result<Abbreviation, Fault> {
        let count = self.bits.variable(5)?;
        let mut abbreviation = Abbreviation::default();
        let mut left = count;
        while left > 0 {
            left -= 1;
            if abbreviation.scalars.len() == MAX_OPERANDS {
                return Err(Fault::Malformed("an abbreviation has too many operands"));
            }
            match self.read_operand()? {
                Operand::Scalar(scalar) => abbreviation.scalars.push(scalar),
                Operand::Array if left == 1 => {
                    left = 0;
                    // Elements without bits would let a short record stand for any number of fields.
                    let Operand::Scalar(
                        element @ (Scalar::Fixed(_) | Scalar::Variable(_) | Scalar::Character),
                    ) = self.read_operand()?
                    else {
                        return Err(Fault::Malformed("an array has impossible elements"));
                    };
                    abbreviation.tail = Some(Tail::Array(element));
                }
                Operand::Blob if left == 0 => abbreviation.tail = Some(Tail::Blob),
                Operand::Array | Operand::Blob => {
                    return Err(Fault::Malformed("an array or blob is not the last operand"));
                }
            }
        }
        Ok(abbreviation)
    }

    fn read_operand(&mut self) -> Result<Operand, Fault> {
        if self.bits.fixed(1)? == 1 {
            return Ok(Operand::Scalar(Scalar::Literal(self.bits.variable(8)?)));
        }
        let kind = self.bits.fixed(3)?;
        let width = match kind {
            1 | 2 => self.bits.variable(5)?,
            _ => 0,
        };
        Ok(match (kind, width) {
            // LLVM reads a width of zero as the literal 0.
            (1 | 2, 0) => Operand::Scalar(Scalar::Literal(0)),
            (1, 1..=64) => Operand::Scalar(Scalar::Fixed(width as u32)),
            (2, 2..=32) => Operand::Scalar(Scalar::Variable(width as u32)),
            (3, _) => Operand::Array,
            (4, _) => Operand::Scalar(Scalar::Character),
            (5, _) => Operand::Blob,
            _ => {
                return Err(Fault::Malformed(
                    "an abbreviation has an impossible operand",
                ));
            }
        })
    }
}

enum Operand {
    Scalar(Scalar),
    Array,
    Blob,
}
