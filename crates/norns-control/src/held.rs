//! The locks that a thread holds.

const MOST: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
}

/// A lock that a thread holds.
#[derive(Clone, Copy)]
pub struct HeldLock {
    pub address: usize,
    /// Where it was taken.
    pub pc: usize,
    pub mode: Mode,
    /// How often, for recursive mutexes and readers.
    depth: u32,
}

/// In the order in which they were taken. Of more than `MOST` locks at a time the last ones are not
/// known: a deadlock on one of them is reported as a stuck program instead of a cycle.
pub struct HeldLocks {
    locks: [HeldLock; MOST],
    count: usize,
}

impl HeldLocks {
    pub const fn new() -> Self {
        let none = HeldLock {
            address: 0,
            pc: 0,
            mode: Mode::Exclusive,
            depth: 0,
        };
        Self {
            locks: [none; MOST],
            count: 0,
        }
    }

    pub fn iter(&self) -> core::slice::Iter<'_, HeldLock> {
        self.locks[..self.count].iter()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn contains(&self, address: usize) -> bool {
        self.iter().any(|lock| lock.address == address)
    }

    /// Takes a lock, or one more level of it.
    pub fn take(&mut self, address: usize, pc: usize, mode: Mode) {
        let mut locks = self.locks[..self.count].iter_mut();
        if let Some(lock) = locks.find(|lock| lock.address == address) {
            lock.depth = lock.depth.saturating_add(1);
        } else if self.count < MOST {
            self.locks[self.count] = HeldLock {
                address,
                pc,
                mode,
                depth: 1,
            };
            self.count += 1;
        }
    }

    /// Releases one level of a lock; the mode in which it was held, if it was.
    pub fn release(&mut self, address: usize) -> Option<Mode> {
        let index = self.iter().position(|lock| lock.address == address)?;
        let mode = self.locks[index].mode;
        self.locks[index].depth -= 1;
        if self.locks[index].depth == 0 {
            // By hand: `copy_within` would be a call of `memmove`, which the runtime interposes.
            for at in index + 1..self.count {
                self.locks[at - 1] = self.locks[at];
            }
            self.count -= 1;
        }
        Some(mode)
    }
}

impl Default for HeldLocks {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{HeldLocks, MOST, Mode};

    #[test]
    fn every_level_is_released_once() {
        let mut held = HeldLocks::new();
        held.take(1, 0, Mode::Exclusive);
        held.take(2, 0, Mode::Shared);
        held.take(1, 0, Mode::Exclusive);
        assert_eq!(held.release(1), Some(Mode::Exclusive));
        assert!(held.contains(1));
        assert_eq!(held.release(1), Some(Mode::Exclusive));
        assert!(!held.contains(1));
        assert_eq!(held.release(1), None);
        assert_eq!(held.release(2), Some(Mode::Shared));
        assert!(held.is_empty());
    }

    #[test]
    fn locks_beyond_the_table_are_not_known() {
        let mut held = HeldLocks::new();
        (1..=MOST + 1).for_each(|lock| held.take(lock, 0, Mode::Exclusive));
        assert!(held.contains(MOST) && !held.contains(MOST + 1));
        assert_eq!(held.release(MOST + 1), None);
    }
}
