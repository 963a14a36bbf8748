//! Creating, joining, detaching and ending threads.
//!
//! A new thread begins in a trampoline that attaches it before the program's function runs; its
//! end is seen by the destructor of a thread-specific key, so `pthread_exit` and cancellation
//! need nothing of their own.

use core::ffi::{c_int, c_void};

use super::acquire;
use crate::control;
use crate::errno::{EBUSY, ETIMEDOUT};
use crate::inputs::served::name_of_child;
use crate::mode::{Mode, is_controlled, is_guarded, mode};
use crate::operation::Operation;
use crate::record::{self, handles, values};
use crate::thread::{self, Thread};
pub use crate::thread::{Routine, Start};
use crate::wire::Code;
use crate::{attach, guard, interpose, real, sys, track};

/// A thread without attributes gets a stack of this size, unless the limit says otherwise. The
/// event that the stack is new memory may then speak of too little or too much of it.
const DEFAULT_STACK: usize = 8 << 20;

mod real_functions {
    use super::*;

    real! {
        fn pthread_create(handle: *mut usize, attributes: *const c_void, routine: Routine, argument: *mut c_void) -> c_int;
        fn pthread_join(handle: usize, result: *mut *mut c_void) -> c_int;
        fn pthread_tryjoin_np(handle: usize, result: *mut *mut c_void) -> c_int;
        fn pthread_timedjoin_np(handle: usize, result: *mut *mut c_void, until: *const c_void) -> c_int;
        fn pthread_clockjoin_np(handle: usize, result: *mut *mut c_void, clock: c_int, until: *const c_void) -> c_int;
        fn pthread_detach(handle: usize) -> c_int;
        fn pthread_attr_getstacksize(attributes: *const c_void, size: *mut usize) -> c_int;
        fn pthread_attr_getdetachstate(attributes: *const c_void, state: *mut c_int) -> c_int;
    }
}

use real_functions as real_call;

/// What a new thread must know, besides what it runs.
pub struct Attributes {
    detached: bool,
    stack_size: usize,
}

impl Attributes {
    pub const DEFAULT: Attributes = Attributes {
        detached: false,
        stack_size: DEFAULT_STACK,
    };

    unsafe fn read(attributes: *const c_void) -> Attributes {
        let mut read = Attributes::DEFAULT;
        if !attributes.is_null() {
            let mut detached = 0;
            // SAFETY: the program passes them to `pthread_create`, so they are initialised.
            unsafe {
                real_call::pthread_attr_getdetachstate(attributes, &mut detached);
                real_call::pthread_attr_getstacksize(attributes, &mut read.stack_size);
            }
            read.detached = detached != 0;
        }
        read
    }
}

/// Attaches the running thread; returns what the program wants it to run.
///
/// # Safety
/// `block` is what `create` gave to this thread.
pub unsafe fn begin(block: *mut c_void) -> (Start, *mut c_void) {
    if let Some(what) = guard::begins(block) {
        return what;
    }
    // SAFETY: the caller promises that `create` gave this block to the running thread alone.
    let thread = unsafe { &mut *block.cast::<Thread>() };
    let what = (thread.start, thread.argument);
    let inherited = thread.signal_mask;
    let mask = sys::block_signals();
    attach::begin_thread(thread);
    // Nothing but `create` blocks all signals; a thread whose attributes have a mask keeps that.
    let blocked_by_us = mask | sys::C_LIBRARY_SIGNALS == sys::ALL_SIGNALS;
    sys::restore_signals(if blocked_by_us { inherited } else { mask });
    what
}

/// Where a thread of `pthread_create` begins.
unsafe extern "C-unwind" fn trampoline(block: *mut c_void) -> *mut c_void {
    // SAFETY: `create` handed the block over to this thread.
    let (routine, argument) = unsafe { begin(block) };
    match routine {
        // SAFETY: what the program gave to `pthread_create`.
        Start::Posix(routine) => unsafe { routine(argument) },
        _ => core::ptr::null_mut(),
    }
}

/// Creates a thread that knows what its creator does.
fn guard_create(
    start: Start,
    argument: *mut c_void,
    plain: impl FnOnce() -> c_int,
    with_block: impl FnOnce(*mut c_void) -> c_int,
) -> c_int {
    let Some(block) = guard::creates(start, argument) else {
        return plain();
    };
    let result = with_block(block);
    if result != 0 {
        guard::does_not_create(block);
    }
    result
}

