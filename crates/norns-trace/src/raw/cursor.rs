//! The stream of one thread of a raw recording, decoded chunk by chunk.

use std::collections::VecDeque;
use std::io;

use crate::raw_file::{RawFile, Stored, Stream};
use norns_wire::{Code, Decoder, Record, Sites};

/// A record that owns its bytes.
#[derive(Clone, Debug)]
pub struct Owned {
    pub code: Code,
    pub detail: u8,
    pub pc: u64,
    pub address: u64,
    pub operands: [u64; 2],
    pub bytes: Vec<u8>,
}

impl From<Record<'_>> for Owned {
    fn from(record: Record) -> Owned {
        Owned {
            code: record.code,
            detail: record.detail,
            pc: record.pc,
            address: record.address,
            operands: record.operands,
            bytes: record.bytes.to_vec(),
        }
    }
}

/// The stream of one thread.
pub struct Cursor {
    /// The chunks still to load, in the order of their indices and without a gap.
    chunks: VecDeque<Stored>,
    /// The index of the first chunk that is lost, if one is, and what is wrong with it.
    pub missing: Option<(u32, String)>,
    /// How many chunks were loaded.
    taken: u32,
    /// The chunk that is being decoded, how far, and the sequence number there.
    payload: Vec<u8>,
    at: usize,
    sequence: u64,
    /// Whether the chunk may end within an event.
    cut: bool,
    /// Only while a chunk is being decoded: most threads of a large program wait most of the time.
    sites: Option<Box<Sites>>,
    /// Events that were decoded and not taken yet.
    buffer: VecDeque<Owned>,
    /// Sequence numbers of the ordered events in the buffer.
    ordered: VecDeque<u64>,
    /// The next ordered event, when it is in a later chunk.
    beyond: Option<u64>,
}

impl Cursor {
    pub fn new(stream: &Stream) -> Cursor {
        let mut chunks = VecDeque::new();
        for (number, (&index, &chunk)) in stream.chunks.iter().enumerate() {
            if index as usize != number {
                break;
            }
            chunks.push_back(chunk);
            // What follows a cut chunk does not follow the events that are left of it.
            if chunk.cut {
                break;
            }
        }
        let next = chunks.len() as u32;
        let more = stream.chunks.len() > chunks.len();
        let missing = match stream.damaged.get(&next) {
            Some(problem) => Some((next, problem.clone())),
            None if more && chunks.back().is_some_and(|chunk| chunk.cut) => {
                Some((next - 1, "it is cut".into()))
            }
            None if more => Some((next, "it is missing".into())),
            None => None,
        };
        Cursor {
            chunks,
            missing,
            taken: 0,
            payload: Vec::new(),
            at: 0,
            sequence: 0,
            cut: false,
            sites: None,
            buffer: VecDeque::new(),
            ordered: VecDeque::new(),
            beyond: None,
        }
    }

    /// Decodes some more events into the buffer; `false` when the stream is at its end.
    fn pull(&mut self, raw: &mut RawFile) -> io::Result<bool> {
        if self.at == self.payload.len() {
            let Some(chunk) = self.chunks.pop_front() else {
                return Ok(false);
            };
            raw.load(chunk, &mut self.payload)?;
            self.at = 0;
            self.taken += 1;
            self.sequence = chunk.first_sequence;
            self.cut = chunk.cut;
        }
        let sites = self.sites.get_or_insert_with(|| Box::new(Sites::EMPTY));
        let mut decoder = Decoder::resume(&self.payload, self.at, self.sequence, sites);
        let mut problem = None;
        for _ in 0..64 {
            match decoder.next() {
                None => break,
                Some(Ok(record)) => {
                    if record.code.ordered() {
                        self.ordered.push_back(record.sequence);
                    }
                    self.buffer.push_back(record.into());
                }
                Some(Err(malformed)) => {
                    problem = Some(malformed);
                    break;
                }
            }
        }
        self.at = decoder.offset();
        self.sequence = decoder.sequence();
        if let Some(malformed) = problem {
            self.at = self.payload.len();
            // The last event of a cut chunk is incomplete: that is where its thread was stopped.
            if !self.cut {
                let problem = format!("byte {}: {}", malformed.offset, malformed.reason);
                self.missing = Some((self.taken - 1, problem));
            }
            self.chunks.clear();
        }
        if self.at == self.payload.len() {
            self.sites = None;
            self.payload = Vec::new();
            self.at = 0;
        }
        Ok(true)
    }

    /// The sequence number of the next ordered event; `None` when there is none.
    pub fn key(&mut self, raw: &mut RawFile) -> io::Result<Option<u64>> {
        loop {
            if let Some(&sequence) = self.ordered.front() {
                return Ok(Some(sequence));
            }
            if let Some(sequence) = self.beyond {
                return Ok(Some(sequence));
            }
            if self.at == self.payload.len() {
                if self.buffer.is_empty() && !self.chunks.is_empty() {
                    self.pull(raw)?;
                    continue;
                }
                self.beyond = self.look_beyond(raw)?;
                return Ok(self.beyond);
            }
            self.pull(raw)?;
        }
    }

    /// Finds the next ordered event in the chunks that are not loaded yet.
    fn look_beyond(&mut self, raw: &mut RawFile) -> io::Result<Option<u64>> {
        let mut payload = Vec::new();
        let mut sites = None;
        for (number, chunk) in self.chunks.iter().enumerate() {
            // The next chunk begins with the same number: this one has no ordered event.
            if let Some(next) = self.chunks.get(number + 1)
                && next.first_sequence == chunk.first_sequence
            {
                continue;
            }
            raw.load(*chunk, &mut payload)?;
            let sites = sites.get_or_insert_with(|| Box::new(Sites::EMPTY));
            let mut decoder = Decoder::new(&payload, chunk.first_sequence, sites);
            let found = decoder.find_map(|record| match record {
                Ok(record) if record.code.ordered() => Some(Some(record.sequence)),
                Ok(_) => None,
                Err(_) => Some(None),
            });
            match found {
                Some(found) => return Ok(found),
                None => continue,
            }
        }
        Ok(None)
    }

    pub fn pop(&mut self, raw: &mut RawFile) -> io::Result<Option<Owned>> {
        while self.buffer.is_empty() {
            if !self.pull(raw)? {
                return Ok(None);
            }
        }
        let record = self.buffer.pop_front();
        if record.as_ref().is_some_and(|record| record.code.ordered()) {
            self.ordered.pop_front();
            self.beyond = None;
        }
        Ok(record)
    }

    /// The next event, if it is the value of the event before it.
    pub fn pop_value(&mut self, raw: &mut RawFile) -> io::Result<Option<Owned>> {
        while self.buffer.is_empty() {
            if !self.pull(raw)? {
                return Ok(None);
            }
        }
        let is_value = |record: &Owned| matches!(record.code, Code::ValueRead | Code::ValueWritten);
        if self.buffer.front().is_some_and(is_value) {
            return self.pop(raw);
        }
        Ok(None)
    }

    /// The next event, unless it is an ordered one.
    pub fn pop_unordered(&mut self, raw: &mut RawFile) -> io::Result<Option<Owned>> {
        if self.buffer.is_empty() {
            self.pull(raw)?;
        }
        match self.buffer.front() {
            Some(record) if !record.code.ordered() => self.pop(raw),
            _ => Ok(None),
        }
    }
}
