//! Mutexes and spin locks.
//!
//! Reads the kind and the owner of a mutex as glibc lays it out (`struct __pthread_mutex_s` on
//! x86-64, unchanged since 2004): a statically initialised mutex tells its kind only there.

use core::ffi::{c_int, c_void};

use super::{acquire, begins_or_ends, misused};
use crate::channels::robust;
use crate::errno::{EBUSY, ETIMEDOUT};
use crate::mode::{is_off, is_recording};
use crate::operation::Operation;
use crate::record;
use crate::record::impatience::Until;
use crate::thread;
use crate::wire::{Code, misuse, object};
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

/// Where `__kind` is.
const KIND: usize = 16;

/// `wire::object` of a mutex.
///
/// # Safety
/// `mutex` is one.
#[inline(always)]
pub unsafe fn kind(mutex: Mutex) -> u8 {
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

/// Whether the mutex was destroyed and not initialised again: glibc leaves a mark that makes every later
/// call fail.
///
/// # Safety
/// `mutex` is or was one.
#[inline(always)]
unsafe fn is_destroyed(mutex: Mutex) -> bool {
    const DESTROYED: i32 = -1;
    // SAFETY: as in `kind`.
    unsafe { mutex.byte_add(KIND).cast::<i32>().read_volatile() == DESTROYED }
}

/// Whether the C library will refuse the operation, since the mutex was destroyed: a recording then has
/// the misuse and a use in its place.
///
/// # Safety
/// The object of the operation is or was a mutex.
#[inline(always)]
pub unsafe fn is_refused(operation: &Operation) -> bool {
    // SAFETY: the caller's promise.
    let is_destroyed = unsafe { is_destroyed(operation.object as Mutex) };
    if is_destroyed {
        misused(operation, misuse::USE_DESTROYED);
        operation.announce();
        if is_recording() {
            record::operation(Code::Use, operation);
        }
    }
    is_destroyed
}

/// How an unlock, or a wait on a condition, by this thread would misuse the mutex: by whom it is held
/// instead. `None` if this thread holds it, and for a mutex that was destroyed, which is another bug.
///
/// # Safety
/// `mutex` is one.
pub unsafe fn held_by_another(mutex: Mutex) -> Option<u64> {
    const OWNER: usize = 8;
    // SAFETY: a field that equals the number of this thread only if this thread wrote it.
    let owner = unsafe { mutex.byte_add(OWNER).cast::<i32>().read_volatile() };
    // SAFETY: the caller's promise.
    if thread::current()?.is_owner(owner & 0x3fff_ffff) || unsafe { is_destroyed(mutex) } {
        return None;
    }
    // SAFETY: the word that is 0 while the mutex is free.
    let word = unsafe { mutex.cast::<i32>().read_volatile() };
    Some(if word == 0 {
        misuse::UNLOCK_NOT_LOCKED
    } else {
        misuse::UNLOCK_OF_OTHER
    })
}

/// Whether a thread holds the mutex, or waits on a condition to get it back. The C library counts
/// wrong after an unlock of what was not locked.
unsafe fn has_users(mutex: Mutex) -> bool {
    const USERS: usize = 12;
    // SAFETY: `__nusers` of the mutex that the program passed.
    unsafe { mutex.byte_add(USERS).cast::<i32>().read_volatile() > 0 }
}

/// Whether the C library refuses an unlock by a thread that does not own the mutex: recursive,
/// error-checking and robust mutexes check that.
pub fn refuses_unlock(kind: u8) -> bool {
    kind & !object::SHARED != object::MUTEX
}

interpose! {
    fn pthread_mutex_init(mutex: Mutex, attributes: *const c_void) -> c_int |pc| {
        begins_or_ends(mutex, pc);
        let result = real_call::pthread_mutex_init(mutex, attributes);
        if result == 0 && !is_off() {
            let detail = kind(mutex);
            if detail & !object::SHARED == object::ROBUST_MUTEX {
                robust::made();
            }
            Operation::new(Code::Init, detail, mutex as usize, pc).after(Code::Init);
        }
        result
    }

    fn pthread_mutex_destroy(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_destroy(mutex);
        }
        let detail = kind(mutex);
        let operation = Operation::new(Code::Destroy, detail, mutex as usize, pc);
        begins_or_ends(mutex, pc);
        let result = real_call::pthread_mutex_destroy(mutex);
        if result == 0 {
            operation.before();
            operation.after(Code::Destroy);
        } else if result == EBUSY && has_users(mutex) {
            misused(&operation, misuse::DESTROY_LOCKED);
        }
        result
    }

    fn pthread_mutex_lock(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_lock(mutex);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc);
        if is_refused(&operation) {
            return real_call::pthread_mutex_lock(mutex);
        }
        acquire(operation, Code::FailedLock, EBUSY, || real_call::pthread_mutex_lock(mutex))
    }

    fn pthread_mutex_trylock(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_trylock(mutex);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc).that_may_fail();
        if is_refused(&operation) {
            return real_call::pthread_mutex_trylock(mutex);
        }
        acquire(operation, Code::FailedLock, EBUSY, || real_call::pthread_mutex_trylock(mutex))
    }

    fn pthread_mutex_timedlock(mutex: Mutex, until: *const c_void) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_timedlock(mutex, until);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc).until(0, until);
        let until = Until::of(0, until);
        if is_refused(&operation) {
            return real_call::pthread_mutex_timedlock(mutex, until.time());
        }
        acquire(operation, Code::FailedLock, ETIMEDOUT, || {
            real_call::pthread_mutex_timedlock(mutex, until.time())
        })
    }

    fn pthread_mutex_clocklock(mutex: Mutex, clock: c_int, until: *const c_void) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_clocklock(mutex, clock, until);
        }
        let operation = Operation::new(Code::Lock, kind(mutex), mutex as usize, pc).until(clock, until);
        let until = Until::of(clock, until);
        if is_refused(&operation) {
            return real_call::pthread_mutex_clocklock(mutex, clock, until.time());
        }
        acquire(operation, Code::FailedLock, ETIMEDOUT, || {
            real_call::pthread_mutex_clocklock(mutex, clock, until.time())
        })
    }

    fn pthread_mutex_unlock(mutex: Mutex) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_mutex_unlock(mutex);
        }
        let kind = kind(mutex);
        let operation = Operation::new(Code::Unlock, kind, mutex as usize, pc);
        if is_refused(&operation) {
            return real_call::pthread_mutex_unlock(mutex);
        }
        if let Some(how) = held_by_another(mutex) {
            misused(&operation, how);
            if refuses_unlock(kind) {
                return real_call::pthread_mutex_unlock(mutex);
            }
        }
        operation.before();
        let result = real_call::pthread_mutex_unlock(mutex);
        operation.after(Code::Unlock);
        result
    }

    fn pthread_spin_init(lock: Mutex, shared: c_int) -> c_int |pc| {
        begins_or_ends(lock, pc);
        let result = real_call::pthread_spin_init(lock, shared);
        if result == 0 && !is_off() {
            let detail = object::SPIN_LOCK | if shared != 0 { object::SHARED } else { 0 };
            Operation::new(Code::Init, detail, lock as usize, pc).after(Code::Init);
        }
        result
    }

    fn pthread_spin_destroy(lock: Mutex) -> c_int |pc| {
        begins_or_ends(lock, pc);
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
        // Without an owner, only this is known: 1 is a free spin lock.
        if !is_off() && lock.cast::<i32>().read_volatile() == 1 {
            misused(&operation, misuse::UNLOCK_NOT_LOCKED);
        }
        operation.before();
        let result = real_call::pthread_spin_unlock(lock);
        operation.after(Code::Unlock);
        result
    }
}
