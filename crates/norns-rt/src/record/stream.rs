//! The stream of one thread: appending events, handing full chunks to the file.
//!
//! Every event is complete in the mapped tail before its length counts, so a process killed at
//! any instruction leaves whole events. Nothing here allocates; a hook that finds room makes no
//! system call.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, compiler_fence};

use super::pending::Event;
use super::{file, statistics, tail};
use crate::mode::{Mode, mode};
use crate::thread::{MAX_DEPTH, NOWHERE, Thread};
use crate::wire::{self, ChunkHeader, ChunkKind, Code, MAX_EVENT};
use crate::{fast, sys};

/// On a cache line of its own: every synchronisation operation of every thread writes it.
#[repr(align(128))]
struct Sequence(AtomicU64);

static SEQUENCE: Sequence = Sequence(AtomicU64::new(0));

/// Whether events are still logged: one of the states below.
static STATE: AtomicU8 = AtomicU8::new(RUNNING);
const RUNNING: u8 = 0;
/// The file could not be written: events are counted and dropped.
const FAILED: u8 = 1;
/// The recording has as many events as it was to have: further ones are dropped.
const FULL: u8 = 2;

/// How many events the recording is to have at least, before it may be full.
static MOST_EVENTS: AtomicU64 = AtomicU64::new(u64::MAX);
/// When it is full: the sequence number up to which it is complete.
static STOPPED_AT: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
pub fn next_sequence() -> u64 {
    SEQUENCE.0.fetch_add(1, Ordering::SeqCst) + 1
}

pub fn sequence_so_far() -> u64 {
    SEQUENCE.0.load(Ordering::Relaxed)
}

/// Whether events are dropped.
#[inline(always)]
pub fn stopped() -> bool {
    STATE.load(Ordering::Relaxed) != RUNNING
}

/// Whether the file could not be written.
pub fn failed() -> bool {
    STATE.load(Ordering::Relaxed) == FAILED
}

/// The sequence number up to which a recording that is full is complete.
pub fn stopped_at() -> Option<u64> {
    (STATE.load(Ordering::Relaxed) == FULL).then(|| STOPPED_AT.load(Ordering::Relaxed))
}

/// From the constructor: how many events are enough.
pub fn set_most_events(most: u64) {
    MOST_EVENTS.store(most, Ordering::Relaxed);
}

/// The child process after a fork is another recording.
pub fn forget() {
    SEQUENCE.0.store(0, Ordering::Relaxed);
    if STATE.load(Ordering::Relaxed) == FULL {
        STATE.store(RUNNING, Ordering::Relaxed);
        fast::mode_changed();
    }
}

/// Ends the recording if it has enough events. Every event with a sequence number that was taken by
/// now is in the file or in a tail, or will be; later ones may be missing in some threads, and a reader
/// leaves them out.
fn stop_if_full() {
    let most = MOST_EVENTS.load(Ordering::Relaxed);
    let events = statistics::accesses_logged().saturating_add(sequence_so_far());
    if events <= most {
        return;
    }
    let number = SEQUENCE.0.load(Ordering::SeqCst);
    let first = STOPPED_AT.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst);
    if first.is_ok() {
        STATE.store(FULL, Ordering::SeqCst);
        fast::switch_off();
        statistics::write();
    }
}

