//! Which threads wait on a condition that nobody has woken since their wait began.
//!
//! POSIX allows to destroy a condition as soon as no thread is blocked on it, also while those that were
//! woken still return. So a wait counts only until the next signal or broadcast, whomever that wakes.
//! Conditions share counters of wakes by a hash of their address: where two of them do, a wake of the one
//! hides the waits on the other. More waits at a time than there are places are not followed.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::mode::is_recording;

const PLACES: usize = 256;
const COUNTERS: usize = 1024;
/// The content of a place that a thread has claimed and not yet filled.
const CLAIMED: usize = 1;

struct Place {
    /// The address of the condition; 0 while the place is free.
    condition: AtomicUsize,
    /// How many wakes there were when the wait began.
    wakes: AtomicU32,
}

static WAITS: [Place; PLACES] = [const {
    Place {
        condition: AtomicUsize::new(0),
        wakes: AtomicU32::new(0),
    }
}; PLACES];

static WAKES: [AtomicU32; COUNTERS] = [const { AtomicU32::new(0) }; COUNTERS];

/// A wait that is followed.
#[derive(Clone, Copy)]
pub struct Wait(usize);

fn wakes_of(condition: usize) -> &'static AtomicU32 {
    // Conditions are at least eight bytes apart.
    &WAKES[(condition >> 3) % COUNTERS]
}

/// A thread is about to wait.
pub fn begin(condition: usize) -> Option<Wait> {
    if is_recording() {
        follow(condition)
    } else {
        None
    }
}

fn follow(condition: usize) -> Option<Wait> {
    let wakes = wakes_of(condition).load(Ordering::SeqCst);
    let claim = |place: &Place| {
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        let claim = { &place.condition }.compare_exchange(0, CLAIMED, order.0, order.1);
        claim.is_ok()
    };
    let free = WAITS.iter().position(claim)?;
    WAITS[free].wakes.store(wakes, Ordering::SeqCst);
    WAITS[free].condition.store(condition, Ordering::SeqCst);
    Some(Wait(free))
}

/// The wait is over.
pub fn end(wait: Option<Wait>) {
    if let Some(Wait(place)) = wait {
        WAITS[place % PLACES].condition.store(0, Ordering::SeqCst);
    }
}

/// A signal or broadcast comes.
pub fn wake(condition: usize) {
    if is_recording() {
        wakes_of(condition).fetch_add(1, Ordering::SeqCst);
    }
}

/// Whether a thread waits on the condition that nobody has woken since its wait began.
pub fn is_waited_for(condition: usize) -> bool {
    let wakes = wakes_of(condition).load(Ordering::SeqCst);
    WAITS.iter().any(|place| {
        place.condition.load(Ordering::SeqCst) == condition
            && place.wakes.load(Ordering::SeqCst) == wakes
    })
}

/// In the child process after a fork, whose only thread does not wait.
pub fn forget() {
    for place in &WAITS {
        place.condition.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_until_a_wake() {
        let condition = 0x7000_0000_1000;
        assert!(!is_waited_for(condition));
        let first = follow(condition);
        assert!(is_waited_for(condition));
        wakes_of(condition).fetch_add(1, Ordering::SeqCst);
        assert!(!is_waited_for(condition));
        let second = follow(condition);
        end(first);
        assert!(is_waited_for(condition));
        end(second);
        assert!(!is_waited_for(condition));
    }
}
