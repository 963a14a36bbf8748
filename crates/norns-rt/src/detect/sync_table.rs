//! The clocks of synchronisation objects and atomic variables, by address.
//!
//! A fixed table of buckets, each a lock and a list. An atomic operation keeps its bucket locked
//! from before the real operation to after it, so that the order of clock updates is the
//! order of the operations.

use super::clock::VectorClock;
use super::memory::{Arena, SpinLock, map_zeroed};
use core::cell::UnsafeCell;
use core::ptr;

const BUCKETS: usize = 1 << 14;

/// What a synchronisation object or an atomic variable carries from thread to thread.
pub struct SyncVar {
    address: usize,
    next: *mut SyncVar,
    /// What an acquirer learns: of a mutex its last holder, of an atomic variable the release
    /// sequence that its value belongs to, of a reader-writer lock the last writer.
    pub released: VectorClock,
    /// Of a reader-writer lock what its readers released; of a barrier the odd rounds.
    pub other: VectorClock,
    /// Of a barrier: how many have entered, and how many make a round.
    pub entered: u32,
    pub count: u32,
}

struct Bucket {
    lock: SpinLock,
    first: UnsafeCell<*mut SyncVar>,
}

pub struct SyncTable {
    buckets: *mut Bucket,
}

// SAFETY: every list is reached only under the lock of its bucket.
unsafe impl Sync for SyncTable {}
// SAFETY: as above.
unsafe impl Send for SyncTable {}

/// One variable, its bucket locked.
pub struct Locked<'a> {
    bucket: &'a Bucket,
    var: *mut SyncVar,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.bucket.lock.unlock();
    }
}

impl core::ops::Deref for Locked<'_> {
    type Target = SyncVar;
    fn deref(&self) -> &SyncVar {
        // SAFETY: the variable lives as long as its bucket is locked, which it is.
        unsafe { &*self.var }
    }
}

impl core::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut SyncVar {
        // SAFETY: the bucket's lock makes this the only reference.
        unsafe { &mut *self.var }
    }
}

impl SyncTable {
    pub fn new() -> Option<Self> {
        let buckets = map_zeroed(BUCKETS * size_of::<Bucket>()) as *mut Bucket;
        (!buckets.is_null()).then_some(Self { buckets })
    }

    fn bucket(&self, address: usize) -> &Bucket {
        let hash = (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 14);
        // SAFETY: fourteen bits are always below BUCKETS; zero bytes are an open, empty bucket.
        unsafe { &*self.buckets.add(hash) }
    }

    /// The variable at `address`, made if need be.
    pub fn lock(&self, arena: &Arena, address: usize) -> Locked<'_> {
        let bucket = self.bucket(address);
        bucket.lock.lock();
        // SAFETY: the bucket is locked.
        let first = unsafe { *bucket.first.get() };
        let mut var = first;
        while !var.is_null() {
            // SAFETY: the list holds live variables, and its bucket is locked.
            let (found, next) = unsafe { ((*var).address == address, (*var).next) };
            if found {
                return Locked { bucket, var };
            }
            var = next;
        }
        let var = arena.allocate(size_of::<SyncVar>()) as *mut SyncVar;
        assert!(
            !var.is_null(),
            "no memory left for a synchronisation object"
        );
        let fresh = SyncVar {
            address,
            next: first,
            released: VectorClock::new(),
            other: VectorClock::new(),
            entered: 0,
            count: 0,
        };
        // SAFETY: a fresh block of the arena, large enough for a variable, that no other thread
        // knows yet.
        unsafe { ptr::write(var, fresh) };
        // SAFETY: the bucket is locked.
        unsafe { *bucket.first.get() = var };
        Locked { bucket, var }
    }

    /// Forgets the variable at `address`: it was destroyed or is initialised anew.
    pub fn forget(&self, arena: &Arena, address: usize) {
        let bucket = self.bucket(address);
        bucket.lock.lock();
        let mut link = bucket.first.get();
        // SAFETY: the bucket is locked; `link` is its head or the `next` of a live variable.
        while let Some(var) = unsafe { (*link).as_mut() } {
            if var.address == address {
                // SAFETY: as above.
                unsafe { *link = var.next };
                var.released.release(arena);
                var.other.release(arena);
                // SAFETY: the variable was unlinked under the lock of its bucket, so no thread
                // reaches it any more.
                unsafe { arena.release(ptr::from_mut(var).cast(), size_of::<SyncVar>()) };
                break;
            }
            link = &mut var.next;
        }
        bucket.lock.unlock();
    }
}
