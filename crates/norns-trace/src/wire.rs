//! The bytes that the runtime writes: one stream of events a thread, cut into chunks.
//!
//! Only `core` is used and nothing is allocated or panics: the runtime includes this very file.
//!
//! An event names its *site* (program counter, code, detail: all that is fixed at one place of the
//! program) by a slot of a small table that encoder and decoder both keep, and its address by the
//! difference to the last address of that site. So a loop over an array costs three bytes an
//! access. The table starts empty in every chunk: chunks can be decoded alone.
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

/// What an event is. The comments give: address, detail, operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// Address; size in bytes (1 to 16).
    Read = 1,
    Write = 2,
    /// Address; 0; size.
    ReadRange = 3,
    WriteRange = 4,
    /// Address; `Atomic` packed. Ordered.
    Atomic = 5,
    /// 0; the memory order. Ordered.
    Fence = 6,
    /// Block; 0; size. Ordered: after `malloc` returned, before `free` is called.
    Allocate = 7,
    Free = 8,
    /// 0; 0. The pc is that of the call.
    Enter = 9,
    /// The number of functions that were left; 0.
    Leave = 10,
    /// 0; 0; number of the parent, which child of it this is (from 1). Ordered. The first event
    /// of a thread, the main one too: there, both operands are 0.
    Start = 11,
    /// 0; 0. Ordered.
    End = 12,
    /// Number of the other thread; 0. Ordered.
    Fork = 13,
    Join = 14,
    FailedJoin = 15,
    Detach = 16,
    /// Object; `Object` packed. Ordered. All codes down to `SemPost` are like this.
    Lock = 17,
    FailedLock = 18,
    ReadLock = 19,
    FailedReadLock = 20,
    Unlock = 21,
    OnceBegin = 22,
    OnceEnd = 23,
    OncePass = 24,
    Wait = 25,
    FailedWait = 26,
    Signal = 27,
    Broadcast = 28,
    BarrierEnter = 29,
    BarrierExit = 30,
    SemWait = 31,
    FailedSemWait = 32,
    SemPost = 33,
    /// Object; `Object` packed; count of a barrier, value of a semaphore, else 0. Ordered. From
    /// here on another object is at this address.
    Init = 34,
    /// Object; `Object` packed. Ordered. The object at this address ends here.
    Destroy = 35,
    /// 0; 0; bytes: the name, then the fields, each with a zero byte after it.
    Custom = 36,
    /// Address; 0; bytes: what the last access of this thread read, or wrote.
    ValueRead = 37,
    ValueWritten = 38,
    /// 0; `Lost` why; how many events are missing here.
    Lost = 39,
    /// 0; `Ended` how; exit status or signal number. Ordered. The process ends here.
    ProcessEnd = 40,
    /// 0; 0. Ordered. In a serialised recording: another thread runs from here on. What this thread
    /// did before is before what others do after.
    Turn = 41,
}

const CODES: [Code; 41] = [
    Code::Read,
    Code::Write,
    Code::ReadRange,
    Code::WriteRange,
    Code::Atomic,
    Code::Fence,
    Code::Allocate,
    Code::Free,
    Code::Enter,
    Code::Leave,
    Code::Start,
    Code::End,
    Code::Fork,
    Code::Join,
    Code::FailedJoin,
    Code::Detach,
    Code::Lock,
    Code::FailedLock,
    Code::ReadLock,
    Code::FailedReadLock,
    Code::Unlock,
    Code::OnceBegin,
    Code::OnceEnd,
    Code::OncePass,
    Code::Wait,
    Code::FailedWait,
    Code::Signal,
    Code::Broadcast,
    Code::BarrierEnter,
    Code::BarrierExit,
    Code::SemWait,
    Code::FailedSemWait,
    Code::SemPost,
    Code::Init,
    Code::Destroy,
    Code::Custom,
    Code::ValueRead,
    Code::ValueWritten,
    Code::Lost,
    Code::ProcessEnd,
    Code::Turn,
];

