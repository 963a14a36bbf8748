//! Shadow memory: who touched each eight bytes of the program last.
//!
//! Every aligned eight bytes (a granule) have two cells of eight bytes, each one access: thread
//! slot and clock (FastTrack's epoch), which of the bytes, read or write, plain or atomic, and
//! where in the program. The cells are like ThreadSanitizer's; unlike there nothing is ever
//! evicted: when two do not suffice (for three concurrent readers), the second becomes a link
//! to blocks of further cells (`overflow`). A byte is removed from a cell only when a later access
//! dominates it there: every access that races with the old one also races with the new one. An
//! access that races with the old one dominates it as well, so that the first race at a location is
//! always reported.
//!
//! Both cells change in one instruction (`cmpxchg16b`), so that of two accesses at the same time
//! one sees the other. A granule with a link changes only under the lock of its stripe.
//!
//! The table has two levels, so that it asks nothing of the program's address-space layout. The
//! assembly in `fast` reads it too, and knows the layout of cells, granules and chunks.

use super::cell::{Cell, MASK};
use super::memory::{SpinLock, map_zeroed, zero_pages};
use super::overflow::Blocks;
use core::arch::asm;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const GRANULE_BITS: u32 = 3;
const CELLS: usize = 2;
pub const CHUNK_BITS: u32 = 24;
const ADDRESS_BITS: u32 = 47;
const DIRECTORY: usize = 1 << (ADDRESS_BITS - CHUNK_BITS);
const CHUNK_BYTES: usize = (1 << (CHUNK_BITS - GRANULE_BITS)) * CELLS * 8;
const PAGE: usize = 4096;
const STRIPES: usize = 1 << 14;

#[repr(C, align(16))]
pub struct Granule([AtomicU64; CELLS]);

impl Granule {
    #[inline]
    fn load(&self) -> [Cell; CELLS] {
        [
            Cell(self.0[0].load(Ordering::Relaxed)),
            Cell(self.0[1].load(Ordering::Acquire)),
        ]
    }

    /// Replaces both cells in one atomic step if they still have their old values.
    #[inline]
    fn replace(&self, old: [Cell; CELLS], new: [Cell; CELLS]) -> bool {
        let done: u8;
        // SAFETY: granules are sixteen aligned bytes that are shared through atomics alone. The
        // compiler keeps rbx for itself, so it is exchanged around the instruction.
        unsafe {
            asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "sete r8b",
                "mov rbx, rsi",
                inout("rsi") new[0].0 => _,
                in("rdi") self.0.as_ptr(),
                out("r8b") done,
                inout("rax") old[0].0 => _,
                inout("rdx") old[1].0 => _,
                in("rcx") new[1].0,
                options(nostack),
            );
        }
        done != 0
    }

    /// Clears the cells without touching a page that is still zero.
    #[inline]
    fn clear(&self) {
        let [first, second] = self.load();
        if first.0 | second.0 != 0 {
            self.0[0].store(0, Ordering::Relaxed);
            self.0[1].store(0, Ordering::Relaxed);
        }
    }
}

/// What to do with granules that were never accessed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Untouched {
    Add,
    Skip,
}

/// An access on its way into a granule.
struct Adding<F> {
    new: Cell,
    /// The access, extended by the bytes of cells that differ from it in their mask only.
    stored: Cell,
    /// An earlier access that it races with.
    race: Option<Cell>,
    /// An earlier cell makes the access redundant.
    covered: bool,
    ordered: F,
}

impl<F: Fn(Cell) -> bool> Adding<F> {
    #[inline]
    fn new(new: Cell, ordered: F) -> Self {
        Self {
            new,
            stored: new,
            race: None,
            covered: false,
            ordered,
        }
    }

    /// What remains of an earlier access.
    #[inline]
    fn pass(&mut self, old: Cell) -> Cell {
        let new = self.new;
        if old == Cell::NONE {
            return old;
        }
        if old.covers(new) {
            self.covered = true;
            return old;
        }
        let follows = old.slot() == new.slot() || (self.ordered)(old);
        if !follows {
            if !old.conflicts_with(new) {
                return old;
            }
            self.race = Some(old);
        }
        if (old.0 ^ new.0) & !MASK == 0 {
            self.stored.0 |= old.0;
            return Cell::NONE;
        }
        if !old.is_dominated_by(new) {
            return old;
        }
        // As in FastTrack the later access takes the place of one that it races with: when the
        // first thread comes again, in the same epoch even, it is looked at.
        let left = Cell(old.0 & !(new.0 & MASK));
        if left.mask() == 0 { Cell::NONE } else { left }
    }

