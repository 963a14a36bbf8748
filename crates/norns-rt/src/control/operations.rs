//! Mutexes, reader-writer locks, spin locks, conditions and semaphores in replay and detect mode:
//! one function for each family of interposed ones.
//!
//! `acquire`, `before` and `after` are called by the seam in `crate::operation` and
//! `crate::interpose`; waits by their interposers. In replay nothing blocks inside the C library:
//! locks and semaphores are tried under the monitor's lock, conditions are emulated by the core.
//!
//! A thread that is cancelled while it waits here leaves the monitor and lets the real function end
//! it. Limits: a thread that has disabled cancellation then blocks in the real function, where the
//! core does not see it; a wait on a condition releases a recursive mutex by one level only.

use core::ffi::{c_int, c_void};

use norns_control::{Happened, How, Mode, Operation, Slot, Tried, Turn};

use super::monitor::MONITOR;
use super::output::tell;
use super::report::path_of;
use super::thread::{Inside, Own};
use super::{enter, futex, is_replaying, serial, with_clocks};
use crate::detect::Order;
use crate::errno::{EBUSY, EDEADLK, EOWNERDEAD, ETIMEDOUT};
use crate::interpose::{condition, mutex};
use crate::mode::is_serial;
use crate::real;
use crate::record;
use crate::sys;
use crate::wire::report::{Message, Words};
use crate::wire::{Code, object};

/// Not an error number: the thread holds the mutex again and is to end, since it was cancelled.
pub const CANCELLED: c_int = -1;

real! {
    fn pthread_mutex_trylock(mutex: *mut c_void) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
    fn pthread_rwlock_tryrdlock(lock: *mut c_void) -> c_int;
    fn pthread_rwlock_trywrlock(lock: *mut c_void) -> c_int;
    fn pthread_spin_trylock(lock: *mut c_void) -> c_int;
    fn sem_trywait(sem: *mut c_void) -> c_int;
}

/// What can be acquired and released.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Mutex,
    Reader,
    Writer,
    Spin,
    Semaphore,
}

impl Family {
    fn of(code: Code, detail: u8) -> Self {
        match detail & !object::SHARED {
            object::READER_WRITER_LOCK if code == Code::ReadLock => Family::Reader,
            object::READER_WRITER_LOCK => Family::Writer,
            object::SPIN_LOCK => Family::Spin,
            object::SEMAPHORE => Family::Semaphore,
            _ => Family::Mutex,
        }
    }

    /// In which mode its lock is held; `None` for a semaphore.
    fn mode(self) -> Option<Mode> {
        match self {
            Family::Semaphore => None,
            Family::Reader => Some(Mode::Shared),
            Family::Mutex | Family::Writer | Family::Spin => Some(Mode::Exclusive),
        }
    }

    /// Tries to acquire without blocking. Returns an error number: `EBUSY` when it would block.
    ///
    /// # Safety
    /// `object` is a valid one of this family.
    unsafe fn attempt(self, object: *mut c_void) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Family::Mutex => pthread_mutex_trylock(object),
                Family::Reader => pthread_rwlock_tryrdlock(object),
                Family::Writer => pthread_rwlock_trywrlock(object),
                Family::Spin => pthread_spin_trylock(object),
                Family::Semaphore => {
                    let error = sys::__errno_location();
                    let before = *error;
                    let result = sem_trywait(object);
                    *error = before;
                    if result == 0 { 0 } else { EBUSY }
                }
            }
        }
    }

    /// What the result of an attempt tells the core.
    fn tried(self, result: c_int) -> Tried {
        match self.mode() {
            _ if result == EBUSY => Tried::Busy,
            Some(mode) if is_ours(result) => Tried::Got(mode),
            _ => Tried::Over,
        }
    }
}

/// Whether the lock is held after this result: `EOWNERDEAD` means that its last owner died with it.
fn is_ours(result: c_int) -> bool {
    result == 0 || result == EOWNERDEAD
}

pub(super) fn operation(code: Code, object: *mut c_void, pc: usize) -> Operation {
    Operation::new(code, object as usize, pc)
}

fn monotonic(deadline: Option<(c_int, i64)>) -> Option<i64> {
    deadline.map(|(clock, end)| futex::monotonic(clock, end))
}