impl Code {
    pub fn from_byte(byte: u8) -> Option<Code> {
        CODES.get(usize::from(byte).wrapping_sub(1)).copied()
    }

    /// Whether the event has a sequence number.
    #[inline(always)]
    pub const fn ordered(self) -> bool {
        !matches!(
            self,
            Code::Read
                | Code::Write
                | Code::ReadRange
                | Code::WriteRange
                | Code::Enter
                | Code::Leave
                | Code::Custom
                | Code::ValueRead
                | Code::ValueWritten
                | Code::Lost
        )
    }

    /// How many varints follow.
    #[inline(always)]
    pub const fn operands(self) -> usize {
        match self {
            Code::Start => 2,
            Code::ReadRange
            | Code::WriteRange
            | Code::Allocate
            | Code::Free
            | Code::Init
            | Code::Lost
            | Code::ProcessEnd => 1,
            _ => 0,
        }
    }

    pub const fn has_bytes(self) -> bool {
        matches!(self, Code::Custom | Code::ValueRead | Code::ValueWritten)
    }
}

/// Kinds of synchronisation objects, as the detail of an event.
pub mod object {
    pub const MUTEX: u8 = 1;
    pub const RECURSIVE_MUTEX: u8 = 2;
    pub const ERROR_CHECKING_MUTEX: u8 = 3;
    pub const ROBUST_MUTEX: u8 = 4;
    pub const READER_WRITER_LOCK: u8 = 5;
    pub const SPIN_LOCK: u8 = 6;
    pub const ONCE: u8 = 7;
    pub const CONDITION: u8 = 8;
    pub const BARRIER: u8 = 9;
    pub const SEMAPHORE: u8 = 10;
    /// Added to the kind when other processes can use the object too.
    pub const SHARED: u8 = 0x80;
}

/// The detail of `Code::Atomic`: bits 0-2 the binary logarithm of the size, bits 3-4 the kind
/// (load, store, read-modify-write, failed exchange), bits 5-7 the order (relaxed, consume,
/// acquire, release, acq_rel, seq_cst, as C numbers them).
#[inline(always)]
pub const fn atomic_detail(size_log2: u8, kind: u8, order: u8) -> u8 {
    (size_log2 & 7) | (kind & 3) << 3 | (order & 7) << 5
}

/// The detail of `Code::Lost`.
pub mod lost {
    /// A signal handler interrupted the recorder more often than it has room for.
    pub const SIGNAL_HANDLER: u8 = 1;
    /// The file could not be written.
    pub const DISK: u8 = 2;
}

/// The detail of `Code::ProcessEnd`.
pub mod ended {
    pub const EXIT: u8 = 1;
    /// `_exit`, `_Exit`, `quick_exit`.
    pub const IMMEDIATE_EXIT: u8 = 2;
    pub const ABORT: u8 = 3;
    /// A fatal signal: a crash.
    pub const SIGNAL: u8 = 4;
    /// Another program took the place of this one.
    pub const EXEC: u8 = 5;
}

pub const SLOTS: usize = 4096;
const DEFINE: u16 = 9;
/// The room that `Sites::put` and `put_varint` need; an event without bytes is never longer.
pub const MAX_EVENT: usize = 64;

#[derive(Clone, Copy)]
pub struct Site {
    /// `pc | code << 48 | detail << 56`, and 0 for a slot not defined yet.
    tag: u64,
    last: u64,
}

/// The table of sites, the same in encoder and decoder.
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

    /// Writes header and body. Returns the length, and the slot if it was defined by this event.
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

/// Bytes that no encoder writes: where in the payload, and what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub offset: usize,
    pub reason: &'static str,
}

/// Decodes the payload of one chunk. Yields an error at most once, as its last item.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    sequence: u64,
    sites: &'a mut Sites,
    failed: bool,
}

impl<'a> Decoder<'a> {
    /// `first_sequence` is that of the chunk's header. `sites` is cleared first.
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

