//! The memory of a program: a table of objects, each of which is checked on every access.
//!
//! An address is the number of its object in the upper half and an offset in the lower one, so a pointer
//! that leaves its object never reaches another, and numbers are not used again. States share objects
//! until one of them writes: a copy costs a reference for each 64 objects, a write to a shared object a copy
//! of that object.
//!
//! Memory that was never written reads as zero. It is an error where a branch or an address depends on it
//! directly (`is_strict`); copies of it, as of padding, are not.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::outcome::{MemoryError, MemoryErrorKind};
use crate::symbolic::Part;

/// The offset of an object's first byte, so that small negative indices stay in the object's range.
const START: u32 = 4096;
const CHUNK: usize = 64;
/// Functions have addresses, too, above those of objects.
const FIRST_FUNCTION: u32 = 1 << 29;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectId(pub(crate) u32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    Global(u32),
    Constant(u32),
    ThreadLocal,
    Heap,
    /// Of the thread with this number.
    Stack(u32),
    /// A variable that another module defines and the interpreter does not know.
    Unknown(u32),
    /// By `mmap`.
    Mapped,
    /// Of the C library.
    Library,
    /// A table of virtual functions of the standard library, which cannot be read.
    Foreign,
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    bytes: Box<[u8]>,
    /// One bit for each byte that was never written; `None` if all were.
    unwritten: Option<Box<[u64]>>,
    pub(crate) region: Region,
}

#[derive(Clone, Debug)]
enum Slot {
    Unused,
    Live(Rc<Object>),
    Freed { is_heap: bool },
}

#[derive(Clone, Debug)]
struct Chunk {
    slots: [Slot; CHUNK],
    live: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    chunks: Vec<Rc<Chunk>>,
    /// A chunk of freed objects, which all such chunks share.
    gone: Rc<Chunk>,
    next: u32,
    /// Bytes in live objects.
    pub(crate) allocated: u64,
    /// Raised by every write that changed something, if `counts_changes`.
    pub(crate) changes: u64,
    pub(crate) counts_changes: bool,
    /// Of the bytes that are not zero, with their addresses, and of what was allocated, if `counts_changes`. An
    /// unwritten byte counts as zero.
    pub(crate) hash: u64,
    /// Bytes that were copied because another state shares them, if `counts_changes`.
    pub(crate) copied: u64,
    /// The bytes that depend on variables of the input, by address; only those if `has_shadow`.
    shadow: Rc<BTreeMap<u64, Part>>,
    has_shadow: bool,
}

pub(crate) fn address_of(object: ObjectId) -> u64 {
    (u64::from(object.0) << 32) | u64::from(START)
}

pub(crate) fn object_of(address: u64) -> ObjectId {
    ObjectId((address >> 32) as u32)
}

fn offset_of(address: u64) -> u32 {
    (address as u32).wrapping_sub(START)
}

pub(crate) fn function_address(function: usize) -> u64 {
    u64::from(FIRST_FUNCTION + function as u32) << 32
}

/// The function that starts at an address.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let object = (address >> 32) as u32;
    (address as u32 == 0 && object >= FIRST_FUNCTION).then(|| (object - FIRST_FUNCTION) as usize)
}

