//! Starts the program under a schedule, watches it, and says what it did.
//!
//! `record` makes the first run, of which the trace is kept; `track` one that only watches what a plan names. `schedule` turns a witness into what the
//! runtime enforces, `replayer` runs the program under it, `report` is what the runtime reported and
//! `verdict` judges it. All runs are made by `process`, which sets limits, sees a hang (`stillness`)
//! and cleans up; only it has unsafe code. `session` lets a client talk to a server (`listening`) and
//! stops it then; `conversation` is what a client said, which `player` says again in replays; `files`
//! keeps what a run changes out of the next ones, `modules` knows libraries that are loaded elsewhere.

mod behaviour;
pub mod conversation;
mod environment;
pub mod files;
pub mod inputs;
mod listening;
pub mod modules;
mod player;
pub mod process;
pub mod record;
pub mod replayer;
pub mod report;
pub mod schedule;
pub mod session;
mod stillness;
pub mod track;
pub mod verdict;

pub use behaviour::Behaviour;
pub use conversation::Conversation;
pub use files::Files;
pub use inputs::Inputs;
pub use modules::Modules;
pub use norns_wire::environment::{Constraint, Mode};
pub use norns_wire::files::Problem;
pub use process::{
    Ended, Error, Input, Limits, Program, catch_interrupts, inherit_signals, interrupted,
};
pub use record::{Disturbance, ForFailure, How, Recorded, record, record_unsupervised};
pub use replayer::{Course, Replay, Replayer};
pub use report::Report;
pub use session::{Session, Visit};
pub use track::{KeptTracked, track};
pub use verdict::{Left, Outcome, Proof, Sighting};
