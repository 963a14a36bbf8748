//! Which sites touch the same memory from different threads: section 3.3.1 of Kasikci (2015).
//!
//! A table by address holds who passed there last, in 16 bytes an entry. An entry that is overwritten, or torn by two
//! threads, loses a pair and makes none up.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::wire::guarding::Shared;

const ENTRIES: usize = 1 << 12;
const THREAD_BITS: u32 = 20;

struct Entry {
    /// The address without its last three bits, and the last bits of the thread's number.
    who: AtomicU64,
    /// The site, and a check of `who`.
    site: AtomicU64,
}

static ENTRY: [Entry; ENTRIES] = [const {
    Entry {
        who: AtomicU64::new(0),
        site: AtomicU64::new(0),
    }
}; ENTRIES];

fn mixed(word: u64) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A thread passes a site, at which it touches an address.
pub fn passed(shared: Shared, site: u32, address: usize, thread: u32) {
    let place = address as u64 >> 3 & ((1 << (64 - THREAD_BITS)) - 1);
    let who = place << THREAD_BITS | u64::from(thread) & ((1 << THREAD_BITS) - 1);
    let entry = &ENTRY[(mixed(place) >> 52) as usize % ENTRIES];
    let before = entry.who.load(Relaxed);
    if before == who {
        return;
    }
    if before >> THREAD_BITS == place {
        let other = entry.site.load(Relaxed);
        if other as u32 == mixed(before) as u32 {
            shared.pair((other >> 32) as u32, site);
        }
    }
    entry.who.store(who, Relaxed);
    entry.site.store(
        u64::from(site) << 32 | u64::from(mixed(who) as u32),
        Relaxed,
    );
}
