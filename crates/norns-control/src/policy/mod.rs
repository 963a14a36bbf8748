//! Who goes on when several threads could: one file for each policy.
//!
//! A policy owns some of the stages that a thread can be in (`Stage`) and decides, when a thread
//! comes to such a stage and whenever it wakes, whether it goes on. All see the same `Board`.
//!
//! | policy | a thread waits |
//! | --- | --- |
//! | `replay` | for its turn in the schedule |
//! | `hold` | before an access of a predicted race, for the other thread |
//! | `priorities` | for threads of higher random priority |
//! | `serial` | for the one turn to run |
//!
//! For how long, is in `patience`.

pub mod hold;
pub mod patience;
pub mod priorities;
pub mod replay;
pub mod serial;

use crate::board::Board;
use crate::event::{Question, Stop, Turn};
use crate::thread::Slot;

pub enum Decision {
    Go(Turn),
    /// At most so many nanoseconds; `None` without end.
    Sleep(Option<i64>),
    /// Take the lines of the report and ask again.
    Again,
    Stop(Stop),
}

pub trait Policy {
    /// What the thread does next. When the answer is a question, the kernel is asked and this
    /// function is called again: whatever it changes before it asks must be the same when repeated.
    fn decide(&mut self, board: &mut Board, me: Slot) -> Result<Decision, Question>;
}
