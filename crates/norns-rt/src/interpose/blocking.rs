//! Calls that may sleep in the kernel. In a recording in which one thread runs at a time others
//! run meanwhile. The buffers of a call are accesses of its caller in every mode (`buffer`).
//!
//! A call on a descriptor that is ready keeps the turn: it does not sleep, and so the next thread to
//! run does not depend on how fast the kernel is. Calls that are missing here (streams of the C
//! library, system calls made without a function) are left to the watchdog.

use core::ffi::{c_char, c_int, c_void};

use crate::channels::{descriptor, others};
use crate::control::{self, futex, serial};
use crate::errno::EINTR;
use crate::inputs::served;
use crate::mode::{is_controlled, is_serial};
use crate::record::{handles, values};
use crate::{guard, interpose, real, sys};

type Bytes = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn nanosleep(time: *const Time, rest: *mut Time) -> c_int;
        fn clock_nanosleep(clock: c_int, flags: c_int, time: *const Time, rest: *mut Time) -> c_int;
        fn usleep(microseconds: u32) -> c_int;
        fn sleep(seconds: u32) -> u32;
        fn thrd_sleep(time: *const Time, rest: *mut Time) -> c_int;
        fn sched_yield() -> c_int;
        fn thrd_yield();
        fn pause() -> c_int;
        fn sigsuspend(mask: Bytes) -> c_int;
        fn wait(status: Bytes) -> c_int;
        fn waitpid(process: c_int, status: Bytes, options: c_int) -> c_int;
        fn wait3(status: Bytes, options: c_int, usage: Bytes) -> c_int;
        fn wait4(process: c_int, status: Bytes, options: c_int, usage: Bytes) -> c_int;
        fn waitid(kind: c_int, id: c_int, info: Bytes, options: c_int) -> c_int;
        fn system(command: *const c_char) -> c_int;
        fn popen(command: *const c_char, how: *const c_char) -> Bytes;
        fn pclose(stream: Bytes) -> c_int;
        fn posix_spawn(
            process: *mut c_int, path: *const c_char, acts: Bytes, attributes: Bytes, arguments: Bytes,
            environment: Bytes,
        ) -> c_int;
        fn posix_spawnp(
            process: *mut c_int, name: *const c_char, acts: Bytes, attributes: Bytes, arguments: Bytes,
            environment: Bytes,
        ) -> c_int;
        fn mprotect(address: Bytes, size: usize, protection: c_int) -> c_int;
        fn madvise(address: Bytes, size: usize, advice: c_int) -> c_int;
        fn shmdt(address: Bytes) -> c_int;
        fn pthread_cancel(thread: usize) -> c_int;
    }
}

use real_functions as real_call;

/// `struct timespec`.
#[repr(C)]
pub struct Time {
    seconds: i64,
    nanoseconds: i64,
}

impl Time {
    fn total(&self) -> i64 {
        self.seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(self.nanoseconds)
    }
}

pub use crate::channels::descriptor::{TO_READ as POLLIN, TO_WRITE as POLLOUT};

/// A call on a descriptor.
#[inline(always)]
pub fn on<R>(file: c_int, events: i16, call: impl FnOnce() -> R) -> R {
    if !is_serial() {
        return guard::through_kernel(call);
    }
    values::settle();
    if descriptor::is_ready(file, events) {
        call()
    } else {
        serial::away(call)
    }
}

/// A call that may sleep whatever it is called with.
#[inline(always)]
pub fn away<R>(call: impl FnOnce() -> R) -> R {
    if is_serial() {
        serial::away(call)
    } else {
        guard::through_kernel(call)
    }
}

/// A call that only lets time pass.
fn asleep<R>(call: impl FnOnce() -> R) -> R {
    if is_serial() {
        return serial::away(call);
    }
    let result = call();
    guard::time_has_passed();
    result
}

/// A call that may sleep, unless `at_once`: its time-out is 0, for example.
pub fn away_unless<R>(at_once: bool, call: impl FnOnce() -> R) -> R {
    if at_once {
        guard::through_kernel(call)
    } else {
        away(call)
    }
}

/// Waits with `call` for the end of a process, which it returns.
fn waiting(pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    let result = away(call);
    if result > 0 {
        others::got(pc);
    }
    result
}

/// Sleeps for `duration` nanoseconds. Returns what is left of it if a signal came first; `None` when
/// the caller has to make the real call.
fn sleep_for(clock: c_int, duration: i64) -> Option<i64> {
    if !is_serial() || duration < 0 {
        return None;
    }
    serial::sleep(clock, futex::now(clock).saturating_add(duration), duration)
}

unsafe fn put_rest(rest: *mut Time, nanoseconds: i64) {
    if !rest.is_null() {
        let time = Time {
            seconds: nanoseconds / 1_000_000_000,
            nanoseconds: nanoseconds % 1_000_000_000,
        };
        // SAFETY: the program passed `rest`, which is not null, to be filled with a `struct
        // timespec`.
        unsafe { rest.write(time) };
    }
}

fn set_error(number: c_int) {
    // SAFETY: the error number of this thread.
    unsafe { *sys::__errno_location() = number };
}

