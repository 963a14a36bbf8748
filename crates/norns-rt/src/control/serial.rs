//! One thread at a time: who runs next in a recording with values.
//!
//! The thread whose turn it is runs the program; all others sleep here. It gives the turn away at
//! synchronisation operations, when it blocks, when it has made many accesses without one (a loop
//! that waits for a variable must not wait for ever), and around calls that sleep in the kernel.
//! Blocking operations are those of the monitor: tried, and tried again when another thread has
//! changed their object.
//!
//! Even seeds walk at random: one operation in four lets any other thread go on. Odd seeds draw a
//! priority for each thread, and now and then one falls to the lowest (PCT, Burckhardt et al.
//! 2010): this reaches the schedules in which a thread is far ahead of the others, which a walk
//! almost never does.
//!
//! The same seed gives the same run of a program whose input is the same. For that, time is
//! counted in decisions: a wait with a time-out ends when nobody else can run, or after as many
//! decisions as would take so long; who is asleep in the kernel comes back when it comes back.
//!
//! A thread that sleeps where nobody foresaw it loses its turn to a watchdog, which every
//! waiting thread is. It then runs beside another one until its next hook, so that what it does
//! between is not captured exactly; how often this happened is counted.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::monitor::{Guard, State};
use super::thread::{Activity, ControlThread, Operation};
use super::{MONITOR, deadlock, enter, futex, kernel};
use crate::record::{statistics, values};
use crate::thread::Thread;
use crate::wire::Code;
use crate::{real, sys};

/// Priorities are drawn above this, and those that fall count down from it.
const LOWEST: u64 = 1 << 32;

/// Nanoseconds that a decision, a long stretch without one, and a yield stand for.
const DECISION: i64 = 10_000;
const STRETCH: i64 = 1_000_000;
const YIELD: i64 = 100_000;
/// One in so many operations lets another thread go on, or makes a thread's priority the lowest.
const SWITCH: u64 = 4;
const CHANGE: u64 = 16;
/// How often a waiting thread looks at the one whose turn it is, and one that is blocked at what
/// another process may have changed.
const WATCH: i64 = 20_000_000;
const LOOK_AGAIN: i64 = 100_000_000;
/// When a thread has lost its turn: so long without an event and asleep, or so much processor time
/// without one (in hundredths of a second), or so long without taking a turn that it was given.
const ASLEEP: i64 = 30_000_000;
const BUSY: u64 = 50;
const LATE: i64 = 1_000_000_000;

real! {
    fn pthread_testcancel();
}

/// The block of the thread whose turn it is; 0 while it changes. Only that thread stores its own.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// A signal handler released something while its thread was inside the monitor.
static MISSED: AtomicBool = AtomicBool::new(false);
/// Another process may release something.
static SHARED: AtomicBool = AtomicBool::new(false);

pub struct Serial {
    pub on: bool,
    /// Null while nobody can run.
    turn: *mut ControlThread,
    /// It has woken up and runs.
    taken: bool,
    random: u64,
    /// Whether priorities decide; the one that falls next gets the lowest.
    by_priority: bool,
    lowest: u64,
    /// Time, counted in decisions.
    now: i64,
    decisions: u64,
    /// A thread that has ended for the program, but not yet for the kernel.
    dying: i32,
    watched: Watched,
}

/// What the watchdog saw, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Watched {
    decisions: u64,
    events: u64,
    since: i64,
    processor: u64,
}

/// What this mode knows about one thread; all-zero is a thread that cannot run.
#[derive(Clone, Copy)]
pub struct SerialThread {
    /// Goes on as soon as it gets the turn.
    ready: bool,
    /// 0 before it is drawn.
    priority: u64,
    /// When its wait ends by itself, in `Serial::now`; 0: it does not.
    deadline: i64,
    /// The same on a clock of the kernel.
    until: (i32, i64),
    /// A signal ends the wait.
    interruptible: bool,
    interrupted: bool,
    /// `pthread_cancel` was called for it.
    cancelled: bool,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    ToTryAgain,
    TimedOut,
    Interrupted,
    Cancelled,
}

/// Whether a thread waits for an initialiser that was left by an exception.
fn initialiser_failed(onces: &super::emulated::Onces, thread: &ControlThread) -> bool {
    matches!(thread.activity, Activity::Blocked { operation, .. }
        if operation.code == Code::OnceBegin
            && !onces.is_running(operation.address)
            && !super::operations::once_runs(operation.address))
}

