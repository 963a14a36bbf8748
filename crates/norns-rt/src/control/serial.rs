//! The turn of a recording in which one thread runs at a time. `norns_control` decides who gets it;
//! this file does what giving and getting the turn mean for the recording.
//!
//! A hook of a thread without the turn waits for it (`has_turn`, `regain`). A value that is not
//! logged yet is logged before the turn is given away.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

use norns_control::{Happened, Slot, Turn};

use super::monitor::{Guard, MONITOR};
use super::thread::numbered;
use super::{enter, futex};
use crate::record::{statistics, values};
use crate::thread::{self, Thread};
use crate::{real, sys};

/// How many nanoseconds of counted time pass in a long stretch without a decision, and in a yield.
const STRETCH: i64 = 1_000_000;
const YIELD: i64 = 100_000;

real! {
    fn pthread_testcancel();
}

/// The address of the block of the thread that has the turn; 0 while the turn changes hands. A
/// thread stores only its own address.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// A signal handler released something while its thread was inside the monitor.
static MISSED: AtomicBool = AtomicBool::new(false);
/// A thread has waited for a `pthread_once` that the C library runs.
static AWAITS_ONCE: AtomicBool = AtomicBool::new(false);
/// The kernel's number of a thread that has ended for the program, but perhaps not for the kernel;
/// 0 for none. Changed with the monitor locked.
static DYING: AtomicI32 = AtomicI32::new(0);

/// Switches the mode on; the running thread has the first turn.
pub fn begin(seed: u64, main: &mut Thread) {
    MONITOR.lock().serialise(seed);
    super::REPLAYING.store(true, Ordering::Relaxed);
    super::threads::main_thread(main);
    OWNER.store(&raw const *main as usize, Ordering::Relaxed);
}

/// The child process after a fork has one thread, which goes on with its turn.
pub fn forked(thread: &mut Thread) {
    super::ARENA.forget_lock();
    super::thread::forget_all();
    MONITOR.forget();
    super::threads::main_thread(thread);
    DYING.store(0, Ordering::Relaxed);
    OWNER.store(&raw const *thread as usize, Ordering::Relaxed);
}

/// Whether this thread has the turn.
#[inline(always)]
pub fn has_turn(thread: &Thread) -> bool {
    OWNER.load(Ordering::Relaxed) == &raw const *thread as usize
}

fn tell(what: Happened) -> Option<Turn> {
    let mut inside = enter()?;
    let mut guard = MONITOR.lock();
    Some(guard.drive(&mut inside, what))
}

/// Waits for the turn, if this thread does not have it.
#[cold]
pub fn regain() {
    tell(Happened::WantsTurn);
}

/// The thread has run for long without a decision.
#[cold]
pub fn preempt() {
    tell(Happened::Yields { ran_for: STRETCH });
}

/// `sched_yield` and its like.
pub fn yielded() {
    tell(Happened::Yields { ran_for: YIELD });
}

/// A call that may sleep in the kernel: others run meanwhile.
pub fn away<R>(call: impl FnOnce() -> R) -> R {
    let left = tell(Happened::Leaves) == Some(Turn::Succeeds);
    let result = call();
    if left {
        regain();
    }
    result
}

/// Sleeps until a time of a clock; `duration` is how long that was at the time of the call. The
/// remaining time if a signal came first, otherwise 0; `None` when the caller has to sleep itself.
pub fn sleep(clock: i32, until: i64, duration: i64) -> Option<i64> {
    let monotonic = futex::monotonic(clock, until);
    let slept = tell(Happened::Sleeps {
        duration,
        until: monotonic,
    });
    match slept? {
        Turn::Free => None,
        Turn::Interrupted => Some((until - futex::now(clock)).max(0)),
        _ => Some(0),
    }
}

/// Lets the other threads run until none of them can, or so much of the time that is counted has
/// passed. How many of them could still go on.
pub fn rest(duration: i64) -> usize {
    let until = futex::now(futex::MONOTONIC);
    tell(Happened::Sleeps { duration, until });
    let Some(inside) = enter() else { return 0 };
    let guard = MONITOR.lock();
    guard.able_to_go_on(inside.block.slot())
}

