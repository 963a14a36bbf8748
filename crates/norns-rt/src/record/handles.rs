//! Which thread a `pthread_t` means.
//!
//! The C library uses a handle again once its thread was joined, or was detached and has ended;
//! then the new thread takes over the entry.

use crate::lock::Lock;
use crate::mode::is_off;

const ROOM: usize = 1 << 15;

#[derive(Clone, Copy)]
struct Entry {
    /// 0 in a free entry.
    handle: usize,
    number: u32,
    detached: bool,
    ended: bool,
}

struct Table {
    /// Open addressing, linear probing.
    entries: [Entry; ROOM],
    count: usize,
}

const FREE: Entry = Entry {
    handle: 0,
    number: 0,
    detached: false,
    ended: false,
};

static TABLE: Lock<Table> = Lock::new(Table {
    entries: [FREE; ROOM],
    count: 0,
});

fn home(handle: usize) -> usize {
    (handle.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 49) % ROOM
}

impl Table {
    /// The entry of the handle, or the free one where it belongs.
    fn position(&self, handle: usize) -> usize {
        let mut at = home(handle);
        while self.entries[at].handle != 0 && self.entries[at].handle != handle {
            at = (at + 1) % ROOM;
        }
        at
    }

    fn remove(&mut self, mut hole: usize) {
        self.count -= 1;
        let mut at = (hole + 1) % ROOM;
        // Entries behind the hole move up unless that would put them before their home.
        while self.entries[at].handle != 0 {
            let distance = at.wrapping_sub(home(self.entries[at].handle)) % ROOM;
            if distance >= at.wrapping_sub(hole) % ROOM {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = (at + 1) % ROOM;
        }
        self.entries[hole] = FREE;
    }
}

pub fn insert(handle: usize, number: u32) {
    // A tracked run does not follow who is joined, so entries would never go.
    if is_off() {
        return;
    }
    TABLE.with(|table| {
        let at = table.position(handle);
        let entry = &mut table.entries[at];
        if entry.handle == handle && entry.number == number {
            return;
        }
        if entry.handle == 0 {
            // The last free entry ends every search.
            if table.count + 2 > ROOM {
                return;
            }
            table.count += 1;
        }
        table.entries[at] = Entry {
            handle,
            number,
            ..FREE
        };
    });
}

pub fn number(handle: usize) -> Option<u32> {
    TABLE.with(|table| {
        let entry = table.entries[table.position(handle)];
        (entry.handle != 0).then_some(entry.number)
    })
}

/// The thread was joined: its handle is free, unless the C library has already given it to another
/// thread.
pub fn joined(handle: usize, number: u32) {
    TABLE.with(|table| {
        let at = table.position(handle);
        if table.entries[at].handle != 0 && table.entries[at].number == number {
            table.remove(at);
        }
    });
}

pub fn detached(handle: usize, number: u32) {
    mark(handle, number, |entry| entry.detached = true);
}

pub fn ended(handle: usize, number: u32) {
    mark(handle, number, |entry| entry.ended = true);
}

fn mark(handle: usize, number: u32, how: impl FnOnce(&mut Entry)) {
    TABLE.with(|table| {
        let at = table.position(handle);
        let entry = &mut table.entries[at];
        if entry.handle == 0 || entry.number != number {
            return;
        }
        how(entry);
        if entry.detached && entry.ended {
            table.remove(at);
        }
    });
}

/// The child process after a fork.
pub fn forget() {
    TABLE.force(|table| {
        table.entries.fill(FREE);
        table.count = 0;
    });
}
