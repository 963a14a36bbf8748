//! The bits of a bitstream: fixed-width and variable-width integers, least significant bit first.

use super::Fault;

/// A position in a bitstream.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// In bits, at most `8 * bytes.len()`.
    at: u64,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// In bits from the start.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    pub(super) fn remaining(&self) -> u64 {
        self.end() - self.at
    }

    fn end(&self) -> u64 {
        8 * self.bytes.len() as u64
    }

    /// Goes to a position, in bits from the start.
    pub(super) fn seek(&mut self, at: u64) -> Result<(), Fault> {
        if at > self.end() {
            return Err(Fault::End);
        }
        self.at = at;
        Ok(())
    }

    pub(super) fn fixed(&mut self, width: u32) -> Result<u64, Fault> {
        if u64::from(width) > self.remaining() {
            return Err(Fault::End);
        }
        let shift = (self.at % 8) as u32;
        let first = (self.at / 8) as usize;
        let mask = if width >= 64 {
            u64::MAX
        } else {
            (1 << width) - 1
        };
        let value = match self.bytes.get(first..first + 8) {
            Some(word) if shift + width <= 64 => {
                let word = u64::from_le_bytes(word.try_into().expect("the slice has eight bytes"));
                word >> shift
            }
            _ => {
                let mut wide = 0_u128;
                let window = &self.bytes[first..self.bytes.len().min(first + 9)];
                for (index, &byte) in window.iter().enumerate() {
                    wide |= u128::from(byte) << (8 * index);
                }
                (wide >> shift) as u64
            }
        };
        self.at += u64::from(width);
        Ok(value & mask)
    }

    /// An integer in groups of `width` bits, of which the highest says whether another follows.
    pub(super) fn variable(&mut self, width: u32) -> Result<u64, Fault> {
        let more = 1 << (width - 1);
        let mut value = 0_u64;
        let mut shift = 0;
        loop {
            let group = self.fixed(width)?;
            if shift < 64 {
                value |= (group & (more - 1)) << shift;
            }
            if group & more == 0 {
                return Ok(value);
            }
            shift += width - 1;
        }
    }

    /// Goes to the next multiple of 32 bits.
    pub(super) fn align(&mut self) -> Result<(), Fault> {
        self.seek(self.at.next_multiple_of(32))
    }

    /// The next `count` bytes; the position is a multiple of eight.
    pub(super) fn bytes(&mut self, count: u64) -> Result<&'a [u8], Fault> {
        if count > self.remaining() / 8 {
            return Err(Fault::End);
        }
        let first = (self.at / 8) as usize;
        self.at += 8 * count;
        Ok(&self.bytes[first..first + count as usize])
    }
}