    /// Goes on where another decoder of the same payload stood, with the table as that left it.
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

/// Before the payload of every chunk that the runtime appends to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    pub kind: ChunkKind,
    /// Which of the recorded processes, from 0: a program that forks or is replaced by `exec`
    /// gives several.
    pub process: u32,
    /// The number of the thread in its process, from 0 (the main thread); in order of creation.
    pub thread: u32,
    /// This is the n-th chunk of its kind, process and thread, from 0.
    pub index: u32,
    /// Of the payload.
    pub length: u32,
    /// The last sequence number of the thread before this chunk.
    pub first_sequence: u64,
    /// `checksum` of the payload.
    pub checksum: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkKind {
    Events = 0,
    /// The text of /proc/self/maps.
    Maps = 1,
    /// Lines `name value`: what was counted. Thread and index are 0; a later one replaces.
    Statistics = 2,
}

/// `NRNc` in the file.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"NRNc");
pub const CHUNK_HEADER: usize = 48;

impl ChunkHeader {
    pub fn encode(&self) -> [u8; CHUNK_HEADER] {
        let mut out = [0; CHUNK_HEADER];
        out[..4].copy_from_slice(&CHUNK_MAGIC.to_le_bytes());
        out[4] = self.kind as u8;
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

    /// `None` when this is not the header of a chunk: wrong magic, checksum or kind.
    pub fn decode(bytes: &[u8; CHUNK_HEADER]) -> Option<ChunkHeader> {
        let word = |at: usize| {
            bytes
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_le_bytes)
        };
        let long = |at: usize| {
            bytes
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_le_bytes)
        };
        if word(0)? != CHUNK_MAGIC || long(40)? != checksum(&bytes[..40]) {
            return None;
        }
        let kind = match bytes[4] {
            0 => ChunkKind::Events,
            1 => ChunkKind::Maps,
            2 => ChunkKind::Statistics,
            _ => return None,
        };
        Some(ChunkHeader {
            kind,
            process: word(8)?,
            thread: word(12)?,
            index: word(16)?,
            length: word(20)?,
            first_sequence: long(24)?,
            checksum: long(32)?,
        })
    }
}

/// The checksum of chunks: four lanes of multiply and rotate, so that it costs less than the
/// `write` does. Finds accidents, not malice.
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

/// The tail file: what the threads have not flushed yet. A page of file header, then slots, each
/// a page of header and `capacity` bytes of payload. All fields are little-endian and at the
/// offsets below.
pub mod tail {
    pub const FILE_MAGIC: [u8; 8] = *b"NRNtail1";
    /// u32 in the file header: how many processes have begun to record.
    pub const FILE_PROCESSES: usize = 8;
    /// u32 in the file header: the runtime could not write all (1: the disk was full).
    pub const FILE_TROUBLE: usize = 12;
    pub const PAGE: usize = 4096;

