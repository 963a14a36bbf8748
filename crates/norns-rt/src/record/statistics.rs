//! What was counted, and where the program's code was loaded: chunks of their own in the file.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{early, file, stream, tail};
use crate::lock::Lock;
use crate::thread::Thread;
use crate::wire::statistics::Counter;
use crate::wire::{self, CHUNK_HEADER, ChunkHeader, ChunkKind};
use crate::{rest, sys};

/// Counters of threads that ended, or that have handed in theirs.
struct Count(Counter, AtomicU64);

impl Count {
    const fn new(counter: Counter) -> Self {
        Count(counter, AtomicU64::new(0))
    }

    pub fn add(&self, count: u64) {
        self.1.fetch_add(count, Ordering::Relaxed);
    }
}

static LOGGED: Count = Count::new(Counter::AccessesLogged);
static COVERED: Count = Count::new(Counter::AccessesCovered);
static BEFORE: Count = Count::new(Counter::AccessesBeforeFirstThread);
static IGNORED: Count = Count::new(Counter::AccessesIgnored);
static LOST: Count = Count::new(Counter::EventsLost);
static THREADS: Count = Count::new(Counter::ThreadsEnded);
static TAKEN_AWAY: Count = Count::new(Counter::TurnsTakenAway);
static ALL: [&Count; 7] = [
    &LOGGED,
    &COVERED,
    &BEFORE,
    &IGNORED,
    &LOST,
    &THREADS,
    &TAKEN_AWAY,
];

/// An access before the first thread exists. Only one thread can be here, so no atomic addition.
#[inline(always)]
pub fn count_before() {
    let count = BEFORE.1.load(Ordering::Relaxed);
    BEFORE.1.store(count + 1, Ordering::Relaxed);
}

pub fn thread_ended() {
    THREADS.add(1);
}

/// In a recording with values: the turn was taken from a thread that did not use it.
pub fn turn_taken_away() {
    TAKEN_AWAY.add(1);
}

/// An access while the program asked to ignore accesses.
#[cold]
pub fn count_ignored() {
    IGNORED.add(1);
}

/// The accesses in the trace, without those of live threads since they last handed in their counters.
pub fn accesses_logged() -> u64 {
    LOGGED.1.load(Ordering::Relaxed)
}

/// Takes over the counters of a thread and sets them to zero.
pub fn add(thread: &mut Thread) {
    LOGGED.add(thread.logged);
    COVERED.add(thread.covered.iter().sum());
    LOST.add(thread.lost);
    thread.logged = 0;
    thread.covered = [0; 10];
    thread.lost = 0;
}

pub fn forget() {
    for count in ALL {
        count.1.store(0, Ordering::Relaxed);
    }
    BUFFER.force(|buffer| buffer.maps = 0);
}

const ROOM: usize = 256 * 1024;

/// Where chunks are put together that are not of one thread.
struct Buffer {
    /// Chunks of maps so far.
    maps: u32,
    bytes: [u8; ROOM],
}

static BUFFER: Lock<Buffer> = Lock::new(Buffer {
    maps: 0,
    bytes: [0; ROOM],
});

impl Buffer {
    fn append(&mut self, kind: ChunkKind, process: u32, index: u32, length: usize) {
        let header = ChunkHeader {
            kind,
            process,
            thread: 0,
            index,
            length: length as u32,
            first_sequence: 0,
            checksum: wire::checksum(&self.bytes[CHUNK_HEADER..CHUNK_HEADER + length]),
        };
        for (to, from) in self.bytes.iter_mut().zip(header.encode()) {
            *to = from;
        }
        file::append(&self.bytes[..CHUNK_HEADER + length]);
    }
}

/// Where code is loaded now.
pub fn write_maps() {
    if stream::failed() {
        return;
    }
    let process = tail::process();
    BUFFER.with(|buffer| {
        const O_RDONLY_CLOEXEC: usize = 0o2000000;
        let maps = sys::open(b"/proc/self/maps\0", O_RDONLY_CLOEXEC);
        if maps < 0 {
            return;
        }
        let mut length = 0;
        loop {
            let result = sys::read(maps, &mut buffer.bytes[CHUNK_HEADER + length..]);
            if result <= 0 {
                break;
            }
            length += result as usize;
        }
        sys::close(maps);
        let index = buffer.maps;
        buffer.maps += 1;
        buffer.append(ChunkKind::Maps, process, index, length);
    });
}

pub fn write() {
    if stream::failed() {
        return;
    }
    let process = tail::process();
    let early_lost = early::lost();
    BUFFER.with(|buffer| {
        let mut text = Text {
            bytes: &mut buffer.bytes[CHUNK_HEADER..],
            length: 0,
        };
        for count in ALL {
            text.line(count.0, count.1.load(Ordering::Relaxed));
        }
        text.line(Counter::Instrumented, u64::from(super::sees_memory()));
        text.line(Counter::SequenceNumbers, stream::sequence_so_far());
        text.line(Counter::EarlyObjectsLost, early_lost);
        text.line(Counter::RunningAtExit, u64::from(rest::still_running()));
        if let Some(number) = stream::stopped_at() {
            text.line(Counter::StoppedAt, number);
        }
        let length = text.length;
        buffer.append(ChunkKind::Statistics, process, 0, length);
    });
}

struct Text<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Text<'_> {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn line(&mut self, counter: Counter, value: u64) {
        counter.encode(value, |byte| self.push(byte));
    }
}
