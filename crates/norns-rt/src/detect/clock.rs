//! Vector clocks over thread slots.
//!
//! A clock grows with the highest slot that it knows of, so that the clock of a mutex in a
//! program with four threads is one cache line. Components are 32 bits wide although an epoch in
//! a shadow cell keeps only `CLOCK_BITS` of them: `Thread` takes a new slot before that overflows.

use super::memory::Arena;
use core::ptr;

/// The index of a thread in vector clocks. It is reused only when that cannot hide a race.
pub type Slot = u16;

pub const SLOTS: usize = 1024;

/// A vector clock. Components beyond `length` count as 0.
pub struct VectorClock {
    // `capacity` components, or null when it is 0; those from `length` on are 0
    components: *mut u32,
    capacity: u32,
    length: u32,
}

// SAFETY: the components belong to this clock alone.
unsafe impl Send for VectorClock {}

impl VectorClock {
    pub const fn new() -> Self {
        Self {
            components: ptr::null_mut(),
            capacity: 0,
            length: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many components there are; further ones count as 0.
    #[inline]
    pub fn length(&self) -> usize {
        self.length as usize
    }

    #[inline]
    pub fn get(&self, slot: Slot) -> u32 {
        if u32::from(slot) < self.length {
            // SAFETY: `slot` is below `length`, which never exceeds `capacity`.
            unsafe { *self.components.add(usize::from(slot)) }
        } else {
            0
        }
    }

    pub fn set(&mut self, arena: &Arena, slot: Slot, value: u32) {
        self.reserve(arena, u32::from(slot) + 1);
        self.length = self.length.max(u32::from(slot) + 1);
        // SAFETY: `reserve` made room for `slot`.
        unsafe { *self.components.add(usize::from(slot)) = value };
    }

    pub fn clear(&mut self) {
        for index in 0..self.length as usize {
            // SAFETY: `index` is below `length`.
            unsafe { *self.components.add(index) = 0 };
        }
        self.length = 0;
    }

    pub fn join(&mut self, arena: &Arena, other: &VectorClock) {
        if other.length == 0 {
            return;
        }
        self.reserve(arena, other.length);
        self.length = self.length.max(other.length);
        for index in 0..other.length as usize {
            // SAFETY: `index` is below both lengths, and the two blocks are different.
            unsafe {
                let mine = self.components.add(index);
                *mine = (*mine).max(*other.components.add(index));
            }
        }
    }

    pub fn copy_from(&mut self, arena: &Arena, other: &VectorClock) {
        self.clear();
        self.join(arena, other);
    }

    /// Gives the memory back; the clock is empty afterwards.
    pub fn release(&mut self, arena: &Arena) {
        if self.capacity > 0 {
            // SAFETY: the block came from this arena with this size, and `self` forgets it.
            unsafe { arena.release(self.components as *mut u8, self.capacity as usize * 4) };
        }
        *self = Self::new();
    }

    fn reserve(&mut self, arena: &Arena, wanted: u32) {
        if wanted <= self.capacity {
            return;
        }
        let capacity = wanted.next_power_of_two().max(16);
        let components = arena.allocate(capacity as usize * 4) as *mut u32;
        assert!(!components.is_null(), "no memory left for a vector clock");
        if self.capacity > 0 {
            // SAFETY: both blocks are long enough for `length` components and do not overlap.
            unsafe { ptr::copy_nonoverlapping(self.components, components, self.length as usize) };
            // SAFETY: the old block came from this arena with this size and is replaced below.
            unsafe { arena.release(self.components as *mut u8, self.capacity as usize * 4) };
        }
        self.components = components;
        self.capacity = capacity;
    }
}
