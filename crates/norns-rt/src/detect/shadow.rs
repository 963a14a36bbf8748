//! Shadow memory: who touched each eight bytes of the program last.
//!
//! Every aligned eight bytes (a granule) have four cells of eight bytes, each one access: thread
//! slot and clock (FastTrack's epoch), which of the bytes, read or write, plain or atomic, and
//! where in the program. The layout is ThreadSanitizer's; unlike it, nothing is ever evicted:
//! when four cells do not suffice (five concurrent readers, say), the last one becomes a link
//! to a block of further cells. A cell goes only when a later access dominates it, that is, when
//! whatever races with the old access also races with the new one.
//!
//! The table has two levels, so that it asks nothing of the program's address-space layout.

use super::memory::{Arena, SpinLock, map_zeroed, zero_pages};
use super::sites::Site;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// One access. From the lowest bit: site 22, mask 8, write 1, atomic 1, clock 22, slot 10.
/// 0 is no access: clocks begin at 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cell(u64);

const SITE_BITS: u32 = 22;
const MASK_SHIFT: u32 = 22;
const WRITE: u64 = 1 << 30;
const ATOMIC: u64 = 1 << 31;
const CLOCK_SHIFT: u32 = 32;
pub const CLOCK_BITS: u32 = 22;
const SLOT_SHIFT: u32 = 54;
const SITE: u64 = (1 << SITE_BITS) - 1;
// A link has every slot and clock bit set: no epoch does, because `Thread` leaves the last clock
// unused. Below them is the index of a block.
const LINK: u64 = u64::MAX << CLOCK_SHIFT;

impl Cell {
    pub const NONE: Self = Self(0);

    pub fn new(slot: u16, clock: u32, mask: u8, kind: Kind, site: Site) -> Self {
        Self(
            u64::from(slot) << SLOT_SHIFT
                | u64::from(clock) << CLOCK_SHIFT
                | u64::from(mask) << MASK_SHIFT
                | kind.bits()
                | u64::from(site.0),
        )
    }

    pub fn slot(self) -> u16 {
        (self.0 >> SLOT_SHIFT) as u16
    }

    pub fn clock(self) -> u32 {
        ((self.0 >> CLOCK_SHIFT) & ((1 << CLOCK_BITS) - 1)) as u32
    }

    pub fn mask(self) -> u8 {
        (self.0 >> MASK_SHIFT) as u8
    }

    pub fn writes(self) -> bool {
        self.0 & WRITE != 0
    }

    pub fn is_atomic(self) -> bool {
        self.0 & ATOMIC != 0
    }

    pub fn site(self) -> Site {
        Site((self.0 & SITE) as u32)
    }

    fn is_link(self) -> bool {
        self.0 & LINK == LINK
    }

    /// The same thread in the same epoch, wherever in the program, did at least as much: nothing
    /// that this access could tell is new.
    #[inline]
    fn makes_redundant(self, new: Cell) -> bool {
        let differ = self.0 ^ new.0;
        differ & (LINK | ATOMIC) == 0
            && !self.mask() & new.mask() == 0
            && (self.writes() || !new.writes())
    }

    /// Whatever races with the old access `self` also races with `new`, which follows it.
    fn is_dominated_by(self, new: Cell) -> bool {
        self.mask() & !new.mask() == 0
            && (new.writes() || !self.writes())
            && (!new.is_atomic() || self.is_atomic())
    }

    fn conflicts_with(self, new: Cell) -> bool {
        self.mask() & new.mask() != 0
            && (self.writes() || new.writes())
            && !(self.is_atomic() && new.is_atomic())
    }
}

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
}

impl Kind {
    fn bits(self) -> u64 {
        match self {
            Kind::Read => 0,
            Kind::Write => WRITE,
            Kind::AtomicRead => ATOMIC,
            Kind::AtomicWrite => ATOMIC | WRITE,
        }
    }
}

const GRANULE_BITS: u32 = 3;
const CELLS: usize = 4;
const CHUNK_BITS: u32 = 24;
const ADDRESS_BITS: u32 = 47;
const DIRECTORY: usize = 1 << (ADDRESS_BITS - CHUNK_BITS);
const CHUNK_BYTES: usize = (1 << (CHUNK_BITS - GRANULE_BITS)) * CELLS * 8;
const STRIPES: usize = 1 << 14;

type Granule = [AtomicU64; CELLS];

/// Further cells of a granule: seven and a link to the next block, or 0.
#[repr(C)]
struct Overflow {
    cells: [AtomicU64; 7],
    next: AtomicU64,
}

