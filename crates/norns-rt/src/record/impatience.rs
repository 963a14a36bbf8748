//! Timed operations that give up early, tries that wait until they fail, and releases that come late. Off
//! unless `NORNS_IMPATIENT` is set.
//!
//! A recording seldom shows what a program does when a timed wait times out or a try fails: the
//! partner is usually in time. Here it is not. A thread sleeps for a moment before it begins, unlocks,
//! signals or posts, so that others find the lock held, and a timed operation that has to wait
//! waits for a shorter moment than that. To the program this is a slow partner; only one that
//! measures how long its wait took can tell the difference. A lock that is free is never refused: a try
//! only waits for a moment until it is not.
//!
//! Who has to be late depends on the program. In one sort of run new threads are, so that their creator
//! waits for them in vain; in the other their creator is.
//!
//! Moments are measured by what the other threads do: on a busy machine one that could run may have
//! to wait for a processor longer than any fixed time, so the sleeper naps on until it has run.
//!
//! Each thread does this a limited number of times, so that a loop that waits with a time-out soon
//! goes on at its own pace.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::control::kernel;
use crate::inputs::served;
use crate::operation::Operation;
use crate::wire::{environment, object};
use crate::{sys, thread};

static IMPATIENT: AtomicBool = AtomicBool::new(false);
/// Creators begin late, not the threads that they create.
static CREATORS_ARE_LATE: AtomicBool = AtomicBool::new(false);
/// When a thread has begun last, by the monotonic clock.
static LAST_START: AtomicI64 = AtomicI64::new(0);

const NANOSLEEP: usize = 35;
const CLOCK_GETTIME: usize = 228;
/// How long a release, the start of a thread, and a timed operation wait, in nanoseconds.
const HELD_BACK: i64 = 4_000_000;
const LATE_START: i64 = 20_000_000;
/// The longest that a new thread waits for others to begin, where threads are created all the time.
const LONGEST_START: i64 = 5 * LATE_START;
const PATIENCE: i64 = 1_000_000;
/// A nap is longer than the patience of a timed operation: one that waited through a whole nap has
/// given up.
const NAP: i64 = 2 * PATIENCE;
/// The longest that a thread sleeps while others could run and do not get to.
const LONGEST: i64 = 500_000_000;
/// How long a try waits for its failure.
const UNTIL_IT_FAILS: i64 = LATE_START + 2 * HELD_BACK;
const LONGEST_TRY: i64 = 150_000_000;
/// How often a thread is held back, and how often it gives up early.
const MOST: u8 = 12;
const MOST_TRIES: u8 = 4;

/// `late` is what `NORNS_IMPATIENT` says.
pub fn switch_on(late: &[u8]) {
    CREATORS_ARE_LATE.store(late == environment::CREATORS.as_bytes(), Ordering::Relaxed);
    IMPATIENT.store(true, Ordering::Relaxed);
}

/// Perhaps makes the running thread sleep, since it is about to let others go on.
#[inline(always)]
pub fn hold_back() {
    if IMPATIENT.load(Ordering::Relaxed)
        && let Some(thread) = thread::current()
        && thread.held_back < MOST
    {
        thread.held_back += 1;
        let_others_run(HELD_BACK);
    }
}

/// Perhaps makes a new thread sleep before its first event, until no other one has begun for a moment: threads
/// that are created in a row then begin together, however long their creator had to wait for a processor.
pub fn start_late() {
    const MONOTONIC: usize = 1;
    if !IMPATIENT.load(Ordering::Relaxed) || CREATORS_ARE_LATE.load(Ordering::Relaxed) {
        return;
    }
    let start = now(MONOTONIC);
    LAST_START.store(start, Ordering::Relaxed);
    let_others_run(LATE_START);
    loop {
        let time = now(MONOTONIC);
        let is_last = time - LAST_START.load(Ordering::Relaxed) >= LATE_START;
        if is_last || time - start >= LONGEST_START {
            return;
        }
        let pause = [0, NAP];
        // SAFETY: the call reads two words, seconds and nanoseconds, and writes nothing.
        unsafe { sys::call(NANOSLEEP, pause.as_ptr() as usize, 0, 0) };
    }
}

/// Perhaps makes the running thread sleep, since it has just created another one.
pub fn go_on_late() {
    if CREATORS_ARE_LATE.load(Ordering::Relaxed)
        && let Some(thread) = thread::current()
        && thread.held_back < MOST
    {
        thread.held_back += 1;
        let_others_run(LATE_START);
    }
}

/// Perhaps waits until a try fails that would succeed now.
#[inline(always)]
pub fn wait_for_failure(operation: &Operation) {
    if IMPATIENT.load(Ordering::Relaxed) {
        wait_until_taken(operation);
    }
}

#[cold]
fn wait_until_taken(operation: &Operation) {
    const MONOTONIC: usize = 1;
    let Some(thread) = thread::current().filter(|thread| thread.gave_up_early < MOST_TRIES) else {
        return;
    };
    thread.gave_up_early += 1;
    let own_id = thread::kernel_id();
    let start = now(MONOTONIC);
    let mut quiet_naps = 0;
    while !is_taken(operation) {
        let pause = [0, PATIENCE];
        // SAFETY: the call reads two words, seconds and nanoseconds, and writes nothing.
        unsafe { sys::call(NANOSLEEP, pause.as_ptr() as usize, 0, 0) };
        quiet_naps = if others_could_run(own_id) {
            0
        } else {
            quiet_naps + 1
        };
        let passed = now(MONOTONIC) - start;
        if passed >= UNTIL_IT_FAILS && quiet_naps >= 2 || passed >= LONGEST_TRY {
            return;
        }
    }
}

