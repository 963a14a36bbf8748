//! Asynchronous input and output: the functions of POSIX (`aio_read`), and that io_uring is used.
//!
//! A request is a channel of its own, by the address of its control block: who asks comes before who
//! finds it done. The buffer of a read belongs to it from the call on, and has its bytes when somebody asks
//! for the result. How io_uring orders threads is not known.

use core::ffi::{c_int, c_uint, c_void};

use super::blocking::away;
use super::buffer;
use crate::channels::{self, Key, kind, signal, stream, unknown};
use crate::{interpose, real};

type Bytes = *mut c_void;

/// `struct aiocb`, as far as it is of interest.
#[repr(C)]
pub struct Request {
    file: c_int,
    /// Of a list: what is to be done.
    what: c_int,
    priority: c_int,
    buffer: Bytes,
    size: usize,
    value: usize,
    signal: c_int,
    notification: c_int,
}

mod real_functions {
    use super::*;

    real! {
        fn aio_read(request: *mut Request) -> c_int;
        fn aio_read64(request: *mut Request) -> c_int;
        fn aio_write(request: *mut Request) -> c_int;
        fn aio_write64(request: *mut Request) -> c_int;
        fn aio_fsync(how: c_int, request: *mut Request) -> c_int;
        fn aio_fsync64(how: c_int, request: *mut Request) -> c_int;
        fn aio_error(request: *const Request) -> c_int;
        fn aio_error64(request: *const Request) -> c_int;
        fn aio_return(request: *mut Request) -> isize;
        fn aio_return64(request: *mut Request) -> isize;
        fn aio_suspend(list: *const *const Request, count: c_int, time: Bytes) -> c_int;
        fn aio_suspend64(list: *const *const Request, count: c_int, time: Bytes) -> c_int;
        fn lio_listio(mode: c_int, list: *const *mut Request, count: c_int, event: *const Event) -> c_int;
        fn lio_listio64(mode: c_int, list: *const *mut Request, count: c_int, event: *const Event) -> c_int;
        fn io_uring_queue_init(entries: c_uint, ring: Bytes, flags: c_uint) -> c_int;
        fn io_uring_queue_init_params(entries: c_uint, ring: Bytes, parameters: Bytes) -> c_int;
    }
}

use real_functions as real_call;

/// `struct sigevent`, as far as it is of interest.
#[repr(C)]
pub struct Event {
    value: usize,
    signal: c_int,
    notification: c_int,
}

const READ: c_int = 0;
const WRITE: c_int = 1;
const NOTHING: c_int = 2;
const IO_URING_SETUP: usize = 425;

fn key(request: *const Request) -> Key {
    Key::new(kind::ASYNCHRONOUS, request as u64, 0)
}

/// Who is told of the end learns it by a signal, or in a thread of the C library.
fn asks_to_be_told(signal: c_int, notification: c_int, pc: usize) {
    const NONE: c_int = 1;
    const SIGNAL: c_int = 0;
    if notification != NONE && (notification != SIGNAL || signal != 0) {
        signal::starts_timer(pc);
    }
}

/// A call is about to ask for this.
///
/// # Safety
/// `request` is null or a request of the program.
unsafe fn asks(request: *const Request, what: c_int, pc: usize) {
    if request.is_null() || !channels::watching() {
        return;
    }
    // SAFETY: the caller's promise.
    let asked = unsafe { &*request };
    if what == READ {
        buffer::writes(asked.buffer, asked.size, pc);
    } else if what == WRITE {
        buffer::kernel_reads(asked.buffer, asked.size, pc);
        stream::writes_to(asked.file, pc);
    }
    channels::send(key(request), pc);
    asks_to_be_told(asked.signal, asked.notification, pc);
}

/// A call has found the request done.
fn is_done(request: *const Request, pc: usize) {
    channels::receive(key(request), pc);
}

/// The state of a request, which `call` asks for.
fn state(request: *const Request, pc: usize, call: impl FnOnce() -> c_int) -> c_int {
    const EINPROGRESS: c_int = 115;
    let result = call();
    if result != EINPROGRESS {
        is_done(request, pc);
    }
    result
}

/// # Safety
/// `request` is a request of the program.
unsafe fn result_of(request: *const Request, pc: usize, call: impl FnOnce() -> isize) -> isize {
    let result = call();
    is_done(request, pc);
    if result > 0 && channels::watching() {
        // SAFETY: the caller's promise.
        let asked = unsafe { &*request };
        if asked.what == READ {
            buffer::received(asked.buffer, result, asked.size, pc);
            stream::has_read_from(asked.file, pc);
        }
    }
    result
}

