//! The life of descriptors: who uses them, and who closes them.
//!
//! A number that is closed goes to whatever is opened next, so a thread that still uses it reads or
//! writes another file. A use and a close are told as accesses to an address that stands for the number
//! and for how often it was closed before. A use is told before its call, a close before the number is
//! free: so nothing that the number stands for later is taken for what it stood for before.
//!
//! To put another file in the place of a descriptor with `dup2` is a use of the number: the number
//! stays open, which is why programs do so instead of closing it.
//!
//! Limits: numbers from 4096 on are not followed, and what the C library closes by itself, as `fclose`
//! does, ends a life without being seen as a close.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU16, Ordering};

use super::{Key, kind, receive, send};
use crate::control::access::{self, Life};
use crate::errno::EBADF;
use crate::guard;
use crate::mode::is_recording;
use crate::operation::Operation;
use crate::record;
use crate::wire::{Code, descriptor_address};

const MOST: usize = 4096;

/// How often each number was closed.
static CLOSED: [AtomicU16; MOST] = [const { AtomicU16::new(0) }; MOST];

fn generation(file: c_int) -> Option<u16> {
    let closed = CLOSED.get(usize::try_from(file).ok()?)?;
    Some(closed.load(Ordering::Acquire))
}

/// A call is about to use the descriptor.
#[inline]
pub fn used(file: c_int, pc: usize) {
    if let Some(generation) = generation(file) {
        tell(Code::Use, file, generation, pc);
    }
}

/// Uses the descriptor with `call`. If that finds it closed, it was meant for what the number stood for
/// before.
pub fn using(file: c_int, pc: usize, call: impl FnOnce() -> isize) -> isize {
    used(file, pc);
    let result = guard::through_kernel(call);
    // SAFETY: the error number of this thread.
    if result < 0 && unsafe { crate::sys::__errno_location().read() } == EBADF {
        let before = generation(file).and_then(|generation| generation.checked_sub(1));
        if let Some(before) = before.filter(|_| is_recording()) {
            tell(Code::Use, file, before, pc);
        }
    }
    result
}

/// The descriptor is about to be closed: its number is free for others then.
pub fn closing(file: c_int, pc: usize) {
    send(Key::new(kind::NUMBER, file as u64, 0), pc);
    if let Some(generation) = generation(file) {
        tell(Code::Destroy, file, generation, pc);
    }
    ended(file);
}

/// A connection was given this number, which whoever had it before has closed by now: what programs
/// keep in a table by number passes from one to the other.
pub fn accepted(file: c_int, pc: usize) {
    receive(Key::new(kind::NUMBER, file as u64, 0), pc);
}

/// The descriptor is about to be closed by the C library itself.
pub fn ended(file: c_int) {
    if let Some(closed) = usize::try_from(file).ok().and_then(|file| CLOSED.get(file)) {
        closed.fetch_add(1, Ordering::AcqRel);
    }
}

/// All descriptors from `first` to `last` are about to be closed.
pub fn all_ended(first: u32, last: u32) {
    (first..=last.min(MOST as u32)).for_each(|file| ended(file as c_int));
}

fn tell(code: Code, file: c_int, generation: u16, pc: usize) {
    let address = descriptor_address(file as u32, generation) as usize;
    if is_recording() {
        record::operation(code, &Operation::new(code, 0, address, pc));
    } else {
        let life = match code {
            Code::Destroy => Life::BeginsOrEnds,
            _ => Life::GoesOn,
        };
        access::object(address, life, pc);
    }
}
