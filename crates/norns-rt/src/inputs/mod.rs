//! What the program gets from other processes through connections that it accepts, written down in a
//! recording (`wire::inputs`), so that a player outside can say the same again in replays. `served` has
//! the time and random bytes, `process_id` the id of the process.
//!
//! A connection is known by its descriptor from `accept` to `close`. What is received through a stream
//! of the C library, by `splice` or after a `dup2` is not seen; the connection is then noted as lost.

pub mod process_id;
pub mod served;

use core::ffi::c_char;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::channels::socket::is_datagram;
use crate::mode;
use crate::sys;
use crate::wire::environment;
use crate::wire::inputs::{FIRST, HEADER, KIND, Kind, MAGIC, at_connection, header, room};

/// The size of the file: all that can be written down. Pages that are not used take no room.
const SIZE: usize = 256 << 20;
/// The last word of the file holds the id of the process whose inputs it has.
const OWNER: usize = SIZE - 8;
/// Descriptors from this number on are not followed.
const MOST: usize = 4096;

static LOG: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// When the process began, in milliseconds.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static ACCEPTED: AtomicU32 = AtomicU32::new(0);

struct Connection {
    /// Counts the accepted connections from 1; 0 for a descriptor that is none.
    number: AtomicU32,
    /// How many bytes were sent through it.
    sent: AtomicU64,
}

static CONNECTIONS: [Connection; MOST] = [const {
    Connection {
        number: AtomicU32::new(0),
        sent: AtomicU64::new(0),
    }
}; MOST];

/// Called by the constructor of the library.
///
/// # Safety
/// `variables` is an array of C strings that ends with a null pointer; no other thread runs.
pub unsafe fn begin(variables: *const *const c_char) {
    const READ_WRITE_CLOEXEC: usize = 0o2 | 0o2_000_000;
    const READ_WRITE_CREATE_NEW_CLOEXEC: usize = READ_WRITE_CLOEXEC | 0o100 | 0o200;
    const FTRUNCATE: usize = 77;
    // SAFETY: the caller's promise.
    unsafe { served::begin(variables) };
    process_id::begin();
    // SAFETY: the caller's promise.
    let Some(path) = (unsafe { mode::variable(variables, environment::INPUTS) }) else {
        return;
    };
    // SAFETY: the value of a variable ends with a zero byte, which belongs to it here.
    let path = unsafe { core::slice::from_raw_parts(path.as_ptr(), path.len() + 1) };
    let mut file = sys::open(path, READ_WRITE_CREATE_NEW_CLOEXEC);
    let is_new = file >= 0;
    if !is_new {
        file = sys::open(path, READ_WRITE_CLOEXEC);
    }
    if file < 0 {
        return;
    }
    // SAFETY: has no effect on memory.
    let sized = unsafe { sys::call(FTRUNCATE, file as usize, SIZE, 0) };
    let log = match sized {
        0 => sys::map_file_far(file, SIZE),
        _ => core::ptr::null_mut(),
    };
    sys::close(file);
    if log.is_null() {
        return;
    }
    // SAFETY: the mapping is longer than its first words, and aligned to pages.
    let (end, owner) = unsafe { (end_of(log), &*log.add(OWNER).cast::<AtomicU64>()) };
    let own = sys::getpid() as u64;
    // What the process recorded before it became this program by `exec` is not this program's. One that
    // it has started is another process: what that one gets is its own.
    if !is_new && owner.load(Ordering::Relaxed) != own {
        return;
    }
    for (at, byte) in MAGIC.iter().enumerate() {
        // SAFETY: the mapping is larger than the magic number.
        unsafe { log.add(at).write(*byte) };
    }
    owner.store(own, Ordering::Relaxed);
    end.store(FIRST as u64, Ordering::Relaxed);
    BEGAN.store(milliseconds(), Ordering::Relaxed);
    LOG.store(log, Ordering::Release);
}

/// Milliseconds by the kernel's clock.
fn milliseconds() -> u64 {
    const CLOCK_GETTIME: usize = 228;
    const MONOTONIC: usize = 1;
    let mut now = [0_u64; 2];
    // SAFETY: the call writes two words to `now`.
    unsafe { sys::call(CLOCK_GETTIME, MONOTONIC, now.as_mut_ptr() as usize, 0) };
    now[0] * 1000 + now[1] / 1_000_000
}

/// The connection, at this time.
fn now_at(connection: u32) -> u64 {
    let passed = milliseconds() - BEGAN.load(Ordering::Relaxed);
    at_connection(passed as u32, connection)
}

/// The position behind the last record.
///
/// # Safety
/// `log` is the mapping.
unsafe fn end_of<'a>(log: *mut u8) -> &'a AtomicU64 {
    // SAFETY: the mapping is never given back; its second word is used in this way only.
    unsafe { &*log.add(8).cast::<AtomicU64>() }
}

/// A piece of memory.
pub type Part = (*const u8, usize);

/// Writes a record with `length` bytes from `parts`.
///
/// # Safety
/// The parts can be read.
unsafe fn write(
    kind: Kind,
    who: u64,
    number: u64,
    length: usize,
    parts: impl Iterator<Item = Part>,
) {
    let log = LOG.load(Ordering::Acquire);
    if log.is_null() {
        return;
    }
    let size = room(length);
    // SAFETY: `log` is the mapping.
    let at = unsafe { end_of(log) }.fetch_add(size as u64, Ordering::Relaxed) as usize;
    if at.saturating_add(size) > OWNER {
        // The end lies behind the file from now on, by which a reader knows that something is missing.
        return;
    }
    // SAFETY: the range was reserved for this thread, and lies within the mapping.
    unsafe {
        let record = log.add(at);
        for (index, byte) in header(length as u32, who, number).iter().enumerate() {
            record.add(index).write(*byte);
        }
        let mut to = record.add(HEADER);
        let mut left = length;
        for (from, length) in parts {
            let length = length.min(left);
            for index in 0..length {
                to.add(index).write(from.add(index).read());
            }
            to = to.add(length);
            left -= length;
        }
        let place = record.add(KIND).cast::<AtomicU32>();
        (*place).store(kind as u32, Ordering::Release);
    }
}

