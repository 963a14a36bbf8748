//! The end of the process, processes made by `clone`, and `longjmp`.
//!
//! On the way to the end the other threads get time to act (`rest`). At the end nothing has to be
//! flushed: what is not in the trace file is in the tail file. Only the counters and the map of loaded
//! code are written then, after the program's own exit handlers. A fork is seen by a handler
//! (`attach`), which `clone` must call itself; `vfork`, `exec` and fatal signals need nothing.

use core::arch::asm;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::Ordering;

use crate::attach::{self, QUICK_STATUS, process_ends};
use crate::control::serial;
use crate::mode::{is_guarded, is_off, is_serial, text};
use crate::record::failure;
use crate::wire::ended;
use crate::wire::environment::Failing;
use crate::wire::guarding::FailureKind;
use crate::{guard, interpose, real, rest, sys};

#[allow(non_snake_case)]
mod real_functions {
    use super::*;

    real! {
        fn clone(
            entry: Entry, stack: *mut c_void, flags: c_int, argument: *mut c_void,
            parent_id: usize, storage: usize, child_id: usize,
        ) -> c_int;
        fn exit(status: c_int);
        fn _exit(status: c_int);
        fn _Exit(status: c_int);
        fn quick_exit(status: c_int);
        fn __assert_fail(condition: *const c_char, file: *const c_char, line: c_uint, function: *const c_char);
        fn abort();
        fn longjmp(buffer: *mut c_void, value: c_int);
        fn _longjmp(buffer: *mut c_void, value: c_int);
        fn siglongjmp(buffer: *mut c_void, value: c_int);
        fn __longjmp_chk(buffer: *mut c_void, value: c_int);
    }
}

use real_functions as real_call;

/// The function that a process or thread made by `clone` begins with.
type Entry = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A process that `clone` begins with a copy of our memory: what our other threads had locked is
/// locked in the copy, for ever, unless it begins anew as after a `fork`.
struct Copy {
    entry: Entry,
    argument: *mut c_void,
}

unsafe extern "C" fn begin_copy(copy: *mut c_void) -> c_int {
    // SAFETY: `clone` below gave a pointer to its own `Copy`, and the memory of that call has been
    // copied. The new process has this thread only.
    unsafe {
        let copy = &*copy.cast::<Copy>();
        attach::forked();
        (copy.entry)(copy.argument)
    }
}

/// `clone` of the C library. The last three arguments are there only if the flags say so.
///
/// # Safety
/// That of the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn clone(
    entry: Entry,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_id: usize,
    storage: usize,
    child_id: usize,
) -> c_int {
    const SHARES_MEMORY: c_int = 0x100;
    let mut copy = Copy { entry, argument };
    let (entry, argument) = match is_off() && !guard::is_here() || flags & SHARES_MEMORY != 0 {
        true => (entry, argument),
        false => (begin_copy as Entry, (&raw mut copy).cast()),
    };
    // SAFETY: the program calls this in place of the C library's function and keeps its contract.
    unsafe { real_call::clone(entry, stack, flags, argument, parent_id, storage, child_id) }
}

/// Leaves the functions between here and the `setjmp`, whose exit hooks are not called.
///
/// # Safety
/// `buffer` was filled by a `setjmp`.
unsafe fn unwind_calls(buffer: *const c_void) {
    if is_off() || is_guarded() {
        return;
    }
    let Some(thread) = attach::current() else {
        return;
    };
    const STACK_POINTER: usize = 6;
    let guard: usize;
    // SAFETY: glibc keeps the guard that it hides pointers with at this place of the thread
    // control block, and the stack pointer as the seventh word of the buffer.
    let stack_pointer = unsafe {
        asm!("mov {}, qword ptr fs:[0x30]", out(reg) guard, options(nostack, readonly));
        buffer
            .cast::<usize>()
            .add(STACK_POINTER)
            .read()
            .rotate_right(17)
            ^ guard
    };
    let signals = sys::block_signals();
    thread.stack.unwind(stack_pointer);
    thread.recover();
    if is_serial() {
        serial::jumped(thread);
    }
    sys::restore_signals(signals);
}

/// About where the stack of the caller is: what is below is that of calls which have returned.
#[inline(always)]
fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: has no effect.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nostack, nomem)) };
    pointer
}

interpose! {
    fn exit(status: c_int) |pc| {
        failure::exits(status, pc);
        rest::before_exit();
        real_call::exit(status);
    }

    fn _exit(status: c_int) |pc| {
        failure::exits(status, pc);
        rest::before_exit();
        process_ends(ended::IMMEDIATE_EXIT, status, pc);
        real_call::_exit(status);
    }

    fn _Exit(status: c_int) |pc| {
        rest::before_exit();
        process_ends(ended::IMMEDIATE_EXIT, status, pc);
        real_call::_Exit(status);
    }

    fn quick_exit(status: c_int) |pc| {
        rest::before_exit();
        QUICK_STATUS.store(status, Ordering::Relaxed);
        real_call::quick_exit(status);
    }

    fn __assert_fail(condition: *const c_char, file: *const c_char, line: c_uint, function: *const c_char) |pc| {
        guard::fails(FailureKind::Assertion, 0, pc, stack_pointer());
        if failure::is_watched() {
            failure::fails(Failing::Assertion, text(condition.cast()), 0, pc);
        }
        real_call::__assert_fail(condition, file, line, function);
    }

    fn abort() |pc| {
        guard::fails(FailureKind::Abort, 0, pc, stack_pointer());
        failure::fails(Failing::Abort, b"", 0, pc);
        process_ends(ended::ABORT, 0, pc);
        real_call::abort();
    }

    fn longjmp(buffer: *mut c_void, value: c_int) |pc| {
        unwind_calls(buffer);
        real_call::longjmp(buffer, value);
    }

    fn _longjmp(buffer: *mut c_void, value: c_int) |pc| {
        unwind_calls(buffer);
        real_call::_longjmp(buffer, value);
    }

    fn siglongjmp(buffer: *mut c_void, value: c_int) |pc| {
        unwind_calls(buffer);
        real_call::siglongjmp(buffer, value);
    }

    fn __longjmp_chk(buffer: *mut c_void, value: c_int) |pc| {
        unwind_calls(buffer);
        real_call::__longjmp_chk(buffer, value);
    }
}
