//! The events of one thread as bytes.
//!
//! An event names its *site* (program counter, code and detail: all that is fixed at one place of
//! the program) by a slot of a small table that encoder and decoder both keep, and its address by
//! the difference to the last address of that site. A loop over an array thus costs three bytes
//! per access. The table starts empty in every chunk, so that each chunk can be decoded alone.
//!
//! ```text
//! event   = header:u16 (slot << 4 | n) body operands
//! n 0..=8   body is n bytes, little-endian: zigzag(address - last address of the site in slot)
//! n 9       body is code:u8 detail:u8 pc:u48 address:u64, which define the site of the slot
//! operands  for an ordered event, varint(sequence - sequence of the ordered event before it);
//!           then as many varints as `Code::operands` says; then for `Code::has_bytes`
//!           varint(length) and so many bytes
//! ```
//!
//! The sequence number is global to the process. It is taken while the operation is in effect:
//! numbers are unique, increase along each thread, and may have gaps.

use crate::Code;

/// How many sites the table holds.
pub const SLOTS: usize = 4096;
/// The value of n in a header that defines the site of its slot.
const DEFINE: u16 = 9;
/// The size of the buffer for `Sites::put` and `put_varint`. An event without its bytes is never
/// longer.
pub const MAX_EVENT: usize = 64;

#[derive(Clone, Copy)]
struct Site {
    /// `pc | code << 48 | detail << 56`; 0 if the slot is not defined yet.
    tag: u64,
    /// The last address.
    last: u64,
}

/// The table of sites. Encoder and decoder each have one, with the same content at the same event.
pub struct Sites([Site; SLOTS]);

const PC_MASK: u64 = (1 << 48) - 1;

#[inline(always)]
const fn tag(pc: u64, code: Code, detail: u8) -> u64 {
    (pc & PC_MASK) | (code as u64) << 48 | (detail as u64) << 56
}

#[inline(always)]
const fn slot(tag: u64) -> usize {
    (tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize
}

impl Sites {
    pub const EMPTY: Sites = Sites([Site { tag: 0, last: 0 }; SLOTS]);

    #[inline]
    pub fn clear(&mut self) {
        for site in &mut self.0 {
            site.tag = 0;
        }
    }

    /// Forgets one slot that `put` defined; cheaper than `clear` after a short chunk.
    #[inline]
    pub fn forget(&mut self, slot: u16) {
        self.0[usize::from(slot) % SLOTS].tag = 0;
    }

    /// Writes header and body to the beginning of `out`. Returns their length, and the slot if this
    /// event defined it.
    #[inline(always)]
    pub fn put(
        &mut self,
        out: &mut [u8; MAX_EVENT],
        pc: u64,
        code: Code,
        detail: u8,
        address: u64,
    ) -> (usize, Option<u16>) {
        let tag = tag(pc, code, detail);
        let slot = slot(tag);
        let site = &mut self.0[slot];
        if site.tag == tag {
            let delta = address.wrapping_sub(site.last) as i64;
            site.last = address;
            let zigzag = ((delta << 1) ^ (delta >> 63)) as u64;
            let length = (71 - zigzag.leading_zeros()) / 8;
            let header = (slot as u16) << 4 | length as u16;
            out[..2].copy_from_slice(&header.to_le_bytes());
            out[2..10].copy_from_slice(&zigzag.to_le_bytes());
            (2 + length as usize, None)
        } else {
            site.tag = tag;
            site.last = address;
            let header = (slot as u16) << 4 | DEFINE;
            out[..2].copy_from_slice(&header.to_le_bytes());
            out[2] = code as u8;
            out[3] = detail;
            out[4..12].copy_from_slice(&(pc & PC_MASK).to_le_bytes());
            out[10..18].copy_from_slice(&address.to_le_bytes());
            (18, Some(slot as u16))
        }
    }
}

/// Appends a varint (7 bits a byte, the lowest first) at `at`; returns the position after it.
#[inline(always)]
pub fn put_varint(out: &mut [u8; MAX_EVENT], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        out[at % MAX_EVENT] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at % MAX_EVENT] = value as u8;
    at + 1
}

