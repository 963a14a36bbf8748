//! `pthread_once`, `call_once`, and the guards of C++ static variables.
//!
//! An initialiser may throw or be cancelled: the next caller begins again. In the trace such an attempt
//! is an initialisation that ended, of an object of its own: who begins again first passes that, and
//! goes on with a new one. That an attempt which succeeded could have come before one which failed is
//! left out.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::attach;
use crate::control;
use crate::lock::Lock;
use crate::mode::{is_controlled, is_guarded, is_off, text};
use crate::operation::Operation;
use crate::wire::{Code, atomic_detail, object};
use crate::{guard, interpose, real, sys};

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

const ROOM: usize = 64;

/// The onces whose last attempt failed and was not repeated yet. When the table is full, an attempt
/// is forgotten: the trace then begins the same initialisation twice.
static FAILED: Lock<[usize; ROOM]> = Lock::new([0; ROOM]);

fn failed(once: usize) {
    FAILED.with(|table| {
        if let Some(free) = table.iter_mut().find(|entry| **entry == 0) {
            *free = once;
        }
    });
}

/// Whether the attempt that begins now repeats one that failed.
pub fn repeats(once: usize) -> bool {
    FAILED.with(|table| {
        let entry = table.iter_mut().find(|entry| **entry == once);
        entry.map(|entry| *entry = 0).is_some()
    })
}

/// The child process after a fork.
pub fn forget() {
    // Not `fill`, which is `memset`: that would be logged in the stream of the parent.
    FAILED.force(|table| {
        for entry in table {
            *entry = 0;
        }
    });
}

/// The running thread runs the initialiser from here on.
fn begins(once: usize, pc: usize) {
    let operation = |code| Operation::new(code, object::ONCE, once, pc);
    if repeats(once) {
        operation(Code::OncePass).after(Code::OncePass);
        operation(Code::Init).after(Code::Init);
    }
    operation(Code::OnceBegin).after(Code::OnceBegin);
}

fn ends(once: usize, pc: usize) {
    let end = Operation::new(Code::OnceEnd, object::ONCE, once, pc);
    end.before();
    end.after(Code::OnceEnd);
}

/// One call that may run the initialiser: the C library calls it without arguments, so the
/// thread remembers where this is.
pub struct Call {
    once: usize,
    initialiser: Initialiser,
    pc: usize,
    ran: bool,
    /// The core decided that the initialiser runs, not the C library.
    replayed: bool,
    /// The call whose initialiser makes this one.
    outer: *mut Call,
}

/// The call whose initialiser is about to run, or runs.
fn current() -> Option<&'static mut Call> {
    // SAFETY: `with_once` set it to a local of a frame that is still below, or null.
    unsafe { attach::current()?.once.as_mut() }
}

unsafe extern "C-unwind" fn run_initialiser() {
    let Some(call) = current() else { return };
    call.ran = true;
    if !call.replayed {
        begins(call.once, call.pc);
    }
    // SAFETY: what the program gave.
    unsafe { (call.initialiser)() };
    if !call.replayed {
        ends(call.once, call.pc);
    }
}

/// An exception or a cancellation leaves the initialiser, before the C library knows.
unsafe extern "C" fn initialiser_is_left() {
    let Some(call) = current() else { return };
    if let Some(thread) = attach::current() {
        thread.once = call.outer;
    }
    failed(call.once);
    if call.replayed {
        control::once::failed(call.once as *mut c_void, call.pc);
    } else {
        ends(call.once, call.pc);
    }
}

// The personality of the frame of `run`: tells `initialiser_is_left` when the stack is unwound
// through it. The second argument has bit 1 in that phase; 8 is `_URC_CONTINUE_UNWIND`.
core::arch::global_asm!(
    ".text",
    ".globl norns_once_personality",
    ".hidden norns_once_personality",
    ".type norns_once_personality, @function",
    "norns_once_personality:",
    "test sil, 2",
    "je 2f",
    "push rbp",
    "call {left}",
    "pop rbp",
    "2:",
    "mov eax, 8",
    "ret",
    left = sym initialiser_is_left,
);

/// `run_initialiser`, seen when it is left.
#[unsafe(naked)]
unsafe extern "C-unwind" fn run() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, norns_once_personality",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        "call {run}",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        run = sym run_initialiser,
    )
}

