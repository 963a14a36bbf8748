//! What replay and detection keep of one thread outside of the core.
//!
//! Other threads read a `ControlThread` at any time: everything in it is atomic or never changes,
//! but for `own`, which only the thread itself reaches, through an `Inside`. The block of a thread
//! is never used again for another.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    compiler_fence,
};

use norns_control::{HeldLocks, MOST_THREADS, Slot};

use crate::detect;
use crate::thread::Thread;

const PATH: usize = 96;

/// `T0.1.2`; the end of a name that does not fit is lost.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; PATH],
    length: usize,
}

impl Path {
    pub const fn main() -> Self {
        let mut bytes = [0; PATH];
        bytes[0] = b'T';
        bytes[1] = b'0';
        Self { bytes, length: 2 }
    }

    pub fn child(&self, ordinal: u32) -> Self {
        let mut path = *self;
        let _ = fmt::Write::write_fmt(&mut path, format_args!(".{ordinal}"));
        path
    }

    /// A thread whose creation was not seen.
    pub fn unknown(number: u32) -> Self {
        let mut path = Self {
            bytes: [0; PATH],
            length: 0,
        };
        let _ = fmt::Write::write_fmt(&mut path, format_args!("?{number}"));
        path
    }

    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("?")
    }
}

impl fmt::Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.length < PATH {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Values of `ControlThread::inside`.
mod inside {
    /// Runs the program, or what the runtime does without the core.
    pub const OUTSIDE: u32 = 0;
    pub const INSIDE: u32 = 1;
    /// Between `before` and `after` of an operation, with the monitor locked.
    pub const KEEPS_MONITOR: u32 = 2;
}

pub struct ControlThread {
    /// The runtime's number, which is the slot in the core's table. Never changes.
    pub number: u32,
    /// Never changes.
    pub path: Path,
    /// The thread sleeps on this word, which is changed to wake it.
    pub wake: AtomicU32,
    /// One of `inside`; only the thread itself changes it.
    inside: AtomicU32,
    /// The hooks of the thread have to tell the core where it is. Changed with the monitor locked.
    pub watched: AtomicBool,
    pub detached: AtomicBool,
    /// The kernel's number of the thread; 0 before it runs and once it has ended.
    pub kernel_id: AtomicI32,
    /// What the runtime keeps of this thread in every mode; null before it runs and once it has
    /// ended.
    pub runtime: AtomicPtr<Thread>,
    pub values: Watchdog,
    /// Only the thread itself uses this, and only through its one `Inside`; its joiner may once it
    /// has ended.
    own: UnsafeCell<Own>,
}

/// What the watchdog of another thread needs, in a recording with values.
pub struct Watchdog {
    /// How many accesses the thread has come to.
    pub events: AtomicU64,
    /// The write whose value is not logged yet; size 0: none.
    pub address: AtomicUsize,
    pub size: AtomicUsize,
    /// The number that the event has with which the turn was taken away; 0: it was not. Changed with
    /// the monitor locked, as what follows.
    pub taken_away: AtomicU64,
    /// The bytes of the write at that time.
    pub kept: AtomicUsize,
    pub bytes: [AtomicU8; KEPT],
}

impl Watchdog {
    /// The thread, which is the running one, has come to an access.
    #[inline(always)]
    pub fn count_event(&self) {
        let events = self.events.load(Ordering::Relaxed);
        self.events.store(events.wrapping_add(1), Ordering::Relaxed);
    }
}

/// How many bytes of a write are kept when its thread loses the turn.
pub const KEPT: usize = 64;

/// What only the thread itself uses.
pub struct Own {
    pub children: u32,
    /// For the detector, which must know in which mode a lock was held.
    pub held: HeldLocks,
    /// An access of the schedule has had its turn, and is done at the next hook.
    pub pending_access: bool,
    pub detect: Option<detect::Thread>,
}

// SAFETY: all fields are `Sync` but `own`, which only its thread reaches (`Inside::own`), or its
// creator before it runs and its joiner after its end (`ControlThread::own_of_absent`).
unsafe impl Sync for ControlThread {}

impl ControlThread {
    pub const fn new(number: u32, path: Path) -> Self {
        ControlThread {
            number,
            path,
            wake: AtomicU32::new(0),
            inside: AtomicU32::new(inside::OUTSIDE),
            watched: AtomicBool::new(false),
            detached: AtomicBool::new(false),
            kernel_id: AtomicI32::new(0),
            runtime: AtomicPtr::new(core::ptr::null_mut()),
            values: Watchdog {
                events: AtomicU64::new(0),
                address: AtomicUsize::new(0),
                size: AtomicUsize::new(0),
                taken_away: AtomicU64::new(0),
                kept: AtomicUsize::new(0),
                bytes: [const { AtomicU8::new(0) }; KEPT],
            },
            own: UnsafeCell::new(Own {
                children: 0,
                held: HeldLocks::new(),
                pending_access: false,
                detect: None,
            }),
        }
    }

