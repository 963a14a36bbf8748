//! The tail file: what the threads of a recorded program have not flushed yet.
//!
//! It is mapped by the program, so that its content survives even SIGKILL. A page of file header is
//! followed by slots, each a page of header and `CAPACITY` bytes of payload. The file ends, or zero
//! bytes follow, after the last slot. All fields are little-endian and at the offsets below.

/// The first bytes of the file; the digit is the version.
pub const FILE_MAGIC: [u8; 8] = *b"NRNtail1";
/// u32 in the file header: how many processes have begun to record.
pub const FILE_PROCESSES: usize = 8;
/// u32 in the file header: not 0 if the runtime could not write everything (1: the disk was full).
pub const FILE_TROUBLE: usize = 12;
pub const PAGE: usize = 4096;

/// The u32 at `MAGIC` in the header of a slot.
pub const SLOT_MAGIC: u32 = u32::from_le_bytes(*b"NRNs");
pub const MAGIC: usize = 0;
/// u32: 1 while a thread owns the slot; with another value there is nothing to read.
pub const STATE: usize = 4;
/// u32, as in the chunk that this payload will become.
pub const PROCESS: usize = 8;
/// u32, as in the chunk that this payload will become.
pub const THREAD: usize = 12;
/// u32. If the file has a chunk with this index, it holds the same events and the slot is dropped.
pub const INDEX: usize = 16;
/// u32: how much of the payload is complete.
pub const USED: usize = 20;
/// u64, as in the chunk that this payload will become.
pub const FIRST_SEQUENCE: usize = 24;
/// u32: bytes of payload that follow the page of this header.
pub const CAPACITY: usize = 32;
