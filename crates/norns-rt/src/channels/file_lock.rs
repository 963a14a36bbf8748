//! Locks on files, as far as they order threads.
//!
//! A lock belongs to an open file: whoever locks it comes after all that unlocked the file through
//! other open files, except that those who share a lock do not wait for each other. One number of a
//! descriptor stands for one open file, until it is closed, which unlocks it as well. Shared locks of parts
//! of a file (`fcntl`) count as exclusive ones.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::{Key, descriptor, kind, receive_each, send, watching};

/// Descriptors from this one on are not told apart, nor those that were closed.
const KNOWN: u64 = 64;

/// Some file has been locked.
static USED: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Lock,
    /// As long as others only share it as well.
    Share,
    Unlock,
    Neither,
}

/// How each descriptor has locked its file, of these; 0 if that is not known.
static HELD: [AtomicU8; KNOWN as usize] = [const { AtomicU8::new(0) }; KNOWN as usize];
const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 2;
const UNLOCKED: u8 = 3;
/// Added to these if the descriptor has never had the file for itself.
const ONLY_SHARED: u8 = 4;

/// Notes that a descriptor has its file locked in another way. Returns how it had it.
fn change(descriptor: u64, change: impl Fn(u8) -> u8) -> u8 {
    let Some(held) = HELD.get(descriptor as usize) else {
        return EXCLUSIVE;
    };
    let before = held.load(Ordering::Relaxed);
    held.store(change(before), Ordering::Relaxed);
    before
}

/// The unlocks of one file through one descriptor that had it for itself.
fn unlocks(file: (u64, u64), descriptor: u64) -> Key {
    let identity = file.0 ^ file.1.rotate_left(32);
    Key::new(kind::FILE_LOCK, identity, descriptor.min(KNOWN))
}

/// The same for one that shared it.
fn shared_unlocks(file: (u64, u64), descriptor: u64) -> Key {
    let identity = file.0 ^ file.1.rotate_left(32);
    Key::new(kind::FILE_LOCK, identity, KNOWN + 1 + descriptor.min(KNOWN))
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
    // A change of the lock gives up the one that was held.
    let before = change(own, |before| match before {
        0 if act == Act::Share => UNLOCKED | ONLY_SHARED,
        before => UNLOCKED | before & ONLY_SHARED,
    });
    match before & !ONLY_SHARED {
        SHARED => send(shared_unlocks(locked, own), pc),
        EXCLUSIVE => send(unlocks(locked, own), pc),
        // It was locked through a duplicate of the descriptor, or not at all.
        _ if act == Act::Unlock => send(unlocks(locked, own), pc),
        _ => {}
    }
    let result = call();
    if result == 0 && act != Act::Unlock {
        let is_shared = act == Act::Share;
        change(own, |before| match is_shared {
            true => SHARED | before & ONLY_SHARED,
            false => EXCLUSIVE,
        });
        let others = (0..=KNOWN).filter(|&other| other != own || own >= KNOWN);
        receive_each(others.clone().map(|other| unlocks(locked, other)), pc);
        if !is_shared {
            receive_each(others.map(|other| shared_unlocks(locked, other)), pc);
        }
    }
    result
}

/// A file is about to be closed.
pub fn closing(file: i32, pc: usize) {
    if USED.load(Ordering::Relaxed)
        && let Some(locked) = descriptor::identity(file)
    {
        // The next one with this number is another open file, which waits for this one.
        match change(file as u64, |_| 0) & ONLY_SHARED {
            0 => send(unlocks(locked, KNOWN), pc),
            _ => send(shared_unlocks(locked, KNOWN), pc),
        }
    }
}
