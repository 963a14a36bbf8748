//! The monitor: the core under its lock, and the loop that does what it answers.
//!
//! In replay every synchronisation operation runs under this one lock and never blocks inside the
//! C library: a blocking operation is tried, and if it would block the thread sleeps here until
//! another thread's operation may have changed that. So the core knows exactly which thread waits
//! for what, and a deadlock is a fact, not a time-out.
//!
//! What the runtime cannot see: threads made without pthreads, objects shared with other
//! processes, and posts from signal handlers that interrupt the monitor; sleepers look again now and
//! then for their sake.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use norns_control::{
    Act, Answer, Core, Effect, Happened, How, Question, Slot, Tried, Turn, Waking,
};

use super::futex::{self, FutexLock, MONOTONIC, PROCESS_TIME};
use super::thread::{Inside, numbered};
use super::{kernel, report, serial};
use crate::errno::{EINTR, ETIMEDOUT, failed_with};
use crate::mode::is_serial;
use crate::real;

real! {
    fn pthread_testcancel();
}

pub static MONITOR: Monitor = Monitor {
    lock: FutexLock::new(),
    core: UnsafeCell::new(Core::new()),
};

/// A loop is suspected to wait for a write: every thread that is about to write says so.
static SUSPECTED: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub fn is_any_suspected() -> bool {
    SUSPECTED.load(Ordering::Relaxed)
}

pub struct Monitor {
    lock: FutexLock,
    core: UnsafeCell<Core<'static>>,
}

// SAFETY: `core` is reached only through a `Guard`, which holds the lock.
unsafe impl Sync for Monitor {}

/// The monitor, locked.
pub struct Guard {
    monitor: &'static Monitor,
}

impl core::ops::Deref for Guard {
    type Target = Core<'static>;
    fn deref(&self) -> &Core<'static> {
        // SAFETY: the lock is held as long as the guard lives, and there is one guard at a time.
        unsafe { &*self.monitor.core.get() }
    }
}

impl core::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Core<'static> {
        // SAFETY: as above.
        unsafe { &mut *self.monitor.core.get() }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.monitor.lock.unlock();
    }
}

impl Monitor {
    pub fn lock(&'static self) -> Guard {
        self.lock.lock();
        Guard { monitor: self }
    }

    /// The child process after a fork: the other threads are gone, one of them perhaps with the
    /// lock.
    pub fn forget(&'static self) {
        self.lock.reset();
        self.lock().forked();
    }

    /// The guard of a lock that the running thread holds and whose guard it forgot.
    ///
    /// # Safety
    /// The thread locked the monitor and called `mem::forget` on the guard, once for every call of
    /// this function.
    pub unsafe fn adopt(&'static self) -> Guard {
        Guard { monitor: self }
    }
}

/// Whether what the core decides then can depend on the time.
fn needs_clock(what: &Happened) -> bool {
    match what {
        Happened::Arrives(_, How::AtItsTurn | How::Tried { deadline: None }) => !is_serial(),
        Happened::Completes
        | Happened::CompletesAtomic { .. }
        | Happened::Changes(_)
        | Happened::Takes { .. }
        | Happened::Releases(_)
        | Happened::Signals { .. }
        | Happened::BeginsWait { .. }
        | Happened::EndsWait
        | Happened::Passes { .. }
        | Happened::Writes { .. }
        | Happened::Created
        | Happened::NotCreated => false,
        _ => true,
    }
}

impl Guard {
    /// Tells the core what happened to a thread, and does at once what that means for others.
    /// `who` need not be the running thread where the core only takes note.
    pub fn note(&mut self, who: Slot, what: Happened) -> Act {
        if is_serial() {
            serial::look_at_onces(self);
        }
        let now = if needs_clock(&what) {
            futex::now(MONOTONIC)
        } else {
            self.now()
        };
        let act = self.step(who, what, now);
        self.settle();
        act
    }

    /// Reports and wakes, as the core asked.
    pub fn settle(&mut self) {
        while let Some(line) = self.next_line() {
            report::tell_line(self, line);
        }
        while let Some(effect) = self.next_effect() {
            match effect {
                Effect::Wake(slot) => {
                    if let Some(block) = numbered(slot.0) {
                        block.wake.fetch_add(1, Ordering::Relaxed);
                        futex::wake(&block.wake, 1);
                    }
                }
                Effect::Watch(slot, watch) => {
                    if let Some(block) = numbered(slot.0) {
                        block.watched.store(watch, Ordering::Relaxed);
                    }
                }
                Effect::GivesTurn(_) => serial::gives_turn(),
                Effect::GetsTurn(_) => serial::gets_turn(),
                Effect::LostTurn(slot) => serial::lost_turn(slot),
            }
        }
        SUSPECTED.store(self.is_any_suspected(), Ordering::Relaxed);
    }

    /// Something happens to the running thread, which then does what the core says until it may go.
    pub fn drive(&mut self, inside: &mut Inside, what: Happened) -> Turn {
        self.attempt(inside, what, |_| Tried::Over)
    }

    /// As `drive`; `attempt` tries the operation without blocking.
    pub fn attempt(
        &mut self,
        inside: &mut Inside,
        what: Happened,
        mut attempt: impl FnMut(&mut Guard) -> Tried,
    ) -> Turn {
        let me = inside.block.slot();
        let mut act = self.note(me, what);
        let turn = loop {
            let next = match act {
                Act::Go(turn) => break turn,
                Act::Try => Happened::Tried(attempt(self)),
                Act::Sleep(nap) => Happened::Woke(self.sleep(&inside.block.wake, nap)),
                Act::SleepOut(nap) => {
                    // No other thread knows this word.
                    Happened::Woke(self.sleep(&AtomicU32::new(0), Some(nap)))
                }
                Act::Ask(question) => Happened::Answers(self.answer(question)),
                Act::Again => Happened::Again,
                Act::TestCancel => {
                    self.test_cancel(inside);
                    Happened::Again
                }
                Act::Stop(stop) => report::stop(self, stop),
            };
            act = self.note(me, next);
        };
        inside.own().pending_access = self.has_pending_access(me);
        turn
    }

