//! What a new thread is told by the one that creates it: what its creator knows, it knows.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

use super::order::Known;
use crate::thread::Start;

const ROOM: usize = 256;

struct Birth {
    taken: AtomicBool,
    told: UnsafeCell<Told>,
}

#[derive(Clone, Copy)]
pub struct Told {
    pub start: Start,
    pub argument: *mut c_void,
    /// Under which task it was created.
    pub seen: u32,
    pub known: Known,
}

// SAFETY: `told` belongs to whoever has set `taken`, and then to the new thread, which clears it.
unsafe impl Sync for Birth {}

static BIRTHS: [Birth; ROOM] = [const {
    Birth {
        taken: AtomicBool::new(false),
        told: UnsafeCell::new(Told {
            start: Start::Nothing,
            argument: core::ptr::null_mut(),
            seen: 0,
            known: Known::UNKNOWN,
        }),
    }
}; ROOM];

/// Keeps it for a thread that is about to be created, which is given the result. `None` if too many threads are
/// just being created.
pub fn tell(told: Told) -> Option<*mut c_void> {
    let is_free = |birth: &&Birth| !birth.taken.swap(true, Ordering::Acquire);
    let birth = BIRTHS.iter().find(is_free)?;
    // SAFETY: `taken` was clear and is ours now.
    unsafe { birth.told.get().write(told) };
    Some(birth as *const Birth as *mut c_void)
}

/// What the running thread was told, if it was created with something of `tell`.
pub fn told(block: *mut c_void) -> Option<Told> {
    let birth = find(block)?;
    // SAFETY: `tell` has written it, and gave it to this thread alone.
    let told = unsafe { birth.told.get().read() };
    birth.taken.store(false, Ordering::Release);
    Some(told)
}

/// The thread was not created.
pub fn forget(block: *mut c_void) {
    if let Some(birth) = find(block) {
        birth.taken.store(false, Ordering::Release);
    }
}

fn find(block: *mut c_void) -> Option<&'static Birth> {
    let offset = (block as usize).wrapping_sub(BIRTHS.as_ptr() as usize);
    BIRTHS.get(offset / size_of::<Birth>())
}

/// In the child process after a fork.
pub fn forget_all() {
    for birth in &BIRTHS {
        birth.taken.store(false, Ordering::Relaxed);
    }
}
