//! Loops that wait for a variable: does a thread do the same again and again until another writes
//! what it reads?
//!
//! While somebody waits for a thread it is watched: every place it comes to, with the address
//! there, is put in a small set. A thread that comes only to what is in the set, and reads there,
//! goes round in a loop; its body may also write, lock, sleep or yield. That alone would also be
//! true of a long computation, so the loop counts as a wait only if the thread leaves it just after
//! another thread has written to something that the loop reads.
//!
//! A loop whose body touches more than `PLACES` different things is not seen as one.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use super::monitor::overlap;
use super::output::tell;
use super::thread::ControlThread;
use crate::wire::report::Message;

const PLACES: usize = 128;
const PROBES: usize = 8;
const READS: usize = 16;
/// So many reads after the write at most, for a loop that was left because of it.
const LATE_READS: u64 = 64;

/// What a suspected loop is waiting for.
mod suspicion {
    /// Nobody suspects it.
    pub const NONE: u32 = 0;
    /// A write to something that it reads.
    pub const WAITS: u32 = 1;
    /// Such a write is about to happen.
    pub const WRITING: u32 = 2;
    /// It has happened.
    pub const WRITTEN: u32 = 3;
}

#[derive(Clone, Copy)]
struct Read {
    address: usize,
    size: usize,
    pc: usize,
}

/// What is known of one thread. The thread itself changes it, except what is atomic.
pub struct Spin {
    /// 0 while nobody watches; raised by the watcher.
    epoch: AtomicU32,
    /// The epoch that the rest is about.
    of: u32,
    places: [usize; PLACES],
    reads: [Read; READS],
    read_count: usize,
    /// Reads at known places since something new was met.
    pub repeated: AtomicU64,
    /// How often something new was met.
    pub changes: AtomicU64,
    suspicion: AtomicU32,
    repeated_at_write: AtomicU64,
    /// The place of the loop that reads what was written.
    pc: AtomicU64,
    address: AtomicU64,
}

/// The thread whose loop waits for a write, if there is one.
static SUSPECT: AtomicPtr<ControlThread> = AtomicPtr::new(core::ptr::null_mut());

impl Spin {
    /// From now on the thread is watched.
    pub fn watch(&self) {
        let epoch = self.epoch.load(Relaxed).wrapping_add(1).max(1);
        self.epoch.store(epoch, Relaxed);
    }

    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        self.epoch.load(Relaxed) != 0
    }

    fn begin(&mut self, epoch: u32) {
        self.of = epoch;
        self.places = [0; PLACES];
        self.read_count = 0;
        self.repeated.store(0, Relaxed);
    }

    /// Whether the thread was here before, since it is watched.
    fn knows(&mut self, pc: usize, address: usize) -> bool {
        let key = (pc ^ address.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let start = key >> 57;
        for at in start..start + PROBES {
            let slot = &mut self.places[at % PLACES];
            if *slot == key {
                return true;
            }
            if *slot == 0 {
                *slot = key;
                return false;
            }
        }
        self.places[start % PLACES] = key;
        false
    }
}

impl ControlThread {
    /// The thread is at this place, about to read so many bytes, or to do something else.
    #[inline(always)]
    pub fn comes_to(&mut self, pc: usize, address: usize, reads: Option<usize>) {
        if self.spin.is_watched() {
            self.comes_watched(pc, address, reads);
        }
    }

    #[cold]
    #[inline(never)]
    fn comes_watched(&mut self, pc: usize, address: usize, reads: Option<usize>) {
        let spin = &mut self.spin;
        let epoch = spin.epoch.load(Relaxed);
        if spin.of != epoch {
            spin.begin(epoch);
        }
        if spin.knows(pc, address) {
            if reads.is_some() {
                let repeated = spin.repeated.load(Relaxed);
                spin.repeated.store(repeated + 1, Relaxed);
            }
            return;
        }
        if let Some(size) = reads
            && spin.read_count < READS
        {
            spin.reads[spin.read_count] = Read { address, size, pc };
            spin.read_count += 1;
        }
        self.leaves_loop();
        let spin = &mut self.spin;
        spin.repeated.store(0, Relaxed);
        let changes = spin.changes.load(Relaxed);
        spin.changes.store(changes + 1, Relaxed);
    }

    /// Something new: if it was in a loop, was that because of a write?
    fn leaves_loop(&mut self) {
        let spin = &self.spin;
        let repeated = spin.repeated.load(Relaxed);
        let because = match spin.suspicion.load(Relaxed) {
            suspicion::NONE => return,
            suspicion::WAITS => false,
            suspicion::WRITING => true,
            _ => repeated.saturating_sub(spin.repeated_at_write.load(Relaxed)) <= LATE_READS,
        };
        if because {
            tell(Message::Spin {
                thread: self.path.as_str(),
                address: spin.address.load(Relaxed) as u64,
                pc: spin.pc.load(Relaxed) as u64,
                reads: u64::from(repeated),
            });
        }
        spin.suspicion.store(suspicion::NONE, Relaxed);
        SUSPECT.store(core::ptr::null_mut(), Relaxed);
    }
}

/// The thread goes round in a loop that may wait for a write. Under the monitor's lock.
pub fn suspect(thread: &mut ControlThread) {
    thread.spin.suspicion.store(suspicion::WAITS, Relaxed);
    SUSPECT.store(thread, Relaxed);
}

/// Whether some thread is suspected, or this one's write was what it may have waited for.
#[inline(always)]
pub fn is_somebody_suspected(me: &ControlThread) -> bool {
    !SUSPECT.load(Relaxed).is_null() || !me.wrote_for.is_null()
}

/// A thread comes to its next hook: what it wrote before is done; what it writes now may be what
/// a loop waits for.
#[cold]
#[inline(never)]
pub fn comes_to_write(me: &mut ControlThread, write: Option<(usize, usize)>) {
    if !me.wrote_for.is_null() {
        // SAFETY: blocks of threads are never given back.
        let spin = unsafe { &(*me.wrote_for).spin };
        me.wrote_for = core::ptr::null_mut();
        spin.repeated_at_write
            .store(spin.repeated.load(Relaxed), Relaxed);
        let _ = spin.suspicion.compare_exchange(
            suspicion::WRITING,
            suspicion::WRITTEN,
            Relaxed,
            Relaxed,
        );
    }
    let suspect = SUSPECT.load(Relaxed);
    let Some((address, size)) = write else { return };
    if suspect.is_null() || core::ptr::eq(suspect, me) {
        return;
    }
    // SAFETY: blocks of threads are never given back; the reads are only added while the thread
    // meets new places, which ends the suspicion.
    let spin = unsafe { &(*suspect).spin };
    let reads = spin.reads[..spin.read_count.min(READS)].iter();
    for read in reads {
        if overlap(read.address, read.size, address, size) {
            spin.address.store(read.address as u64, Relaxed);
            spin.pc.store(read.pc as u64, Relaxed);
            spin.suspicion.store(suspicion::WRITING, Relaxed);
            me.wrote_for = suspect;
            return;
        }
    }
}
