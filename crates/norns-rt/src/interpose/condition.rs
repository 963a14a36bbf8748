//! Condition variables. A wait is three events: unlock, wait (or failed wait), lock.
//!
//! A wait can be cancelled; the C library then takes the mutex again and unwinds through us, so a
//! cleanup routine logs the same events as a return would.

use core::ffi::{c_int, c_void};

use super::mutex::{self, Mutex};
use super::{begins_or_ends, misused};
use crate::control;
use crate::errno::ETIMEDOUT;
use crate::mode::{is_controlled, is_off, is_recording};
use crate::operation::Operation;
use crate::record::impatience::Until;
use crate::record::waits;
use crate::wire::{Code, misuse, object};
use crate::{interpose, real};

pub type Condition = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        #[version = "GLIBC_2.3.2"]
        fn pthread_cond_init(condition: Condition, attributes: *const c_void) -> c_int;
        #[version = "GLIBC_2.3.2"]
        fn pthread_cond_destroy(condition: Condition) -> c_int;
        #[version = "GLIBC_2.3.2"]
        fn pthread_cond_wait(condition: Condition, mutex: Mutex) -> c_int;
        #[version = "GLIBC_2.3.2"]
        fn pthread_cond_timedwait(condition: Condition, mutex: Mutex, until: *const c_void) -> c_int;
        fn pthread_cond_clockwait(condition: Condition, mutex: Mutex, clock: c_int, until: *const c_void) -> c_int;
        #[version = "GLIBC_2.3.2"]
        fn pthread_cond_signal(condition: Condition) -> c_int;
        #[version = "GLIBC_2.3.2"]
        fn pthread_cond_broadcast(condition: Condition) -> c_int;
        fn pthread_testcancel();
        fn _pthread_cleanup_push(buffer: *mut Cleanup, routine: unsafe extern "C" fn(*mut c_void), argument: *mut c_void);
        fn _pthread_cleanup_pop(buffer: *mut Cleanup, execute: c_int);
    }
}

use real_functions as real_call;

/// `struct _pthread_cleanup_buffer`.
#[repr(C)]
pub struct Cleanup {
    routine: usize,
    argument: usize,
    cancel_type: c_int,
    previous: usize,
}

struct Waiting {
    condition: Operation,
    mutex: Operation,
    begun: Option<waits::Wait>,
}

impl Waiting {
    fn is_over(&self, how: Code) {
        waits::end(self.begun);
        self.condition.after(how);
        self.mutex.after(Code::Lock);
    }
}

unsafe extern "C" fn cancelled(waiting: *mut c_void) {
    // SAFETY: `wait` pushed this routine with a value of its own, and its frame still exists.
    unsafe { &*waiting.cast::<Waiting>() }.is_over(Code::FailedWait);
}

/// Process-shared conditions have this bit in the word of their reference count.
pub unsafe fn kind(condition: Condition) -> u8 {
    const WAITERS_AND_FLAGS: usize = 36;
    // SAFETY: `condition` is one; only the flag, which does not change, is looked at.
    let flags = unsafe {
        condition
            .byte_add(WAITERS_AND_FLAGS)
            .cast::<u32>()
            .read_volatile()
    };
    if flags & 1 != 0 {
        object::CONDITION | object::SHARED
    } else {
        object::CONDITION
    }
}

/// Notes, in a recording, the use of a condition that was destroyed and not initialised again: glibc
/// leaves the mark with which it waits for the last threads that still return from a wait.
///
/// # Safety
/// The object of the operation is or was a condition.
unsafe fn note_destroyed(operation: &Operation) {
    const WAITERS_AND_FLAGS: usize = 36;
    const DESTROYED: u32 = 4;
    let condition = operation.object as Condition;
    // SAFETY: as in `kind`.
    let flags = unsafe {
        condition
            .byte_add(WAITERS_AND_FLAGS)
            .cast::<u32>()
            .read_volatile()
    };
    if flags & DESTROYED != 0 {
        misused(operation, misuse::USE_DESTROYED);
    }
}

/// Notes, in a recording, the destruction of a condition on which a thread waits.
pub fn note_waited(operation: &Operation) {
    if is_recording() && waits::is_waited_for(operation.object) {
        misused(operation, misuse::DESTROY_WAITED);
    }
}

/// When a timed wait gives up: the clock, the time, and what it then returns.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// -1: the clock of the condition's attributes.
    pub clock: c_int,
    pub until: *const c_void,
    pub timed_out: c_int,
}

/// The clock of a timed wait: as given, or that of the condition's attributes.
pub unsafe fn clock_of(condition: Condition, given: c_int) -> c_int {
    const WAITERS_AND_FLAGS: usize = 36;
    const MONOTONIC: u32 = 2;
    if given >= 0 {
        return given;
    }
    // SAFETY: as in `kind`.
    let flags = unsafe {
        condition
            .byte_add(WAITERS_AND_FLAGS)
            .cast::<u32>()
            .read_volatile()
    };
    c_int::from(flags & MONOTONIC != 0)
}

