//! A happens-before race detector: epochs and vector clocks over shadow memory.
//!
//! Follows FastTrack (Flanagan and Freund 2009) with the shadow layout of ThreadSanitizer, the
//! release sequences and fences of C11 (as in tsan11, Lidbury and Donaldson 2017), and slots
//! that are reused only when that hides nothing. A report is two accesses of one run that the
//! run's own synchronisation leaves unordered.
//!
//! What orders: creating and joining threads, mutexes, reader-writer locks, spin locks,
//! semaphores (every post before every later wait), barriers, once, C11 atomics and fences.
//! What does not: a signal on a condition (its mutex does), sequential consistency of fences
//! beyond acquire and release, and the runtime's own waiting. All posts of a semaphore are
//! joined, so a race between a waiter and a poster whose unit it did not take is not seen.
//!
//! A thread that finds all slots taken is not watched; `unwatched` counts such threads.

pub mod cell;
pub mod clock;
pub mod leaks;
pub mod memory;
mod overflow;
pub mod shadow;
pub mod sites;
pub mod sync_table;
pub mod thread;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cell::{Cell, Epoch};
use clock::VectorClock;
use leaks::{Bytes, Leaks};
use memory::Arena;
use shadow::{Shadow, Untouched};
use sites::Sites;
use sync_table::{Locked, SyncTable};

pub use cell::Kind;
pub use thread::{Name, Quick, Slots, Thread};

/// The orders of C11, by the numbers that compilers pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Relaxed,
    Consume,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

impl Order {
    pub fn from_abi(order: i32) -> Self {
        match order & 0x7fff {
            0 => Order::Relaxed,
            1 => Order::Consume,
            2 => Order::Acquire,
            3 => Order::Release,
            4 => Order::AcqRel,
            _ => Order::SeqCst,
        }
    }

    fn acquires(self) -> bool {
        !matches!(self, Order::Relaxed | Order::Release)
    }

    fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcqRel | Order::SeqCst)
    }
}

/// What an atomic operation did to its variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicEffect {
    Load,
    Store,
    ReadModifyWrite,
}

/// Two accesses that nothing orders; `earlier` came first in this run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Race {
    pub address: usize,
    pub earlier: RaceSide,
    pub later: RaceSide,
    /// A loop that waits for a plain variable may have ordered them: `leaks`.
    pub may_wait: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RaceSide {
    /// `None` for a thread beyond the detector's tables.
    pub thread: Option<Name>,
    pub kind: Kind,
    pub pc: usize,
    pub size: u8,
}

pub struct Detector {
    arena: Arena,
    shadow: Shadow,
    sites: Sites,
    syncs: SyncTable,
    slots: Slots,
    leaks: Leaks,
    /// How many threads found no slot.
    pub unwatched: AtomicU64,
    exhausted: AtomicBool,
}

impl Detector {
    /// `None` when the kernel refuses the address space.
    pub fn new() -> Option<Self> {
        Some(Self {
            arena: Arena::new(),
            shadow: Shadow::new()?,
            sites: Sites::new()?,
            syncs: SyncTable::new()?,
            slots: Slots::new(),
            leaks: Leaks::new()?,
            unwatched: AtomicU64::new(0),
            exhausted: AtomicBool::new(false),
        })
    }

