//! Calls that wait until descriptors are ready. One that found something to read comes after the
//! sends that can be there; one that timed out comes after nothing.

use core::ffi::{c_int, c_void};

use super::blocking::{away, away_unless};
use crate::channels::transfer::{self, found_ready};
use crate::channels::{self, Key, descriptor, kind, watches, watching};
use crate::mode::{is_guarded, is_off};
use crate::record::impatience;
use crate::{interpose, real};

type Bytes = *mut c_void;

/// `struct pollfd`.
#[repr(C)]
pub struct Polled {
    file: c_int,
    events: i16,
    found: i16,
}

/// `struct epoll_event`.
#[repr(C, packed)]
pub struct Event {
    events: u32,
    word: u64,
}

mod real_functions {
    use super::*;

    real! {
        fn poll(files: *mut Polled, count: usize, milliseconds: c_int) -> c_int;
        fn __poll_chk(files: *mut Polled, count: usize, milliseconds: c_int, room: usize) -> c_int;
        fn ppoll(files: *mut Polled, count: usize, time: Bytes, mask: Bytes) -> c_int;
        fn select(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes) -> c_int;
        fn pselect(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes, mask: Bytes) -> c_int;
        fn epoll_ctl(epoll: c_int, act: c_int, file: c_int, event: *const Event) -> c_int;
        fn epoll_wait(epoll: c_int, events: *mut Event, most: c_int, milliseconds: c_int) -> c_int;
        fn epoll_pwait(epoll: c_int, events: *mut Event, most: c_int, milliseconds: c_int, mask: Bytes) -> c_int;
        fn epoll_pwait2(epoll: c_int, events: *mut Event, most: c_int, time: Bytes, mask: Bytes) -> c_int;
    }
}

use real_functions as real_call;

/// How many of the second word of a `struct timespec`, or `struct timeval`, are a second.
const NANOSECONDS: i64 = 1_000_000_000;
const MICROSECONDS: i64 = 1_000_000;

const TO_READ: i16 = 0x1 | 0x2 | 0x40 | 0x80;
/// `POLLERR`, `POLLHUP`, `POLLRDHUP`.
const ENDED: i16 = 0x8 | 0x10 | 0x2000;

/// The first of these that a call is about to wait for until there is room in it.
///
/// # Safety
/// `files` are `count` entries of the program.
unsafe fn full(files: *const Polled, count: usize, at_once: bool) -> Option<c_int> {
    if at_once || !watching() {
        return None;
    }
    // SAFETY: the caller's promise.
    let mut files = (0..count).map(|index| unsafe { &*files.add(index) });
    let full = files.find(|polled| {
        polled.events & descriptor::TO_WRITE != 0
            && !descriptor::is_ready(polled.file, descriptor::TO_WRITE)
    });
    full.map(|polled| polled.file)
}

/// # Safety
/// `files` are `count` entries that a call has filled in.
unsafe fn polled(
    files: *const Polled,
    count: usize,
    result: c_int,
    full: Option<c_int>,
    pc: usize,
) {
    if result <= 0 || !watching() {
        return;
    }
    if let Some(file) = full.filter(|file| descriptor::is_ready(*file, descriptor::TO_WRITE)) {
        transfer::found_room(file, pc);
    }
    for index in 0..count {
        // SAFETY: the caller's promise.
        let polled = unsafe { &*files.add(index) };
        if polled.found & (TO_READ | ENDED) != 0 {
            found_ready(polled.file, polled.found & ENDED != 0, pc);
        }
    }
}

/// The sets that `select` has filled in.
///
/// # Safety
/// Each set is null or has room for `count` descriptors.
unsafe fn selected(sets: [Bytes; 2], count: c_int, result: c_int, pc: usize) {
    if result <= 0 || !watching() {
        return;
    }
    for set in sets.into_iter().filter(|set| !set.is_null()) {
        for file in 0..count.max(0) {
            // SAFETY: the caller's promise.
            let word = unsafe { set.cast::<u64>().add(file as usize / 64).read_unaligned() };
            if word >> (file % 64) & 1 != 0 {
                // A stream that has ended is ready too, and nothing says which it is.
                found_ready(file, true, pc);
            }
        }
    }
}

fn registration(word: u64) -> Key {
    Key::new(kind::WATCHED, word, 0)
}

