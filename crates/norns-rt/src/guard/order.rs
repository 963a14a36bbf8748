//! What is ordered behind one access, on demand.
//!
//! A race detector keeps a vector clock for every thread and object. With a single access of interest, the clock of
//! everything shrinks to one component, and that to one bit: whether it has heard of the access, by a chain of
//! synchronisation that begins behind it. So a thread has a `Level`, and so has every object that a thread with a level
//! has released; acquiring takes the greater of both. This is section 3.3.2 of Kasikci (2015), whose vector clocks
//! decide no more. Relaxed atomics and fences follow C11, as in tsan11 (Lidbury and Donaldson 2017), with one
//! difference: a store does not take away what earlier ones have released, which can only hide a race.
//!
//! `Perhaps` is for what may order and may not, such as a pipe: no race is concluded behind it, and no order.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is known about the order of something behind the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing that was observed orders it.
    Free = 0,
    Perhaps = 1,
    Behind = 2,
}

impl Level {
    fn of(bits: u64) -> Self {
        match bits {
            0 => Level::Free,
            1 => Level::Perhaps,
            _ => Level::Behind,
        }
    }
}

/// What stands for the kernel, to which threads give and from which they take.
pub const KERNEL: usize = 8;

/// The number of an observation: levels of another one are `Free`.
pub type Number = u32;

const SLOTS: usize = 1 << 13;
/// How far from its home an object is looked for.
const REACH: usize = 64;
const ADDRESS_BITS: u32 = 48;
const NUMBER_BITS: u32 = 14;

/// The levels of objects, in words of address, observation and level. A word of another observation is empty,
/// so that nothing has to be cleared until the numbers begin anew.
pub struct Table {
    slots: [AtomicU64; SLOTS],
}

impl Table {
    pub const fn new() -> Self {
        Table {
            slots: [const { AtomicU64::new(0) }; SLOTS],
        }
    }

    /// Empties the table before the first observation whose number, as far as it is kept, was used before.
    /// Only between observations.
    pub fn prepare(&self, number: Number) {
        if kept(number) == 0 {
            for slot in &self.slots {
                slot.store(0, Relaxed);
            }
        }
    }

    /// Raises the level of an object. False when there is no room for it.
    pub fn raise(&self, number: Number, object: usize, level: Level) -> bool {
        if level == Level::Free {
            return true;
        }
        let key = key(number, object);
        let wanted = key | level as u64;
        for slot in self.places(object) {
            loop {
                let word = slot.load(Relaxed);
                let is_ours = word >> 2 == key >> 2;
                if is_ours && word >= wanted {
                    return true;
                }
                if !is_ours && is_of(word, number) {
                    break;
                }
                let put = slot.compare_exchange(word, wanted, Relaxed, Relaxed);
                if put.is_ok() {
                    return true;
                }
            }
        }
        false
    }

    pub fn level(&self, number: Number, object: usize) -> Level {
        let key = key(number, object);
        for slot in self.places(object) {
            let word = slot.load(Relaxed);
            if word >> 2 == key >> 2 {
                return Level::of(word & 3);
            }
            if !is_of(word, number) {
                break;
            }
        }
        Level::Free
    }

    fn places(&self, object: usize) -> impl Iterator<Item = &AtomicU64> {
        let home = (object >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 13);
        (0..REACH).map(move |step| &self.slots[(home + step) % SLOTS])
    }
}

fn kept(number: Number) -> u64 {
    u64::from(number) & ((1 << NUMBER_BITS) - 1)
}

fn key(number: Number, object: usize) -> u64 {
    let address = object as u64 & ((1 << ADDRESS_BITS) - 1);
    address << (NUMBER_BITS + 2) | kept(number) << 2
}

fn is_of(word: u64, number: Number) -> bool {
    word & 3 != 0 && word >> 2 & ((1 << NUMBER_BITS) - 1) == kept(number)
}

/// What one thread knows in the observation with this number. Only the thread itself uses it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Known {
    pub number: Number,
    pub level: Level,
    /// What relaxed stores publish since the last release fence.
    published: Level,
    /// What relaxed loads have seen, which the next acquire fence learns.
    seen: Level,
}

/// What an operation of the program's own code does; `guarded.hpp` has the same bits.
pub mod does {
    pub const LOADS: u64 = 1;
    pub const STORES: u64 = 2;
    pub const FENCE: u64 = 4;
    pub const ACQUIRES: u64 = 8;
    pub const RELEASES: u64 = 16;
    pub const PERHAPS: u64 = 32;
    pub const ANYTHING: u64 = 64;
}

/// What an operation leads to, beyond what this module keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// From here on any thread may be ordered.
    AllPerhaps,
    /// There was no room for what was released.
    NoRoom,
}

impl Known {
    /// Of no observation.
    pub const UNKNOWN: Known = Known {
        number: 0,
        level: Level::Free,
        published: Level::Free,
        seen: Level::Free,
    };

    pub fn new(number: Number, level: Level) -> Self {
        Known {
            number,
            level,
            ..Known::UNKNOWN
        }
    }

    pub fn acquire(&mut self, table: &Table, object: usize) {
        self.level = self.level.max(table.level(self.number, object));
    }

    pub fn release(&self, table: &Table, object: usize) -> Then {
        match table.raise(self.number, object, self.level) {
            true => Then::Nothing,
            false => Then::NoRoom,
        }
    }

