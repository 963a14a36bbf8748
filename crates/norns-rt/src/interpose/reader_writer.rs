//! Reader-writer locks.

use core::ffi::{c_int, c_void};

use super::{acquire, begins_or_ends, misused};
use crate::errno::{EBUSY, ETIMEDOUT};
use crate::mode::is_off;
use crate::operation::Operation;
use crate::record::impatience::Until;
use crate::thread;
use crate::wire::{Code, misuse, object};
use crate::{interpose, real};

type Lock = *mut c_void;

mod real_functions {
    use super::*;

    real! {
        fn pthread_rwlock_init(lock: Lock, attributes: *const c_void) -> c_int;
        fn pthread_rwlock_destroy(lock: Lock) -> c_int;
        fn pthread_rwlock_rdlock(lock: Lock) -> c_int;
        fn pthread_rwlock_tryrdlock(lock: Lock) -> c_int;
        fn pthread_rwlock_timedrdlock(lock: Lock, until: *const c_void) -> c_int;
        fn pthread_rwlock_clockrdlock(lock: Lock, clock: c_int, until: *const c_void) -> c_int;
        fn pthread_rwlock_wrlock(lock: Lock) -> c_int;
        fn pthread_rwlock_trywrlock(lock: Lock) -> c_int;
        fn pthread_rwlock_timedwrlock(lock: Lock, until: *const c_void) -> c_int;
        fn pthread_rwlock_clockwrlock(lock: Lock, clock: c_int, until: *const c_void) -> c_int;
        fn pthread_rwlock_unlock(lock: Lock) -> c_int;
    }
}

use real_functions as real_call;

/// `__shared` of glibc's `struct __pthread_rwlock_arch_t`, set by the initialiser only.
unsafe fn kind(lock: Lock) -> u8 {
    const SHARED: usize = 28;
    // SAFETY: the program passed `lock` to a function of reader-writer locks, whose struct has 56
    // bytes.
    if unsafe { lock.byte_add(SHARED).cast::<i32>().read_volatile() } != 0 {
        object::READER_WRITER_LOCK | object::SHARED
    } else {
        object::READER_WRITER_LOCK
    }
}

/// How many threads hold the lock for reading, and which one for writing; 0 is none.
unsafe fn holders(lock: Lock) -> (u32, i32) {
    const WRITER: usize = 24;
    const READERS_SHIFT: u32 = 3;
    // SAFETY: `__readers` and `__cur_writer` of glibc's struct, as above.
    unsafe {
        (
            lock.cast::<u32>().read_volatile() >> READERS_SHIFT,
            lock.byte_add(WRITER).cast::<i32>().read_volatile(),
        )
    }
}

unsafe fn is_held(lock: Lock) -> bool {
    // SAFETY: the caller's promise.
    unsafe { holders(lock) != (0, 0) }
}

/// How an unlock by this thread would misuse the lock, as far as the lock itself tells.
unsafe fn held_by_another(lock: Lock) -> Option<u64> {
    // SAFETY: the caller's promise.
    let (readers, writer) = unsafe { holders(lock) };
    if thread::current()?.is_owner(writer) || writer == 0 && readers > 0 {
        return None;
    }
    Some(if writer == 0 {
        misuse::UNLOCK_NOT_LOCKED
    } else {
        misuse::UNLOCK_OF_OTHER
    })
}

/// `failure` is what a try or timed lock returns when it gives up.
unsafe fn lock_with(
    lock: Lock,
    code: Code,
    failure: Option<c_int>,
    deadline: Option<(c_int, *const c_void)>,
    pc: usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if is_off() {
        return real();
    }
    // SAFETY: the program passed `lock` to a function of reader-writer locks.
    let mut operation = Operation::new(code, unsafe { kind(lock) }, lock as usize, pc);
    operation.may_fail = failure.is_some();
    if let Some((clock, until)) = deadline {
        // SAFETY: the program passed `until` to a timed lock: a `struct timespec`.
        operation = unsafe { operation.until(clock, until) };
    }
    let failed = if code == Code::ReadLock {
        Code::FailedReadLock
    } else {
        Code::FailedLock
    };
    acquire(operation, failed, failure.unwrap_or(EBUSY), real)
}