/// Creates a thread that is known from its first instruction on: `with_block` creates one that
/// begins in a trampoline, `plain` one that we do not know.
///
/// # Safety
/// As `pthread_create`; both closures store the new thread at `handle` if they return 0.
pub unsafe fn create(
    handle: *mut usize,
    attributes: Attributes,
    start: Start,
    argument: *mut c_void,
    pc: usize,
    plain: impl FnOnce() -> c_int,
    with_block: impl FnOnce(*mut c_void) -> c_int,
) -> c_int {
    guard::before_thread();
    if is_guarded() {
        return guard_create(start, argument, plain, with_block);
    }
    let parent = match mode() {
        Mode::Off | Mode::Guard => track::creator(),
        Mode::Record | Mode::RecordValues => record::before_fork(),
        Mode::Replay | Mode::Detect | Mode::ReplayDetect => attach::current(),
    };
    let Some(parent) = parent else {
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
    child.name = name_of_child(parent.name, child.ordinal);
    child.start = start;
    child.argument = argument;
    child.stack_size = attributes.stack_size;
    if is_controlled() {
        control::threads::prepare(child, attributes.detached);
    }
    let operation = Operation::new(Code::Fork, 0, number as usize, pc);
    operation.before();
    track::creates(child, pc);
    // A handler that ran in the new thread before it is attached would make it a thread that we do
    // not know, so it begins with all signals blocked.
    child.signal_mask = sys::block_signals();
    let mask = child.signal_mask;
    // From here on the block is the new thread's.
    let result = with_block(block.cast());
    sys::restore_signals(mask);
    if result != 0 && is_controlled() {
        control::threads::not_created(number);
    }
    operation.after(Code::Fork);
    if result == 0 {
        parent.children += 1;
        if !attributes.detached {
            // SAFETY: the call succeeded, so `with_block` has stored the handle, as the caller
            // promises.
            handles::insert(unsafe { *handle }, number);
        }
        values::written(handle as usize, size_of::<usize>(), pc);
        if mode() == Mode::Record {
            record::impatience::go_on_late();
        }
    } else {
        // SAFETY: no thread has got the block.
        unsafe { thread::release(block) };
    }
    result
}

/// # Safety
/// As `pthread_join` and its like, which `real` calls.
pub unsafe fn join(
    handle: usize,
    pc: usize,
    may_fail: Option<c_int>,
    deadline: Option<(c_int, *const c_void)>,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if mode() == Mode::Off {
        return real();
    }
    if is_guarded() {
        let result = real();
        if result == 0 {
            guard::joined(handle);
        }
        return result;
    }
    let Some(number) = handles::number(handle) else {
        return real();
    };
    let mut operation = Operation::new(Code::Join, 0, number as usize, pc);
    operation.may_fail = may_fail.is_some();
    if let Some((clock, until)) = deadline {
        // SAFETY: the program passed `until` to a timed join: a `struct timespec`.
        operation = unsafe { operation.until(clock, until) };
    }
    let result = acquire(operation, Code::FailedJoin, may_fail.unwrap_or(0), real);
    if result == 0 {
        handles::joined(handle, number);
    }
    result
}

/// # Safety
/// As `pthread_detach` and its like, which `real` calls.
pub unsafe fn detach(handle: usize, pc: usize, real: impl FnOnce() -> c_int) -> c_int {
    let number = if matches!(mode(), Mode::Off | Mode::Guard) {
        None
    } else {
        handles::number(handle)
    };
    let result = real();
    if result == 0
        && let Some(number) = number
    {
        Operation::new(Code::Detach, 0, number as usize, pc).after(Code::Detach);
        handles::detached(handle, number);
        if is_controlled() {
            control::threads::detached(number);
        }
    }
    result
}

interpose! {
    fn pthread_create(handle: *mut usize, attributes: *const c_void, routine: Routine, argument: *mut c_void) -> c_int |pc| {
        create(
            handle,
            Attributes::read(attributes),
            Start::Posix(routine),
            argument,
            pc,
            || real_call::pthread_create(handle, attributes, routine, argument),
            |block| real_call::pthread_create(handle, attributes, trampoline, block),
        )
    }

    fn pthread_join(handle: usize, result: *mut *mut c_void) -> c_int |pc| {
        let ended = join(handle, pc, None, None, || real_call::pthread_join(handle, result));
        if ended == 0 && !result.is_null() {
            values::written(result as usize, size_of::<usize>(), pc);
        }
        ended
    }

    fn pthread_tryjoin_np(handle: usize, result: *mut *mut c_void) -> c_int |pc| {
        join(handle, pc, Some(EBUSY), None, || real_call::pthread_tryjoin_np(handle, result))
    }

    fn pthread_timedjoin_np(handle: usize, result: *mut *mut c_void, until: *const c_void) -> c_int |pc| {
        join(handle, pc, Some(ETIMEDOUT), Some((0, until)), || {
            real_call::pthread_timedjoin_np(handle, result, until)
        })
    }

    fn pthread_clockjoin_np(handle: usize, result: *mut *mut c_void, clock: c_int, until: *const c_void) -> c_int |pc| {
        join(handle, pc, Some(ETIMEDOUT), Some((clock, until)), || {
            real_call::pthread_clockjoin_np(handle, result, clock, until)
        })
    }

    fn pthread_detach(handle: usize) -> c_int |pc| {
        detach(handle, pc, || real_call::pthread_detach(handle))
    }
}
