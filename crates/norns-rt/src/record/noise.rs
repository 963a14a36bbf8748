//! Random delays before synchronisation operations, before accesses that are new in their segment
//! and at the start of a thread, so that one program gives other recordings. Off unless
//! `NORNS_SEED` is set.
//!
//! Some threads are slow and some are not, as if they had random priorities (Burckhardt et al.
//! 2010, PCT). Delays become rare as a thread goes on, so that a long run is not much longer.
//! What a thread is made to do depends on the seed, its number and how much it did, not on time;
//! what comes of it still depends on the machine.

use core::sync::atomic::{AtomicU64, Ordering};

use norns_random::Random;

use crate::thread::Thread;
use crate::{sys, thread};

/// 0: no delays.
static SEED: AtomicU64 = AtomicU64::new(0);

const NANOSLEEP: usize = 35;
/// Delays are between these, each size as likely as its double, in nanoseconds.
const SHORTEST: u64 = 8_000;
const DOUBLINGS: u64 = 10;

/// Parses a decimal number.
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

/// Perhaps delays the running thread.
#[inline(always)]
pub fn delay() {
    let seed = SEED.load(Ordering::Relaxed);
    if seed != 0 {
        draw(seed);
    }
}

/// A random number that depends on the seed, the thread and how many it has drawn.
pub fn drawn(thread: &mut Thread, seed: u64) -> u64 {
    let of_thread = seed.wrapping_add(u64::from(thread.number) << 32);
    thread.draws = thread.draws.wrapping_add(1);
    Random::new(of_thread.wrapping_add(thread.draws.into())).draw() >> 11
}

#[cold]
fn draw(seed: u64) {
    let Some(thread) = thread::current() else {
        return;
    };
    let of_thread = seed.wrapping_add(u64::from(thread.number) << 32);
    thread.draws = thread.draws.saturating_add(1);
    let x = Random::new(of_thread.wrapping_add(thread.draws.into())).draw();
    // How often this thread sleeps: never, now and then, or at nearly every chance.
    let one_in = match Random::new(of_thread).draw() >> 61 {
        0 | 1 => return,
        2..=4 => 6,
        _ => 2,
    };
    let one_in = one_in + u64::from(thread.draws / 8);
    match (x >> 32) % one_in {
        0 => {
            let longest = SHORTEST << ((x >> 8) % DOUBLINGS);
            let pause = [0_u64, longest / 2 + (x >> 16) % longest];
            // SAFETY: the call reads two words, seconds and nanoseconds, and writes nothing.
            unsafe { sys::call(NANOSLEEP, pause.as_ptr() as usize, 0, 0) };
        }
        1 => sys::yield_now(),
        _ => {}
    }
}
