//! Events of signal handlers that ran while their thread was inside the recorder.
//!
//! They are kept here until the recorder is about to return, and are logged then, without the calls
//! that they were made in.

use crate::wire::Code;

#[derive(Clone, Copy)]
pub struct Event {
    pub code: Code,
    pub detail: u8,
    pub pc: usize,
    pub address: usize,
    pub operands: [u64; 2],
    /// 0 when the event is not ordered.
    pub sequence: u64,
}

const ROOM: usize = 64;

#[repr(C)]
pub struct Pending {
    count: usize,
    events: [Option<Event>; ROOM],
}

impl Pending {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there was room.
    pub fn push(&mut self, event: Event) -> bool {
        let fits = self.count < ROOM;
        if fits {
            self.events[self.count] = Some(event);
            self.count += 1;
        }
        fits
    }

    /// The oldest first.
    pub fn get(&self, index: usize) -> Option<Event> {
        if index < self.count {
            self.events[index % ROOM]
        } else {
            None
        }
    }

    /// Forgets the oldest events.
    pub fn forget(&mut self, oldest: usize) {
        let oldest = oldest.min(self.count);
        self.events.copy_within(oldest..self.count, 0);
        self.count -= oldest;
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }
}
