//! What threads share inside the runtime, used by real threads at the same time. `./test` runs these
//! tests under ThreadSanitizer too, with one test at a time.
//!
//! The standard library is not instrumented there. So nothing but starting and joining threads,
//! which ThreadSanitizer sees by itself, may order what these tests do.

use std::thread;

use norns_random::Random;

use crate::detect::{Detector, Kind, Name};
use crate::lock::Lock;

const THREADS: u32 = 4;
const ROUNDS: u32 = 2000;

#[test]
fn a_lock_lets_one_thread_at_a_time_in() {
    let count = Lock::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| count.with(|count| *count += 1)));
        }
    });
    assert_eq!(count.with(|count| *count), THREADS * ROUNDS);
}

#[test]
fn a_block_belongs_to_one_thread_at_a_time() {
    thread::scope(|scope| {
        for name in 1..=THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS / 10 {
                    let block = crate::thread::allocate();
                    assert!(!block.is_null());
                    // SAFETY: `allocate` hands a block to one caller until `release`, which is
                    // what this test is about.
                    unsafe {
                        (*block).children = name * ROUNDS + round;
                        thread::yield_now();
                        assert_eq!((*block).children, name * ROUNDS + round);
                        crate::thread::release(block);
                    }
                }
            });
        }
    });
}

/// Locked accesses never race, and of unlocked ones some do.
#[test]
fn the_detector_is_shared_by_threads() {
    let (lock, object) = (Lock::new(()), 0x10);
    let detector = Detector::new().expect("address space for a detector");
    let mut main = detector.thread(Name(0), None).expect("a first slot");
    let threads: Vec<_> = (1..=THREADS)
        .map(|name| {
            detector
                .thread(Name(name), Some(&mut main))
                .expect("a slot")
        })
        .collect();
    let races: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..)
            .zip(threads)
            .map(|(seed, mut me)| {
                let (detector, lock) = (&detector, &lock);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let mut races = 0;
                    for _ in 0..ROUNDS {
                        let address = 0x7fff_f000_0000 + 8 * random.below(64);
                        let kind = random.pick(&[Kind::Read, Kind::Write]);
                        lock.with(|()| {
                            detector.acquire(&mut me, object);
                            detector.access(&mut me, address, 8, kind, 1, |_| {
                                panic!("a race between locked accesses")
                            });
                            detector.release(&mut me, object);
                        });
                        detector.access(&mut me, address + 4096, 8, kind, 2, |_| races += 1);
                    }
                    races
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum()
    });
    assert!(races > 0);
}
