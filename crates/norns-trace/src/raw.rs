//! From a raw recording to the items of a trace: one stream of a thread each, merged.
//!
//! Ordered events have a sequence number; what a thread did between two of them stands just before
//! the second. So a merge of the threads by the number of their next ordered event gives the order
//! of the run. A thread's stream is decoded chunk by chunk, from its first turn to its end: memory
//! follows the number of live threads.
//!
//! Objects are addresses; what is destroyed, initialised again or lies in freed memory is another
//! object from then on.
//!
//! When a part of a thread's stream is known to be missing the trace ends where that thread is not
//! known any more. When parts may be missing without a mark (a copy without its tail, a program
//! that was killed) the trace ends before the first event that cannot follow from the ones before:
//! a lock that another thread holds, the end of a wait for a thread that has not ended. What the other
//! threads did up to their next ordered events is added in either case, since it happened.
//!
//! A robust mutex that its owner held at its end is unlocked just before: the next owner is told so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::container::{FILE_HEADER, FileState, Items};
use crate::error::{Error, Warning};
use crate::event::{Access, AtomicKind, Event, MemoryOrder, ObjectId, Op, PlaceId, ThreadId};
use crate::item::{AccessValue, Info, Item, ORDERS, info};
use crate::raw_file::{RawFile, Stored, Stream};
use crate::reader::tail_path;
use crate::symbolise::Symboliser;
use crate::trace::{Custom, Object, ObjectKind, Place, Thread};
use crate::wire::{Code, Decoder, Record, Sites, ended, lost, object};

