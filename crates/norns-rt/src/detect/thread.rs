//! The detector's view of one thread: its epoch, its clock and its fences.

use super::cell::{CLOCK_BITS, Epoch};
use super::clock::{SLOTS, Slot, VectorClock};
use super::memory::{Arena, Guarded};
use core::ptr;

/// The clock before the last one that a shadow cell can hold; the last one marks links.
const LAST_CLOCK: u32 = (1 << CLOCK_BITS) - 2;

/// A thread of the program, as it is named in reports: whatever number the runtime gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name(pub u32);

/// What the hooks in assembly need of a thread to see that an access is redundant.
#[repr(C)]
pub struct Quick {
    /// Above, the epoch that an access made now would have, or `NOT_NOW` when that must be found
    /// out first; below, ones.
    pub key: u64,
    pub directory: *const u8,
    pub first_block: *const u8,
}

/// No epoch: the last slot is never used.
const NOT_NOW: Epoch = Epoch(((SLOTS as u32 - 1) << CLOCK_BITS) | 1);

/// Owned and used by its thread alone, except while the thread does not run yet or any more.
pub struct Thread {
    pub name: Name,
    pub slot: Slot,
    /// The thread's own component of `clock`.
    pub epoch: u32,
    pub clock: VectorClock,
    /// What the last release fence published: relaxed stores carry it.
    pub release_fence: VectorClock,
    /// What relaxed loads saw: the next acquire fence learns it.
    pub acquire_fence: VectorClock,
    /// The present access is the free of a block.
    pub is_freeing: bool,
    // whether others may know this epoch already: the next access must begin a new one
    published: bool,
    // where the hooks look; null when they do not
    quick: *mut Quick,
}

// SAFETY: `quick` points into the block of the same thread, and only that thread uses either.
unsafe impl Send for Thread {}

/// A period in which one thread used a slot.
#[derive(Clone, Copy)]
struct Stay {
    name: Name,
    first: u32,
}

const STAYS: usize = 1 << 14;

struct SlotState {
    // the last epoch of the thread that was here; 0 when the slot is new
    last: u32,
    taken: bool,
}

struct State {
    slots: [SlotState; SLOTS],
    // who was in which slot from which epoch on, oldest first
    stays: [(Slot, Stay); STAYS],
    stay_count: usize,
    highest: usize,
}

/// Which slots are taken, and who was in them.
pub struct Slots {
    state: Guarded<State>,
}

impl Slots {
    pub const fn new() -> Self {
        const FREE: SlotState = SlotState {
            last: 0,
            taken: false,
        };
        let nobody = Stay {
            name: Name(0),
            first: 0,
        };
        Self {
            state: Guarded::new(State {
                slots: [FREE; SLOTS],
                stays: [(0, nobody); STAYS],
                stay_count: 0,
                highest: 0,
            }),
        }
    }

    /// A slot for a thread that knows `clock`: one whose last thread ended before, so that its
    /// accesses and the new thread's cannot race, or else a fresh one. Returns the slot and the
    /// epoch to begin with; `None` when all slots are taken.
    fn claim(&self, name: Name, clock: &VectorClock) -> Option<(Slot, u32)> {
        let mut state = self.state.lock();
        // The last slot stays unused: its epochs would look like links in the shadow.
        let usable = SLOTS - 1;
        let old = (0..state.highest).find(|&slot| {
            let it = &state.slots[slot];
            !it.taken && it.last < LAST_CLOCK / 2 && clock.get(slot as Slot) >= it.last
        });
        let slot = old.or_else(|| {
            (state.highest < usable).then(|| {
                state.highest += 1;
                state.highest - 1
            })
        })?;
        state.slots[slot].taken = true;
        let first = state.slots[slot].last + 1;
        if state.stay_count < STAYS {
            let at = state.stay_count;
            state.stays[at] = (slot as Slot, Stay { name, first });
            state.stay_count += 1;
        }
        Some((slot as Slot, first))
    }

    fn leave(&self, slot: Slot, last: u32) {
        let mut state = self.state.lock();
        let it = &mut state.slots[usize::from(slot)];
        it.taken = false;
        it.last = last;
    }

    /// Who was in `slot` at `epoch`; `None` for threads beyond the table.
    pub fn name_at(&self, slot: Slot, epoch: u32) -> Option<Name> {
        let state = self.state.lock();
        let stays = &state.stays[..state.stay_count];
        let stay = stays
            .iter()
            .rev()
            .find(|(s, stay)| *s == slot && stay.first <= epoch);
        stay.map(|(_, stay)| stay.name)
    }
}

impl Thread {
    /// A thread that knows what its creator knows. `None` when all slots are taken.
    pub fn new(
        arena: &Arena,
        slots: &Slots,
        name: Name,
        creator: Option<&VectorClock>,
    ) -> Option<Self> {
        let mut clock = VectorClock::new();
        if let Some(creator) = creator {
            clock.join(arena, creator);
        }
        let (slot, epoch) = slots.claim(name, &clock)?;
        clock.set(arena, slot, epoch);
        Some(Self {
            name,
            slot,
            epoch,
            clock,
            release_fence: VectorClock::new(),
            acquire_fence: VectorClock::new(),
            is_freeing: false,
            published: false,
            quick: ptr::null_mut(),
        })
    }

    /// From now on the hooks look at `quick`.
    ///
    /// # Safety
    /// It lives as long as this thread, or until `set_quick` is given null.
    pub unsafe fn set_quick(&mut self, quick: *mut Quick) {
        self.quick = quick;
        self.tell_hooks();
    }

    fn tell_hooks(&mut self) {
        let epoch = if self.published {
            NOT_NOW
        } else {
            Epoch::new(self.slot, self.epoch)
        };
        // SAFETY: the caller of `set_quick` promised that `quick` lives until null is set.
        if let Some(quick) = unsafe { self.quick.as_mut() } {
            quick.key = u64::from(epoch.0) << 32 | 0xffff_ffff;
        }
    }

    /// Others learn of this epoch now.
    pub fn publish(&mut self) {
        self.published = true;
        self.tell_hooks();
    }

    #[inline(always)]
    pub fn is_published(&self) -> bool {
        self.published
    }

    /// Begins a new epoch: what follows is not part of what was just released. False when clocks
    /// and slots are used up, after which nothing new may be claimed of this thread.
    pub fn advance(&mut self, arena: &Arena, slots: &Slots) -> bool {
        self.published = false;
        if self.epoch < LAST_CLOCK {
            self.epoch += 1;
            self.clock.set(arena, self.slot, self.epoch);
            self.tell_hooks();
            return true;
        }
        self.change_slot(arena, slots)
    }

    #[cold]
    fn change_slot(&mut self, arena: &Arena, slots: &Slots) -> bool {
        slots.leave(self.slot, self.epoch);
        let Some((slot, epoch)) = slots.claim(self.name, &self.clock) else {
            return false;
        };
        self.slot = slot;
        self.epoch = epoch;
        self.clock.set(arena, slot, epoch);
        self.tell_hooks();
        true
    }

    /// The thread has ended, and its clock is not needed any more.
    pub fn retire(&mut self, arena: &Arena, slots: &Slots) {
        slots.leave(self.slot, self.epoch);
        self.clock.release(arena);
        self.release_fence.release(arena);
        self.acquire_fence.release(arena);
    }
}
