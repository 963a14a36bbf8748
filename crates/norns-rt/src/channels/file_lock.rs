//! Locks on files, as far as they order threads.
//!
//! A lock belongs to an open file: whoever locks it comes after all that unlocked the file through
//! other open files. One number of a descriptor stands for one open file, until it is closed, which
//! unlocks it as well.

use core::sync::atomic::{AtomicBool, Ordering};

use super::{Key, descriptor, kind, receive_each, send, watching};

/// Descriptors from this one on are not told apart, nor those that were closed.
const KNOWN: u64 = 64;

/// Some file has been locked.
static USED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Lock,
    Unlock,
    Neither,
}

/// The unlocks of one file through one descriptor.
fn unlocks(file: (u64, u64), descriptor: u64) -> Key {
    let identity = file.0 ^ file.1.rotate_left(32);
    Key::new(kind::FILE_LOCK, identity, descriptor.min(KNOWN))
}

/// Locks or unlocks an open file with `call`, which returns 0 if it did.
pub fn changing(file: i32, act: Act, pc: usize, call: impl FnOnce() -> i32) -> i32 {
    if act == Act::Neither || !watching() {
        return call();
    }
    let Some(locked) = descriptor::identity(file) else {
        return call();
    };
    USED.store(true, Ordering::Relaxed);
    let own = file as u64;
    if act == Act::Unlock {
        send(unlocks(locked, own), pc);
        return call();
    }
    let result = call();
    if result == 0 {
        let others = (0..=KNOWN).filter(|&other| other != own || own >= KNOWN);
        receive_each(others.map(|other| unlocks(locked, other)), pc);
    }
    result
}

/// A file is about to be closed.
pub fn closing(file: i32, pc: usize) {
    if USED.load(Ordering::Relaxed)
        && let Some(locked) = descriptor::identity(file)
    {
        send(unlocks(locked, KNOWN), pc);
    }
}