interpose! {
    fn nanosleep(time: *const Time, rest: *mut Time) -> c_int |pc| {
        match sleep_for(1, (*time).total()) {
            Some(0) => 0,
            Some(left) => {
                put_rest(rest, left);
                set_error(EINTR);
                -1
            }
            None => asleep(|| real_call::nanosleep(time, rest)),
        }
    }
    fn clock_nanosleep(clock: c_int, flags: c_int, time: *const Time, rest: *mut Time) -> c_int |pc| {
        let absolute = flags & 1 != 0;
        let own = served::deadline(clock, time.cast()).filter(|_| absolute);
        let time = own.as_ref().map_or(time, |own| (&raw const *own).cast());
        let slept = if clock > 1 {
            None
        } else if absolute && is_serial() {
            let until = (*time).total();
            let duration = until - futex::now(clock);
            if duration <= 0 { None } else { serial::sleep(clock, until, duration) }
        } else {
            sleep_for(clock, (*time).total())
        };
        match slept {
            Some(0) => 0,
            Some(left) => {
                if !absolute {
                    put_rest(rest, left);
                }
                EINTR
            }
            None => asleep(|| real_call::clock_nanosleep(clock, flags, time, rest)),
        }
    }
    fn usleep(microseconds: u32) -> c_int |pc| {
        match sleep_for(1, i64::from(microseconds) * 1000) {
            Some(0) => 0,
            Some(_) => {
                set_error(EINTR);
                -1
            }
            None => asleep(|| real_call::usleep(microseconds)),
        }
    }
    fn sleep(seconds: u32) -> u32 |pc| {
        match sleep_for(1, i64::from(seconds) * 1_000_000_000) {
            Some(left) => (left / 1_000_000_000) as u32,
            None => asleep(|| real_call::sleep(seconds)),
        }
    }
    fn thrd_sleep(time: *const Time, rest: *mut Time) -> c_int |pc| {
        match sleep_for(1, (*time).total()) {
            Some(0) => 0,
            Some(left) => {
                put_rest(rest, left);
                -1
            }
            None => asleep(|| real_call::thrd_sleep(time, rest)),
        }
    }
    fn sched_yield() -> c_int |pc| {
        if is_serial() {
            serial::yielded();
            return 0;
        }
        real_call::sched_yield()
    }
    fn pthread_yield() -> c_int |pc| {
        if is_serial() {
            serial::yielded();
            return 0;
        }
        real_call::sched_yield()
    }
    fn thrd_yield() |pc| {
        if is_serial() {
            serial::yielded();
        } else {
            real_call::thrd_yield();
        }
    }

    fn pause() -> c_int |pc| { away(|| real_call::pause()) }
    fn sigsuspend(mask: Bytes) -> c_int |pc| { away(|| real_call::sigsuspend(mask)) }
    fn wait(status: Bytes) -> c_int |pc| { waiting(pc, || real_call::wait(status)) }
    fn waitpid(process: c_int, status: Bytes, options: c_int) -> c_int |pc| {
        waiting(pc, || real_call::waitpid(process, status, options))
    }
    fn wait3(status: Bytes, options: c_int, usage: Bytes) -> c_int |pc| {
        waiting(pc, || real_call::wait3(status, options, usage))
    }
    fn wait4(process: c_int, status: Bytes, options: c_int, usage: Bytes) -> c_int |pc| {
        waiting(pc, || real_call::wait4(process, status, options, usage))
    }
    fn waitid(kind: c_int, id: c_int, info: Bytes, options: c_int) -> c_int |pc| {
        let result = away(|| real_call::waitid(kind, id, info, options));
        if result == 0 {
            others::got(pc);
        }
        result
    }
    fn system(command: *const c_char) -> c_int |pc| {
        others::starts(pc);
        let result = away(|| real_call::system(command));
        others::got(pc);
        result
    }
    fn popen(command: *const c_char, how: *const c_char) -> Bytes |pc| {
        others::starts(pc);
        real_call::popen(command, how)
    }
    fn pclose(stream: Bytes) -> c_int |pc| {
        others::given(pc);
        let result = away(|| real_call::pclose(stream));
        others::got(pc);
        result
    }
    fn posix_spawn(
        process: *mut c_int, path: *const c_char, acts: Bytes, attributes: Bytes, arguments: Bytes, environment: Bytes,
    ) -> c_int |pc| {
        others::starts(pc);
        real_call::posix_spawn(process, path, acts, attributes, arguments, environment)
    }
    fn posix_spawnp(
        process: *mut c_int, name: *const c_char, acts: Bytes, attributes: Bytes, arguments: Bytes, environment: Bytes,
    ) -> c_int |pc| {
        others::starts(pc);
        real_call::posix_spawnp(process, name, acts, attributes, arguments, environment)
    }

    // After these calls the bytes of the last write may not be readable any more.
    fn mprotect(address: Bytes, size: usize, protection: c_int) -> c_int |pc| {
        values::settle();
        real_call::mprotect(address, size, protection)
    }
    fn madvise(address: Bytes, size: usize, advice: c_int) -> c_int |pc| {
        values::settle();
        real_call::madvise(address, size, advice)
    }
    fn shmdt(address: Bytes) -> c_int |pc| {
        values::settle();
        real_call::shmdt(address)
    }

    fn pthread_cancel(thread: usize) -> c_int |pc| {
        let result = real_call::pthread_cancel(thread);
        if result == 0
            && is_controlled()
            && let Some(number) = handles::number(thread)
        {
            control::threads::cancelled(number);
        }
        result
    }
}
