//! Mutexes, reader-writer locks, spin locks, conditions, semaphores, barriers and once, in
//! replay and detect mode: one function for each family of interposed ones.
//!
//! `acquire`, `before` and `after` are called by the seam in `crate::operation` and
//! `crate::interpose`; waits, barriers and onces by their interposers. In replay nothing blocks inside the C library: locks and
//! semaphores are tried under the monitor's lock, conditions, barriers and once are emulated.
//!
//! A thread that is cancelled while it waits here leaves the monitor and lets the real function end
//! it. Limits: one that has switched cancellation off then waits there; a recursive mutex that a wait on a
//! condition releases is released by one level.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

use super::monitor::{Guard, Turn};
use super::serial;
use super::thread::{Activity, ControlThread, Mode, Operation};
use super::{MONITOR, enter, is_replaying, with_clocks};
use crate::detect::{BarrierRound, Order};
use crate::interpose::{condition, mutex};
use crate::mode::is_serial;
use crate::real;
use crate::record;
use crate::sys;
use crate::wire::{Code, object};

pub const EBUSY: c_int = 16;
pub const EDEADLK: c_int = 35;
pub const ETIMEDOUT: c_int = 110;
/// No error number: the thread is to be ended, with the mutex in its hands.
pub const CANCELLED: c_int = -1;
pub const EOWNERDEAD: c_int = 130;

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

    /// Tries without blocking; an error number, `EBUSY` when it is not to be had now.
    unsafe fn attempt(self, object: *mut c_void) -> c_int {
        // SAFETY: the program gave this object to the function that this one stands for.
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
}

fn operation(code: Code, object: *mut c_void, may_fail: bool, pc: usize) -> Operation {
    Operation {
        code,
        atomic: 0,
        may_fail,
        fails_by_cancel: false,
        address: object as usize,
        pc,
    }
}

/// In a recording with values: this happened.
fn note(code: Code, detail: u8, object: *mut c_void, pc: usize) {
    if is_serial() {
        let operation = crate::operation::Operation::new(code, detail, object as usize, pc);
        record::operation(code, &operation);
    }
}

fn learned(me: &mut ControlThread, family: Family, object: usize, pc: usize) {
    match family {
        Family::Semaphore => {}
        Family::Reader => me.got(object, pc, Mode::Shared),
        _ => me.got(object, pc, Mode::Exclusive),
    }
    with_clocks(me, |detector, thread| {
        if family == Family::Writer {
            detector.acquire_for_writing(thread, object);
        } else {
            detector.acquire(thread, object);
        }
    });
}

