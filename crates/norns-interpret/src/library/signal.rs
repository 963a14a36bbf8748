//! Signals, timers, jumps, and the cancellation of threads.

use std::rc::Rc;

use super::{Call, Done, Flow, Model, int};
use crate::files::Open;
use crate::machine::{Stop, give_up};
use crate::outcome::End;
use crate::signals::{self, Action, Expiration, Signal, Timer, bit, unblockable};
use crate::state::Resume;
use crate::synchronisation::Wait;

use super::descriptor::{EAGAIN, EINVAL, O_NONBLOCK};

const SECOND: u64 = 1_000_000_000;
const ESRCH: i32 = 3;
/// What `getpid` returns.
pub(super) const PROCESS: i32 = 4242;
/// The size of a `sigset_t`; only its first 64 bits mean something.
const SET: u64 = 128;

pub(super) fn find(name: &str) -> Option<Model> {
    Some(match name {
        "signal" => set_handler,
        "sigaction" => set_action,
        "sigemptyset" => |call| put_set(call, 0),
        "sigfillset" => |call| put_set(call, u64::MAX),
        "sigaddset" => |call| change_set(call, true),
        "sigdelset" => |call| change_set(call, false),
        "sigismember" => |call| {
            let set = call.load(call.argument(0), 8)?;
            match call.signal_number(1) {
                Some(number) => int(i32::from(set & bit(number) != 0)),
                None => call.fail(EINVAL),
            }
        },
        "pthread_sigmask" | "sigprocmask" => change_mask,
        "raise" => |call| {
            let current = call.machine.state.current;
            send(call, Some(current), 0)
        },
        "pthread_kill" => |call| match call.thread_of(call.argument(0)) {
            Some(thread) if !call.machine.state.threads[thread].has_ended() => {
                send(call, Some(thread), 1)
            }
            // glibc since 2.34: a thread that has ended and is not joined gets nothing.
            Some(_) => int(0),
            None => int(ESRCH),
        },
        "kill" => |call| match call.int(0) {
            0 | PROCESS => send(call, None, 1),
            _ => give_up("a signal to another process"),
        },
        "abort" => |call| match call.machine.state.signals.fate(signals::SIGABRT) {
            signals::Fate::Handler(_) => give_up("abort with a handler of SIGABRT"),
            _ => Err(Box::new(End::Signal(signals::SIGABRT.into()))),
        },
        "sigwait" | "sigwaitinfo" | "sigtimedwait" => wait_for_signal,
        "sigpending" => |call| {
            let thread = call.machine.state.current;
            let is_pending = |number: &u8| call.machine.is_pending(thread, bit(*number));
            let set = (1..=64).filter(is_pending).map(bit).sum();
            call.machine.come_after_signals();
            put_set(call, set)
        },
        "sigsuspend" => |call| {
            let mask = call.load(call.argument(0), 8)?;
            let thread = call.machine.thread();
            thread.suspended = Some(thread.mask);
            thread.mask = mask & !unblockable();
            Ok(Flow::Wait(Wait::Signal, None))
        },
        "pause" => |_| Ok(Flow::Wait(Wait::Signal, None)),
        "sigaltstack" => |call| {
            // Handlers run beside the other functions; that a stack is set is not seen anywhere else.
            match call.argument(1) {
                0 => int(0),
                _ => give_up("sigaltstack that asks for the old stack"),
            }
        },
        "alarm" => |call| {
            let seconds = call.argument(0) & 0xffff_ffff;
            let due = (seconds != 0).then(|| call.machine.state.now() + seconds * SECOND);
            let left = call.set_alarm(due, 0);
            Ok(Flow::Return(left.div_ceil(SECOND)))
        },
        "setitimer" => |call| {
            if call.int(0) != 0 {
                return give_up("a timer of processor time");
            }
            if call.argument(2) != 0 {
                return give_up("setitimer that asks for the old time");
            }
            let new = call.argument(1);
            let interval = call.time(new, 1000)?;
            let first = call.time(new + 16, 1000)?;
            let due = (first != 0).then(|| call.machine.state.now() + first);
            call.set_alarm(due, interval);
            int(0)
        },
        "timer_create" => create_timer,
        "timer_settime" => |call| {
            let timer = call.argument(0) as usize;
            set_timer(call, timer)
        },
        "timer_delete" => |call| {
            let timer = call.argument(0) as usize;
            let timers = &mut Rc::make_mut(&mut call.machine.state.signals).timers;
            if let Some(timer) = timers.get_mut(timer) {
                timer.due = None;
            }
            int(0)
        },
        "timerfd_create" => |call| {
            let is_non_blocking = call.int(1) & O_NONBLOCK != 0;
            let timer = call.add_timer(Expiration::Count(0));
            let descriptor = call.machine.state.files_mut().add(Open::Timer(timer));
            call.set_non_blocking(descriptor, is_non_blocking);
            int(descriptor as i32)
        },
        "timerfd_settime" => |call| match call.machine.state.files.open(call.int(0) as usize) {
            Some(&Open::Timer(timer)) => {
                call.machine.take_expirations(timer);
                if let Some(description) =
                    call.machine.state.files.description(call.int(0) as usize)
                {
                    call.machine.come_before(description);
                }
                set_timer(call, timer)
            }
            _ => call.fail(EINVAL),
        },
        "signalfd" => |call| {
            if call.int(0) != -1 {
                return give_up("signalfd of a descriptor that there is");
            }
            let mask = call.load(call.argument(1), 8)?;
            let descriptor = call.machine.state.files_mut().add(Open::Signals(mask));
            call.set_non_blocking(descriptor, call.int(2) & O_NONBLOCK != 0);
            int(descriptor as i32)
        },
        "setjmp" | "_setjmp" | "__sigsetjmp" | "sigsetjmp" => |call| {
            // Of these only `__sigsetjmp` can save the mask.
            let saves_mask = call.name.contains("sig") && call.int(1) != 0;
            let place = call.argument(0);
            call.load(place, 8)?;
            call.machine.set_jump(place, saves_mask);
            int(0)
        },
        "longjmp" | "_longjmp" | "siglongjmp" | "__longjmp_chk" => |call| {
            let value = match call.argument(1) & 0xffff_ffff {
                0 => 1,
                value => value,
            };
            call.machine.jump(call.argument(0), value)?;
            Ok(Flow::Elsewhere)
        },
        "pthread_cancel" => |call| match call.thread_of(call.argument(0)) {
            Some(thread) => {
                call.machine.state.effects += 1;
                call.machine.state.threads[thread].cancellation.is_requested = true;
                Ok(Flow::Yield(0))
            }
            None => int(ESRCH),
        },
        // Called while a cancellation is requested, it does not return.
        "pthread_testcancel" => |_| Ok(Flow::Yield(0)),
        "pthread_setcancelstate" => |call| {
            let is_disabled = call.argument(0) & 1 == 1;
            let thread = call.machine.thread();
            let was = std::mem::replace(&mut thread.cancellation.is_disabled, is_disabled);
            put_old(call, was)
        },
        "pthread_setcanceltype" => |call| {
            let is_asynchronous = call.argument(0) & 1 == 1;
            let thread = call.machine.thread();
            let was = std::mem::replace(&mut thread.cancellation.is_asynchronous, is_asynchronous);
            put_old(call, was)
        },
        "__pthread_register_cancel" => |call| {
            let place = call.argument(0);
            call.machine.thread().clean_ups.push(place);
            Ok(Flow::Return(0))
        },
        "__pthread_unregister_cancel" => |call| {
            call.machine.thread().clean_ups.pop();
            Ok(Flow::Return(0))
        },
        "__pthread_unwind_next" => |call| {
            Ok(match call.machine.exit_thread()? {
                Some(_) => Flow::Ended,
                None => Flow::Elsewhere,
            })
        },
        _ => return None,
    })
}

