//! What a guarded run keeps of the running thread, in thread-local memory: no thread has to be attached, and one
//! that the runtime has not seen begin is there all the same.

use core::arch::{asm, global_asm};

use super::order::{Known, Level};
use crate::thread;

/// How many locks a thread can hold and still be made to wait.
pub const LOCKS: usize = 15;

/// A lock, and whether others can have it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub lock: usize,
    pub is_shared: bool,
}

impl Hold {
    pub const NONE: Hold = Hold {
        lock: 0,
        is_shared: false,
    };

    /// Whether a thread that wants one of them has to wait for a thread that has the other.
    pub fn excludes(self, other: Hold) -> bool {
        self.lock == other.lock && !(self.is_shared && other.is_shared)
    }

    /// In one word: locks are aligned.
    pub fn packed(self) -> usize {
        self.lock | usize::from(self.is_shared)
    }

    pub fn unpacked(word: usize) -> Self {
        Hold {
            lock: word & !1,
            is_shared: word & 1 != 0,
        }
    }
}

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
    lock_count: u32,
    /// Locks for which there was no room.
    unknown_locks: u32,
    pub locks: [Hold; LOCKS],
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
        self.forgets_locks();
        self.known = Known::new(0, Level::Free);
    }

    pub fn takes(&mut self, hold: Hold) {
        match self.locks.get_mut(self.lock_count as usize) {
            Some(room) => {
                *room = hold;
                self.lock_count += 1;
            }
            None => self.unknown_locks += 1,
        }
    }

    /// How it held the lock; `None` if that is not known.
    pub fn releases(&mut self, lock: usize) -> Option<Hold> {
        let kept = &mut self.locks[..self.lock_count as usize];
        let Some(at) = kept.iter().rposition(|held| held.lock == lock) else {
            self.unknown_locks = self.unknown_locks.saturating_sub(1);
            return None;
        };
        let hold = kept[at];
        kept[at] = kept[kept.len() - 1];
        self.lock_count -= 1;
        Some(hold)
    }

    /// From here on nothing is known of its locks.
    pub fn forgets_locks(&mut self) {
        (self.lock_count, self.unknown_locks) = (0, 0);
    }

    /// The locks that it holds; `None` if they are too many to know.
    pub fn held(&self) -> Option<&[Hold]> {
        (self.unknown_locks == 0).then_some(&self.locks[..self.lock_count as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn hold(lock: usize, is_shared: bool) -> Hold {
        Hold { lock, is_shared }
    }

    #[test]
    fn readers_exclude_writers_only() {
        let (reader, writer) = (hold(0x1000, true), hold(0x1000, false));
        assert!(!reader.excludes(reader));
        assert!(reader.excludes(writer) && writer.excludes(reader) && writer.excludes(writer));
        assert!(!writer.excludes(hold(0x1008, false)));
        for it in [reader, writer] {
            assert_eq!(Hold::unpacked(it.packed()), it);
        }
    }

    #[test]
    fn locks_that_are_too_many_are_counted() {
        // SAFETY: all-zero bytes are valid.
        let mut own: Own = unsafe { core::mem::zeroed() };
        for lock in 1..=LOCKS + 2 {
            own.takes(hold(8 * lock, false));
        }
        assert_eq!(own.held(), None);
        assert_eq!(own.releases(8 * 3), Some(hold(8 * 3, false)));
        assert_eq!(own.releases(8 * (LOCKS + 1)), None);
        assert_eq!(own.held(), None);
        assert_eq!(own.releases(8 * (LOCKS + 2)), None);
        assert_eq!(own.held().map(<[Hold]>::len), Some(LOCKS - 1));
    }
}
