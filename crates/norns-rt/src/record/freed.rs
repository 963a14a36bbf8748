//! Uses of freed memory before the program creates its first thread, when accesses are not recorded.
//!
//! A direct-mapped table has an entry for 16 bytes, with the rest of their address if they were freed and
//! not allocated again. An entry that another one has replaced hides a use, and so does a block that the
//! list of the last frees no longer has; what is reported was freed. Long blocks are left out: the C
//! library unmaps them, and what is mapped there next need not be an allocation.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::thread::Thread;
use crate::wire::Code;

const INDEX_BITS: u32 = 16;
const ENTRIES: usize = 1 << INDEX_BITS;
const GRANULE_BITS: u32 = 4;
const LONGEST: usize = 64 * 1024;
const REMEMBERED: usize = 1024;

/// By the lower bits of the number of 16 bytes: its other bits and one, so that 0 is no number.
static FREED: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];
/// Something was freed: without that the table is not asked.
static ANY: AtomicBool = AtomicBool::new(false);

/// The last frees, in the order in which they came; then the oldest is replaced.
static BLOCKS: [Block; REMEMBERED] = [const {
    Block {
        address: AtomicUsize::new(0),
        size: AtomicUsize::new(0),
        pc: AtomicUsize::new(0),
    }
}; REMEMBERED];
static FREES: AtomicUsize = AtomicUsize::new(0);

struct Block {
    address: AtomicUsize,
    size: AtomicUsize,
    pc: AtomicUsize,
}

impl Block {
    fn has(&self, address: usize) -> bool {
        let start = self.address.load(Ordering::Relaxed);
        address.wrapping_sub(start) < self.size.load(Ordering::Relaxed)
    }
}

fn entry(granule: usize) -> (&'static AtomicU32, u32) {
    let rest = (granule >> INDEX_BITS) as u32;
    (&FREED[granule % ENTRIES], rest.wrapping_add(1))
}

fn granules(address: usize, size: usize) -> core::ops::RangeInclusive<usize> {
    address >> GRANULE_BITS..=(address + size - 1) >> GRANULE_BITS
}

/// Whether the byte was freed and not allocated again, as far as that is remembered.
#[inline(always)]
pub fn is_freed(address: usize) -> bool {
    let (entry, rest) = entry(address >> GRANULE_BITS);
    ANY.load(Ordering::Relaxed) && entry.load(Ordering::Relaxed) == rest
}

/// A block of the heap is about to be freed.
pub fn free(address: usize, size: usize, pc: usize) {
    if size == 0 || size > LONGEST {
        return;
    }
    if is_freed(address) {
        report(address, |main| {
            main.log(Code::Free, 0, pc, address, [size as u64, 0]);
        });
    }
    let block = &BLOCKS[FREES.fetch_add(1, Ordering::Relaxed) % REMEMBERED];
    block.address.store(address, Ordering::Relaxed);
    block.size.store(size, Ordering::Relaxed);
    block.pc.store(pc, Ordering::Relaxed);
    for granule in granules(address, size) {
        let (entry, rest) = entry(granule);
        entry.store(rest, Ordering::Relaxed);
    }
    ANY.store(true, Ordering::Relaxed);
}

/// A block is there again.
pub fn allocate(address: usize, size: usize) {
    if size == 0 || !ANY.load(Ordering::Relaxed) {
        return;
    }
    let all = granules(address, size);
    if all.end() - all.start() < ENTRIES {
        for granule in all {
            let (entry, rest) = entry(granule);
            if entry.load(Ordering::Relaxed) == rest {
                entry.store(0, Ordering::Relaxed);
            }
        }
    } else {
        for (index, entry) in FREED.iter().enumerate() {
            let rest = entry.load(Ordering::Relaxed);
            let granule = (rest.wrapping_sub(1) as usize) << INDEX_BITS | index;
            if rest != 0 && all.contains(&granule) {
                entry.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// An access before the first thread.
#[inline(always)]
pub fn access(address: usize, size: usize, write: bool, pc: usize) {
    if is_freed(address) {
        used(address, size, write, pc);
    }
}

/// An operation on an object, such as a mutex, before the first thread.
pub fn operation(object: usize, pc: usize) {
    if is_freed(object) {
        report(object, |main| main.log(Code::Use, 0, pc, object, [0; 2]));
    }
}

#[cold]
fn used(address: usize, size: usize, write: bool, pc: usize) {
    let code = if write { Code::Write } else { Code::Read };
    report(address, |main| {
        main.log_access(code, size.clamp(1, 16) as u8, pc, address);
    });
}

/// Logs the free of the block at the address and then its use, once a block.
fn report(address: usize, log_use: impl FnOnce(&mut Thread)) {
    let newest = FREES.load(Ordering::Relaxed);
    let oldest = newest.saturating_sub(REMEMBERED);
    let mut latest = (oldest..newest)
        .rev()
        .map(|free| &BLOCKS[free % REMEMBERED]);
    let Some(block) = latest.find(|block| block.has(address)) else {
        return;
    };
    let start = block.address.load(Ordering::Relaxed);
    let size = block.size.load(Ordering::Relaxed);
    let Some(main) = super::begin_stream() else {
        return;
    };
    allocate(start, size);
    let pc = block.pc.load(Ordering::Relaxed);
    main.log(Code::Free, 0, pc, start, [size as u64, 0]);
    log_use(main);
}

/// In the child process after a fork: its allocator goes on with the same blocks, but they were freed in
/// another recording.
pub fn forget() {
    ANY.store(false, Ordering::Relaxed);
    for entry in &FREED {
        entry.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_is_known_until_it_is_allocated() {
        let block = 0x5555_5555_a2a0;
        free(block, 104, 1);
        assert!(is_freed(block) && is_freed(block + 100));
        assert!(!is_freed(block - 16) && !is_freed(block + 112));
        // The same entries of the table, far away.
        assert!(!is_freed(block + (ENTRIES << GRANULE_BITS)));
        allocate(block + 64, 16);
        assert!(is_freed(block) && !is_freed(block + 64));
        allocate(block & !0xff_ffff, 32 << 20);
        assert!(!is_freed(block) && !is_freed(block + 100));
        free(block, LONGEST + 1, 1);
        assert!(!is_freed(block));
    }
}
