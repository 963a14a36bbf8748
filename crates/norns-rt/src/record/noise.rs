//! Small random delays before synchronisation operations, so that one program gives other
//! recordings. Off unless `NORNS_SEED` is set.
//!
//! What a thread is made to do depends on the seed, its number and how many operations it did, not
//! on time; what comes of it still depends on the machine.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::{sys, thread};

/// 0: no delays.
static SEED: AtomicU64 = AtomicU64::new(0);

const NANOSLEEP: usize = 35;
const LONGEST: u64 = 200_000;

/// A decimal number; anything else is none.
pub fn number(text: &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for &digit in text {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'));
    }
    Some(number)
}

pub fn set_seed(seed: u64) {
    SEED.store(seed.wrapping_add(1).max(1), Ordering::Relaxed);
}

/// Lets other threads go first, or not.
#[inline(always)]
pub fn delay() {
    let seed = SEED.load(Ordering::Relaxed);
    if seed != 0 {
        draw(seed);
    }
}

#[cold]
fn draw(seed: u64) {
    let Some(thread) = thread::current() else {
        return;
    };
    if thread.noise == 0 {
        thread.noise = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(thread.number) + 1);
    }
    // Xorshift (Marsaglia 2003); never 0.
    let mut x = thread.noise.max(1);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    thread.noise = x;
    match x % 8 {
        0 => {
            let pause = [0_u64, (x >> 8) % LONGEST];
            // SAFETY: the call reads two words, seconds and nanoseconds, and writes nothing.
            unsafe { sys::call(NANOSLEEP, pause.as_ptr() as usize, 0, 0) };
        }
        1 | 2 => sys::yield_now(),
        _ => {}
    }
}
