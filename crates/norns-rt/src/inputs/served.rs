//! The time and random bytes: written down in a recording, and in replays the same again for every thread
//! that asks in the same order.
//!
//! The clocks of a replay are those of the recording. A clock never goes back: under another schedule a
//! thread may ask before one that asked first in the recording. A thread that asks more often than it did
//! gets the time that has passed since. Absolute times of the program are therefore not the kernel's:
//! `deadline` turns one into the other, for every timed wait.
//!
//! Not served: the time that the C library asks for inside itself, `rdtsc` and `rdrand`, and what a stream
//! reads from `/dev/urandom`.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::{LOG, end_of, write};
use crate::files;
use crate::mode;
use crate::sys;
use crate::thread::{self, Thread};
use crate::wire::environment;
use crate::wire::files::Problem;
use crate::wire::inputs::{FIRST, HEADER, KIND, Kind, MAGIC, room};

/// The recording from which this run is served, and its length.
static SERVED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Beyond this part of the file neither is written down any more: the rest is for connections.
const MOST_BYTES: u64 = 32 << 20;

/// `struct timespec`.
pub type Time = [i64; 2];
const SECOND: i64 = 1_000_000_000;

/// What `time` returns is written down under a number that is no clock's.
pub const SECONDS: c_int = 100;

const CLOCKS: usize = 12;
/// What was served last by every clock, in nanoseconds.
static LAST: [AtomicI64; CLOCKS] = [const { AtomicI64::new(0) }; CLOCKS];
/// How far the clocks of this run are ahead of the kernel's: those of the day, and those since the start.
static AHEAD: [AtomicI64; 2] = [const { AtomicI64::new(0) }; 2];

/// Called by the constructor of the library.
///
/// # Safety
/// `variables` is an array of C strings that ends with a null pointer; no other thread runs.
pub unsafe fn begin(variables: *const *const c_char) {
    const END: usize = 2;
    // SAFETY: the caller's promise.
    let Some(path) = (unsafe { mode::variable(variables, environment::SERVED) }) else {
        return;
    };
    // SAFETY: the value of a variable ends with a zero byte, which belongs to it here.
    let path = unsafe { core::slice::from_raw_parts(path.as_ptr(), path.len() + 1) };
    const READ_WRITE_CLOEXEC: usize = 0o2 | 0o2_000_000;
    let file = sys::open(path, READ_WRITE_CLOEXEC);
    if file < 0 {
        return;
    }
    // SAFETY: has no effect on memory.
    let length = unsafe { sys::call(sys::LSEEK, file as usize, 0, END) };
    if length >= FIRST as isize {
        let start = sys::map_file_far(file, length as usize);
        // SAFETY: the mapping is longer than the magic number.
        let is_magic = |at: usize| unsafe { start.add(at).read() } == MAGIC[at];
        if !start.is_null() && (0..MAGIC.len()).all(is_magic) {
            LENGTH.store(length as usize, Ordering::Relaxed);
            SERVED.store(start, Ordering::Release);
        }
    }
    sys::close(file);
}

/// Whether this is a process that the program forked.
static IN_CHILD: AtomicBool = AtomicBool::new(false);

