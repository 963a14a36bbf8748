//! Races validated by the runs that happen anyway: the part of the hive that needs no server.
//!
//! The idea is RaceMob's (Kasikci 2015, chapter 3). A *hive* keeps the candidates of a program, gives runs of
//! the program *tasks*, and derives a verdict for each candidate from their reports. A *participant* is one
//! installation of the program that takes part: the paper calls it a user site; here a site is a point of
//! the program. `protocol` is what both sides say to each other, `candidate` how a candidate keeps its
//! identity over rebuilds, `verdict` what follows from reports, `assignment` which task comes next, and
//! `races` the list that people see, `client` how to ask a hive and `tokens` with which token. The same code serves `norns guard --runs`, which needs no server.
#![forbid(unsafe_code)]

pub mod assignment;
pub mod candidate;
pub mod client;
pub mod embedded;
pub mod id;
pub mod protocol;
pub mod races;
pub mod refused;
pub mod tokens;
pub mod verdict;

pub use assignment::{Assignment, Attempts, Load, Standing};
pub use id::{BatchId, BuildId, CandidateId, ParticipantId, ProgramName, SiteNumber, TaskId};
pub use protocol::{
    Access, Batch, Build, Candidate, Consequence, ConsequenceKind, Frame, Order, Origin, Outcome,
    Place, Report, RunFigures, Site, Task, TaskReport, TaskRequest, TaskResponse,
};
pub use refused::Refused;
pub use verdict::{Tally, Verdict};
