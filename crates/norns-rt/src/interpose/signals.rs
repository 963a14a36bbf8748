//! Signals: who sends one, who says what is to be done with it, and who gets it.
//!
//! A handler of the program is called by a trampoline of ours, which tells that the signal arrived.
//! The kernel passes the same three arguments to every handler, and nothing of ours is left to be
//! done when the handler returns or is left by a jump. Whoever asks for the handler is told the
//! program's own.

use core::ffi::{c_int, c_uint, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::blocking::away;
use super::buffer;
use crate::channels::others;
use crate::channels::signal::{self, Target};
use crate::inputs::process_id::{self, real as real_id};
use crate::mode::{is_guarded, is_off};
use crate::record::failure;
use crate::wire::guarding::FailureKind;
use crate::{guard, interpose, real, sys, track};

type Bytes = *mut c_void;

/// `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

mod real_functions {
    use super::*;

    real! {
        fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int;
        fn signal(signal: c_int, handler: usize) -> usize;
        fn bsd_signal(signal: c_int, handler: usize) -> usize;
        fn sysv_signal(signal: c_int, handler: usize) -> usize;
        fn kill(process: c_int, signal: c_int) -> c_int;
        fn killpg(group: c_int, signal: c_int) -> c_int;
        fn tgkill(process: c_int, thread: c_int, signal: c_int) -> c_int;
        fn sigqueue(process: c_int, signal: c_int, value: usize) -> c_int;
        fn pthread_kill(thread: usize, signal: c_int) -> c_int;
        fn pthread_sigqueue(thread: usize, signal: c_int, value: usize) -> c_int;
        fn raise(signal: c_int) -> c_int;
        fn alarm(seconds: c_uint) -> c_uint;
        fn ualarm(microseconds: c_uint, interval: c_uint) -> c_uint;
        fn setitimer(which: c_int, new: Bytes, old: Bytes) -> c_int;
        fn timer_settime(timer: usize, flags: c_int, new: Bytes, old: Bytes) -> c_int;
        fn mq_notify(queue: c_int, event: Bytes) -> c_int;
        fn sigwait(set: Bytes, signal: *mut c_int) -> c_int;
        fn sigpending(set: Bytes) -> c_int;
        fn sigwaitinfo(set: Bytes, information: Bytes) -> c_int;
        fn sigtimedwait(set: Bytes, information: Bytes, time: Bytes) -> c_int;
        fn pthread_self() -> usize;
    }
}

use real_functions as real_call;

const SIGNALS: usize = 65;
/// `SIG_DFL` and `SIG_IGN`; `SIG_ERR` and `SIG_HOLD` are no handlers either.
const NO_HANDLERS: [usize; 4] = [0, 1, usize::MAX, 2];

/// The handlers of the program, where the kernel has the trampoline.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// What the kernel calls in place of a handler.
unsafe extern "C-unwind" fn trampoline(signal: c_int, information: Bytes, context: Bytes) {
    let own = HANDLERS.get(signal as usize);
    if own.is_some_and(|own| own.load(Ordering::Acquire) == 0) {
        // SAFETY: `watch_failures` has set it, so that the kernel passes all three.
        return unsafe { fails(signal, information, context) };
    }
    // SAFETY: the error number of this thread.
    let error = unsafe { *sys::__errno_location() };
    signal::received(signal, 0);
    // SAFETY: the kernel has passed a `siginfo_t`, or room for one.
    unsafe { process_id::show_sender(information.cast()) };
    // SAFETY: as above; a handler finds the number that the interrupted code left.
    unsafe { *sys::__errno_location() = error };
    let Some(handler) = own else {
        return;
    };
    // SAFETY: `replaced` stored it: a function of the program that the kernel would have called with
    // these arguments.
    unsafe {
        let handler: unsafe extern "C-unwind" fn(c_int, Bytes, Bytes) =
            transmute(handler.load(Ordering::Acquire));
        handler(signal, information, context);
    }
}

impl Action {
    /// A handler that the program has not set is none for it.
    fn hide_our_handler(&mut self) {
        if self.handler == trampoline_address() {
            (self.handler, self.flags) = (0, 0);
        }
    }
}

fn trampoline_address() -> usize {
    trampoline as *const () as usize
}

/// Sets a handler with `call`, which gets what the kernel is to call and returns what it called so
/// far, unless it fails. Returns the program's own handler until now.
fn replaced(
    number: c_int,
    handler: usize,
    pc: usize,
    call: impl FnOnce(usize) -> Option<usize>,
) -> Option<usize> {
    let is_known = usize::try_from(number).is_ok_and(|number| number < SIGNALS);
    if is_off() || is_guarded() || !is_known {
        return call(handler).map(|old| if old == trampoline_address() { 0 } else { old });
    }
    let kept = &HANDLERS[number as usize];
    let before = kept.load(Ordering::Acquire);
    let own = |address: usize| {
        if address == trampoline_address() {
            before
        } else {
            address
        }
    };
    if NO_HANDLERS.contains(&handler) {
        return call(handler).map(own);
    }
    signal::sets_action(number, pc);
    kept.store(handler, Ordering::Release);
    let result = call(trampoline_address());
    if result.is_none() {
        kept.store(before, Ordering::Release);
    }
    result.map(own)
}

/// The signals by which programs fail: SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV.
const FATAL: [c_int; 5] = [4, 6, 7, 8, 11];
const SIGINFO: c_int = 4;
const ON_STACK: c_int = 0x0800_0000;

/// Lets the trampoline see the fatal signals that do what they do by default.
pub fn watch_failures() {
    for number in FATAL {
        let mut before = Action {
            handler: 0,
            mask: [0; 16],
            flags: 0,
            restorer: 0,
        };
        let action = Action {
            handler: trampoline_address(),
            flags: SIGINFO | ON_STACK,
            ..before
        };
        // SAFETY: both are actions; the trampoline stands the signal that it is set for.
        unsafe {
            let known = real_call::sigaction(number, core::ptr::null(), &mut before);
            if known == 0 && before.handler == 0 {
                real_call::sigaction(number, &action, core::ptr::null_mut());
            }
        }
    }
}

/// Lets a function of ours handle a signal.
pub fn handle(signal: c_int, handler: unsafe extern "C" fn(c_int, Bytes, Bytes)) {
    const RESTART: c_int = 0x1000_0000;
    let action = Action {
        handler: handler as *const () as usize,
        mask: [u64::MAX; 16],
        flags: SIGINFO | ON_STACK | RESTART,
        restorer: 0,
    };
    // SAFETY: an action, whose handler takes what the kernel passes with these flags.
    unsafe { real_call::sigaction(signal, &action, core::ptr::null_mut()) };
}

/// Lets a signal that the running thread is in do what it does by default, when the handler returns.
pub fn back_to_default(signal: c_int) {
    let default = Action {
        handler: 0,
        mask: [0; 16],
        flags: 0,
        restorer: 0,
    };
    // SAFETY: an action, and a signal to the running thread, which blocks it until the handler returns.
    unsafe {
        real_call::sigaction(signal, &default, core::ptr::null_mut());
        real_call::raise(signal);
    }
}

/// A fatal signal has come, and the program has no handler: it is noted and then does its work, when the
/// instruction is tried again or, if somebody has sent it, by being sent once more.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn fails(signal: c_int, information: Bytes, context: Bytes) {
    /// Where `siginfo_t` has `si_code` and `si_addr`, and `ucontext_t` the stack pointer and the program
    /// counter.
    const CODE: usize = 8;
    const ADDRESS: usize = 16;
    const STACK: usize = 160;
    const COUNTER: usize = 168;
    // SAFETY: the kernel has filled both in.
    let (code, address, stack, pc) = unsafe {
        (
            information.byte_add(CODE).cast::<c_int>().read(),
            information.byte_add(ADDRESS).cast::<usize>().read(),
            context.byte_add(STACK).cast::<usize>().read(),
            context.byte_add(COUNTER).cast::<usize>().read(),
        )
    };
    let was_sent = code <= 0;
    guard::fails(FailureKind::Signal, signal as u8, pc + 1, stack);
    // Places are return addresses: one byte behind what is meant.
    let place = track::failing_place(pc, stack);
    failure::signalled(signal, if was_sent { 0 } else { address }, place);
    let default = Action {
        handler: 0,
        mask: [0; 16],
        flags: 0,
        restorer: 0,
    };
    // SAFETY: an action, and a signal to the running thread, which blocks it until the handler returns.
    unsafe {
        real_call::sigaction(signal, &default, core::ptr::null_mut());
        if was_sent {
            real_call::raise(signal);
        }
    }
}

