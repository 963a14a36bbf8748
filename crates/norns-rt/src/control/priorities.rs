//! Random priorities: the last try at a bug whose schedule could not be followed.
//!
//! Follows PCT (Burckhardt et al. 2010): every thread has a random priority, only the thread with
//! the highest one that can run does, and at a few random points the running thread falls behind all
//! others. Here it is done at synchronisation operations and at the places of the predicted bug,
//! where threads also linger (`hold`). A thread with a higher priority that does not come to a point
//! (it computes, or sleeps in a system call) is waited for some milliseconds only, so the guarantee
//! of the paper does not hold to the letter.

use super::futex;
use super::monitor::Guard;
use super::thread::{Activity, ControlThread};
use crate::wire::environment;

const CHANGES: usize = 3;
const WAITS_FOR: i64 = 30_000_000;
/// How often a thread may wait in vain in all.
const PATIENCE: u32 = 60;

pub struct Priorities {
    random: u64,
    /// At which points the running thread falls behind, counted over all threads.
    changes: [u64; CHANGES],
    points: u64,
    patience: u32,
    lowest: u32,
}

impl Priorities {
    pub fn new(environment::Priorities { seed, points }: environment::Priorities) -> Self {
        let mut priorities = Self {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            changes: [0; CHANGES],
            points: 0,
            patience: PATIENCE,
            lowest: CHANGES as u32,
        };
        for at in 0..CHANGES {
            priorities.changes[at] = 1 + priorities.draw() % points.max(1);
        }
        priorities
    }

    /// Xorshift (Marsaglia 2003) with a multiplication.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// The priority of a new thread; above those that threads fall to.
    pub fn of_new_thread(&mut self) -> u32 {
        CHANGES as u32 + 1 + self.draw() as u32
    }

    /// One more point: the priority that its thread has from here on.
    fn at_point(&mut self, priority: u32) -> u32 {
        self.points += 1;
        if self.changes.contains(&self.points) {
            self.lowest = self.lowest.saturating_sub(1);
            return self.lowest;
        }
        priority
    }
}

impl Guard {
    /// Lets threads of higher priority go first. The activity of `me` says that it is at a point.
    pub fn yield_to_higher(&mut self, me: &mut ControlThread) {
        let Some(priorities) = &mut self.priorities else {
            return;
        };
        me.priority = priorities.at_point(me.priority);
        // Threads of lower priority that waited for this one may go on if it waits.
        self.wake_all();
        let end = futex::now(1) + WAITS_FOR;
        loop {
            // A thread that is about to be created does not run yet.
            let goes_first = |thread: &ControlThread| {
                thread.number != me.number
                    && !thread.runtime.is_null()
                    && thread.priority > me.priority
                    && matches!(thread.activity, Activity::Running | Activity::AtPoint)
            };
            let waits = self.threads().any(|thread| goes_first(thread));
            let Some(priorities) = &mut self.priorities else {
                return;
            };
            if !waits || priorities.patience == 0 {
                return;
            }
            if futex::now(1) >= end {
                priorities.patience -= 1;
                return;
            }
            self.sleep(me, Some(1_000_000));
        }
    }
}