    /// The new access beside what remains of two others; `None` when it does not fit.
    #[inline]
    fn place(&self, left: [Cell; CELLS]) -> Option<[Cell; CELLS]> {
        if left[0] == Cell::NONE {
            Some([self.stored, left[1]])
        } else if left[1] == Cell::NONE {
            Some([left[0], self.stored])
        } else {
            None
        }
    }
}

pub struct Shadow {
    // DIRECTORY pointers to chunks of CHUNK_BYTES, each null until first touched; behind a chunk
    // stands a word that counts its granules with a link
    directory: *mut AtomicPtr<Granule>,
    // guards the granules with a link that hash to it
    stripes: *mut SpinLock,
    blocks: Blocks,
}

// SAFETY: both tables are shared by design; cells are atomic and change as `Granule` says.
unsafe impl Sync for Shadow {}
// SAFETY: as above.
unsafe impl Send for Shadow {}

impl Shadow {
    pub fn new() -> Option<Self> {
        let directory = map_zeroed(DIRECTORY * 8) as *mut AtomicPtr<Granule>;
        let stripes = map_zeroed(STRIPES * size_of::<SpinLock>()) as *mut SpinLock;
        let blocks = Blocks::new()?;
        (!directory.is_null() && !stripes.is_null()).then_some(Self {
            directory,
            stripes,
            blocks,
        })
    }

    /// For the assembly of the hooks: where the directory is.
    pub fn directory(&self) -> *const u8 {
        self.directory.cast()
    }