/// Gives up a lock, or posts: what others will learn, before they can.
fn publish(me: &mut ControlThread, code: Code, object: usize) {
    if matches!(code, Code::SemPost | Code::OnceEnd) {
        with_clocks(me, |detector, thread| detector.release_join(thread, object));
        return;
    }
    let mode = me.gave(object);
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
    let Some(inside) = enter() else {
        return real();
    };
    let me = &mut *inside.me;
    if wanted.code == Code::Join {
        return super::threads::join(me, wanted, gives_up_with, real);
    }
    let family = Family::of(wanted.code, wanted.detail);
    let object = wanted.object as *mut c_void;
    let is_ours = |result: c_int| result == 0 || result == EOWNERDEAD;
    if !is_replaying() {
        let result = real();
        if is_ours(result) {
            learned(me, family, wanted.object, wanted.pc);
        }
        return result;
    }
    let mut operation = operation(wanted.code, object, wanted.may_fail, wanted.pc);
    let mine = me.held().iter().any(|held| held.address == wanted.object);
    let refuses = mine && wanted.detail & !object::SHARED == object::ERROR_CHECKING_MUTEX;
    operation.may_fail |= refuses;
    let mut guard = MONITOR.lock();
    let mut result = 0;
    if operation.may_fail && !(is_serial() && wanted.deadline.is_some() && !refuses) {
        // A try or timed form, or a mutex that refuses a second lock: it ends by itself, so once
        // the program runs free the real function may as well do it.
        match guard.take_turn(me, operation) {
            Turn::Fails => {
                guard.complete();
                return if refuses && !wanted.may_fail {
                    EDEADLK
                } else {
                    gives_up_with
                };
            }
            Turn::Succeeds => {
                // SAFETY: the caller's promise.
                result = unsafe { family.attempt(object) };
                if result == EBUSY {
                    guard.cannot_succeed(me, operation);
                }
                guard.complete();
            }
            Turn::Free | Turn::Cancelled => {
                drop(guard);
                result = real();
            }
        }
    } else {
        guard.linger_before_lock(me, wanted.pc);
        let in_time = guard.attempt(me, operation, wanted.deadline, |_| {
            // SAFETY: the caller's promise.
            result = unsafe { family.attempt(object) };
            result != EBUSY
        });
        drop(guard);
        if me.ends_here {
            me.ends_here = false;
            drop(inside);
            let result = real();
            // It has switched cancellation off.
            if is_ours(result)
                && let Some(inside) = enter()
            {
                learned(inside.me, family, wanted.object, wanted.pc);
            }
            return result;
        }
        if !in_time {
            return gives_up_with;
        }
    }
    if is_ours(result) {
        learned(me, family, wanted.object, wanted.pc);
    }
    result
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
    let Some(inside) = enter() else {
        if is_serial() && what.releases() {
            serial::missed();
        }
        return;
    };
    let me = &mut *inside.me;
    if is_replaying() && is_point(what.code) {
        let mut guard = MONITOR.lock();
        let object = what.object as *mut c_void;
        guard.take_turn(me, operation(what.code, object, false, what.pc));
        let mine = me.held().iter().any(|held| held.address == what.object);
        if what.code == Code::Unlock
            && !mine
            && let Some(holder) = guard.holder(what.object)
        {
            // Unlocked by another thread than its holder: undefined, but common.
            holder.gave(what.object);
        }
        if matches!(what.code, Code::Signal | Code::Broadcast) {
            while let Some(waiter) = guard.waiter_to_signal(what.object) {
                waiter.signalled = true;
                if what.code == Code::Signal {
                    break;
                }
            }
        }
        // `after` unlocks it.
        core::mem::forget(guard);
        me.keeps_monitor = true;
    }
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
    if me.keeps_monitor {
        // The thread stays inside until `after`.
        inside.stay();
    }
}

