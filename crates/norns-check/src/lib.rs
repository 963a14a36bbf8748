//! From a program to findings: what `norns check` records, predicts and replays, in which order,
//! and what it concludes.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `program` | the trait through which a program is recorded and replayed, and what it answers |
//! | `check` | the whole way: record, predict, replay every witness, count what was refuted |
//! | `tiers` | prediction: first what keeps all known reads, then what other schedules allow |
//! | `left_waiting` | waits that end with the process, as in the recorded run |
//! | `recorded_run` | races that the recorded run itself had, which need no replay |
//! | `whole_run` | races that a detector sees where the recording has only the beginning of a run |
//! | `candidates` | the candidates of a scan, and what recordings and findings say of each |
//! | `other_process` | what the recordings of processes show that the program forked |
//! | `coverage` | what the recordings have shown, and whether another one brings something new |
//! | `atomicity` | steps that were probably meant to be atomic, and are not |
//! | `rules` | orders of events that a rule of the user does not allow |
//! | `confirm` | one predicted bug: which replays are tried until one settles it |
//! | `refine` | another witness of the same bug, after the program could not follow the last one |
//! | `wait_loops` | races that a loop which waits for a variable keeps apart |
//! | `observed` | findings that the runtime itself saw: the race of a detector, a hang |
//! | `findings` | the list of findings so far, without duplicates |
//!
//! Nothing here reads a file, the environment or the clock, or starts a process: that is behind
//! the traits `Program` and `Observer` and the deadline that the caller gives. `crates/norns`
//! implements them over `norns-replay`; the tests implement them with a program that is simulated
//! from the model.
#![forbid(unsafe_code)]

mod atomicity;
mod candidates;
pub mod check;
mod confirm;
mod coverage;
pub mod findings;
mod left_waiting;
pub mod observed;
mod other_process;
pub mod program;
mod recorded_run;
mod refine;
mod rules;
mod tiers;
mod wait_loops;
mod whole_run;

pub use check::{Evidence, Observer, Options, Progress, Runs, check};
pub use confirm::Tried;
pub use observed::Hang;
pub use other_process::OtherProcess;
pub use program::{Outcome, Program, Recorded, Replayed, Rerun, Watched, WholeRun};