/// One decoded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub code: Code,
    pub detail: u8,
    pub pc: u64,
    pub address: u64,
    /// 0 when the event is not ordered.
    pub sequence: u64,
    pub operands: [u64; 2],
    pub bytes: &'a [u8],
}

/// Why a payload cannot be decoded, and at which event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where in the payload the event begins.
    pub offset: usize,
    pub reason: &'static str,
}

/// The events of one chunk's payload. An error is the last item.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    sequence: u64,
    sites: &'a mut Sites,
    failed: bool,
}

impl<'a> Decoder<'a> {
    /// Begins at the first event. `first_sequence` is that of the chunk's header; `sites` is cleared.
    pub fn new(bytes: &'a [u8], first_sequence: u64, sites: &'a mut Sites) -> Self {
        sites.clear();
        Decoder {
            bytes,
            at: 0,
            sequence: first_sequence,
            sites,
            failed: false,
        }
    }

    /// Goes on where another decoder of the same payload stopped; `sites` is as that one left it.
    pub fn resume(bytes: &'a [u8], at: usize, sequence: u64, sites: &'a mut Sites) -> Self {
        Decoder {
            bytes,
            at,
            sequence,
            sites,
            failed: false,
        }
    }

    /// The sequence number of the last ordered event.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How much of the payload has been decoded.
    pub fn offset(&self) -> usize {
        self.at
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest
            .get(..length)
            .ok_or("the payload ends within an event")?;
        self.at += length;
        Ok(taken)
    }

    fn little_endian(&mut self, length: usize) -> Result<u64, &'static str> {
        let mut value = 0;
        for (index, byte) in self.take(length)?.iter().enumerate() {
            value |= u64::from(*byte) << (8 * index);
        }
        Ok(value)
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for index in 0..10 {
            let byte = self.little_endian(1)?;
            if index == 9 && byte > 1 {
                break;
            }
            value |= (byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    fn event(&mut self) -> Result<Record<'a>, &'static str> {
        let header = self.little_endian(2)? as u16;
        let slot = usize::from(header >> 4);
        let length = header & 15;
        if length == DEFINE {
            let code = self.little_endian(1)?;
            let detail = self.little_endian(1)?;
            let pc = self.little_endian(6)?;
            let address = self.little_endian(8)?;
            if Code::from_byte(code as u8).is_none() {
                return Err("an event has an unknown code");
            }
            self.sites.0[slot] = Site {
                tag: pc | code << 48 | detail << 56,
                last: address,
            };
        } else if length <= 8 {
            let zigzag = self.little_endian(usize::from(length))?;
            let delta = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
            let site = &mut self.sites.0[slot];
            site.last = site.last.wrapping_add(delta);
        } else {
            return Err("an event has an unknown form");
        }
        let site = self.sites.0[slot];
        let code = Code::from_byte((site.tag >> 48) as u8)
            .ok_or("an event names a slot without a site")?;
        if code.ordered() {
            let delta = self.varint()?;
            self.sequence = self
                .sequence
                .checked_add(delta)
                .ok_or("a sequence number has more than 64 bits")?;
        }
        let mut operands = [0; 2];
        for operand in operands.iter_mut().take(code.operands()) {
            *operand = self.varint()?;
        }
        let bytes = if code.has_bytes() {
            let length = self.varint()?;
            self.take(usize::try_from(length).unwrap_or(usize::MAX))?
        } else {
            &[]
        };
        Ok(Record {
            code,
            detail: (site.tag >> 56) as u8,
            pc: site.tag & PC_MASK,
            address: site.last,
            sequence: if code.ordered() { self.sequence } else { 0 },
            operands,
            bytes,
        })
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.at >= self.bytes.len() {
            return None;
        }
        let offset = self.at;
        let result = self.event().map_err(|reason| Malformed { offset, reason });
        self.failed = result.is_err();
        Some(result)
    }
}