/// Whether a signal to this process, group or everybody reaches us.
fn is_here(process: c_int) -> bool {
    process <= 0 || process == sys::getpid()
}

/// A call is about to send a signal to a process or group.
fn sends_to(process: c_int, number: c_int, pc: usize) {
    if is_here(process) {
        signal::sends(number, Target::Process, pc);
    }
    if process != sys::getpid() {
        others::given(pc);
    }
}

/// The handle of one of our threads, by the kernel's number.
fn handle_of(thread: c_int) -> Option<usize> {
    // SAFETY: a plain call; it reads the thread control block.
    (thread == crate::thread::kernel_id()).then(|| unsafe { real_call::pthread_self() })
}

interpose! {
    fn sigaction(number: c_int, new: *const Action, old: *mut Action) -> c_int |pc| {
        if is_off() || is_guarded() {
            if !new.is_null() {
                track::gives_up_signal(number);
            }
            let result = real_call::sigaction(number, new, old);
            if result == 0 && !old.is_null() {
                (*old).hide_our_handler();
            }
            return result;
        }
        let mut before = Action { handler: 0, mask: [0; 16], flags: 0, restorer: 0 };
        let mut result = 0;
        let own = if new.is_null() {
            result = real_call::sigaction(number, new, &mut before);
            let kept = HANDLERS.get(number as usize).map(|kept| kept.load(Ordering::Acquire));
            match before.handler == trampoline_address() {
                true => kept,
                false => Some(before.handler),
            }
        } else {
            let wanted = new.read();
            replaced(number, wanted.handler, pc, |handler| {
                let action = Action { handler, ..wanted };
                result = real_call::sigaction(number, &action, &mut before);
                (result == 0).then_some(before.handler)
            })
        };
        if result == 0 && !old.is_null() {
            before.handler = own.unwrap_or(before.handler);
            old.write(before);
        }
        result
    }
    fn signal(number: c_int, handler: usize) -> usize |pc| {
        track::gives_up_signal(number);
        let set = |handler| Some(real_call::signal(number, handler)).filter(|old| *old != usize::MAX);
        replaced(number, handler, pc, set).unwrap_or(usize::MAX)
    }
    fn bsd_signal(number: c_int, handler: usize) -> usize |pc| {
        let set = |handler| Some(real_call::bsd_signal(number, handler)).filter(|old| *old != usize::MAX);
        replaced(number, handler, pc, set).unwrap_or(usize::MAX)
    }
    fn sysv_signal(number: c_int, handler: usize) -> usize |pc| {
        let set = |handler| Some(real_call::sysv_signal(number, handler)).filter(|old| *old != usize::MAX);
        replaced(number, handler, pc, set).unwrap_or(usize::MAX)
    }

    fn kill(process: c_int, number: c_int) -> c_int |pc| {
        let process = real_id(process);
        sends_to(process, number, pc);
        real_call::kill(process, number)
    }
    fn killpg(group: c_int, number: c_int) -> c_int |pc| {
        signal::sends(number, Target::Process, pc);
        real_call::killpg(real_id(group), number)
    }
    fn tgkill(process: c_int, thread: c_int, number: c_int) -> c_int |pc| {
        let (process, thread) = (real_id(process), real_id(thread));
        let target = handle_of(thread).map_or(Target::Process, Target::Thread);
        signal::sends(number, target, pc);
        real_call::tgkill(process, thread, number)
    }
    fn sigqueue(process: c_int, number: c_int, value: usize) -> c_int |pc| {
        let process = real_id(process);
        sends_to(process, number, pc);
        real_call::sigqueue(process, number, value)
    }
    fn pthread_kill(thread: usize, number: c_int) -> c_int |pc| {
        signal::sends(number, Target::Thread(thread), pc);
        real_call::pthread_kill(thread, number)
    }
    fn pthread_sigqueue(thread: usize, number: c_int, value: usize) -> c_int |pc| {
        signal::sends(number, Target::Thread(thread), pc);
        real_call::pthread_sigqueue(thread, number, value)
    }
    fn raise(number: c_int) -> c_int |pc| {
        real_call::raise(number)
    }
    fn alarm(seconds: c_uint) -> c_uint |pc| {
        signal::starts_timer(pc);
        real_call::alarm(seconds)
    }
    fn ualarm(microseconds: c_uint, interval: c_uint) -> c_uint |pc| {
        signal::starts_timer(pc);
        real_call::ualarm(microseconds, interval)
    }
    fn setitimer(which: c_int, new: Bytes, old: Bytes) -> c_int |pc| {
        signal::starts_timer(pc);
        real_call::setitimer(which, new, old)
    }
    fn timer_settime(timer: usize, flags: c_int, new: Bytes, old: Bytes) -> c_int |pc| {
        signal::starts_timer(pc);
        real_call::timer_settime(timer, flags, new, old)
    }

    fn mq_notify(queue: c_int, event: Bytes) -> c_int |pc| {
        signal::starts_timer(pc);
        real_call::mq_notify(queue, event)
    }

    fn sigpending(set: Bytes) -> c_int |pc| {
        let result = real_call::sigpending(set);
        if result == 0 {
            signal::pending(pc);
        }
        result
    }
    fn sigwait(set: Bytes, number: *mut c_int) -> c_int |pc| {
        let result = away(|| real_call::sigwait(set, number));
        if result == 0 {
            signal::received(*number, pc);
            buffer::filled(number, size_of::<c_int>(), pc);
        }
        result
    }
    fn sigwaitinfo(set: Bytes, information: Bytes) -> c_int |pc| {
        let result = away(|| real_call::sigwaitinfo(set, information));
        if result > 0 {
            process_id::show_sender(information.cast());
            signal::received(result, pc);
        }
        result
    }
    fn sigtimedwait(set: Bytes, information: Bytes, time: Bytes) -> c_int |pc| {
        let result = away(|| real_call::sigtimedwait(set, information, time));
        if result > 0 {
            process_id::show_sender(information.cast());
            signal::received(result, pc);
        }
        result
    }
}