const KNOWN: usize = 16;
const OF_UNWINDER: usize = 1 << 63;

/// Callers of `pthread_once` that were looked at, by their address, with `OF_UNWINDER` set for those
/// in the unwinder.
static CALLERS: [AtomicUsize; KNOWN] = [const { AtomicUsize::new(0) }; KNOWN];

/// Whether the caller is the unwinder, whose calls order nothing of the program: how many there are
/// depends on the frames between a `throw` and its `catch`, and those of a replay are others.
fn is_of_unwinder(pc: usize) -> bool {
    let place = &CALLERS[(pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) % KNOWN];
    let known = place.load(Ordering::Relaxed);
    if known & !OF_UNWINDER == pc {
        return known & OF_UNWINDER != 0;
    }
    let mut information = [core::ptr::null::<u8>(); 4];
    // SAFETY: the C library fills in a `Dl_info`: four words, the first one the name of the file.
    let found = unsafe { sys::dladdr(pc as *const c_void, information.as_mut_ptr().cast()) } != 0;
    let name: &[u8] = if found && !information[0].is_null() {
        // SAFETY: a C string that lives as long as the file is loaded.
        unsafe { text(information[0]) }
    } else {
        &[]
    };
    let wanted = b"libgcc_s.so";
    let is = name
        .windows(wanted.len())
        .any(|part| part.iter().eq(wanted));
    place.store(if is { pc | OF_UNWINDER } else { pc }, Ordering::Relaxed);
    is
}

/// The same in a guarded run, whose threads are not attached.
struct GuardedCall {
    initialiser: Initialiser,
    end: Operation,
}

unsafe extern "C-unwind" fn run_guarded() {
    let call = guard::once() as *const GuardedCall;
    // SAFETY: `with_once` set it to a local of a frame that is still below.
    unsafe { ((*call).initialiser)() };
    // SAFETY: as above.
    unsafe { (*call).end.before() };
}

unsafe fn with_once(once: Once, initialiser: Initialiser, pc: usize, real: impl Fn(Initialiser)) {
    if is_guarded() {
        let call = GuardedCall {
            initialiser,
            end: Operation::new(Code::OnceEnd, object::ONCE, once as usize, pc),
        };
        // An exception or a cancellation leaves the call behind, which is used by none that follows.
        let outer = guard::replace_once(&raw const call as usize);
        real(run_guarded);
        guard::replace_once(outer);
        return Operation::new(Code::OncePass, object::ONCE, once as usize, pc)
            .after(Code::OncePass);
    }
    let thread = if is_off() || is_of_unwinder(pc) {
        None
    } else {
        attach::current()
    };
    let Some(thread) = thread else {
        return real(initialiser);
    };
    let mut call = Call {
        once: once as usize,
        initialiser,
        pc,
        ran: false,
        replayed: false,
        outer: thread.once,
    };
    if is_controlled() {
        // SAFETY: the program passed `once` to `pthread_once` or `call_once`.
        match unsafe { control::once::begin(once, |word| word == 2, false, pc) } {
            Some(control::once::Call::Pass) => return,
            Some(control::once::Call::Run) => {
                call.replayed = true;
                thread.once = &raw mut call;
                // SAFETY: `thread.once` is the call.
                unsafe { run() };
                thread.once = call.outer;
                control::once::end(once, pc, || {
                    // SAFETY: the word of a once, which the C library sets to 2 when it is done.
                    unsafe { once.cast::<c_int>().write_volatile(2) };
                });
                return;
            }
            None => {}
        }
    }
    let pass = Operation::new(Code::OncePass, object::ONCE, once as usize, pc);
    pass.before();
    thread.once = &raw mut call;
    real(run);
    thread.once = call.outer;
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
            begins(guard as usize, pc);
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
        ends(guard as usize, pc);
        // Compiled code looks at the first byte, with an acquire load, before it calls us.
        Operation::new(Code::Atomic, atomic_detail(0, STORE, RELEASE), guard as usize, pc)
            .after(Code::Atomic);
        real_call::__cxa_guard_release(guard);
    }

    fn __cxa_guard_abort(guard: *mut u8) |pc| {
        failed(guard as usize);
        if is_controlled() && control::is_replaying() {
            control::once::failed(guard.cast(), pc);
        } else {
            ends(guard as usize, pc);
        }
        real_call::__cxa_guard_abort(guard);
    }
}
