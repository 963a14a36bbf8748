//! System calls that the program makes by their numbers.
//!
//! Those of futexes order threads: who is woken comes after who woke it. A few others are passed to
//! what their functions do. Of the rest it is known that they order nothing, or it is not known
//! (`channels::unknown`).

use core::ffi::{c_int, c_long};

use super::blocking::{POLLIN, POLLOUT, away_unless, on};
use super::buffer;
use crate::channels::signal::{self, Target};
use crate::channels::transfer::{Leaves, receiving, sending};
use crate::channels::{self, Key, kind, unknown};
use crate::inputs::{process_id, served};
use crate::{guard, inputs, interpose, real};

mod real_functions {
    use super::*;

    real! {
        fn ioctl(file: c_int, request: usize, argument: usize) -> c_int;
        fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
    }
}

use real_functions as real_call;

const READ: c_long = 0;
const WRITE: c_long = 1;
const KILL: c_long = 62;
const GETPID: c_long = 39;
const GETPPID: c_long = 110;
const GETTID: c_long = 186;
const TKILL: c_long = 200;
const FUTEX: c_long = 202;
const TGKILL: c_long = 234;
const GETRANDOM: c_long = 318;

/// What a futex call does for others, by its number without flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnFutex {
    Waits,
    Wakes,
    /// Of priority-inheriting locks.
    Locks,
    Other,
}

fn on_futex(act: usize) -> OnFutex {
    match act & 0x7f {
        0 | 9 | 11 => OnFutex::Waits,
        1 | 3 | 4 | 5 | 7 | 10 | 12 => OnFutex::Wakes,
        6 | 8 | 13 => OnFutex::Locks,
        _ => OnFutex::Other,
    }
}

fn futex_key(address: usize) -> Key {
    Key::new(kind::FUTEX, address as u64, 0)
}

/// A futex call on the word at `address`, and perhaps on a second one.
fn on_futex_word(
    act: OnFutex,
    address: usize,
    second: usize,
    pc: usize,
    call: impl FnOnce() -> c_long,
) -> c_long {
    if act == OnFutex::Wakes {
        channels::send(futex_key(address), pc);
        // Who is moved to another word is woken there.
        channels::send(futex_key(second), pc);
    }
    let result = away_unless(!matches!(act, OnFutex::Waits | OnFutex::Locks), call);
    if result == 0 && matches!(act, OnFutex::Waits | OnFutex::Locks) {
        channels::receive_each([futex_key(address), futex_key(second)], pc);
    }
    result
}

unsafe extern "C-unwind" fn implementation(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    pc: usize,
) -> c_long {
    // A wait for a futex may have an absolute time-out, by either clock.
    const WAIT_UNTIL: usize = 9;
    const BY_DAY: usize = 256;
    let own = if number == FUTEX && b & 0x7f == WAIT_UNTIL {
        // SAFETY: the program passed null or a `struct timespec`.
        unsafe { served::deadline(c_int::from(b & BY_DAY == 0), d as *const served::Time) }
    } else {
        None
    };
    let d = own.as_ref().map_or(d, |own| &raw const *own as usize);
    let id = |word: usize| process_id::real(word as c_int) as usize;
    let (a, b) = match number {
        KILL | TKILL => (id(a), b),
        TGKILL => (id(a), id(b)),
        _ => (a, b),
    };
    // SAFETY: the program's own call, passed on with its arguments.
    let call = || unsafe { real_call::syscall(number, a, b, c, d, e, f) };
    match number {
        FUTEX => on_futex_word(on_futex(b), a, e, pc, call),
        READ => {
            let to = b as *const u8;
            // SAFETY: the program passed a buffer of this size.
            let result = unsafe {
                receiving(a as c_int, to, c, Leaves::Nothing, pc, || {
                    on(a as c_int, POLLIN, || call() as isize)
                })
            };
            if c > 0 {
                // SAFETY: the buffer has so many bytes.
                unsafe { inputs::received(a as c_int, result, core::iter::once((to, c))) };
            }
            buffer::received(to, result, c, pc);
            result as c_long
        }
        WRITE => {
            let from = b as *const u64;
            buffer::kernel_reads(from, c, pc);
            // SAFETY: an eventfd is given eight bytes.
            let value = || {
                if c < 8 {
                    0
                } else {
                    unsafe { from.read_unaligned() }
                }
            };
            sending(a as c_int, c, value, pc, || {
                on(a as c_int, POLLOUT, || call() as isize)
            }) as c_long
        }
        GETRANDOM => {
            let result = call();
            // SAFETY: the kernel has just filled in so many bytes.
            unsafe { served::random(a as *mut u8, result as isize) };
            result
        }
        GETPID | GETTID => process_id::asked(call() as c_int).into(),
        GETPPID => process_id::shown(call() as c_int).into(),
        KILL => {
            signal::sends(b as c_int, Target::Process, pc);
            call()
        }
        TKILL => {
            signal::sends(b as c_int, Target::Process, pc);
            call()
        }
        TGKILL => {
            signal::sends(c as c_int, Target::Process, pc);
            call()
        }
        number => {
            let orders_nothing = unknown::orders_nothing(number);
            let result = if orders_nothing {
                call()
            } else {
                guard::through_kernel(call)
            };
            if !orders_nothing {
                unknown::called(number as usize, pc);
            }
            result
        }
    }
}

interpose! {
    // The last argument is in a register whether the program passed it or not.
    fn ioctl(file: c_int, request: usize, argument: usize) -> c_int |pc| {
        let result = real_call::ioctl(file, request, argument);
        if result >= 0 {
            unknown::controlled(file, request, argument, pc);
        }
        result
    }
}

/// All six arguments may be in registers and on the stack, so the return address is put behind them.
#[cfg(not(test))]
mod exported {
    use super::*;

    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    unsafe extern "C-unwind" fn syscall(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> c_long {
        // The seventh argument is above the return address; it may be anything when the system call
        // has fewer.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "push qword ptr [rsp]",
            ".cfi_adjust_cfa_offset 8",
            "push qword ptr [rsp + 16]",
            ".cfi_adjust_cfa_offset 8",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "mov rax, qword ptr [rsp + 8]",
            "mov qword ptr [rsp], rax",
            "mov rax, qword ptr [rsp + 16]",
            "mov qword ptr [rsp + 8], rax",
            "call {implementation}",
            "add rsp, 24",
            ".cfi_adjust_cfa_offset -24",
            "ret",
            ".cfi_endproc",
            implementation = sym implementation,
        )
    }
}
