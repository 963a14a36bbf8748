//! Serial mode: what a thread does that has got the one turn to run.

use norns_wire::Code;

use crate::core::Core;
use crate::event::{Act, Operation, Turn};
use crate::policy::serial::{NO_OBJECT, is_cancellation_point};
use crate::thread::{Activity, Slot, Stage, Then, Trying};

impl Core<'_> {
    pub(crate) fn want_turn(&mut self, me: Slot) -> Act {
        if !self.serial.is_turn_of(me) {
            self.board.thread_mut(me).serial.ready = true;
        }
        self.serial.wait_for_turn(&mut self.board, me, Then::Goes);
        self.resume(me)
    }

    pub(crate) fn sleep(&mut self, me: Slot, duration: i64, until: i64) -> Act {
        if !self.board.started {
            return Act::Go(Turn::Free);
        }
        let operation = Operation {
            may_fail: true,
            ..Operation::new(Code::Turn, NO_OBJECT, 0)
        };
        let thread = self.board.thread_mut(me);
        thread.operation = operation;
        thread.serial.interruptible = true;
        let deadline = Some((duration, until));
        self.serial
            .block(&mut self.board, me, operation, deadline, Then::Sleeps);
        self.resume(me)
    }

    /// A thread that was blocked has the turn.
    pub(crate) fn has_turn_again(&mut self, me: Slot, then: Then) -> Act {
        let thread = self.board.thread_mut(me);
        thread.activity = Activity::Running;
        thread.serial.interruptible = false;
        let code = thread.operation.code;
        if thread.serial.cancelled && is_cancellation_point(code) {
            if code == Code::Wait {
                // It must first have its mutex again; `Core::take_cancellation` comes then.
                return self.leave(me, Turn::Fails);
            }
            thread.serial.cancelled = false;
            thread.stage = Stage::TestsCancel { then };
            return Act::TestCancel;
        }
        self.unblocked(me, then)
    }

    pub(crate) fn unblocked(&mut self, me: Slot, then: Then) -> Act {
        let serial = &mut self.board.thread_mut(me).serial;
        let timed_out = core::mem::take(&mut serial.timed_out);
        let interrupted = core::mem::take(&mut serial.interrupted);
        let until = serial.until;
        match then {
            Then::Sleeps if timed_out => self.sleep_out(me, until, then),
            Then::Sleeps if interrupted => self.leave(me, Turn::Interrupted),
            Then::Sleeps => self.leave(me, Turn::Succeeds),
            _ if timed_out => self.attempt(me, Trying::Last),
            _ => self.attempt(me, Trying::Free),
        }
    }

    /// Sleeps on, with the turn, until a time-out that ended early by our count of time.
    pub(crate) fn sleep_out(&mut self, me: Slot, until: i64, then: Then) -> Act {
        let left = until - self.board.now;
        if left <= 0 {
            return self.leave(me, Turn::Fails);
        }
        self.board.thread_mut(me).stage = Stage::SleepsOut { until, then };
        Act::SleepOut(left)
    }

    /// Whether the thread was cancelled in a wait that it has come back from; once.
    pub fn take_cancellation(&mut self, who: Slot) -> bool {
        let thread = self.board.get_mut(who);
        thread.is_some_and(|thread| core::mem::take(&mut thread.serial.cancelled))
    }

    /// Serial mode: threads that wait for an initialiser that no thread runs can try again. `runs`
    /// knows whether the C library runs the initialiser of a word; when an exception leaves that,
    /// no hook is passed.
    pub fn retry_onces(&mut self, runs: impl Fn(usize) -> bool) {
        for slot in self.board.slots() {
            if let Some(thread) = self.board.get(slot)
                && let Activity::Blocked { operation, .. } = thread.activity
                && operation.code == Code::OnceBegin
                && !self.board.onces.is_running(operation.address)
                && !runs(operation.address)
            {
                self.board.thread_mut(slot).serial.ready = true;
            }
        }
    }

    /// All blocked threads of serial mode can try again: a signal handler released something while
    /// its thread was inside the core.
    pub fn all_can_try(&mut self) {
        self.serial.can_try_again(&mut self.board, None);
    }
}
