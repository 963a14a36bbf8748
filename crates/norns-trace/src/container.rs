//! The `.norns` file: a header, chunks of items, an index and an end mark.
//!
//! ```text
//! file    = "NORNS\r\n\x1a" version:u32 state:u32 chunk* [index end]
//! chunk   = "NRNI" kind:u8 compression:u8 0:u16 number:u32 items:u32 stored:u32 raw:u32
//!           first_event:u64 checksum:u64 header_checksum:u64, then `stored` bytes
//! index   = a chunk of kind 1: for every chunk the length of header and payload, and its events
//! end     = "NRNEND\r\n" offset of the index:u64 checksum of these 16 bytes:u64
//! ```
//!
//! All numbers are little-endian. The items are in the order of the run, so any beginning of the file
//! is the beginning of the run: a file that is cut, or damaged in the middle, is a shorter trace and
//! a warning. The index is redundant: `chunks` reads it, or walks over the headers when it is missing.
//!
//! State 0 is a raw recording: the chunks that describe the run are followed by those that the
//! runtime appended (norns-wire), which `raw` reads. State 1 is a finished trace.
//!
//! Chunks are compressed with LZ4: it is fast, since a trace is read more often than it is sent, and
//! expands a chunk at most 255 times, so that a hostile file cannot ask for more memory than that.

use std::io::{self, Read, Write};

use crate::encoding::{self, Bytes, Malformed, State};
use crate::error::{Error, Warning};
use crate::item::{Defined, Item};
use norns_wire as wire;

pub const MAGIC: [u8; 8] = *b"NORNS\r\n\x1a";
pub const VERSION: u32 = 1;
pub const FILE_HEADER: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    Raw = 0,
    Finished = 1,
}

pub fn file_header(state: FileState) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..].copy_from_slice(&(state as u32).to_le_bytes());
    header
}

pub const CHUNK_MAGIC: [u8; 4] = *b"NRNI";
pub const CHUNK_HEADER: usize = 48;
const END_MAGIC: [u8; 8] = *b"NRNEND\r\n";
const END: usize = 24;

/// A chunk is closed when its items have this many bytes.
const CHUNK_TARGET: usize = 256 << 10;
/// No chunk is longer than this. A single item, such as a long text, can exceed `CHUNK_TARGET`.
const CHUNK_LIMIT: usize = 1 << 30;

const ITEMS: u8 = 0;
const INDEX: u8 = 1;
const PLAIN: u8 = 0;
const LZ4: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    kind: u8,
    compression: u8,
    pub number: u32,
    pub items: u32,
    pub stored: u32,
    pub raw: u32,
    pub first_event: u64,
    checksum: u64,
}

impl ChunkHeader {
    fn encode(&self) -> [u8; CHUNK_HEADER] {
        let mut out = [0; CHUNK_HEADER];
        out[..4].copy_from_slice(&CHUNK_MAGIC);
        out[4] = self.kind;
        out[5] = self.compression;
        out[8..12].copy_from_slice(&self.number.to_le_bytes());
        out[12..16].copy_from_slice(&self.items.to_le_bytes());
        out[16..20].copy_from_slice(&self.stored.to_le_bytes());
        out[20..24].copy_from_slice(&self.raw.to_le_bytes());
        out[24..32].copy_from_slice(&self.first_event.to_le_bytes());
        out[32..40].copy_from_slice(&self.checksum.to_le_bytes());
        let sum = wire::checksum(&out[..40]);
        out[40..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; CHUNK_HEADER]) -> Result<ChunkHeader, &'static str> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        if bytes[..4] != CHUNK_MAGIC {
            return Err("no chunk begins here");
        }
        if long(40) != wire::checksum(&bytes[..40]) {
            return Err("the checksum of its header differs");
        }
        Ok(ChunkHeader {
            kind: bytes[4],
            compression: bytes[5],
            number: word(8),
            items: word(12),
            stored: word(16),
            raw: word(20),
            first_event: long(24),
            checksum: long(32),
        })
    }
}

