//! Functions that fill in what their caller passes, or answer with memory of the C library's own.
//!
//! What `localtime`, `getpwnam` or `readdir` return is overwritten by the next call: two threads that
//! call them without a lock race there, whatever lock the C library takes inside. `getenv` and
//! `setenv` share the array `environ`, `strtok` its place in the text.

use core::ffi::{c_char, c_int, c_long, c_void};

use super::buffer::{filled, filling_address, kernel_reads, reads, seen, writes};
use super::files::or;
use crate::channels::names;
use crate::files::{HERE, Wish, redirected};
use crate::inputs::served;
use crate::{interpose, real};

type Text = *const c_char;
type Place = *mut c_void;

const WORD: usize = size_of::<usize>();
/// `time_t`, `struct timespec` and `struct timeval`, `struct tm`, what `asctime` returns, `struct stat`.
const TIME: usize = 8;
const TIMESPEC: usize = 16;
const CALENDAR: usize = 56;
const CALENDAR_TEXT: usize = 26;
const STATUS: usize = 144;
/// `struct utsname`, `struct rusage`, `struct sysinfo`.
const SYSTEM_NAME: usize = 390;
const USAGE: usize = 144;
const SYSTEM_STATE: usize = 112;
/// `struct passwd`, `struct group`, `struct hostent`.
const PASSWD: usize = 48;
const GROUP: usize = 32;
const HOST: usize = 32;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Where `strtok` goes on, as far as races on it are concerned.
static STRTOK: usize = 0;

mod real_functions {
    use super::*;

    pub type Compare = unsafe extern "C-unwind" fn(*const c_void, *const c_void) -> c_int;
    pub type CompareWith =
        unsafe extern "C-unwind" fn(*const c_void, *const c_void, *mut c_void) -> c_int;

