//! What the caller of the core takes from it and looks at, and the objects that it emulates.

use crate::board::Schedule;
use crate::core::Core;
use crate::deadlock::{Cycle, find_cycle};
use crate::event::{Effect, Line, Once, Operation};
use crate::held::HeldLock;
use crate::thread::{Activity, Slot};

impl<'m> Core<'m> {
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.board.next_effect()
    }

    pub fn next_line(&mut self) -> Option<Line> {
        self.board.next_line()
    }

    /// Whether a loop is suspected to wait for a write: then every thread that is about to write
    /// says so (`Happened::Writes`).
    pub fn is_any_suspected(&self) -> bool {
        self.board.suspect.is_some()
    }

    /// Whether an access of the schedule had its turn and is not done: the next hook must come here.
    pub fn has_pending_access(&self, who: Slot) -> bool {
        self.board
            .get(who)
            .is_some_and(|thread| thread.pending_access)
    }

    /// The time that the core was told last.
    pub fn now(&self) -> i64 {
        self.board.now
    }

    pub fn started(&self) -> bool {
        self.board.started
    }

    pub fn schedule(&self) -> Schedule<'m> {
        self.board.schedule.unwrap_or(Schedule::empty())
    }

    /// How many steps of the schedule are done.
    pub fn cursor(&self) -> usize {
        self.board.cursor
    }

    pub fn is_turn_of(&self, who: Slot) -> bool {
        self.serial.is_turn_of(who)
    }

    pub fn activity(&self, slot: Slot) -> Option<Activity> {
        Some(self.board.get(slot)?.activity)
    }

    pub fn holds(&self, slot: Slot, lock: usize) -> bool {
        self.board
            .get(slot)
            .is_some_and(|thread| thread.held.contains(lock))
    }

    /// Threads that seem to run.
    pub fn running(&self) -> impl Iterator<Item = Slot> {
        let threads = self.board.threads();
        let running =
            threads.filter(|(_, thread)| thread.activity == Activity::Running && thread.alive);
        running.map(|(slot, _)| slot)
    }

    /// Threads that cannot go on, and in which operation.
    pub fn blocked_threads(&self) -> impl Iterator<Item = (Slot, Operation)> {
        self.board
            .threads()
            .filter_map(|(slot, thread)| match thread.activity {
                Activity::Blocked { operation, .. } => Some((slot, operation)),
                _ => None,
            })
    }

    /// Who holds this lock.
    pub fn holders(&self, lock: usize) -> impl Iterator<Item = (Slot, HeldLock)> {
        self.board.threads().flat_map(move |(slot, thread)| {
            let held = thread.held.iter();
            held.filter(move |held| held.address == lock)
                .map(move |held| (slot, *held))
        })
    }

    /// The cycle of lock holders through this thread.
    pub fn cycle(&self, who: Slot) -> Option<Cycle> {
        self.board.get(who)?;
        find_cycle(&self.board, who)
    }

    pub fn init_barrier(&mut self, barrier: usize, count: u32) {
        self.board.barriers.init(barrier, count);
    }

    pub fn knows_barrier(&self, barrier: usize) -> bool {
        self.board.barriers.round(barrier).is_some()
    }

    /// One more thread is there: the round it belongs to, and whether it completes it.
    pub fn arrive_at_barrier(&mut self, barrier: usize) -> (u32, bool) {
        self.board.barriers.arrive(barrier)
    }

    /// What a thread has to do that has come to a once. `done`: its word says that the initialiser
    /// has run. `runs_elsewhere`: the C library runs it.
    pub fn try_once(&mut self, word: usize, done: bool, runs_elsewhere: bool) -> Once {
        let onces = &mut self.board.onces;
        if done || onces.has_ended(word) {
            Once::Pass
        } else if onces.is_running(word) || runs_elsewhere {
            Once::Wait
        } else {
            Once::Run
        }
    }

    /// The thread runs the initialiser; false when there is no room to remember it.
    pub fn run_once(&mut self, word: usize) -> bool {
        self.board.onces.run(word)
    }

    pub fn once_ended_before_store(&mut self, word: usize) {
        self.board.onces.end_before_store(word);
    }

    pub fn forget_once(&mut self, word: usize) {
        self.board.onces.forget(word);
    }
}
