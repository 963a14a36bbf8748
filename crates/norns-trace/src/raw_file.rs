//! The chunks of a raw recording: those that the runtime appended to the file, and the tails that it
//! had no time to append.
//!
//! The file is walked once and every checksum verified; where a chunk is torn or damaged the walk goes
//! on at the next header. One entry for every chunk is kept in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::container::read_up_to;
use crate::error::Warning;
use norns_wire::statistics::{self, Counter};
use norns_wire::tail;
use norns_wire::{self as wire, BadHeader, CHUNK_HEADER, ChunkHeader, ChunkKind};

#[derive(Default)]
pub struct Process {
    /// By the thread's number.
    pub threads: BTreeMap<u32, Stream>,
    pub maps: Vec<String>,
    /// The last value of each counter, by the counter's word.
    pub statistics: BTreeMap<&'static str, u64>,
}

/// The chunks of one thread, by their index.
#[derive(Default)]
pub struct Stream {
    pub chunks: BTreeMap<u32, Stored>,
    /// What is wrong with each damaged chunk, by its index.
    pub damaged: BTreeMap<u32, String>,
}

/// Where the payload of a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    in_tail: bool,
    offset: u64,
    length: u32,
    pub first_sequence: u64,
    /// Cut at the end of the file: its last event may be incomplete.
    pub cut: bool,
}

pub struct RawFile {
    file: File,
    tail: Option<File>,
    pub processes: BTreeMap<u32, Process>,
    pub warnings: Vec<Warning>,
    /// The program did not end in an orderly way, or a part of the recording is missing.
    pub suspect: bool,
    /// The runtime that wrote this was of another version: nothing of it is read.
    pub other_version: Option<u8>,
}

impl RawFile {
    /// `start` is where the chunks of the runtime begin.
    pub fn open(mut file: File, start: u64, tail_path: &Path) -> io::Result<RawFile> {
        let length = file.seek(SeekFrom::End(0))?;
        let mut raw = RawFile {
            file,
            tail: None,
            processes: BTreeMap::new(),
            warnings: Vec::new(),
            suspect: false,
            other_version: None,
        };
        raw.walk(start, length)?;
        match File::open(tail_path) {
            Ok(tail) => raw.take_tail(tail)?,
            Err(_) => raw.suspect = true,
        }
        Ok(raw)
    }

    /// The payload of a chunk.
    pub fn load(&mut self, stored: Stored, payload: &mut Vec<u8>) -> io::Result<()> {
        payload.clear();
        let file = match (&mut self.tail, stored.in_tail) {
            (Some(tail), true) => tail,
            _ => &mut self.file,
        };
        file.seek(SeekFrom::Start(stored.offset))?;
        file.take(u64::from(stored.length)).read_to_end(payload)?;
        Ok(())
    }

    fn walk(&mut self, start: u64, length: u64) -> io::Result<()> {
        let mut offset = start;
        let mut payload = Vec::new();
        // Headers inside a damaged payload make the walk read bytes again; a file made to have many
        // of them must not take forever.
        let mut budget = length.saturating_mul(8).saturating_add(1 << 20);
        let mut skipped_from = None;
        while offset < length {
            let mut bytes = [0; CHUNK_HEADER];
            self.file.seek(SeekFrom::Start(offset))?;
            let got = read_up_to(&mut self.file, &mut bytes)?;
            let header = if got == CHUNK_HEADER {
                ChunkHeader::decode(&bytes)
            } else {
                Err(BadHeader::NotAHeader)
            };
            let header = match header {
                Ok(header) => header,
                Err(BadHeader::Version(version)) => {
                    self.other_version = Some(version);
                    return Ok(());
                }
                Err(BadHeader::NotAHeader) => {
                    skipped_from.get_or_insert(offset);
                    match Scanner::new(&mut self.file).find(offset + 1, length)? {
                        Some(next) => offset = next,
                        None => break,
                    }
                    continue;
                }
            };
            if let Some(from) = skipped_from.take() {
                self.warnings.push(Warning::Skipped {
                    offset: from,
                    bytes: offset - from,
                });
            }
            let body = offset + CHUNK_HEADER as u64;
            payload.clear();
            (&mut self.file)
                .take(u64::from(header.length))
                .read_to_end(&mut payload)?;
            let whole = payload.len() == header.length as usize;
            let good = whole && wire::checksum(&payload) == header.checksum;
            if good {
                self.take_chunk(header, &payload, body, false);
                offset = body + u64::from(header.length);
                continue;
            }
            self.suspect = true;
            budget = match budget.checked_sub(payload.len() as u64) {
                Some(left) => left,
                None => break,
            };
            // If a header follows within its length, the chunk was torn: the thread was killed in the
            // middle of its write and another thread appended. Otherwise it is damaged, or cut by the
            // end of the file.
            let end = body + payload.len() as u64;
            match Scanner::new(&mut self.file).find(offset + 4, end)? {
                Some(next) => {
                    self.note_damage(header, "it is torn");
                    offset = next;
                }
                None if whole => {
                    self.note_damage(header, "its checksum differs");
                    offset = body + u64::from(header.length);
                }
                None => {
                    if header.kind == ChunkKind::Events {
                        self.take_chunk(header, &payload, body, true);
                    }
                    break;
                }
            }
        }
        if let Some(from) = skipped_from {
            self.suspect = true;
            self.warnings.push(Warning::Skipped {
                offset: from,
                bytes: length - from,
            });
        }
        Ok(())
    }

