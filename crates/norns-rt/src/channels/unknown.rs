//! Calls that may order threads in a way that is not known here. Their numbers are told, so that
//! nobody takes a run in which they were made for one that is understood.

use core::ffi::c_long;
use core::sync::atomic::{AtomicU64, Ordering};

use super::transfer::found_ready;
use super::watching;

use crate::mode::is_recording;
use crate::wire::Code;
use crate::{attach, control};

pub const READ: usize = 0;
/// A write that waited until another thread had made room.
pub const WRITE: usize = 1;
pub const RECEIVE: usize = 45;
const IO_CONTROL: usize = 16;

const WORDS: usize = 8;

/// A bit for every number that has been told.
static TOLD: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// The running thread makes the call with this number.
pub fn called(number: usize, pc: usize) {
    if !watching() {
        return;
    }
    if !is_recording() && !has_threads() {
        return;
    }
    let word = &TOLD[number / 64 % WORDS];
    let bit = 1 << (number % 64);
    if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    if is_recording() {
        if let Some(thread) = attach::current() {
            thread.log(Code::UnknownCall, 0, pc, number, [0; 2]);
        }
    } else {
        control::unknown_call(number as u32);
    }
}

/// Whether there is, or was, a thread besides the main one.
fn has_threads() -> bool {
    attach::current().is_some_and(|thread| thread.number > 0 || thread.children > 0)
}

/// In the child process after a fork, which is another recording.
pub fn forked() {
    for word in &TOLD {
        word.store(0, Ordering::Relaxed);
    }
}

/// The running thread has called `ioctl`. What concerns terminals, flags of descriptors and network
/// interfaces orders nothing.
///
/// # Safety
/// The call has succeeded with this argument.
pub unsafe fn controlled(file: i32, request: usize, argument: usize, pc: usize) {
    const BYTES_TO_READ: usize = 0x541b;
    if !watching() {
        return;
    }
    match request & 0xffff {
        BYTES_TO_READ => {
            // SAFETY: the caller's promise: the kernel has stored the number there.
            if unsafe { *(argument as *const i32) } > 0 {
                found_ready(file, false, pc);
            }
        }
        0x5400..=0x54ff | 0x8900..=0x8bff => {}
        _ => called(IO_CONTROL, pc),
    }
}

/// Whether a system call is known to pass nothing from thread to thread. (Those with functions of
/// their own are not here: programs call those.)
pub fn orders_nothing(number: c_long) -> bool {
    matches!(
        number,
        // Memory, and what a thread is.
        9..=12 | 25..=28 | 149..=152 | 157 | 158 | 186 | 203 | 204 | 218 | 237..=239 | 256 | 273 | 274 | 279
            // Identities, limits and priorities.
            | 39 | 97..=100 | 102..=121 | 140..=147 | 160 | 251 | 252 | 302 | 309 | 314 | 315
            // Time and chance.
            | 24 | 35 | 96 | 201 | 227..=230 | 318
            // Names of files, and descriptors that are new.
            | 2 | 4..=6 | 8 | 21 | 32 | 40 | 79 | 80 | 89 | 217 | 257 | 262 | 263 | 267 | 269 | 290..=294 | 319
            | 324 | 332 | 334 | 434 | 436..=439 | 441
    )
}