/// Logs an operation, in a recording with values.
pub(super) fn note(code: Code, detail: u8, object: *mut c_void, pc: usize) {
    if is_serial() {
        let operation = crate::operation::Operation::new(code, detail, object as usize, pc);
        record::operation(code, &operation);
    }
}

/// Tells the detector that the thread has acquired something.
fn learned(me: &mut Own, family: Family, object: usize, pc: usize) {
    if let Some(mode) = family.mode() {
        me.held.take(object, pc, mode);
    }
    with_clocks(me, |detector, thread| {
        if family == Family::Writer {
            detector.acquire_for_writing(thread, object);
        } else {
            detector.acquire(thread, object);
        }
    });
}

/// Tells the detector that the thread is about to release a lock, to post or to finish a once.
fn publish(me: &mut Own, code: Code, object: usize) {
    if matches!(code, Code::SemPost | Code::OnceEnd) {
        with_clocks(me, |detector, thread| detector.release_join(thread, object));
        return;
    }
    let mode = me.held.release(object);
    with_clocks(me, |detector, thread| match mode {
        Some(Mode::Shared) => detector.release_read(thread, object),
        _ => detector.release(thread, object),
    });
}

/// Acquires a lock or takes a unit of a semaphore. `real` is the function that the program
/// called; its result is an error number as for mutexes.
///
/// # Safety
/// The object of `wanted` is a valid one of its kind.
pub unsafe fn acquire(
    wanted: &crate::operation::Operation,
    gives_up_with: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let Some(mut inside) = enter() else {
        return real();
    };
    if wanted.code == Code::Join {
        return super::threads::join(inside, wanted, gives_up_with, real);
    }
    let family = Family::of(wanted.code, wanted.detail);
    if !is_replaying() {
        let result = real();
        if is_ours(result) {
            learned(inside.own(), family, wanted.object, wanted.pc);
        }
        return result;
    }
    // SAFETY: the caller's promise.
    unsafe { acquire_in_turn(inside, family, wanted, gives_up_with, real) }
}

/// # Safety
/// As `acquire`.
unsafe fn acquire_in_turn(
    mut inside: Inside,
    family: Family,
    wanted: &crate::operation::Operation,
    gives_up_with: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let object = wanted.object as *mut c_void;
    let me = inside.block.slot();
    let mut guard = MONITOR.lock();
    let refuses = guard.holds(me, wanted.object)
        && wanted.detail & !object::SHARED == object::ERROR_CHECKING_MUTEX;
    let operation = Operation {
        may_fail: wanted.may_fail || refuses,
        ..operation(wanted.code, object, wanted.pc)
    };
    // A try or timed form, or a mutex that refuses a second lock, ends by itself: once the program
    // runs free the real function may as well do it.
    let ends_by_itself =
        operation.may_fail && !(is_serial() && wanted.deadline.is_some() && !refuses);
    let how = if ends_by_itself {
        How::TriedIfScheduled
    } else {
        guard.drive(&mut inside, Happened::LingersBeforeLock { pc: wanted.pc });
        let deadline = monotonic(wanted.deadline);
        How::Tried { deadline }
    };
    let mut result = 0;
    let turn = guard.attempt(&mut inside, Happened::Arrives(operation, how), |_| {
        // SAFETY: the caller's promise.
        result = unsafe { family.attempt(object) };
        family.tried(result)
    });
    match turn {
        Turn::Fails if refuses && !wanted.may_fail => return EDEADLK,
        Turn::Fails => return gives_up_with,
        Turn::Cancelled => {
            drop(guard);
            drop(inside);
            let result = real();
            // Where it returns, the thread has switched cancellation off.
            if is_ours(result) {
                took(family, wanted);
            }
            return result;
        }
        Turn::Free if ends_by_itself => {
            drop(guard);
            result = real();
            if let Some(mode) = family.mode().filter(|_| is_ours(result)) {
                let (lock, pc) = (wanted.object, wanted.pc);
                MONITOR.lock().note(me, Happened::Takes { lock, pc, mode });
            }
        }
        _ => drop(guard),
    }
    if is_ours(result) {
        learned(inside.own(), family, wanted.object, wanted.pc);
    }
    result
}

