//! The monitor: whose turn it is, who is blocked on what, and when nobody can go on.
//!
//! In replay every synchronisation operation runs under one lock and never blocks inside the C
//! library: a blocking operation is tried, and if it cannot be had the thread sleeps here until
//! another thread's operation may have changed that. So at every moment the monitor knows exactly
//! which thread waits for what, and a deadlock is a fact, not a time-out (the idea of Fray's
//! shadow locking). The enforcement itself is Figure 4.15 of Carril (2017).
//!
//! Before the first thread is created, and after the last step of the schedule, the program
//! runs free. What the runtime cannot see: threads made without pthreads, objects shared with
//! other processes, and posts from signal handlers that interrupt the monitor; sleepers look again
//! every `LOOK_AGAIN` for their sake.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

use super::deadlock;
use super::emulated::{Barriers, Onces};
use super::futex::{self, FutexLock};
use super::hold::{HoldState, MOST_HELD, NO_HOLD};
use super::output::tell;
use super::priorities::Priorities;
use super::serial::{Point, Serial, Woken};
use super::spin;
use super::thread::{Activity, ControlThread, Operation};
use crate::schedule::{Hold, Record, Step, What};
use crate::sys;
use crate::wire::Code;
use crate::wire::report::{self, Diverged, Expected, Message, Why};

const MOST_THREADS: usize = 1 << 15;
const MOST_SCHEDULED: usize = 1 << 12;
const LOOK_AGAIN: i64 = 100_000_000;
const CANCELLED_IN: i64 = 300_000_000;
const HELD_FOR: i64 = 1_500_000_000;

/// Exit statuses of a process that the runtime ends itself.
pub const EXIT_DIVERGED: i32 = 81;
pub const EXIT_DEADLOCK: i32 = 82;
pub const EXIT_HELD: i32 = 83;

pub struct Monitor {
    lock: FutexLock,
    state: UnsafeCell<State>,
}

// SAFETY: `State` is reached only through a `Guard`, which holds the lock.
unsafe impl Sync for Monitor {}

pub struct State {
    pub threads: [*mut ControlThread; MOST_THREADS],
    pub thread_count: usize,
    steps: *const Step,
    step_count: usize,
    cursor: usize,
    /// Names of the threads of the schedule, as text in its file.
    names: [(*const u8, usize); MOST_SCHEDULED],
    name_count: usize,
    pub holds: [Option<Hold>; 2],
    pub held: [HoldState; MOST_HELD],
    /// Places at which threads linger; 0 where free.
    pub hunts: [usize; 8],
    /// How often threads may still do so.
    pub patience: u32,
    /// The two accesses were both next at one moment.
    pub seen_both: bool,
    /// A thread was created: from here on operations are points.
    pub started: bool,
    condition_order: u64,
    /// Raised by every operation that may let a blocked thread go on.
    pub progress: u64,
    pub stop_at_bug: bool,
    pub barriers: Barriers,
    pub onces: Onces,
    /// Who runs, in a recording in which one thread does.
    pub serial: Serial,
    pub priorities: Option<Priorities>,
}

/// The monitor, locked.
pub struct Guard {
    monitor: &'static Monitor,
}

impl core::ops::Deref for Guard {
    type Target = State;
    fn deref(&self) -> &State {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &*self.monitor.state.get() }
    }
}

impl core::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above.
        unsafe { &mut *self.monitor.state.get() }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.monitor.lock.unlock();
    }
}

/// How an operation goes on when its turn has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// No schedule binds it.
    Free,
    /// The schedule says that it succeeds now.
    Succeeds,
    /// The schedule says that it fails now.
    Fails,
    /// The thread is to end here: it was cancelled, and the schedule has nothing of this operation.
    Cancelled,
}

impl Monitor {
    pub const fn new() -> Self {
        Self {
            lock: FutexLock::new(),
            state: UnsafeCell::new(State {
                threads: [core::ptr::null_mut(); MOST_THREADS],
                thread_count: 0,
                steps: core::ptr::null(),
                step_count: 0,
                cursor: 0,
                names: [(core::ptr::null(), 0); MOST_SCHEDULED],
                name_count: 0,
                holds: [None; 2],
                held: [NO_HOLD; MOST_HELD],
                hunts: [0; 8],
                patience: 100,
                seen_both: false,
                started: false,
                condition_order: 0,
                progress: 0,
                stop_at_bug: false,
                barriers: Barriers::new(),
                onces: Onces::new(),
                serial: Serial::OFF,
                priorities: None,
            }),
        }
    }

