//! Random priorities: the last try at a bug whose schedule could not be followed.
//!
//! Follows PCT (Burckhardt et al. 2010): every thread has a random priority, only the thread with
//! the highest one that can run does, and at a few random points the running thread falls behind all
//! others. Here it is done at synchronisation operations and at the places of the predicted bug,
//! where threads also linger (`hold`). A thread with a higher priority that does not come to a point
//! (it computes, or sleeps in a system call) is waited for some milliseconds only, so the guarantee
//! of the paper does not hold to the letter.

use norns_random::Random;

use super::{Decision, Policy};
use crate::board::Board;
use crate::event::{Question, Turn};
use crate::thread::{Activity, Slot, Stage};

const CHANGES: usize = 3;
const WAITS_FOR: i64 = 30_000_000;
const LOOK: i64 = 1_000_000;
/// How often a thread may wait in vain in all.
const PATIENCE: u32 = 60;

pub struct Priorities {
    random: Random,
    /// At which points the running thread falls behind, counted over all threads.
    changes: [u64; CHANGES],
    points: u64,
    patience: u32,
    lowest: u32,
}

impl Priorities {
    /// `points` is about how many scheduling points there will be.
    pub fn new(seed: u64, points: u64) -> Self {
        let mut priorities = Self {
            random: Random::new(seed),
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

    fn draw(&mut self) -> u64 {
        self.random.draw() >> 33
    }

    /// The priority of a new thread; above those that threads fall to.
    pub fn of_new_thread(&mut self) -> u32 {
        CHANGES as u32 + 1 + self.draw() as u32
    }

    /// The thread has come to a point, at which its priority may fall.
    pub fn arrive(&mut self, board: &mut Board, me: Slot) {
        self.points += 1;
        if self.changes.contains(&self.points) {
            self.lowest = self.lowest.saturating_sub(1);
            board.thread_mut(me).priority = self.lowest;
        }
        // Threads of lower priority that waited for this one may go on if it waits.
        board.wake_all();
        let until = board.now + WAITS_FOR;
        board.thread_mut(me).stage = Stage::Yields { until };
    }
}

impl Policy for Priorities {
    /// Lets threads of higher priority go first.
    fn decide(&mut self, board: &mut Board, me: Slot) -> Result<Decision, Question> {
        let Stage::Yields { until } = board.thread(me).stage else {
            return Ok(Decision::Go(Turn::Free));
        };
        let mine = board.thread(me).priority;
        let waits = board.threads().any(|(slot, thread)| {
            slot != me
                && thread.alive
                && thread.priority > mine
                && matches!(thread.activity, Activity::Running | Activity::AtPoint)
        });
        if !waits || self.patience == 0 {
            return Ok(Decision::Go(Turn::Free));
        }
        if board.now >= until {
            self.patience -= 1;
            return Ok(Decision::Go(Turn::Free));
        }
        Ok(Decision::Sleep(Some(LOOK)))
    }
}
