//! Starts the program under a schedule, watches it, and says what it did.
//!
//! `schedule` turns a witness into what the runtime enforces, `process` runs the program under
//! limits and cleans up after it, `report` reads what the runtime tells, `verdict` judges.
//! `record` is the first run, in which the trace is made. Only `process` has unsafe code.

pub mod process;
pub mod record;
pub mod report;
pub mod schedule;
pub mod verdict;

pub use norns_wire::environment::Mode;
pub use process::{Ended, Error, Input, Limits, Program};
pub use record::{How, Recorded, record};
pub use report::Report;
pub use verdict::{Left, Outcome, Proof, Replay, Replayer};