/// Something was released without the monitor.
pub fn missed() {
    MISSED.store(true, Ordering::Relaxed);
}

pub fn take_missed() -> bool {
    MISSED.swap(false, Ordering::Relaxed)
}

/// The program has made an object that other processes can use.
pub fn shared_object() {
    if crate::mode::is_serial()
        && let Some(_inside) = enter()
    {
        MONITOR.lock().shares_objects();
    }
}

/// The running thread has come back from a wait on a condition and holds the mutex: if it was
/// cancelled meanwhile, it ends here.
pub fn act_on_cancellation() {
    let cancelled = enter().is_some_and(|inside| {
        let mut guard = MONITOR.lock();
        guard.take_cancellation(inside.block.slot())
    });
    if cancelled {
        // SAFETY: nothing of ours is held, and our frames need nothing when they are left.
        unsafe { pthread_testcancel() };
    }
}

/// The thread left the monitor by `longjmp` out of a signal handler, or by its cancellation.
pub fn jumped(thread: &mut Thread) {
    // SAFETY: null, or the block of the running thread, which is never given back.
    if let Some(block) = unsafe { thread.control.as_ref() }
        && block.is_inside()
        && !block.keeps_monitor()
    {
        block.jumped_out();
        tell(Happened::Jumped);
    }
}

/// The thread, whose block this is, ends. It still runs for a while in the C library and the kernel;
/// the next thread waits until it is gone, since its stack may be handed out again.
pub fn turn_ends_with(thread: &Thread) {
    if has_turn(thread) {
        OWNER.store(0, Ordering::Relaxed);
        DYING.store(thread.kernel_id, Ordering::Relaxed);
    }
}

/// The running thread gives its turn away: what it did is logged before what others do from now on.
pub fn gives_turn() {
    if let Some(thread) = thread::current() {
        values::hand_over(thread);
    }
    OWNER.store(0, Ordering::Relaxed);
}

/// The running thread has got the turn.
pub fn gets_turn() {
    wait_for_the_dying();
    if let Some(thread) = thread::current() {
        OWNER.store(&raw const *thread as usize, Ordering::Relaxed);
        values::returned(thread);
    }
}

/// The turn was taken from a thread that sleeps, or computes, where that was not foreseen.
pub fn lost_turn(slot: Slot) {
    if let Some(block) = numbered(slot.0) {
        values::taken_away(block);
    }
    statistics::turn_taken_away();
    OWNER.store(0, Ordering::Relaxed);
}

fn wait_for_the_dying() {
    const TGKILL: usize = 234;
    let dying = DYING.swap(0, Ordering::Relaxed);
    let process = sys::getpid();
    if dying == 0 || dying == process {
        return;
    }
    let word = AtomicU32::new(0);
    for turn in 0..2000 {
        // SAFETY: signal 0 only asks whether the thread exists.
        if unsafe { sys::call(TGKILL, process as usize, dying as usize, 0) } < 0 {
            return;
        }
        if turn < 20 {
            sys::yield_now();
        } else {
            futex::wait(&word, 0, Some(50_000));
        }
    }
}

/// Whether the C library runs the initialiser of this `pthread_once` just now.
pub fn once_runs(word: usize) -> bool {
    // SAFETY: the word of a once, which a thread waits for.
    let state = unsafe { (word as *const i32).read_volatile() };
    state & 3 == 1
}

/// A thread waits for an initialiser that the C library runs.
pub fn awaits_once() {
    AWAITS_ONCE.store(true, Ordering::Relaxed);
}

/// Threads whose initialiser was left by an exception, which passes no hook, can try again.
pub fn look_at_onces(core: &mut Guard) {
    if AWAITS_ONCE.load(Ordering::Relaxed) {
        core.retry_onces(once_runs);
    }
}
