//! How an operation or an access goes through its stages: its turn, attempts, and being blocked.

use norns_wire::Code;
use norns_wire::report::Why;

use crate::core::Core;
use crate::deadlock::{all_blocked, find_cycle};
use crate::event::{Access, Act, Deadline, How, Operation, Question, Stop, Tried, Turn};
use crate::policy::Decision;
use crate::policy::replay::{LOOK_AGAIN, exchange_differs, is_next_access, look_at_head};
use crate::policy::serial::Point;
use crate::thread::{Activity, HeadWait, Slot, Stage, Then, Thread, Trying};

/// Nanoseconds between two looks at a program whose threads are all blocked.
pub(crate) const CONFIRMING_LOOK: i64 = 20_000_000;

/// How often a step looks again whether a thread outside the schedule has released its lock, and for
/// how long in all.
const OUTSIDER_LOOK: i64 = 5_000_000;
const OUTSIDERS_HAVE: i64 = 1_000_000_000;

impl Core<'_> {
    pub(crate) fn arrive(&mut self, me: Slot, operation: Operation, how: How) -> Act {
        let board = &mut self.board;
        let thread = board.thread_mut(me);
        thread.operation = operation;
        thread.how = how;
        if !board.started {
            return self.turn_is(me, Turn::Free);
        }
        if self.serial.on {
            if self.serial.must_wait_at(board, me, Point::Operation) {
                self.serial.wait_for_turn(board, me, Then::Operates);
                return self.resume(me);
            }
            return self.turn_is(me, Turn::Free);
        }
        if operation.code != Code::Atomic {
            board.comes_to(me, operation.pc, operation.address, None);
        }
        board.finish_write(me);
        board.finish_access(me);
        let thread = board.thread_mut(me);
        thread.activity = Activity::AtPoint;
        thread.stage = Stage::Turn(HeadWait::default());
        if let Some(priorities) = &mut self.priorities {
            priorities.arrive(board, me);
        }
        self.resume(me)
    }

    /// The turn of an operation has come, by the schedule or because none binds it.
    pub(crate) fn turn_came(&mut self, me: Slot, turn: Turn) -> Act {
        if !self.serial.on {
            let thread = self.board.thread_mut(me);
            thread.activity = Activity::Running;
            thread.points += u32::from(turn != Turn::Cancelled);
        }
        self.turn_is(me, turn)
    }

    pub(crate) fn turn_is(&mut self, me: Slot, turn: Turn) -> Act {
        let how = self.board.thread(me).how;
        match (how, turn) {
            (How::AtItsTurn, _)
            | (How::TriedIfScheduled, Turn::Free)
            | (_, Turn::Cancelled | Turn::Interrupted) => self.leave(me, turn),
            (_, Turn::Fails) => {
                self.board.complete();
                self.leave(me, Turn::Fails)
            }
            (_, Turn::Succeeds) => self.attempt(me, Trying::Scheduled),
            (_, Turn::Free) => self.attempt(me, Trying::Free),
        }
    }

    pub(crate) fn attempt(&mut self, me: Slot, trying: Trying) -> Act {
        let thread = self.board.thread(me);
        if trying == Trying::Free
            && thread.cancelled
            && !self.serial.on
            && thread.operation.is_cancellation_point()
        {
            return self.leave(me, Turn::Cancelled);
        }
        let over = match thread.how {
            How::AtItsTurn | How::Tried { .. } | How::TriedIfScheduled => {
                self.board.thread_mut(me).stage = Stage::Tries(trying);
                return Act::Try;
            }
            // A schedule that wakes a thread without a signal makes it a spurious wake-up, which is
            // always allowed.
            How::Signalled { .. } => {
                thread.signalled || !self.board.is_free() && !thread.is_outside
            }
            How::RoundOver { round } => {
                self.board.barriers.round(thread.operation.address) != Some(round)
            }
            How::Ended { thread, .. } => {
                let other = self.board.get(thread);
                other.is_none_or(|other| other.activity == Activity::Ended)
            }
        };
        let tried = if over { Tried::Over } else { Tried::Busy };
        self.tried(me, trying, tried)
    }

    pub(crate) fn tried(&mut self, me: Slot, trying: Trying, tried: Tried) -> Act {
        let thread = self.board.thread_mut(me);
        let operation = thread.operation;
        if let Tried::Got(mode) = tried {
            thread.held.take(operation.address, operation.pc, mode);
        }
        if tried != Tried::Busy {
            if trying == Trying::Scheduled {
                self.board.thread_mut(me).busy_since = 0;
                self.board.complete();
                return self.leave(me, Turn::Succeeds);
            }
            return self.leave(me, Turn::Free);
        }
        let deadline = thread.deadline();
        let may_wait = !operation.may_fail || deadline.is_some();
        let is_late = deadline.is_some_and(|end| end <= self.board.now);
        match trying {
            Trying::Scheduled if self.waits_for_outsider(me) => {
                let thread = self.board.thread_mut(me);
                thread.activity = Activity::AtPoint;
                thread.stage = Stage::Turn(HeadWait::default());
                Act::Sleep(Some(OUTSIDER_LOOK))
            }
            Trying::Scheduled => self.diverge(me, operation, Why::CannotSucceed),
            Trying::Last => {
                let until = deadline.unwrap_or(self.board.now);
                self.sleep_out(me, until, Then::Unblocks)
            }
            Trying::Free if !may_wait || is_late => self.leave(me, Turn::Fails),
            Trying::Free if self.serial.on => {
                let now = self.board.now;
                let deadline = deadline.map(|until| (until - now, until));
                let then = Then::Unblocks;
                self.serial
                    .block(&mut self.board, me, operation, deadline, then);
                self.resume(me)
            }
            Trying::Free => {
                let timed = deadline.is_some();
                let thread = self.board.thread_mut(me);
                thread.activity = Activity::Blocked { operation, timed };
                thread.stage = Stage::Blocked;
                self.blocked(me)
            }
        }
    }

    /// Whether the step of the thread may succeed when a thread that the schedule does not bind goes
    /// on.
    fn waits_for_outsider(&mut self, me: Slot) -> bool {
        let now = self.board.now;
        let is_bound = !self.board.do_outsiders_run();
        let thread = self.board.thread_mut(me);
        if thread.busy_since == 0 {
            thread.busy_since = now;
        }
        !is_bound && now - thread.busy_since < OUTSIDERS_HAVE
    }

    /// The thread is blocked: can any thread go on?
    pub(crate) fn blocked(&mut self, me: Slot) -> Act {
        let board = &mut self.board;
        if find_cycle(board, me).is_some() {
            return Act::Stop(Stop::Cycle(me));
        }
        let thread = board.thread(me);
        if all_blocked(board) {
            // A timer or another process may still make a handler run.
            match thread.facts.signal_could_help {
                None => return Act::Ask(Question::SignalCouldHelp),
                Some(true) => {}
                Some(false) => {
                    let (looks, progress) = (0, board.progress);
                    board.thread_mut(me).stage = Stage::Confirms { looks, progress };
                    return Act::Sleep(Some(CONFIRMING_LOOK));
                }
            }
        }
        let left = thread.deadline().map(|end| end - board.now);
        if thread.is_outside && !board.is_free() {
            // Perhaps no other thread is left that would see that the schedule stands still.
            let wait = thread.outside_wait;
            match look_at_head(board, me, wait) {
                Err(question) => return Act::Ask(question),
                Ok((_, Decision::Stop(stop))) => return Act::Stop(stop),
                Ok((wait, _)) => board.thread_mut(me).outside_wait = wait,
            }
        }
        Act::Sleep(Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN))))
    }

    pub(crate) fn complete_atomic(
        &mut self,
        me: Slot,
        address: usize,
        pc: usize,
        succeeded: bool,
    ) -> Act {
        if !self.board.is_free() && !self.board.thread(me).is_outside {
            if let Some(kind) = exchange_differs(&self.board, succeeded) {
                let operation = Operation {
                    atomic: kind,
                    may_fail: true,
                    ..Operation::new(Code::Atomic, address, pc)
                };
                return self.diverge(me, operation, Why::OtherExchange);
            }
            self.board.complete();
        }
        Act::Go(Turn::Free)
    }

    pub(crate) fn diverge(&mut self, me: Slot, operation: Operation, why: Why) -> Act {
        Act::Stop(Stop::Diverged(crate::Diverged {
            thread: Ok(me),
            operation: Some(operation),
            why,
        }))
    }

    /// An operation on `object` may let threads go on that are blocked on it.
    pub(crate) fn change(&mut self, object: usize) {
        let board = &mut self.board;
        board.progress += 1;
        if self.serial.on {
            return self.serial.can_try_again(board, Some(object));
        }
        for slot in board.slots() {
            if let Some(thread) = board.get_mut(slot)
                && let Activity::Blocked { operation, .. } = thread.activity
                && operation.address == object
            {
                thread.activity = Activity::Running;
                board.wake(slot);
            }
        }
    }

    pub(crate) fn access(&mut self, me: Slot, access: Access) -> Act {
        let board = &mut self.board;
        board.finish_access(me);
        if is_next_access(board, me, &access) {
            let thread = board.thread_mut(me);
            thread.activity = Activity::Waits;
            thread.stage = Stage::AccessTurn(access, HeadWait::default());
            return self.resume(me);
        }
        self.accessing(me, access)
    }

    pub(crate) fn accessing(&mut self, me: Slot, access: Access) -> Act {
        self.board.thread_mut(me).activity = Activity::Running;
        self.hold.begin(&mut self.board, me, access);
        self.resume(me)
    }
}

impl Thread {
    fn deadline(&self) -> Deadline {
        match self.how {
            How::Tried { deadline } | How::Signalled { deadline } | How::Ended { deadline, .. } => {
                deadline
            }
            How::AtItsTurn | How::TriedIfScheduled | How::RoundOver { .. } => None,
        }
    }
}
