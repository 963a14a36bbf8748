//! Findings as people and programs see them.
//!
//! `finding` is what an analysis hands over, `sketch` what is shown of it, `build` the way from
//! the one to the other; every other module is one view.
#![forbid(unsafe_code)]

mod build;
pub mod ci;
pub mod code;
pub mod describe;
mod escape;
mod expression;
pub mod finding;
pub mod fingerprint;
pub mod html;
pub mod not_analysed;
pub mod perfetto;
mod predicted;
pub mod sarif;
pub mod sketch;
mod stack;
pub mod suppression;
pub mod terminal;

pub use build::{Sources, bug_events, sketch, sketch_of_hang, sketch_of_places};
pub use finding::{AccessKind, Finding, Findings, Kind, Place, Status, Verdict, WitnessStep};
pub use predicted::{Predicted, Steps};
pub use sketch::Sketch;