unsafe fn nanoseconds(time: *const c_void) -> i64 {
    // SAFETY: a `struct timespec` of the program.
    let [seconds, rest] = unsafe { time.cast::<[i64; 2]>().read() };
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Whether the nanoseconds of a `struct timespec` are less than a second.
unsafe fn is_time(time: *const c_void) -> bool {
    // SAFETY: a `struct timespec` of the program.
    let [_, nanoseconds] = unsafe { time.cast::<[i64; 2]>().read() };
    (0..1_000_000_000).contains(&nanoseconds)
}

/// One wait, timed or not, which `real` does.
///
/// # Safety
/// As `pthread_cond_wait`.
pub unsafe fn wait(
    condition: Condition,
    mutex: Mutex,
    deadline: Option<Deadline>,
    pc: usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller promises a `struct timespec`.
    if deadline.is_some_and(|deadline| !unsafe { is_time(deadline.until) }) {
        // Refused at once, with the mutex still locked.
        return real();
    }
    // SAFETY: the caller promises a valid condition and mutex.
    let (kind, mutex_kind) = unsafe { (kind(condition), mutex::kind(mutex)) };
    let unlock = Operation::new(Code::Unlock, mutex_kind, mutex as usize, pc);
    let wait = Operation::new(Code::Wait, kind, condition as usize, pc);
    // SAFETY: as above.
    if unsafe { mutex::held_by_another(mutex) }.is_some() {
        misused(&unlock, misuse::WAIT_NOT_LOCKED);
    }
    // SAFETY: as above.
    unsafe { note_destroyed(&wait) };
    unlock.announce();
    wait.announce();
    let begun = waits::begin(condition as usize);
    if is_controlled() {
        let patience = deadline.map(|deadline| {
            // SAFETY: the caller promises a valid condition, mutex and time, as for
            // `pthread_cond_wait`.
            unsafe {
                (
                    clock_of(condition, deadline.clock),
                    nanoseconds(deadline.until),
                )
            }
        });
        // SAFETY: the caller promises a valid condition, mutex and time, as for `pthread_cond_wait`.
        let result = unsafe { control::operations::wait(condition, mutex, patience, pc) };
        if result.is_some() {
            waits::end(begun);
        }
        match result {
            Some(control::operations::CANCELLED) => {
                // SAFETY: ends the thread, or returns where it has switched that off.
                unsafe { real_call::pthread_testcancel() };
                return 0;
            }
            Some(ETIMEDOUT) => return deadline.map_or(0, |deadline| deadline.timed_out),
            Some(result) => return result,
            None => {}
        }
    }
    unlock.before();
    unlock.after(Code::Unlock);
    let waiting = Waiting {
        condition: wait,
        mutex: Operation::new(Code::Lock, mutex_kind, mutex as usize, pc),
        begun,
    };
    let mut cleanup = Cleanup {
        routine: 0,
        argument: 0,
        cancel_type: 0,
        previous: 0,
    };
    // SAFETY: buffer and argument live in this frame, which is left only after the pop, or by
    // unwinding, which runs the routine.
    let result = unsafe {
        let argument = &raw const waiting as *mut c_void;
        real_call::_pthread_cleanup_push(&mut cleanup, cancelled, argument);
        let result = real();
        real_call::_pthread_cleanup_pop(&mut cleanup, 0);
        result
    };
    let gave_up = deadline.is_some_and(|deadline| result == deadline.timed_out);
    waiting.is_over(if gave_up {
        Code::FailedWait
    } else {
        Code::Wait
    });
    result
}

/// One signal or broadcast, which `real` does.
///
/// # Safety
/// `condition` is one.
pub unsafe fn wake(
    condition: Condition,
    code: Code,
    pc: usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if is_off() {
        return real();
    }
    // SAFETY: the caller promises a valid condition, mutex and time, as for `pthread_cond_wait`.
    let operation = Operation::new(code, unsafe { kind(condition) }, condition as usize, pc);
    // SAFETY: as above.
    unsafe { note_destroyed(&operation) };
    waits::wake(condition as usize);
    operation.before();
    let result = real();
    operation.after(code);
    result
}

interpose! {
    fn pthread_cond_init(condition: Condition, attributes: *const c_void) -> c_int |pc| {
        begins_or_ends(condition, pc);
        let result = real_call::pthread_cond_init(condition, attributes);
        if result == 0 && !is_off() {
            Operation::new(Code::Init, kind(condition), condition as usize, pc).after(Code::Init);
        }
        result
    }

    fn pthread_cond_destroy(condition: Condition) -> c_int |pc| {
        begins_or_ends(condition, pc);
        if !is_off() {
            let operation =
                Operation::new(Code::Destroy, kind(condition), condition as usize, pc);
            note_waited(&operation);
            operation.before();
            operation.after(Code::Destroy);
        }
        real_call::pthread_cond_destroy(condition)
    }

    fn pthread_cond_wait(condition: Condition, mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_cond_wait(condition, mutex);
        }
        wait(condition, mutex, None, pc, || real_call::pthread_cond_wait(condition, mutex))
    }

    fn pthread_cond_timedwait(condition: Condition, mutex: Mutex, until: *const c_void) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_cond_timedwait(condition, mutex, until);
        }
        let earlier = Until::of(clock_of(condition, -1), until);
        let deadline = Deadline { clock: -1, until: earlier.time(), timed_out: ETIMEDOUT };
        wait(condition, mutex, Some(deadline), pc, || {
            real_call::pthread_cond_timedwait(condition, mutex, earlier.time())
        })
    }

    fn pthread_cond_clockwait(condition: Condition, mutex: Mutex, clock: c_int, until: *const c_void) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_cond_clockwait(condition, mutex, clock, until);
        }
        let earlier = Until::of(clock, until);
        let deadline = Deadline { clock, until: earlier.time(), timed_out: ETIMEDOUT };
        wait(condition, mutex, Some(deadline), pc, || {
            real_call::pthread_cond_clockwait(condition, mutex, clock, earlier.time())
        })
    }

    fn pthread_cond_signal(condition: Condition) -> c_int |pc| {
        wake(condition, Code::Signal, pc, || real_call::pthread_cond_signal(condition))
    }

    fn pthread_cond_broadcast(condition: Condition) -> c_int |pc| {
        wake(condition, Code::Broadcast, pc, || real_call::pthread_cond_broadcast(condition))
    }
}
