//! Other processes that this one has started. What one of them is given may come back from any of them,
//! in whatever way: as bytes, as the end of a stream, as its own end.
//!
//! Only what nobody in this process receives counts as given to others, and only what nobody in this
//! process has sent as coming from them. A stream that both sides write is taken for our own.

use core::sync::atomic::{AtomicBool, Ordering};

use super::{Key, kind, receive, send, watching};

static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// All that goes to other processes.
pub fn key() -> Key {
    Key::new(kind::OUTSIDE, 0, 0)
}

#[inline]
pub fn are_there() -> bool {
    ARE_THERE.load(Ordering::Relaxed)
}

/// The running thread is about to start a process.
pub fn starts(pc: usize) {
    ARE_THERE.store(true, Ordering::Relaxed);
    given(pc);
}

/// The running thread has started a process by a call that was not seen to begin.
pub fn started() {
    ARE_THERE.store(true, Ordering::Relaxed);
}

/// The running thread is about to do what another process can notice.
pub fn given(pc: usize) {
    if are_there() && watching() {
        send(key(), pc);
    }
}

/// The running thread has noticed what another process did.
pub fn got(pc: usize) {
    if are_there() && watching() {
        receive(key(), pc);
    }
}