/// A record that owns its bytes.
#[derive(Clone, Debug)]
struct Owned {
    code: Code,
    detail: u8,
    pc: u64,
    address: u64,
    operands: [u64; 2],
    bytes: Vec<u8>,
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
struct Cursor {
    /// In order of their index, without a gap.
    chunks: VecDeque<Stored>,
    /// The stream goes on after its last chunk, but is lost: index and problem.
    missing: Option<(u32, String)>,
    taken: u32,
    payload: Vec<u8>,
    at: usize,
    sequence: u64,
    cut: bool,
    /// Only while a chunk is being decoded: most threads of a large program wait most of the time.
    sites: Option<Box<Sites>>,
    buffer: VecDeque<Owned>,
    /// Sequence numbers of the ordered events in the buffer.
    ordered: VecDeque<u64>,
    /// The next ordered event, when it is in a later chunk.
    beyond: Option<u64>,
}

impl Cursor {
    fn new(stream: &Stream) -> Cursor {
        let mut chunks = VecDeque::new();
        for (number, (&index, &chunk)) in stream.chunks.iter().enumerate() {
            if index as usize != number {
                break;
            }
            chunks.push_back(chunk);
        }
        let next = chunks.len() as u32;
        let missing = match stream.damaged.get(&next) {
            Some(problem) => Some((next, problem.clone())),
            None if stream.chunks.len() > chunks.len() => Some((next, "it is missing".into())),
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
            if !self.cut || !self.chunks.is_empty() {
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
    fn key(&mut self, raw: &mut RawFile) -> io::Result<Option<u64>> {
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

    fn pop(&mut self, raw: &mut RawFile) -> io::Result<Option<Owned>> {
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

    /// The next event, if it is a value of the one before.
    fn pop_value(&mut self, raw: &mut RawFile) -> io::Result<Option<Owned>> {
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
}

/// The items of a raw recording, one at a time.
pub struct RawItems {
    path: PathBuf,
    raw: RawFile,
    streams: BTreeMap<u32, Stream>,
    /// Threads that have had a turn and are not at their end.
    cursors: FxHashMap<u32, Cursor>,
    turns: BinaryHeap<Reverse<(u64, u32)>>,
    /// The thread whose turn it is, and the sequence number up to which it goes.
    turn: Option<(u32, u64)>,
    /// Parent and ordinal of every thread whose beginning was found.
    starts: FxHashMap<u32, (u32, u64)>,
    convert: Convert,
    ready: VecDeque<Item>,
    process: u32,
    /// The order is not known any more: each of these threads may still add what it did before its next
    /// ordered event, which happened in any case.
    last_words: Option<VecDeque<u32>>,
    ended: bool,
}

impl RawItems {
    /// `file` stands behind the file header. Without a process, the first that recorded events.
    pub fn open(path: &Path, file: File, wanted: Option<u32>) -> Result<RawItems, Error> {
        let failed = |cause| Error::Read {
            path: path.into(),
            cause,
        };
        let mut ready = VecDeque::new();
        let mut items = Items::new(&file, FileState::Raw);
        while let Some(item) = items.next().map_err(failed)? {
            ready.push_back(item);
        }
        let start = items.offset();
        let mut warnings = items.take_warnings();
        drop(items);
        let mut file = file;
        file.seek(SeekFrom::Start(FILE_HEADER as u64))
            .map_err(failed)?;
        let mut raw = RawFile::open(file, start, &tail_path(path)).map_err(failed)?;
        warnings.append(&mut raw.warnings);

        let recorded = raw
            .processes
            .iter()
            .filter(|(_, process)| !process.threads.is_empty());
        let mut others: Vec<u32> = recorded.map(|(&number, _)| number).collect();
        if others.is_empty() {
            warnings.push(Warning::NothingRecorded);
        }
        let chosen = wanted.or(others.first().copied()).unwrap_or(0);
        others.retain(|&number| number != chosen);
        if !others.is_empty() && wanted.is_none() {
            warnings.push(Warning::OtherProcesses {
                shown: chosen,
                others,
            });
        }
        let process = raw.processes.remove(&chosen).unwrap_or_default();
        let mut symboliser = Symboliser::new(process.maps.iter().map(String::as_str));
        warnings.append(&mut symboliser.take_warnings());
        warnings.append(&mut newer_modules(path, &symboliser));
        ready.extend(symboliser.module_infos().into_iter().map(Item::Info));
        let ordered = process
            .statistics
            .get("values")
            .is_some_and(|value| value != "0");
        if ordered {
            ready.push_back(info_item(info::ACCESSES, vec!["ordered".into()]));
        }
        for (name, value) in process.statistics {
            ready.push_back(info_item(info::COUNTER, vec![name, value]));
        }
        let suspect = raw.suspect;
        let mut items = RawItems {
            path: path.into(),
            raw,
            streams: process.threads,
            cursors: FxHashMap::default(),
            turns: BinaryHeap::new(),
            turn: None,
            starts: FxHashMap::default(),
            convert: Convert::new(symboliser, suspect, warnings),
            ready,
            process: chosen,
            last_words: None,
            ended: false,
        };
        items.find_starts().map_err(failed)?;
        Ok(items)
    }

    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.convert.warnings)
    }

    /// Decodes the first event of every thread: whose child it is, and when it begins.
    fn find_starts(&mut self) -> io::Result<()> {
        let mut sites = Box::new(Sites::EMPTY);
        let mut payload = Vec::new();
        for (&number, stream) in &self.streams {
            let Some(&first) = stream.chunks.get(&0) else {
                self.convert.unknown_beginning.insert(number);
                continue;
            };
            self.raw.load(first, &mut payload)?;
            let begin = &payload[..payload.len().min(4096)];
            let mut decoder = Decoder::new(begin, first.first_sequence, &mut sites);
            let Some(Ok(record)) = decoder.next() else {
                self.convert.unknown_beginning.insert(number);
                continue;
            };
            if record.code == Code::Start && number != 0 {
                let parent = u32::try_from(record.operands[0]).unwrap_or(u32::MAX);
                self.starts.insert(number, (parent, record.operands[1]));
            }
            let sequence = if record.code.ordered() {
                record.sequence
            } else {
                first.first_sequence
            };
            self.turns.push(Reverse((sequence, number)));
        }
        Ok(())
    }

    pub fn next(&mut self) -> Result<Option<Item>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.ended {
                return Ok(None);
            }
            let step = self.step();
            step.map_err(|cause| Error::Read {
                path: self.path.clone(),
                cause,
            })?;
        }
    }

    /// Takes in one record.
    fn step(&mut self) -> io::Result<()> {
        if self.last_words.is_some() {
            return self.hear_last_words();
        }
        let Some((number, limit)) = self.turn else {
            match self.turns.pop() {
                Some(Reverse((sequence, number))) => {
                    self.turn = Some((number, sequence));
                    let stream = &self.streams[&number];
                    self.cursors
                        .entry(number)
                        .or_insert_with(|| Cursor::new(stream));
                }
                None => self.ended = true,
            }
            return Ok(());
        };
        let cursor = self
            .cursors
            .get_mut(&number)
            .expect("a thread with a turn has a cursor");
        let Some(record) = cursor.pop(&mut self.raw)? else {
            self.end_of_stream(number);
            return Ok(());
        };
        let turn_ends = record.code.ordered();
        self.convert_record(number, record)?;
        if self.convert.stop {
            // What this thread did next came after the event that cannot be.
            self.cursors.remove(&number);
            self.stop();
            return Ok(());
        }
        let cursor = self
            .cursors
            .get_mut(&number)
            .expect("a thread with a turn has a cursor");
        if turn_ends {
            self.turn = None;
            // Damage further on in the stream can make a number smaller than one before; such a
            // thread is simply late.
            match cursor.key(&mut self.raw)? {
                Some(key) => self.turns.push(Reverse((key.max(limit), number))),
                None if cursor.missing.is_some() => self.end_of_stream(number),
                None => self.turns.push(Reverse((u64::MAX, number))),
            }
        }
        Ok(())
    }

    fn convert_record(&mut self, number: u32, record: Owned) -> io::Result<()> {
        let cursor = self
            .cursors
            .get_mut(&number)
            .expect("the record came from it");
        let mut value = AccessValue::default();
        let mut has_value = false;
        while matches!(
            record.code,
            Code::Read | Code::Write | Code::Atomic | Code::ReadRange | Code::WriteRange
        ) && let Some(found) = cursor.pop_value(&mut self.raw)?
        {
            has_value = true;
            match found.code {
                Code::ValueRead => value.read = found.bytes,
                _ => value.written = found.bytes,
            }
        }
        let names = Names {
            starts: &self.starts,
        };
        self.convert.take(
            number,
            &record,
            has_value.then_some(value),
            &names,
            &mut self.ready,
        );
        Ok(())
    }

    fn end_of_stream(&mut self, number: u32) {
        self.turn = None;
        let missing = self
            .cursors
            .get_mut(&number)
            .map(|cursor| cursor.missing.take());
        match missing.flatten() {
            None => {
                self.cursors.remove(&number);
            }
            Some((chunk, problem)) => {
                self.convert.warnings.push(Warning::DamagedRecording {
                    process: self.process,
                    thread: number,
                    chunk,
                    problem,
                });
                self.stop();
            }
        }
    }

    fn stop(&mut self) {
        self.turn = None;
        self.turns.clear();
        let mut threads: Vec<u32> = self.cursors.keys().copied().collect();
        threads.sort_unstable();
        self.last_words = Some(threads.into());
    }

    fn hear_last_words(&mut self) -> io::Result<()> {
        let Some(&number) = self.last_words.as_ref().and_then(VecDeque::front) else {
            self.ended = true;
            return Ok(());
        };
        let cursor = self
            .cursors
            .get_mut(&number)
            .expect("only threads with a cursor are asked");
        if cursor.buffer.is_empty() {
            cursor.pull(&mut self.raw)?;
        }
        match cursor.buffer.front() {
            Some(record) if !record.code.ordered() => {
                if let Some(record) = cursor.pop(&mut self.raw)? {
                    self.convert_record(number, record)?;
                }
            }
            _ => {
                self.cursors.remove(&number);
                self.last_words.as_mut().and_then(VecDeque::pop_front);
            }
        }
        Ok(())
    }
}

fn info_item(key: &str, values: Vec<String>) -> Item {
    Item::Info(Info {
        key: key.into(),
        values,
    })
}

/// Modules that are newer than the recording: it has no build ids yet to compare.
fn newer_modules(recording: &Path, symboliser: &Symboliser) -> Vec<Warning> {
    let changed = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|data| data.modified())
            .ok()
    };
    let recorded = changed(recording);
    let mut paths: Vec<String> = symboliser
        .module_infos()
        .into_iter()
        .map(|info| info.values[3].clone())
        .collect();
    paths.sort();
    paths.dedup();
    paths.retain(|path| recorded.is_some() && changed(Path::new(path)) > recorded);
    paths
        .into_iter()
        .map(|path| Warning::Rebuilt { path })
        .collect()
}

/// Where threads got their names from.
struct Names<'a> {
    starts: &'a FxHashMap<u32, (u32, u64)>,
}

