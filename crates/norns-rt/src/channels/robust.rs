//! Robust mutexes: whoever ends while holding one comes before who is told so. Which mutexes a thread
//! holds at its end is not asked, so that all ends of threads count once there is a robust mutex.

use core::sync::atomic::{AtomicBool, Ordering};

use super::{Key, kind, receive, send};

static ARE_THERE: AtomicBool = AtomicBool::new(false);

fn key() -> Key {
    Key::new(kind::ROBUST, 0, 0)
}

/// The program has made a robust mutex.
pub fn made() {
    ARE_THERE.store(true, Ordering::Relaxed);
}

/// The running thread is about to end.
pub fn owner_may_end() {
    if ARE_THERE.load(Ordering::Relaxed) {
        send(key(), 0);
    }
}

/// A lock has said that its owner ended with it.
pub fn owner_has_ended(pc: usize) {
    receive(key(), pc);
}