/// Waits with `call` until one of the requests is done.
///
/// # Safety
/// `list` has `count` requests of the program, some of them null.
unsafe fn waiting(
    list: *const *const Request,
    count: c_int,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    const EINPROGRESS: c_int = 115;
    let result = away(call);
    if result == 0 && channels::watching() {
        for at in 0..count.max(0) as usize {
            // SAFETY: the caller's promise.
            let request = unsafe { *list.add(at) };
            // SAFETY: as above.
            if !request.is_null() && unsafe { real_call::aio_error(request) } != EINPROGRESS {
                is_done(request, pc);
            }
        }
    }
    result
}

/// Asks for all requests with `call`, which waits for them if `mode` says so.
///
/// # Safety
/// As `waiting`; `event` is null or one of the program.
unsafe fn listed(
    mode: c_int,
    list: *const *mut Request,
    count: c_int,
    event: *const Event,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    const WAITS: c_int = 0;
    let requests = || {
        // SAFETY: the caller's promise.
        let request = |at| unsafe { *list.add(at) };
        (0..count.max(0) as usize)
            .map(request)
            .filter(|request| !request.is_null())
    };
    if channels::watching() {
        for request in requests() {
            // SAFETY: the caller's promise.
            unsafe {
                if (*request).what != NOTHING {
                    asks(request, (*request).what, pc);
                }
            }
        }
        if mode != WAITS && !event.is_null() {
            // SAFETY: the caller's promise.
            let event = unsafe { &*event };
            asks_to_be_told(event.signal, event.notification, pc);
        }
    }
    let result = if mode == WAITS { away(call) } else { call() };
    if mode == WAITS {
        requests().for_each(|request| is_done(request, pc));
    }
    result
}

interpose! {
    fn aio_read(request: *mut Request) -> c_int |pc| {
        asks(request, READ, pc);
        real_call::aio_read(request)
    }
    fn aio_read64(request: *mut Request) -> c_int |pc| {
        asks(request, READ, pc);
        real_call::aio_read64(request)
    }
    fn aio_write(request: *mut Request) -> c_int |pc| {
        asks(request, WRITE, pc);
        real_call::aio_write(request)
    }
    fn aio_write64(request: *mut Request) -> c_int |pc| {
        asks(request, WRITE, pc);
        real_call::aio_write64(request)
    }
    fn aio_fsync(how: c_int, request: *mut Request) -> c_int |pc| {
        asks(request, NOTHING, pc);
        real_call::aio_fsync(how, request)
    }
    fn aio_fsync64(how: c_int, request: *mut Request) -> c_int |pc| {
        asks(request, NOTHING, pc);
        real_call::aio_fsync64(how, request)
    }
    fn aio_error(request: *const Request) -> c_int |pc| {
        state(request, pc, || real_call::aio_error(request))
    }
    fn aio_error64(request: *const Request) -> c_int |pc| {
        state(request, pc, || real_call::aio_error64(request))
    }
    fn aio_return(request: *mut Request) -> isize |pc| {
        result_of(request, pc, || real_call::aio_return(request))
    }
    fn aio_return64(request: *mut Request) -> isize |pc| {
        result_of(request, pc, || real_call::aio_return64(request))
    }
    fn aio_suspend(list: *const *const Request, count: c_int, time: Bytes) -> c_int |pc| {
        waiting(list, count, pc, || real_call::aio_suspend(list, count, time))
    }
    fn aio_suspend64(list: *const *const Request, count: c_int, time: Bytes) -> c_int |pc| {
        waiting(list, count, pc, || real_call::aio_suspend64(list, count, time))
    }
    fn lio_listio(mode: c_int, list: *const *mut Request, count: c_int, event: *const Event) -> c_int |pc| {
        listed(mode, list, count, event, pc, || real_call::lio_listio(mode, list, count, event))
    }
    fn lio_listio64(mode: c_int, list: *const *mut Request, count: c_int, event: *const Event) -> c_int |pc| {
        listed(mode, list, count, event, pc, || real_call::lio_listio64(mode, list, count, event))
    }

    fn io_uring_queue_init(entries: c_uint, ring: Bytes, flags: c_uint) -> c_int |pc| {
        unknown::called(IO_URING_SETUP, pc);
        real_call::io_uring_queue_init(entries, ring, flags)
    }
    fn io_uring_queue_init_params(entries: c_uint, ring: Bytes, parameters: Bytes) -> c_int |pc| {
        unknown::called(IO_URING_SETUP, pc);
        real_call::io_uring_queue_init_params(entries, ring, parameters)
    }
}
