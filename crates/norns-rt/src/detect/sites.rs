//! Program counters as 22-bit numbers, so that a shadow cell has room for one.
//!
//! An open-addressed table that only grows: the number is the index in the table. Neighbouring
//! places are neighbours in the table, so that the pages in use grow with the code that ran. When a
//! program has more places than the table holds, the rest share number 0, "unknown place".

use super::memory::map_zeroed;
use core::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site(pub u32);

const BITS: u32 = 22;
const LONGEST_PROBE: usize = 4096;

pub struct Sites {
    // 1 << BITS program counters, 0 where free; entry 0 stays free
    table: *mut AtomicUsize,
}

// SAFETY: the entries are atomic, and an entry once set never changes.
unsafe impl Sync for Sites {}
// SAFETY: as above.
unsafe impl Send for Sites {}

impl Sites {
    pub fn new() -> Option<Self> {
        let table = map_zeroed(8 << BITS) as *mut AtomicUsize;
        (!table.is_null()).then_some(Self { table })
    }

    fn entry(&self, index: usize) -> &AtomicUsize {
        // SAFETY: callers mask the index to the size of the table.
        unsafe { &*self.table.add(index) }
    }

    #[inline]
    pub fn of(&self, pc: usize) -> Site {
        let first = Self::first(pc);
        // Entry 0 is never used, so an index of 0 never matches a place.
        if self.entry(first).load(Ordering::Relaxed) == pc {
            return Site(first as u32);
        }
        self.find(pc, first)
    }

    /// Where to look first. Return addresses are at least five bytes apart, so their lowest two bits
    /// are left out.
    #[inline]
    fn first(pc: usize) -> usize {
        (pc >> 2).wrapping_add((pc >> (2 + BITS)).wrapping_mul(0x9e37_79b9)) & ((1 << BITS) - 1)
    }

    #[inline(never)]
    fn find(&self, pc: usize, mut index: usize) -> Site {
        for _ in 0..LONGEST_PROBE {
            if index != 0 {
                let entry = self.entry(index);
                let mut seen = entry.load(Ordering::Relaxed);
                if seen == 0 {
                    let claim = entry.compare_exchange(0, pc, Ordering::Relaxed, Ordering::Relaxed);
                    seen = claim.map_or_else(|theirs| theirs, |_| pc);
                }
                if seen == pc {
                    return Site(index as u32);
                }
            }
            index = (index + 1) & ((1 << BITS) - 1);
        }
        Site(0)
    }

    /// 0 for the unknown place.
    pub fn pc(&self, site: Site) -> usize {
        self.entry(site.0 as usize & ((1 << BITS) - 1))
            .load(Ordering::Relaxed)
    }
}