    fn note_damage(&mut self, header: ChunkHeader, problem: &str) {
        if header.kind == ChunkKind::Events {
            let process = self.processes.entry(header.process).or_default();
            let stream = process.threads.entry(header.thread).or_default();
            stream.damaged.insert(header.index, problem.into());
        }
    }

    fn take_chunk(&mut self, header: ChunkHeader, payload: &[u8], offset: u64, cut: bool) {
        let process = self.processes.entry(header.process).or_default();
        match header.kind {
            ChunkKind::Events => {
                let stream = process.threads.entry(header.thread).or_default();
                stream.chunks.entry(header.index).or_insert(Stored {
                    in_tail: false,
                    offset,
                    length: payload.len() as u32,
                    first_sequence: header.first_sequence,
                    cut,
                });
            }
            ChunkKind::Maps => process
                .maps
                .push(String::from_utf8_lossy(payload).into_owned()),
            ChunkKind::Statistics => {
                for line in statistics::parse(payload) {
                    match line {
                        Ok((counter, value)) => {
                            if counter == Counter::RunningAtExit && value > 0 {
                                let threads = value;
                                self.warnings.push(Warning::StillRunning { threads });
                            }
                            process.statistics.insert(counter.word(), value);
                        }
                        Err(line) => self.warnings.push(Warning::UnknownCounter {
                            line: String::from_utf8_lossy(line).into_owned(),
                        }),
                    }
                }
            }
        }
    }

    fn take_tail(&mut self, mut tail: File) -> io::Result<()> {
        let mut page = [0; tail::PAGE];
        if read_up_to(&mut tail, &mut page)? < tail::PAGE || page[..8] != tail::FILE_MAGIC {
            self.suspect = true;
            return Ok(());
        }
        if word(&page, tail::FILE_TROUBLE) != 0 {
            self.suspect = true;
        }
        let length = tail.seek(SeekFrom::End(0))?;
        let mut offset = tail::PAGE as u64;
        while offset + tail::PAGE as u64 <= length {
            tail.seek(SeekFrom::Start(offset))?;
            if read_up_to(&mut tail, &mut page)? < tail::PAGE
                || word(&page, tail::MAGIC) != tail::SLOT_MAGIC
            {
                break;
            }
            let capacity = word(&page, tail::CAPACITY);
            let used = word(&page, tail::USED);
            let body = offset + tail::PAGE as u64;
            if word(&page, tail::STATE) == 1
                && used > 0
                && used <= capacity
                && body + u64::from(used) <= length
            {
                self.take_slot(&page, used, body);
            }
            offset = body + u64::from(capacity);
        }
        self.tail = Some(tail);
        Ok(())
    }

    fn take_slot(&mut self, page: &[u8; tail::PAGE], used: u32, body: u64) {
        let process = self.processes.entry(word(page, tail::PROCESS)).or_default();
        let stream = process.threads.entry(word(page, tail::THREAD)).or_default();
        let index = word(page, tail::INDEX);
        // A chunk that is cut in the file is complete in the tail.
        if stream.chunks.get(&index).is_some_and(|chunk| !chunk.cut) {
            return;
        }
        self.suspect = true;
        stream.damaged.remove(&index);
        let first = std::array::from_fn(|at| page[tail::FIRST_SEQUENCE + at]);
        stream.chunks.insert(
            index,
            Stored {
                in_tail: true,
                offset: body,
                length: used,
                first_sequence: u64::from_le_bytes(first),
                cut: true,
            },
        );
    }
}

fn word(page: &[u8; tail::PAGE], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| page[at + index]))
}

/// Looks for headers in a window of the file, so that many false starts close together cost little.
struct Scanner<'a> {
    file: &'a mut File,
    window: Vec<u8>,
    start: u64,
}

impl Scanner<'_> {
    fn new(file: &mut File) -> Scanner<'_> {
        Scanner {
            file,
            window: Vec::new(),
            start: 0,
        }
    }

    /// The bytes from `offset` on, at least a header's length unless the file ends.
    fn bytes(&mut self, offset: u64) -> io::Result<&[u8]> {
        let end = self.start + self.window.len() as u64;
        if offset < self.start || offset + CHUNK_HEADER as u64 > end {
            self.start = offset;
            self.window.resize(64 << 10, 0);
            self.file.seek(SeekFrom::Start(offset))?;
            let length = read_up_to(self.file, &mut self.window)?;
            self.window.truncate(length);
        }
        Ok(&self.window[(offset - self.start) as usize..])
    }

    /// Where the next good header is, in `from..end`.
    fn find(&mut self, mut from: u64, end: u64) -> io::Result<Option<u64>> {
        let magic = wire::CHUNK_MAGIC.to_le_bytes();
        while from < end {
            let bytes = self.bytes(from)?;
            if bytes.len() < CHUNK_HEADER {
                break;
            }
            match bytes.windows(4).position(|bytes| bytes == magic) {
                // The magic may begin in the last three bytes.
                None => from += (bytes.len() - 3) as u64,
                Some(at) => {
                    from += at as u64;
                    if from >= end {
                        break;
                    }
                    let header = self.bytes(from)?.first_chunk().map(ChunkHeader::decode);
                    if !matches!(header, None | Some(Err(BadHeader::NotAHeader))) {
                        return Ok(Some(from));
                    }
                    from += 4;
                }
            }
        }
        Ok(None)
    }
}