/// From records to items.
struct Convert {
    symboliser: Symboliser,
    warnings: Vec<Warning>,
    threads: FxHashMap<u32, ThreadId>,
    names: Vec<String>,
    /// How many children each thread has forked so far.
    forks: FxHashMap<u32, u64>,
    /// How many functions each thread is in.
    depths: FxHashMap<u32, u64>,
    places: FxHashMap<u64, PlaceId>,
    customs: FxHashMap<Vec<u8>, u32>,
    /// What is at each address now: its kind, and its number once it was used.
    objects: BTreeMap<u64, (ObjectKind, Option<ObjectId>)>,
    object_count: usize,
    globals_seen: FxHashSet<usize>,
    unknown_beginning: FxHashSet<u32>,
    suspect: bool,
    /// Robust mutexes that each thread holds: its end releases them.
    robust: FxHashMap<ThreadId, Vec<ObjectId>>,
    /// Who holds each lock exclusively, and how often. Only kept when suspect.
    owners: FxHashMap<ObjectId, (ThreadId, u32)>,
    alive: FxHashSet<ThreadId>,
    events: u64,
    stop: bool,
}

impl Convert {
    fn new(symboliser: Symboliser, suspect: bool, warnings: Vec<Warning>) -> Convert {
        Convert {
            symboliser,
            warnings,
            threads: FxHashMap::default(),
            names: Vec::new(),
            forks: FxHashMap::default(),
            depths: FxHashMap::default(),
            places: FxHashMap::default(),
            customs: FxHashMap::default(),
            objects: BTreeMap::new(),
            object_count: 0,
            globals_seen: FxHashSet::default(),
            unknown_beginning: FxHashSet::default(),
            suspect,
            robust: FxHashMap::default(),
            owners: FxHashMap::default(),
            alive: FxHashSet::default(),
            events: 0,
            stop: false,
        }
    }