/// Stores what a setting of cancellation was before.
fn put_old(call: &mut Call<'_, '_>, was: bool) -> Done {
    if call.argument(1) != 0 {
        call.store(call.argument(1), 4, was.into())?;
    }
    Ok(Flow::Yield(0))
}

impl Call<'_, '_> {
    fn signal_number(&self, index: usize) -> Option<u8> {
        u8::try_from(self.int(index))
            .ok()
            .filter(|number| (1..=64).contains(number))
    }

    /// The time in nanoseconds that a pair of seconds and parts of a second says.
    fn time(&self, address: u64, part: u64) -> Result<u64, Stop> {
        let (seconds, parts) = (self.load(address, 8)?, self.load(address + 8, 8)?);
        let parts = parts.saturating_mul(part);
        Ok(seconds.saturating_mul(SECOND).saturating_add(parts))
    }

    fn add_timer(&mut self, expiration: Expiration) -> usize {
        let timers = &mut Rc::make_mut(&mut self.machine.state.signals).timers;
        timers.push(Timer {
            due: None,
            interval: 0,
            expiration,
        });
        timers.len() - 1
    }

    /// Sets the timer that raises SIGALRM; nanoseconds that were left.
    fn set_alarm(&mut self, due: Option<u64>, interval: u64) -> u64 {
        self.machine.come_before_timers();
        let now = self.machine.state.now();
        let number = match self.machine.state.signals.alarm {
            Some(number) => number,
            None => self.add_timer(Expiration::Signal(signals::SIGALRM)),
        };
        let signals = Rc::make_mut(&mut self.machine.state.signals);
        signals.alarm = Some(number);
        let timer = &mut signals.timers[number];
        let left = timer.due.map_or(0, |due| due.saturating_sub(now));
        timer.due = due;
        timer.interval = interval;
        left
    }
}

