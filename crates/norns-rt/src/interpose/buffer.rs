//! Memory that a function of the C library reads or writes for its caller, as accesses of the caller.
//!
//! What a call only reads is told before it: it may let another thread go on, and what that thread
//! does afterwards comes after the read. What a call fills in is told after it, when its size is
//! known, and after whatever the call waited for.

use core::ffi::c_void;

use crate::hooks::slow_access;
use crate::inputs;
use crate::mode::{Mode, mode};
use crate::record::{self, values};
use crate::sys;

/// Whether ranges are logged in this run: not for a program that is not instrumented.
#[inline(always)]
pub fn seen() -> bool {
    match mode() {
        Mode::Off | Mode::Guard => false,
        Mode::Record | Mode::RecordValues => record::sees_memory(),
        Mode::Replay | Mode::Detect | Mode::ReplayDetect => true,
    }
}

/// Whether the kernel could read this range. A call with a bad address fails, where looking at the
/// values there would end the program.
fn is_readable(address: usize, size: usize) -> bool {
    const PROCESS_VM_READV: usize = 310;
    let mut byte = 0u8;
    let here = [&raw mut byte as usize, 1];
    [address, address.wrapping_add(size).wrapping_sub(1)]
        .iter()
        .all(|&end| {
            let there = [end, 1];
            let (here, there) = (here.as_ptr() as usize, there.as_ptr() as usize);
            // SAFETY: the kernel writes one byte at `here`, which lives until the call returns.
            unsafe {
                sys::call6(
                    PROCESS_VM_READV,
                    sys::getpid() as usize,
                    here,
                    1,
                    there,
                    1,
                    0,
                ) == 1
            }
        })
}

/// A system call is about to read `size` bytes.
#[inline(always)]
pub fn kernel_reads<T>(from: *const T, size: usize, pc: usize) {
    if seen() && (mode() != Mode::RecordValues || is_readable(from as usize, size)) {
        slow_access(from as usize, size, false, pc);
    }
}

/// The call is about to read `size` bytes.
#[inline(always)]
pub fn reads<T>(from: *const T, size: usize, pc: usize) {
    if seen() {
        slow_access(from as usize, size, false, pc);
    }
}

/// The call is about to write `size` bytes.
#[inline(always)]
pub fn writes<T>(to: *const T, size: usize, pc: usize) {
    if seen() {
        slow_access(to as usize, size, true, pc);
    }
}

/// The call has filled in `size` bytes.
#[inline(always)]
pub fn filled<T>(to: *const T, size: usize, pc: usize) {
    if size == 0 || to.is_null() {
        return;
    }
    if mode() == Mode::RecordValues {
        values::written(to as usize, size, pc);
    } else {
        writes(to, size, pc);
    }
}

/// The call has returned how many bytes it filled in, or an error below zero.
#[inline(always)]
pub fn received<T>(to: *const T, result: isize, most: usize, pc: usize) {
    if result > 0 {
        // With MSG_TRUNC the result is the size of the message, not of what arrived.
        filled(to, (result as usize).min(most), pc);
    }
}

/// `struct iovec`.
#[repr(C)]
pub struct Part {
    start: *mut c_void,
    size: usize,
}

/// `struct msghdr`.
#[repr(C)]
pub struct Message {
    name: *mut c_void,
    name_size: u32,
    parts: *mut Part,
    count: usize,
    control: *mut c_void,
    control_size: usize,
    flags: i32,
}

/// Calls `act` with the start and size of each part of the first `size` bytes.
///
/// # Safety
/// `parts` are `count` parts.
unsafe fn each_part(
    parts: *const Part,
    count: usize,
    size: usize,
    act: impl Fn(*mut c_void, usize),
) {
    let mut left = size;
    for index in 0..count {
        if left == 0 {
            break;
        }
        // SAFETY: the caller promises so many parts.
        let part = unsafe { &*parts.add(index) };
        let here = part.size.min(left);
        act(part.start, here);
        left -= here;
    }
}

/// The size of all parts together.
///
/// # Safety
/// `parts` are `count` parts.
pub unsafe fn size_of_parts(parts: *const Part, count: usize) -> usize {
    // SAFETY: the caller promises so many parts.
    let sizes = (0..count).map(|index| unsafe { (*parts.add(index)).size });
    sizes.fold(0, usize::saturating_add)
}