    fn take(
        &mut self,
        number: u32,
        record: &Owned,
        value: Option<AccessValue>,
        names: &Names,
        out: &mut VecDeque<Item>,
    ) {
        let thread = self.thread(number, names, out);
        let mut times = 1;
        let op = match record.code {
            Code::Start if number == 0 => return,
            Code::Start => Op::Start,
            Code::End => Op::End,
            Code::Fork | Code::Join | Code::FailedJoin | Code::Detach => {
                let other_number = u32::try_from(record.address).unwrap_or(u32::MAX);
                if record.code == Code::Fork {
                    *self.forks.entry(number).or_default() += 1;
                    self.name_child(other_number, number, thread, names, out);
                }
                let other = self.thread(other_number, names, out);
                match record.code {
                    Code::Fork => Op::Fork(other),
                    Code::Join => Op::Join(other),
                    Code::FailedJoin => Op::FailedJoin(other),
                    _ => Op::Detach(other),
                }
            }
            Code::Read
            | Code::Write
            | Code::ReadRange
            | Code::WriteRange
            | Code::Allocate
            | Code::Free => {
                let size = match record.code {
                    Code::Read | Code::Write => u64::from(record.detail),
                    _ => record.operands[0],
                };
                let Some(access) = access_of(record, size) else {
                    return;
                };
                match record.code {
                    Code::Read | Code::ReadRange => {
                        self.name_memory(access.address, out);
                        Op::Read(access)
                    }
                    Code::Write | Code::WriteRange => {
                        self.name_memory(access.address, out);
                        Op::Write(access)
                    }
                    Code::Allocate => Op::Allocate(access),
                    _ => {
                        self.end_objects(access);
                        Op::Free(access)
                    }
                }
            }
            Code::Atomic => {
                let size = 1 << (record.detail & 7).min(7);
                if access_of(record, size).is_none() {
                    return;
                }
                self.name_memory(record.address, out);
                Op::Atomic {
                    address: record.address,
                    size: size as u8,
                    kind: AtomicKind::from_number(record.detail >> 3),
                    order: order_of(record.detail >> 5),
                }
            }
            Code::Fence => Op::Fence(order_of(record.detail)),
            Code::Enter => {
                *self.depths.entry(number).or_default() += 1;
                Op::Enter
            }
            Code::Leave => {
                // What was entered before the recording began is left without an event.
                let depth = self.depths.entry(number).or_default();
                times = record.address.min(*depth);
                *depth -= times;
                Op::Leave
            }
            Code::Init | Code::Destroy => {
                let Some(kind) = kind_of(record.detail) else {
                    return;
                };
                self.objects.remove(&record.address);
                if record.code == Code::Destroy {
                    return;
                }
                self.objects.insert(record.address, (kind, None));
                let amount = u32::try_from(record.operands[0]).unwrap_or(u32::MAX);
                match kind {
                    ObjectKind::Barrier => Op::BarrierInit {
                        barrier: self.object(record, kind, out),
                        count: amount,
                    },
                    ObjectKind::Semaphore => Op::SemInit {
                        sem: self.object(record, kind, out),
                        value: amount,
                    },
                    _ => return,
                }
            }
            Code::Custom => Op::Custom(self.custom(&record.bytes, out)),
            Code::ValueRead | Code::ValueWritten | Code::Turn => return,
            Code::Lost => {
                let why = match record.detail {
                    lost::SIGNAL_HANDLER => "a signal handler interrupted the recorder",
                    lost::DISK => "the file could not be written",
                    _ => "the recorder lost them",
                };
                self.warnings.push(Warning::Lost {
                    thread: self.names[thread.index()].clone(),
                    events: record.operands[0],
                    why,
                });
                return;
            }
            Code::ProcessEnd => {
                let how = match record.detail {
                    ended::EXIT => "exit",
                    ended::IMMEDIATE_EXIT => "immediate-exit",
                    ended::ABORT => "abort",
                    ended::SIGNAL => "signal",
                    ended::EXEC => "exec",
                    _ => "unknown",
                };
                out.push_back(info_item(how, vec![record.operands[0].to_string()]));
                return;
            }
            code => {
                let Some(kind) = kind_of(record.detail) else {
                    return;
                };
                let object = self.object(record, kind, out);
                if kind == ObjectKind::RobustMutex {
                    let held = self.robust.entry(thread).or_default();
                    match code {
                        Code::Lock => held.push(object),
                        Code::Unlock => {
                            if let Some(at) = held.iter().rposition(|&other| other == object) {
                                held.remove(at);
                            }
                        }
                        _ => {}
                    }
                }
                match Op::on_object(code, object) {
                    Some(op) => op,
                    None => return,
                }
            }
        };
        if let Some(problem) = self.cannot_follow(thread, op) {
            self.warnings.push(Warning::Inconsistent {
                events: self.events,
                problem,
            });
            self.stop = true;
            return;
        }
        let place = self.place(record.pc, out);
        if op == Op::End {
            for mutex in self
                .robust
                .remove(&thread)
                .unwrap_or_default()
                .into_iter()
                .rev()
            {
                self.cannot_follow(thread, Op::Unlock(mutex));
                self.events += 1;
                let op = Op::Unlock(mutex);
                out.push_back(Item::Event(Event { thread, place, op }, None));
            }
        }
        for _ in 0..times {
            self.events += 1;
            out.push_back(Item::Event(Event { thread, place, op }, value.clone()));
        }
        if let Op::Fork(_) = op
            && self.unknown_beginning.contains(&(record.address as u32))
        {
            self.warnings.push(Warning::Inconsistent {
                events: self.events,
                problem: format!(
                    "the beginning of the thread forked at {:#x} is missing",
                    record.pc
                ),
            });
            self.stop = true;
        }
    }

