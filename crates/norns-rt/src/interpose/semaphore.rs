//! Semaphores, unnamed and named.
//!
//! A named semaphore is recorded with the value that it has when it is opened; what other processes
//! do to it is not seen.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use super::{acquire, begins_or_ends};
use crate::errno::{EAGAIN, ETIMEDOUT};
use crate::lock::Lock;
use crate::mode::is_off;
use crate::operation::Operation;
use crate::record::impatience::Until;
use crate::wire::{Code, object};
use crate::{interpose, real, sys};

type Semaphore = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn sem_init(semaphore: Semaphore, shared: c_int, value: u32) -> c_int;
        fn sem_destroy(semaphore: Semaphore) -> c_int;
        fn sem_open(name: *const c_char, flags: c_int, mode: u32, value: u32) -> Semaphore;
        fn sem_close(semaphore: Semaphore) -> c_int;
        fn sem_wait(semaphore: Semaphore) -> c_int;
        fn sem_trywait(semaphore: Semaphore) -> c_int;
        fn sem_timedwait(semaphore: Semaphore, until: *const c_void) -> c_int;
        fn sem_clockwait(semaphore: Semaphore, clock: c_int, until: *const c_void) -> c_int;
        fn sem_post(semaphore: Semaphore) -> c_int;
        fn sem_getvalue(semaphore: Semaphore, value: *mut c_int) -> c_int;
    }
}

use real_functions as real_call;

/// Named semaphores that are open, and how often each was opened: opening one again gives the same
/// address.
static NAMED: Lock<[(Semaphore, u32); 64]> = Lock::new([(null_mut(), 0); 64]);

/// Counts an opening; whether it is the first one of this semaphore.
fn opened(semaphore: Semaphore) -> bool {
    NAMED.with(|named| {
        if let Some(entry) = named.iter_mut().find(|entry| entry.0 == semaphore) {
            entry.1 += 1;
            return false;
        }
        if let Some(entry) = named.iter_mut().find(|entry| entry.1 == 0) {
            *entry = (semaphore, 1);
        }
        true
    })
}

/// Counts a closing; whether the semaphore is not open any more.
fn closed(semaphore: Semaphore) -> bool {
    NAMED.with(|named| {
        let Some(entry) = named.iter_mut().find(|entry| entry.0 == semaphore) else {
            return true;
        };
        entry.1 -= 1;
        if entry.1 == 0 {
            *entry = (null_mut(), 0);
            return true;
        }
        false
    })
}

/// One wait; `gives_up_with` is the error number of a try or timed one.
unsafe fn wait(
    semaphore: Semaphore,
    gives_up_with: Option<c_int>,
    deadline: Option<(c_int, *const c_void)>,
    pc: usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let mut operation = Operation::new(Code::SemWait, object::SEMAPHORE, semaphore as usize, pc);
    operation.may_fail = gives_up_with.is_some();
    if let Some((clock, until)) = deadline {
        // SAFETY: the program passed `until` to a timed wait: a `struct timespec`.
        operation = unsafe { operation.until(clock, until) };
    }
    let mut tried = false;
    let result = acquire(operation, Code::FailedSemWait, -1, || {
        tried = true;
        real()
    });
    if !tried {
        // SAFETY: the error number of this thread.
        unsafe { *sys::__errno_location() = gives_up_with.unwrap_or(EAGAIN) };
    }
    result
}

interpose! {
    fn sem_init(semaphore: Semaphore, shared: c_int, value: u32) -> c_int |pc| {
        begins_or_ends(semaphore, pc);
        let result = real_call::sem_init(semaphore, shared, value);
        if result == 0 && !is_off() {
            let detail = object::SEMAPHORE | if shared != 0 { object::SHARED } else { 0 };
            Operation::new(Code::Init, detail, semaphore as usize, pc)
                .with_value(u64::from(value))
                .after(Code::Init);
        }
        result
    }

    fn sem_destroy(semaphore: Semaphore) -> c_int |pc| {
        begins_or_ends(semaphore, pc);
        let operation = Operation::new(Code::Destroy, object::SEMAPHORE, semaphore as usize, pc);
        operation.before();
        operation.after(Code::Destroy);
        real_call::sem_destroy(semaphore)
    }

    // The program passes the last two arguments only when it creates a semaphore. They are in
    // registers, so reading them is harmless otherwise.
    fn sem_open(name: *const c_char, flags: c_int, mode: u32, value: u32) -> Semaphore |pc| {
        let semaphore = real_call::sem_open(name, flags, mode, value);
        if !is_off() && !semaphore.is_null() && opened(semaphore) {
            let mut now = 0;
            real_call::sem_getvalue(semaphore, &mut now);
            let detail = object::SEMAPHORE | object::SHARED;
            Operation::new(Code::Init, detail, semaphore as usize, pc)
                .with_value(now as u32 as u64)
                .after(Code::Init);
        }
        semaphore
    }

    fn sem_close(semaphore: Semaphore) -> c_int |pc| {
        if !is_off() && closed(semaphore) {
            let detail = object::SEMAPHORE | object::SHARED;
            let operation = Operation::new(Code::Destroy, detail, semaphore as usize, pc);
            operation.before();
            operation.after(Code::Destroy);
        }
        real_call::sem_close(semaphore)
    }

    fn sem_wait(semaphore: Semaphore) -> c_int |pc| {
        wait(semaphore, None, None, pc, || real_call::sem_wait(semaphore))
    }

    fn sem_trywait(semaphore: Semaphore) -> c_int |pc| {
        wait(semaphore, Some(EAGAIN), None, pc, || real_call::sem_trywait(semaphore))
    }

    fn sem_timedwait(semaphore: Semaphore, until: *const c_void) -> c_int |pc| {
        let earlier = Until::of(0, until);
        wait(semaphore, Some(ETIMEDOUT), Some((0, until)), pc, || {
            real_call::sem_timedwait(semaphore, earlier.time())
        })
    }

    fn sem_clockwait(semaphore: Semaphore, clock: c_int, until: *const c_void) -> c_int |pc| {
        let earlier = Until::of(clock, until);
        wait(semaphore, Some(ETIMEDOUT), Some((clock, until)), pc, || {
            real_call::sem_clockwait(semaphore, clock, earlier.time())
        })
    }

    fn sem_post(semaphore: Semaphore) -> c_int |pc| {
        let operation = Operation::new(Code::SemPost, object::SEMAPHORE, semaphore as usize, pc);
        operation.before();
        let result = real_call::sem_post(semaphore);
        operation.after(Code::SemPost);
        result
    }
}