    /// Before a call that may give something to the kernel.
    pub fn gives(&self, table: &Table) {
        table.raise(self.number, KERNEL, self.level.min(Level::Perhaps));
    }

    /// After a call that may have taken something from it.
    pub fn takes(&mut self, table: &Table) {
        self.acquire(table, KERNEL);
    }

    /// An atomic operation, a fence, or something that may be one, in the bits of `does`: a part that releases is told
    /// before the operation, and one that acquires behind it.
    pub fn operate(&mut self, table: &Table, object: usize, what: u64) -> Then {
        let is = |bit: u64| what & bit != 0;
        let perhaps = is(does::PERHAPS);
        if is(does::FENCE) {
            if is(does::RELEASES) {
                self.published = self.level;
            }
            if is(does::ACQUIRES) {
                self.level = self.level.max(self.seen);
            }
            return Then::Nothing;
        }
        if is(does::STORES) {
            if is(does::ANYTHING) {
                return match self.level {
                    Level::Free => Then::Nothing,
                    Level::Perhaps | Level::Behind => Then::AllPerhaps,
                };
            }
            let level = match (perhaps, is(does::RELEASES)) {
                (true, _) => self.level.min(Level::Perhaps),
                (false, true) => self.level,
                (false, false) => self.published,
            };
            if !table.raise(self.number, object, level) {
                return Then::NoRoom;
            }
        }
        if is(does::LOADS) {
            let seen = match is(does::ANYTHING) {
                true => Level::Perhaps,
                false => table.level(self.number, object),
            };
            match (perhaps, is(does::ACQUIRES)) {
                (true, _) => self.level = self.level.max(seen.min(Level::Perhaps)),
                (false, true) => self.level = self.level.max(seen),
                (false, false) => self.seen = self.seen.max(seen),
            }
        }
        Then::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUTEX: usize = 0x7fff_0000_1000;
    const FLAG: usize = 0x5555_0000_2000;

    fn threads(table: &Table) -> [Known; 3] {
        table.prepare(1);
        [Level::Behind, Level::Free, Level::Free].map(|level| Known::new(1, level))
    }

    #[test]
    fn a_chain_of_releases_and_acquisitions_orders() {
        let table = Table::new();
        let [first, mut second, mut third] = threads(&table);
        second.release(&table, MUTEX + 8);
        third.acquire(&table, MUTEX + 8);
        assert_eq!(third.level, Level::Free, "nothing was known there");
        first.release(&table, MUTEX);
        second.acquire(&table, MUTEX);
        second.release(&table, MUTEX + 8);
        third.acquire(&table, MUTEX + 8);
        assert_eq!(third.level, Level::Behind);
    }

    #[test]
    fn another_observation_begins_without_levels() {
        let table = Table::new();
        let [first, ..] = threads(&table);
        first.release(&table, MUTEX);
        assert_eq!(table.level(1, MUTEX), Level::Behind);
        assert_eq!(table.level(2, MUTEX), Level::Free);
        let again = 1 << NUMBER_BITS;
        table.prepare(again);
        assert_eq!(table.level(again + 1, MUTEX), Level::Free);
    }

    #[test]
    fn the_kernel_orders_perhaps() {
        let table = Table::new();
        let [first, mut second, _] = threads(&table);
        second.takes(&table);
        assert_eq!(second.level, Level::Free);
        first.gives(&table);
        second.takes(&table);
        assert_eq!(second.level, Level::Perhaps);
    }

    #[test]
    fn relaxed_operations_order_with_fences_only() {
        let table = Table::new();
        let [mut first, mut second, _] = threads(&table);
        first.operate(&table, FLAG, does::STORES);
        second.operate(&table, FLAG, does::LOADS | does::ACQUIRES);
        assert_eq!(second.level, Level::Free, "the store was relaxed");
        first.operate(&table, 0, does::FENCE | does::RELEASES);
        first.operate(&table, FLAG, does::STORES);
        second.operate(&table, FLAG, does::LOADS);
        assert_eq!(second.level, Level::Free, "the load was relaxed");
        second.operate(&table, 0, does::FENCE | does::ACQUIRES);
        assert_eq!(second.level, Level::Behind);
    }

    #[test]
    fn volatile_flags_polled_variables_and_assembler_order_perhaps() {
        let table = Table::new();
        let [mut first, mut second, mut third] = threads(&table);
        first.operate(&table, FLAG, does::STORES | does::PERHAPS);
        second.operate(&table, FLAG, does::LOADS | does::PERHAPS);
        assert_eq!(second.level, Level::Perhaps);
        third.operate(&table, 0, does::LOADS | does::PERHAPS | does::ANYTHING);
        assert_eq!(third.level, Level::Perhaps);
        let stores = does::STORES | does::PERHAPS | does::ANYTHING;
        assert_eq!(first.operate(&table, 0, stores), Then::AllPerhaps);
        let mut free = Known::new(1, Level::Free);
        assert_eq!(free.operate(&table, 0, stores), Then::Nothing);
    }

    #[test]
    fn a_full_table_says_so() {
        let table = Table::new();
        let [first, ..] = threads(&table);
        let objects = (0..2 * SLOTS).map(|at| MUTEX + 8 * at);
        let refused = objects.filter(|&object| first.release(&table, object) == Then::NoRoom);
        assert!(refused.count() >= SLOTS, "no more than it has slots");
    }
}