/// A hash of two numbers (SplitMix64).
fn mixed(one: u64, other: u64) -> u64 {
    let mut hash = one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// The sum of the hashes of bytes that are not zero.
fn hash_of(address: u64, bytes: &[u8]) -> u64 {
    let bytes = (address..).zip(bytes).filter(|(_, byte)| **byte != 0);
    let hashes = bytes.map(|(at, byte)| mixed(at, u64::from(*byte)));
    hashes.fold(0, u64::wrapping_add)
}

type Checked<T> = Result<T, Box<MemoryError>>;

impl Memory {
    pub(crate) fn new() -> Self {
        let gone = Chunk {
            slots: std::array::from_fn(|_| Slot::Freed { is_heap: false }),
            live: 0,
        };
        Self {
            chunks: Vec::new(),
            gone: Rc::new(gone),
            // Object 0 is the one of null pointers.
            next: 1,
            allocated: 0,
            changes: 0,
            counts_changes: false,
            hash: 0,
            copied: 0,
            shadow: Rc::default(),
            has_shadow: false,
        }
    }

    /// A new object, all zero. Its bytes count as unwritten unless `is_written`.
    pub(crate) fn allocate(&mut self, size: u64, region: Region, is_written: bool) -> ObjectId {
        let size = size as usize;
        let unwritten = match is_written || size == 0 {
            true => None,
            false => Some(vec![u64::MAX; size.div_ceil(64)].into_boxed_slice()),
        };
        let object = Object {
            bytes: vec![0; size].into_boxed_slice(),
            unwritten,
            region,
        };
        let id = self.next;
        self.next += 1;
        self.allocated += size as u64;
        if self.counts_changes {
            self.copied += size as u64;
            self.hash = self.hash.wrapping_add(mixed(u64::from(id), size as u64));
        }
        let (chunk, slot) = (id as usize / CHUNK, id as usize % CHUNK);
        if chunk == self.chunks.len() {
            self.chunks.push(Rc::new(Chunk {
                slots: std::array::from_fn(|_| Slot::Unused),
                live: 0,
            }));
        }
        let chunk = Rc::make_mut(&mut self.chunks[chunk]);
        chunk.slots[slot] = Slot::Live(Rc::new(object));
        chunk.live += 1;
        ObjectId(id)
    }

    /// Ends the life of an object that is alive.
    pub(crate) fn release(&mut self, id: ObjectId) {
        let index = id.0 as usize / CHUNK;
        let is_last = index + 1 == self.chunks.len();
        let Some(rc) = self.chunks.get_mut(index) else {
            return;
        };
        let chunk = Rc::make_mut(rc);
        let slot = &mut chunk.slots[id.0 as usize % CHUNK];
        let Slot::Live(object) = slot else {
            return;
        };
        self.allocated -= object.bytes.len() as u64;
        if self.counts_changes {
            let id = u64::from(id.0);
            let gone = hash_of(address_of(ObjectId(id as u32)), &object.bytes);
            let allocated = mixed(id, object.bytes.len() as u64);
            self.hash = self.hash.wrapping_sub(gone).wrapping_sub(allocated);
        }
        let is_heap = object.region == Region::Heap;
        *slot = Slot::Freed { is_heap };
        chunk.live -= 1;
        let has_heap = |slot: &Slot| matches!(slot, Slot::Freed { is_heap: true });
        if chunk.live == 0 && !is_last && !chunk.slots.iter().any(has_heap) {
            *rc = Rc::clone(&self.gone);
        }
    }

    pub(crate) fn object(&self, id: ObjectId) -> Option<&Object> {
        match &self.chunks.get(id.0 as usize / CHUNK)?.slots[id.0 as usize % CHUNK] {
            Slot::Live(object) => Some(object),
            Slot::Unused | Slot::Freed { .. } => None,
        }
    }

    /// The bytes of the table of objects.
    pub(crate) fn table_bytes(&self) -> u64 {
        8 * self.chunks.len() as u64
    }

    /// The block that `free` of an address ends.
    pub(crate) fn heap_block(&self, address: u64) -> Checked<ObjectId> {
        let id = object_of(address);
        let kind = match self.object(id) {
            Some(object) if object.region == Region::Heap && offset_of(address) == 0 => {
                return Ok(id);
            }
            None if self.is_freed_heap(id) => MemoryErrorKind::DoubleFree,
            _ => MemoryErrorKind::InvalidFree,
        };
        Err(Box::new(MemoryError {
            kind,
            is_write: true,
            address,
            bytes: 0,
            object: None,
        }))
    }

    fn is_freed_heap(&self, id: ObjectId) -> bool {
        let chunk = self.chunks.get(id.0 as usize / CHUNK);
        let slot = chunk.map(|chunk| &chunk.slots[id.0 as usize % CHUNK]);
        matches!(slot, Some(Slot::Freed { is_heap: true }))
    }

    #[inline]
    pub(crate) fn bytes(&self, address: u64, count: u64) -> Checked<&[u8]> {
        let id = object_of(address);
        if let Some(chunk) = self.chunks.get(id.0 as usize / CHUNK)
            && let Slot::Live(object) = &chunk.slots[id.0 as usize % CHUNK]
        {
            let offset = offset_of(address) as usize;
            if let Some(bytes) = object.bytes.get(offset..offset + count as usize)
                && !matches!(object.region, Region::Unknown(_) | Region::Foreign)
            {
                return Ok(bytes);
            }
        }
        Err(self.error(address, count, false))
    }

    #[inline]
    pub(crate) fn load(&self, address: u64, count: u8) -> Checked<u64> {
        let bytes = self.bytes(address, u64::from(count))?;
        Ok(match bytes {
            [a] => u64::from(*a),
            [a, b] => u64::from(u16::from_le_bytes([*a, *b])),
            [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
            _ => {
                let mut all = [0; 8];
                all[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(all)
            }
        })
    }

    /// As `load`, where a value that was never written is an error.
    pub(crate) fn load_strict(&self, address: u64, count: u8) -> Checked<u64> {
        let value = self.load(address, count)?;
        if let Some(object) = self.object(object_of(address))
            && object.unwritten.is_some()
            && object.is_unwritten(offset_of(address) as usize, count as usize)
        {
            return Err(Box::new(MemoryError {
                kind: MemoryErrorKind::Uninitialised,
                ..*self.error(address, u64::from(count), false)
            }));
        }
        Ok(value)
    }

    #[inline]
    pub(crate) fn store(&mut self, address: u64, count: u8, value: u64) -> Checked<()> {
        let bytes = value.to_le_bytes();
        self.write(address, &bytes[..count as usize])
    }

    #[inline]
    pub(crate) fn write(&mut self, address: u64, new: &[u8]) -> Checked<()> {
        let id = object_of(address);
        if let Some(chunk) = self.chunks.get_mut(id.0 as usize / CHUNK)
            && let is_shared = Rc::strong_count(chunk) > 1
            && let chunk = Rc::make_mut(chunk)
            && let Slot::Live(object) = &mut chunk.slots[id.0 as usize % CHUNK]
            && !matches!(
                object.region,
                Region::Constant(_) | Region::Unknown(_) | Region::Foreign
            )
        {
            if self.counts_changes {
                self.copied += u64::from(is_shared) * size_of::<Chunk>() as u64;
                self.copied += u64::from(Rc::strong_count(object) > 1) * object.size();
            }
            let object = Rc::make_mut(object);
            let offset = offset_of(address) as usize;
            if let Some(old) = object.bytes.get_mut(offset..offset + new.len()) {
                if self.counts_changes && *old != *new {
                    self.changes += 1;
                    let (before, after) = (hash_of(address, old), hash_of(address, new));
                    self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
                }
                old.copy_from_slice(new);
                if object.unwritten.is_some() {
                    object.mark_written(offset, new.len());
                }
                if self.has_shadow {
                    self.put_shadow(address, new.len() as u64, &[]);
                }
                return Ok(());
            }
        }
        Err(self.error(address, new.len() as u64, true))
    }

    /// Copies bytes together with what is known of them.
    pub(crate) fn copy(&mut self, to: u64, from: u64, count: u64) -> Checked<()> {
        if count == 0 {
            return Ok(());
        }
        let bytes = self.bytes(from, count)?.to_vec();
        let unwritten: Vec<usize> = match self.object(object_of(from)) {
            Some(object) if object.unwritten.is_some() => {
                let start = offset_of(from) as usize;
                let all = 0..count as usize;
                all.filter(|at| object.is_unwritten(start + at, 1))
                    .collect()
            }
            _ => Vec::new(),
        };
        let shadow = self.shadow_of(from, count);
        self.write(to, &bytes)?;
        if !shadow.is_empty() {
            self.put_shadow(to, count, &shadow);
        }
        if !unwritten.is_empty()
            && let Some(chunk) = self.chunks.get_mut(object_of(to).0 as usize / CHUNK)
            && let Slot::Live(object) =
                &mut Rc::make_mut(chunk).slots[object_of(to).0 as usize % CHUNK]
        {
            let object = Rc::make_mut(object);
            let words = object.bytes.len().div_ceil(64);
            let map = object
                .unwritten
                .get_or_insert_with(|| vec![0; words].into());
            for at in unwritten {
                let at = offset_of(to) as usize + at;
                map[at / 64] |= 1 << (at % 64);
            }
        }
        Ok(())
    }

    /// What is known of bytes that depend on variables, each with its distance from the address.
    pub(crate) fn shadow_of(&self, address: u64, bytes: u64) -> Vec<(u64, Part)> {
        if !self.has_shadow {
            return Vec::new();
        }
        let range = self.shadow.range(address..address.saturating_add(bytes));
        range.map(|(at, part)| (at - address, *part)).collect()
    }

    /// Replaces what is known of a range of bytes.
    pub(crate) fn put_shadow(&mut self, address: u64, bytes: u64, parts: &[(u64, Part)]) {
        let range = address..address.saturating_add(bytes);
        let old: Vec<u64> = self.shadow.range(range).map(|(at, _)| *at).collect();
        if old.is_empty() && parts.is_empty() {
            return;
        }
        self.has_shadow = true;
        let shadow = Rc::make_mut(&mut self.shadow);
        for at in old {
            shadow.remove(&at);
        }
        shadow.extend(parts.iter().map(|&(at, part)| (address + at, part)));
    }

    /// Gives a new value to an object that the program cannot write, before it starts.
    pub(crate) fn initialise(&mut self, id: ObjectId, bytes: Vec<u8>) {
        if let Some(chunk) = self.chunks.get_mut(id.0 as usize / CHUNK)
            && let Slot::Live(object) = &mut Rc::make_mut(chunk).slots[id.0 as usize % CHUNK]
        {
            if self.counts_changes {
                let (before, after) = (
                    hash_of(address_of(id), &object.bytes),
                    hash_of(address_of(id), &bytes),
                );
                self.hash = self.hash.wrapping_sub(before).wrapping_add(after);
            }
            Rc::make_mut(object).bytes = bytes.into_boxed_slice();
        }
    }

    /// Defines a variable that no module of the program defines.
    pub(crate) fn define(&mut self, id: ObjectId, region: Region, bytes: Vec<u8>) {
        if let Some(chunk) = self.chunks.get_mut(id.0 as usize / CHUNK) {
            Rc::make_mut(chunk).slots[id.0 as usize % CHUNK] = Slot::Live(Rc::new(Object {
                bytes: bytes.into_boxed_slice(),
                unwritten: None,
                region,
            }));
        }
    }

    /// The bytes before the next zero.
    pub(crate) fn string(&self, address: u64) -> Checked<&[u8]> {
        let first = self.bytes(address, 1)?;
        debug_assert_eq!(first.len(), 1);
        let object = self
            .object(object_of(address))
            .expect("its first byte was read");
        let rest = &object.bytes[offset_of(address) as usize..];
        match rest.iter().position(|&byte| byte == 0) {
            Some(end) => Ok(&rest[..end]),
            None => Err(self.error(address, rest.len() as u64 + 1, false)),
        }
    }

    /// The bytes from an address to the end of its object.
    pub(crate) fn size_at(&self, address: u64) -> Option<u64> {
        let object = self.object(object_of(address))?;
        (object.bytes.len() as u64).checked_sub(u64::from(offset_of(address)))
    }

    fn error(&self, address: u64, bytes: u64, is_write: bool) -> Box<MemoryError> {
        let id = object_of(address);
        let chunk = self.chunks.get(id.0 as usize / CHUNK);
        let kind = match chunk.map(|chunk| &chunk.slots[id.0 as usize % CHUNK]) {
            _ if id.0 == 0 => MemoryErrorKind::Null,
            Some(Slot::Live(object)) => match object.region {
                Region::Constant(_) if is_write => MemoryErrorKind::ReadOnly,
                _ => MemoryErrorKind::OutOfBounds,
            },
            Some(Slot::Freed { .. }) => MemoryErrorKind::Freed,
            Some(Slot::Unused) | None => MemoryErrorKind::Wild,
        };
        Box::new(MemoryError {
            kind,
            is_write,
            address,
            bytes,
            object: None,
        })
    }
}

impl Object {
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether none of these bytes was written.
    fn is_unwritten(&self, offset: usize, count: usize) -> bool {
        let Some(map) = &self.unwritten else {
            return false;
        };
        (offset..offset + count).all(|at| map[at / 64] >> (at % 64) & 1 == 1)
    }

    fn mark_written(&mut self, offset: usize, count: usize) {
        if count == self.bytes.len() {
            self.unwritten = None;
            return;
        }
        let Some(map) = &mut self.unwritten else {
            return;
        };
        let (first, last) = (offset / 64, (offset + count).saturating_sub(1) / 64);
        if first == last && count < 64 {
            map[first] &= !(((1_u64 << count) - 1) << (offset % 64));
            return;
        }
        for at in offset..offset + count {
            map[at / 64] &= !(1 << (at % 64));
        }
    }
}