    pub fn lock(&'static self) -> Guard {
        self.lock.lock();
        Guard { monitor: self }
    }

    /// The child process after a fork: the other threads are gone, one of them perhaps with the lock.
    pub fn forget(&'static self) {
        self.lock.reset();
        let mut state = self.lock();
        state.thread_count = 0;
        state.started = false;
    }

    /// The guard of a lock that this thread has and whose guard it forgot.
    ///
    /// # Safety
    /// It has, and did.
    pub unsafe fn adopt(&'static self) -> Guard {
        Guard { monitor: self }
    }

    /// A thread by its number, without the lock: what of it never changes may be read, and what
    /// only the caller changes.
    #[expect(
        clippy::mut_from_ref,
        reason = "the block of a thread is shared by pointer; norns-rt/src/control is moving to slot numbers"
    )]
    pub fn thread_numbered(&'static self, number: u32) -> Option<&'static mut ControlThread> {
        let state = self.state.get();
        // SAFETY: entries are only added, the pointer before the count, and blocks are never
        // given back.
        unsafe {
            let count = (&raw const (*state).thread_count).read_volatile();
            for index in 0..count {
                let thread = (&raw const (*state).threads[index]).read_volatile();
                if (*thread).number == number {
                    return Some(&mut *thread);
                }
            }
        }
        None
    }

    pub fn reset_lock(&self) {
        self.lock.reset();
    }
}

impl State {
    /// Takes in a schedule whose text stays mapped.
    pub fn load(&mut self, text: &'static [u8]) -> bool {
        let mut count = 0;
        let counted = crate::schedule::parse(text, |record| {
            count += usize::from(matches!(record, Record::Step(_)));
        });
        let steps = sys::map_anonymous((count * size_of::<Step>()).max(1)) as *mut Step;
        if counted.is_err() || steps.is_null() {
            return false;
        }
        let mut at = 0;
        let mut hold_count = 0;
        let taken = crate::schedule::parse(text, |record| match record {
            Record::Thread(name) => {
                if self.name_count < MOST_SCHEDULED {
                    self.names[self.name_count] = (name.as_ptr(), name.len());
                    self.name_count += 1;
                }
            }
            Record::Step(step) => {
                // SAFETY: `at` counts the same records as `count` did.
                unsafe { steps.add(at).write(step) };
                at += 1;
            }
            Record::Hold(hold) => {
                if let Some(slot) = self.holds.get_mut(hold_count) {
                    *slot = Some(hold);
                    hold_count += 1;
                }
            }
            Record::Hunt(pc) => {
                if let Some(slot) = self.hunts.iter_mut().find(|slot| **slot == 0) {
                    *slot = pc as usize;
                }
            }
        });
        self.steps = steps;
        self.step_count = at;
        taken.is_ok()
    }