    pub fn slot(&self) -> Slot {
        Slot(self.number)
    }

    pub fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed) != inside::OUTSIDE
    }

    /// Whether the thread has the monitor locked between `before` and `after` of an operation.
    pub fn keeps_monitor(&self) -> bool {
        self.inside.load(Ordering::Relaxed) == inside::KEEPS_MONITOR
    }

    /// The thread, which is the running one, has left the runtime by a jump.
    pub fn jumped_out(&self) {
        self.inside.store(inside::OUTSIDE, Ordering::Relaxed);
    }

    /// What the thread uses, for the thread that creates it and for the one that has joined it.
    ///
    /// # Safety
    /// The thread does not exist yet, or has ended, and the running thread is the only one that
    /// knows.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn own_of_absent(&self) -> &mut Own {
        // SAFETY: the thread itself, which alone uses `own`, does not run.
        unsafe { &mut *self.own.get() }
    }
}

/// The running thread, inside the runtime: hooks of signal handlers that interrupt it, and calls of
/// interposed functions, find it there and do nothing. There is at most one for each thread.
pub struct Inside {
    pub block: &'static ControlThread,
}

impl Inside {
    /// `None` when the thread is inside already.
    ///
    /// # Safety
    /// `block` is that of the running thread.
    #[inline(always)]
    pub unsafe fn enter(block: &'static ControlThread) -> Option<Self> {
        if block.is_inside() {
            return None;
        }
        block.inside.store(inside::INSIDE, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Inside { block })
    }

    #[inline(always)]
    pub fn own(&mut self) -> &mut Own {
        // SAFETY: `own` belongs to the running thread, and this is its only `Inside`, which is
        // borrowed for as long as the result lives.
        unsafe { &mut *self.block.own.get() }
    }

    /// Stays inside, with the monitor locked, until `take_back`.
    pub fn keep_monitor(self) {
        let block = self.block;
        core::mem::forget(self);
        block.inside.store(inside::KEEPS_MONITOR, Ordering::Relaxed);
    }

    /// What `keep_monitor` gave away.
    ///
    /// # Safety
    /// `block` is that of the running thread.
    pub unsafe fn take_back(block: &'static ControlThread) -> Option<Self> {
        if !block.keeps_monitor() {
            return None;
        }
        block.inside.store(inside::INSIDE, Ordering::Relaxed);
        Some(Inside { block })
    }

    /// Does something outside, as the program would.
    pub fn outside(&mut self, act: impl FnOnce()) {
        self.block.jumped_out();
        act();
        self.block.inside.store(inside::INSIDE, Ordering::Relaxed);
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.block.inside.store(inside::OUTSIDE, Ordering::Relaxed);
    }
}

/// The blocks of all threads by their numbers. Entries are only added, and blocks are never given
/// back, until a forked child begins anew.
static BLOCKS: [AtomicPtr<ControlThread>; MOST_THREADS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST_THREADS];
/// Behind the last entry of `BLOCKS`.
static END: AtomicU32 = AtomicU32::new(0);

/// Makes a block known; false when there is no place for its number.
pub fn register(block: &'static ControlThread) -> bool {
    let Some(place) = BLOCKS.get(block.number as usize) else {
        return false;
    };
    END.fetch_max(block.number + 1, Ordering::Relaxed);
    place.store((&raw const *block).cast_mut(), Ordering::Release);
    true
}

pub fn numbered(number: u32) -> Option<&'static ControlThread> {
    let block = BLOCKS.get(number as usize)?.load(Ordering::Acquire);
    // SAFETY: `register` stored a reference that lives for ever.
    unsafe { block.as_ref() }
}

/// The child process after a fork.
pub fn forget_all() {
    let end = END.swap(0, Ordering::Relaxed) as usize;
    for place in &BLOCKS[..end.min(MOST_THREADS)] {
        place.store(core::ptr::null_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{ControlThread, Inside, Path};

    #[test]
    fn a_thread_is_inside_once() {
        static BLOCK: ControlThread = ControlThread::new(7, Path::main());
        let block = &BLOCK;
        // SAFETY: no other thread knows the block.
        let enter = || unsafe { Inside::enter(block) };
        // SAFETY: as above.
        let take_back = || unsafe { Inside::take_back(block) };
        let mut inside = enter().expect("the thread is outside");
        inside.own().children += 1;
        assert!(enter().is_none() && take_back().is_none());
        inside.keep_monitor();
        assert!(enter().is_none() && block.keeps_monitor());
        drop(take_back().expect("the monitor was kept"));
        assert!(!block.is_inside());
        assert_eq!(enter().expect("the thread is outside").own().children, 1);
    }

    #[test]
    fn paths_name_the_way_from_the_main_thread() {
        assert_eq!(Path::main().child(3).child(12).as_str(), "T0.3.12");
        assert_eq!(Path::unknown(5).as_str(), "?5");
        let long = (0..60).fold(Path::main(), |path, _| path.child(1));
        assert!(long.as_str().starts_with("T0.1.1.1"));
    }
}