fn put_set(call: &mut Call<'_, '_>, set: u64) -> Done {
    call.write(call.argument(0), &[0; SET as usize])?;
    call.store(call.argument(0), 8, set)?;
    int(0)
}

fn change_set(call: &mut Call<'_, '_>, adds: bool) -> Done {
    let Some(number) = call.signal_number(1) else {
        return call.fail(EINVAL);
    };
    let set = call.load(call.argument(0), 8)?;
    let set = match adds {
        true => set | bit(number),
        false => set & !bit(number),
    };
    call.store(call.argument(0), 8, set)?;
    int(0)
}

/// `pthread_sigmask` and `sigprocmask`
fn change_mask(call: &mut Call<'_, '_>) -> Done {
    let (how, new, old) = (call.int(0), call.argument(1), call.argument(2));
    let mask = call.machine.thread().mask;
    if new != 0 {
        let set = call.load(new, 8)? & !unblockable();
        call.machine.thread().mask = match how {
            0 => mask | set,
            1 => mask & !set,
            2 => set,
            _ => {
                return match call.name {
                    "sigprocmask" => call.fail(EINVAL),
                    _ => int(EINVAL),
                };
            }
        };
    }
    if old != 0 {
        call.write(old, &[0; SET as usize])?;
        call.store(old, 8, mask)?;
    }
    Ok(Flow::Yield(0))
}

fn set_handler(call: &mut Call<'_, '_>) -> Done {
    let number = call.signal_number(0);
    let Some(number) = number.filter(|&number| bit(number) & unblockable() == 0) else {
        return call.fail(EINVAL);
    };
    let action = Action {
        handler: call.argument(1),
        mask: 0,
        flags: signals::SA_RESTART,
    };
    let signals = Rc::make_mut(&mut call.machine.state.signals);
    let old = signals.actions.insert(number, action);
    Ok(Flow::Yield(old.unwrap_or_default().handler))
}