    real! {
        fn strlen(text: Text) -> usize;
        fn time(to: *mut i64) -> i64;
        fn gettimeofday(to: Place, zone: Place) -> c_int;
        fn clock_gettime(clock: c_int, to: Place) -> c_int;
        fn getrandom(to: Place, size: usize, flags: u32) -> isize;
        fn getentropy(to: Place, size: usize) -> c_int;
        fn arc4random() -> u32;
        fn arc4random_uniform(below: u32) -> u32;
        fn arc4random_buf(to: Place, size: usize);
        fn gmtime(time: *const i64) -> Place;
        fn localtime(time: *const i64) -> Place;
        fn gmtime_r(time: *const i64, to: Place) -> Place;
        fn localtime_r(time: *const i64, to: Place) -> Place;
        fn ctime(time: *const i64) -> *mut c_char;
        fn ctime_r(time: *const i64, to: *mut c_char) -> *mut c_char;
        fn asctime(calendar: Place) -> *mut c_char;
        fn asctime_r(calendar: Place, to: *mut c_char) -> *mut c_char;
        fn mktime(calendar: Place) -> i64;
        fn timegm(calendar: Place) -> i64;
        fn strftime(to: *mut c_char, room: usize, format: Text, calendar: Place) -> usize;
        fn stat(path: Text, to: Place) -> c_int;
        fn lstat(path: Text, to: Place) -> c_int;
        fn fstat(file: c_int, to: Place) -> c_int;
        fn stat64(path: Text, to: Place) -> c_int;
        fn lstat64(path: Text, to: Place) -> c_int;
        fn fstat64(file: c_int, to: Place) -> c_int;
        fn pipe(ends: Place) -> c_int;
        fn pipe2(ends: Place, flags: c_int) -> c_int;
        fn readlink(path: Text, to: *mut c_char, room: usize) -> isize;
        fn getcwd(to: *mut c_char, room: usize) -> *mut c_char;
        fn readdir(folder: Place) -> Place;
        fn readdir64(folder: Place) -> Place;
        fn getpwnam(name: Text) -> Place;
        fn getpwuid(id: u32) -> Place;
        fn getgrnam(name: Text) -> Place;
        fn getgrgid(id: u32) -> Place;
        fn gethostbyname(name: Text) -> Place;
        fn getaddrinfo(name: Text, service: Text, hints: Place, to: Place) -> c_int;
        fn getenv(name: Text) -> *mut c_char;
        fn secure_getenv(name: Text) -> *mut c_char;
        fn setenv(name: Text, value: Text, replace: c_int) -> c_int;
        fn unsetenv(name: Text) -> c_int;
        fn putenv(text: *mut c_char) -> c_int;
        fn clearenv() -> c_int;
        fn qsort(base: Place, count: usize, size: usize, compare: Compare);
        fn qsort_r(base: Place, count: usize, size: usize, compare: CompareWith, with: Place);
        fn strtol(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn strtoll(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn strtoul(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn strtoull(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn __isoc23_strtol(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn __isoc23_strtoll(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn __isoc23_strtoul(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn __isoc23_strtoull(text: Text, end: *mut Text, base: c_int) -> c_long;
        fn strtod(text: Text, end: *mut Text) -> f64;
        fn strtof(text: Text, end: *mut Text) -> f32;
        fn rand_r(seed: Place) -> c_int;
        fn uname(to: Place) -> c_int;
        fn gethostname(to: *mut c_char, room: usize) -> c_int;
        fn times(to: Place) -> c_long;
        fn getrusage(who: c_int, to: Place) -> c_int;
        fn sysinfo(to: Place) -> c_int;
        fn getloadavg(to: Place, count: c_int) -> c_int;
        fn getsockopt(file: c_int, level: c_int, name: c_int, to: Place, size: Place) -> c_int;
        fn getsockname(file: c_int, to: Place, size: Place) -> c_int;
        fn getpeername(file: c_int, to: Place, size: Place) -> c_int;
        fn inet_ntop(family: c_int, from: Place, to: *mut c_char, room: u32) -> Text;
        fn inet_pton(family: c_int, from: Text, to: Place) -> c_int;
        fn strerror_r(number: c_int, to: *mut c_char, room: usize) -> *mut c_char;
        fn __xpg_strerror_r(number: c_int, to: *mut c_char, room: usize) -> c_int;
        fn pthread_getname_np(thread: usize, to: *mut c_char, room: usize) -> c_int;
        fn strtok(text: *mut c_char, separators: Text) -> *mut c_char;
        fn strtok_r(text: *mut c_char, separators: Text, kept: *mut *mut c_char) -> *mut c_char;
        fn __strtok_r(text: *mut c_char, separators: Text, kept: *mut *mut c_char) -> *mut c_char;
        fn strsep(text: *mut *mut c_char, separators: Text) -> *mut c_char;
    }
}

use real_functions as real_call;
use real_functions::{Compare, CompareWith};

unsafe fn reads_text(text: Text, pc: usize) {
    if seen() && !text.is_null() {
        // SAFETY: the program passed a string.
        reads(text, unsafe { real_call::strlen(text) } + 1, pc);
    }
}

/// A call has put a string there.
///
/// # Safety
/// `to` is null or has a string.
unsafe fn filled_text(to: *const c_char, pc: usize) {
    if seen() && !to.is_null() {
        // SAFETY: the caller's promise.
        filled(to, unsafe { real_call::strlen(to) } + 1, pc);
    }
}

/// The bytes of an address of this family.
fn size_of_address(family: c_int) -> usize {
    const INTERNET_6: c_int = 10;
    if family == INTERNET_6 { 16 } else { 4 }
}

/// A call that fills in `size` bytes if it returns 0.
fn filling(to: Place, size: usize, pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    let result = call();
    if result == 0 {
        filled(to, size, pc);
    }
    result
}

/// A call that returns a place where it has filled in `size` bytes, or null.
fn returning<T>(size: usize, pc: usize, call: impl FnOnce() -> *mut T) -> *mut T {
    let result = call();
    filled(result, size, pc);
    result
}

/// `struct dirent`: its size is in it.
unsafe fn entry(result: Place, pc: usize) -> Place {
    const SIZE: usize = 16;
    if seen() && !result.is_null() {
        // SAFETY: the C library has returned an entry.
        let size = unsafe { result.byte_add(SIZE).cast::<u16>().read() };
        filled(result, usize::from(size), pc);
    }
    result
}

/// Reads a number with `call`, which is given a place for its end.
unsafe fn number<R>(text: Text, end: *mut Text, pc: usize, call: impl FnOnce(*mut Text) -> R) -> R {
    if !seen() {
        return call(end);
    }
    let mut own = text;
    let result = call(&mut own);
    reads(text, own as usize - text as usize + 1, pc);
    if !end.is_null() {
        writes(end, WORD, pc);
        // SAFETY: the program passed a place for the end.
        unsafe { end.write(own) };
    }
    result
}

/// Cuts the next word out of a text with `call`, which goes on at the text, or else where `kept` says.
unsafe fn cutting(
    text: *mut c_char,
    separators: Text,
    kept: *mut *mut c_char,
    pc: usize,
    call: impl FnOnce() -> *mut c_char,
) -> *mut c_char {
    if !seen() {
        return call();
    }
    // SAFETY: the program passed all three to `strtok_r` or `strsep`.
    unsafe { reads_text(separators, pc) };
    let start = if text.is_null() {
        reads(kept, WORD, pc);
        // SAFETY: as above.
        unsafe { kept.read() }
    } else {
        text
    };
    let result = call();
    // SAFETY: as above.
    let next = unsafe { kept.read() };
    if !start.is_null() && next > start {
        reads(start, next as usize - start as usize, pc);
        let last = next.wrapping_sub(1);
        // SAFETY: a byte of the text. It is zero only if a separator was there.
        if unsafe { *last } == 0 {
            filled(last, 1, pc);
        }
    } else if !start.is_null() && next.is_null() {
        // SAFETY: the last word, up to the end of the text.
        unsafe { reads_text(start, pc) };
    }
    filled(kept, WORD, pc);
    result
}

/// The array of all variables, which the call is about to read, or to change.
fn reads_environment(pc: usize) {
    reads(&raw const environ, WORD, pc);
}

fn changes_environment(pc: usize) {
    writes(&raw const environ, WORD, pc);
}

interpose! {
    fn time(to: *mut i64) -> i64 |pc| {
        let [result, _] = served::time(served::SECONDS, [real_call::time(to), 0]);
        if !to.is_null() {
            *to = result;
        }
        filled(to, TIME, pc);
        result
    }
    fn gettimeofday(to: Place, zone: Place) -> c_int |pc| {
        filling(to, TIMESPEC, pc, || {
            let result = real_call::gettimeofday(to, zone);
            if result == 0 && !to.is_null() {
                let place = to.cast::<served::Time>();
                let [seconds, microseconds] = *place;
                let [seconds, nanoseconds] = served::time(0, [seconds, microseconds * 1000]);
                *place = [seconds, nanoseconds / 1000];
            }
            result
        })
    }
    fn clock_gettime(clock: c_int, to: Place) -> c_int |pc| {
        filling(to, TIMESPEC, pc, || {
            let result = real_call::clock_gettime(clock, to);
            if result == 0 {
                let place = to.cast::<served::Time>();
                *place = served::time(clock, *place);
            }
            result
        })
    }
    fn getrandom(to: Place, size: usize, flags: u32) -> isize |pc| {
        let result = real_call::getrandom(to, size, flags);
        served::random(to.cast(), result);
        super::buffer::received(to, result, size, pc);
        result
    }
    fn getentropy(to: Place, size: usize) -> c_int |pc| {
        filling(to, size, pc, || {
            let result = real_call::getentropy(to, size);
            if result == 0 {
                served::random(to.cast(), size as isize);
            }
            result
        })
    }
    fn arc4random() -> u32 |pc| {
        let mut result = real_call::arc4random();
        served::random((&raw mut result).cast(), size_of::<u32>() as isize);
        result
    }
    fn arc4random_uniform(below: u32) -> u32 |pc| {
        let mut result = real_call::arc4random_uniform(below);
        served::random((&raw mut result).cast(), size_of::<u32>() as isize);
        // What was recorded was below the same number, if the program asked for the same.
        if below == 0 { 0 } else { result % below }
    }
    fn arc4random_buf(to: Place, size: usize) |pc| {
        real_call::arc4random_buf(to, size);
        served::random(to.cast(), size as isize);
        filled(to, size, pc);
    }
    fn gmtime(time: *const i64) -> Place |pc| {
        reads(time, TIME, pc);
        returning(CALENDAR, pc, || real_call::gmtime(time))
    }
    fn localtime(time: *const i64) -> Place |pc| {
        reads(time, TIME, pc);
        returning(CALENDAR, pc, || real_call::localtime(time))
    }
    fn gmtime_r(time: *const i64, to: Place) -> Place |pc| {
        reads(time, TIME, pc);
        returning(CALENDAR, pc, || real_call::gmtime_r(time, to))
    }
    fn localtime_r(time: *const i64, to: Place) -> Place |pc| {
        reads(time, TIME, pc);
        returning(CALENDAR, pc, || real_call::localtime_r(time, to))
    }
    fn ctime(time: *const i64) -> *mut c_char |pc| {
        reads(time, TIME, pc);
        returning(CALENDAR_TEXT, pc, || real_call::ctime(time))
    }
    fn ctime_r(time: *const i64, to: *mut c_char) -> *mut c_char |pc| {
        reads(time, TIME, pc);
        returning(CALENDAR_TEXT, pc, || real_call::ctime_r(time, to))
    }
    fn asctime(calendar: Place) -> *mut c_char |pc| {
        reads(calendar, CALENDAR, pc);
        returning(CALENDAR_TEXT, pc, || real_call::asctime(calendar))
    }
    fn asctime_r(calendar: Place, to: *mut c_char) -> *mut c_char |pc| {
        reads(calendar, CALENDAR, pc);
        returning(CALENDAR_TEXT, pc, || real_call::asctime_r(calendar, to))
    }
    fn mktime(calendar: Place) -> i64 |pc| {
        reads(calendar, CALENDAR, pc);
        let result = real_call::mktime(calendar);
        filled(calendar, CALENDAR, pc);
        result
    }
    fn timegm(calendar: Place) -> i64 |pc| {
        reads(calendar, CALENDAR, pc);
        let result = real_call::timegm(calendar);
        filled(calendar, CALENDAR, pc);
        result
    }
    fn strftime(to: *mut c_char, room: usize, format: Text, calendar: Place) -> usize |pc| {
        reads(calendar, CALENDAR, pc);
        let result = real_call::strftime(to, room, format, calendar);
        if result > 0 {
            filled(to, result + 1, pc);
        }
        result
    }

    fn stat(path: Text, to: Place) -> c_int |pc| {
        reads_text(path, pc);
        let own = redirected(HERE, path, Wish::LOOK);
        let result = filling(to, STATUS, pc, || real_call::stat(or(&own, path), to));
        names::found(path, pc);
        result
    }
    fn lstat(path: Text, to: Place) -> c_int |pc| {
        reads_text(path, pc);
        let own = redirected(HERE, path, Wish::LOOK_AT_LINK);
        let result = filling(to, STATUS, pc, || real_call::lstat(or(&own, path), to));
        names::found(path, pc);
        result
    }
    fn fstat(file: c_int, to: Place) -> c_int |pc| {
        filling(to, STATUS, pc, || real_call::fstat(file, to))
    }
    fn stat64(path: Text, to: Place) -> c_int |pc| {
        reads_text(path, pc);
        let own = redirected(HERE, path, Wish::LOOK);
        let result = filling(to, STATUS, pc, || real_call::stat64(or(&own, path), to));
        names::found(path, pc);
        result
    }
    fn lstat64(path: Text, to: Place) -> c_int |pc| {
        reads_text(path, pc);
        let own = redirected(HERE, path, Wish::LOOK_AT_LINK);
        let result = filling(to, STATUS, pc, || real_call::lstat64(or(&own, path), to));
        names::found(path, pc);
        result
    }
    fn fstat64(file: c_int, to: Place) -> c_int |pc| {
        filling(to, STATUS, pc, || real_call::fstat64(file, to))
    }
    fn pipe(ends: Place) -> c_int |pc| {
        filling(ends, 8, pc, || real_call::pipe(ends))
    }
    fn pipe2(ends: Place, flags: c_int) -> c_int |pc| {
        filling(ends, 8, pc, || real_call::pipe2(ends, flags))
    }
    fn readlink(path: Text, to: *mut c_char, room: usize) -> isize |pc| {
        reads_text(path, pc);
        let own = redirected(HERE, path, Wish::LOOK_AT_LINK);
        let result = real_call::readlink(or(&own, path), to, room);
        super::buffer::received(to, result, room, pc);
        result
    }
    fn getcwd(to: *mut c_char, room: usize) -> *mut c_char |pc| {
        let result = real_call::getcwd(to, room);
        if seen() && !result.is_null() {
            filled(result, real_call::strlen(result) + 1, pc);
        }
        result
    }
    fn readdir(folder: Place) -> Place |pc| {
        entry(real_call::readdir(folder), pc)
    }
    fn readdir64(folder: Place) -> Place |pc| {
        entry(real_call::readdir64(folder), pc)
    }

    fn getpwnam(name: Text) -> Place |pc| {
        reads_text(name, pc);
        returning(PASSWD, pc, || real_call::getpwnam(name))
    }
    fn getpwuid(id: u32) -> Place |pc| {
        returning(PASSWD, pc, || real_call::getpwuid(id))
    }
    fn getgrnam(name: Text) -> Place |pc| {
        reads_text(name, pc);
        returning(GROUP, pc, || real_call::getgrnam(name))
    }
    fn getgrgid(id: u32) -> Place |pc| {
        returning(GROUP, pc, || real_call::getgrgid(id))
    }
    fn gethostbyname(name: Text) -> Place |pc| {
        reads_text(name, pc);
        returning(HOST, pc, || real_call::gethostbyname(name))
    }
    fn getaddrinfo(name: Text, service: Text, hints: Place, to: Place) -> c_int |pc| {
        const HINTS: usize = 48;
        reads_text(name, pc);
        reads_text(service, pc);
        if !hints.is_null() {
            kernel_reads(hints, HINTS, pc);
        }
        filling(to, WORD, pc, || real_call::getaddrinfo(name, service, hints, to))
    }

    fn getenv(name: Text) -> *mut c_char |pc| {
        reads_environment(pc);
        real_call::getenv(name)
    }
    fn secure_getenv(name: Text) -> *mut c_char |pc| {
        reads_environment(pc);
        real_call::secure_getenv(name)
    }
    fn setenv(name: Text, value: Text, replace: c_int) -> c_int |pc| {
        reads_text(name, pc);
        reads_text(value, pc);
        changes_environment(pc);
        real_call::setenv(name, value, replace)
    }
    fn unsetenv(name: Text) -> c_int |pc| {
        reads_text(name, pc);
        changes_environment(pc);
        real_call::unsetenv(name)
    }
    fn putenv(text: *mut c_char) -> c_int |pc| {
        reads_text(text, pc);
        changes_environment(pc);
        real_call::putenv(text)
    }
    fn clearenv() -> c_int |pc| {
        changes_environment(pc);
        real_call::clearenv()
    }

    fn qsort(base: Place, count: usize, size: usize, compare: Compare) |pc| {
        reads(base, count.saturating_mul(size), pc);
        real_call::qsort(base, count, size, compare);
        filled(base, count.saturating_mul(size), pc);
    }
    fn qsort_r(base: Place, count: usize, size: usize, compare: CompareWith, with: Place) |pc| {
        reads(base, count.saturating_mul(size), pc);
        real_call::qsort_r(base, count, size, compare, with);
        filled(base, count.saturating_mul(size), pc);
    }

    fn strtol(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::strtol(text, end, base))
    }
    fn strtoll(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::strtoll(text, end, base))
    }
    fn strtoul(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::strtoul(text, end, base))
    }
    fn strtoull(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::strtoull(text, end, base))
    }
    fn __isoc23_strtol(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::__isoc23_strtol(text, end, base))
    }
    fn __isoc23_strtoll(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::__isoc23_strtoll(text, end, base))
    }
    fn __isoc23_strtoul(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::__isoc23_strtoul(text, end, base))
    }
    fn __isoc23_strtoull(text: Text, end: *mut Text, base: c_int) -> c_long |pc| {
        number(text, end, pc, |end| real_call::__isoc23_strtoull(text, end, base))
    }
    fn atoi(text: Text) -> c_int |pc| {
        number(text, core::ptr::null_mut(), pc, |end| real_call::strtol(text, end, 10)) as c_int
    }
    fn atol(text: Text) -> c_long |pc| {
        number(text, core::ptr::null_mut(), pc, |end| real_call::strtol(text, end, 10))
    }
    fn atoll(text: Text) -> c_long |pc| {
        number(text, core::ptr::null_mut(), pc, |end| real_call::strtol(text, end, 10))
    }
    fn strtod(text: Text, end: *mut Text) -> f64 |pc| {
        number(text, end, pc, |end| real_call::strtod(text, end))
    }
    fn strtof(text: Text, end: *mut Text) -> f32 |pc| {
        number(text, end, pc, |end| real_call::strtof(text, end))
    }
    fn atof(text: Text) -> f64 |pc| {
        number(text, core::ptr::null_mut(), pc, |end| real_call::strtod(text, end))
    }

