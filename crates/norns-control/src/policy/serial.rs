//! One thread at a time: who runs next in a recording with values.
//!
//! The thread whose turn it is runs the program; all others sleep in the core. It gives the turn
//! away at synchronisation operations, when it blocks, when it has made many accesses without one (a
//! loop that waits for a variable must not wait for ever), and around calls that sleep in the
//! kernel. A blocked operation is tried again when another thread has changed its object.
//!
//! Even seeds walk at random: one operation in four lets any other thread go on. Odd seeds draw a
//! priority for each thread, and now and then one falls to the lowest (PCT, Burckhardt et al.
//! 2010): this reaches the schedules in which a thread is far ahead of the others, which a walk
//! almost never does.
//!
//! The same seed gives the same run of a program whose input is the same. For that, time is counted
//! in decisions: a wait with a time-out ends when no other thread can run, or after as many
//! decisions as would take so long. How long a system call sleeps is not controlled.
//!
//! A thread that sleeps where that was not foreseen loses its turn to a watchdog, which every
//! waiting thread is. It then runs beside another one until its next hook, so that what it does
//! between is not captured exactly; how often this happened is counted.

use norns_random::Random;
use norns_wire::Code;

use super::{Decision, Policy};
use crate::board::Board;
use crate::deadlock::all_blocked;
use crate::event::{Operation, Question, Turn, Waking};
use crate::thread::{Activity, Slot, Stage, Then};

/// Priorities are drawn above this, and those that fall count down from it.
const LOWEST: u64 = 1 << 32;
/// Nanoseconds that a decision stands for.
const DECISION: i64 = 10_000;
/// One in so many operations lets another thread go on, or makes a thread's priority the lowest.
const SWITCH: u64 = 4;
const CHANGE: u64 = 16;
/// How often a waiting thread looks at the one whose turn it is, and one that is blocked at what
/// another process may have changed.
const WATCH: i64 = 20_000_000;
const LOOK_AGAIN: i64 = 100_000_000;
/// When a thread has lost its turn: so long without an event and asleep, or so much processor time
/// without one (in hundredths of a second), or so long without taking a turn that it was given.
const ASLEEP: i64 = 30_000_000;
const BUSY: u64 = 50;
const LATE: i64 = 1_000_000_000;

/// The address of an operation that no change of an object ends: a sleep.
pub const NO_OBJECT: usize = usize::MAX;

pub struct Serial {
    pub on: bool,
    /// `None` while no thread can run.
    turn: Option<Slot>,
    /// The thread that has the turn has woken up and runs.
    taken: bool,
    random: Random,
    /// Whether priorities decide; the one that falls next gets the lowest.
    by_priority: bool,
    lowest: u64,
    /// Time, counted in decisions.
    now: i64,
    decisions: u64,
    /// Another process may release something.
    pub shared_objects: bool,
    watched: Watched,
}

/// What the watchdog saw, and when.
#[derive(Clone, Copy)]
struct Watched {
    decisions: u64,
    events: u64,
    since: i64,
    processor: u64,
}

/// What this mode knows of one thread.
#[derive(Clone, Copy)]
pub struct SerialThread {
    /// Goes on as soon as it gets the turn.
    pub ready: bool,
    /// 0 before it is drawn.
    priority: u64,
    /// When its wait ends by itself, in `Serial::now`; 0: it does not.
    pub deadline: i64,
    /// The same on the monotonic clock.
    pub until: i64,
    /// A signal ends the wait.
    pub interruptible: bool,
    pub interrupted: bool,
    /// `pthread_cancel` was called for it.
    pub cancelled: bool,
    /// Its last wait ended because its time was over.
    pub timed_out: bool,
}

impl SerialThread {
    pub const fn new() -> Self {
        SerialThread {
            ready: false,
            priority: 0,
            deadline: 0,
            until: 0,
            interruptible: false,
            interrupted: false,
            cancelled: false,
            timed_out: false,
        }
    }
}

