//! Mutexes and spin locks.
//!
//! Reads the kind and the owner of a mutex as glibc lays it out (`struct __pthread_mutex_s` on
//! x86-64, unchanged since 2004): a statically initialised mutex tells its kind only there.

use core::ffi::{c_int, c_void};

use super::acquire;
use crate::errno::{EBUSY, ETIMEDOUT};
use crate::mode::is_off;
use crate::operation::Operation;
use crate::thread;
use crate::wire::{Code, object};
use crate::{interpose, real};

pub type Mutex = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn pthread_mutex_init(mutex: Mutex, attributes: *const c_void) -> c_int;
        fn pthread_mutex_destroy(mutex: Mutex) -> c_int;
        fn pthread_mutex_lock(mutex: Mutex) -> c_int;
        fn pthread_mutex_trylock(mutex: Mutex) -> c_int;
        fn pthread_mutex_timedlock(mutex: Mutex, until: *const c_void) -> c_int;
        fn pthread_mutex_clocklock(mutex: Mutex, clock: c_int, until: *const c_void) -> c_int;
        fn pthread_mutex_unlock(mutex: Mutex) -> c_int;
        fn pthread_spin_init(lock: Mutex, shared: c_int) -> c_int;
        fn pthread_spin_destroy(lock: Mutex) -> c_int;
        fn pthread_spin_lock(lock: Mutex) -> c_int;
        fn pthread_spin_trylock(lock: Mutex) -> c_int;
        fn pthread_spin_unlock(lock: Mutex) -> c_int;
    }
}

use real_functions as real_call;

/// `wire::object` of a mutex.
///
/// # Safety
/// `mutex` is one.
#[inline(always)]
pub unsafe fn kind(mutex: Mutex) -> u8 {
    const KIND: usize = 16;
    const SHARED: i32 = 128;
    const ROBUST: i32 = 16;
    // SAFETY: a field that only `pthread_mutex_init` and `_destroy` change.
    let kind = unsafe { mutex.byte_add(KIND).cast::<i32>().read_volatile() };
    let basic = match (kind & ROBUST != 0, kind & 3) {
        (true, _) => object::ROBUST_MUTEX,
        (_, 1) => object::RECURSIVE_MUTEX,
        (_, 2) => object::ERROR_CHECKING_MUTEX,
        _ => object::MUTEX,
    };
    if kind & SHARED != 0 {
        basic | object::SHARED
    } else {
        basic
    }
}

/// Whether the C library refuses an unlock by this thread, which does not own the mutex: recursive,
/// error-checking and robust mutexes check that.
///
/// # Safety
/// `mutex` is one.
pub unsafe fn refuses_unlock(mutex: Mutex, kind: u8) -> bool {
    const OWNER: usize = 8;
    if kind & !object::SHARED == object::MUTEX {
        return false;
    }
    // SAFETY: a field that equals the number of this thread only if this thread wrote it.
    let owner = unsafe { mutex.byte_add(OWNER).cast::<i32>().read_volatile() };
    thread::current().is_some_and(|thread| owner & 0x3fff_ffff != thread.kernel_id)
}

interpose! {
    fn pthread_mutex_init(mutex: Mutex, attributes: *const c_void) -> c_int |pc| {
        let result = real_call::pthread_mutex_init(mutex, attributes);
        if result == 0 && !is_off() {
            Operation::new(Code::Init, kind(mutex), mutex as usize, pc).after(Code::Init);
        }
        result
    }

    fn pthread_mutex_destroy(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_destroy(mutex);
        }
        let detail = kind(mutex);
        let result = real_call::pthread_mutex_destroy(mutex);
        if result == 0 {
            let operation = Operation::new(Code::Destroy, detail, mutex as usize, pc);
            operation.before();
            operation.after(Code::Destroy);
        }
        result
    }

    fn pthread_mutex_lock(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_lock(mutex);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc);
        acquire(operation, Code::FailedLock, EBUSY, || real_call::pthread_mutex_lock(mutex))
    }

    fn pthread_mutex_trylock(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_trylock(mutex);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc).that_may_fail();
        acquire(operation, Code::FailedLock, EBUSY, || real_call::pthread_mutex_trylock(mutex))
    }

    fn pthread_mutex_timedlock(mutex: Mutex, until: *const c_void) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_timedlock(mutex, until);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc).until(0, until);
        acquire(operation, Code::FailedLock, ETIMEDOUT, || {
            real_call::pthread_mutex_timedlock(mutex, until)
        })
    }

    fn pthread_mutex_clocklock(mutex: Mutex, clock: c_int, until: *const c_void) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_clocklock(mutex, clock, until);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc).until(clock, until);
        acquire(operation, Code::FailedLock, ETIMEDOUT, || {
            real_call::pthread_mutex_clocklock(mutex, clock, until)
        })
    }

    fn pthread_mutex_unlock(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_unlock(mutex);
        }
        let kind = kind(mutex);
        if refuses_unlock(mutex, kind) {
            return real_call::pthread_mutex_unlock(mutex);
        }
        let operation = Operation::new(Code::Unlock, kind, mutex as usize, pc);
        operation.before();
        let result = real_call::pthread_mutex_unlock(mutex);
        operation.after(Code::Unlock);
        result
    }

    fn pthread_spin_init(lock: Mutex, shared: c_int) -> c_int |pc| {
        let result = real_call::pthread_spin_init(lock, shared);
        if result == 0 && !is_off() {
            let detail = object::SPIN_LOCK | if shared != 0 { object::SHARED } else { 0 };
            Operation::new(Code::Init, detail, lock as usize, pc).after(Code::Init);
        }
        result
    }

    fn pthread_spin_destroy(lock: Mutex) -> c_int |pc| {
        let operation = Operation::new(Code::Destroy, object::SPIN_LOCK, lock as usize, pc);
        operation.before();
        let result = real_call::pthread_spin_destroy(lock);
        operation.after(Code::Destroy);
        result
    }

    fn pthread_spin_lock(lock: Mutex) -> c_int |pc| {
        let operation = Operation::new(Code::Lock, object::SPIN_LOCK, lock as usize, pc);
        acquire(operation, Code::FailedLock, EBUSY, || real_call::pthread_spin_lock(lock))
    }

    fn pthread_spin_trylock(lock: Mutex) -> c_int |pc| {
        let operation =
            Operation::new(Code::Lock, object::SPIN_LOCK, lock as usize, pc).that_may_fail();
        acquire(operation, Code::FailedLock, EBUSY, || real_call::pthread_spin_trylock(lock))
    }

    fn pthread_spin_unlock(lock: Mutex) -> c_int |pc| {
        let operation = Operation::new(Code::Unlock, object::SPIN_LOCK, lock as usize, pc);
        operation.before();
        let result = real_call::pthread_spin_unlock(lock);
        operation.after(Code::Unlock);
        result
    }
}