    /// Sleeps on a word until that is changed. The monitor is unlocked meanwhile.
    fn sleep(&mut self, word: &AtomicU32, nanoseconds: Option<i64>) -> Waking {
        let seen = word.load(Ordering::Relaxed);
        self.monitor.lock.unlock();
        let result = futex::wait(word, seen, nanoseconds);
        self.monitor.lock.lock();
        if is_serial() && result != 0 && serial::take_missed() {
            self.all_can_try();
        }
        if failed_with(result, EINTR) {
            Waking::Interrupted
        } else if failed_with(result, ETIMEDOUT) {
            Waking::TimeOut
        } else {
            Waking::Woken
        }
    }

    /// Lets the C library end the running thread, if it is to end.
    fn test_cancel(&mut self, inside: &mut Inside) {
        self.monitor.lock.unlock();
        // SAFETY: nothing of ours is held, and our frames need nothing when they are left.
        inside.outside(|| unsafe { pthread_testcancel() });
        self.monitor.lock.lock();
    }

    fn answer(&self, question: Question) -> Answer {
        match question {
            Question::AllAsleep => {
                let all = self.running().all(is_asleep);
                Answer::AllAsleep(all && !kernel::a_signal_could_help())
            }
            Question::SignalCouldHelp => Answer::SignalCouldHelp(kernel::a_signal_could_help()),
            Question::ProcessorTime(thread) => {
                let id = thread.map_or(0, kernel_id);
                // The kernel's name of the processor clock of a thread.
                let clock = if id > 0 { !id << 3 | 6 } else { PROCESS_TIME };
                Answer::ProcessorTime(futex::now(clock))
            }
            Question::TurnHolder(thread) => {
                let (asleep, processor) = kernel::state(kernel_id(thread));
                let block = numbered(thread.0);
                let events = block.map_or(0, |block| block.values.events.load(Ordering::Relaxed));
                Answer::TurnHolder {
                    events,
                    asleep,
                    processor,
                }
            }
        }
    }
}

fn kernel_id(slot: Slot) -> i32 {
    numbered(slot.0).map_or(0, |block| block.kernel_id.load(Ordering::Relaxed))
}

/// Whether the thread sleeps in the kernel, in a wait that the core does not know and that only
/// another thread can end: of a library of its own, such as that of C++ for futures.
fn is_asleep(slot: Slot) -> bool {
    numbered(slot.0).is_some_and(|block| {
        let id = block.kernel_id.load(Ordering::Relaxed);
        // In this order: a thread that sleeps before the monitor, which is locked, stays inside.
        id > 0 && kernel::sleeps_on_futex(id) && !block.is_inside()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;
    use std::thread;

    use norns_control::{Happened, How, Operation, Schedule, Slot, Thread, Turn};

    use super::MONITOR;
    use crate::control::thread::{ControlThread, Inside, Path, register};
    use crate::schedule::{Step, What};
    use crate::wire::Code;

    const THREADS: u32 = 3;
    const STEPS: u32 = 300;

    struct Order(UnsafeCell<Vec<u32>>);
    // SAFETY: the test reaches the order with the monitor locked only.
    unsafe impl Sync for Order {}

    /// Real threads, real futexes: everything but the program.
    #[test]
    fn concurrent_threads_follow_a_schedule() {
        let step = |number: u32| Step {
            // Not in a regular pattern.
            thread: number * number / 7 % THREADS,
            what: What::Point(Code::Custom as u8),
            address: 0,
            pc: 0,
            event: number,
        };
        let steps: &'static [Step] = Vec::leak((0..STEPS).map(step).collect());
        let mut guard = MONITOR.lock();
        guard.follow(Schedule {
            names: &["a", "b", "c"],
            steps,
            ..Schedule::empty()
        });
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            let slot = Slot(number as u32);
            let memory = Box::leak(Box::new(Thread::new()));
            assert!(guard.add_child(slot, memory, name));
            guard.note(slot, Happened::Created);
        }
        drop(guard);

        let order = Order(UnsafeCell::new(Vec::new()));
        let run = |number: u32| {
            let order = &order;
            let block: &'static ControlThread =
                Box::leak(Box::new(ControlThread::new(number, Path::unknown(number))));
            assert!(register(block));
            // SAFETY: only this thread uses the block.
            let mut inside = unsafe { Inside::enter(block) }.expect("a new block");
            MONITOR.lock().drive(&mut inside, Happened::Begins);
            for _ in steps.iter().filter(|step| step.thread == number) {
                let mut guard = MONITOR.lock();
                let point = Operation::new(Code::Custom, 0, 0);
                let arrives = Happened::Arrives(point, How::AtItsTurn);
                assert_eq!(guard.drive(&mut inside, arrives), Turn::Succeeds);
                // SAFETY: the monitor is locked.
                unsafe { (*order.0.get()).push(number) };
                guard.note(block.slot(), Happened::Completes);
            }
        };
        thread::scope(|scope| {
            let threads = [0, 1, 2].map(|number| scope.spawn(move || run(number)));
            // The end of a scope alone is no synchronisation that ThreadSanitizer sees.
            for thread in threads {
                thread.join().expect("all assertions hold");
            }
        });
        let expected: Vec<u32> = steps.iter().map(|step| step.thread).collect();
        assert_eq!(order.0.into_inner(), expected);
    }
}
