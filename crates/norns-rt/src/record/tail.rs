//! The tail file: a shared mapping that holds what the threads have not flushed, so that it
//! survives the process. Layout in `wire::tail`.
//!
//! Room on the disk is reserved before a slot is mapped, since a write to a mapping that finds
//! the disk full is a fatal signal. Where that fails, the slot is plain memory: its last chunk is
//! lost if the process is killed.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::file;
use crate::lock::Lock;
use crate::sys;
use crate::wire::tail::*;

/// Payload sizes: of the first slots, and of all further ones.
const CAPACITIES: [usize; 2] = [256 * 1024, 32 * 1024];
const LARGE_SLOTS: u32 = 32;
/// u64 in the file header: how many bytes of slots there are.
const FILE_SLOTS: usize = 16;
/// In a slot, unused by readers: the next free one.
const NEXT_FREE: usize = 40;

struct Free {
    first: [*mut u8; 2],
    large: u32,
    /// The header page, mapped.
    file: *mut u8,
    process: u32,
    /// The kernel's number of the process.
    process_id: i32,
}

static FREE: Lock<Free> = Lock::new(Free {
    first: [null_mut(); 2],
    large: 0,
    file: null_mut(),
    process: 0,
    process_id: 0,
});

/// The header of a slot.
pub struct Header(pub *mut u8);

impl Header {
    pub fn get(&self, field: usize) -> u32 {
        // SAFETY: callers hold a slot, whose first page is mapped; fields are aligned.
        unsafe { self.0.add(field).cast::<u32>().read_volatile() }
    }

    pub fn set(&self, field: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.0.add(field).cast::<u32>().write_volatile(value) };
    }

    pub fn first_sequence(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.add(FIRST_SEQUENCE).cast::<u64>().read_volatile() }
    }

    pub fn set_first_sequence(&self, value: u64) {
        // SAFETY: as above.
        unsafe {
            self.0
                .add(FIRST_SEQUENCE)
                .cast::<u64>()
                .write_volatile(value);
        };
    }

    /// The fields are written in this order so that a process killed in between leaves an empty
    /// slot.
    pub fn next_chunk(&self, sequence: u64) {
        self.set(USED, 0);
        self.set_first_sequence(sequence);
        self.set(INDEX, self.get(INDEX) + 1);
    }
}

/// Maps the header page and takes the number of this process.
pub fn begin_process() -> bool {
    FREE.with(|free| {
        if free.file.is_null() {
            let tail = file::open_tail();
            if tail < 0 || !file::reserve(tail, 0, PAGE) {
                if tail >= 0 {
                    sys::close(tail);
                }
                return false;
            }
            free.file = sys::map_file(tail, 0, PAGE);
            sys::close(tail);
            if free.file.is_null() {
                return false;
            }
            // SAFETY: the page was just mapped. Another process that writes it too writes the same.
            unsafe { free.file.cast::<[u8; 8]>().write_volatile(FILE_MAGIC) };
        }
        // SAFETY: the page is mapped and the field aligned.
        let processes = unsafe { &*free.file.add(FILE_PROCESSES).cast::<AtomicU32>() };
        free.process = processes.fetch_add(1, Ordering::SeqCst);
        free.process_id = sys::getpid();
        true
    })
}

pub fn process() -> u32 {
    FREE.with(|free| free.process)
}

/// The process that records, by the kernel's number.
pub fn process_id() -> i32 {
    FREE.with(|free| free.process_id)
}

/// A slot for this thread, or null.
pub fn claim(thread: u32) -> *mut u8 {
    FREE.with(|free| {
        let class = usize::from(free.first[0].is_null() && free.large >= LARGE_SLOTS);
        let mut slot = free.first[class];
        if slot.is_null() {
            slot = make(free, CAPACITIES[class]);
            if slot.is_null() {
                return slot;
            }
            free.large += u32::from(class == 0);
        } else {
            // SAFETY: slots in the list are mapped, and the field holds what `release` stored.
            free.first[class] = unsafe { slot.add(NEXT_FREE).cast::<*mut u8>().read() };
        }
        let header = Header(slot);
        header.set(USED, 0);
        header.set(PROCESS, free.process);
        header.set(THREAD, thread);
        header.set(INDEX, 0);
        header.set(STATE, 1);
        slot
    })
}

fn make(free: &Free, capacity: usize) -> *mut u8 {
    let length = PAGE + capacity;
    let mut slot = null_mut();
    if !free.file.is_null() {
        // SAFETY: the page is mapped and the field aligned.
        let slots = unsafe { &*free.file.add(FILE_SLOTS).cast::<AtomicU64>() };
        let offset = PAGE + slots.fetch_add(length as u64, Ordering::SeqCst) as usize;
        let tail = file::open_tail();
        if tail >= 0 {
            if file::reserve(tail, offset, length) {
                slot = sys::map_file(tail, offset, length);
            }
            sys::close(tail);
        }
    }
    if slot.is_null() {
        slot = sys::map_anonymous(length);
    }
    if !slot.is_null() {
        let header = Header(slot);
        header.set(CAPACITY, capacity as u32);
        header.set(MAGIC, SLOT_MAGIC);
    }
    slot
}

/// Returns a slot whose payload has been written to the trace file.
pub fn release(slot: *mut u8) {
    let header = Header(slot);
    header.set(STATE, 0);
    let class = usize::from(header.get(CAPACITY) as usize != CAPACITIES[0]);
    FREE.with(|free| {
        // SAFETY: the slot is mapped and no thread uses it any more.
        unsafe {
            slot.add(NEXT_FREE)
                .cast::<*mut u8>()
                .write(free.first[class]);
        };
        free.first[class] = slot;
    });
}

/// Tells the reader that the recording is not complete.
pub fn note_trouble() {
    FREE.with(|free| {
        if !free.file.is_null() {
            // SAFETY: the page is mapped and the field aligned.
            unsafe { free.file.add(FILE_TROUBLE).cast::<u32>().write_volatile(1) };
        }
    });
}

/// The child process after a fork: all slots are its parent's. The header page stays.
pub fn forget() {
    FREE.force(|free| {
        free.first = [null_mut(); 2];
        free.large = 0;
    });
}
