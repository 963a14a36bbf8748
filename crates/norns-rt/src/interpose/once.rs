//! `pthread_once`, `call_once`, and the guards of C++ static variables.
//!
//! An initialiser may throw: the exception passes through us, and the next caller begins again.

use core::ffi::{c_int, c_void};

use crate::attach;
use crate::control;
use crate::mode::{is_controlled, is_off};
use crate::operation::Operation;
use crate::wire::{Code, atomic_detail, object};
use crate::{interpose, real};

const STORE: u8 = 1;
const RELEASE: u8 = 3;

type Once = *mut c_void;
type Initialiser = unsafe extern "C-unwind" fn();

mod real_functions {
    use super::*;

    real! {
        fn pthread_once(once: Once, initialiser: Initialiser) -> c_int;
        fn call_once(once: Once, initialiser: Initialiser);
        fn __cxa_guard_acquire(guard: *mut u8) -> c_int;
        fn __cxa_guard_release(guard: *mut u8);
        fn __cxa_guard_abort(guard: *mut u8);
    }
}

use real_functions as real_call;

/// One call that may run the initialiser: the C library calls it without arguments, so the
/// thread remembers where this is.
pub struct Call {
    once: usize,
    initialiser: Initialiser,
    pc: usize,
    ran: bool,
}

unsafe extern "C-unwind" fn run() {
    let Some(thread) = attach::current() else {
        return;
    };
    // SAFETY: `with_once` set it just before the C library called us, and its frame is below.
    let call = unsafe { &mut *thread.once };
    call.ran = true;
    let begin = Operation::new(Code::OnceBegin, object::ONCE, call.once, call.pc);
    begin.after(Code::OnceBegin);
    // SAFETY: what the program gave.
    unsafe { (call.initialiser)() };
    let end = Operation::new(Code::OnceEnd, object::ONCE, call.once, call.pc);
    end.before();
    end.after(Code::OnceEnd);
}

unsafe fn with_once(once: Once, initialiser: Initialiser, pc: usize, real: impl Fn(Initialiser)) {
    if is_controlled() {
        // SAFETY: the program passed `once` to `pthread_once` or `call_once`.
        match unsafe { control::once::begin(once, |word| word == 2, false, pc) } {
            Some(control::once::Call::Pass) => return,
            Some(control::once::Call::Run) => {
                // SAFETY: what the program gave.
                unsafe { initialiser() };
                control::once::end(once, pc, || {
                    // SAFETY: the word of a once, which the C library sets to 2 when it is done.
                    unsafe { once.cast::<c_int>().write_volatile(2) };
                });
                return;
            }
            None => {}
        }
    }
    let thread = if is_off() { None } else { attach::current() };
    let Some(thread) = thread else {
        return real(initialiser);
    };
    let mut call = Call {
        once: once as usize,
        initialiser,
        pc,
        ran: false,
    };
    let pass = Operation::new(Code::OncePass, object::ONCE, once as usize, pc);
    pass.before();
    thread.once = &raw mut call;
    real(run);
    // SAFETY: a local, written through the pointer.
    if !unsafe { (&raw const call.ran).read_volatile() } {
        pass.after(Code::OncePass);
    }
}

interpose! {
    fn pthread_once(once: Once, initialiser: Initialiser) -> c_int |pc| {
        with_once(once, initialiser, pc, |routine| {
            real_call::pthread_once(once, routine);
        });
        0
    }

    fn call_once(once: Once, initialiser: Initialiser) |pc| {
        with_once(once, initialiser, pc, |routine| real_call::call_once(once, routine));
    }

    fn __cxa_guard_acquire(guard: *mut u8) -> c_int |pc| {
        if is_controlled() {
            match control::once::begin(guard.cast(), |word| word & 0xff != 0, true, pc) {
                Some(control::once::Call::Pass) => return 0,
                Some(control::once::Call::Run) => return 1,
                None => {}
            }
        }
        let operation = Operation::new(Code::OncePass, object::ONCE, guard as usize, pc);
        operation.before();
        let must_initialise = real_call::__cxa_guard_acquire(guard);
        if must_initialise != 0 {
            Operation::new(Code::OnceBegin, object::ONCE, guard as usize, pc)
                .after(Code::OnceBegin);
        } else {
            operation.after(Code::OncePass);
        }
        must_initialise
    }

    fn __cxa_guard_release(guard: *mut u8) |pc| {
        if is_controlled() && control::is_replaying() {
            control::once::guard_end(guard.cast(), pc);
            control::access::atomic(STORE, guard as usize, 1, c_int::from(RELEASE), 0, pc, || {
                (real_call::__cxa_guard_release(guard), true)
            });
            control::once::guard_stored(guard.cast());
            return;
        }
        let end = Operation::new(Code::OnceEnd, object::ONCE, guard as usize, pc);
        end.before();
        end.after(Code::OnceEnd);
        // Compiled code looks at the first byte, with an acquire load, before it calls us.
        Operation::new(Code::Atomic, atomic_detail(0, STORE, RELEASE), guard as usize, pc)
            .after(Code::Atomic);
        real_call::__cxa_guard_release(guard);
    }

    fn __cxa_guard_abort(guard: *mut u8) |pc| {
        real_call::__cxa_guard_abort(guard);
        if is_controlled() && control::is_replaying() {
            control::once::aborted(guard.cast());
        }
    }
}
