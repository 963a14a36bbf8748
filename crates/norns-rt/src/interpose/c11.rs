//! C11 threads. glibc implements them with its own internal calls, which cannot be interposed, on
//! the same types as pthreads.

use core::ffi::{c_int, c_void};

use super::condition::{self, Condition, Deadline};
use super::mutex::{self, Mutex};
use super::threads::{self, Start};
use super::{acquire, begins_or_ends, misused};
use crate::mode::is_off;
use crate::operation::Operation;
use crate::record::impatience::Until;
use crate::wire::Code;
use crate::{interpose, real};

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const TIMED_OUT: c_int = 4;

pub type C11Routine = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

mod real_functions {
    use super::*;

    real! {
        fn thrd_create(handle: *mut usize, routine: C11Routine, argument: *mut c_void) -> c_int;
        fn thrd_join(handle: usize, result: *mut c_int) -> c_int;
        fn thrd_detach(handle: usize) -> c_int;
        fn mtx_init(mutex: Mutex, kind: c_int) -> c_int;
        fn mtx_lock(mutex: Mutex) -> c_int;
        fn mtx_trylock(mutex: Mutex) -> c_int;
        fn mtx_timedlock(mutex: Mutex, until: *const c_void) -> c_int;
        fn mtx_unlock(mutex: Mutex) -> c_int;
        fn mtx_destroy(mutex: Mutex);
        fn cnd_init(condition: Condition) -> c_int;
        fn cnd_wait(condition: Condition, mutex: Mutex) -> c_int;
        fn cnd_timedwait(condition: Condition, mutex: Mutex, until: *const c_void) -> c_int;
        fn cnd_signal(condition: Condition) -> c_int;
        fn cnd_broadcast(condition: Condition) -> c_int;
        fn cnd_destroy(condition: Condition);
    }
}

use real_functions as real_call;

unsafe extern "C-unwind" fn trampoline(block: *mut c_void) -> c_int {
    // SAFETY: `threads::create` handed the block over to this thread.
    let (routine, argument) = unsafe { threads::begin(block) };
    match routine {
        // SAFETY: what the program gave to `thrd_create`.
        Start::C11(routine) => unsafe { routine(argument) },
        _ => 0,
    }
}

unsafe fn lock_with(
    mutex: Mutex,
    failure: Option<c_int>,
    until: Option<*const c_void>,
    pc: usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if is_off() {
        return real();
    }
    // SAFETY: the program passed `mutex` to a function of C11 mutexes.
    let kind = unsafe { mutex::kind(mutex) };
    let mut operation = Operation::new(Code::Lock, kind, mutex as usize, pc);
    operation.may_fail = failure.is_some();
    if let Some(until) = until {
        // SAFETY: the program passed `until` to `mtx_timedlock`: a `struct timespec` of the
        // realtime clock.
        operation = unsafe { operation.until(0, until) };
    }
    // SAFETY: as above.
    if unsafe { mutex::is_refused(&operation) } {
        return real();
    }
    acquire(operation, Code::FailedLock, failure.unwrap_or(BUSY), real)
}

interpose! {
    fn thrd_create(handle: *mut usize, routine: C11Routine, argument: *mut c_void) -> c_int |pc| {
        threads::create(
            handle,
            threads::Attributes::DEFAULT,
            Start::C11(routine),
            argument,
            pc,
            || real_call::thrd_create(handle, routine, argument),
            |block| real_call::thrd_create(handle, trampoline, block),
        )
    }

    // `thrd_success` is 0, as for pthreads.
    fn thrd_join(handle: usize, result: *mut c_int) -> c_int |pc| {
        threads::join(handle, pc, None, None, || real_call::thrd_join(handle, result))
    }

    fn thrd_detach(handle: usize) -> c_int |pc| {
        threads::detach(handle, pc, || real_call::thrd_detach(handle))
    }

    fn mtx_init(mutex: Mutex, kind: c_int) -> c_int |pc| {
        begins_or_ends(mutex, pc);
        let result = real_call::mtx_init(mutex, kind);
        if result == SUCCESS && !is_off() {
            Operation::new(Code::Init, mutex::kind(mutex), mutex as usize, pc).after(Code::Init);
        }
        result
    }

    fn mtx_destroy(mutex: Mutex) |pc| {
        begins_or_ends(mutex, pc);
        if !is_off() {
            let operation =
                Operation::new(Code::Destroy, mutex::kind(mutex), mutex as usize, pc);
            operation.before();
            operation.after(Code::Destroy);
        }
        real_call::mtx_destroy(mutex);
    }

    fn mtx_lock(mutex: Mutex) -> c_int |pc| {
        lock_with(mutex, None, None, pc, || real_call::mtx_lock(mutex))
    }

    fn mtx_trylock(mutex: Mutex) -> c_int |pc| {
        lock_with(mutex, Some(BUSY), None, pc, || real_call::mtx_trylock(mutex))
    }

    fn mtx_timedlock(mutex: Mutex, until: *const c_void) -> c_int |pc| {
        let earlier = Until::of(0, until);
        lock_with(mutex, Some(TIMED_OUT), Some(until), pc, || {
            real_call::mtx_timedlock(mutex, earlier.time())
        })
    }

    fn mtx_unlock(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::mtx_unlock(mutex);
        }
        let kind = mutex::kind(mutex);
        let operation = Operation::new(Code::Unlock, kind, mutex as usize, pc);
        if mutex::is_refused(&operation) {
            return real_call::mtx_unlock(mutex);
        }
        if let Some(how) = mutex::held_by_another(mutex) {
            misused(&operation, how);
            if mutex::refuses_unlock(kind) {
                return real_call::mtx_unlock(mutex);
            }
        }
        operation.before();
        let result = real_call::mtx_unlock(mutex);
        operation.after(Code::Unlock);
        result
    }

    fn cnd_init(condition: Condition) -> c_int |pc| {
        begins_or_ends(condition, pc);
        let result = real_call::cnd_init(condition);
        if result == SUCCESS && !is_off() {
            Operation::new(Code::Init, condition::kind(condition), condition as usize, pc)
                .after(Code::Init);
        }
        result
    }

    fn cnd_destroy(condition: Condition) |pc| {
        begins_or_ends(condition, pc);
        if !is_off() {
            let kind = condition::kind(condition);
            let operation = Operation::new(Code::Destroy, kind, condition as usize, pc);
            condition::note_waited(&operation);
            operation.before();
            operation.after(Code::Destroy);
        }
        real_call::cnd_destroy(condition);
    }

    fn cnd_wait(condition: Condition, mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::cnd_wait(condition, mutex);
        }
        condition::wait(condition, mutex, None, pc, || {
            real_call::cnd_wait(condition, mutex)
        })
    }

    fn cnd_timedwait(condition: Condition, mutex: Mutex, until: *const c_void) -> c_int |pc| {
        if is_off() {
            return real_call::cnd_timedwait(condition, mutex, until);
        }
        let earlier = Until::of(condition::clock_of(condition, -1), until);
        let deadline = Deadline { clock: -1, until: earlier.time(), timed_out: TIMED_OUT };
        condition::wait(condition, mutex, Some(deadline), pc, || {
            real_call::cnd_timedwait(condition, mutex, earlier.time())
        })
    }

    fn cnd_signal(condition: Condition) -> c_int |pc| {
        condition::wake(condition, Code::Signal, pc, || real_call::cnd_signal(condition))
    }

    fn cnd_broadcast(condition: Condition) -> c_int |pc| {
        condition::wake(condition, Code::Broadcast, pc, || real_call::cnd_broadcast(condition))
    }
}
