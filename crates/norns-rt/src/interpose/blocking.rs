//! Calls that may sleep in the kernel. In a recording in which one thread runs at a time others
//! run meanwhile. The buffers of a call are accesses of its caller in every mode (`buffer`).
//!
//! A call on a descriptor that is ready keeps the turn: it does not sleep, and so the next thread to
//! run does not depend on how fast the kernel is. Calls that are missing here (streams of the C
//! library, system calls made without a function) are left to the watchdog.

use core::ffi::{c_char, c_int, c_long, c_void};

use super::buffer::{self, Message, Part};
use crate::control::{self, futex, serial};
use crate::errno::EINTR;
use crate::mode::{is_controlled, is_serial};
use crate::record::{handles, values};
use crate::{interpose, real, sys};

type Bytes = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn read(file: c_int, to: Bytes, size: usize) -> isize;
        fn __read_chk(file: c_int, to: Bytes, size: usize, room: usize) -> isize;
        fn write(file: c_int, from: Bytes, size: usize) -> isize;
        fn pread(file: c_int, to: Bytes, size: usize, at: i64) -> isize;
        fn pread64(file: c_int, to: Bytes, size: usize, at: i64) -> isize;
        fn pwrite(file: c_int, from: Bytes, size: usize, at: i64) -> isize;
        fn pwrite64(file: c_int, from: Bytes, size: usize, at: i64) -> isize;
        fn preadv(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize;
        fn pwritev(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize;
        fn readv(file: c_int, parts: *const Part, count: c_int) -> isize;
        fn writev(file: c_int, parts: *const Part, count: c_int) -> isize;
        fn recv(file: c_int, to: Bytes, size: usize, flags: c_int) -> isize;
        fn send(file: c_int, from: Bytes, size: usize, flags: c_int) -> isize;
        fn recvmsg(file: c_int, message: *mut Message, flags: c_int) -> isize;
        fn sendmsg(file: c_int, message: *mut Message, flags: c_int) -> isize;
        fn accept(file: c_int, address: Bytes, length: Bytes) -> c_int;
        fn accept4(file: c_int, address: Bytes, length: Bytes, flags: c_int) -> c_int;
        fn connect(file: c_int, address: Bytes, length: u32) -> c_int;
        fn poll(files: Bytes, count: usize, milliseconds: c_int) -> c_int;
        fn ppoll(files: Bytes, count: usize, time: Bytes, mask: Bytes) -> c_int;
        fn select(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes) -> c_int;
        fn epoll_wait(file: c_int, events: Bytes, most: c_int, milliseconds: c_int) -> c_int;
        fn epoll_pwait(file: c_int, events: Bytes, most: c_int, milliseconds: c_int, mask: Bytes) -> c_int;
        fn nanosleep(time: *const Time, rest: *mut Time) -> c_int;
        fn clock_nanosleep(clock: c_int, flags: c_int, time: *const Time, rest: *mut Time) -> c_int;
        fn usleep(microseconds: u32) -> c_int;
        fn sleep(seconds: u32) -> u32;
        fn thrd_sleep(time: *const Time, rest: *mut Time) -> c_int;
        fn sched_yield() -> c_int;
        fn thrd_yield();
        fn pause() -> c_int;
        fn sigsuspend(mask: Bytes) -> c_int;
        fn sigwait(set: Bytes, signal: Bytes) -> c_int;
        fn sigwaitinfo(set: Bytes, info: Bytes) -> c_int;
        fn sigtimedwait(set: Bytes, info: Bytes, time: Bytes) -> c_int;
        fn wait(status: Bytes) -> c_int;
        fn waitpid(process: c_int, status: Bytes, options: c_int) -> c_int;
        fn wait3(status: Bytes, options: c_int, usage: Bytes) -> c_int;
        fn wait4(process: c_int, status: Bytes, options: c_int, usage: Bytes) -> c_int;
        fn waitid(kind: c_int, id: c_int, info: Bytes, options: c_int) -> c_int;
        fn system(command: *const c_char) -> c_int;
        fn pclose(stream: Bytes) -> c_int;
        fn flock(file: c_int, operation: c_int) -> c_int;
        fn lockf(file: c_int, operation: c_int, size: i64) -> c_int;
        fn semop(semaphores: c_int, operations: Bytes, count: usize) -> c_int;
        fn semtimedop(semaphores: c_int, operations: Bytes, count: usize, time: Bytes) -> c_int;
        fn msgsnd(queue: c_int, message: Bytes, size: usize, flags: c_int) -> c_int;
        fn msgrcv(queue: c_int, message: Bytes, size: usize, kind: c_long, flags: c_int) -> isize;
        fn mprotect(address: Bytes, size: usize, protection: c_int) -> c_int;
        fn madvise(address: Bytes, size: usize, advice: c_int) -> c_int;
        fn shmdt(address: Bytes) -> c_int;
        fn pthread_cancel(thread: usize) -> c_int;
        fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
        fn recvfrom(file: c_int, to: Bytes, size: usize, flags: c_int, address: Bytes, length: Bytes) -> isize;
        fn sendto(file: c_int, from: Bytes, size: usize, flags: c_int, address: Bytes, length: u32) -> isize;
        fn pselect(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes, mask: Bytes) -> c_int;
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

const POLLIN: i16 = 1;
const POLLOUT: i16 = 4;

/// Whether a call on this descriptor would not sleep.
fn is_ready(file: c_int, events: i16) -> bool {
    const POLL: usize = 7;
    let mut asked = [file, i32::from(events)];
    // SAFETY: one `struct pollfd`, eight bytes, which live until the call returns.
    unsafe { sys::call(POLL, asked.as_mut_ptr() as usize, 1, 0) != 0 }
}

/// A call on a descriptor.
#[inline(always)]
fn on<R>(file: c_int, events: i16, call: impl FnOnce() -> R) -> R {
    if !is_serial() {
        return call();
    }
    values::settle();
    if is_ready(file, events) {
        call()
    } else {
        serial::away(call)
    }
}

/// A call that may sleep whatever it is called with.
#[inline(always)]
fn away<R>(call: impl FnOnce() -> R) -> R {
    if is_serial() {
        serial::away(call)
    } else {
        call()
    }
}

/// A call that may sleep, unless `at_once`: its time-out is 0, for example.
fn away_unless<R>(at_once: bool, call: impl FnOnce() -> R) -> R {
    if at_once { call() } else { away(call) }
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
    fn read(file: c_int, to: Bytes, size: usize) -> isize |pc| {
        let result = on(file, POLLIN, || real_call::read(file, to, size));
        buffer::received(to, result, size, pc);
        result
    }
    fn __read_chk(file: c_int, to: Bytes, size: usize, room: usize) -> isize |pc| {
        let result = on(file, POLLIN, || real_call::__read_chk(file, to, size, room));
        buffer::received(to, result, size, pc);
        result
    }
    fn pread(file: c_int, to: Bytes, size: usize, at: i64) -> isize |pc| {
        let result = real_call::pread(file, to, size, at);
        buffer::received(to, result, size, pc);
        result
    }
    fn pread64(file: c_int, to: Bytes, size: usize, at: i64) -> isize |pc| {
        let result = real_call::pread64(file, to, size, at);
        buffer::received(to, result, size, pc);
        result
    }
    fn write(file: c_int, from: Bytes, size: usize) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        on(file, POLLOUT, || real_call::write(file, from, size))
    }
    fn pwrite(file: c_int, from: Bytes, size: usize, at: i64) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        real_call::pwrite(file, from, size, at)
    }
    fn pwrite64(file: c_int, from: Bytes, size: usize, at: i64) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        real_call::pwrite64(file, from, size, at)
    }
    fn readv(file: c_int, parts: *const Part, count: c_int) -> isize |pc| {
        let result = on(file, POLLIN, || real_call::readv(file, parts, count));
        buffer::received_parts(parts, count.max(0) as usize, result, pc);
        result
    }
    fn preadv(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize |pc| {
        let result = real_call::preadv(file, parts, count, at);
        buffer::received_parts(parts, count.max(0) as usize, result, pc);
        result
    }
    fn writev(file: c_int, parts: *const Part, count: c_int) -> isize |pc| {
        buffer::reads_parts(parts, count.max(0) as usize, pc);
        on(file, POLLOUT, || real_call::writev(file, parts, count))
    }
    fn pwritev(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize |pc| {
        buffer::reads_parts(parts, count.max(0) as usize, pc);
        real_call::pwritev(file, parts, count, at)
    }
    fn recv(file: c_int, to: Bytes, size: usize, flags: c_int) -> isize |pc| {
        let result = on(file, POLLIN, || real_call::recv(file, to, size, flags));
        buffer::received(to, result, size, pc);
        result
    }
    fn send(file: c_int, from: Bytes, size: usize, flags: c_int) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        on(file, POLLOUT, || real_call::send(file, from, size, flags))
    }
    fn recvfrom(file: c_int, to: Bytes, size: usize, flags: c_int, address: Bytes, length: Bytes) -> isize |pc| {
        let call = || on(file, POLLIN, || real_call::recvfrom(file, to, size, flags, address, length));
        let result = buffer::filling_address(address, length, pc, call, |result| result >= 0);
        buffer::received(to, result, size, pc);
        result
    }
    fn sendto(file: c_int, from: Bytes, size: usize, flags: c_int, address: Bytes, length: u32) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        buffer::kernel_reads(address, length as usize, pc);
        on(file, POLLOUT, || real_call::sendto(file, from, size, flags, address, length))
    }
    fn recvmsg(file: c_int, message: *mut Message, flags: c_int) -> isize |pc| {
        buffer::receiving_message(message, pc, || {
            on(file, POLLIN, || real_call::recvmsg(file, message, flags))
        })
    }
    fn sendmsg(file: c_int, message: *mut Message, flags: c_int) -> isize |pc| {
        buffer::reads_message(message, pc);
        on(file, POLLOUT, || real_call::sendmsg(file, message, flags))
    }
    fn accept(file: c_int, address: Bytes, length: Bytes) -> c_int |pc| {
        let call = || on(file, POLLIN, || real_call::accept(file, address, length));
        buffer::filling_address(address, length, pc, call, |result| result >= 0)
    }
    fn accept4(file: c_int, address: Bytes, length: Bytes, flags: c_int) -> c_int |pc| {
        let call = || on(file, POLLIN, || real_call::accept4(file, address, length, flags));
        buffer::filling_address(address, length, pc, call, |result| result >= 0)
    }
    fn connect(file: c_int, address: Bytes, length: u32) -> c_int |pc| {
        buffer::kernel_reads(address, length as usize, pc);
        away(|| real_call::connect(file, address, length))
    }
    fn poll(files: Bytes, count: usize, milliseconds: c_int) -> c_int |pc| {
        away_unless(milliseconds == 0, || real_call::poll(files, count, milliseconds))
    }
    fn ppoll(files: Bytes, count: usize, time: Bytes, mask: Bytes) -> c_int |pc| {
        away(|| real_call::ppoll(files, count, time, mask))
    }
    fn select(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes) -> c_int |pc| {
        away(|| real_call::select(count, read, write, except, time))
    }
    fn pselect(count: c_int, read: Bytes, write: Bytes, except: Bytes, time: Bytes, mask: Bytes) -> c_int |pc| {
        away(|| real_call::pselect(count, read, write, except, time, mask))
    }
    fn epoll_wait(file: c_int, events: Bytes, most: c_int, milliseconds: c_int) -> c_int |pc| {
        away_unless(milliseconds == 0, || {
            real_call::epoll_wait(file, events, most, milliseconds)
        })
    }
    fn epoll_pwait(file: c_int, events: Bytes, most: c_int, milliseconds: c_int, mask: Bytes) -> c_int |pc| {
        away_unless(milliseconds == 0, || {
            real_call::epoll_pwait(file, events, most, milliseconds, mask)
        })
    }

    fn nanosleep(time: *const Time, rest: *mut Time) -> c_int |pc| {
        match sleep_for(1, (*time).total()) {
            Some(0) => 0,
            Some(left) => {
                put_rest(rest, left);
                set_error(EINTR);
                -1
            }
            None => away(|| real_call::nanosleep(time, rest)),
        }
    }
    fn clock_nanosleep(clock: c_int, flags: c_int, time: *const Time, rest: *mut Time) -> c_int |pc| {
        let absolute = flags & 1 != 0;
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
            None => away(|| real_call::clock_nanosleep(clock, flags, time, rest)),
        }
    }
    fn usleep(microseconds: u32) -> c_int |pc| {
        match sleep_for(1, i64::from(microseconds) * 1000) {
            Some(0) => 0,
            Some(_) => {
                set_error(EINTR);
                -1
            }
            None => away(|| real_call::usleep(microseconds)),
        }
    }
    fn sleep(seconds: u32) -> u32 |pc| {
        match sleep_for(1, i64::from(seconds) * 1_000_000_000) {
            Some(left) => (left / 1_000_000_000) as u32,
            None => away(|| real_call::sleep(seconds)),
        }
    }
    fn thrd_sleep(time: *const Time, rest: *mut Time) -> c_int |pc| {
        match sleep_for(1, (*time).total()) {
            Some(0) => 0,
            Some(left) => {
                put_rest(rest, left);
                -1
            }
            None => away(|| real_call::thrd_sleep(time, rest)),
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
    fn sigwait(set: Bytes, signal: Bytes) -> c_int |pc| { away(|| real_call::sigwait(set, signal)) }
    fn sigwaitinfo(set: Bytes, info: Bytes) -> c_int |pc| {
        away(|| real_call::sigwaitinfo(set, info))
    }
    fn sigtimedwait(set: Bytes, info: Bytes, time: Bytes) -> c_int |pc| {
        away(|| real_call::sigtimedwait(set, info, time))
    }
    fn wait(status: Bytes) -> c_int |pc| { away(|| real_call::wait(status)) }
    fn waitpid(process: c_int, status: Bytes, options: c_int) -> c_int |pc| {
        away(|| real_call::waitpid(process, status, options))
    }
    fn wait3(status: Bytes, options: c_int, usage: Bytes) -> c_int |pc| {
        away(|| real_call::wait3(status, options, usage))
    }
    fn wait4(process: c_int, status: Bytes, options: c_int, usage: Bytes) -> c_int |pc| {
        away(|| real_call::wait4(process, status, options, usage))
    }
    fn waitid(kind: c_int, id: c_int, info: Bytes, options: c_int) -> c_int |pc| {
        away(|| real_call::waitid(kind, id, info, options))
    }
    fn system(command: *const c_char) -> c_int |pc| { away(|| real_call::system(command)) }
    fn pclose(stream: Bytes) -> c_int |pc| { away(|| real_call::pclose(stream)) }
    fn flock(file: c_int, operation: c_int) -> c_int |pc| {
        away(|| real_call::flock(file, operation))
    }
    fn lockf(file: c_int, operation: c_int, size: i64) -> c_int |pc| {
        away(|| real_call::lockf(file, operation, size))
    }
    fn semop(semaphores: c_int, operations: Bytes, count: usize) -> c_int |pc| {
        away(|| real_call::semop(semaphores, operations, count))
    }
    fn semtimedop(semaphores: c_int, operations: Bytes, count: usize, time: Bytes) -> c_int |pc| {
        away(|| real_call::semtimedop(semaphores, operations, count, time))
    }
    fn msgsnd(queue: c_int, message: Bytes, size: usize, flags: c_int) -> c_int |pc| {
        buffer::kernel_reads(message, size.saturating_add(8), pc);
        away(|| real_call::msgsnd(queue, message, size, flags))
    }
    fn msgrcv(queue: c_int, message: Bytes, size: usize, kind: c_long, flags: c_int) -> isize |pc| {
        let result = away(|| real_call::msgrcv(queue, message, size, kind, flags));
        if result >= 0 {
            // The message type, a long, precedes the text.
            buffer::filled(message, result as usize + 8, pc);
        }
        result
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

/// `syscall` has a seventh argument on the stack, which may be anything when the system call has
/// fewer.
#[cfg(not(test))]
mod exported {
    use super::*;

    #[unsafe(no_mangle)]
    unsafe extern "C-unwind" fn syscall(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> c_long {
        const FUTEX: c_long = 202;
        const WAITS: [usize; 5] = [0, 6, 9, 11, 13];
        let waits = number == FUTEX && WAITS.contains(&(b & 0x7f));
        // SAFETY: the program's own call, passed on with its arguments.
        away_unless(!waits, || unsafe {
            real_call::syscall(number, a, b, c, d, e, f)
        })
    }
}