/// Whether a cancelled thread ends in this operation. `Turn` stands for a sleep.
pub fn is_cancellation_point(code: Code) -> bool {
    matches!(code, Code::Wait | Code::SemWait | Code::Join | Code::Turn)
}

/// What a point asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Others may go on.
    Operation,
    /// Others go on, if any can.
    LetsOthersGo,
}

impl Serial {
    pub const OFF: Serial = Serial {
        on: false,
        turn: None,
        taken: false,
        random: Random::new(0),
        by_priority: false,
        lowest: 0,
        now: 0,
        decisions: 0,
        shared_objects: false,
        watched: Watched {
            decisions: 0,
            events: 0,
            since: 0,
            processor: 0,
        },
    };

    pub fn new(seed: u64, first: Slot) -> Self {
        Serial {
            on: true,
            turn: Some(first),
            taken: true,
            random: Random::new(seed),
            by_priority: seed % 2 == 1,
            lowest: LOWEST,
            now: 1,
            ..Serial::OFF
        }
    }

    /// The child process after a fork has one thread, which goes on with its turn.
    pub fn forked(&mut self, only: Slot) {
        self.turn = Some(only);
        self.taken = true;
    }

    pub fn is_turn_of(&self, slot: Slot) -> bool {
        self.turn == Some(slot)
    }

    /// The thread that has the turn has run for so many nanoseconds.
    pub fn run_for(&mut self, nanoseconds: i64) {
        self.now = self.now.saturating_add(nanoseconds);
    }

    fn draw(&mut self) -> u64 {
        self.random.draw() >> 11
    }

    /// The thread's priority, drawn when it is first needed.
    fn priority(&mut self, board: &mut Board, slot: Slot) -> u64 {
        if board.thread(slot).serial.priority == 0 {
            let drawn = LOWEST + 1 + self.draw() % LOWEST;
            board.thread_mut(slot).serial.priority = drawn;
        }
        board.thread(slot).serial.priority
    }

    fn can_run(&self, board: &Board, slot: Slot, except: Option<Slot>) -> bool {
        board.get(slot).is_some_and(|thread| {
            let serial = &thread.serial;
            let due = serial.deadline != 0 && serial.deadline <= self.now;
            (serial.ready || due) && Some(slot) != except
        })
    }

    /// Chooses one of the threads that can run.
    fn draw_next(&mut self, board: &mut Board, except: Option<Slot>) -> Option<Slot> {
        if self.by_priority {
            let mut highest = None;
            for slot in board.slots() {
                if self.can_run(board, slot, except) {
                    highest = highest.max(Some((self.priority(board, slot), slot)));
                }
            }
            return highest.map(|(_, slot)| slot);
        }
        let count = board
            .slots()
            .filter(|&slot| self.can_run(board, slot, except))
            .count();
        let which = match count {
            0 => return None,
            1 => 0,
            _ => self.draw() as usize % count,
        };
        let mut able = board
            .slots()
            .filter(|&slot| self.can_run(board, slot, except));
        able.nth(which)
    }

    fn give_to(&mut self, board: &mut Board, next: Slot) {
        self.turn = Some(next);
        self.taken = false;
        self.decisions += 1;
        board.wake(next);
    }

    /// Gives the free turn to a thread that can run.
    pub fn pass_on(&mut self, board: &mut Board) {
        self.turn = None;
        self.taken = false;
        if let Some(next) = self.draw_next(board, None) {
            self.give_to(board, next);
        }
    }

    /// The thread whose turn it is runs no more of the program for now.
    pub fn leave(&mut self, board: &mut Board, me: Slot) {
        board.gives_turn(me);
        self.now += DECISION;
    }

    /// Gives the turn to another thread, if that is free now and one can run.
    pub fn fill_turn(&mut self, board: &mut Board) {
        if self.turn.is_none() {
            self.pass_on(board);
        }
    }