/// Near seeds give far beginnings (the end of splitmix64, Steele et al. 2014); never 0.
fn spread(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).max(1)
}

/// Xorshift (Marsaglia 2003); never 0.
fn draw(random: &mut u64) -> u64 {
    let mut x = *random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *random = x;
    x >> 11
}

/// The thread's priority, drawn when it is first needed.
fn priority(thread: &mut ControlThread, random: &mut u64) -> u64 {
    if thread.serial.priority == 0 {
        thread.serial.priority = LOWEST + 1 + draw(random) % LOWEST;
    }
    thread.serial.priority
}

impl Serial {
    pub const OFF: Serial = Serial {
        on: false,
        turn: null_mut(),
        taken: false,
        random: 0,
        by_priority: false,
        lowest: LOWEST,
        now: 1,
        decisions: 0,
        dying: 0,
        watched: Watched {
            decisions: 0,
            events: 0,
            since: 0,
            processor: 0,
        },
    };
}

/// Switches the mode on; the running thread has the first turn.
pub fn begin(seed: u64, main: &mut Thread) {
    super::threads::main_thread(main);
    super::REPLAYING.store(true, Ordering::Relaxed);
    let mut state = MONITOR.lock();
    state.serial = Serial {
        on: true,
        turn: main.control,
        taken: true,
        random: spread(seed),
        by_priority: seed % 2 == 1,
        ..Serial::OFF
    };
    OWNER.store(&raw const *main as usize, Ordering::Relaxed);
}

/// The child process after a fork has one thread, which goes on with its turn.
pub fn forked(thread: &mut Thread) {
    MONITOR.reset_lock();
    let mut state = MONITOR.lock();
    state.thread_count = 0;
    state.started = false;
    drop(state);
    super::threads::main_thread(thread);
    let mut state = MONITOR.lock();
    state.serial.turn = thread.control;
    state.serial.taken = true;
    state.serial.dying = 0;
    OWNER.store(&raw const *thread as usize, Ordering::Relaxed);
}

/// Whether this thread has the turn.
#[inline(always)]
pub fn has_turn(thread: &Thread) -> bool {
    OWNER.load(Ordering::Relaxed) == &raw const *thread as usize
}

/// Waits for the turn, if this thread does not have it.
#[cold]
pub fn regain() {
    let Some(inside) = enter() else { return };
    let mut guard = MONITOR.lock();
    if guard.started && !guard.is_turn_of(inside.me) {
        inside.me.serial.ready = true;
        guard.wait_for_turn(inside.me);
    }
}

/// The thread has run for long without a decision.
#[cold]
pub fn preempt() {
    let Some(inside) = enter() else { return };
    let mut guard = MONITOR.lock();
    guard.serial.now += STRETCH;
    guard.serial_point(inside.me, Point::LetsOthersGo);
}

/// `sched_yield` and its like.
pub fn yielded() {
    let Some(inside) = enter() else { return };
    let mut guard = MONITOR.lock();
    guard.serial.now += YIELD;
    guard.serial_point(inside.me, Point::LetsOthersGo);
}

/// A call that may sleep in the kernel: others run meanwhile.
pub fn away<R>(call: impl FnOnce() -> R) -> R {
    let left = enter().is_some_and(|inside| {
        let mut guard = MONITOR.lock();
        let leaves = guard.started && guard.is_turn_of(inside.me);
        if leaves {
            guard.leave(inside.me);
            guard.pass_on();
        }
        leaves
    });
    let result = call();
    if left {
        regain();
    }
    result
}

/// Sleeps until a time of a clock; `duration` is how long that was at the time of the call. The
/// rest, if a signal came first; `None` when the caller has to sleep itself.
pub fn sleep(clock: i32, until: i64, duration: i64) -> Option<i64> {
    let inside = enter()?;
    let me = &mut *inside.me;
    let mut guard = MONITOR.lock();
    if !guard.started {
        return None;
    }
    let operation = Operation {
        code: Code::Turn,
        atomic: 0,
        may_fail: true,
        fails_by_cancel: false,
        address: usize::MAX,
        pc: 0,
    };
    me.serial.interruptible = true;
    me.serial.deadline = guard.serial.now + duration.max(1);
    let woken = guard.block(me, operation, Some((clock, until)));
    me.serial.interruptible = false;
    if woken == Woken::TimedOut {
        guard.wait_out(clock, until, me);
        if core::mem::take(&mut me.serial.interrupted) {
            return Some((until - futex::now(clock)).max(0));
        }
    }
    match woken {
        Woken::Interrupted => Some((until - futex::now(clock)).max(0)),
        _ => Some(0),
    }
}