/// In the child process after a fork: what it asks for is neither written down nor served. Its clocks go
/// on.
pub fn forked() {
    IN_CHILD.store(true, Ordering::Relaxed);
    SERVED.store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// Whether this is a process that the program forked.
pub fn in_child() -> bool {
    IN_CHILD.load(Ordering::Relaxed)
}

/// The id of the recorded process, if it asked for it.
pub fn process_id() -> Option<i32> {
    let record = next(Kind::Process, 0, FIRST)?;
    i32::try_from(record.number).ok()
}

/// Whether what is asked for can be written down.
fn is_written(log: *mut u8) -> bool {
    // SAFETY: `log` is the mapping.
    !in_child() && unsafe { end_of(log) }.load(Ordering::Relaxed) < MOST_BYTES
}

/// How far a thread has come in what it is served.
#[derive(Clone, Copy, Default)]
pub struct Cursor {
    times: usize,
    random: usize,
}

impl Cursor {
    pub const START: Cursor = Cursor {
        times: 0,
        random: 0,
    };
}

/// The name of a child as a number, by that of its parent.
pub fn name_of_child(parent: u64, ordinal: u32) -> u64 {
    let mixed = (parent ^ u64::from(ordinal)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

/// A record of the recording: its number, and where its bytes are.
struct Served {
    number: u64,
    bytes: *const u8,
    length: usize,
    /// Where the next one begins.
    end: usize,
}

/// The next record of this kind for a thread, from `at` on.
fn next(kind: Kind, name: u64, at: usize) -> Option<Served> {
    let start = SERVED.load(Ordering::Acquire);
    let length = LENGTH.load(Ordering::Relaxed);
    let mut at = at.max(FIRST);
    if start.is_null() {
        return None;
    }
    // SAFETY: `at + 8` lies within the mapping wherever this is called.
    let word = |at: usize| unsafe { start.add(at).cast::<u64>().read_unaligned() };
    while at + HEADER <= length {
        let head = word(at);
        let (bytes, found) = (head as u32 as usize, (head >> (8 * KIND)) as u32);
        let end = at.saturating_add(room(bytes));
        if end > length {
            return None;
        }
        if found == kind as u32 && word(at + 8) == name {
            return Some(Served {
                number: word(at + 16),
                // SAFETY: the record lies within the mapping.
                bytes: unsafe { start.add(at + HEADER) },
                length: bytes,
                end,
            });
        }
        at = end;
    }
    None
}

fn is_off() -> bool {
    LOG.load(Ordering::Relaxed).is_null() && LENGTH.load(Ordering::Relaxed) == 0
}

/// Which of `AHEAD` belongs to a clock.
fn ahead(clock: c_int) -> Option<&'static AtomicI64> {
    match clock {
        0 | 5 | SECONDS => Some(&AHEAD[0]),
        1 | 4 | 6 | 7 => Some(&AHEAD[1]),
        _ => None,
    }
}

fn nanoseconds(time: Time) -> i64 {
    time[0].saturating_mul(SECOND).saturating_add(time[1])
}

fn time_of(nanoseconds: i64) -> Time {
    [
        nanoseconds.div_euclid(SECOND),
        nanoseconds.rem_euclid(SECOND),
    ]
}

/// The time that the program gets when the kernel says `real`.
#[inline(always)]
pub fn time(clock: c_int, real: Time) -> Time {
    if is_off() { real } else { timed(clock, real) }
}

#[cold]
fn timed(clock: c_int, real: Time) -> Time {
    let Some(thread) = thread::current() else {
        return real;
    };
    let log = LOG.load(Ordering::Acquire);
    if !log.is_null() {
        if is_written(log) {
            let (start, size) = (real.as_ptr().cast(), size_of::<Time>());
            let parts = core::iter::once((start, size));
            // SAFETY: the part is `real`.
            unsafe { write(Kind::Time, thread.name, clock as u64, size, parts) };
        }
        return real;
    }
    let passed = nanoseconds(real);
    let ahead = ahead(clock);
    let mut now = passed + ahead.map_or(0, |ahead| ahead.load(Ordering::Relaxed));
    if let Some(recorded) = recorded(thread, clock) {
        now = nanoseconds(recorded);
    }
    if let Some(last) = LAST.get(clock as usize) {
        now = now.max(last.fetch_max(now, Ordering::Relaxed));
    }
    if let Some(ahead) = ahead {
        let new = now - passed;
        // Whole seconds say less than what is known already.
        let known = ahead.load(Ordering::Relaxed);
        if clock != SECONDS || (new - known).abs() > SECOND {
            ahead.store(new, Ordering::Relaxed);
        }
    }
    time_of(now)
}

/// What the thread was told the last time, if it asks for the same now.
fn recorded(thread: &mut Thread, clock: c_int) -> Option<Time> {
    let served = next(Kind::Time, thread.name, thread.served.times)?;
    if served.number != clock as u64 || served.length != size_of::<Time>() {
        thread.served.times = served.end;
        note(b"the time");
        return None;
    }
    thread.served.times = served.end;
    // SAFETY: the record has so many bytes.
    Some(unsafe { served.bytes.cast::<Time>().read_unaligned() })
}

/// When the kernel's clock shows what the program's clock shows at `time`; `None` if that is the same.
///
/// # Safety
/// `time` is null or can be read.
#[inline(always)]
pub unsafe fn deadline(clock: c_int, time: *const Time) -> Option<Time> {
    let ahead = ahead(clock)?.load(Ordering::Relaxed);
    if ahead == 0 || time.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let time = unsafe { time.read() };
    // A time that no clock has shown, such as one that is not valid, stays as it is.
    let is_valid = time[0] > 0 && (0..SECOND).contains(&time[1]);
    is_valid.then(|| time_of(nanoseconds(time).saturating_sub(ahead).max(1)))
}

/// The same for a timer of an unknown clock: seconds since the epoch are larger than those since the start.
///
/// # Safety
/// `time` is null or can be read.
pub unsafe fn deadline_of_timer(time: *const Time) -> Option<Time> {
    const LONG_AGO: i64 = 1_000_000_000;
    if time.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { deadline(c_int::from((*time)[0] < LONG_AGO), time) }
}

/// Descriptors of `/dev/urandom` and `/dev/random`, a bit each.
static RANDOM_FILES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn bit(file: c_int) -> Option<(&'static AtomicU64, u64)> {
    let file = usize::try_from(file).ok()?;
    Some((RANDOM_FILES.get(file / 64)?, 1 << (file % 64)))
}

/// The program has opened a file.
///
/// # Safety
/// `path` is null or ends with a zero byte.
#[inline(always)]
pub unsafe fn opened(path: *const c_char, file: c_int) {
    if is_off() || path.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { mode::text(path.cast()) };
    let is = |name: &[u8]| path.len() == name.len() && path.iter().zip(name).all(|(a, b)| a == b);
    if let Some((word, bit)) = bit(file) {
        match is(b"/dev/urandom") || is(b"/dev/random") {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }
}

/// The program has read bytes from a file, which may be random.
///
/// # Safety
/// `to` has `length` bytes that can be written.
#[inline(always)]
pub unsafe fn read(file: c_int, to: *mut u8, length: isize) {
    if !is_off()
        && let Some((word, bit)) = bit(file)
        && word.load(Ordering::Relaxed) & bit != 0
    {
        // SAFETY: the caller's promise.
        unsafe { random(to, length) };
    }
}

/// The program has got random bytes: these, or in a replay those of the recording.
///
/// # Safety
/// `to` has `length` bytes that can be written.
#[inline(always)]
pub unsafe fn random(to: *mut u8, length: isize) {
    if !is_off() && length > 0 {
        // SAFETY: the caller's promise.
        unsafe { drawn(to, length as usize) };
    }
}

#[cold]
unsafe fn drawn(to: *mut u8, length: usize) {
    let Some(thread) = thread::current() else {
        return;
    };
    let log = LOG.load(Ordering::Acquire);
    if !log.is_null() {
        if is_written(log) {
            let parts = core::iter::once((to.cast_const(), length));
            // SAFETY: the caller's promise.
            unsafe { write(Kind::Random, thread.name, 0, length, parts) };
        }
        return;
    }
    let Some(served) = next(Kind::Random, thread.name, thread.served.random) else {
        return note(b"random bytes");
    };
    thread.served.random = served.end;
    if served.length != length {
        return note(b"random bytes");
    }
    for at in 0..length {
        // SAFETY: both have so many bytes.
        unsafe { to.add(at).write(served.bytes.add(at).read()) };
    }
}

/// Notes, once, that something could not be served.
fn note(what: &[u8]) {
    static NOTED: AtomicU64 = AtomicU64::new(0);
    let bit = 1 << (what.len() % 64);
    if !SERVED.load(Ordering::Relaxed).is_null()
        && NOTED.fetch_or(bit, Ordering::Relaxed) & bit == 0
    {
        files::note_value(Problem::Value, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_names_of_their_own() {
        let main = 0;
        let first = name_of_child(main, 1);
        let second = name_of_child(main, 2);
        let grandchild = name_of_child(first, 2);
        assert!(first != second && second != grandchild && first != main);
    }

    #[test]
    fn times_before_the_epoch_are_times() {
        for time in [[0, 0], [3, 999_999_999], [-1, 5]] {
            assert_eq!(time_of(nanoseconds(time)), time);
        }
    }
}
