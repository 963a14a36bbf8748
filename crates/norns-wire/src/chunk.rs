//! Chunks: a piece of one thread's stream in the file, with its header and checksum.

use crate::code::bytes;

/// What stands before the payload of every chunk that the runtime appends to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    pub kind: ChunkKind,
    /// The number of the recorded process, from 0. A program that forks, or becomes another one by
    /// `exec`, gives several.
    pub process: u32,
    /// The number of the thread in its process, from 0 (the main thread); in order of creation.
    pub thread: u32,
    /// This is the n-th chunk of its kind, process and thread, from 0.
    pub index: u32,
    /// The length of the payload in bytes.
    pub length: u32,
    /// The last sequence number of the thread before this chunk.
    pub first_sequence: u64,
    /// `checksum` of the payload.
    pub checksum: u64,
}

bytes! {
    /// What the payload of a chunk is.
    pub enum ChunkKind {
        /// Events of one thread (`stream`).
        Events = 0,
        /// The text of `/proc/self/maps`.
        Maps = 1,
        /// What the runtime counted (`statistics`). Thread and index are 0; a later chunk replaces
        /// an earlier one.
        Statistics = 2,
    }
}

/// The version of all that chunks hold: codes, encoding of events, statistics. The first is 0.
pub const STREAM_VERSION: u8 = 0;

/// `NRNc` in the file.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"NRNc");
pub const CHUNK_HEADER: usize = 48;

impl ChunkHeader {
    pub fn encode(&self) -> [u8; CHUNK_HEADER] {
        let mut out = [0; CHUNK_HEADER];
        out[..4].copy_from_slice(&CHUNK_MAGIC.to_le_bytes());
        out[4] = self.kind as u8;
        out[5] = STREAM_VERSION;
        out[8..12].copy_from_slice(&self.process.to_le_bytes());
        out[12..16].copy_from_slice(&self.thread.to_le_bytes());
        out[16..20].copy_from_slice(&self.index.to_le_bytes());
        out[20..24].copy_from_slice(&self.length.to_le_bytes());
        out[24..32].copy_from_slice(&self.first_sequence.to_le_bytes());
        out[32..40].copy_from_slice(&self.checksum.to_le_bytes());
        let header = checksum(&out[..40]);
        out[40..].copy_from_slice(&header.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8; CHUNK_HEADER]) -> Result<ChunkHeader, BadHeader> {
        if word(bytes, 0) != CHUNK_MAGIC || long(bytes, 40) != checksum(&bytes[..40]) {
            return Err(BadHeader::NotAHeader);
        }
        if bytes[5] != STREAM_VERSION {
            return Err(BadHeader::Version(bytes[5]));
        }
        Ok(ChunkHeader {
            kind: ChunkKind::from_byte(bytes[4]).ok_or(BadHeader::NotAHeader)?,
            process: word(bytes, 8),
            thread: word(bytes, 12),
            index: word(bytes, 16),
            length: word(bytes, 20),
            first_sequence: long(bytes, 24),
            checksum: long(bytes, 32),
        })
    }
}

fn word(bytes: &[u8; CHUNK_HEADER], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|index| bytes[at + index]))
}

fn long(bytes: &[u8; CHUNK_HEADER], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|index| bytes[at + index]))
}

/// Why bytes are not the header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// The magic number or the checksum differs, or there is no such kind of chunk.
    NotAHeader,
    /// A runtime of another version wrote it.
    Version(u8),
}

/// The checksum of chunks: four independent lanes of multiplications and rotations, so that it costs
/// less than the `write` of the same bytes. It finds accidental damage, not forgery.
pub fn checksum(bytes: &[u8]) -> u64 {
    const K: u64 = 0x9FB2_1C65_1E98_DF25;
    let mut lanes = [
        0x243F_6A88_85A3_08D3u64,
        0x1319_8A2E_0370_7344,
        0xA409_3822_299F_31D0,
        0x082E_FA98_EC4E_6C89,
    ];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = (*lane ^ u64::from_le_bytes(*word))
                .wrapping_mul(K)
                .rotate_left(29);
        }
    }
    for (index, byte) in rest.iter().enumerate() {
        let lane = &mut lanes[index % 4];
        *lane = (*lane ^ u64::from(*byte)).wrapping_mul(K).rotate_left(29);
    }
    let mut sum = bytes.len() as u64;
    for lane in lanes {
        sum = (sum ^ lane).wrapping_mul(K);
        sum ^= sum >> 32;
    }
    sum
}