/// Writes a trace, item after item.
pub struct Writer<W: Write> {
    out: W,
    state: State,
    chunk: Vec<u8>,
    items_in_chunk: u32,
    /// Length and number of events of every chunk written.
    index: Vec<(u64, u64)>,
    offset: u64,
    first_event: u64,
    defined: Defined,
    items: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, state: FileState) -> io::Result<Writer<W>> {
        out.write_all(&file_header(state))?;
        Ok(Writer {
            out,
            state: State::default(),
            chunk: Vec::with_capacity(CHUNK_TARGET + 4096),
            items_in_chunk: 0,
            index: Vec::new(),
            offset: FILE_HEADER as u64,
            first_event: 0,
            defined: Defined::default(),
            items: 0,
        })
    }

    pub fn push(&mut self, item: &Item) -> Result<(), WriteError> {
        self.defined.accept(item).map_err(|problem| {
            WriteError::Item(Error::Item {
                number: self.items,
                problem,
            })
        })?;
        encoding::encode(&mut self.state, item, &mut self.chunk);
        self.items += 1;
        self.items_in_chunk += 1;
        if self.chunk.len() >= CHUNK_TARGET {
            self.close_chunk()?;
        }
        Ok(())
    }

    pub fn defined(&self) -> &Defined {
        &self.defined
    }

    /// Writes what is left, without index and end mark: the runtime appends.
    pub fn finish_raw(mut self) -> io::Result<W> {
        self.close_chunk()?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes what is left, the index and the end mark.
    pub fn finish(mut self) -> io::Result<W> {
        self.close_chunk()?;
        let mut payload = Vec::new();
        for &(length, events) in &self.index {
            encoding::put(&mut payload, length);
            encoding::put(&mut payload, events);
        }
        let index_offset = self.offset;
        self.put_chunk(INDEX, &payload, 0)?;
        let mut end = [0; END];
        end[..8].copy_from_slice(&END_MAGIC);
        end[8..16].copy_from_slice(&index_offset.to_le_bytes());
        let sum = wire::checksum(&end[..16]);
        end[16..].copy_from_slice(&sum.to_le_bytes());
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn close_chunk(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let payload = std::mem::take(&mut self.chunk);
        let items = std::mem::take(&mut self.items_in_chunk);
        let before = self.offset;
        self.put_chunk(ITEMS, &payload, items)?;
        let events = u64::from(self.defined.events);
        self.index
            .push((self.offset - before, events - self.first_event));
        self.first_event = events;
        self.state = State::default();
        self.chunk = payload;
        self.chunk.clear();
        Ok(())
    }

    fn put_chunk(&mut self, kind: u8, payload: &[u8], items: u32) -> io::Result<()> {
        if payload.len() > CHUNK_LIMIT {
            return Err(io::Error::other(
                "one item of the trace is longer than 2^30 bytes",
            ));
        }
        let compressed = lz4_flex::block::compress(payload);
        let (compression, stored) = if compressed.len() < payload.len() {
            (LZ4, &compressed[..])
        } else {
            (PLAIN, payload)
        };
        let header = ChunkHeader {
            kind,
            compression,
            number: self.index.len() as u32,
            items,
            stored: stored.len() as u32,
            raw: payload.len() as u32,
            first_event: self.first_event,
            checksum: wire::checksum(stored),
        };
        self.out.write_all(&header.encode())?;
        self.out.write_all(stored)?;
        self.offset += (CHUNK_HEADER + stored.len()) as u64;
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Item(Error),
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Reads the chunks of a file one after the other.
pub struct Chunks<R> {
    input: R,
    offset: u64,
    number: u64,
    events: u64,
    /// Set when the end mark, the end of the file, a chunk of the runtime or damage was met.
    ended: bool,
    pub warnings: Vec<Warning>,
    stored: Vec<u8>,
}

impl<R: Read> Chunks<R> {
    /// `input` is positioned after the file header.
    pub fn new(input: R) -> Chunks<R> {
        Chunks {
            input,
            offset: FILE_HEADER as u64,
            number: 0,
            events: 0,
            ended: false,
            warnings: Vec::new(),
            stored: Vec::new(),
        }
    }

    /// Where the next chunk would begin.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Puts the encoded items of the next chunk into `payload`; `None` when there are no more chunks.
    fn next(&mut self, state: FileState, payload: &mut Vec<u8>) -> io::Result<Option<ChunkHeader>> {
        if self.ended {
            return Ok(None);
        }
        // Reading goes on only after a good chunk of items, at the end of this function.
        self.ended = true;
        let mut bytes = [0; CHUNK_HEADER];
        let length = read_up_to(&mut self.input, &mut bytes)?;
        if state == FileState::Raw && (length == 0 || !bytes.starts_with(&CHUNK_MAGIC)) {
            return Ok(None);
        }
        if length < CHUNK_HEADER {
            if !is_end(&bytes[..length]) {
                self.cut();
            }
            return Ok(None);
        }
        let header = match ChunkHeader::decode(&bytes) {
            Ok(header) => header,
            Err(problem) => return Ok(self.damaged(problem)),
        };
        self.stored.clear();
        let stored = u64::from(header.stored);
        // The buffer grows as bytes arrive, so that a wrong length does not allocate memory.
        (&mut self.input)
            .take(stored)
            .read_to_end(&mut self.stored)?;
        if (self.stored.len() as u64) < stored {
            self.cut();
            return Ok(None);
        }
        if wire::checksum(&self.stored) != header.checksum {
            return Ok(self.damaged("its checksum differs"));
        }
        let raw = header.raw as usize;
        payload.clear();
        match header.compression {
            PLAIN if raw == self.stored.len() => payload.extend_from_slice(&self.stored),
            LZ4 if raw <= CHUNK_LIMIT && raw <= self.stored.len().saturating_mul(255) => {
                payload.resize(raw, 0);
                match lz4_flex::block::decompress_into(&self.stored, payload) {
                    Ok(length) if length == raw => {}
                    _ => return Ok(self.damaged("it cannot be decompressed")),
                }
            }
            _ => return Ok(self.damaged("its compression is unknown or its length wrong")),
        }
        self.offset += CHUNK_HEADER as u64 + stored;
        match header.kind {
            ITEMS => {}
            INDEX => {
                let mut end = [0; END];
                let length = read_up_to(&mut self.input, &mut end)?;
                if !is_end(&end[..length]) {
                    self.cut();
                }
                return Ok(None);
            }
            _ => return Ok(self.damaged("its kind is unknown")),
        }
        if u64::from(header.number) != self.number || header.first_event != self.events {
            return Ok(self.damaged("chunks before it are missing"));
        }
        self.number += 1;
        self.ended = false;
        Ok(Some(header))
    }

    fn cut(&mut self) {
        self.warnings.push(Warning::Cut {
            events: self.events,
        });
    }

    fn damaged(&mut self, problem: &str) -> Option<ChunkHeader> {
        self.ended = true;
        self.warnings.push(Warning::DamagedChunk {
            number: self.number,
            offset: self.offset,
            problem: problem.into(),
            events: self.events,
        });
        None
    }
}

fn is_end(bytes: &[u8]) -> bool {
    bytes.len() == END
        && bytes.starts_with(&END_MAGIC)
        && wire::checksum(&bytes[..16]).to_le_bytes() == bytes[16..]
}

/// Reads until `bytes` is full or the input ends.
pub(crate) fn read_up_to(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match input.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Reads the items of a file one after the other. Keeps one chunk in memory.
pub struct Items<R> {
    chunks: Chunks<R>,
    file_state: FileState,
    payload: Vec<u8>,
    at: usize,
    /// How many items of the chunk are still to come.
    left: u32,
    state: State,
    defined: Defined,
}

impl<R: Read> Items<R> {
    /// `input` is positioned after the file header.
    pub fn new(input: R, file_state: FileState) -> Items<R> {
        Items {
            chunks: Chunks::new(input),
            file_state,
            payload: Vec::new(),
            at: 0,
            left: 0,
            state: State::default(),
            defined: Defined::default(),
        }
    }

    /// Where the chunks that were read end; in a raw file the runtime's begin there.
    pub fn offset(&self) -> u64 {
        self.chunks.offset()
    }

    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.chunks.warnings)
    }

    #[allow(clippy::should_implement_trait)] // It can fail, and the end is not an error.
    pub fn next(&mut self) -> io::Result<Option<Item>> {
        while self.at == self.payload.len() {
            if self.left != 0 {
                return Ok(self.damaged("items are missing"));
            }
            match self.chunks.next(self.file_state, &mut self.payload)? {
                Some(header) => self.left = header.items,
                None => {
                    self.payload.clear();
                    self.at = 0;
                    return Ok(None);
                }
            }
            self.at = 0;
            self.state = State::default();
        }
        let mut bytes = Bytes(&self.payload[self.at..]);
        let item = encoding::decode(&mut self.state, &mut bytes).and_then(|item| {
            self.defined.accept(&item).map_err(Malformed::Invalid)?;
            Ok(item)
        });
        match item {
            Ok(item) if self.left > 0 => {
                self.at = self.payload.len() - bytes.0.len();
                self.left -= 1;
                self.chunks.events = u64::from(self.defined.events);
                Ok(Some(item))
            }
            Ok(_) => Ok(self.damaged("it holds more items than it says")),
            Err(malformed) => Ok(self.damaged(&malformed.to_string())),
        }
    }

    fn damaged(&mut self, problem: &str) -> Option<Item> {
        // The number is that of the chunk, which has been counted as read.
        self.chunks.number = self.chunks.number.saturating_sub(1);
        self.chunks.damaged(problem);
        self.payload.clear();
        self.at = 0;
        self.left = 0;
        None
    }
}

/// One entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    pub offset: u64,
    /// Of header and payload.
    pub length: u64,
    pub first_event: u64,
    pub events: u64,
}

/// Where the chunks of a finished trace are: from the index, or by walking over the chunks when it
/// is missing or damaged.
pub fn chunks(file: &mut (impl Read + io::Seek)) -> io::Result<Vec<ChunkPlace>> {
    match index(file)? {
        Some(found) => Ok(found),
        None => walk(file),
    }
}

fn index(file: &mut (impl Read + io::Seek)) -> io::Result<Option<Vec<ChunkPlace>>> {
    let length = file.seek(io::SeekFrom::End(0))?;
    if length < (FILE_HEADER + END) as u64 {
        return Ok(None);
    }
    file.seek(io::SeekFrom::End(-(END as i64)))?;
    let mut end = [0; END];
    if read_up_to(file, &mut end)? < END || !is_end(&end) {
        return Ok(None);
    }
    let offset = u64::from_le_bytes(std::array::from_fn(|at| end[8 + at]));
    if offset >= length {
        return Ok(None);
    }
    file.seek(io::SeekFrom::Start(offset))?;
    let mut header = [0; CHUNK_HEADER];
    if read_up_to(file, &mut header)? < CHUNK_HEADER {
        return Ok(None);
    }
    let Ok(header) = ChunkHeader::decode(&header) else {
        return Ok(None);
    };
    let mut stored = Vec::new();
    (&mut *file)
        .take(u64::from(header.stored))
        .read_to_end(&mut stored)?;
    let raw = header.raw as usize;
    if header.kind != INDEX
        || wire::checksum(&stored) != header.checksum
        || raw > CHUNK_LIMIT
        || raw > stored.len().saturating_mul(255)
    {
        return Ok(None);
    }
    let payload = if header.compression == PLAIN {
        stored
    } else {
        match lz4_flex::block::decompress(&stored, raw) {
            Ok(payload) => payload,
            Err(_) => return Ok(None),
        }
    };
    let mut bytes = Bytes(&payload);
    let mut found = Vec::new();
    let mut place = FILE_HEADER as u64;
    let mut first_event = 0;
    while !bytes.0.is_empty() {
        let (Ok(length), Ok(events)) = (bytes.number(), bytes.number()) else {
            return Ok(None);
        };
        if length < CHUNK_HEADER as u64 || place >= offset {
            return Ok(None);
        }
        found.push(ChunkPlace {
            offset: place,
            length,
            first_event,
            events,
        });
        place = place.saturating_add(length);
        first_event = first_event.saturating_add(events);
    }
    Ok((place == offset).then_some(found))
}

fn walk(file: &mut (impl Read + io::Seek)) -> io::Result<Vec<ChunkPlace>> {
    file.seek(io::SeekFrom::Start(FILE_HEADER as u64))?;
    let mut items = Items::new(io::BufReader::new(file), FileState::Finished);
    let mut found: Vec<ChunkPlace> = Vec::new();
    let mut offset = FILE_HEADER as u64;
    let mut events = 0;
    while let Some(item) = items.next()? {
        if items.offset() != offset {
            let length = items.offset() - offset;
            found.push(ChunkPlace {
                offset,
                length,
                first_event: events,
                events: 0,
            });
            offset = items.offset();
        }
        if let Item::Event(..) = item {
            events += 1;
            found.last_mut().expect("the item is in a chunk").events += 1;
        }
    }
    Ok(found)
}
