//! The library that is linked into the program, or preloaded: records, replays, detects.
//!
//! It implements the interface that gcc and clang instrument code for with `-fsanitize=thread`
//! and interposes the synchronisation functions of the C library. Rules for all code here:
//!
//! - nothing in a hook allocates, or calls what this library interposes;
//! - a program must behave as without us: where we cannot go on, we stop recording, not the program;
//! - `mode` decides once a run what the hooks do; `operation` is the seam between the interposed
//!   functions and the modes.
//!
//! x86-64 Linux with glibc only.
#![cfg_attr(not(test), no_std)]
// Loops of ours must not become calls of `memset` and `memcpy`: this library interposes them.
#![no_builtins]
// Tests leave the interposed functions out: what only these use is not dead.
#![cfg_attr(test, allow(dead_code))]

mod annotations;
mod atomics;
mod attach;
mod channels;
#[cfg(test)]
mod concurrent;
mod control;
mod detect;
mod errno;
mod fast;
mod files;
mod guard;
mod hooks;
mod inputs;
mod interpose;
mod lock;
#[cfg(not(test))]
mod memory;
mod mode;
mod operation;
mod outputs;
mod real;
mod record;
mod rest;
mod sites;
mod sys;
mod thread;
mod tls;
mod track;

use norns_wire::{self as wire, schedule};

#[cfg(not(test))]
#[used]
static EXPORTS: &[unsafe extern "C" fn()] = &norns_rt_exports::ALL;

use real::{interpose, real, register_behind};

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    sys::fatal(
        b"norns: the runtime found itself in a state that it does not know; please report this\n",
    )
}

// The personality of Rust code. Exceptions and cancellations of the program pass through our
// frames, which have nothing to do then: `_URC_CONTINUE_UNWIND`. The symbol must not be seen by a
// program that has its own.
#[cfg(not(test))]
core::arch::global_asm!(
    ".text",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, @function",
    "rust_eh_personality:",
    "mov eax, 8",
    "ret",
);