pub struct Shadow {
    // DIRECTORY pointers to chunks of CHUNK_BYTES, each null until first touched
    directory: *mut AtomicPtr<Granule>,
    // guards the slow path of the granules that hash to it
    stripes: *mut SpinLock,
}

// SAFETY: both tables are shared by design; cells are atomic and changed under their stripe.
unsafe impl Sync for Shadow {}
// SAFETY: as above.
unsafe impl Send for Shadow {}

impl Shadow {
    pub fn new() -> Option<Self> {
        let directory = map_zeroed(DIRECTORY * 8) as *mut AtomicPtr<Granule>;
        let stripes = map_zeroed(STRIPES * size_of::<SpinLock>()) as *mut SpinLock;
        (!directory.is_null() && !stripes.is_null()).then_some(Self { directory, stripes })
    }

    #[inline]
    fn chunk(&self, address: usize) -> &AtomicPtr<Granule> {
        let index = (address >> CHUNK_BITS) & (DIRECTORY - 1);
        // SAFETY: the index is masked to the size of the directory, whose zero pages are valid
        // null pointers.
        unsafe { &*self.directory.add(index) }
    }

    /// The cells of the granule at `address`; `None` when there is no memory for them.
    #[inline]
    pub fn granule(&self, address: usize) -> Option<&Granule> {
        let mut chunk = self.chunk(address).load(Ordering::Acquire);
        if chunk.is_null() {
            chunk = self.make_chunk(address)?;
        }
        let index = (address & ((1 << CHUNK_BITS) - 1)) >> GRANULE_BITS;
        // SAFETY: the index is below the number of granules of a chunk; chunks are never unmapped.
        Some(unsafe { &*chunk.add(index) })
    }

