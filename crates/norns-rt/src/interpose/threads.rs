//! Creating, joining, detaching and ending threads.
//!
//! A new thread begins in a trampoline that attaches it before the program's function runs; its
//! end is seen by the destructor of a thread-specific key, so `pthread_exit` and cancellation
//! need nothing of their own.

use core::ffi::{c_int, c_void};

use super::acquire;
use crate::mode::{Mode, mode};
use crate::operation::Operation;
use crate::record::{self, handles};
use crate::thread::{self, Routine, Thread};
use crate::wire::Code;
use crate::{interpose, real};

const EBUSY: c_int = 16;
const ETIMEDOUT: c_int = 110;

mod real_functions {
    use super::*;

    real! {
        fn pthread_create(handle: *mut usize, attributes: *const c_void, routine: Routine, argument: *mut c_void) -> c_int;
        fn pthread_join(handle: usize, result: *mut *mut c_void) -> c_int;
        fn pthread_tryjoin_np(handle: usize, result: *mut *mut c_void) -> c_int;
        fn pthread_timedjoin_np(handle: usize, result: *mut *mut c_void, until: *const c_void) -> c_int;
        fn pthread_clockjoin_np(handle: usize, result: *mut *mut c_void, clock: c_int, until: *const c_void) -> c_int;
        fn pthread_detach(handle: usize) -> c_int;
        fn pthread_attr_getdetachstate(attributes: *const c_void, state: *mut c_int) -> c_int;
    }
}

use real_functions as real_call;

/// Where every recorded thread begins.
unsafe extern "C-unwind" fn trampoline(block: *mut c_void) -> *mut c_void {
    // SAFETY: `create` handed the block over to this thread.
    let thread = unsafe { &mut *block.cast::<Thread>() };
    let (routine, argument) = (thread.routine, thread.argument);
    record::begin_thread(thread);
    match routine {
        // SAFETY: what the program gave to `pthread_create`.
        Some(routine) => unsafe { routine(argument) },
        None => core::ptr::null_mut(),
    }
}

/// Creates a thread that is recorded.
///
/// # Safety
/// As `pthread_create`.
pub unsafe fn create(
    handle: *mut usize,
    attributes: *const c_void,
    routine: Routine,
    argument: *mut c_void,
    pc: usize,
) -> c_int {
    // SAFETY: the caller's word.
    let plain = || unsafe { real_call::pthread_create(handle, attributes, routine, argument) };
    if mode() != Mode::Record {
        return plain();
    }
    let Some(parent) = record::before_fork() else {
        return plain();
    };
    let block = thread::allocate();
    if block.is_null() {
        return plain();
    }
    // SAFETY: `allocate` gave the block to us.
    let child = unsafe { &mut *block };
    let number = thread::next_number();
    child.number = number;
    child.parent = parent.number;
    child.ordinal = parent.children + 1;
    child.routine = Some(routine);
    child.argument = argument;
    let operation = Operation::new(Code::Fork, 0, number as usize, pc);
    operation.before();
    let mut detached = 0;
    // SAFETY: the caller's word; the block is the new thread's from here on.
    let result = unsafe {
        if !attributes.is_null() {
            real_call::pthread_attr_getdetachstate(attributes, &mut detached);
        }
        real_call::pthread_create(handle, attributes, trampoline, block.cast())
    };
    operation.after(Code::Fork);
    if result == 0 {
        parent.children += 1;
        // SAFETY: `pthread_create` succeeded, so it stored the handle.
        let handle = unsafe { *handle };
        if detached == 0 {
            handles::insert(handle, number);
        }
    } else {
        // SAFETY: no thread has got the block.
        unsafe { thread::release(block) };
    }
    result
}

/// # Safety
/// As `pthread_join` and its like, which `real` calls.
unsafe fn join(
    handle: usize,
    pc: usize,
    may_fail: Option<c_int>,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if mode() == Mode::Off {
        return real();
    }
    let Some(number) = handles::number(handle) else {
        return real();
    };
    let mut operation = Operation::new(Code::Join, 0, number as usize, pc);
    operation.may_fail = may_fail.is_some();
    let result = acquire(operation, Code::FailedJoin, may_fail.unwrap_or(0), real);
    if result == 0 {
        handles::joined(handle, number);
    }
    result
}

interpose! {
    fn pthread_create(handle: *mut usize, attributes: *const c_void, routine: Routine, argument: *mut c_void) -> c_int |pc| {
        create(handle, attributes, routine, argument, pc)
    }

    fn pthread_join(handle: usize, result: *mut *mut c_void) -> c_int |pc| {
        join(handle, pc, None, || real_call::pthread_join(handle, result))
    }

    fn pthread_tryjoin_np(handle: usize, result: *mut *mut c_void) -> c_int |pc| {
        join(handle, pc, Some(EBUSY), || real_call::pthread_tryjoin_np(handle, result))
    }

    fn pthread_timedjoin_np(handle: usize, result: *mut *mut c_void, until: *const c_void) -> c_int |pc| {
        join(handle, pc, Some(ETIMEDOUT), || {
            real_call::pthread_timedjoin_np(handle, result, until)
        })
    }

    fn pthread_clockjoin_np(handle: usize, result: *mut *mut c_void, clock: c_int, until: *const c_void) -> c_int |pc| {
        join(handle, pc, Some(ETIMEDOUT), || {
            real_call::pthread_clockjoin_np(handle, result, clock, until)
        })
    }

    fn pthread_detach(handle: usize) -> c_int |pc| {
        let number = if mode() == Mode::Off { None } else { handles::number(handle) };
        let result = real_call::pthread_detach(handle);
        if result == 0 && let Some(number) = number {
            Operation::new(Code::Detach, 0, number as usize, pc).after(Code::Detach);
            handles::detached(handle, number);
        }
        result
    }
}