    fn steps(&self) -> &'static [Step] {
        if self.steps.is_null() {
            return &[];
        }
        // SAFETY: `load` filled so many steps of a mapping that is never changed again.
        unsafe { core::slice::from_raw_parts(self.steps, self.step_count) }
    }

    pub fn name(&self, thread: u32) -> &'static str {
        let Some(&(start, length)) = self.names[..self.name_count].get(thread as usize) else {
            return "?";
        };
        // SAFETY: `load` took both from a string in a mapping that stays.
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(start, length)) }
    }

    pub fn add(&mut self, thread: *mut ControlThread) {
        if self.thread_count == MOST_THREADS {
            sys::fatal(b"norns: more threads than a replay can follow\n");
        }
        self.threads[self.thread_count] = thread;
        self.thread_count += 1;
        // SAFETY: blocks of threads are never given back.
        let thread = unsafe { &mut *thread };
        thread.scheduled =
            (0..self.name_count as u32).find(|&number| self.name(number) == thread.path.as_str());
        if let Some(priorities) = &mut self.priorities {
            thread.priority = priorities.of_new_thread();
        }
        // Somebody may wait for a thread of this name.
        self.wake_head();
    }

    pub fn threads(&self) -> impl Iterator<Item = &'static mut ControlThread> + '_ {
        // SAFETY: blocks of threads are never given back, and the lock is held.
        self.threads[..self.thread_count]
            .iter()
            .map(|&thread| unsafe { &mut *thread })
    }

    /// Whether the program runs free: nothing scheduled yet, or everything done.
    pub fn is_free(&self) -> bool {
        !self.started || self.cursor >= self.step_count
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// What the schedule still wants of a thread, first of all.
    pub fn next_step_of(&self, thread: &ControlThread) -> Option<&'static Step> {
        self.steps()[self.cursor.min(self.step_count)..]
            .iter()
            .find(|step| Some(step.thread) == thread.scheduled)
    }

    pub fn head(&self) -> Option<&'static Step> {
        self.steps().get(self.cursor)
    }

    pub fn thread_of(&self, scheduled: u32) -> Option<&'static mut ControlThread> {
        self.threads()
            .find(|thread| thread.scheduled == Some(scheduled))
    }

    pub fn wake(thread: &ControlThread) {
        thread.wake.fetch_add(1, Ordering::Relaxed);
        futex::wake(&thread.wake, 1);
    }

    fn wake_head(&self) {
        match self.head() {
            Some(step) => {
                if let Some(thread) = self.thread_of(step.thread) {
                    Self::wake(thread);
                }
            }
            None => self.wake_all(),
        }
    }

    pub fn wake_all(&self) {
        self.threads().for_each(|thread| Self::wake(thread));
    }

    /// The head of the schedule is done.
    pub fn complete(&mut self) {
        if self.is_free() {
            return;
        }
        self.cursor += 1;
        if self.cursor == self.step_count {
            tell(Message::Followed {
                steps: self.step_count as u64,
            });
            self.wake_all();
        } else {
            self.wake_head();
        }
    }

    /// Every place at which an access may have to wait or be held.
    pub fn for_each_access_pc(&self, mut act: impl FnMut(usize)) {
        for step in self.steps() {
            if matches!(step.what, What::Access { .. }) {
                act(step.pc as usize);
            }
        }
        self.holds
            .iter()
            .flatten()
            .for_each(|hold| act(hold.pc as usize));
        self.hunts
            .iter()
            .filter(|pc| **pc != 0)
            .for_each(|&pc| act(pc));
    }

    /// An operation on `object` was done that may let threads go on that are blocked on it.
    pub fn changed(&mut self, object: usize) {
        self.progress += 1;
        if self.serial.on {
            return self.can_try_again(Some(object));
        }
        for thread in self.threads() {
            if let Activity::Blocked { operation, .. } = thread.activity
                && operation.address == object
            {
                thread.activity = Activity::Running;
                Self::wake(thread);
            }
        }
    }

    pub fn next_condition_order(&mut self) -> u64 {
        self.condition_order += 1;
        self.condition_order
    }

    /// The waiter that a signal on this condition wakes: the one whose wait comes next in the
    /// schedule, or else the one that has waited longest.
    pub fn waiter_to_signal(&self, condition: usize) -> Option<&'static mut ControlThread> {
        let waits = |thread: &ControlThread| thread.condition == condition && !thread.signalled;
        let rest = self.steps().get(self.cursor..).unwrap_or(&[]);
        for step in rest {
            if step.what == What::Point(Code::Wait as u8)
                && let Some(thread) = self.thread_of(step.thread)
                && waits(thread)
            {
                return Some(thread);
            }
        }
        self.threads()
            .filter(|thread| waits(thread))
            .min_by_key(|thread| thread.condition_order)
    }

    /// The thread that has this lock exclusively, or any that has it shared.
    pub fn holder(&self, object: usize) -> Option<&'static mut ControlThread> {
        self.threads()
            .find(|thread| thread.held().iter().any(|held| held.address == object))
    }

    /// Ends the replay: the program cannot follow the schedule.
    fn diverged(&self, thread: &ControlThread, operation: Option<Operation>, why: Why) -> ! {
        self.diverged_in(thread.path.as_str(), operation, why)
    }

    fn diverged_in(&self, path: &str, operation: Option<Operation>, why: Why) -> ! {
        tell(Message::Diverged(Diverged {
            thread: path,
            operation: operation.map(|operation| report::Operation {
                code: operation.code,
                atomic: operation.atomic,
                address: operation.address as u64,
                pc: operation.pc as u64,
            }),
            expected: self.head().map(|step| Expected {
                step: self.cursor as u64,
                thread: self.name(step.thread),
                event: step.event,
            }),
            why,
        }));
        super::end_process(EXIT_DIVERGED)
    }

    /// The schedule lets an operation succeed that cannot.
    pub fn cannot_succeed(&self, thread: &ControlThread, operation: Operation) -> ! {
        self.diverged(thread, Some(operation), Why::CannotSucceed)
    }

    fn matches(step: &Step, operation: &Operation) -> bool {
        // A library may be loaded elsewhere, but not at another offset within a page.
        const PAGE: usize = 4095;
        let same_place = step.pc == 0 || (step.pc as usize ^ operation.pc) & PAGE == 0;
        let numbers_a_thread = matches!(operation.code, Code::Fork | Code::Join);
        let same_object =
            step.address == 0 || numbers_a_thread || step.address as usize == operation.address;
        same_place && same_object && Self::is_of_kind(step, operation)
    }

    fn is_of_kind(step: &Step, operation: &Operation) -> bool {
        match step.what {
            What::Point(code) => {
                let failed = match operation.code {
                    Code::Lock => Code::FailedLock,
                    Code::ReadLock => Code::FailedReadLock,
                    Code::SemWait => Code::FailedSemWait,
                    Code::Wait => Code::FailedWait,
                    Code::Join => Code::FailedJoin,
                    same => same,
                };
                // Whether a once runs or passes is seen when its turn has come.
                let passes = operation.code == Code::OnceBegin && code == Code::OncePass as u8;
                let may_fail = operation.may_fail || operation.fails_by_cancel;
                passes || code == operation.code as u8 || may_fail && code == failed as u8
            }
            What::Atomic(kind) => {
                operation.code == Code::Atomic
                    && (kind == operation.atomic || kind == 3 && operation.may_fail)
            }
            What::Access { .. } => false,
        }
    }

    fn fails(step: &Step) -> bool {
        let failed = [
            Code::FailedLock,
            Code::FailedReadLock,
            Code::FailedSemWait,
            Code::FailedWait,
            Code::FailedJoin,
        ];
        matches!(step.what, What::Point(code) if failed.iter().any(|f| *f as u8 == code))
    }

    /// The head can never be done: its thread has ended, or is blocked outside the schedule.
    fn check_head(&self) {
        let Some(step) = self.head() else { return };
        if let Some(thread) = self.thread_of(step.thread) {
            match thread.activity {
                Activity::Ended => self.diverged(thread, None, Why::HasEnded),
                Activity::Blocked { operation, .. } => {
                    self.diverged(thread, Some(operation), Why::IsBlocked)
                }
                _ => {}
            }
        }
    }

    /// The head can never be done: its thread was not created, or sleeps where the monitor does
    /// not see it, and nobody else goes on.
    fn give_head_up(&self) -> ! {
        let thread = self.head().and_then(|step| self.thread_of(step.thread));
        match thread {
            Some(thread) if matches!(thread.activity, Activity::Running) => {
                self.diverged(thread, None, Why::Sleeps)
            }
            _ => {
                let name = self.head().map_or("?", |step| self.name(step.thread));
                self.diverged_in(name, None, Why::NotCreated)
            }
        }
    }
}