interpose! {
    fn pthread_rwlock_init(lock: Lock, attributes: *const c_void) -> c_int |pc| {
        begins_or_ends(lock, pc);
        let result = real_call::pthread_rwlock_init(lock, attributes);
        if result == 0 && !is_off() {
            Operation::new(Code::Init, kind(lock), lock as usize, pc).after(Code::Init);
        }
        result
    }

    fn pthread_rwlock_destroy(lock: Lock) -> c_int |pc| {
        begins_or_ends(lock, pc);
        if !is_off() {
            let operation = Operation::new(Code::Destroy, kind(lock), lock as usize, pc);
            if is_held(lock) {
                misused(&operation, misuse::DESTROY_LOCKED);
            }
            operation.before();
            operation.after(Code::Destroy);
        }
        real_call::pthread_rwlock_destroy(lock)
    }

    fn pthread_rwlock_rdlock(lock: Lock) -> c_int |pc| {
        lock_with(lock, Code::ReadLock, None, None, pc, || real_call::pthread_rwlock_rdlock(lock))
    }

    fn pthread_rwlock_tryrdlock(lock: Lock) -> c_int |pc| {
        lock_with(lock, Code::ReadLock, Some(EBUSY), None, pc, || {
            real_call::pthread_rwlock_tryrdlock(lock)
        })
    }

    fn pthread_rwlock_timedrdlock(lock: Lock, until: *const c_void) -> c_int |pc| {
        let earlier = Until::of(0, until);
        lock_with(lock, Code::ReadLock, Some(ETIMEDOUT), Some((0, until)), pc, || {
            real_call::pthread_rwlock_timedrdlock(lock, earlier.time())
        })
    }

    fn pthread_rwlock_clockrdlock(lock: Lock, clock: c_int, until: *const c_void) -> c_int |pc| {
        let earlier = Until::of(clock, until);
        lock_with(lock, Code::ReadLock, Some(ETIMEDOUT), Some((clock, until)), pc, || {
            real_call::pthread_rwlock_clockrdlock(lock, clock, earlier.time())
        })
    }

    fn pthread_rwlock_wrlock(lock: Lock) -> c_int |pc| {
        lock_with(lock, Code::Lock, None, None, pc, || real_call::pthread_rwlock_wrlock(lock))
    }

    fn pthread_rwlock_trywrlock(lock: Lock) -> c_int |pc| {
        lock_with(lock, Code::Lock, Some(EBUSY), None, pc, || {
            real_call::pthread_rwlock_trywrlock(lock)
        })
    }

    fn pthread_rwlock_timedwrlock(lock: Lock, until: *const c_void) -> c_int |pc| {
        let earlier = Until::of(0, until);
        lock_with(lock, Code::Lock, Some(ETIMEDOUT), Some((0, until)), pc, || {
            real_call::pthread_rwlock_timedwrlock(lock, earlier.time())
        })
    }

    fn pthread_rwlock_clockwrlock(lock: Lock, clock: c_int, until: *const c_void) -> c_int |pc| {
        let earlier = Until::of(clock, until);
        lock_with(lock, Code::Lock, Some(ETIMEDOUT), Some((clock, until)), pc, || {
            real_call::pthread_rwlock_clockwrlock(lock, clock, earlier.time())
        })
    }

    fn pthread_rwlock_unlock(lock: Lock) -> c_int |pc| {
        if is_off() {
            return real_call::pthread_rwlock_unlock(lock);
        }
        let operation = Operation::new(Code::Unlock, kind(lock), lock as usize, pc);
        if let Some(how) = held_by_another(lock) {
            misused(&operation, how);
        }
        operation.before();
        let result = real_call::pthread_rwlock_unlock(lock);
        operation.after(Code::Unlock);
        result
    }
}