/// Whether the lock or semaphore cannot be had now, as far as glibc's first word of it tells. Of
/// reader-writer locks that is not asked.
fn is_taken(operation: &Operation) -> bool {
    let word = operation.object as *const i32;
    // SAFETY: the program passed an object of this sort to the function that is interposed.
    let word = || unsafe { word.read_volatile() };
    match operation.detail & !object::SHARED {
        object::SPIN_LOCK => word() != 1,
        object::SEMAPHORE => word() == 0,
        object::MUTEX
        | object::RECURSIVE_MUTEX
        | object::ERROR_CHECKING_MUTEX
        | object::ROBUST_MUTEX => word() != 0,
        _ => true,
    }
}

/// The time-out of `poll`, or a shorter one.
pub fn milliseconds(given: c_int) -> c_int {
    if IMPATIENT.load(Ordering::Relaxed) && given > 1 && gives_up_early() {
        1
    } else {
        given
    }
}

/// A duration that is shorter than the given one, whose second word has `a_second` parts.
///
/// # Safety
/// `given` is null or points to two words.
pub unsafe fn duration(given: *const c_void, a_second: i64) -> Option<[i64; 2]> {
    const SECOND: i64 = 1_000_000_000;
    if !IMPATIENT.load(Ordering::Relaxed) || given.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let [seconds, parts] = unsafe { given.cast::<[i64; 2]>().read() };
    let shorter = PATIENCE / (SECOND / a_second);
    let is_longer = seconds > 0 || seconds == 0 && (shorter..a_second).contains(&parts);
    (is_longer && gives_up_early()).then_some([0, shorter])
}

/// Whether the running thread may give up early once more.
fn gives_up_early() -> bool {
    let thread = thread::current().filter(|thread| thread.gave_up_early < MOST);
    thread.map(|thread| thread.gave_up_early += 1).is_some()
}

/// Sleeps for at least so many nanoseconds, and until the other threads have slept through a whole nap,
/// or have used as much processor time as that.
#[cold]
fn let_others_run(at_least: i64) {
    const MONOTONIC: usize = 1;
    const PROCESSOR_TIME: usize = 2;
    let own_id = thread::kernel_id();
    let (start, used_before) = (now(MONOTONIC), now(PROCESSOR_TIME));
    let mut quiet_naps = 0;
    loop {
        let pause = [0, NAP];
        // SAFETY: the call reads two words, seconds and nanoseconds, and writes nothing.
        unsafe { sys::call(NANOSLEEP, pause.as_ptr() as usize, 0, 0) };
        quiet_naps = if others_could_run(own_id) {
            0
        } else {
            quiet_naps + 1
        };
        let passed = now(MONOTONIC) - start;
        let is_settled = quiet_naps >= 2 || now(PROCESSOR_TIME) - used_before >= at_least;
        if passed >= at_least && is_settled || passed >= LONGEST {
            return;
        }
    }
}

/// Whether another thread runs at this moment, or waits for a processor.
fn others_could_run(own_id: i32) -> bool {
    let mut any = false;
    kernel::each_thread(|id| any |= id != own_id && kernel::is_runnable(id));
    any
}

/// Nanoseconds by a clock of the kernel.
fn now(clock: usize) -> i64 {
    let mut time = [0_i64; 2];
    // SAFETY: the call writes two words to `time`.
    unsafe { sys::call(CLOCK_GETTIME, clock, time.as_mut_ptr() as usize, 0) };
    time[0] * 1_000_000_000 + time[1]
}

/// When a timed operation gives up: the time of the program, or an earlier one. In a replay, whose clocks
/// are not the kernel's, the same moment by the kernel's clock.
pub struct Until {
    given: *const c_void,
    earlier: Option<[i64; 2]>,
}

impl Until {
    /// # Safety
    /// `given` is a `struct timespec`, and stays so for as long as this value is used.
    #[inline(always)]
    pub unsafe fn of(clock: c_int, given: *const c_void) -> Self {
        let earlier = if IMPATIENT.load(Ordering::Relaxed) {
            // SAFETY: the caller promises that `given` is a `struct timespec`.
            unsafe { earlier(clock, given) }
        } else {
            // SAFETY: as above.
            unsafe { served::deadline(clock, given.cast()) }
        };
        Until { given, earlier }
    }

    /// A `struct timespec`.
    pub fn time(&self) -> *const c_void {
        match &self.earlier {
            Some(time) => time.as_ptr().cast(),
            None => self.given,
        }
    }
}

/// A time that comes before the given one and soon, if this thread may still give up early.
#[cold]
unsafe fn earlier(clock: c_int, given: *const c_void) -> Option<[i64; 2]> {
    const SECOND: i64 = 1_000_000_000;
    let thread = thread::current().filter(|thread| thread.gave_up_early < MOST)?;
    let mut now = [0_i64; 2];
    // SAFETY: the call writes two words to `now`.
    let result = unsafe { sys::call(CLOCK_GETTIME, clock as usize, now.as_mut_ptr() as usize, 0) };
    let soon = now[1] + PATIENCE;
    let soon = [now[0] + soon / SECOND, soon % SECOND];
    // SAFETY: the caller promises that `given` is a `struct timespec`: two words.
    let given = unsafe { given.cast::<[i64; 2]>().read() };
    // A time that is none is an error of the call, as without us.
    let is_time = (0..SECOND).contains(&given[1]);
    (result == 0 && is_time && soon < given).then(|| {
        thread.gave_up_early += 1;
        soon
    })
}