    /// The main thread, a child of `creator`, or one whose creation was not seen.
    pub fn thread(&self, name: Name, creator: Option<&mut Thread>) -> Option<Thread> {
        let known = creator.as_ref().map(|creator| &creator.clock);
        let thread = Thread::new(&self.arena, &self.slots, name, known);
        match &thread {
            Some(thread) => self.leaks.learn(thread.slot, &thread.clock),
            None => {
                self.unwatched.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(creator) = creator {
            creator.publish();
        }
        thread
    }

    /// `thread` has joined `ended`: everything that `ended` did happens before what `thread` does
    /// from now on. The slot of `ended` becomes free.
    pub fn join(&self, thread: &mut Thread, ended: &mut Thread) {
        self.learn(thread, &ended.clock);
        ended.retire(&self.arena, &self.slots);
    }

    /// A detached thread has ended: no other thread can join it.
    pub fn retire(&self, ended: &mut Thread) {
        ended.retire(&self.arena, &self.slots);
    }

    fn advance(&self, thread: &mut Thread) {
        let slot = thread.slot;
        if !thread.advance(&self.arena, &self.slots) {
            self.exhausted.store(true, Ordering::Relaxed);
        }
        if thread.slot != slot {
            self.leaks.learn(thread.slot, &thread.clock);
        }
    }

    /// From now on `thread` comes after all that is in `released`.
    #[inline]
    fn learn(&self, thread: &mut Thread, released: &VectorClock) {
        thread.clock.join(&self.arena, released);
        self.leaks.learn(thread.slot, &thread.clock);
    }

    /// Acquired a mutex, took a unit of a semaphore, passed a once, read-locked.
    pub fn acquire(&self, thread: &mut Thread, object: usize) {
        let var = self.syncs.lock(&self.arena, object);
        self.learn(thread, &var.released);
    }

    /// Acquired a reader-writer lock for writing: after the last writer and all readers.
    pub fn acquire_for_writing(&self, thread: &mut Thread, object: usize) {
        let var = self.syncs.lock(&self.arena, object);
        self.learn(thread, &var.released);
        self.learn(thread, &var.other);
    }

    /// About to release a mutex, or a reader-writer lock held for writing.
    pub fn release(&self, thread: &mut Thread, object: usize) {
        let mut var = self.syncs.lock(&self.arena, object);
        var.released.copy_from(&self.arena, &thread.clock);
        var.other.clear();
        drop(var);
        thread.publish();
    }

    /// About to post to a semaphore, or to finish a once: adds to what others released.
    pub fn release_join(&self, thread: &mut Thread, object: usize) {
        let mut var = self.syncs.lock(&self.arena, object);
        var.released.join(&self.arena, &thread.clock);
        drop(var);
        thread.publish();
    }

    /// About to release a reader-writer lock held for reading.
    pub fn release_read(&self, thread: &mut Thread, object: usize) {
        let mut var = self.syncs.lock(&self.arena, object);
        var.other.join(&self.arena, &thread.clock);
        drop(var);
        thread.publish();
    }

    /// The object is initialised or destroyed, so that its clock says nothing any more.
    pub fn forget_object(&self, object: usize) {
        self.syncs.forget(&self.arena, object);
    }

    pub fn barrier_init(&self, object: usize, count: u32) {
        self.syncs.forget(&self.arena, object);
        self.syncs.lock(&self.arena, object).count = count;
    }

    /// About to wait at a barrier. Give the result to `barrier_exit`.
    pub fn barrier_enter(&self, thread: &mut Thread, object: usize) -> BarrierRound {
        let mut var = self.syncs.lock(&self.arena, object);
        let var = &mut *var;
        let count = var.count.max(1);
        let round = var.entered / count;
        let starts_round = var.entered.is_multiple_of(count);
        var.entered = var.entered.wrapping_add(1);
        let clock = if round.is_multiple_of(2) {
            &mut var.released
        } else {
            &mut var.other
        };
        if starts_round {
            clock.clear();
        }
        clock.join(&self.arena, &thread.clock);
        thread.publish();
        BarrierRound(round)
    }

    pub fn barrier_exit(&self, thread: &mut Thread, object: usize, round: BarrierRound) {
        let var = self.syncs.lock(&self.arena, object);
        let clock = if round.0.is_multiple_of(2) {
            &var.released
        } else {
            &var.other
        };
        self.learn(thread, clock);
    }

    /// Keeps the variable to this thread until `atomic_end`, so that clocks change in the order
    /// of the operations.
    pub fn atomic_begin(&self, address: usize) -> Locked<'_> {
        self.syncs.lock(&self.arena, address)
    }

    /// An atomic operation was done. What it acquires orders its own access, and what it releases
    /// has its access.
    #[allow(clippy::too_many_arguments)]
    pub fn atomic_end(
        &self,
        thread: &mut Thread,
        mut var: Locked<'_>,
        effect: AtomicEffect,
        order: Order,
        (address, size): (usize, usize),
        pc: usize,
        report: impl FnMut(Race),
    ) {
        let arena = &self.arena;
        if effect != AtomicEffect::Store && !var.released.is_empty() {
            if order.acquires() {
                self.learn(thread, &var.released);
            } else {
                thread.acquire_fence.join(arena, &var.released);
            }
        }
        let kind = match effect {
            AtomicEffect::Load => Kind::AtomicRead,
            _ => Kind::AtomicWrite,
        };
        self.access(thread, address, size, kind, pc, report);
        if effect == AtomicEffect::Load {
            return;
        }
        // A store begins a new release sequence, a read-modify-write continues the one it read.
        if effect == AtomicEffect::Store {
            var.released.clear();
        }
        if order.releases() {
            var.released.join(arena, &thread.clock);
            thread.publish();
        } else {
            var.released.join(arena, &thread.release_fence);
        }
    }

    pub fn fence(&self, thread: &mut Thread, order: Order) {
        let arena = &self.arena;
        if order.acquires() {
            thread.clock.join(arena, &thread.acquire_fence);
            self.leaks.learn(thread.slot, &thread.clock);
        }
        if order.releases() {
            thread.release_fence.copy_from(arena, &thread.clock);
            thread.publish();
        }
    }

    /// What the hooks need to know of a thread of this detector.
    pub fn quick(&self) -> Quick {
        Quick {
            key: 0,
            directory: self.shadow.directory(),
            first_block: self.shadow.first_block(),
        }
    }

    /// An access to `[address, address + size)`. Calls `report` for every race found, at most
    /// once for each aligned eight bytes.
    #[inline]
    pub fn access(
        &self,
        thread: &mut Thread,
        address: usize,
        size: usize,
        kind: Kind,
        pc: usize,
        mut report: impl FnMut(Race),
    ) {
        if size == 0 {
            return;
        }
        if thread.is_published() {
            self.advance(thread);
        }
        if (address & 7) + size <= 8 {
            let mask = ((1u32 << size) - 1) << (address & 7);
            self.access_granule(thread, address, mask as u8, kind, pc, &mut report);
        } else {
            let touch = Untouched::Add;
            self.access_range(thread, address, size, kind, pc, touch, &mut report);
        }
    }

    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn access_range(
        &self,
        thread: &Thread,
        address: usize,
        size: usize,
        kind: Kind,
        pc: usize,
        untouched: Untouched,
        report: &mut dyn FnMut(Race),
    ) {
        let end = address.saturating_add(size);
        let mut at = address;
        if at & 7 != 0 {
            let stop = end.min((at & !7) + 8);
            let mask = ((1u32 << (stop - at)) - 1) << (at & 7);
            self.access_granule(thread, at, mask as u8, kind, pc, report);
            at = stop;
        }
        let whole_end = end & !7;
        if at < whole_end && !self.exhausted.load(Ordering::Relaxed) {
            let epoch = Epoch::new(thread.slot, thread.epoch);
            let new = Cell::new(epoch, 0xff, kind, self.sites.of(pc));
            while at < whole_end {
                at += self.shadow.add_range(
                    at,
                    whole_end - at,
                    new,
                    untouched,
                    |at, old| self.is_ordered(thread, at, old, new),
                    |at, old| report(self.describe(thread, at, 0xff, kind, pc, old)),
                );
            }
        }
        if at < end {
            let mask = (1u32 << (end - at)) - 1;
            self.access_granule(thread, at, mask as u8, kind, pc, report);
        }
    }

    /// An access within eight aligned bytes. The thread's epoch has not been published: `access` has
    /// begun a new one if need be.
    #[inline(always)]
    fn access_granule(
        &self,
        thread: &Thread,
        address: usize,
        mask: u8,
        kind: Kind,
        pc: usize,
        report: &mut (impl FnMut(Race) + ?Sized),
    ) {
        let Some(granule) = self.shadow.granule(address) else {
            return;
        };
        let epoch = Epoch::new(thread.slot, thread.epoch);
        if self.exhausted.load(Ordering::Relaxed) {
            return;
        }
        let new = Cell::new(epoch, mask, kind, self.sites.of(pc));
        let ordered = |old: Cell| self.is_ordered(thread, address, old, new);
        let race = self.shadow.add(granule, address, new, ordered);
        if let Some(old) = race {
            report(self.describe(thread, address, mask, kind, pc, old));
        }
    }

    /// Whether an earlier access in the eight bytes at `at` happens before the new one. A conflicting one
    /// that does not leaks, since the reader of the two may wait for the writer.
    #[inline(always)]
    fn is_ordered(&self, thread: &Thread, at: usize, old: Cell, new: Cell) -> bool {
        if thread.clock.get(old.slot()) >= old.clock() {
            return true;
        }
        // No loop waits for a free.
        if old.conflicts_with(new) && !thread.is_freeing {
            let through = Bytes::new(at, old.mask() & new.mask());
            if matches!(old.kind(), Kind::Write | Kind::AtomicWrite) {
                self.leaks.leak(old.slot(), old.clock(), through);
            }
            if matches!(new.kind(), Kind::Write | Kind::AtomicWrite) {
                self.leaks.leak(thread.slot, thread.epoch, through);
            }
        }
        false
    }

    /// Whether an access within eight aligned bytes would tell nothing new; `false` for others.
    #[cfg(test)]
    pub fn knows(&self, thread: &Thread, address: usize, size: usize, kind: Kind) -> bool {
        if thread.is_published() || (address & 7) + size > 8 {
            return false;
        }
        let mask = ((1u32 << size) - 1) << (address & 7);
        let epoch = Epoch::new(thread.slot, thread.epoch);
        let new = Cell::new(epoch, mask as u8, kind, sites::Site(0));
        let granule = self.shadow.granule(address);
        granule.is_some_and(|granule| self.shadow.knows(granule, new))
    }

    #[cold]
    fn describe(
        &self,
        thread: &Thread,
        address: usize,
        mask: u8,
        kind: Kind,
        pc: usize,
        old: Cell,
    ) -> Race {
        // What was waited for in a block orders the free of the block.
        let own = (!thread.is_freeing).then(|| Bytes::new(address, old.mask() & mask));
        Race {
            may_wait: self.leaks.may_order(old.slot(), old.clock(), own),
            address: (address & !7) + (old.mask() & mask).trailing_zeros() as usize,
            earlier: RaceSide {
                thread: self.slots.name_at(old.slot(), old.clock()),
                kind: old.kind(),
                pc: self.sites.pc(old.site()),
                size: old.mask().count_ones() as u8,
            },
            later: RaceSide {
                thread: Some(thread.name),
                kind,
                pc,
                size: mask.count_ones() as u8,
            },
        }
    }

    /// A block is about to be freed: a write to all of it.
    pub fn free(
        &self,
        thread: &mut Thread,
        address: usize,
        size: usize,
        pc: usize,
        mut report: impl FnMut(Race),
    ) {
        // Beyond the first page only memory that was accessed before matters; shadow for the rest
        // would cost memory without need.
        const WHOLE: usize = 4096;
        let head = size.min(WHOLE);
        thread.is_freeing = true;
        self.access(thread, address, head, Kind::Write, pc, &mut report);
        let (rest, left) = (address + head, size - head);
        let skip = Untouched::Skip;
        self.access_range(thread, rest, left, Kind::Write, pc, skip, &mut report);
        thread.is_freeing = false;
    }

    /// Memory came into use: a new block, mapping or stack. Accesses to its former contents do not
    /// race with those to the new ones.
    pub fn forget_memory(&self, address: usize, size: usize) {
        self.shadow.forget(address, size);
    }
}

/// Which round of a barrier a thread entered.
#[derive(Clone, Copy)]
pub struct BarrierRound(u32);
