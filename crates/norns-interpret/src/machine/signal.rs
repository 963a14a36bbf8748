//! Signals that reach threads, handlers, jumps out of functions, and the cancellation of threads.

use std::rc::Rc;

use super::{Machine, Pause, Stop, give_up};
use crate::memory::{Region, address_of};
use crate::outcome::End;
use crate::signals::{self, Expiration, Fate, Signal, bit};
use crate::state::{After, Interrupted, Resume, Status};
use crate::synchronisation::{Once, Wait};

/// Signals order threads like an object at this address, which no object of the program has.
const SIGNALS: u64 = 2;
/// How often a timer may expire while no thread can go on.
const MOST_IDLE_EXPIRATIONS: u32 = 10_000;

/// When a call that a handler interrupts fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Never,
    UnlessRestarted,
    Always,
}

fn interruption(name: &str) -> Interruption {
    match name {
        "sleep" | "usleep" | "nanosleep" | "clock_nanosleep" | "thrd_sleep" | "pause" | "poll"
        | "ppoll" | "select" | "pselect" | "epoll_wait" | "epoll_pwait" | "sigsuspend"
        | "sigwaitinfo" | "sigtimedwait" => Interruption::Always,
        "read" | "write" | "recv" | "send" | "recvmsg" | "sendmsg" | "recvfrom" | "sendto"
        | "readv" | "writev" | "accept" | "accept4" | "connect" | "flock" | "sem_wait"
        | "sem_timedwait" => Interruption::UnlessRestarted,
        _ => Interruption::Never,
    }
}

/// Functions in which a thread can be cancelled.
fn is_cancellation_point(name: &str) -> bool {
    matches!(
        name,
        "pthread_testcancel"
            | "pthread_cond_wait"
            | "pthread_cond_timedwait"
            | "pthread_join"
            | "sem_wait"
            | "sem_timedwait"
            | "sleep"
            | "usleep"
            | "nanosleep"
            | "clock_nanosleep"
            | "pause"
            | "poll"
            | "select"
            | "epoll_wait"
            | "sigsuspend"
            | "sigwait"
            | "sigwaitinfo"
            | "sigtimedwait"
            | "read"
            | "write"
            | "pread"
            | "pwrite"
            | "open"
            | "close"
            | "fsync"
            | "accept"
            | "connect"
            | "recv"
            | "send"
            | "recvmsg"
            | "sendmsg"
            | "recvfrom"
            | "sendto"
            | "readv"
            | "writev"
    )
}

