//! Turns a raw recording into the items of a trace, by merging the streams of its threads.
//!
//! Ordered events have a sequence number; what a thread did between two of them stands just before
//! the second. So a merge of the threads by the number of their next ordered event gives the order
//! of the run. A thread's stream is decoded chunk by chunk, from its first turn to its end, so that
//! memory grows with the number of live threads only.
//!
//! `cursor` is the stream of one thread, `convert` makes items of its records.
//!
//! When a part of a thread's stream is known to be missing the trace ends where that thread is not
//! known any more. When parts may be missing without a mark (a copy without its tail, a program
//! that was killed) the trace ends before the first event that cannot follow from the ones before:
//! a lock that another thread holds, the end of a wait for a thread that has not ended. What the other
//! threads did up to their next ordered events is added in either case, since it happened.

mod convert;
mod cursor;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::container::{FILE_HEADER, FileState, Items};
use crate::error::{Error, Warning};
use crate::item::{AccessValue, Item, info};
use crate::raw_file::{RawFile, Stream};
use crate::reader::tail_path;
use crate::symbolise::Symboliser;
use convert::{Convert, Names, info_item};
use cursor::{Cursor, Owned};
use norns_wire::statistics::Counter;
use norns_wire::{Code, Decoder, Sites};

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
    /// Set when the order of further events is unknown. Each of these threads still adds what it did
    /// before its next ordered event, since that happened in any case.
    unordered_rest: Option<VecDeque<u32>>,
    /// The recording was stopped when it had enough events: it is complete up to this sequence number.
    stopped_at: Option<u64>,
    /// How many events were handed out.
    events: u64,
    ended: bool,
}

impl RawItems {
    /// `file` is positioned after the file header. Without `wanted`, the process is the first that
    /// recorded more than one thread, or else the first that recorded events.
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
        if let Some(found) = raw.other_version {
            return Err(Error::StreamVersion {
                path: path.into(),
                found,
            });
        }
        warnings.append(&mut raw.warnings);

        let recorded_threads = |more_than: usize| {
            let processes = raw.processes.iter();
            let recorded = processes.filter(move |(_, process)| process.threads.len() > more_than);
            recorded.map(|(&number, _)| number)
        };
        let mut others: Vec<u32> = recorded_threads(0).collect();
        if others.is_empty() {
            warnings.push(Warning::NothingRecorded);
        }
        let first = recorded_threads(1).next().or(others.first().copied());
        let chosen = wanted.or(first).unwrap_or(0);
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
        let stopped_at = process.statistics.get(Counter::StoppedAt.word()).copied();
        for (name, value) in process.statistics {
            let values = vec![name.into(), value.to_string()];
            ready.push_back(info_item(info::COUNTER, values));
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
            unordered_rest: None,
            stopped_at,
            events: 0,
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
                self.events += u64::from(matches!(item, Item::Event(..)));
                return Ok(Some(item));
            }
            if self.ended {
                if self.stopped_at.take().is_some() {
                    let events = self.events;
                    self.convert.warnings.push(Warning::Shortened { events });
                }
                return Ok(None);
            }
            let step = self.step();
            step.map_err(|cause| Error::Read {
                path: self.path.clone(),
                cause,
            })?;
        }
    }

    /// Takes in one record, or ends a turn.
    fn step(&mut self) -> io::Result<()> {
        if self.unordered_rest.is_some() {
            return self.take_unordered_rest();
        }
        let Some((number, limit)) = self.turn else {
            match self.turns.pop() {
                Some(Reverse((sequence, _)))
                    if { self.stopped_at }.is_some_and(|at| sequence > at) =>
                {
                    self.stop();
                }
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
            // What this thread did next came after the event that cannot have happened here.
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
            // Damage further on in the stream can make a sequence number smaller than an earlier one;
            // the order of the turns must not go back because of it.
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
        self.unordered_rest = Some(threads.into());
    }

    fn take_unordered_rest(&mut self) -> io::Result<()> {
        let Some(&number) = self.unordered_rest.as_ref().and_then(VecDeque::front) else {
            self.ended = true;
            return Ok(());
        };
        let cursor = self
            .cursors
            .get_mut(&number)
            .expect("only threads with a cursor are asked");
        match cursor.pop_unordered(&mut self.raw)? {
            Some(record) => self.convert_record(number, record)?,
            None => {
                self.cursors.remove(&number);
                self.unordered_rest.as_mut().and_then(VecDeque::pop_front);
            }
        }
        Ok(())
    }
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