/// Where the first part begins.
///
/// # Safety
/// `parts` are `count` parts.
pub unsafe fn first_part(parts: *const Part, count: usize) -> *mut c_void {
    if count == 0 || parts.is_null() || !seen() {
        return core::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { (*parts).start }
}

/// The size of all parts of a message.
///
/// # Safety
/// `message` is a `struct msghdr`.
pub unsafe fn size_of_message(message: *const Message) -> usize {
    // SAFETY: the caller's promise.
    unsafe { size_of_parts((*message).parts, (*message).count) }
}

/// The name that a message is sent to, and its length.
///
/// # Safety
/// `message` is null or a `struct msghdr`.
pub unsafe fn name_of_message(message: *const Message) -> (*const u8, usize) {
    if message.is_null() || !seen() {
        return (core::ptr::null(), 0);
    }
    // SAFETY: the caller's promise.
    unsafe { ((*message).name.cast(), (*message).name_size as usize) }
}

/// The call has filled in `size` bytes of a message.
///
/// # Safety
/// `message` is a `struct msghdr`.
pub unsafe fn received_message(message: *const Message, size: isize, pc: usize) {
    // SAFETY: the caller's promise.
    unsafe { received_parts((*message).parts, (*message).count, size, pc) };
}

/// The call is about to read all parts.
///
/// # Safety
/// `parts` are `count` parts, as the program passed them.
pub unsafe fn reads_parts(parts: *const Part, count: usize, pc: usize) {
    if seen() && !parts.is_null() {
        kernel_reads(parts, count.saturating_mul(size_of::<Part>()), pc);
        // SAFETY: the caller's promise.
        unsafe {
            each_part(parts, count, usize::MAX, |start, size| {
                kernel_reads(start, size, pc);
            });
        };
    }
}

/// The call has filled in the first `result` bytes of the parts, or returned an error below zero.
///
/// # Safety
/// As `reads_parts`.
pub unsafe fn received_parts(parts: *const Part, count: usize, result: isize, pc: usize) {
    if seen() && result > 0 {
        let size = result as usize;
        // SAFETY: the caller's promise.
        unsafe { each_part(parts, count, size, |start, size| filled(start, size, pc)) };
    }
}

/// The start and size of each part.
///
/// # Safety
/// `parts` are `count` parts.
pub unsafe fn pieces(parts: *const Part, count: usize) -> impl Iterator<Item = inputs::Part> {
    let count = if parts.is_null() { 0 } else { count };
    (0..count).map(move |at| {
        // SAFETY: the caller's promise.
        let part = unsafe { &*parts.add(at) };
        (part.start.cast_const().cast(), part.size)
    })
}

/// The parts of a message.
///
/// # Safety
/// `message` is a `struct msghdr`.
pub unsafe fn pieces_of_message(message: *const Message) -> impl Iterator<Item = inputs::Part> {
    // SAFETY: the caller's promise.
    unsafe { pieces((*message).parts, (*message).count) }
}

/// The call is about to send a message.
///
/// # Safety
/// `message` is a `struct msghdr`, as the program passed it.
pub unsafe fn reads_message(message: *const Message, pc: usize) {
    if seen() && !message.is_null() {
        kernel_reads(message, size_of::<Message>(), pc);
        // SAFETY: the caller's promise.
        unsafe {
            kernel_reads((*message).name, (*message).name_size as usize, pc);
            kernel_reads((*message).control, (*message).control_size, pc);
            reads_parts((*message).parts, (*message).count, pc);
        }
    }
}

/// Receives a message with `call`, which returns its size or an error below zero.
///
/// # Safety
/// As `reads_message`.
pub unsafe fn receiving_message(
    message: *const Message,
    pc: usize,
    call: impl FnOnce() -> isize,
) -> isize {
    let room = if seen() && !message.is_null() {
        kernel_reads(message, size_of::<Message>(), pc);
        // SAFETY: the caller's promise.
        unsafe { (*message).name_size }
    } else {
        0
    };
    let result = call();
    if seen() && result >= 0 {
        // SAFETY: the caller's promise; the kernel has set the sizes to what it filled in.
        unsafe {
            filled((*message).name, (*message).name_size.min(room) as usize, pc);
            filled((*message).control, (*message).control_size, pc);
            received_parts((*message).parts, (*message).count, result, pc);
        }
    }
    result
}

/// A call that may fill in the address of a peer and its length; `succeeded` looks at its result.
///
/// # Safety
/// `length` is null or points to a `socklen_t`, as the program passed it.
pub unsafe fn filling_address<R: Copy>(
    address: *mut c_void,
    length: *mut c_void,
    pc: usize,
    call: impl FnOnce() -> R,
    succeeded: impl FnOnce(R) -> bool,
) -> R {
    if !seen() || address.is_null() || length.is_null() {
        return call();
    }
    let length = length.cast::<u32>();
    kernel_reads(length, size_of::<u32>(), pc);
    // SAFETY: the caller's promise.
    let room = unsafe { length.read() };
    let result = call();
    if succeeded(result) {
        // SAFETY: the caller's promise.
        let size = unsafe { length.read() };
        filled(address, size.min(room) as usize, pc);
        filled(length, size_of::<u32>(), pc);
    }
    result
}
