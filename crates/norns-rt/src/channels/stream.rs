//! Streams of the C library, which reads and writes inside itself, when and how much it likes. What
//! goes through one is not counted: who reads comes after all that was written so far.
//!
//! A program that prints is not slowed down for it: of the standard streams, and of files, only those
//! count that some thread of the program reads from, or another process.

use core::ffi::c_void;

use super::descriptor::{self, Way};
use super::transfer::closing;
use super::{
    Key, expect, files_watched, has_receiver, has_sender, lose_count, others, receive, receive_end,
    send, watching,
};

/// The descriptor of a stream; below zero if it has none.
///
/// # Safety
/// `stream` is an open stream.
unsafe fn file(stream: *mut c_void) -> i32 {
    /// Where glibc's `struct _IO_FILE` has it.
    const PLACE: usize = 112;
    if stream.is_null() {
        return -1;
    }
    // SAFETY: the caller's promise.
    unsafe { stream.cast::<u8>().add(PLACE).cast::<i32>().read() }
}

/// Whether the next byte has to be read from the descriptor.
///
/// # Safety
/// `stream` is an open stream.
pub unsafe fn is_used_up(stream: *mut c_void) -> bool {
    /// Where glibc's `struct _IO_FILE` has the next byte to be read, and the end of those that are
    /// there.
    const NEXT: usize = 1;
    const END: usize = 2;
    let words = stream.cast::<usize>();
    // SAFETY: the caller's promise.
    !stream.is_null() && unsafe { words.add(NEXT).read() >= words.add(END).read() }
}

/// The running thread is about to close a stream.
///
/// # Safety
/// `stream` is null or an open stream.
pub unsafe fn closes(stream: *mut c_void, pc: usize) {
    // SAFETY: the caller's promise.
    let file = unsafe { file(stream) };
    if file >= 0 {
        closing(file, pc);
    }
}

fn sends(key: Key, file: i32, pc: usize) {
    const STANDARD: i32 = 2;
    let has_receiver = has_receiver(key);
    if file > STANDARD || has_receiver {
        lose_count(key);
        send(key, pc);
    }
    if file > STANDARD && !has_receiver {
        others::given(pc);
    }
}

/// The running thread is about to write to a stream, to flush it or to close it.
///
/// # Safety
/// `stream` is null or an open stream.
pub unsafe fn writes(stream: *mut c_void, pc: usize) {
    if watching() {
        // SAFETY: the caller's promise.
        writes_to(unsafe { file(stream) }, pc);
    }
}

/// As `writes`, with a descriptor.
pub fn writes_to(file: i32, pc: usize) {
    if !watching() || file < 0 {
        return;
    }
    match descriptor::ways(file).out {
        Way::Stream { key, .. } | Way::Everything(key) => sends(key, file, pc),
        Way::File(key) => {
            files_watched::change(pc);
            if has_receiver(key) {
                send(key, pc);
            }
        }
        Way::Nothing | Way::Counter(_) | Way::Connections(_) | Way::Signals | Way::Unknown => {}
    }
}

/// The running thread has read from a stream.
///
/// # Safety
/// `stream` is an open stream.
pub unsafe fn has_read(stream: *mut c_void, pc: usize) {
    if watching() {
        // SAFETY: the caller's promise.
        has_read_from(unsafe { file(stream) }, pc);
    }
}

/// As `has_read`, with a descriptor.
pub fn has_read_from(file: i32, pc: usize) {
    if !watching() || file < 0 {
        return;
    }
    match descriptor::ways(file).into {
        Way::Stream { key, .. } | Way::Everything(key) => {
            lose_count(key);
            receive(key, pc);
            receive_end(key, pc);
            if !has_sender(key) {
                others::got(pc);
            }
        }
        Way::File(key) => {
            expect(key);
            receive(key, pc);
        }
        Way::Nothing | Way::Counter(_) | Way::Connections(_) | Way::Signals | Way::Unknown => {}
    }
}