    pub fn thread_ended(&mut self, board: &mut Board, me: Slot) {
        let serial = &mut board.thread_mut(me).serial;
        serial.ready = false;
        serial.deadline = 0;
        if self.is_turn_of(me) {
            self.pass_on(board);
        }
    }

    /// Threads that are blocked on `object`, or on any, can try again.
    pub fn can_try_again(&mut self, board: &mut Board, object: Option<usize>) {
        for slot in board.slots() {
            if let Some(thread) = board.get_mut(slot)
                && let Activity::Blocked { operation, .. } = thread.activity
                && object.is_none_or(|object| operation.address == object)
                && operation.address != NO_OBJECT
            {
                thread.serial.ready = true;
            }
        }
        self.fill_turn(board);
    }

    pub fn is_cancelled(&mut self, board: &mut Board, slot: Slot) {
        let thread = board.thread_mut(slot);
        if thread.activity != Activity::Ended {
            let waits = matches!(thread.activity, Activity::Blocked { operation, .. }
                if is_cancellation_point(operation.code));
            thread.serial.cancelled = true;
            thread.serial.ready |= waits;
        }
        self.fill_turn(board);
    }

    /// The thread sleeps until it gets the turn.
    pub fn wait_for_turn(&mut self, board: &mut Board, me: Slot, then: Then) {
        let watches = self.is_first_watcher(board, me);
        let slept = None;
        board.thread_mut(me).stage = Stage::SerialTurn {
            then,
            watches,
            slept,
        };
    }

    /// A place at which another thread may go on. Whether this one has to wait for its turn.
    pub fn must_wait_at(&mut self, board: &mut Board, me: Slot, point: Point) -> bool {
        if !board.started {
            return false;
        }
        if !self.is_turn_of(me) {
            board.thread_mut(me).serial.ready = true;
            return true;
        }
        self.now += DECISION;
        self.decisions += 1;
        let chance = if self.by_priority { CHANGE } else { SWITCH };
        let lets_go = point == Point::LetsOthersGo || self.draw().is_multiple_of(chance);
        if self.by_priority && lets_go {
            self.lowest -= 1;
            board.thread_mut(me).serial.priority = self.lowest;
        }
        if !self.by_priority && !lets_go {
            return false;
        }
        let Some(next) = self.draw_next(board, Some(me)) else {
            return false;
        };
        let mine = if self.by_priority {
            self.priority(board, me)
        } else {
            0
        };
        if self.by_priority && board.thread(next).serial.priority <= mine {
            return false;
        }
        self.leave(board, me);
        board.thread_mut(me).serial.ready = true;
        self.give_to(board, next);
        true
    }

    /// The thread cannot go on before `Serial::can_try_again`, or before its time is over.
    pub fn block(
        &mut self,
        board: &mut Board,
        me: Slot,
        operation: Operation,
        deadline: Option<(i64, i64)>,
        then: Then,
    ) {
        let thread = board.thread_mut(me);
        thread.activity = Activity::Blocked {
            operation,
            timed: deadline.is_some(),
        };
        let serial = &mut thread.serial;
        if let Some((duration, until)) = deadline {
            serial.deadline = self.now.saturating_add(duration.max(1));
            serial.until = until;
        }
        serial.interrupted = false;
        serial.ready = serial.cancelled && is_cancellation_point(operation.code);
        if self.is_turn_of(me) {
            self.leave(board, me);
            self.pass_on(board);
        }
        self.wait_for_turn(board, me, then);
    }

    /// Whether the turn is free, no thread can run, and this wait is the next to end by itself.
    fn ends_next(&self, board: &Board, me: Slot) -> bool {
        let mine = board.thread(me).serial.deadline;
        self.turn.is_none()
            && mine != 0
            && board.threads().all(|(slot, thread)| {
                let other = thread.serial.deadline;
                !thread.serial.ready && (other == 0 || other > mine || other == mine && slot >= me)
            })
    }

