//! Calls that pass bytes and connections through descriptors. What they order is told by
//! `channels::transfer`, their buffers by `buffer`; where they may sleep, `blocking` lets others run.

use core::ffi::{c_int, c_uint, c_void};

use super::blocking::{POLLIN, POLLOUT, away, on};
use super::buffer::{self, Message, Part};
use super::files::{or, wish_of_stream};
use crate::channels::life;
use crate::channels::socket::{self, Name};
use crate::channels::transfer::{self, Leaves, receiving, sending};
use crate::channels::{self, watching};
use crate::files::{self, HERE, redirected};
use crate::inputs::served;
use crate::mode::{is_guarded, is_off};
use crate::{inputs, interpose, outputs, real};

type Bytes = *mut c_void;

/// `struct mmsghdr`.
#[repr(C)]
pub struct Sent {
    message: Message,
    size: c_uint,
}

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
        fn recvfrom(file: c_int, to: Bytes, size: usize, flags: c_int, address: Bytes, length: Bytes) -> isize;
        fn sendto(file: c_int, from: Bytes, size: usize, flags: c_int, address: Bytes, length: u32) -> isize;
        fn recvmsg(file: c_int, message: *mut Message, flags: c_int) -> isize;
        fn sendmsg(file: c_int, message: *mut Message, flags: c_int) -> isize;
        fn recvmmsg(file: c_int, messages: *mut Sent, count: c_uint, flags: c_int, time: Bytes) -> c_int;
        fn sendmmsg(file: c_int, messages: *mut Sent, count: c_uint, flags: c_int) -> c_int;
        fn sendfile(to: c_int, from: c_int, at: Bytes, size: usize) -> isize;
        fn sendfile64(to: c_int, from: c_int, at: Bytes, size: usize) -> isize;
        fn splice(from: c_int, from_at: Bytes, to: c_int, to_at: Bytes, size: usize, flags: c_uint) -> isize;
        fn tee(from: c_int, to: c_int, size: usize, flags: c_uint) -> isize;
        fn vmsplice(file: c_int, parts: *const Part, count: usize, flags: c_uint) -> isize;
        fn poll(files: *mut c_int, count: usize, milliseconds: c_int) -> c_int;
        fn copy_file_range(from: c_int, from_at: Bytes, to: c_int, to_at: Bytes, size: usize, flags: c_uint) -> isize;
        fn preadv64(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize;
        fn pwritev64(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize;
        fn preadv2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize;
        fn pwritev2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize;
        fn preadv64v2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize;
        fn pwritev64v2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize;
        fn accept(file: c_int, address: Bytes, length: Bytes) -> c_int;
        fn accept4(file: c_int, address: Bytes, length: Bytes, flags: c_int) -> c_int;
        fn bind(file: c_int, address: Bytes, length: u32) -> c_int;
        fn connect(file: c_int, address: Bytes, length: u32) -> c_int;
        fn socketpair(domain: c_int, sort: c_int, protocol: c_int, ends: *mut [c_int; 2]) -> c_int;
        fn shutdown(file: c_int, how: c_int) -> c_int;
        fn close(file: c_int) -> c_int;
        fn dup2(old: c_int, new: c_int) -> c_int;
        fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
        fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
        fn closefrom(first: c_int);
        fn freopen(path: *const c_void, mode: *const c_void, stream: Bytes) -> Bytes;
        fn freopen64(path: *const c_void, mode: *const c_void, stream: Bytes) -> Bytes;
        fn closedir(directory: Bytes) -> c_int;
        fn fileno(stream: Bytes) -> c_int;
        fn dirfd(directory: Bytes) -> c_int;
        fn eventfd_read(file: c_int, value: *mut u64) -> c_int;
        fn eventfd_write(file: c_int, value: u64) -> c_int;
        fn timerfd_settime(file: c_int, flags: c_int, new: Bytes, old: Bytes) -> c_int;
    }
}

use real_functions as real_call;

/// `struct itimerspec`.
#[repr(C)]
struct TimerTimes {
    interval: served::Time,
    first: served::Time,
}

impl TimerTimes {
    /// # Safety
    /// `given` is null or a `struct itimerspec`.
    unsafe fn of(given: Bytes) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!given.is_null()).then(|| unsafe { given.cast::<TimerTimes>().read() })
    }
}