/// The thread has acquired something while it was outside.
fn took(family: Family, wanted: &crate::operation::Operation) {
    let Some(mut inside) = enter() else { return };
    if let Some(mode) = family.mode() {
        let (lock, pc) = (wanted.object, wanted.pc);
        let takes = Happened::Takes { lock, pc, mode };
        MONITOR.lock().note(inside.block.slot(), takes);
    }
    learned(inside.own(), family, wanted.object, wanted.pc);
}

/// Whether this operation, which comes through `before` and `after`, is a scheduling point that
/// takes effect before the real call.
fn is_point(code: Code) -> bool {
    matches!(
        code,
        Code::Unlock | Code::Signal | Code::Broadcast | Code::SemPost | Code::Fork | Code::OnceEnd
    )
}

/// Before an operation that lets others go on. In replay the monitor stays locked until
/// `after`: only the real call stands between.
pub fn before(what: &crate::operation::Operation) {
    let Some(mut inside) = enter() else {
        if is_serial() && what.releases() {
            serial::missed();
        }
        return;
    };
    let keeps_monitor = is_replaying() && is_point(what.code);
    if keeps_monitor {
        let mut guard = MONITOR.lock();
        let arrives = operation(what.code, what.object as *mut c_void, what.pc);
        guard.drive(&mut inside, Happened::Arrives(arrives, How::AtItsTurn));
        let in_effect = match what.code {
            Code::Unlock => Some(Happened::Releases(what.object)),
            Code::Signal | Code::Broadcast => Some(Happened::Signals {
                condition: what.object,
                all: what.code == Code::Broadcast,
            }),
            _ => None,
        };
        if let Some(happened) = in_effect {
            guard.note(inside.block.slot(), happened);
        }
        // `after` unlocks it.
        core::mem::forget(guard);
    }
    let me = inside.own();
    match what.code {
        Code::Unlock | Code::SemPost | Code::OnceEnd => publish(me, what.code, what.object),
        Code::Destroy => {
            if let Some(detector) = super::detector() {
                detector.forget_object(what.object);
            }
        }
        Code::Fence => with_clocks(me, |detector, thread| {
            detector.fence(thread, Order::from_abi(i32::from(what.detail)));
        }),
        _ => {}
    }
    if keeps_monitor {
        inside.keep_monitor();
    }
}

/// After the real call; `happened` is what came of it.
pub fn after(what: &crate::operation::Operation, happened: Code) {
    let Some(block) = super::current() else {
        return;
    };
    // SAFETY: the block of the running thread.
    if let Some(inside) = unsafe { Inside::take_back(block) } {
        let me = block.slot();
        // SAFETY: `before` of this thread locked the monitor and forgot the guard.
        let mut guard = unsafe { MONITOR.adopt() };
        if what.code == Code::Fork {
            guard.note(Slot(what.object as u32), Happened::Created);
        }
        guard.note(me, Happened::Completes);
        guard.note(me, Happened::Changes(what.object));
        drop(guard);
        drop(inside);
        return;
    }
    if what.code == Code::Init {
        if what.detail & object::SHARED != 0 {
            serial::shared_object();
        }
        renewed(what);
        return;
    }
    // What the program only tells us: annotations of locks of its own, and in detect mode the
    // lock after a wait and the pass of a once.
    let acquires = matches!(
        happened,
        Code::Lock | Code::ReadLock | Code::SemWait | Code::OncePass
    );
    if !acquires {
        return;
    }
    let Some(mut inside) = enter() else { return };
    let family = Family::of(happened, what.detail);
    if is_replaying() {
        let me = block.slot();
        let mut guard = MONITOR.lock();
        let arrives = operation(happened, what.object as *mut c_void, what.pc);
        guard.drive(&mut inside, Happened::Arrives(arrives, How::AtItsTurn));
        guard.note(me, Happened::Completes);
        if happened != Code::OncePass
            && let Some(mode) = family.mode()
        {
            let (lock, pc) = (what.object, what.pc);
            guard.note(me, Happened::Takes { lock, pc, mode });
        }
    }
    let me = inside.own();
    if happened == Code::OncePass {
        with_clocks(me, |detector, thread| detector.acquire(thread, what.object));
    } else {
        learned(me, family, what.object, what.pc);
    }
}