    /// Why this event cannot happen now, when events before it may be missing.
    fn cannot_follow(&mut self, thread: ThreadId, op: Op) -> Option<String> {
        if !self.suspect {
            return None;
        }
        match op {
            Op::Start => {
                self.alive.insert(thread);
            }
            Op::End => {
                self.alive.remove(&thread);
            }
            Op::Join(other) if self.alive.contains(&other) => {
                return Some(format!(
                    "{} joins {}, whose end is missing",
                    self.names[thread.index()],
                    self.names[other.index()]
                ));
            }
            Op::Lock(object) => {
                let (owner, depth) = self.owners.entry(object).or_insert((thread, 0));
                if *owner != thread && *depth > 0 {
                    return Some(format!(
                        "{} locks what {} holds",
                        self.names[thread.index()],
                        self.names[owner.index()]
                    ));
                }
                *owner = thread;
                *depth = depth.saturating_add(1);
            }
            Op::Unlock(object) => {
                if let Some((_, depth)) = self.owners.get_mut(&object) {
                    *depth = depth.saturating_sub(1);
                }
            }
            _ => {}
        }
        None
    }

    fn thread(&mut self, number: u32, names: &Names, out: &mut VecDeque<Item>) -> ThreadId {
        if let Some(&thread) = self.threads.get(&number) {
            return thread;
        }
        // Parents have smaller numbers, so this ends; a parent that says otherwise is not believed.
        let start = names
            .starts
            .get(&number)
            .filter(|(parent, _)| *parent < number);
        let (name, parent) = match start {
            Some(&(parent, ordinal)) => {
                let parent = self.thread(parent, names, out);
                (
                    format!("{}.{ordinal}", self.names[parent.index()]),
                    Some(parent),
                )
            }
            None if number == 0 => ("T0".into(), None),
            None => (format!("T?{number}"), None),
        };
        self.define(number, name, parent, out)
    }