#[inline(always)]
fn connection(file: i32) -> Option<(&'static Connection, u32)> {
    if LOG.load(Ordering::Relaxed).is_null() {
        return None;
    }
    let connection = CONNECTIONS.get(usize::try_from(file).ok()?)?;
    let number = connection.number.load(Ordering::Relaxed);
    (number != 0).then_some((connection, number))
}

const LONGEST_NAME: usize = 128;

/// The name of one end of a socket.
fn name(call: usize, file: i32, room: &mut [u8; LONGEST_NAME]) -> usize {
    let mut length = LONGEST_NAME as u32;
    let (to, size) = (room.as_mut_ptr() as usize, &raw mut length as usize);
    // SAFETY: the kernel writes within `room` and to `length`.
    let result = unsafe { sys::call(call, file as usize, to, size) };
    if result < 0 {
        return 0;
    }
    (length as usize).min(LONGEST_NAME)
}

const GETSOCKNAME: usize = 51;
const GETPEERNAME: usize = 52;

/// A connection was accepted, or nothing.
pub fn accepted(file: i32) {
    let index = usize::try_from(file).ok();
    if LOG.load(Ordering::Relaxed).is_null() || index.is_none() {
        return;
    }
    let number = ACCEPTED.fetch_add(1, Ordering::Relaxed) + 1;
    let (mut own, mut other) = ([0; LONGEST_NAME], [0; LONGEST_NAME]);
    let own_length = name(GETSOCKNAME, file, &mut own);
    let other_length = name(GETPEERNAME, file, &mut other);
    let parts = [(own.as_ptr(), own_length), (other.as_ptr(), other_length)];
    let length = own_length + other_length;
    // SAFETY: the parts are of the two arrays.
    unsafe {
        write(
            Kind::Accepted,
            now_at(number),
            own_length as u64,
            length,
            parts.into_iter(),
        );
    }
    match index.and_then(|index| CONNECTIONS.get(index)) {
        Some(connection) => {
            connection.sent.store(0, Ordering::Relaxed);
            connection.number.store(number, Ordering::Relaxed);
        }
        None => note(Kind::Lost, number, 0),
    }
}

fn note(kind: Kind, connection: u32, number: u64) {
    // SAFETY: there are no parts.
    unsafe { write(kind, now_at(connection), number, 0, core::iter::empty()) };
}

/// Something was received through a descriptor, or the end was found.
///
/// # Safety
/// The parts hold as many bytes as `result` says.
#[inline(always)]
pub unsafe fn received(file: i32, result: isize, parts: impl Iterator<Item = Part>) {
    const ECONNRESET: i32 = 104;
    let Some((connection, number)) = connection(file) else {
        return;
    };
    let sent = connection.sent.load(Ordering::Relaxed);
    if result > 0 {
        // SAFETY: the caller's promise.
        unsafe { write(Kind::Received, now_at(number), sent, result as usize, parts) };
        return;
    }
    // SAFETY: the error number of this thread.
    if result == 0 || unsafe { *sys::__errno_location() } == ECONNRESET {
        note(Kind::Ended, number, sent);
    }
}

/// Something was sent through a descriptor.
#[inline(always)]
pub fn sent(file: i32, result: isize) {
    if let Some((connection, _)) = connection(file) {
        let bytes = result.max(0) as u64;
        connection.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// From now on bytes can be received that are not seen.
pub fn lost(file: i32) {
    if let Some((_, number)) = connection(file) {
        note(Kind::Lost, number, 0);
    }
}

/// The descriptor is about to be closed.
#[inline(always)]
pub fn closes(file: i32) {
    if let Some((connection, _)) = connection(file) {
        connection.number.store(0, Ordering::Relaxed);
    }
}

/// The process has connected a socket to this name: the other end may be its own.
///
/// # Safety
/// `to` is null or has `length` bytes.
pub unsafe fn connected(file: i32, to: *const u8, length: usize) {
    if LOG.load(Ordering::Relaxed).is_null() || to.is_null() {
        return;
    }
    let mut own = [0; LONGEST_NAME];
    let own_length = name(GETSOCKNAME, file, &mut own);
    let length = length.min(LONGEST_NAME);
    let parts = [(own.as_ptr(), own_length), (to, length)];
    // SAFETY: the first part is of the array, the second one is the caller's promise.
    unsafe {
        write(
            Kind::Connected,
            0,
            own_length as u64,
            own_length + length,
            parts.into_iter(),
        );
    }
}

/// A datagram was received: these are not written down.
#[inline(always)]
pub fn datagram(file: i32, result: isize) {
    if result > 0 && !LOG.load(Ordering::Relaxed).is_null() && connection(file).is_none() {
        note_datagram(file);
    }
}

#[cold]
fn note_datagram(file: i32) {
    static NOTED: AtomicU32 = AtomicU32::new(0);
    if is_datagram(file) && NOTED.swap(1, Ordering::Relaxed) == 0 {
        note(Kind::Lost, 0, 0);
    }
}