/// # Safety
/// `events` are `result` events that a call has filled in.
unsafe fn happened(epoll: c_int, events: *const Event, result: c_int, pc: usize) {
    if result <= 0 || !watching() {
        return;
    }
    for index in 0..result as usize {
        // SAFETY: the caller's promise.
        let event = unsafe { events.add(index).read_unaligned() };
        let (found, word) = (event.events, event.word);
        // Whoever asked for this event comes before who gets it.
        channels::receive(registration(word), pc);
        if found & u32::from((TO_READ | ENDED) as u16) == 0 {
            continue;
        }
        for file in watches::files(epoll, word) {
            if file >= 0 {
                found_ready(file, found & u32::from(ENDED as u16) != 0, pc);
            }
        }
    }
}

interpose! {
    fn poll(files: *mut Polled, count: usize, milliseconds: c_int) -> c_int |pc| {
        let milliseconds = impatience::milliseconds(milliseconds);
        let full = full(files, count, milliseconds == 0);
        let result = away_unless(milliseconds == 0, || real_call::poll(files, count, milliseconds));
        polled(files, count, result, full, pc);
        result
    }
    fn __poll_chk(files: *mut Polled, count: usize, milliseconds: c_int, room: usize) -> c_int |pc| {
        let milliseconds = impatience::milliseconds(milliseconds);
        let full = full(files, count, milliseconds == 0);
        let result = away_unless(milliseconds == 0, || {
            real_call::__poll_chk(files, count, milliseconds, room)
        });
        polled(files, count, result, full, pc);
        result
    }
    fn ppoll(files: *mut Polled, count: usize, time: Bytes, mask: Bytes) -> c_int |pc| {
        let shorter = impatience::duration(time, NANOSECONDS);
        let time = shorter.as_ref().map_or(time, |own| (&raw const *own).cast_mut().cast());
        let full = full(files, count, false);
        let result = away(|| real_call::ppoll(files, count, time, mask));
        polled(files, count, result, full, pc);
        result
    }
    fn select(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes) -> c_int |pc| {
        let shorter = impatience::duration(time, MICROSECONDS);
        let time = shorter.as_ref().map_or(time, |own| (&raw const *own).cast_mut().cast());
        let result = away(|| real_call::select(count, read, write, except, time));
        selected([read, except], count, result, pc);
        result
    }
    fn pselect(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes, mask: Bytes) -> c_int |pc| {
        let shorter = impatience::duration(time, NANOSECONDS);
        let time = shorter.as_ref().map_or(time, |own| (&raw const *own).cast_mut().cast());
        let result = away(|| real_call::pselect(count, read, write, except, time, mask));
        selected([read, except], count, result, pc);
        result
    }
    fn epoll_ctl(epoll: c_int, act: c_int, file: c_int, event: *const Event) -> c_int |pc| {
        const REMOVE: c_int = 2;
        // Programs often say what they watch before they have threads.
        if act != REMOVE && !event.is_null() && !is_off() && !is_guarded() {
            let word = event.read_unaligned().word;
            watches::note(epoll, file, word);
            channels::send(registration(word), pc);
        }
        real_call::epoll_ctl(epoll, act, file, event)
    }
    fn epoll_wait(epoll: c_int, events: *mut Event, most: c_int, milliseconds: c_int) -> c_int |pc| {
        let milliseconds = impatience::milliseconds(milliseconds);
        let result = away_unless(milliseconds == 0, || {
            real_call::epoll_wait(epoll, events, most, milliseconds)
        });
        happened(epoll, events, result, pc);
        result
    }
    fn epoll_pwait(epoll: c_int, events: *mut Event, most: c_int, milliseconds: c_int, mask: Bytes) -> c_int |pc| {
        let milliseconds = impatience::milliseconds(milliseconds);
        let result = away_unless(milliseconds == 0, || {
            real_call::epoll_pwait(epoll, events, most, milliseconds, mask)
        });
        happened(epoll, events, result, pc);
        result
    }
    fn epoll_pwait2(epoll: c_int, events: *mut Event, most: c_int, time: Bytes, mask: Bytes) -> c_int |pc| {
        let result = away(|| real_call::epoll_pwait2(epoll, events, most, time, mask));
        happened(epoll, events, result, pc);
        result
    }
}
