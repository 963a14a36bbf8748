//! The seam between the interposed functions and the modes.
//!
//! Every synchronisation operation calls `before` with what it is about to do and `after` with
//! what it did. Both are given a wire code, so that a failed attempt is `after` with the failed
//! code. A mode may make the thread wait in `before`.

use crate::control::access::Life;
use crate::mode::{Mode, is_controlled, is_guarded, is_serial, mode};
use crate::wire::Code;
use crate::{control, guard, record};

#[derive(Clone, Copy)]
pub struct Operation {
    /// What is attempted: never one of the failed codes.
    pub code: Code,
    /// The detail of the code's event: mostly one of `wire::object`.
    pub detail: u8,
    /// The address of the object, or the number of the other thread.
    pub object: usize,
    pub pc: usize,
    /// Count of a barrier, value of a semaphore, size of a block.
    pub value: u64,
    /// A try or timed operation.
    pub may_fail: bool,
    /// When a timed operation gives up: a clock of the kernel and nanoseconds of it.
    pub deadline: Option<(i32, i64)>,
}

impl Operation {
    pub fn new(code: Code, detail: u8, object: usize, pc: usize) -> Self {
        Operation {
            code,
            detail,
            object,
            pc,
            value: 0,
            may_fail: false,
            deadline: None,
        }
    }

    pub fn with_value(self, value: u64) -> Self {
        Operation { value, ..self }
    }

    pub fn that_may_fail(self) -> Self {
        Operation {
            may_fail: true,
            ..self
        }
    }

    /// # Safety
    /// `time` is a `struct timespec`.
    pub unsafe fn until(self, clock: i32, time: *const core::ffi::c_void) -> Self {
        // SAFETY: the caller promises that `time` is a `struct timespec`: two words.
        let [seconds, rest] = unsafe { time.cast::<[i64; 2]>().read() };
        let end = seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Operation {
            may_fail: true,
            deadline: Some((clock, end)),
            ..self
        }
    }

    /// Whether the operation can let other threads go on. It is logged before the real call, since
    /// others can see its effect before that returns.
    #[inline(always)]
    pub fn releases(&self) -> bool {
        matches!(
            self.code,
            Code::Unlock
                | Code::Signal
                | Code::Broadcast
                | Code::SemPost
                | Code::BarrierEnter
                | Code::Fork
                | Code::OnceEnd
                | Code::Destroy
                | Code::Free
        )
    }

    /// The object is about to be used: a replay may stop the thread here while another one is about to
    /// destroy the object.
    #[inline(always)]
    pub fn announce(&self) {
        if is_serial() {
            record::constraint::arrive(self.pc);
        }
        if is_controlled() {
            control::access::object(self.object, Life::GoesOn, self.pc);
        }
    }

    /// Whether it works on an object that another thread could destroy, and does not acquire it.
    fn uses_object(&self) -> bool {
        matches!(
            self.code,
            Code::Unlock | Code::Signal | Code::Broadcast | Code::SemPost | Code::BarrierEnter
        )
    }

    /// Whether another thread may wait for this operation with a time-out, or try without waiting.
    #[inline(always)]
    fn lets_others_go_on(&self) -> bool {
        matches!(
            self.code,
            Code::Unlock | Code::Signal | Code::Broadcast | Code::SemPost
        )
    }

    #[inline(always)]
    pub fn before(&self) {
        if is_guarded() {
            guard::before(self);
        } else if mode() == Mode::Record {
            record::noise::delay();
            if self.lets_others_go_on() {
                record::impatience::hold_back();
            }
            if self.releases() {
                record::operation(self.code, self);
            }
        } else if is_controlled() {
            if self.uses_object() {
                self.announce();
            }
            control::operations::before(self);
            if is_serial() && self.releases() {
                record::operation(self.code, self);
            }
        }
    }

    /// `happened` is `code`, or its failed form.
    #[inline(always)]
    pub fn after(&self, happened: Code) {
        if is_guarded() {
            guard::after(self, happened);
        } else if mode() == Mode::Record && !self.releases() {
            record::operation(happened, self);
        } else if is_controlled() {
            if is_serial() && matches!(happened, Code::Lock | Code::ReadLock | Code::SemWait) {
                // What the program only tells us: the point comes first.
                control::operations::after(self, happened);
                record::operation(happened, self);
            } else {
                if is_serial() && !self.releases() {
                    record::operation(happened, self);
                }
                control::operations::after(self, happened);
            }
        }
    }
}
