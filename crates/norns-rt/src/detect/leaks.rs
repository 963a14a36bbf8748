//! What loops on plain variables may have told threads about each other.
//!
//! A loop that waits for a plain variable orders threads, and no clock knows of it. It can do so only
//! through a racy access: one thread writes the variable, another one reads it, and nothing else orders
//! the two. So every racy write *leaks* what its thread has done and knows, as if the other threads
//! learned it at once. A race whose earlier access has not leaked through another variable is one that
//! no such loop can have ordered. What leaked through the bytes of the race itself does not count:
//! whoever waits for them races on them.
//!
//! Leaves a race in doubt too often, never too rarely: the writer's present knowledge stands for the
//! one that it had when it wrote, and a leak reaches all threads. For each thread the latest leaks of
//! two variables are kept, and threads in slots from `MOST` on leave every race in doubt.

use super::clock::{Slot, VectorClock};
use super::memory::{Guarded, map_zeroed};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many slots are followed.
const MOST: usize = 64;

/// Some of eight aligned bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    granule: usize,
    mask: u8,
}

impl Bytes {
    pub fn new(address: usize, mask: u8) -> Self {
        Self {
            granule: address >> 3,
            mask,
        }
    }

    fn overlap(self, other: Self) -> bool {
        self.granule == other.granule && self.mask & other.mask != 0
    }
}

/// Until which epoch a slot has leaked through one variable; epoch 0 for none.
#[derive(Clone, Copy)]
struct Leak {
    epoch: u32,
    through: Bytes,
}

impl Leak {
    const NONE: Self = Self {
        epoch: 0,
        through: Bytes {
            granule: 0,
            mask: 0,
        },
    };
}

/// The latest leaks of a slot through two different variables, the later one first.
#[derive(Clone, Copy)]
struct Latest([Leak; 2]);

impl Latest {
    fn add(&mut self, new: Leak) {
        let [first, second] = &mut self.0;
        if new.epoch == 0 {
        } else if new.through == first.through {
            first.epoch = first.epoch.max(new.epoch);
        } else if new.epoch >= first.epoch {
            *second = *first;
            *first = new;
        } else if new.epoch >= second.epoch {
            *second = new;
        }
    }

    /// Whether the slot has leaked this epoch through other bytes than these.
    fn has(&self, epoch: u32, own: Option<Bytes>) -> bool {
        let [first, second] = self.0;
        let is_own = |leak: Leak| own.is_some_and(|own| own.overlap(leak.through));
        if !is_own(first) {
            return first.epoch >= epoch;
        }
        // Behind two leaks of the own bytes there may be one that was not kept.
        second.epoch >= epoch
    }
}

pub struct Leaks {
    // MOST rows of MOST components: what the thread in a slot knows of the others
    known: *mut AtomicU32,
    latest: Guarded<[Latest; MOST]>,
    /// A thread that is not followed has leaked.
    all: AtomicBool,
}

// SAFETY: `known` is shared through atomics alone.
unsafe impl Sync for Leaks {}
// SAFETY: as above.
unsafe impl Send for Leaks {}

impl Leaks {
    pub fn new() -> Option<Self> {
        let known = map_zeroed(MOST * MOST * size_of::<AtomicU32>()) as *mut AtomicU32;
        (!known.is_null()).then_some(Self {
            known,
            latest: Guarded::new([Latest([Leak::NONE; 2]); MOST]),
            all: AtomicBool::new(false),
        })
    }

    fn known(&self, slot: usize, other: usize) -> &AtomicU32 {
        debug_assert!(slot < MOST && other < MOST);
        // SAFETY: callers pass slots below `MOST`; zero pages are valid components.
        unsafe { &*self.known.add(slot * MOST + other) }
    }

    /// The thread in this slot has learned what another one has released.
    #[inline]
    pub fn learn(&self, slot: Slot, clock: &VectorClock) {
        let slot = usize::from(slot);
        if slot < MOST {
            for other in 0..clock.length().min(MOST) {
                let epoch = clock.get(other as Slot);
                self.known(slot, other).store(epoch, Ordering::Relaxed);
            }
        }
    }

    /// The thread in this slot wrote a variable in this epoch that another thread accesses racily.
    #[cold]
    #[inline(never)]
    pub fn leak(&self, slot: Slot, epoch: u32, through: Bytes) {
        let slot = usize::from(slot);
        if slot >= MOST {
            self.all.store(true, Ordering::Relaxed);
            return;
        }
        let mut latest = self.latest.lock();
        for (other, latest) in latest.iter_mut().enumerate() {
            let epoch = if other == slot {
                epoch
            } else {
                self.known(slot, other).load(Ordering::Relaxed)
            };
            latest.add(Leak { epoch, through });
        }
    }

    /// Whether a loop may have told other threads of an access that this slot made in this epoch,
    /// other than one that waits for the bytes of the access itself.
    #[cold]
    pub fn may_order(&self, slot: Slot, epoch: u32, own: Option<Bytes>) -> bool {
        let slot = usize::from(slot);
        if slot >= MOST || self.all.load(Ordering::Relaxed) {
            return true;
        }
        self.latest.lock()[slot].has(epoch, own)
    }
}