/// What a program writes to an eventfd.
///
/// # Safety
/// `from` has `size` bytes, if the descriptor is an eventfd.
unsafe fn value(from: Bytes, size: usize) -> u64 {
    if size < 8 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { from.cast::<u64>().read_unaligned() }
}

/// The size of all parts together.
///
/// # Safety
/// `parts` are `count` parts, if somebody wants to know.
unsafe fn size_of_parts(parts: *const Part, count: usize) -> usize {
    if !watching() || parts.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { buffer::size_of_parts(parts, count) }
}

/// # Safety
/// `message` is null or a `struct msghdr`.
unsafe fn size_of_message(message: *const Message) -> usize {
    if !watching() || message.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { buffer::size_of_message(message) }
}

fn leaves(flags: c_int) -> Leaves {
    const MSG_PEEK: c_int = 2;
    if flags & MSG_PEEK != 0 {
        Leaves::Everything
    } else {
        Leaves::Nothing
    }
}

/// A call has received bytes from a connection, or has found its end.
///
/// # Safety
/// `to` has as many bytes as `result` says.
unsafe fn got_bytes(file: c_int, to: Bytes, size: usize, flags: c_int, result: isize) {
    if leaves(flags) == Leaves::Nothing && size > 0 {
        inputs::datagram(file, result);
        // SAFETY: the caller's promise.
        unsafe { served::read(file, to.cast(), result) };
        let part = (to.cast_const().cast(), size);
        // SAFETY: the caller's promise.
        unsafe { inputs::received(file, result, core::iter::once(part)) };
    }
}

/// Reads from the place `at` of a file with `call`, or from where the descriptor stands if that is -1.
///
/// # Safety
/// `parts` are so many parts of the program.
unsafe fn reading_parts(
    file: c_int,
    (parts, count): (*const Part, c_int),
    at: i64,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    let number = count.max(0) as usize;
    // SAFETY: the caller's promise.
    unsafe {
        let first = buffer::first_part(parts, number);
        if at >= 0 {
            let result = receiving(file, first.cast(), 0, Leaves::Everything, pc, call);
            buffer::received_parts(parts, number, result, pc);
            return result;
        }
        let size = size_of_parts(parts, number);
        let result = receiving(file, first.cast(), size, Leaves::Nothing, pc, call);
        inputs::received(file, result, buffer::pieces(parts, number));
        buffer::received_parts(parts, number, result, pc);
        result
    }
}

/// Writes to a place of a file with `call`, or to where the descriptor stands.
///
/// # Safety
/// As `reading_parts`.
unsafe fn writing_parts(
    file: c_int,
    (parts, count): (*const Part, c_int),
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    let number = count.max(0) as usize;
    // SAFETY: the caller's promise.
    unsafe {
        buffer::reads_parts(parts, number, pc);
        let first = buffer::first_part(parts, number);
        let size = size_of_parts(parts, number);
        sending(file, size, || value(first, size), pc, call)
    }
}

/// A call is about to move bytes from one descriptor to another: whoever receives them there comes after
/// their sender, so that has to be told first. As the call itself, the wait for them can be cancelled, and
/// a signal ends it: then the result is false.
fn has_waited_for_bytes(from: c_int, flags: c_uint, pc: usize) -> bool {
    const NONBLOCKING: c_uint = 2;
    if !watching() {
        return true;
    }
    if flags & NONBLOCKING == 0 && !channels::descriptor::is_nonblocking(from) {
        let mut asked = [from, c_int::from(POLLIN)];
        // SAFETY: one `struct pollfd`, eight bytes, which live until the call returns.
        if away(|| unsafe { real_call::poll(asked.as_mut_ptr(), 1, -1) }) < 0 {
            return false;
        }
    }
    if channels::descriptor::is_ready(from, POLLIN) {
        transfer::found_ready(from, false, pc);
    }
    true
}

/// Sends to the socket of this name, or to the one that it is connected with.
unsafe fn sending_to(
    file: c_int,
    name: Name,
    size: usize,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    if watching()
        && let Some(destination) = socket::destination(file, name)
    {
        channels::send(destination, pc);
    }
    sending(file, size, || 0, pc, call)
}