/// `sigaction`, whose structure has the handler, the mask and, behind that, the flags.
fn set_action(call: &mut Call<'_, '_>) -> Done {
    let (new, old) = (call.argument(1), call.argument(2));
    let Some(number) = call.signal_number(0) else {
        return call.fail(EINVAL);
    };
    if new != 0 && bit(number) & unblockable() != 0 {
        return call.fail(EINVAL);
    }
    let was = call.machine.state.signals.actions.get(&number).copied();
    let was = was.unwrap_or_default();
    if new != 0 {
        let action = Action {
            handler: call.load(new, 8)?,
            mask: call.load(new + 8, 8)?,
            flags: call.load(new + 8 + SET, 4)? as u32,
        };
        let signals = Rc::make_mut(&mut call.machine.state.signals);
        signals.actions.insert(number, action);
    }
    if old != 0 {
        call.write(old, &[0; 16 + SET as usize])?;
        call.store(old, 8, was.handler)?;
        call.store(old + 8, 8, was.mask)?;
        call.store(old + 8 + SET, 4, was.flags.into())?;
    }
    Ok(Flow::Yield(0))
}

/// Sends the signal in an argument.
fn send(call: &mut Call<'_, '_>, to: Option<usize>, index: usize) -> Done {
    if call.int(index) == 0 {
        return int(0);
    }
    let Some(number) = call.signal_number(index) else {
        return match call.name {
            "pthread_kill" => int(EINVAL),
            _ => call.fail(EINVAL),
        };
    };
    let current = call.machine.state.current;
    call.machine.drain_buffer(current)?;
    // SI_TKILL, where a thread is named.
    let code = if to.is_some() { -6 } else { 0 };
    call.machine.raise(to, Signal { number, code })?;
    Ok(Flow::Yield(0))
}

fn wait_for_signal(call: &mut Call<'_, '_>) -> Done {
    let (set, to) = (call.load(call.argument(0), 8)?, call.argument(1));
    let timed_out = matches!(
        std::mem::replace(&mut call.machine.thread().resume, Resume::None),
        Resume::Woken { timed_out: true }
    );
    let Some(signal) = call.machine.take_pending(set) else {
        if timed_out {
            return call.fail(EAGAIN);
        }
        let deadline = match call.name {
            "sigtimedwait" => {
                let time = call.time(call.argument(2), 1)?;
                Some(call.until(time))
            }
            _ => None,
        };
        return Ok(Flow::Wait(Wait::Signals(set), deadline));
    };
    if call.name == "sigwait" {
        call.store(to, 4, signal.number.into())?;
        return Ok(Flow::Yield(0));
    }
    if to != 0 {
        call.write(to, &[0; 128])?;
        call.store(to, 4, signal.number.into())?;
        call.store(to + 8, 4, signal.code as u32 as u64)?;
    }
    Ok(Flow::Yield(signal.number.into()))
}

/// `timer_create`: a `struct sigevent` has the value, the signal, the way and the function.
fn create_timer(call: &mut Call<'_, '_>) -> Done {
    let event = call.argument(1);
    let expiration = match event {
        0 => Expiration::Signal(signals::SIGALRM),
        _ => {
            let (value, number) = (call.load(event, 8)?, call.load(event + 8, 4)?);
            match call.load(event + 12, 4)? {
                0 => Expiration::Signal(number as u8),
                1 => Expiration::Nothing,
                2 => Expiration::Thread {
                    function: call.load(event + 16, 8)?,
                    argument: value,
                },
                _ => return give_up("a timer for one thread"),
            }
        }
    };
    let timer = call.add_timer(expiration);
    call.store(call.argument(2), 8, timer as u64)?;
    int(0)
}

/// `timer_settime` and `timerfd_settime`
fn set_timer(call: &mut Call<'_, '_>, timer: usize) -> Done {
    let (flags, new) = (call.int(1), call.argument(2));
    if call.argument(3) != 0 {
        return give_up("a timer that is asked for its old time");
    }
    let (interval, first) = (call.time(new, 1)?, call.time(new + 16, 1)?);
    call.machine.come_before_timers();
    let now = call.machine.state.now();
    let due = match first {
        0 => None,
        // TIMER_ABSTIME
        _ if flags & 1 != 0 => Some(first),
        _ => Some(now + first),
    };
    let timers = &mut Rc::make_mut(&mut call.machine.state.signals).timers;
    let Some(timer) = timers.get_mut(timer) else {
        return call.fail(EINVAL);
    };
    timer.due = due;
    timer.interval = interval;
    Ok(Flow::Yield(0))
}