impl Thread {
    #[inline(always)]
    fn enter_recorder(&mut self) {
        // Volatile: a signal handler on this thread reads it.
        // SAFETY: `busy` is a field of this thread's own block.
        unsafe { (&raw mut self.busy).write_volatile(1) };
        compiler_fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn leave_recorder(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `busy` is a field of this thread's own block.
        unsafe { (&raw mut self.busy).write_volatile(0) };
        compiler_fence(Ordering::SeqCst);
        if !self.pending.is_empty() {
            self.drain(u64::MAX);
        }
    }

    #[inline(always)]
    pub fn in_recorder(&self) -> bool {
        // SAFETY: `busy` is a field of this thread's own block.
        unsafe { (&raw const self.busy).read_volatile() != 0 }
    }

    /// One access that the filter did not cover.
    #[inline(always)]
    pub fn log_access(&mut self, code: Code, size: u8, pc: usize, address: usize) {
        self.enter_recorder();
        self.logged += 1;
        if self.ready() {
            self.put(code, size, pc, address, None, &[]);
        }
        self.leave_recorder();
    }

    /// One event of any other kind. Takes the sequence number of an ordered one.
    #[inline(never)]
    pub fn log(&mut self, code: Code, detail: u8, pc: usize, address: usize, operands: [u64; 2]) {
        if code.ordered() {
            self.filter.next_segment();
        }
        self.log_within_segment(code, detail, pc, address, operands);
    }

    /// For allocations, which are ordered but are no synchronisation.
    pub fn log_within_segment(
        &mut self,
        code: Code,
        detail: u8,
        pc: usize,
        address: usize,
        operands: [u64; 2],
    ) {
        if self.values.has_write() {
            self.settle();
        }
        if code.ordered() {
            self.values.ordered_event();
        }
        if stopped() {
            // Events after a lost one would not be consistent with the rest of the trace.
            self.lost += u64::from(failed());
            return;
        }
        if self.in_recorder() {
            let sequence = if code.ordered() { next_sequence() } else { 0 };
            let event = Event {
                code,
                detail,
                pc,
                address,
                operands,
                sequence,
            };
            if !self.pending.push(event) {
                self.lost += 1;
            }
            return;
        }
        self.enter_recorder();
        if self.ready() {
            let sequence = code.ordered().then(next_sequence);
            let operands = &operands[..code.operands().min(2)];
            if self.pending.is_empty() || self.drain(sequence.unwrap_or(0)) {
                self.put(code, detail, pc, address, sequence, operands);
            }
        }
        self.leave_recorder();
    }

    /// The turn was taken from this thread when the sequence had come to `number`.
    pub fn log_turn(&mut self, number: u64) {
        // Events of a signal handler may have come later.
        if stopped() || self.in_recorder() || number <= self.sequence {
            return;
        }
        self.values.ordered_event();
        self.enter_recorder();
        if self.ready() {
            self.put(Code::Turn, 0, 0, 0, Some(number), &[]);
        }
        self.leave_recorder();
    }

    /// An event with bytes, cut at what fits in one event.
    pub fn log_bytes(&mut self, code: Code, pc: usize, address: usize, bytes: &[u8]) {
        const MOST: usize = 1024;
        if self.in_recorder() {
            self.lost += 1;
            return;
        }
        let bytes = &bytes[..bytes.len().min(MOST)];
        self.enter_recorder();
        if self.ready() && self.room_for(bytes.len()) {
            // SAFETY: `ready` and `room_for` left this much room behind `position`.
            let out = unsafe { &mut *self.position.cast::<[u8; MAX_EVENT]>() };
            let (at, defined) = self.sites.put(out, pc as u64, code, 0, address as u64);
            self.note(defined);
            let mut at = wire::put_varint(out, at, bytes.len() as u64);
            for byte in bytes {
                // SAFETY: as above; `at` grows to at most MAX_EVENT and the length of `bytes`.
                unsafe { self.position.add(at).write(*byte) };
                at += 1;
            }
            self.commit(at);
        }
        self.leave_recorder();
    }

    /// Brings the calls in the trace up to date and makes room for one more event. False when
    /// the event must be dropped.
    #[inline(always)]
    fn ready(&mut self) -> bool {
        let stack = &self.stack;
        if (stack.depth != stack.logged || stack.common != stack.logged) && !self.log_calls() {
            return false;
        }
        self.position <= self.limit || self.flush_or_drop()
    }

    fn room_for(&mut self, length: usize) -> bool {
        // SAFETY: `limit` lies `MAX_EVENT` before the end of the payload, and the test only
        // compares addresses.
        if self.position.wrapping_add(length) <= self.limit {
            return true;
        }
        self.flush_or_drop() && self.position.wrapping_add(length) <= self.limit
    }

    #[inline(always)]
    fn put(
        &mut self,
        code: Code,
        detail: u8,
        pc: usize,
        address: usize,
        sequence: Option<u64>,
        operands: &[u64],
    ) {
        // SAFETY: `ready` found `position` at most at `limit`, `MAX_EVENT` bytes before the end.
        let out = unsafe { &mut *self.position.cast::<[u8; MAX_EVENT]>() };
        let (mut at, defined) = self.sites.put(out, pc as u64, code, detail, address as u64);
        if let Some(sequence) = sequence {
            at = wire::put_varint(out, at, sequence - self.sequence);
            self.sequence = sequence;
        }
        for operand in operands {
            at = wire::put_varint(out, at, *operand);
        }
        self.note(defined);
        self.commit(at);
    }

    #[inline(always)]
    fn note(&mut self, defined: Option<u16>) {
        if let Some(slot) = defined {
            if let Some(entry) = self.defined.get_mut(self.defined_count) {
                *entry = slot;
            }
            self.defined_count += 1;
        }
    }

    /// The event behind `position` is complete.
    #[inline(always)]
    fn commit(&mut self, length: usize) {
        compiler_fence(Ordering::Release);
        self.position = self.position.wrapping_add(length);
        let used = self.position as usize - self.slot as usize - wire::tail::PAGE;
        // SAFETY: `slot` is this thread's header in the tail; the field is aligned.
        unsafe {
            self.slot
                .add(wire::tail::USED)
                .cast::<u32>()
                .write_volatile(used as u32);
        };
    }

    /// Writes the calls that were left and entered since the last event. False when the event
    /// they belong to must be dropped.
    #[cold]
    fn log_calls(&mut self) -> bool {
        let common = self.stack.common.min(MAX_DEPTH);
        let logged = self.stack.logged.min(MAX_DEPTH);
        let depth = self.stack.depth.min(MAX_DEPTH);
        if logged > common {
            if self.position > self.limit && !self.flush_or_drop() {
                return false;
            }
            self.put(Code::Leave, 0, 0, logged - common, None, &[]);
        }
        for index in common..depth {
            if self.position > self.limit && !self.flush_or_drop() {
                // Calls that are written already stay in the stream.
                self.stack.logged = index;
                self.stack.common = index;
                return false;
            }
            let pc = self.stack.frames[index].pc;
            self.put(Code::Enter, 0, pc, 0, None, &[]);
        }
        self.stack.logged = self.stack.depth;
        self.stack.common = self.stack.depth;
        true
    }

    /// Writes the events of signal handlers that interrupted the recorder before it took this number,
    /// and makes room for one more event. False when that must be dropped.
    #[cold]
    fn drain(&mut self, before: u64) -> bool {
        let signals = sys::block_signals();
        let mut index = 0;
        while let Some(event) = self
            .pending
            .get(index)
            .filter(|event| event.sequence < before)
        {
            index += 1;
            if self.position > self.limit && !self.flush_or_drop() {
                continue;
            }
            let sequence = if !event.code.ordered() {
                None
            } else if event.sequence > self.sequence {
                Some(event.sequence)
            } else {
                Some(next_sequence())
            };
            let operands = &event.operands[..event.code.operands().min(2)];
            self.put(
                event.code,
                event.detail,
                event.pc,
                event.address,
                sequence,
                operands,
            );
        }
        self.pending.forget(index);
        sys::restore_signals(signals);
        self.position <= self.limit || self.flush_or_drop()
    }

    #[cold]
    fn flush_or_drop(&mut self) -> bool {
        if self.slot.is_null() && !self.begin_stream() {
            self.lost += u64::from(stopped_at().is_none());
            return false;
        }
        if self.position <= self.limit {
            return true;
        }
        let flushed = self.flush();
        if !flushed {
            self.lost += u64::from(stopped_at().is_none());
        }
        flushed
    }

    /// Hands what is in the tail to the file and begins a new chunk. False when that failed;
    /// then the tail stays as it is.
    pub fn flush(&mut self) -> bool {
        if stopped() || self.slot.is_null() {
            return false;
        }
        let used = self.position as usize - self.slot as usize - wire::tail::PAGE;
        if used == 0 {
            return true;
        }
        let signals = sys::block_signals();
        let header = tail::Header(self.slot);
        // SAFETY: header page and payload are mapped and this thread's own.
        let bytes = unsafe {
            let payload = self.slot.add(wire::tail::PAGE);
            let chunk = ChunkHeader {
                kind: ChunkKind::Events,
                process: header.get(wire::tail::PROCESS),
                thread: header.get(wire::tail::THREAD),
                index: header.get(wire::tail::INDEX),
                length: used as u32,
                first_sequence: header.first_sequence(),
                checksum: wire::checksum(core::slice::from_raw_parts(payload, used)),
            };
            let before = payload.sub(wire::CHUNK_HEADER);
            before
                .cast::<[u8; wire::CHUNK_HEADER]>()
                .write(chunk.encode());
            core::slice::from_raw_parts(before, wire::CHUNK_HEADER + used)
        };
        let written = file::append(bytes);
        if written {
            header.next_chunk(self.sequence);
            self.start_chunk();
            statistics::add(self);
            if mode() == Mode::Record {
                stop_if_full();
            }
        } else {
            STATE.store(FAILED, Ordering::Relaxed);
            tail::note_trouble();
        }
        sys::restore_signals(signals);
        written && !stopped()
    }

    /// The thread left the recorder by `longjmp` or cancellation out of a signal handler: what
    /// was half written does not count, but the table of sites may be ahead of the stream.
    pub fn recover(&mut self) {
        if self.in_recorder() {
            self.flush();
            self.leave_recorder();
        }
    }

    /// Gets a slot of the tail file, or plain memory.
    fn begin_stream(&mut self) -> bool {
        if stopped() {
            return false;
        }
        let slot = tail::claim(self.number);
        if slot.is_null() {
            return false;
        }
        tail::Header(slot).set_first_sequence(self.sequence);
        self.slot = slot;
        self.start_chunk();
        true
    }

    /// Every chunk can be decoded alone, so its table of sites starts empty. (The calls do not
    /// start anew: a reader carries them along.)
    fn start_chunk(&mut self) {
        self.forget_sites();
        let capacity = tail::Header(self.slot).get(wire::tail::CAPACITY) as usize;
        self.position = self.slot.wrapping_add(wire::tail::PAGE);
        self.limit = self.position.wrapping_add(capacity - MAX_EVENT);
    }

    fn forget_sites(&mut self) {
        if self.defined_count <= self.defined.len() {
            for slot in &self.defined[..self.defined_count] {
                self.sites.forget(*slot);
            }
        } else {
            self.sites.clear();
        }
        self.defined_count = 0;
    }

    /// The last chunk of a thread that ends.
    pub fn end_stream(&mut self) {
        if !self.slot.is_null() && self.flush() {
            tail::release(self.slot);
        }
        self.forget_stream();
    }

    /// Leaves the stream where it is; the next event would begin another.
    pub fn forget_stream(&mut self) {
        self.forget_sites();
        self.slot = core::ptr::null_mut();
        self.position = NOWHERE;
        self.limit = core::ptr::null_mut();
        self.sequence = 0;
        self.pending.clear();
        self.busy = 0;
        self.stack.logged = 0;
        self.stack.common = 0;
        self.covered = [0; 10];
        self.logged = 0;
        self.lost = 0;
    }
}
