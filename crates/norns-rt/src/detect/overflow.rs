//! More cells for granules that need more than two.
//!
//! Blocks of six cells come from one reserved range of addresses, so that a link is a 32-bit
//! index. A block belongs to one granule and holds its address: a thread that looks for its own
//! access in it takes no lock, so it must notice when the block has passed to another granule
//! meanwhile. A cell that it then finds either is its own, of this epoch and this granule, or does
//! not match.

use super::cell::Cell;
use super::memory::{Guarded, map_zeroed};
use super::shadow::Granule;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub const CELLS: usize = 6;

#[repr(C, align(64))]
pub struct Block {
    // the address of the granule; 0 while free
    owner: AtomicU64,
    // the next block of the same granule, or of the free ones; 0 at the end
    next: AtomicU32,
    cells: [AtomicU64; CELLS],
}

impl Block {
    /// The first cells of a block that was just taken.
    pub fn fill(&self, first: [Cell; 2]) {
        for (index, cell) in self.cells.iter().enumerate() {
            let value = first.get(index).map_or(0, |cell| cell.0);
            cell.store(value, Ordering::Relaxed);
        }
    }

    pub fn append(&self, next: u32) {
        self.next.store(next, Ordering::Release);
    }
}

struct Free {
    /// The first of the blocks that were given back; 0 for none.
    first: u32,
    /// Blocks from here on were never used.
    fresh: u32,
}

pub struct Blocks {
    // `count` blocks, of which the first is never used
    base: *const Block,
    count: u32,
    free: Guarded<Free>,
}

impl Blocks {
    /// `None` when the kernel refuses even a little address space.
    pub fn new() -> Option<Self> {
        for bits in [28, 24, 20] {
            let count = 1u32 << bits;
            let base = map_zeroed(count as usize * size_of::<Block>()) as *const Block;
            if !base.is_null() {
                return Some(Self {
                    base,
                    count,
                    free: Guarded::new(Free { first: 0, fresh: 1 }),
                });
            }
        }
        None
    }

    pub fn base(&self) -> *const u8 {
        self.base.cast()
    }

    pub fn at(&self, index: u32) -> &Block {
        debug_assert!(index < self.count);
        // SAFETY: indices come from `take`, which gives only those below `count`.
        unsafe { &*self.base.add(index as usize) }
    }

    /// A block for this granule, not linked to any other; `None` when all are in use.
    pub fn take(&self, granule: &Granule) -> Option<u32> {
        let mut free = self.free.lock();
        let index = if free.first != 0 {
            let index = free.first;
            free.first = self.at(index).next.load(Ordering::Relaxed);
            index
        } else if free.fresh < self.count {
            free.fresh += 1;
            free.fresh - 1
        } else {
            return None;
        };
        drop(free);
        let block = self.at(index);
        block.next.store(0, Ordering::Relaxed);
        block.owner.store(address_of(granule), Ordering::Release);
        Some(index)
    }

    /// Takes back a block and all that follow it.
    pub fn give_back(&self, first: u32) {
        let mut last = first;
        loop {
            let block = self.at(last);
            block.owner.store(0, Ordering::Release);
            let next = block.next.load(Ordering::Relaxed);
            if next == 0 {
                break;
            }
            last = next;
        }
        let mut free = self.free.lock();
        self.at(last).next.store(free.first, Ordering::Relaxed);
        free.first = first;
    }

    /// Whether a cell of the chain that begins at `first` makes `new` redundant.
    pub fn knows(&self, granule: &Granule, first: u32, new: Cell) -> bool {
        let mut index = first;
        while index != 0 && index < self.count {
            let block = self.at(index);
            let found = block
                .cells
                .iter()
                .any(|cell| Cell(cell.load(Ordering::Acquire)).covers(new));
            let next = block.next.load(Ordering::Acquire);
            if block.owner.load(Ordering::Relaxed) != address_of(granule) {
                return false;
            }
            if found {
                return true;
            }
            index = next;
        }
        false
    }

    /// The cell at a position, counted from 1 through the chain. `block` is the block of the last
    /// position that was asked for, and is moved forward. `None` behind the end.
    pub fn cell<'a>(&'a self, block: &mut &'a Block, place: usize) -> Option<&'a AtomicU64> {
        let index = (place - 1) % CELLS;
        if index == 0 && place > 1 {
            let next = block.next.load(Ordering::Relaxed);
            if next == 0 {
                return None;
            }
            *block = self.at(next);
        }
        Some(&block.cells[index])
    }
}

fn address_of(granule: &Granule) -> u64 {
    core::ptr::from_ref(granule) as u64
}