    /// Offsets in the header of a slot. The file ends, or zero bytes follow, after the last slot.
    pub const SLOT_MAGIC: u32 = u32::from_le_bytes(*b"NRNs");
    pub const MAGIC: usize = 0;
    /// u32: 1 while a thread owns the slot; another value: nothing to take in.
    pub const STATE: usize = 4;
    /// u32, as in the chunk that this payload will become.
    pub const PROCESS: usize = 8;
    pub const THREAD: usize = 12;
    /// u32. A chunk with this index in the file holds the same events: then drop the slot.
    pub const INDEX: usize = 16;
    /// u32: how much of the payload is complete.
    pub const USED: usize = 20;
    /// u64
    pub const FIRST_SEQUENCE: usize = 24;
    /// u32: bytes of payload that follow the page of this header.
    pub const CAPACITY: usize = 32;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// splitmix64: the tests need no more than many different numbers.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        }
    }

    fn encode(events: &[Record]) -> Vec<u8> {
        let mut sites = Box::new(Sites::EMPTY);
        let mut payload = Vec::new();
        let mut sequence = 7;
        for event in events {
            let mut out = [0; MAX_EVENT];
            let (mut at, _) =
                sites.put(&mut out, event.pc, event.code, event.detail, event.address);
            if event.code.ordered() {
                at = put_varint(&mut out, at, event.sequence - sequence);
                sequence = event.sequence;
            }
            for operand in &event.operands[..event.code.operands()] {
                at = put_varint(&mut out, at, *operand);
            }
            if event.code.has_bytes() {
                at = put_varint(&mut out, at, event.bytes.len() as u64);
            }
            payload.extend_from_slice(&out[..at]);
            payload.extend_from_slice(event.bytes);
        }
        payload
    }

    fn random_events(seed: u64) -> Vec<Record<'static>> {
        let mut random = Random(seed);
        let mut sequence = 7;
        let few_pcs = !random.next().is_multiple_of(3);
        (0..random.next() % 200)
            .map(|_| {
                let code = CODES[random.next() as usize % CODES.len()];
                let shift = random.next() % 64;
                sequence += 1 + (random.next() >> (random.next() % 16 + 40));
                let number = |present: bool, value: u64| if present { value } else { 0 };
                Record {
                    code,
                    detail: random.next() as u8 % 4,
                    pc: (random.next() & PC_MASK) % if few_pcs { 5 } else { PC_MASK },
                    address: random.next() >> shift,
                    sequence: number(code.ordered(), sequence),
                    operands: [
                        number(code.operands() > 0, random.next() >> shift),
                        number(code.operands() > 1, random.next()),
                    ],
                    bytes: if code.has_bytes() { b"a value" } else { b"" },
                }
            })
            .collect()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut sites = Box::new(Sites::EMPTY);
        for seed in 0..2000 {
            let events = random_events(seed);
            let payload = encode(&events);
            let decoded: Result<Vec<Record>, Malformed> =
                Decoder::new(&payload, 7, &mut sites).collect();
            assert_eq!(decoded.as_ref(), Ok(&events), "seed {seed}");
        }
    }

    #[test]
    fn a_cut_or_changed_payload_gives_a_prefix_or_an_error() {
        let mut sites = Box::new(Sites::EMPTY);
        for seed in 0..2000 {
            let mut random = Random(seed ^ 0xABCD);
            let events = random_events(seed);
            let mut payload = encode(&events);
            if payload.is_empty() {
                continue;
            }
            let cut = random.next() as usize % payload.len();
            let decoded: Vec<Record> = Decoder::new(&payload[..cut], 7, &mut sites)
                .map_while(Result::ok)
                .collect();
            assert_eq!(decoded, events[..decoded.len()], "seed {seed}");

            for _ in 0..4 {
                let at = random.next() as usize % payload.len();
                payload[at] = random.next() as u8;
            }
            let items = Decoder::new(&payload, 7, &mut sites).count();
            assert!(items <= payload.len(), "seed {seed}");
        }
    }

    #[test]
    fn a_loop_over_an_array_costs_three_bytes_an_access() {
        let event = |index: u64| Record {
            code: Code::Read,
            detail: 8,
            pc: 0x5555_5555_5000,
            address: 0x7fff_0000_0000 + 8 * index,
            sequence: 0,
            operands: [0; 2],
            bytes: b"",
        };
        let events: Vec<Record> = (0..1001).map(event).collect();
        assert_eq!(encode(&events).len(), 18 + 3 * 1000);
    }

    #[test]
    fn codes_are_their_bytes() {
        for byte in 0..=255 {
            if let Some(code) = Code::from_byte(byte) {
                assert_eq!(code as u8, byte);
            }
        }
        assert_eq!(Code::from_byte(41), Some(Code::Turn));
    }

    #[test]
    fn a_chunk_header_survives_and_a_changed_one_does_not() {
        let header = ChunkHeader {
            kind: ChunkKind::Events,
            process: 1,
            thread: 2,
            index: 3,
            length: 4,
            first_sequence: 5,
            checksum: 6,
        };
        let bytes = header.encode();
        assert_eq!(ChunkHeader::decode(&bytes), Some(header));
        for at in 0..CHUNK_HEADER {
            let mut changed = bytes;
            changed[at] ^= 0x10;
            assert_eq!(ChunkHeader::decode(&changed), None, "byte {at}");
        }
    }
}