/// Connects with `call`. What was done before is before what the accepting thread does.
unsafe fn connecting(
    file: c_int,
    address: Bytes,
    length: u32,
    pc: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    if !watching() {
        return call();
    }
    socket::reconnected(file);
    // SAFETY: the program passed a name of this length.
    let name = unsafe { Name::given(address.cast(), length as usize) };
    let Some(listener) = name.listener() else {
        return call();
    };
    let sending = channels::begin_send(listener, 0, 1, || 0, pc);
    let result = call();
    const EINPROGRESS: c_int = 115;
    // SAFETY: the error number of this thread.
    let under_way = result < 0 && unsafe { *crate::sys::__errno_location() } == EINPROGRESS;
    channels::end_send(sending, u64::from(result == 0 || under_way));
    if result == 0 {
        // From here on it is known that the other end sends to this process.
        channels::descriptor::ways(file);
    }
    result
}

/// The C library is about to close the descriptor of the stream.
///
/// # Safety
/// `stream` is one, or null.
pub unsafe fn stream_ends(stream: Bytes) {
    // SAFETY: the caller's promise.
    ends_with(stream, |stream| unsafe { real_call::fileno(stream) });
}

/// The C library is about to close the descriptor of a stream or directory, which `number` tells.
fn ends_with(owner: Bytes, number: impl FnOnce(Bytes) -> c_int) {
    if is_off() || is_guarded() || owner.is_null() {
        return;
    }
    // SAFETY: the error number of this thread.
    let error = unsafe { crate::sys::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { error.read() };
    // A stream without a descriptor is an error.
    life::ended(number(owner));
    // SAFETY: as above.
    unsafe { error.write(before) };
}

interpose! {
    fn read(file: c_int, to: Bytes, size: usize) -> isize |pc| {
        let result = receiving(file, to.cast(), size, Leaves::Nothing, pc, || {
            on(file, POLLIN, || real_call::read(file, to, size))
        });
        got_bytes(file, to, size, 0, result);
        buffer::received(to, result, size, pc);
        result
    }
    fn __read_chk(file: c_int, to: Bytes, size: usize, room: usize) -> isize |pc| {
        let result = receiving(file, to.cast(), size, Leaves::Nothing, pc, || {
            on(file, POLLIN, || real_call::__read_chk(file, to, size, room))
        });
        got_bytes(file, to, size, 0, result);
        buffer::received(to, result, size, pc);
        result
    }
    fn pread(file: c_int, to: Bytes, size: usize, at: i64) -> isize |pc| {
        let call = || real_call::pread(file, to, size, at);
        let result = receiving(file, to.cast(), size, Leaves::Everything, pc, call);
        buffer::received(to, result, size, pc);
        result
    }
    fn pread64(file: c_int, to: Bytes, size: usize, at: i64) -> isize |pc| {
        let call = || real_call::pread64(file, to, size, at);
        let result = receiving(file, to.cast(), size, Leaves::Everything, pc, call);
        buffer::received(to, result, size, pc);
        result
    }
    fn write(file: c_int, from: Bytes, size: usize) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        let result = sending(file, size, || value(from, size), pc, || {
            on(file, POLLOUT, || real_call::write(file, from, size))
        });
        outputs::sent(file, result, core::iter::once((from.cast_const().cast(), size)));
        result
    }
    fn pwrite(file: c_int, from: Bytes, size: usize, at: i64) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        sending(file, size, || 0, pc, || real_call::pwrite(file, from, size, at))
    }
    fn pwrite64(file: c_int, from: Bytes, size: usize, at: i64) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        sending(file, size, || 0, pc, || real_call::pwrite64(file, from, size, at))
    }
    fn readv(file: c_int, parts: *const Part, count: c_int) -> isize |pc| {
        let number = count.max(0) as usize;
        let first = buffer::first_part(parts, number);
        let size = size_of_parts(parts, number);
        let result = receiving(file, first.cast(), size, Leaves::Nothing, pc, || {
            on(file, POLLIN, || real_call::readv(file, parts, count))
        });
        inputs::received(file, result, buffer::pieces(parts, number));
        buffer::received_parts(parts, number, result, pc);
        result
    }
    fn preadv(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize |pc| {
        reading_parts(file, (parts, count), at, pc, || real_call::preadv(file, parts, count, at))
    }
    fn preadv64(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize |pc| {
        reading_parts(file, (parts, count), at, pc, || real_call::preadv64(file, parts, count, at))
    }
    fn preadv2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize |pc| {
        reading_parts(file, (parts, count), at, pc, || real_call::preadv2(file, parts, count, at, flags))
    }
    fn preadv64v2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize |pc| {
        reading_parts(file, (parts, count), at, pc, || real_call::preadv64v2(file, parts, count, at, flags))
    }
    fn writev(file: c_int, parts: *const Part, count: c_int) -> isize |pc| {
        let number = count.max(0) as usize;
        buffer::reads_parts(parts, number, pc);
        let size = size_of_parts(parts, number);
        let first = buffer::first_part(parts, number);
        let result = sending(file, size, || value(first, size), pc, || {
            on(file, POLLOUT, || real_call::writev(file, parts, count))
        });
        outputs::sent(file, result, buffer::pieces(parts, number));
        result
    }
    fn pwritev(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize |pc| {
        writing_parts(file, (parts, count), pc, || real_call::pwritev(file, parts, count, at))
    }
    fn pwritev64(file: c_int, parts: *const Part, count: c_int, at: i64) -> isize |pc| {
        writing_parts(file, (parts, count), pc, || real_call::pwritev64(file, parts, count, at))
    }
    fn pwritev2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize |pc| {
        writing_parts(file, (parts, count), pc, || real_call::pwritev2(file, parts, count, at, flags))
    }
    fn pwritev64v2(file: c_int, parts: *const Part, count: c_int, at: i64, flags: c_int) -> isize |pc| {
        writing_parts(file, (parts, count), pc, || real_call::pwritev64v2(file, parts, count, at, flags))
    }
    fn recv(file: c_int, to: Bytes, size: usize, flags: c_int) -> isize |pc| {
        let result = receiving(file, to.cast(), size, leaves(flags), pc, || {
            on(file, POLLIN, || real_call::recv(file, to, size, flags))
        });
        got_bytes(file, to, size, flags, result);
        buffer::received(to, result, size, pc);
        result
    }
    fn send(file: c_int, from: Bytes, size: usize, flags: c_int) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        let result = sending(file, size, || 0, pc, || {
            on(file, POLLOUT, || real_call::send(file, from, size, flags))
        });
        outputs::sent(file, result, core::iter::once((from.cast_const().cast(), size)));
        result
    }
    fn recvfrom(file: c_int, to: Bytes, size: usize, flags: c_int, address: Bytes, length: Bytes) -> isize |pc| {
        let call = || receiving(file, to.cast(), size, leaves(flags), pc, || {
            on(file, POLLIN, || real_call::recvfrom(file, to, size, flags, address, length))
        });
        let result = buffer::filling_address(address, length, pc, call, |result| result >= 0);
        got_bytes(file, to, size, flags, result);
        buffer::received(to, result, size, pc);
        result
    }
    fn sendto(file: c_int, from: Bytes, size: usize, flags: c_int, address: Bytes, length: u32) -> isize |pc| {
        buffer::kernel_reads(from, size, pc);
        buffer::kernel_reads(address, length as usize, pc);
        let name = Name::given(address.cast(), length as usize);
        let result = sending_to(file, name, size, pc, || {
            on(file, POLLOUT, || real_call::sendto(file, from, size, flags, address, length))
        });
        outputs::sent(file, result, core::iter::once((from.cast_const().cast(), size)));
        result
    }
    fn recvmsg(file: c_int, message: *mut Message, flags: c_int) -> isize |pc| {
        let size = size_of_message(message);
        let result = buffer::receiving_message(message, pc, || {
            receiving(file, core::ptr::null(), size, leaves(flags), pc, || {
                on(file, POLLIN, || real_call::recvmsg(file, message, flags))
            })
        });
        if leaves(flags) == Leaves::Nothing && !message.is_null() {
            inputs::datagram(file, result);
            inputs::received(file, result, buffer::pieces_of_message(message));
        }
        result
    }
    fn sendmsg(file: c_int, message: *mut Message, flags: c_int) -> isize |pc| {
        buffer::reads_message(message, pc);
        let size = size_of_message(message);
        let (address, length) = buffer::name_of_message(message);
        let result = sending_to(file, Name::given(address, length), size, pc, || {
            on(file, POLLOUT, || real_call::sendmsg(file, message, flags))
        });
        if result > 0 {
            outputs::sent(file, result, buffer::pieces_of_message(message));
        }
        result
    }
    fn recvmmsg(file: c_int, messages: *mut Sent, count: c_uint, flags: c_int, time: Bytes) -> c_int |pc| {
        let mut result = 0;
        inputs::lost(file);
        receiving(file, core::ptr::null(), usize::MAX >> 8, leaves(flags), pc, || {
            result = away(|| real_call::recvmmsg(file, messages, count, flags, time));
            let got = (0..result.max(0) as usize).map(|at| (*messages.add(at)).size as isize);
            if result < 0 { -1 } else { got.sum() }
        });
        for at in 0..result.max(0) as usize {
            let message = &*messages.add(at);
            buffer::received_message(&message.message, message.size as isize, pc);
        }
        result
    }
    fn sendmmsg(file: c_int, messages: *mut Sent, count: c_uint, flags: c_int) -> c_int |pc| {
        let mut size = 0;
        for at in 0..count as usize {
            let message = &(*messages.add(at)).message;
            buffer::reads_message(message, pc);
            size += size_of_message(message);
            let (address, length) = buffer::name_of_message(message);
            if watching()
                && let Some(destination) = socket::destination(file, Name::given(address, length))
            {
                channels::send(destination, pc);
            }
        }
        let mut result = 0;
        sending(file, size, || 0, pc, || {
            result = away(|| real_call::sendmmsg(file, messages, count, flags));
            let sent = (0..result.max(0) as usize).map(|at| (*messages.add(at)).size as isize);
            if result < 0 { -1 } else { sent.sum() }
        });
        result
    }
    fn sendfile(to: c_int, from: c_int, at: Bytes, size: usize) -> isize |pc| {
        receiving(from, core::ptr::null(), size, Leaves::Everything, pc, || {
            sending(to, size, || 0, pc, || {
                on(to, POLLOUT, || real_call::sendfile(to, from, at, size))
            })
        })
    }
    fn sendfile64(to: c_int, from: c_int, at: Bytes, size: usize) -> isize |pc| {
        receiving(from, core::ptr::null(), size, Leaves::Everything, pc, || {
            sending(to, size, || 0, pc, || {
                on(to, POLLOUT, || real_call::sendfile64(to, from, at, size))
            })
        })
    }
    fn copy_file_range(from: c_int, from_at: Bytes, to: c_int, to_at: Bytes, size: usize, flags: c_uint) -> isize |pc| {
        receiving(from, core::ptr::null(), size, Leaves::Everything, pc, || {
            sending(to, size, || 0, pc, || {
                real_call::copy_file_range(from, from_at, to, to_at, size, flags)
            })
        })
    }
    fn splice(from: c_int, from_at: Bytes, to: c_int, to_at: Bytes, size: usize, flags: c_uint) -> isize |pc| {
        inputs::lost(from);
        if !has_waited_for_bytes(from, flags, pc) {
            return -1;
        }
        receiving(from, core::ptr::null(), size, Leaves::Nothing, pc, || {
            sending(to, size, || 0, pc, || {
                away(|| real_call::splice(from, from_at, to, to_at, size, flags))
            })
        })
    }
    fn tee(from: c_int, to: c_int, size: usize, flags: c_uint) -> isize |pc| {
        if !has_waited_for_bytes(from, flags, pc) {
            return -1;
        }
        receiving(from, core::ptr::null(), size, Leaves::Everything, pc, || {
            sending(to, size, || 0, pc, || away(|| real_call::tee(from, to, size, flags)))
        })
    }
    fn vmsplice(file: c_int, parts: *const Part, count: usize, flags: c_uint) -> isize |pc| {
        let size = size_of_parts(parts, count);
        if channels::descriptor::is_writable(file) {
            buffer::reads_parts(parts, count, pc);
            return sending(file, size, || 0, pc, || {
                on(file, POLLOUT, || real_call::vmsplice(file, parts, count, flags))
            });
        }
        let result = receiving(file, core::ptr::null(), size, Leaves::Nothing, pc, || {
            on(file, POLLIN, || real_call::vmsplice(file, parts, count, flags))
        });
        buffer::received_parts(parts, count, result, pc);
        result
    }

    fn accept(file: c_int, address: Bytes, length: Bytes) -> c_int |pc| {
        let call = || transfer::accepting(file, pc, || {
            on(file, POLLIN, || real_call::accept(file, address, length))
        });
        buffer::filling_address(address, length, pc, call, |result| result >= 0)
    }
    fn accept4(file: c_int, address: Bytes, length: Bytes, flags: c_int) -> c_int |pc| {
        let call = || transfer::accepting(file, pc, || {
            on(file, POLLIN, || real_call::accept4(file, address, length, flags))
        });
        buffer::filling_address(address, length, pc, call, |result| result >= 0)
    }
    fn bind(file: c_int, address: Bytes, length: u32) -> c_int |pc| {
        if files::are_private() {
            socket::reuse_name(file, address.cast(), length as usize);
        }
        real_call::bind(file, address, length)
    }
    fn connect(file: c_int, address: Bytes, length: u32) -> c_int |pc| {
        buffer::kernel_reads(address, length as usize, pc);
        connecting(file, address, length, pc, || {
            let result = away(|| real_call::connect(file, address, length));
            const EINPROGRESS: c_int = 115;
            if result == 0 || *crate::sys::__errno_location() == EINPROGRESS {
                inputs::connected(file, address.cast(), length as usize);
            }
            result
        })
    }
    fn socketpair(domain: c_int, sort: c_int, protocol: c_int, ends: *mut [c_int; 2]) -> c_int |pc| {
        let result = real_call::socketpair(domain, sort, protocol, ends);
        if result == 0 && !is_off() && !is_guarded() {
            socket::paired(*ends);
        }
        result
    }

    fn shutdown(file: c_int, how: c_int) -> c_int |pc| {
        transfer::shutting_down(file, how, pc);
        real_call::shutdown(file, how)
    }
    fn close(file: c_int) -> c_int |pc| {
        inputs::closes(file);
        transfer::closing(file, pc);
        life::closing(file, pc);
        real_call::close(file)
    }
    fn dup2(old: c_int, new: c_int) -> c_int |pc| {
        inputs::lost(old);
        if old != new {
            transfer::closing(new, pc);
            life::used(new, pc);
        }
        real_call::dup2(old, new)
    }
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int |pc| {
        transfer::closing(new, pc);
        life::used(new, pc);
        real_call::dup3(old, new, flags)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int |pc| {
        life::all_ended(first, last);
        real_call::close_range(first, last, flags)
    }
    fn closefrom(first: c_int) |pc| {
        life::all_ended(first.max(0) as c_uint, c_uint::MAX);
        real_call::closefrom(first);
    }
    fn freopen(path: *const c_void, mode: *const c_void, stream: Bytes) -> Bytes |pc| {
        stream_ends(stream);
        let own = redirected(HERE, path.cast(), wish_of_stream(mode.cast()));
        real_call::freopen(or(&own, path.cast()).cast(), mode, stream)
    }
    fn freopen64(path: *const c_void, mode: *const c_void, stream: Bytes) -> Bytes |pc| {
        stream_ends(stream);
        let own = redirected(HERE, path.cast(), wish_of_stream(mode.cast()));
        real_call::freopen64(or(&own, path.cast()).cast(), mode, stream)
    }
    fn closedir(directory: Bytes) -> c_int |pc| {
        ends_with(directory, |directory| real_call::dirfd(directory));
        real_call::closedir(directory)
    }

    fn eventfd_read(file: c_int, into: *mut u64) -> c_int |pc| {
        let mut result = 0;
        receiving(file, into.cast(), 8, Leaves::Nothing, pc, || {
            result = on(file, POLLIN, || real_call::eventfd_read(file, into));
            if result == 0 { 8 } else { -1 }
        });
        if result == 0 {
            buffer::filled(into, 8, pc);
        }
        result
    }
    fn eventfd_write(file: c_int, count: u64) -> c_int |pc| {
        let mut result = 0;
        sending(file, 8, || count, pc, || {
            result = on(file, POLLOUT, || real_call::eventfd_write(file, count));
            if result == 0 { 8 } else { -1 }
        });
        result
    }
    fn timerfd_settime(file: c_int, flags: c_int, new: Bytes, old: Bytes) -> c_int |pc| {
        channels::send(channels::descriptor::timer(), pc);
        const ABSOLUTE: c_int = 1;
        let mut times = TimerTimes::of(new);
        if flags & ABSOLUTE != 0
            && let Some(times) = &mut times
            && let Some(first) = served::deadline_of_timer(&raw const times.first)
        {
            times.first = first;
        }
        let new = times.as_ref().map_or(new, |times| (&raw const *times).cast_mut().cast());
        real_call::timerfd_settime(file, flags, new, old)
    }
}