    #[cold]
    fn make_chunk(&self, address: usize) -> Option<*mut Granule> {
        let new = map_zeroed(CHUNK_BYTES) as *mut Granule;
        if new.is_null() {
            return None;
        }
        let entry = self.chunk(address);
        match entry.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(new),
            // Another thread was first; the mapping that nobody touched costs only address space.
            Err(theirs) => Some(theirs),
        }
    }

    /// Whether one of the inline cells already says everything that `new` would.
    #[inline]
    pub fn knows(granule: &Granule, new: Cell) -> bool {
        granule.iter().any(|cell| {
            let cell = Cell(cell.load(Ordering::Relaxed));
            !cell.is_link() && cell.makes_redundant(new)
        })
    }

    fn stripe(&self, address: usize) -> &SpinLock {
        let index = (address >> GRANULE_BITS) & (STRIPES - 1);
        // SAFETY: the index is masked to the number of stripes; zero bytes are an open lock.
        unsafe { &*self.stripes.add(index) }
    }

    /// Adds an access and returns an earlier one that it races with, if there is one. `ordered`
    /// says whether an earlier access happens before the new one.
    pub fn add(
        &self,
        arena: &Arena,
        granule: &Granule,
        address: usize,
        new: Cell,
        ordered: impl Fn(Cell) -> bool,
    ) -> Option<Cell> {
        let stripe = self.stripe(address);
        stripe.lock();
        let race = Self::add_locked(arena, granule, new, ordered);
        stripe.unlock();
        race
    }

    fn add_locked(
        arena: &Arena,
        granule: &Granule,
        new: Cell,
        ordered: impl Fn(Cell) -> bool,
    ) -> Option<Cell> {
        let mut race = None;
        let mut stored = false;
        let mut visit = |word: &AtomicU64| {
            let old = Cell(word.load(Ordering::Relaxed));
            if old == Cell::NONE {
                if !stored {
                    word.store(new.0, Ordering::Relaxed);
                    stored = true;
                }
                return;
            }
            let follows = old.slot() == new.slot() || ordered(old);
            let races = !follows && old.conflicts_with(new);
            if races {
                race = Some(old);
            }
            if old.slot() == new.slot() && old.makes_redundant(new) && !stored {
                stored = true;
            } else if (follows || races) && old.is_dominated_by(new) {
                // As in FastTrack the later access takes the place of one that it races with:
                // when the first thread comes again, in the same epoch even, it is looked at.
                let replacement = if stored { Cell::NONE } else { new };
                word.store(replacement.0, Ordering::Relaxed);
                stored = true;
            }
        };
        let last = Cell(granule[CELLS - 1].load(Ordering::Relaxed));
        if !last.is_link() {
            granule.iter().for_each(&mut visit);
            if !stored {
                // Both the last cell and the new access move to a block.
                let block = arena.allocate(size_of::<Overflow>()) as *mut Overflow;
                if !block.is_null() {
                    // SAFETY: a fresh zeroed block that only this thread knows yet.
                    let overflow = unsafe { &*block };
                    overflow.cells[0].store(last.0, Ordering::Relaxed);
                    overflow.cells[1].store(new.0, Ordering::Relaxed);
                    granule[CELLS - 1].store(LINK | block_index(block), Ordering::Release);
                }
            }
            return race;
        }
        granule[..CELLS - 1].iter().for_each(&mut visit);
        let mut block = block_at(last.0 & !LINK);
        loop {
            // SAFETY: links lead only to blocks of the arena that are never released.
            let overflow = unsafe { &*block };
            overflow.cells.iter().for_each(&mut visit);
            let next = overflow.next.load(Ordering::Relaxed);
            if next != 0 {
                block = block_at(next & !LINK);
                continue;
            }
            break;
        }
        if !stored {
            let fresh = arena.allocate(size_of::<Overflow>()) as *mut Overflow;
            if !fresh.is_null() {
                // SAFETY: a fresh zeroed block that only this thread knows yet.
                unsafe { (*fresh).cells[0].store(new.0, Ordering::Relaxed) };
                let link = LINK | block_index(fresh);
                // SAFETY: `block` is the last block of the chain, found above.
                unsafe { (*block).next.store(link, Ordering::Release) };
            }
        }
        race
    }

    /// Forgets every access to `[address, address + size)`. Bytes of a granule that the range
    /// covers only in part are forgotten with the whole granule.
    pub fn forget(&self, address: usize, size: usize) {
        let mut at = address & !7;
        let end = address.saturating_add(size);
        while at < end {
            let chunk_end = (at | ((1 << CHUNK_BITS) - 1)) + 1;
            let stop = end.min(chunk_end);
            if !self.chunk(at).load(Ordering::Acquire).is_null() {
                self.forget_in_chunk(at, stop);
            }
            at = stop;
        }
    }

    fn forget_in_chunk(&self, start: usize, end: usize) {
        const PAGE: usize = 4096;
        // A page of shadow holds the cells of this many bytes.
        const COVERED: usize = PAGE / (CELLS * 8) << GRANULE_BITS;
        let first_page = start.next_multiple_of(COVERED);
        let last_page = end / COVERED * COVERED;
        let (head_end, tail_start) = if last_page > first_page + 16 * COVERED {
            if let Some(granule) = self.granule(first_page) {
                let pages = granule as *const Granule as *mut u8;
                let bytes = (last_page - first_page) / COVERED * PAGE;
                // SAFETY: whole pages inside one chunk, a mapping of `map_zeroed`; the range's
                // contents are what is to be forgotten.
                unsafe { zero_pages(pages, bytes) };
            }
            (first_page, last_page)
        } else {
            (end, end)
        };
        for at in (start..head_end).chain(tail_start..end).step_by(8) {
            if let Some(granule) = self.granule(at) {
                granule
                    .iter()
                    .filter(|cell| cell.load(Ordering::Relaxed) != 0)
                    .for_each(|cell| cell.store(0, Ordering::Relaxed));
            }
        }
    }

    /// Whether anything at all is known of the granule, without making shadow for it.
    pub fn is_touched(&self, address: usize) -> bool {
        !self.chunk(address).load(Ordering::Acquire).is_null()
            && self
                .granule(address)
                .is_some_and(|g| g.iter().any(|cell| cell.load(Ordering::Relaxed) != 0))
    }
}

// Blocks are 64-byte aligned and the arena's mappings lie in one 47-bit space: dropping the low
// six bits leaves 41. The link has 32, so the index is relative to the first block seen.
static BASE: AtomicU64 = AtomicU64::new(0);

fn block_index(block: *mut Overflow) -> u64 {
    const HALF: u64 = 1 << 31;
    let unit = block as u64 >> 6;
    let base = match BASE.compare_exchange(0, unit, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => unit,
        Err(base) => base,
    };
    let index = unit.wrapping_sub(base).wrapping_add(HALF);
    assert!(
        index < 2 * HALF,
        "the detector's blocks lie more than 128 GiB apart"
    );
    index
}

fn block_at(index: u64) -> *mut Overflow {
    const HALF: u64 = 1 << 31;
    let unit = index
        .wrapping_sub(HALF)
        .wrapping_add(BASE.load(Ordering::Relaxed));
    (unit << 6) as *mut Overflow
}
