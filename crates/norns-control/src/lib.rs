//! Who goes on: the decisions of a replay, of a recording with one thread at a time, and of the
//! detection of deadlocks, without any side effect.
//!
//! The runtime in the program (`norns-rt`) tells the core who did what (`Core::step` with a `Slot`
//! and a `Happened`) and does what it answers (an `Act`): go on, try the operation, sleep, ask the
//! kernel something, stop. Whom to wake and what to report it takes from `Core::next_effect` and
//! `Core::next_line`. The core has no clock, no pointers and no system calls, so a test can drive
//! it through any run, with any timing, in one thread.
//!
//! | file | contents |
//! | --- | --- |
//! | `core` | the entry point |
//! | `operation`, `turn` | how an operation goes through its stages; the same in serial mode |
//! | `view` | what the caller takes and looks at |
//! | `event` | what can happen, and what the core answers |
//! | `board` | what all policies see: threads, the position in the schedule, emulated objects |
//! | `thread` | what is known of one thread |
//! | `held`, `emulated` | locks that a thread holds; conditions, barriers and onces |
//! | `deadlock` | who waits for whom, and when no thread can go on |
//! | `spin` | loops that wait for a variable |
//! | `policy` | one file each: replay, hold, priorities, serial |
//!
//! The idea of knowing exactly who waits for what, by never blocking inside the C library, is that
//! of Fray's shadow locks; the enforcement of a schedule is Figure 4.15 of Carril (2017).
#![no_std]
#![forbid(unsafe_code)]
// The runtime interposes `memset` and `memcpy`; loops in this crate must not become calls of them.
#![no_builtins]

mod board;
mod core;
mod deadlock;
mod emulated;
mod event;
mod held;
mod operation;
mod policy;
mod spin;
mod thread;
mod turn;
mod view;

pub use board::{Module, Schedule};
pub use core::Core;
pub use deadlock::Cycle;
pub use event::{
    Access, Act, Answer, Deadline, Diverged, Effect, Happened, How, Line, Once, Operation,
    Question, Side, Stop, Tried, Turn, Waking,
};
pub use held::{HeldLock, HeldLocks, Mode};
pub use thread::{Activity, MOST_THREADS, Slot, Thread};
