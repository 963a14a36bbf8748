//! What the annotations of a program say of its own locks, to see when they contradict each other.
//!
//! The locks of the C library are not here: they cannot be taken twice.

use crate::lock::Lock;

const ROOM: usize = 256;

/// A lock that is held.
#[derive(Clone, Copy)]
struct Held {
    address: usize,
    /// The handle of the thread that holds it for writing; 0: nobody.
    writer: usize,
    readers: u32,
}

/// Locks that find no room are not followed.
static LOCKS: Lock<[Option<Held>; ROOM]> = Lock::new([None; ROOM]);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Read,
    Write,
}

fn change(address: usize, act: impl FnOnce(&mut Held) -> bool) -> bool {
    LOCKS.with(|locks| {
        let is_here = |held: &Option<Held>| held.is_some_and(|held| held.address == address);
        let known = locks.iter().position(is_here);
        let Some(at) = known.or_else(|| locks.iter().position(Option::is_none)) else {
            return true;
        };
        let mut held = locks[at % ROOM].unwrap_or(Held {
            address,
            writer: 0,
            readers: 0,
        });
        let is_right = act(&mut held);
        let is_held = held.writer != 0 || held.readers > 0;
        locks[at % ROOM] = is_held.then_some(held);
        is_right
    })
}

/// The thread says that it has taken the lock. Whether the lock was free for it.
pub fn acquire(address: usize, way: Way, thread: usize) -> bool {
    change(address, |held| {
        let is_free = held.writer == 0 && (way == Way::Read || held.readers == 0);
        match way {
            Way::Read => held.readers += 1,
            Way::Write => held.writer = thread,
        }
        is_free
    })
}

/// The thread says that it has released the lock. Whether it held the lock in that way.
pub fn release(address: usize, way: Way, thread: usize) -> bool {
    change(address, |held| match way {
        Way::Read => {
            let is_held = held.readers > 0;
            held.readers = held.readers.saturating_sub(1);
            is_held
        }
        Way::Write => core::mem::take(&mut held.writer) == thread,
    })
}

/// The lock is created or destroyed.
pub fn forget(address: usize) {
    change(address, |held| {
        (held.writer, held.readers) = (0, 0);
        true
    });
}

/// In the child process after a fork: its locks are those of its parent.
pub fn forked() {
    LOCKS.force(|_| {});
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_taken_by_one_writer_or_by_readers() {
        let (lock, me, other) = (0x1000, 1, 2);
        assert!(acquire(lock, Way::Read, me) && acquire(lock, Way::Read, other));
        assert!(!acquire(lock, Way::Write, me));
        forget(lock);
        assert!(acquire(lock, Way::Write, me));
        assert!(!acquire(lock, Way::Read, me));
        assert!(!release(lock, Way::Write, other));
        assert!(release(lock, Way::Read, me));
        assert!(!release(lock, Way::Read, me) && !release(lock, Way::Write, me));
        assert!(acquire(lock, Way::Write, other) && release(lock, Way::Write, other));
    }
}
