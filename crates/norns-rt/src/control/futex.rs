//! Waiting without the C library: raw futexes, and the lock of the monitor.
//!
//! A race detector does not see these operations, so they add no happens-before edge.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

const WAIT_PRIVATE: usize = 128;
const WAKE_PRIVATE: usize = 129;
const CLOCK_GETTIME: usize = 228;

/// Clocks of the kernel: monotonic time, and processor time of the whole process.
pub const MONOTONIC: i32 = 1;
pub const PROCESS_TIME: i32 = 2;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// Nanoseconds of a clock of the kernel; 0 is the time of day, 1 the monotonic clock.
pub fn now(clock: i32) -> i64 {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: the kernel writes 16 bytes to `time`.
    unsafe { sys::call(CLOCK_GETTIME, clock as usize, &raw mut time as usize, 0) };
    time.seconds * 1_000_000_000 + time.nanoseconds
}

/// Converts a time of any clock to the monotonic clock, assuming that neither clock is set
/// meanwhile.
pub fn monotonic(clock: i32, time: i64) -> i64 {
    if clock == MONOTONIC {
        return time;
    }
    now(MONOTONIC).saturating_add(time.saturating_sub(now(clock)))
}

/// Sleeps while the word has this value, at most for so many nanoseconds. Returns the kernel's
/// result: 0, or a negated error number.
pub fn wait(word: &AtomicU32, value: u32, nanoseconds: Option<i64>) -> isize {
    let time = nanoseconds.map(|n| Timespec {
        seconds: n.max(0) / 1_000_000_000,
        nanoseconds: n.max(0) % 1_000_000_000,
    });
    let time = time.as_ref().map_or(0, |time| &raw const *time as usize);
    // SAFETY: the kernel reads the word and the time, both alive until the call returns.
    unsafe {
        sys::call6(
            sys::FUTEX,
            word.as_ptr() as usize,
            WAIT_PRIVATE,
            value as usize,
            time,
            0,
            0,
        )
    }
}

pub fn wake(word: &AtomicU32, count: usize) {
    // SAFETY: the kernel only looks for sleepers at this address.
    unsafe { sys::call(sys::FUTEX, word.as_ptr() as usize, WAKE_PRIVATE, count) };
}

/// A lock of one word: 0 free, 1 taken, 2 taken and perhaps waited for.
pub struct FutexLock {
    word: AtomicU32,
}

impl FutexLock {
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
        }
    }

    pub fn lock(&self) {
        if self
            .word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while self.word.swap(2, Ordering::Acquire) != 0 {
                wait(&self.word, 2, None);
            }
        }
    }

    pub fn unlock(&self) {
        if self.word.swap(0, Ordering::Release) == 2 {
            wake(&self.word, 1);
        }
    }

    /// In the child process after a fork, which has one thread.
    pub fn reset(&self) {
        self.word.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::{FutexLock, wait, wake};

    struct Counter(UnsafeCell<u32>);
    // SAFETY: the test adds to the counter with its lock held only.
    unsafe impl Sync for Counter {}

    #[test]
    fn the_lock_lets_in_one_of_concurrent_threads() {
        let lock = FutexLock::new();
        let counter = Counter(UnsafeCell::new(0));
        let add = || {
            let counter = &counter;
            for _ in 0..5000 {
                lock.lock();
                // SAFETY: `lock` is held.
                unsafe { *counter.0.get() += 1 };
                lock.unlock();
            }
        };
        thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(add));
            // The end of a scope alone is no synchronisation that ThreadSanitizer sees.
            for thread in threads {
                thread.join().expect("no assertion in it");
            }
        });
        assert_eq!(counter.0.into_inner(), 20_000);
    }

    #[test]
    fn a_concurrent_thread_wakes_a_sleeper() {
        let word = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Relaxed) == 0 {
                    wait(&word, 0, None);
                }
            });
            word.store(1, Ordering::Relaxed);
            wake(&word, 1);
        });
    }
}