    fn is_first_watcher(&self, board: &Board, me: Slot) -> bool {
        let mut threads = board.threads();
        let first = threads.find(|(slot, thread)| thread.serial.ready && !self.is_turn_of(*slot));
        first.is_some_and(|(slot, _)| slot == me)
    }

    /// Whether the thread whose turn it is does not use it.
    fn is_stuck(&mut self, board: &Board, me: Slot) -> Result<bool, Question> {
        let Some(owner) = self.turn else {
            return Ok(false);
        };
        let holder = board.thread(me).facts.turn_holder;
        let (events, asleep, processor) = holder.ok_or(Question::TurnHolder(owner))?;
        let before = self.watched;
        if before.decisions != self.decisions || before.events != events {
            self.watched = Watched {
                decisions: self.decisions,
                events,
                since: board.now,
                processor,
            };
            return Ok(false);
        }
        let quiet = board.now - before.since;
        if !self.taken {
            return Ok(quiet >= LATE);
        }
        Ok(quiet >= ASLEEP && (asleep || processor >= before.processor + BUSY))
    }

    /// Takes the turn from a thread that does not use it.
    fn take_away(&mut self, board: &mut Board) {
        if let Some(owner) = self.turn
            && self.taken
        {
            board.lost_turn(owner);
        }
        self.pass_on(board);
    }

    /// What a thread does after a sleep in which it did not get the turn.
    fn after_sleep(&mut self, board: &mut Board, me: Slot, slept: Waking) -> Result<(), Question> {
        let serial = board.thread(me).serial;
        let timed = serial.deadline != 0;
        let wants = serial.ready || timed && serial.until <= board.now;
        if wants && self.is_stuck(board, me)? {
            if timed {
                self.now = self.now.max(serial.deadline);
            }
            self.take_away(board);
        } else if self.turn.is_none() && slept == Waking::TimeOut && !timed {
            // Another process may have released what this thread waits for.
            board.thread_mut(me).serial.ready = true;
        }
        Ok(())
    }
}

impl Policy for Serial {
    /// Sleeps until the turn comes; `SerialThread::timed_out` says whether it came because the time
    /// of the wait was over.
    fn decide(&mut self, board: &mut Board, me: Slot) -> Result<Decision, Question> {
        let Stage::SerialTurn {
            then,
            mut watches,
            slept,
        } = board.thread(me).stage
        else {
            return Ok(Decision::Go(Turn::Free));
        };
        if let Some(slept) = slept
            && slept != Waking::Woken
            && !self.is_turn_of(me)
        {
            self.after_sleep(board, me, slept)?;
            watches = self.is_first_watcher(board, me);
        }
        board.thread_mut(me).stage = Stage::SerialTurn {
            then,
            watches,
            slept: None,
        };
        while !self.is_turn_of(me) {
            let serial = board.thread(me).serial;
            let left = if serial.deadline == 0 {
                i64::MAX
            } else {
                serial.until - board.now
            };
            if self.turn.is_none() && serial.ready {
                self.pass_on(board);
                continue;
            }
            if left <= 0 && self.ends_next(board, me) {
                self.now = self.now.max(serial.deadline);
                self.give_to(board, me);
                continue;
            }
            let nap = match (serial.ready, watches) {
                (true, true) => WATCH,
                (true, false) => 25 * WATCH,
                // Until it is its turn to end, others may have to end theirs.
                _ if left <= 0 => WATCH / 4,
                _ => left.min(LOOK_AGAIN),
            };
            // A wait that nothing in this process can end has no time-out in the kernel either, so
            // that a hanging program looks like one from outside.
            let hangs = self.turn.is_none() && !self.shared_objects && all_blocked(board);
            return Ok(Decision::Sleep((!hangs).then_some(nap)));
        }
        self.taken = true;
        let serial = &mut board.thread_mut(me).serial;
        serial.timed_out = !serial.ready && serial.deadline != 0;
        serial.ready = false;
        serial.deadline = 0;
        board.gets_turn(me);
        Ok(Decision::Go(Turn::Free))
    }
}