/// A user-specified event: a scheduling point that only reports what happens there. The name and the
/// fields in `text` have a zero byte each behind them.
pub fn custom(text: &[u8], pc: usize) {
    if !is_replaying() || is_serial() {
        return;
    }
    let Some(mut inside) = enter() else { return };
    let mut guard = MONITOR.lock();
    let event = operation(Code::Custom, core::ptr::null_mut(), pc);
    guard.drive(&mut inside, Happened::Arrives(event, How::AtItsTurn));
    let slot = inside.block.slot();
    // With the monitor locked, so that the lines come in the order of the events.
    tell(Message::Event {
        thread: path_of(slot),
        words: Words::ended_by_zeros(core::str::from_utf8(text).unwrap_or("?")),
    });
    guard.note(slot, Happened::Completes);
}

/// An object was initialised: what is known of an older object at its address does not count.
fn renewed(what: &crate::operation::Operation) {
    let Some(_inside) = enter() else { return };
    let is_barrier = what.detail & !object::SHARED == object::BARRIER;
    if is_barrier && is_replaying() {
        MONITOR.lock().init_barrier(what.object, what.value as u32);
    }
    if let Some(detector) = super::detector() {
        if is_barrier {
            detector.barrier_init(what.object, what.value as u32);
        } else {
            detector.forget_object(what.object);
        }
    }
}

/// Waits on a condition in replay: unlock, wait, lock, each at its turn. `deadline` is a clock of
/// the kernel and a time in nanoseconds.
///
/// # Safety
/// As the function that it stands for.
pub unsafe fn wait(
    condition: *mut c_void,
    mutex: *mut c_void,
    deadline: Option<(c_int, i64)>,
    pc: usize,
) -> Option<c_int> {
    if !is_replaying() {
        return None;
    }
    let mut inside = enter()?;
    let me = inside.block.slot();
    // SAFETY: the caller's promise.
    let (kind, mutex_kind) = unsafe { (condition::kind(condition), mutex::kind(mutex)) };
    let mut guard = MONITOR.lock();
    let unlock = operation(Code::Unlock, mutex, pc);
    guard.drive(&mut inside, Happened::Arrives(unlock, How::AtItsTurn));
    let waits = condition as usize;
    guard.note(me, Happened::BeginsWait { condition: waits });
    note(Code::Unlock, mutex_kind, mutex, pc);
    guard.note(me, Happened::Releases(mutex as usize));
    publish(inside.own(), Code::Unlock, mutex as usize);
    // SAFETY: the caller's promise.
    unsafe { pthread_mutex_unlock(mutex) };
    guard.note(me, Happened::Changes(mutex as usize));
    guard.note(me, Happened::Completes);

    let wait = Operation {
        may_fail: deadline.is_some(),
        // A wait without a time-out fails when its thread is cancelled.
        fails_by_cancel: deadline.is_none(),
        ..operation(Code::Wait, condition, pc)
    };
    let how = How::Signalled {
        deadline: monotonic(deadline),
    };
    let turn = guard.drive(&mut inside, Happened::Arrives(wait, how));
    let woken = matches!(turn, Turn::Free | Turn::Succeeds);
    guard.note(me, Happened::EndsWait);
    let waited = if woken { Code::Wait } else { Code::FailedWait };
    note(waited, kind, condition, pc);
    let mut cancelled = turn == Turn::Cancelled;
    if !woken && deadline.is_none() && !cancelled {
        let turn = guard.drive(&mut inside, Happened::ExpectsCancellation);
        cancelled = turn == Turn::Cancelled;
    }

    let mut result = 0;
    let lock = operation(Code::Lock, mutex, pc);
    let how = How::Tried { deadline: None };
    guard.attempt(&mut inside, Happened::Arrives(lock, how), |_| {
        // SAFETY: the caller's promise.
        result = unsafe { pthread_mutex_trylock(mutex) };
        match Family::Mutex.tried(result) {
            Tried::Busy => Tried::Busy,
            // As the C library does: the mutex counts as held whatever the result.
            _ => Tried::Got(Mode::Exclusive),
        }
    });
    learned(inside.own(), Family::Mutex, mutex as usize, pc);
    note(Code::Lock, mutex_kind, mutex, pc);
    drop(guard);
    drop(inside);
    if is_serial() {
        serial::act_on_cancellation();
    }
    Some(if cancelled {
        CANCELLED
    } else if result != 0 {
        result
    } else if woken || deadline.is_none() {
        0
    } else {
        ETIMEDOUT
    })
}