/// Something was released without the monitor.
pub fn missed() {
    MISSED.store(true, Ordering::Relaxed);
}

/// The program has made an object that other processes can use.
pub fn shared_object() {
    SHARED.store(true, Ordering::Relaxed);
}

/// The program cancels a thread.
pub fn cancelled(number: u32) {
    let Some(_inside) = enter() else { return };
    let mut guard = MONITOR.lock();
    for thread in guard.threads() {
        let waits = matches!(thread.activity, Activity::Blocked { operation, .. }
            if is_cancellation_point(operation.code));
        if thread.number == number && !matches!(thread.activity, Activity::Ended) {
            thread.serial.cancelled = true;
            thread.serial.ready |= waits;
        }
    }
    if guard.serial.turn.is_null() {
        guard.pass_on();
    }
}

/// A thread has come back from a wait that can be cancelled, and holds what it must.
pub fn act_on_cancellation() {
    let Some(me) = super::current() else { return };
    if core::mem::take(&mut me.serial.cancelled) {
        // SAFETY: nothing of ours is held, and our frames need nothing when they are left.
        unsafe { pthread_testcancel() };
    }
}

fn is_cancellation_point(code: Code) -> bool {
    matches!(code, Code::Wait | Code::SemWait | Code::Join | Code::Turn)
}

/// The thread left the monitor by `longjmp` out of a signal handler.
pub fn jumped(thread: &mut Thread) {
    // SAFETY: the block of the running thread, if it has one.
    if let Some(me) = unsafe { thread.control.as_mut() }
        && !me.keeps_monitor
    {
        me.inside = 0;
        me.activity = Activity::Running;
    }
}

/// What a point asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Others may go on.
    Operation,
    /// Others go on, if any can.
    LetsOthersGo,
}

impl State {
    fn is_turn_of(&self, thread: &ControlThread) -> bool {
        core::ptr::eq(self.serial.turn, thread)
    }

    /// The thread's priority becomes lower than all others.
    fn fall(&mut self, thread: &mut ControlThread) {
        self.serial.lowest -= 1;
        thread.serial.priority = self.serial.lowest;
    }

