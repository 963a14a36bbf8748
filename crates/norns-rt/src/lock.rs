//! A spin lock for the few things that threads share inside the runtime, none of them hot.
//!
//! All signals are blocked while it is held, so a handler never finds it held by its own thread.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lets one thread at a time reach the value.
unsafe impl<T> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Lock {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let signals = sys::block_signals();
        while self.held.swap(true, Ordering::Acquire) {
            sys::yield_now();
        }
        // SAFETY: `held` is ours until it is cleared below; `act` cannot unwind (panics abort).
        let result = act(unsafe { &mut *self.value.get() });
        self.held.store(false, Ordering::Release);
        sys::restore_signals(signals);
        result
    }

    /// In the child process after a fork, where the holder may no longer exist.
    pub fn force(&self, act: impl FnOnce(&mut T)) {
        // SAFETY: the child has one thread, this one.
        act(unsafe { &mut *self.value.get() });
        self.held.store(false, Ordering::Release);
    }
}