/// After the real call; `happened` is what came of it.
pub fn after(what: &crate::operation::Operation, happened: Code) {
    let Some(me) = super::current() else { return };
    if me.keeps_monitor {
        me.keeps_monitor = false;
        // SAFETY: `before` of this thread locked the monitor and forgot the guard.
        let mut guard = unsafe { MONITOR.adopt() };
        if what.code == Code::Fork
            && let Some(child) = MONITOR.thread_numbered(what.object as u32)
            && matches!(child.activity, Activity::Waits)
        {
            child.activity = Activity::Running;
        }
        guard.complete();
        guard.changed(what.object);
        drop(guard);
        me.inside = 0;
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
    let Some(inside) = enter() else { return };
    let me = &mut *inside.me;
    if is_replaying() {
        let mut guard = MONITOR.lock();
        let object = what.object as *mut c_void;
        guard.take_turn(me, operation(happened, object, false, what.pc));
        guard.complete();
    }
    if happened == Code::OncePass {
        with_clocks(me, |detector, thread| detector.acquire(thread, what.object));
    } else {
        learned(me, Family::of(happened, what.detail), what.object, what.pc);
    }
}

/// A user-specified event: a scheduling point that does nothing.
pub fn custom(pc: usize) {
    if !is_replaying() || is_serial() {
        return;
    }
    let Some(inside) = enter() else { return };
    let mut guard = MONITOR.lock();
    let event = operation(Code::Custom, core::ptr::null_mut(), false, pc);
    guard.take_turn(inside.me, event);
    guard.complete();
}

/// An object was initialised: what was known of the address is void.
fn renewed(what: &crate::operation::Operation) {
    let Some(_inside) = enter() else { return };
    let is_barrier = what.detail & !object::SHARED == object::BARRIER;
    if is_barrier && is_replaying() {
        MONITOR.lock().barriers.init(what.object, what.value as u32);
    }
    if let Some(detector) = super::detector() {
        if is_barrier {
            detector.barrier_init(what.object, what.value as u32);
        } else {
            detector.forget_object(what.object);
        }
    }
}

unsafe fn release(guard: &mut Guard, me: &mut ControlThread, mutex: *mut c_void) {
    publish(me, Code::Unlock, mutex as usize);
    // SAFETY: the caller's promise.
    unsafe { pthread_mutex_unlock(mutex) };
    guard.changed(mutex as usize);
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
    let inside = enter()?;
    let me = &mut *inside.me;
    let mut guard = MONITOR.lock();
    guard.take_turn(me, operation(Code::Unlock, mutex, false, pc));
    // The thread is a waiter from the moment at which it gives the mutex back.
    me.condition = condition as usize;
    me.condition_order = guard.next_condition_order();
    me.signalled = false;
    // SAFETY: the caller's promise.
    let (kind, mutex_kind) = unsafe { (condition::kind(condition), mutex::kind(mutex)) };
    note(Code::Unlock, mutex_kind, mutex, pc);
    // SAFETY: the caller's promise.
    unsafe { release(&mut guard, me, mutex) };
    guard.complete();

    let waiter = &raw const *me;
    // A wait without a time-out fails when its thread is cancelled.
    let woken = guard.attempt(
        me,
        Operation {
            fails_by_cancel: deadline.is_none(),
            ..operation(Code::Wait, condition, deadline.is_some(), pc)
        },
        deadline,
        // SAFETY: the block of this thread, read under the monitor's lock. A schedule that wakes
        // a thread without a signal makes it a spurious wake-up, which is always allowed.
        |guard| unsafe { (*waiter).signalled } || !guard.is_free(),
    );
    me.condition = 0;
    me.signalled = false;
    note(
        if woken { Code::Wait } else { Code::FailedWait },
        kind,
        condition,
        pc,
    );
    let mut cancelled = me.ends_here;
    me.ends_here = false;
    if !woken && deadline.is_none() && !cancelled {
        cancelled = guard.is_cancelled(me);
    }

    let mut result = 0;
    guard.attempt(me, operation(Code::Lock, mutex, false, pc), None, |_| {
        // SAFETY: the caller's promise.
        result = unsafe { pthread_mutex_trylock(mutex) };
        result != EBUSY
    });
    learned(me, Family::Mutex, mutex as usize, pc);
    note(Code::Lock, mutex_kind, mutex, pc);
    if is_serial() {
        drop(guard);
        drop(inside);
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

/// Waits at a barrier in replay; 0, or -1 for the one thread of a round.
pub fn barrier_wait(barrier: *mut c_void, pc: usize) -> Option<c_int> {
    if !is_replaying() {
        return None;
    }
    let inside = enter()?;
    let me = &mut *inside.me;
    let object = barrier as usize;
    let mut guard = MONITOR.lock();
    if !guard.barriers.knows(object) {
        return None;
    }
    let enter_operation = operation(Code::BarrierEnter, barrier, false, pc);
    guard.take_turn(me, enter_operation);
    note(Code::BarrierEnter, object::BARRIER, barrier, pc);
    let round = barrier_entering(me, object);
    let (generation, last) = guard.barriers.arrive(object);
    guard.complete();
    guard.changed(object);
    let exit_operation = operation(Code::BarrierExit, barrier, false, pc);
    guard.attempt(me, exit_operation, None, |guard| {
        guard.barriers.generation(object) != generation
    });
    drop(guard);
    note(Code::BarrierExit, object::BARRIER, barrier, pc);
    barrier_left(me, object, round);
    Some(if last { -1 } else { 0 })
}

fn barrier_entering(me: &mut ControlThread, object: usize) -> Option<BarrierRound> {
    let mut round = None;
    with_clocks(me, |detector, thread| {
        round = Some(detector.barrier_enter(thread, object));
    });
    round
}

fn barrier_left(me: &mut ControlThread, object: usize, round: Option<BarrierRound>) {
    with_clocks(me, |detector, thread| {
        if let Some(round) = round {
            detector.barrier_exit(thread, object, round);
        }
    });
}

/// A barrier in detect mode: `wait` is the real function.
pub fn barrier_watched(barrier: *mut c_void, wait: impl FnOnce() -> c_int) -> c_int {
    let round = enter().and_then(|inside| barrier_entering(inside.me, barrier as usize));
    let result = wait();
    if let Some(inside) = enter() {
        barrier_left(inside.me, barrier as usize, round);
    }
    result
}

/// What a thread that calls `once` has to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// Run the initialiser, then call `once_end`.
    Run,
    /// It has run.
    Pass,
}

/// Asks to run the initialiser of `word`. `done` knows the values of the C library. In a recording
/// with values the C library runs the initialiser of a `pthread_once`, since that may throw.
/// In replay; `None` when the caller uses the real function.
///
/// # Safety
/// `word` is the word of a once or of a guard.
pub unsafe fn once_begin(
    word: *mut c_void,
    done: fn(i32) -> bool,
    is_guard: bool,
    pc: usize,
) -> Option<Once> {
    if !is_replaying() {
        return None;
    }
    let inside = enter()?;
    let me = &mut *inside.me;
    // SAFETY: the caller's promise; the word is at least four bytes, aligned.
    let state = unsafe { AtomicI32::from_ptr(word.cast()) };
    let mut answer = Once::Pass;
    let mut has_room = true;
    let real_runs = is_serial() && !is_guard;
    let mut guard = MONITOR.lock();
    let operation = operation(Code::OnceBegin, word, false, pc);
    guard.attempt(me, operation, None, |guard| {
        if done(state.load(Ordering::Acquire)) || guard.onces.has_ended(word as usize) {
            answer = Once::Pass;
            return true;
        }
        if guard.onces.is_running(word as usize) || real_runs && once_runs(word as usize) {
            return false;
        }
        answer = Once::Run;
        has_room = real_runs || guard.onces.run(word as usize);
        true
    });
    drop(guard);
    match answer {
        // So many at once: the C library keeps them apart.
        Once::Run if !has_room => return None,
        Once::Pass => note(Code::OncePass, object::ONCE, word, pc),
        Once::Run if real_runs => return None,
        Once::Run => note(Code::OnceBegin, object::ONCE, word, pc),
    }
    if answer == Once::Pass {
        with_clocks(me, |detector, thread| {
            detector.acquire(thread, word as usize);
        });
    }
    Some(answer)
}

/// Whether the C library runs the initialiser of this `pthread_once` just now.
pub fn once_runs(word: usize) -> bool {
    // SAFETY: the word of a once, which a thread waits for.
    let state = unsafe { (word as *const i32).read_volatile() };
    state & 3 == 1
}

/// The initialiser of a guard has thrown: another thread may begin it.
pub fn once_aborted(word: *mut c_void) {
    let Some(_inside) = enter() else { return };
    let mut guard = MONITOR.lock();
    guard.onces.forget(word as usize);
    guard.changed(word as usize);
}

/// The word of a guard says now that its initialiser has ended, which `guard_end` told before.
pub fn guard_stored(word: *mut c_void) {
    let Some(_inside) = enter() else { return };
    MONITOR.lock().onces.forget(word as usize);
}

/// The initialiser has run: `finish` makes the word say so.
pub fn once_end(word: *mut c_void, pc: usize, finish: impl FnOnce()) {
    let ended = end(word, pc, |guard| guard.onces.forget(word as usize), finish);
    if let Err(finish) = ended {
        finish();
    }
}

/// The initialiser of a guard has run. That its word says so is an atomic store, with a turn of
/// its own; who comes before it must neither wait nor run the initialiser again.
pub fn guard_end(word: *mut c_void, pc: usize) {
    let told = |guard: &mut Guard| guard.onces.end_before_store(word as usize);
    let _ = end(word, pc, told, || ());
}

/// Gives `finish` back when this thread is inside the runtime.
fn end<F: FnOnce()>(
    word: *mut c_void,
    pc: usize,
    told: impl FnOnce(&mut Guard),
    finish: F,
) -> Result<(), F> {
    let Some(inside) = enter() else {
        return Err(finish);
    };
    let me = &mut *inside.me;
    let mut guard = MONITOR.lock();
    guard.take_turn(me, operation(Code::OnceEnd, word, false, pc));
    with_clocks(me, |detector, thread| {
        detector.release_join(thread, word as usize);
    });
    note(Code::OnceEnd, object::ONCE, word, pc);
    finish();
    told(&mut guard);
    guard.complete();
    guard.changed(word as usize);
    Ok(())
}
