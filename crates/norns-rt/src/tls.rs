//! The two thread-local words of the runtime.
//!
//! They are in the initial-exec model, written in assembly because stable Rust has no such
//! attribute: one load from the thread control block, no call.
//!
//! `fast` is what the plain hooks need of this thread, or nothing when they must take the slow
//! way: no thread was created yet, this thread is not attached, the mode wants every access.
//! `thread` is what every mode knows about this thread; null before it is attached, `GONE` after
//! its end.

use core::arch::{asm, global_asm};

use crate::fast;
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

/// Stands for a thread that has ended for the runtime, but still runs inside the C library.
pub const GONE: *mut Thread = core::ptr::without_provenance_mut(1);

/// What the plain hooks find: a block, and for which mode.
#[derive(Clone, Copy)]
pub struct Fast(usize);

impl Fast {
    pub const NONE: Self = Self(0);
    const DETECT: usize = 1;

    pub fn recorder(thread: *mut Thread) -> Self {
        Self(thread as usize)
    }

    pub fn detector(thread: *mut Thread) -> Self {
        Self(thread as usize | Self::DETECT)
    }

    /// The block, when the mode is record; else null.
    #[inline(always)]
    pub fn as_recorder(self) -> *mut Thread {
        if self.0 & Self::DETECT == 0 {
            self.0 as *mut Thread
        } else {
            core::ptr::null_mut()
        }
    }

    #[inline(always)]
    pub fn is_detector(self) -> bool {
        self.0 & Self::DETECT != 0
    }

    /// The block in whichever mode, or null.
    #[inline(always)]
    pub fn block(self) -> *mut Thread {
        (self.0 & !Self::DETECT) as *mut Thread
    }
}

macro_rules! word {
    ($get:ident $set:ident $symbol:literal) => {
        #[inline(always)]
        fn $get() -> usize {
            let value: usize;
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

        fn $set(value: usize) {
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

word! { fast_word set_fast_word "norns_tls_fast" }
word! { thread_word set_thread_word "norns_tls_thread" }

#[inline(always)]
pub fn fast() -> Fast {
    Fast(fast_word())
}

pub fn set_fast(value: Fast) {
    set_fast_word(value.0);
    fast::set_word(value.0);
}

#[inline(always)]
pub fn thread() -> *mut Thread {
    thread_word() as *mut Thread
}

pub fn set_thread(thread: *mut Thread) {
    set_thread_word(thread as usize);
}