impl Machine<'_> {
    /// Sends a signal to a thread, or to the process.
    pub(crate) fn raise(&mut self, thread: Option<usize>, signal: Signal) -> Result<(), Stop> {
        self.state.effects += 1;
        self.release(SIGNALS);
        let wants = |state: &crate::state::Thread| {
            let waits = matches!(
                &state.status,
                Status::Waiting { wait: Wait::Signals(set), .. } if set & bit(signal.number) != 0
            );
            state.status != Status::Ended && (state.mask & bit(signal.number) == 0 || waits)
        };
        // As Linux does: the first thread that can take it.
        let to = thread.or_else(|| self.state.threads.iter().position(wants));
        let is_wanted = to.is_some_and(|to| wants(&self.state.threads[to]));
        if is_wanted || signal.number == signals::SIGKILL {
            let is_blocked = to.is_some_and(|to| {
                self.state.threads[to].mask & bit(signal.number) & !signals::unblockable() != 0
            });
            match self.state.signals.fate(signal.number) {
                Fate::Ends if !is_blocked => {
                    return Err(Box::new(End::Signal(signal.number.into())));
                }
                Fate::Stops if !is_blocked => return give_up("a signal that stops the process"),
                Fate::Nothing if !is_blocked => return Ok(()),
                _ => {}
            }
        }
        let pending = match to {
            Some(to) => &mut self.state.threads[to].pending,
            None => &mut Rc::make_mut(&mut self.state.signals).pending,
        };
        let is_queued = signal.number >= 32;
        if is_queued || pending.iter().all(|one| one.number != signal.number) {
            pending.push(signal);
        }
        Ok(())
    }

    /// Whether a signal of a set is pending for a thread.
    pub(crate) fn is_pending(&self, thread: usize, set: u64) -> bool {
        let own = &self.state.threads[thread].pending;
        let all = own.iter().chain(&self.state.signals.pending);
        all.into_iter().any(|signal| set & bit(signal.number) != 0)
    }

    /// Takes a signal of a set that is pending for the running thread.
    pub(crate) fn take_pending(&mut self, set: u64) -> Option<Signal> {
        let current = self.state.current;
        if !self.is_pending(current, set) {
            return None;
        }
        self.acquire(SIGNALS);
        let is_it = |signal: &Signal| set & bit(signal.number) != 0;
        let own = &mut self.thread().pending;
        if let Some(at) = own.iter().position(is_it) {
            return Some(own.remove(at));
        }
        let pending = &mut Rc::make_mut(&mut self.state.signals).pending;
        let at = pending.iter().position(is_it)?;
        Some(pending.remove(at))
    }

    /// Whether a thread has to run a handler before anything else.
    pub(super) fn has_signal(&self, thread: usize) -> bool {
        let mask = self.state.threads[thread].mask;
        // Most programs have none.
        let has_any = !self.state.threads[thread].pending.is_empty()
            || !self.state.signals.pending.is_empty();
        has_any && self.is_pending(thread, !mask)
    }

    /// Enters the handlers of signals that are pending for the running thread.
    pub(super) fn deliver(&mut self) -> Result<(), Stop> {
        while self.has_signal(self.state.current) {
            let mask = self.thread().mask;
            let Some(signal) = self.take_pending(!mask) else {
                break;
            };
            self.handle(signal)?;
        }
        Ok(())
    }

    /// Enters the handler of a signal in the running thread.
    pub(super) fn handle(&mut self, signal: Signal) -> Result<(), Stop> {
        let action = match self.state.signals.fate(signal.number) {
            Fate::Ends => return Err(Box::new(End::Signal(signal.number.into()))),
            Fate::Stops => return give_up("a signal that stops the process"),
            Fate::Nothing => return Ok(()),
            Fate::Handler(action) => action,
        };
        if action.flags & signals::SA_RESETHAND != 0 {
            let actions = &mut Rc::make_mut(&mut self.state.signals).actions;
            actions.remove(&signal.number);
        }
        let mut arguments = vec![u64::from(signal.number)];
        if action.flags & signals::SA_SIGINFO != 0 {
            let mut information = vec![0; 128];
            information[0] = signal.number;
            information[8..12].copy_from_slice(&signal.code.to_le_bytes());
            let memory = &mut self.state.memory;
            let own = memory.allocate(128, Region::Library, true);
            memory.initialise(own, information);
            let context = memory.allocate(968, Region::Foreign, true);
            arguments.extend([address_of(own), address_of(context)]);
        }
        let restarts = action.flags & signals::SA_RESTART != 0;
        let thread = self.thread();
        let wait = match std::mem::replace(&mut thread.status, Status::Ready) {
            Status::Waiting { wait, deadline } => Some((wait, deadline)),
            Status::Ready | Status::Ended => None,
        };
        let mask = thread.suspended.take().unwrap_or(thread.mask);
        thread.interrupted.push(Interrupted {
            depth: thread.frames.len(),
            mask,
            wait,
            restarts,
        });
        thread.mask |= action.mask & !signals::unblockable();
        if action.flags & signals::SA_NODEFER == 0 {
            thread.mask |= bit(signal.number);
        }
        self.call_back(action.handler, &arguments, After::Handler)
    }

    /// Goes on where a handler interrupted the running thread.
    pub(super) fn leave_handler(&mut self, saved: Resume) -> Result<Option<Pause>, Stop> {
        let Some(interrupted) = self.thread().interrupted.pop() else {
            return give_up("a handler that interrupted nothing");
        };
        let thread = self.thread();
        thread.resume = saved;
        thread.mask = interrupted.mask;
        let Some((wait, deadline)) = interrupted.wait else {
            return Ok(Some(Pause::Yield));
        };
        let name = self.called_name().unwrap_or_default();
        let fails = match interruption(name) {
            Interruption::Always => true,
            Interruption::UnlessRestarted => !interrupted.restarts,
            Interruption::Never => false,
        };
        if !fails {
            self.thread().status = Status::Waiting { wait, deadline };
            return Ok(Some(Pause::Blocked));
        }
        const EINTR: u64 = 4;
        let left = deadline.map_or(0, |deadline| deadline.saturating_sub(self.state.now()));
        let result = match name {
            "sleep" => left.div_ceil(1_000_000_000),
            "clock_nanosleep" => EINTR,
            _ => {
                let errno = self.errno();
                self.state.memory.store(errno, 4, EINTR)?;
                u64::MAX
            }
        };
        if name == "nanosleep"
            && let Some(site) = self.call_site()
            && let rest = self.get(site.arguments[1])
            && rest != 0
        {
            self.state.memory.store(rest, 8, left / 1_000_000_000)?;
            self.state.memory.store(rest + 8, 8, left % 1_000_000_000)?;
        }
        if let Some(site) = self.call_site() {
            self.finish_call(site, &[result]);
        }
        Ok(Some(Pause::Yield))
    }

    /// Ends a thread's wait for something that another one did.
    pub(crate) fn wake(&mut self, thread: usize) {
        let thread = &mut self.state.threads[thread];
        let woken = Resume::Woken { timed_out: false };
        match thread.interrupted.last_mut() {
            // The handler runs on; what it interrupted is over.
            Some(interrupted) if interrupted.wait.is_some() && thread.status == Status::Ready => {
                interrupted.wait = None;
                let depth = interrupted.depth;
                thread.frames[depth].saved = woken;
            }
            _ => {
                thread.status = Status::Ready;
                thread.resume = woken;
            }
        }
    }

    /// The next time at which a timer expires that somebody can notice.
    pub(super) fn next_expiration(&self) -> Option<u64> {
        let timers = self.state.signals.timers.iter();
        let due = timers.filter(|timer| !matches!(timer.expiration, Expiration::Count(1..)));
        due.filter_map(|timer| timer.due).min()
    }

    /// What timers do that are due.
    pub(super) fn expire(&mut self) -> Result<(), Stop> {
        let now = self.state.now();
        if self.next_expiration().is_none_or(|due| due > now) {
            return Ok(());
        }
        for number in 0..self.state.signals.timers.len() {
            let timer = &mut Rc::make_mut(&mut self.state.signals).timers[number];
            let Some(due) = timer.due.filter(|&due| due <= now) else {
                continue;
            };
            let times = match timer.interval {
                0 => {
                    timer.due = None;
                    1
                }
                interval => {
                    let times = (now - due) / interval + 1;
                    timer.due = Some(due + times * interval);
                    times
                }
            };
            match &mut timer.expiration {
                Expiration::Count(count) => *count += times,
                Expiration::Signal(signal) => {
                    let signal = *signal;
                    self.idle_expirations += 1;
                    if self.idle_expirations > MOST_IDLE_EXPIRATIONS {
                        return give_up("a timer that expires while nothing else happens");
                    }
                    self.raise(None, Signal::new(signal))?;
                }
                Expiration::Thread { function, argument } => {
                    let (function, argument) = (*function, *argument);
                    let thread = self.start_thread(function, argument)?;
                    // It comes after whoever set a timer, and after nobody else.
                    let mut clock = self.clock_of(SIGNALS);
                    clock.advance(thread);
                    self.state.threads[thread].clock = clock;
                }
                Expiration::Nothing => {}
            }
        }
        Ok(())
    }

    /// The running thread has seen which signals were sent.
    pub(crate) fn come_after_signals(&mut self) {
        self.acquire(SIGNALS);
    }

    /// What the running thread did happens before what a timer does that it sets.
    pub(crate) fn come_before_timers(&mut self) {
        self.release(SIGNALS);
    }

    /// How often a timer expired since this was asked last.
    pub(crate) fn take_expirations(&mut self, timer: usize) -> u64 {
        let timers = &mut Rc::make_mut(&mut self.state.signals).timers;
        match &mut timers[timer].expiration {
            Expiration::Count(count) => std::mem::take(count),
            _ => 0,
        }
    }

    /// Whether the running thread ends at this call, because it was cancelled.
    pub(super) fn is_cancelled_in(&self, name: &str) -> bool {
        let thread = &self.state.threads[self.state.current];
        let waits_for_mutex = matches!(name, "pthread_cond_wait" | "pthread_cond_timedwait")
            && thread.resume != Resume::None;
        thread.is_cancelled() && !waits_for_mutex && is_cancellation_point(name)
    }

    /// Whether a thread's wait ends because it was cancelled.
    pub(super) fn is_cancelled_waiting(&self, thread: usize) -> bool {
        let state = &self.state.threads[thread];
        let Status::Waiting { wait, .. } = &state.status else {
            return false;
        };
        state.is_cancelled()
            && matches!(
                wait,
                Wait::Condition(_)
                    | Wait::Semaphore(_)
                    | Wait::Thread(_)
                    | Wait::Sleep
                    | Wait::Ready(_)
                    | Wait::Signal
                    | Wait::Signals(_)
            )
    }

    /// Ends the running thread as `pthread_exit` does: handlers of clean-ups first.
    pub(crate) fn exit_thread(&mut self) -> Result<Option<Pause>, Stop> {
        if let Some(place) = self.thread().clean_ups.pop() {
            self.jump(place, 1)?;
            return Ok(None);
        }
        if self.has_cleanups() {
            return give_up("the end of a thread through C++ functions with something to clean up");
        }
        while !self.state.threads[self.state.current].frames.is_empty() {
            self.abandon_frame();
        }
        self.end_thread()
    }

    /// Ends the running thread, which was cancelled.
    pub(crate) fn cancel(&mut self) -> Result<Option<Pause>, Stop> {
        let thread = self.thread();
        // PTHREAD_CANCELED
        thread.result = u64::MAX;
        thread.cancellation.is_disabled = true;
        thread.resume = Resume::None;
        thread.status = Status::Ready;
        self.exit_thread()
    }

    /// Leaves a frame that will not be gone on with.
    fn abandon_frame(&mut self) {
        if let Some(frame) = self.leave_frame()
            && let (After::Again, Resume::Called(once)) = (frame.after, frame.saved)
        {
            // An initialiser that did not end is run again by the next thread.
            let onces = &mut self.state.synchronisation_mut().onces;
            if let Some(Once::Running(_)) = onces.get(&once) {
                onces.remove(&once);
            }
        }
    }

    /// Notes where `longjmp` goes on, for the call of `setjmp` that the running thread is in.
    pub(crate) fn set_jump(&mut self, place: u64, saves_mask: bool) {
        let thread = self.thread();
        let Some(frame) = thread.frames.last() else {
            return;
        };
        let jump = crate::state::Jump {
            depth: thread.frames.len(),
            function: frame.function,
            base: frame.base,
            pc: frame.pc,
            mask: saves_mask.then_some(thread.mask),
        };
        thread.jumps.insert(place, jump);
    }

    /// `longjmp`
    pub(crate) fn jump(&mut self, place: u64, value: u64) -> Result<(), Stop> {
        let thread = &self.state.threads[self.state.current];
        let jump = thread.jumps.get(&place).copied();
        let Some(jump) = jump else {
            return give_up("longjmp to what this thread has not set");
        };
        let frame = thread.frames.get(jump.depth - 1);
        if frame.is_none_or(|frame| (frame.function, frame.base) != (jump.function, jump.base)) {
            return give_up("longjmp to a function that has returned");
        }
        while self.state.threads[self.state.current].frames.len() > jump.depth {
            self.abandon_frame();
        }
        let thread = self.thread();
        thread.interrupted.retain(|one| one.depth < jump.depth);
        if let Some(mask) = jump.mask {
            thread.mask = mask;
        }
        if let Some(frame) = thread.frames.last_mut() {
            frame.pc = jump.pc;
        }
        if let Some(site) = self.call_site() {
            self.finish_call(site, &[value]);
        }
        Ok(())
    }
}
