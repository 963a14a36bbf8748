//! Atomic reads that a polling loop repeats.
//!
//! A loop that waits for an atomic variable can make millions of reads that all see the same write, and
//! would fill the recording. Such a read orders nothing that the one before it did not order. So once a
//! thread has made `ENOUGH` of them in a row, further ones are not logged until one of them sees another
//! write, or the thread does anything else that is ordered.
//!
//! The same write is seen when no write of the program went to the variable, or to another one with the
//! same lock (`atomics`), and the value is the same: writes of code without hooks are known by that alone.
//! A loop over more variables than `VARIABLES` is logged as it runs, and so is one that gives up after at
//! most `ENOUGH` reads. A replay does not follow one that gives up later.

/// How many reads in a row are logged.
const ENOUGH: u32 = 10_000;
/// How many different reads a loop may have.
const VARIABLES: usize = 8;

/// One atomic read, and which write it saw.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Read {
    pub pc: usize,
    pub address: usize,
    /// Its size, kind and order.
    pub detail: u8,
    /// How many writes came before it to variables with the same lock.
    pub writes: u64,
    pub value: u64,
}

/// The last reads of a thread. All zero bytes are those of one that has not made any.
#[repr(C)]
pub struct Polls {
    /// The number of the last of them that was logged. If the last event of the thread has another one,
    /// it has done something else since.
    last: u64,
    /// How many in a row have seen what they had seen before.
    repeated: u32,
    reads: [Read; VARIABLES],
}

impl Polls {
    /// Whether this read need not be logged; `last` is the number of the thread's last event.
    pub fn repeats(&mut self, read: Read, last: u64) -> bool {
        if self.last != last {
            self.repeated = 0;
        }
        let hash = (read.pc ^ read.address.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let before = &mut self.reads[(hash >> 32) % VARIABLES];
        if *before == read {
            self.repeated = self.repeated.saturating_add(1);
        } else {
            *before = read;
            self.repeated = 0;
        }
        self.repeated > ENOUGH
    }

    /// The read was logged under this number.
    pub fn logged(&mut self, number: u64) {
        self.last = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Read = Read {
        pc: 0,
        address: 0,
        detail: 0,
        writes: 0,
        value: 0,
    };

    fn read(pc: usize, writes: u64) -> Read {
        Read {
            pc,
            address: 0x1000,
            writes,
            ..NONE
        }
    }

    /// How many of these reads are logged. `between` is how many other events of the thread come between
    /// two of them.
    fn logged(reads: impl Iterator<Item = Read>, between: u64) -> u32 {
        let mut polls = Polls {
            last: 0,
            repeated: 0,
            reads: [NONE; VARIABLES],
        };
        let (mut number, mut logged) = (0, 0);
        for read in reads {
            number += between;
            if !polls.repeats(read, number) {
                number += 1;
                logged += 1;
                polls.logged(number);
            }
        }
        logged
    }

    #[test]
    fn reads_that_see_the_same_write_are_logged_for_a_while() {
        let reads = || (0..3 * ENOUGH as usize).map(|_| read(7, 1));
        assert_eq!(logged(reads(), 0), ENOUGH + 1);
        assert_eq!(logged(reads(), 1), 3 * ENOUGH, "the thread does more");
        let two = (0..3 * ENOUGH as usize).map(|i| read(7 + i % 2, 1));
        assert_eq!(logged(two, 0), ENOUGH + 2);
    }

    #[test]
    fn a_read_that_sees_another_write_is_logged() {
        let writes = (0..3 * ENOUGH).map(|i| read(7, u64::from(i)));
        assert_eq!(logged(writes, 0), 3 * ENOUGH);
        let last = (0..2 * ENOUGH).map(|i| read(7, u64::from(i / (2 * ENOUGH - 1))));
        assert_eq!(logged(last, 0), ENOUGH + 2);
    }
}
