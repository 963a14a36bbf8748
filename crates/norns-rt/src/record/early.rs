//! What happened before the first thread was created and matters afterwards: semaphores and
//! barriers that exist, with their values, and locks that are held. Where the other objects were
//! initialised is kept as well, as far as there is room: reports name an object by that line.

use core::ffi::{c_int, c_void};

use crate::lock::Lock;
use crate::operation::Operation;
use crate::real;
use crate::record::freed;
use crate::thread::Thread;
use crate::wire::{Code, misuse, object};

real! {
    fn sem_getvalue(semaphore: *mut c_void, value: *mut c_int) -> c_int;
}

const ROOM: usize = 4096;
/// The objects that are kept for their names only leave the other half to those that matter more.
const ROOM_FOR_NAMES: usize = ROOM / 2;

struct Table {
    kept: [Option<Operation>; ROOM],
    /// No entry at or behind this position.
    length: usize,
    /// How many objects found no room.
    lost: u64,
}

static TABLE: Lock<Table> = Lock::new(Table {
    kept: [None; ROOM],
    length: 0,
    lost: 0,
});

impl Table {
    fn add(&mut self, operation: Operation) {
        if !self.put(operation) {
            self.lost += 1;
        }
    }

    /// Whether there was room for it.
    fn put(&mut self, operation: Operation) -> bool {
        if let Some(free) = self.kept[..self.length]
            .iter_mut()
            .rev()
            .find(|kept| kept.is_none())
        {
            *free = Some(operation);
        } else if self.length < ROOM {
            self.kept[self.length] = Some(operation);
            self.length += 1;
        } else {
            return false;
        }
        true
    }

    /// Forgets the newest entry that matches.
    fn remove(&mut self, fits: impl Fn(&Operation) -> bool) {
        let found = self.kept[..self.length]
            .iter()
            .rposition(|kept| kept.as_ref().is_some_and(&fits));
        if let Some(position) = found {
            self.kept[position] = None;
            if position + 1 == self.length {
                self.length = position;
            }
        }
    }
}

/// An operation that is in effect now.
pub fn note(code: Code, operation: &Operation) {
    let same = |kept: &Operation| kept.object == operation.object;
    match code {
        Code::Lock | Code::ReadLock => TABLE.with(|table| {
            table.add(Operation { code, ..*operation });
        }),
        Code::Unlock => {
            TABLE.with(|table| table.remove(|kept| same(kept) && kept.code != Code::Init));
        }
        Code::Init => {
            let kind = operation.detail & !object::SHARED;
            TABLE.with(|table| {
                table.remove(|kept| same(kept) && kept.code == Code::Init);
                if kind == object::SEMAPHORE || kind == object::BARRIER {
                    table.add(*operation);
                } else if table.length < ROOM_FOR_NAMES {
                    table.put(*operation);
                }
            });
        }
        Code::Destroy => TABLE.with(|table| table.remove(same)),
        _ => {}
    }
}

/// Whether what is known of the object allows that it is misused in this way. What its bytes say is worth
/// nothing if its memory was freed.
pub fn agrees(object: usize, how: u64) -> bool {
    if freed::is_freed(object) {
        return false;
    }
    let is_held = TABLE.with(|table| {
        let mut kept = table.kept[..table.length].iter().flatten();
        kept.any(|kept| kept.object == object && kept.code != Code::Init)
    });
    match how {
        misuse::UNLOCK_NOT_LOCKED | misuse::UNLOCK_OF_OTHER | misuse::WAIT_NOT_LOCKED => !is_held,
        misuse::DESTROY_LOCKED => is_held,
        _ => true,
    }
}

/// Logs what is kept, now that the first thread is about to be created.
pub fn write(main: &mut Thread) {
    let mut index = 0;
    while let Some(kept) = TABLE.with(|table| {
        while index < table.length && table.kept[index].is_none() {
            index += 1;
        }
        table.kept[..table.length].get(index).copied().flatten()
    }) {
        index += 1;
        let mut value = kept.value;
        if kept.detail & !object::SHARED == object::SEMAPHORE {
            let mut now = 0;
            // SAFETY: the table has only semaphores that were initialised and not destroyed.
            unsafe { sem_getvalue(kept.object as *mut c_void, &mut now) };
            value = now as u32 as u64;
        }
        main.log(kept.code, kept.detail, kept.pc, kept.object, [value, 0]);
    }
    forget();
}

pub fn forget() {
    TABLE.force(|table| {
        while table.length > 0 {
            table.length -= 1;
            table.kept[table.length] = None;
        }
        table.lost = 0;
    });
}

/// How many objects found no room.
pub fn lost() -> u64 {
    TABLE.with(|table| table.lost)
}