    /// Chooses one of the threads that can run.
    fn draw_next(&mut self, except: *const ControlThread) -> Option<&'static mut ControlThread> {
        let now = self.serial.now;
        let onces = &self.onces;
        let can_run = |thread: &&mut ControlThread| {
            let due = thread.serial.deadline != 0 && thread.serial.deadline <= now;
            (thread.serial.ready || due || initialiser_failed(onces, thread))
                && !core::ptr::eq(*thread, except)
        };
        let mut random = self.serial.random;
        if self.serial.by_priority {
            let threads = self.threads().filter(can_run);
            let drawn = threads.map(|thread| (priority(thread, &mut random), thread));
            let next = drawn
                .max_by_key(|(priority, _)| *priority)
                .map(|(_, thread)| thread);
            self.serial.random = random;
            return next;
        }
        let count = self.threads().filter(can_run).count();
        let which = match count {
            0 => return None,
            1 => 0,
            _ => draw(&mut random) as usize % count,
        };
        let next = self.threads().filter(can_run).nth(which);
        self.serial.random = random;
        next
    }

    fn give_to(&mut self, next: &mut ControlThread) {
        self.serial.turn = next;
        self.serial.taken = false;
        self.serial.decisions += 1;
        State::wake(next);
    }

    /// Gives the free turn to somebody who can run.
    pub fn pass_on(&mut self) {
        self.serial.turn = null_mut();
        self.serial.taken = false;
        if let Some(next) = self.draw_next(core::ptr::null()) {
            self.give_to(next);
        }
    }

    /// The thread whose turn it is runs no more of the program for now.
    pub fn leave(&mut self, me: &mut ControlThread) {
        // SAFETY: the block of the running thread.
        if let Some(runtime) = unsafe { me.runtime.as_mut() } {
            values::hand_over(runtime);
        }
        OWNER.store(0, Ordering::Relaxed);
        self.serial.now += DECISION;
    }

    /// The thread has ended. It runs on for a while in the C library and the kernel: the next one
    /// waits for that, since which memory it can get depends on it.
    pub fn thread_ended(&mut self, me: &mut ControlThread, kernel_id: i32) {
        me.serial.ready = false;
        me.serial.deadline = 0;
        if self.is_turn_of(me) {
            OWNER.store(0, Ordering::Relaxed);
            self.serial.dying = kernel_id;
            self.pass_on();
        }
    }

    /// Threads that are blocked on `object` can try again.
    pub fn can_try_again(&mut self, object: Option<usize>) {
        for thread in self.threads() {
            if let Activity::Blocked { operation, .. } = thread.activity
                && object.is_none_or(|object| operation.address == object)
                && operation.address != usize::MAX
            {
                thread.serial.ready = true;
            }
        }
        if self.serial.turn.is_null() {
            self.pass_on();
        }
    }

    /// Whether the turn is free, nobody can run, and this wait is the next to end by itself.
    fn ends_next(&self, me: &ControlThread) -> bool {
        self.serial.turn.is_null()
            && me.serial.deadline != 0
            && self.threads().all(|thread| {
                !thread.serial.ready
                    && (thread.serial.deadline == 0
                        || thread.serial.deadline > me.serial.deadline
                        || thread.serial.deadline == me.serial.deadline
                            && thread.number >= me.number)
            })
    }

    fn is_first_watcher(&self, me: &ControlThread) -> bool {
        self.threads()
            .find(|thread| thread.serial.ready && !self.is_turn_of(thread))
            .is_some_and(|thread| core::ptr::eq(thread, me))
    }

    /// Whether the thread whose turn it is does not use it.
    fn is_stuck(&mut self) -> bool {
        // SAFETY: blocks of threads are never given back.
        let Some(owner) = (unsafe { self.serial.turn.as_ref() }) else {
            return false;
        };
        // SAFETY: the block of a thread that has not ended.
        let runtime = unsafe { owner.runtime.as_ref() };
        let kernel_id = runtime.map_or(0, |runtime| runtime.kernel_id);
        let events = runtime.map_or(0, values::count);
        let time = futex::now(1);
        let before = self.serial.watched;
        if before.decisions != self.serial.decisions || before.events != events {
            self.serial.watched = Watched {
                decisions: self.serial.decisions,
                events,
                since: time,
                processor: kernel::state(kernel_id).1,
            };
            return false;
        }
        let quiet = time - before.since;
        if !self.serial.taken {
            return quiet >= LATE;
        }
        if quiet < ASLEEP {
            return false;
        }
        let (asleep, processor) = kernel::state(kernel_id);
        asleep || processor >= before.processor + BUSY
    }

    /// Takes the turn from a thread that does not use it.
    fn take_away(&mut self) {
        // SAFETY: blocks of threads are never given back.
        if let Some(owner) = unsafe { self.serial.turn.as_mut() }
            && self.serial.taken
        {
            // SAFETY: the block of a thread that has not ended.
            if let Some(runtime) = unsafe { owner.runtime.as_mut() } {
                values::taken_away(runtime);
            }
            statistics::turn_taken_away();
        }
        OWNER.store(0, Ordering::Relaxed);
        self.pass_on();
    }
}

impl Guard {
    /// The first thing that a new thread does.
    pub fn begin_thread(&mut self, me: &mut ControlThread) {
        me.activity = Activity::Running;
        if !self.is_turn_of(me) {
            me.serial.ready = true;
        }
        self.wait_for_turn(me);
    }

    /// A place at which another thread may go on.
    pub fn serial_point(&mut self, me: &mut ControlThread, point: Point) {
        if !self.started {
            return;
        }
        if !self.is_turn_of(me) {
            me.serial.ready = true;
            self.wait_for_turn(me);
            return;
        }
        self.serial.now += DECISION;
        self.serial.decisions += 1;
        let by_priority = self.serial.by_priority;
        let chance = if by_priority { CHANGE } else { SWITCH };
        let lets_go =
            point == Point::LetsOthersGo || draw(&mut self.serial.random).is_multiple_of(chance);
        if by_priority && lets_go {
            self.fall(me);
        }
        if !by_priority && !lets_go {
            return;
        }
        if let Some(next) = self.draw_next(me)
            && (!by_priority || next.serial.priority > priority(me, &mut self.serial.random))
        {
            self.leave(me);
            me.serial.ready = true;
            self.give_to(next);
            self.wait_for_turn(me);
        }
    }

    /// Waits until `changed` says that the operation can be tried again, or until its time is over.
    pub fn serial_block(
        &mut self,
        me: &mut ControlThread,
        operation: Operation,
        deadline: Option<(i32, i64)>,
    ) -> Woken {
        if let Some((clock, until)) = deadline {
            me.serial.deadline = self.serial.now + (until - futex::now(clock)).max(1);
        }
        self.block(me, operation, deadline)
    }

