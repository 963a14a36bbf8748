//! What a guarded run keeps of the running thread, in thread-local memory: no thread has to be attached, and one
//! that the runtime has not seen begin is there all the same.

use core::arch::{asm, global_asm};

use super::order::{Known, Level};
use crate::thread;

/// How many locks a thread can hold and still be made to wait.
pub const LOCKS: usize = 15;

/// All-zero bytes are a valid one.
#[repr(C)]
pub struct Own {
    /// The kernel's number; 0 until it is needed.
    id: u32,
    /// The thread runs code of the runtime: signal handlers keep out.
    pub inside: bool,
    /// Which task it has been seen under.
    pub seen: u32,
    pub known: Known,
    /// Hooks that were not yet added to the figures of the run.
    pub hooks: u32,
    /// The call of `pthread_once` that is about to run its initialiser.
    pub once: usize,
    pub lock_count: u32,
    pub locks: [usize; LOCKS],
}

global_asm!(
    ".section .tbss.norns,\"awT\",@nobits",
    ".balign 8",
    ".globl norns_tls_guard",
    ".hidden norns_tls_guard",
    ".type norns_tls_guard, @object",
    ".size norns_tls_guard, {size}",
    "norns_tls_guard:",
    ".zero {size}",
    ".text",
    size = const size_of::<Own>(),
);

/// The running thread's own.
///
/// # Safety
/// The result is used by the running thread, which has no other reference to it: hooks ask once and hand it on,
/// and those of signal handlers see `inside`.
#[inline(always)]
pub unsafe fn own() -> &'static mut Own {
    let address: usize;
    // SAFETY: computes the address of the words of this thread that the assembly above reserves.
    unsafe {
        asm!(
            "mov {address}, qword ptr fs:[0]",
            "add {address}, qword ptr [rip + norns_tls_guard@GOTTPOFF]",
            address = out(reg) address,
            options(nostack, readonly),
        );
    }
    // SAFETY: as above; they are zero at first, which is valid, and the caller promises the rest.
    unsafe { &mut *(address as *mut Own) }
}

/// `pthread_self`.
#[inline(always)]
pub fn handle() -> usize {
    let handle: usize;
    // SAFETY: reads the word of the thread control block that points to itself.
    unsafe { asm!("mov {}, qword ptr fs:[0x10]", out(reg) handle, options(nostack, readonly)) };
    handle
}

impl Own {
    pub fn id(&mut self) -> u32 {
        if self.id == 0 {
            self.id = thread::kernel_id() as u32;
        }
        self.id
    }

    /// In the child process after a fork.
    pub fn forget(&mut self) {
        self.id = 0;
        self.inside = false;
        self.seen = 0;
        self.lock_count = 0;
        self.known = Known::new(0, Level::Free);
    }

    pub fn takes(&mut self, lock: usize) {
        if let Some(room) = self.locks.get_mut(self.lock_count as usize) {
            *room = lock;
        }
        self.lock_count += 1;
    }

    pub fn releases(&mut self, lock: usize) {
        let kept = &mut self.locks[..(self.lock_count as usize).min(LOCKS)];
        if let Some(at) = kept.iter().rposition(|held| *held == lock) {
            kept[at] = kept[kept.len() - 1];
            self.lock_count -= 1;
        }
    }

    /// The locks that it holds; `None` if they are too many to know.
    pub fn held(&self) -> Option<&[usize]> {
        self.locks.get(..self.lock_count as usize)
    }
}