    /// For the assembly of the hooks: where the block of index 0 would be.
    pub fn first_block(&self) -> *const u8 {
        self.blocks.base()
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
        let new = map_zeroed(CHUNK_BYTES + PAGE) as *mut Granule;
        if new.is_null() {
            return None;
        }
        let entry = self.chunk(address);
        match entry.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(new),
            // Another thread was first. The mapping of this one was never touched and costs only
            // address space.
            Err(theirs) => Some(theirs),
        }
    }

    /// How many granules of the chunk of `address` have a link. The chunk must be there.
    fn crowded(&self, address: usize) -> &AtomicU64 {
        let chunk = self.chunk(address).load(Ordering::Acquire);
        // SAFETY: `make_chunk` mapped one more page behind the cells.
        unsafe { &*chunk.cast::<u8>().add(CHUNK_BYTES).cast::<AtomicU64>() }
    }

    /// Whether a cell of the granule makes `new` redundant.
    #[cfg(test)]
    pub fn knows(&self, granule: &Granule, new: Cell) -> bool {
        let [first, second] = granule.load();
        first.covers(new)
            || second.covers(new)
            || second.is_link() && self.blocks.knows(granule, Cell::block(second), new)
    }

    fn stripe(&self, address: usize) -> &SpinLock {
        let index = (address >> GRANULE_BITS) & (STRIPES - 1);
        // SAFETY: the index is masked to the number of stripes; zero bytes are an open lock.
        unsafe { &*self.stripes.add(index) }
    }

    /// Adds an access and returns an earlier one that it races with, if there is one. `ordered`
    /// says whether an earlier access happens before the new one.
    #[inline]
    pub fn add(
        &self,
        granule: &Granule,
        address: usize,
        new: Cell,
        ordered: impl Fn(Cell) -> bool,
    ) -> Option<Cell> {
        loop {
            let old = granule.load();
            if old[1].is_link() {
                if old[0].covers(new) || self.blocks.knows(granule, Cell::block(old[1]), new) {
                    return None;
                }
                break;
            }
            let mut adding = Adding::new(new, &ordered);
            let left = old.map(|cell| adding.pass(cell));
            if adding.covered {
                return adding.race;
            }
            let Some(placed) = adding.place(left) else {
                break;
            };
            if granule.replace(old, placed) {
                return adding.race;
            }
        }
        self.add_crowded(granule, address, new, &ordered)
    }

    /// Adds an access to whole granules from `address` on, at most up to the end of its chunk, and
    /// tells `race` of races: address and earlier access. Returns the bytes that were done.
    ///
    /// The usual cases change one cell, with a plain store: an access of another thread to the same
    /// granule in the same nanosecond may be lost, at this granule, not at the next.
    pub fn add_range(
        &self,
        address: usize,
        size: usize,
        new: Cell,
        untouched: Untouched,
        ordered: impl Fn(usize, Cell) -> bool,
        mut race: impl FnMut(usize, Cell),
    ) -> usize {
        let chunk_end = (address | ((1 << CHUNK_BITS) - 1)) + 1;
        let bytes = size.min(chunk_end - address);
        let skips = untouched == Untouched::Skip;
        if skips && self.chunk(address).load(Ordering::Acquire).is_null() {
            return bytes;
        }
        let Some(first) = self.granule(address) else {
            return bytes;
        };
        for index in 0..bytes >> GRANULE_BITS {
            // SAFETY: `bytes` ends with the chunk that `first` is in.
            let granule = unsafe { &*ptr::from_ref(first).add(index) };
            let [old, second] = granule.load();
            if old.covers(new) {
                continue;
            }
            if second == Cell::NONE {
                if old == Cell::NONE {
                    if !skips {
                        granule.0[0].store(new.0, Ordering::Relaxed);
                    }
                    continue;
                }
                if old.slot() == new.slot() && old.is_dominated_by(new) {
                    granule.0[0].store(new.0, Ordering::Relaxed);
                    continue;
                }
            }
            let at = address + (index << GRANULE_BITS);
            if let Some(old) = self.add(granule, at, new, |old| ordered(at, old)) {
                race(at, old);
            }
        }
        bytes
    }

    #[inline(never)]
    fn add_crowded(
        &self,
        granule: &Granule,
        address: usize,
        new: Cell,
        ordered: &dyn Fn(Cell) -> bool,
    ) -> Option<Cell> {
        let stripe = self.stripe(address);
        stripe.lock();
        let mut adding;
        loop {
            adding = Adding::new(new, ordered);
            let old = granule.load();
            if old[1].is_link() {
                self.add_to_blocks(granule, address, old, &mut adding);
                break;
            }
            // Until there is a link, others change the granule without the lock.
            let left = old.map(|cell| adding.pass(cell));
            if adding.covered {
                break;
            }
            if let Some(placed) = adding.place(left) {
                if granule.replace(old, placed) {
                    break;
                }
                continue;
            }
            let Some(block) = self.blocks.take(granule) else {
                break;
            };
            self.blocks.at(block).fill([left[1], adding.stored]);
            let link = Cell::link(block);
            if granule.replace(old, [left[0], link]) {
                self.crowded(address).fetch_add(1, Ordering::Relaxed);
                break;
            }
            self.blocks.give_back(block);
        }
        stripe.unlock();
        adding.race
    }

    /// Adds to a granule with a link. The stripe is locked, so no other thread changes the granule.
    fn add_to_blocks<F: Fn(Cell) -> bool>(
        &self,
        granule: &Granule,
        address: usize,
        old: [Cell; CELLS],
        adding: &mut Adding<F>,
    ) {
        let mut room: Option<&AtomicU64> = None;
        let mut kept = Cell::NONE;
        let mut left = 0;
        let first = Cell::block(old[1]);
        let mut last = self.blocks.at(first);
        let mut place = 0;
        let mut next = Some(&granule.0[0]);
        while let Some(word) = next {
            let before = Cell(word.load(Ordering::Relaxed));
            let after = adding.pass(before);
            if after != before {
                word.store(after.0, Ordering::Relaxed);
            }
            if after == Cell::NONE {
                room.get_or_insert(word);
            } else {
                kept = after;
                left += 1;
            }
            place += 1;
            next = self.blocks.cell(&mut last, place);
        }
        if adding.covered {
            return;
        }
        if left <= 1 {
            // Two cells suffice again. The link is removed last: until then other threads wait for
            // the stripe.
            granule.0[0].store(adding.stored.0, Ordering::Relaxed);
            granule.0[1].store(kept.0, Ordering::Release);
            self.crowded(address).fetch_sub(1, Ordering::Relaxed);
            self.blocks.give_back(first);
        } else if let Some(word) = room {
            word.store(adding.stored.0, Ordering::Relaxed);
        } else if let Some(block) = self.blocks.take(granule) {
            self.blocks.at(block).fill([adding.stored, Cell::NONE]);
            last.append(block);
        }
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
        // A page of shadow holds the cells of this many bytes.
        const COVERED: usize = (PAGE / (CELLS * 8)) << GRANULE_BITS;
        if self.crowded(start).load(Ordering::Relaxed) != 0 {
            for at in (start..end).step_by(8) {
                self.forget_link(at);
            }
        }
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
        for (from, to) in [(start, head_end), (tail_start, end)] {
            if from >= to {
                continue;
            }
            let Some(first) = self.granule(from) else {
                return;
            };
            for index in 0..(to - from).div_ceil(8) {
                // SAFETY: both ranges end with the chunk at the latest.
                unsafe { &*ptr::from_ref(first).add(index) }.clear();
            }
        }
    }

    fn forget_link(&self, address: usize) {
        let Some(granule) = self.granule(address) else {
            return;
        };
        if !granule.load()[1].is_link() {
            return;
        }
        let stripe = self.stripe(address);
        stripe.lock();
        let second = granule.load()[1];
        if second.is_link() {
            granule.0[1].store(0, Ordering::Relaxed);
            self.crowded(address).fetch_sub(1, Ordering::Relaxed);
            self.blocks.give_back(Cell::block(second));
        }
        stripe.unlock();
    }
}