    fn block(
        &mut self,
        me: &mut ControlThread,
        operation: Operation,
        deadline: Option<(i32, i64)>,
    ) -> Woken {
        me.activity = Activity::Blocked {
            operation,
            timed: deadline.is_some(),
        };
        me.serial.until = deadline.unwrap_or_default();
        me.serial.interrupted = false;
        me.serial.ready = me.serial.cancelled && is_cancellation_point(operation.code);
        if self.is_turn_of(me) {
            self.leave(me);
            self.pass_on();
        }
        let timed_out = self.wait_for_turn(me);
        me.activity = Activity::Running;
        if me.serial.cancelled && is_cancellation_point(operation.code) {
            if operation.code == Code::Wait {
                // It must first have its mutex again.
                return Woken::Cancelled;
            }
            self.unlocked(me, act_on_cancellation);
        }
        if timed_out {
            Woken::TimedOut
        } else if core::mem::take(&mut me.serial.interrupted) {
            Woken::Interrupted
        } else {
            Woken::ToTryAgain
        }
    }

    /// Sleeps until the turn comes. Whether it came because the time of the wait is over.
    fn wait_for_turn(&mut self, me: &mut ControlThread) -> bool {
        let mut watches = self.is_first_watcher(me);
        while !self.is_turn_of(me) {
            let (clock, until) = me.serial.until;
            let timed = me.serial.deadline != 0;
            let left = if timed {
                until - futex::now(clock)
            } else {
                i64::MAX
            };
            if self.serial.turn.is_null() && me.serial.ready {
                self.pass_on();
                continue;
            }
            if left <= 0 && self.ends_next(me) {
                self.serial.now = self.serial.now.max(me.serial.deadline);
                self.give_to(me);
                continue;
            }
            let nap = match (me.serial.ready, watches) {
                (true, true) => WATCH,
                (true, false) => 25 * WATCH,
                // Until it is its turn to end, others may have to end theirs.
                _ if left <= 0 => WATCH / 4,
                _ => left.min(LOOK_AGAIN),
            };
            // When nothing can end the wait, it is one without end also for who looks from outside.
            let hangs = self.serial.turn.is_null()
                && !SHARED.load(Ordering::Relaxed)
                && deadlock::all_blocked(self);
            let seen = me.wake.load(Ordering::Relaxed);
            self.unlock();
            let result = futex::wait(&me.wake, seen, (!hangs).then_some(nap));
            self.relock();
            if result == sys::EINTR && me.serial.interruptible && !me.serial.ready {
                me.serial.interrupted = true;
                me.serial.ready = true;
            }
            if self.is_turn_of(me) || result == 0 {
                continue;
            }
            watches = self.is_first_watcher(me);
            if MISSED.swap(false, Ordering::Relaxed) {
                self.can_try_again(None);
            }
            let wants = me.serial.ready || timed && left <= 0;
            if wants && self.is_stuck() {
                if timed {
                    self.serial.now = self.serial.now.max(me.serial.deadline);
                }
                self.take_away();
            } else if self.serial.turn.is_null() && result == sys::ETIMEDOUT && !timed {
                // Another process may have released what this thread waits for.
                me.serial.ready = true;
            }
        }
        self.serial.taken = true;
        let timed_out = !me.serial.ready && me.serial.deadline != 0;
        me.serial.ready = false;
        me.serial.deadline = 0;
        self.wait_for_the_dying();
        // SAFETY: the block of the running thread.
        if let Some(runtime) = unsafe { me.runtime.as_mut() } {
            OWNER.store(&raw const *runtime as usize, Ordering::Relaxed);
            values::returned(runtime);
        }
        timed_out
    }

    /// Sleeps on, with the turn, until a time-out that ended early by our count of time.
    pub fn wait_out(&mut self, clock: i32, until: i64, me: &mut ControlThread) {
        let word = core::sync::atomic::AtomicU32::new(0);
        loop {
            let left = until - futex::now(clock);
            if left <= 0 || me.serial.interrupted {
                return;
            }
            self.unlock();
            let result = futex::wait(&word, 0, Some(left));
            self.relock();
            me.serial.interrupted = result == sys::EINTR && me.serial.interruptible;
        }
    }

    fn wait_for_the_dying(&mut self) {
        const TGKILL: usize = 234;
        let dying = core::mem::take(&mut self.serial.dying);
        let process = sys::getpid();
        if dying == 0 || dying == process {
            return;
        }
        let word = core::sync::atomic::AtomicU32::new(0);
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
}
