//! The two thread-local words of the runtime.
//!
//! They are in the initial-exec model, written in assembly because stable Rust has no such
//! attribute: one load from the thread control block, no call.
//!
//! `fast` is the recorder of this thread, or null when a hook must take the slow way: mode is not
//! record, no thread was created yet, this thread is not attached. `thread` is what every mode
//! knows about this thread; null before it is attached, `GONE` after its end.

use core::arch::{asm, global_asm};

use crate::thread::Thread;

global_asm!(
    ".section .tbss.norns,\"awT\",@nobits",
    ".balign 8",
    ".globl norns_tls_fast",
    ".hidden norns_tls_fast",
    ".type norns_tls_fast, @object",
    ".size norns_tls_fast, 8",
    "norns_tls_fast:",
    ".zero 8",
    ".globl norns_tls_thread",
    ".hidden norns_tls_thread",
    ".type norns_tls_thread, @object",
    ".size norns_tls_thread, 8",
    "norns_tls_thread:",
    ".zero 8",
    ".text",
);

/// A thread that has ended: it runs on for a while inside the C library.
pub const GONE: *mut Thread = 1 as *mut Thread;

macro_rules! word {
    ($get:ident $set:ident $symbol:literal) => {
        #[inline(always)]
        pub fn $get() -> *mut Thread {
            let value: *mut Thread;
            // SAFETY: reads the word of this thread that the assembly above reserves.
            unsafe {
                asm!(
                    concat!("mov {value}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov {value}, qword ptr fs:[{value}]",
                    value = out(reg) value,
                    options(nostack, preserves_flags, readonly),
                );
            }
            value
        }

        pub fn $set(value: *mut Thread) {
            // SAFETY: writes the word of this thread that the assembly above reserves.
            unsafe {
                asm!(
                    concat!("mov {offset}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "mov qword ptr fs:[{offset}], {value}",
                    offset = out(reg) _,
                    value = in(reg) value,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

word! { fast set_fast "norns_tls_fast" }
word! { thread set_thread "norns_tls_thread" }