impl Guard {
    /// Lets others use the monitor, before `relock`.
    pub fn unlock(&mut self) {
        self.monitor.lock.unlock();
    }

    pub fn relock(&mut self) {
        self.monitor.lock.lock();
    }

    /// Does something outside the monitor, as the program would.
    pub fn unlocked(&mut self, me: &mut ControlThread, act: fn()) {
        self.unlock();
        me.inside = 0;
        act();
        me.inside = 1;
        self.relock();
    }

    /// Sleeps until woken, at most so many nanoseconds. The lock is released meanwhile.
    pub fn sleep(&mut self, me: &ControlThread, nanoseconds: Option<i64>) {
        let seen = me.wake.load(Ordering::Relaxed);
        self.monitor.lock.unlock();
        futex::wait(&me.wake, seen, nanoseconds);
        self.monitor.lock.lock();
    }

    /// Waits for what is not this thread's to do next. If nothing happens for a while it may have
    /// to be given up.
    pub fn wait_for_head(&mut self, me: &ControlThread) {
        self.check_head();
        let cursor = self.cursor;
        // All who wait look together often enough.
        let each = LOOK_AGAIN * (1 + self.thread_count as i64 / 16);
        self.sleep(me, Some(each));
        let mut looks = 0;
        while self.cursor == cursor && deadlock::nobody_runs(self) {
            looks += 1;
            if looks == deadlock::ASLEEP_LOOKS {
                self.give_head_up();
            }
            self.sleep(me, Some(deadlock::ASLEEP_LOOK));
        }
    }

