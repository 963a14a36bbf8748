//! The functions of the C library that the runtime stands in for.

mod allocation;
mod asynchronous;
mod barrier;
mod blocking;
mod buffer;
mod c11;
pub mod condition;
mod descriptors;
mod files;
mod format;
pub mod mutex;
mod once;
mod process;
mod process_ids;
mod queues;
mod reader_writer;
mod readiness;
mod results;
mod semaphore;
pub mod signals;
mod stdio;
mod strings;
mod system_call;
mod threads;

pub use c11::C11Routine;
pub use signals::watch_failures;

pub use once::{Call, forget as forget_onces, repeats as repeats_once};

use core::ffi::{c_int, c_void};

use crate::channels;
use crate::control;
use crate::control::access::Life;
use crate::errno::EOWNERDEAD;
use crate::mode::{is_controlled, is_recording, is_serial};
use crate::operation::Operation;
use crate::record;
use crate::wire::Code;

/// Notes, in a recording, that the operation misuses its object: `how` is one of `wire::misuse`.
#[cold]
pub fn misused(operation: &Operation, how: u64) {
    if is_recording() && (record::started() || record::early::agrees(operation.object, how)) {
        record::operation(Code::Misuse, &operation.with_value(how));
    }
}

/// An object is about to be initialised or destroyed.
#[inline(always)]
fn begins_or_ends(object: *mut c_void, pc: usize) {
    if is_controlled() {
        control::access::object(object as usize, Life::BeginsOrEnds, pc);
    }
}

/// What a lock function returned, as an event: 0 and `EOWNERDEAD` mean that it is ours now.
fn locked(result: c_int, yes: Code, no: Code) -> Code {
    if result == 0 || result == EOWNERDEAD {
        yes
    } else {
        no
    }
}

/// The lock goes on after its owner has died: the same object, but nobody's.
fn renewed(operation: &Operation) -> Operation {
    Operation::new(Code::Init, operation.detail, operation.object, operation.pc).with_value(1)
}

/// Logs the outcome of an operation in a recording with values.
fn acquired(operation: &Operation, failed: Code, result: c_int) {
    if result == EOWNERDEAD {
        record::operation(Code::Init, &renewed(operation));
    }
    record::operation(locked(result, operation.code, failed), operation);
}

/// An operation that takes something and may fail.
#[inline(always)]
fn acquire(
    operation: Operation,
    failed: Code,
    gives_up_with: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    operation.announce();
    if is_controlled() {
        // SAFETY: the object is the one that the program gave to the interposed function.
        let result = unsafe { control::operations::acquire(&operation, gives_up_with, real) };
        if result == EOWNERDEAD {
            channels::robust::owner_has_ended(operation.pc);
        }
        if is_serial() {
            acquired(&operation, failed, result);
        }
        return result;
    }
    operation.before();
    if operation.may_fail && operation.deadline.is_none() {
        record::impatience::wait_for_failure(&operation);
    }
    let result = real();
    if result == EOWNERDEAD {
        channels::robust::owner_has_ended(operation.pc);
        // Its owner died with the lock: from here on it is like another mutex.
        renewed(&operation).after(Code::Init);
    }
    operation.after(locked(result, operation.code, failed));
    result
}