    fn rand_r(seed: Place) -> c_int |pc| {
        writes(seed, size_of::<c_int>(), pc);
        real_call::rand_r(seed)
    }
    fn uname(to: Place) -> c_int |pc| {
        filling(to, SYSTEM_NAME, pc, || real_call::uname(to))
    }
    fn gethostname(to: *mut c_char, room: usize) -> c_int |pc| {
        let result = real_call::gethostname(to, room);
        if result == 0 {
            filled_text(to, pc);
        }
        result
    }
    fn times(to: Place) -> c_long |pc| {
        let result = real_call::times(to);
        filled(to, 4 * WORD, pc);
        result
    }
    fn getrusage(who: c_int, to: Place) -> c_int |pc| {
        filling(to, USAGE, pc, || real_call::getrusage(who, to))
    }
    fn sysinfo(to: Place) -> c_int |pc| {
        filling(to, SYSTEM_STATE, pc, || real_call::sysinfo(to))
    }
    fn getloadavg(to: Place, count: c_int) -> c_int |pc| {
        let result = real_call::getloadavg(to, count);
        filled(to, result.max(0) as usize * WORD, pc);
        result
    }
    fn getsockopt(file: c_int, level: c_int, name: c_int, to: Place, size: Place) -> c_int |pc| {
        filling_address(to, size, pc, || real_call::getsockopt(file, level, name, to, size), |result| result == 0)
    }
    fn getsockname(file: c_int, to: Place, size: Place) -> c_int |pc| {
        filling_address(to, size, pc, || real_call::getsockname(file, to, size), |result| result == 0)
    }
    fn getpeername(file: c_int, to: Place, size: Place) -> c_int |pc| {
        filling_address(to, size, pc, || real_call::getpeername(file, to, size), |result| result == 0)
    }
    fn inet_ntop(family: c_int, from: Place, to: *mut c_char, room: u32) -> Text |pc| {
        reads(from, size_of_address(family), pc);
        let result = real_call::inet_ntop(family, from, to, room);
        if !result.is_null() {
            filled_text(to, pc);
        }
        result
    }
    fn inet_pton(family: c_int, from: Text, to: Place) -> c_int |pc| {
        reads_text(from, pc);
        let result = real_call::inet_pton(family, from, to);
        if result == 1 {
            filled(to, size_of_address(family), pc);
        }
        result
    }
    fn strerror_r(number: c_int, to: *mut c_char, room: usize) -> *mut c_char |pc| {
        let result = real_call::strerror_r(number, to, room);
        if result == to && room > 0 {
            filled_text(to, pc);
        }
        result
    }
    fn __xpg_strerror_r(number: c_int, to: *mut c_char, room: usize) -> c_int |pc| {
        let result = real_call::__xpg_strerror_r(number, to, room);
        if room > 0 {
            filled_text(to, pc);
        }
        result
    }
    fn pthread_getname_np(thread: usize, to: *mut c_char, room: usize) -> c_int |pc| {
        let result = real_call::pthread_getname_np(thread, to, room);
        if result == 0 {
            filled_text(to, pc);
        }
        result
    }

    fn strtok(text: *mut c_char, separators: Text) -> *mut c_char |pc| {
        writes(&raw const STRTOK, WORD, pc);
        reads_text(separators, pc);
        real_call::strtok(text, separators)
    }
    fn strtok_r(text: *mut c_char, separators: Text, kept: *mut *mut c_char) -> *mut c_char |pc| {
        cutting(text, separators, kept, pc, || real_call::strtok_r(text, separators, kept))
    }
    fn __strtok_r(text: *mut c_char, separators: Text, kept: *mut *mut c_char) -> *mut c_char |pc| {
        cutting(text, separators, kept, pc, || real_call::__strtok_r(text, separators, kept))
    }
    fn strsep(text: *mut *mut c_char, separators: Text) -> *mut c_char |pc| {
        cutting(core::ptr::null_mut(), separators, text, pc, || real_call::strsep(text, separators))
    }
}