    /// Waits until the schedule lets this thread do this operation.
    pub fn take_turn(&mut self, me: &mut ControlThread, operation: Operation) -> Turn {
        if !self.started {
            return Turn::Free;
        }
        if self.serial.on {
            self.serial_point(me, Point::Operation);
            return Turn::Free;
        }
        if operation.code != Code::Atomic {
            me.comes_to(operation.pc, operation.address, None);
        }
        if spin::is_somebody_suspected(me) {
            spin::comes_to_write(me, None);
        }
        self.finish_access(me);
        me.activity = Activity::AtPoint;
        self.yield_to_higher(me);
        let turn = loop {
            if self.is_free() {
                break Turn::Free;
            }
            let Some(step) = self.head() else {
                break Turn::Free;
            };
            if Some(step.thread) == me.scheduled {
                if matches!(step.what, What::Access { .. }) {
                    // The thread went past this access by another way.
                    tell(Message::Skipped {
                        thread: me.path.as_str(),
                        event: step.event,
                    });
                    self.complete();
                    continue;
                }
                if !State::matches(step, &operation) {
                    if operation.is_cancellation_point() && self.is_cancelled(me) {
                        me.activity = Activity::Running;
                        return Turn::Cancelled;
                    }
                    self.diverged(me, Some(operation), Why::AnotherOperation);
                }
                break if State::fails(step) {
                    Turn::Fails
                } else {
                    Turn::Succeeds
                };
            }
            self.wait_for_head(me);
        };
        me.activity = Activity::Running;
        me.points += 1;
        turn
    }

    /// Whether somebody cancels this thread; that is not a scheduling point, so it may be about to
    /// happen.
    pub fn is_cancelled(&mut self, me: &mut ControlThread) -> bool {
        let end = futex::now(1) + CANCELLED_IN;
        while !me.cancelled && futex::now(1) < end {
            self.sleep(me, Some(5_000_000));
        }
        me.cancelled
    }

    /// Does an operation that may have to wait for others: `attempt` tries it without blocking.
    /// `deadline` is in nanoseconds of the clock. False: it failed, by time-out or by schedule, or
    /// the thread is to end here (`ControlThread::ends_here`).
    pub fn attempt(
        &mut self,
        me: &mut ControlThread,
        operation: Operation,
        deadline: Option<(i32, i64)>,
        mut attempt: impl FnMut(&mut Guard) -> bool,
    ) -> bool {
        let may_wait = !operation.may_fail || deadline.is_some();
        match self.take_turn(me, operation) {
            Turn::Fails => {
                self.complete();
                return false;
            }
            Turn::Succeeds => {
                if !attempt(self) {
                    self.cannot_succeed(me, operation);
                }
                self.complete();
                return true;
            }
            Turn::Cancelled => {
                me.ends_here = true;
                return false;
            }
            Turn::Free => {}
        }
        loop {
            if me.cancelled && !self.serial.on && operation.is_cancellation_point() {
                me.ends_here = true;
                return false;
            }
            if attempt(self) {
                return true;
            }
            if !may_wait {
                return false;
            }
            let left = deadline.map(|(clock, end)| end - futex::now(clock));
            if left.is_some_and(|left| left <= 0) {
                return false;
            }
            if self.serial.on {
                match self.serial_block(me, operation, deadline) {
                    Woken::TimedOut => {
                        let in_time = attempt(self);
                        if let (false, Some((clock, end))) = (in_time, deadline) {
                            self.wait_out(clock, end, me);
                        }
                        return in_time;
                    }
                    Woken::Cancelled => return false,
                    _ => continue,
                }
            }
            let timed = deadline.is_some();
            me.activity = Activity::Blocked { operation, timed };
            self.look_for_deadlock(me);
            let nap = left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
            self.sleep(me, Some(nap));
            me.activity = Activity::Running;
        }
    }

