//! Findings as people and programs see them.
#![forbid(unsafe_code)]

pub mod finding;

pub use finding::{AccessKind, Finding, Findings, Kind, Place, Status, Verdict, WitnessStep};