    /// A child whose own stream does not say so is named by who forked it.
    fn name_child(
        &mut self,
        child: u32,
        number: u32,
        parent: ThreadId,
        names: &Names,
        out: &mut VecDeque<Item>,
    ) {
        if !self.threads.contains_key(&child) && !names.starts.contains_key(&child) {
            let name = format!("{}.{}", self.names[parent.index()], self.forks[&number]);
            self.define(child, name, Some(parent), out);
        }
    }

    fn define(
        &mut self,
        number: u32,
        name: String,
        parent: Option<ThreadId>,
        out: &mut VecDeque<Item>,
    ) -> ThreadId {
        let thread = ThreadId::from_index(self.names.len());
        self.threads.insert(number, thread);
        self.names.push(name.clone());
        out.push_back(Item::Thread(Thread { name, parent }));
        thread
    }

    fn place(&mut self, pc: u64, out: &mut VecDeque<Item>) -> PlaceId {
        let next = PlaceId::from_index(self.places.len());
        *self.places.entry(pc).or_insert_with(|| {
            let frames = self.symboliser.frames(pc).to_vec();
            out.push_back(Item::Place(Place { pc, frames }));
            next
        })
    }

    fn object(&mut self, record: &Owned, kind: ObjectKind, out: &mut VecDeque<Item>) -> ObjectId {
        let entry = self.objects.entry(record.address).or_insert((kind, None));
        if entry.0 != kind {
            // Something else was put there without a word: it is another object.
            *entry = (kind, None);
        }
        *entry.1.get_or_insert_with(|| {
            let object = ObjectId::from_index(self.object_count);
            self.object_count += 1;
            let name = self.symboliser.name_of(record.address);
            out.push_back(Item::Object(Object {
                kind,
                address: record.address,
                name,
            }));
            object
        })
    }

    fn end_objects(&mut self, block: Access) {
        let end = block.address + u64::from(block.size);
        while let Some((&address, _)) = self.objects.range(block.address..end).next() {
            self.objects.remove(&address);
        }
    }

    fn custom(&mut self, bytes: &[u8], out: &mut VecDeque<Item>) -> u32 {
        let next = self.customs.len() as u32;
        if let Some(&known) = self.customs.get(bytes) {
            return known;
        }
        let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        let mut parts = text
            .split(|&byte| byte == 0)
            .map(|part| String::from_utf8_lossy(part).into_owned());
        let name = parts.next().unwrap_or_default();
        out.push_back(Item::Custom(Custom {
            name,
            fields: parts.collect(),
        }));
        self.customs.insert(bytes.to_vec(), next);
        next
    }

    fn name_memory(&mut self, address: u64, out: &mut VecDeque<Item>) {
        if let Some(global) = self.symboliser.global_at(address)
            && self.globals_seen.insert(global)
        {
            out.push_back(Item::Symbol(self.symboliser.global(global).clone()));
        }
    }
}

/// The bytes of an access; `None` when it is empty. The size of a freed block may be unknown.
fn access_of(record: &Owned, size: u64) -> Option<Access> {
    let size = match record.code {
        Code::Free => size.max(1),
        _ => size,
    };
    let room = u64::MAX - record.address;
    let size = size.min(room).min(u64::from(u32::MAX)) as u32;
    (size > 0).then_some(Access {
        address: record.address,
        size,
    })
}

fn order_of(number: u8) -> MemoryOrder {
    ORDERS
        .get(usize::from(number))
        .map_or(MemoryOrder::SeqCst, |&(_, order)| order)
}

fn kind_of(detail: u8) -> Option<ObjectKind> {
    Some(match detail & !object::SHARED {
        object::MUTEX => ObjectKind::Mutex,
        object::RECURSIVE_MUTEX => ObjectKind::RecursiveMutex,
        object::ERROR_CHECKING_MUTEX => ObjectKind::ErrorCheckingMutex,
        object::ROBUST_MUTEX => ObjectKind::RobustMutex,
        object::READER_WRITER_LOCK => ObjectKind::ReaderWriterLock,
        object::SPIN_LOCK => ObjectKind::SpinLock,
        object::ONCE => ObjectKind::Once,
        object::CONDITION => ObjectKind::Condition,
        object::BARRIER => ObjectKind::Barrier,
        object::SEMAPHORE => ObjectKind::Semaphore,
        _ => return None,
    })
}