    /// `me` has just been blocked: can anybody go on?
    fn look_for_deadlock(&mut self, me: &mut ControlThread) {
        if deadlock::find_cycle(self, me) {
            deadlock::tell_cycle(self, me);
            super::bug_happened(self, EXIT_DEADLOCK);
        }
        if !deadlock::all_blocked(self) {
            return;
        }
        // Nobody runs; a timer or another process may still make a handler run.
        if deadlock::a_signal_could_help() {
            return;
        }
        // A post of another process is not seen before it is looked for: give it a while.
        let progress = self.progress;
        for _ in 0..3 {
            let seen = me.wake.load(Ordering::Relaxed);
            self.monitor.lock.unlock();
            futex::wait(&me.wake, seen, Some(20_000_000));
            self.monitor.lock.lock();
            if self.progress != progress || !deadlock::all_blocked(self) {
                return;
            }
        }
        deadlock::tell_stuck(self);
        super::bug_happened(self, EXIT_DEADLOCK);
    }

    /// The process ends when this thread goes on: not before the schedule is done and no thread
    /// is held, unless that cannot be.
    pub fn wait_for_the_end(&mut self, me: &mut ControlThread) {
        self.finish_access(me);
        let end = futex::now(1) + HELD_FOR;
        loop {
            if !self.is_free() {
                let Some(step) = self.head() else { return };
                if Some(step.thread) == me.scheduled {
                    self.diverged(me, None, Why::ProgramEnds);
                }
                me.activity = Activity::Waits;
                self.wait_for_head(me);
                me.activity = Activity::Running;
                continue;
            }
            // Whether another thread is held, or may still come to where it is to be held.
            let waits = |index: usize| {
                let Some(hold) = self.holds[index] else {
                    return false;
                };
                let Some(thread) = self.thread_of(hold.thread) else {
                    return false;
                };
                let may_come = matches!(
                    thread.activity,
                    Activity::Running | Activity::Held | Activity::Waits
                ) && thread.points <= hold.points;
                may_come && thread.number != me.number && !self.held[index].over
            };
            if !self.started || !(waits(0) || waits(1)) || futex::now(1) >= end {
                return;
            }
            self.sleep(me, Some(20_000_000));
        }
    }

    /// The access that had its turn is done: the thread has come to its next hook.
    pub fn finish_access(&mut self, me: &mut ControlThread) {
        if me.pending_access != 0 {
            me.pending_access = 0;
            self.complete();
        }
    }

    /// The real atomic operation is done.
    pub fn finish_atomic(
        &mut self,
        me: &ControlThread,
        address: usize,
        pc: usize,
        succeeded: bool,
    ) {
        if self.is_free() {
            return;
        }
        if let Some(step) = self.head()
            && let What::Atomic(kind) = step.what
            && (kind == 3) == succeeded
        {
            let operation = Operation {
                code: Code::Atomic,
                atomic: kind,
                may_fail: true,
                fails_by_cancel: false,
                address,
                pc,
            };
            self.diverged(me, Some(operation), Why::OtherExchange);
        }
        self.complete();
    }
}

pub fn overlap(a: usize, a_size: usize, b: usize, b_size: usize) -> bool {
    a < b + b_size && b < a + a_size
}
