//! Findings as people and programs see them.
//!
//! `finding` is what an analysis hands over, `kind` what is said of each kind of finding, `sketch`
//! what is shown of it, `build` the way from the one to the other. `object` says what a finding is
//! about, `variants` which of them are one to a person, `consequence` what a race does to the program, `judged`
//! what runs say of the candidates of a scan. The others are one view each.
#![forbid(unsafe_code)]

mod build;
pub mod cause;
pub mod ci;
pub mod consequence;
pub mod describe;
mod escape;
mod expression;
pub mod finding;
pub mod fingerprint;
pub mod html;
pub mod judged;
pub mod kind;
pub mod not_analysed;
pub mod object;
pub mod perfetto;
mod predicted;
pub mod sarif;
pub mod scan;
pub mod sketch;
mod stack;
pub mod suppression;
pub mod terminal;
pub mod variants;

pub use build::{
    Said, Shown, Sources, bug_events, sketch, sketch_of_failure, sketch_of_hang, sketch_of_places,
};
pub use consequence::{Class, Consequence, Memory};
pub use finding::{AccessKind, Finding, Findings, Place, Recordings, Status, Verdict, WitnessStep};
pub use judged::{Judged, JudgedCandidate, Judgement, Reason};
pub use kind::Kind;
pub use predicted::{Predicted, Steps};
pub use sketch::Sketch;
