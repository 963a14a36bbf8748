//! Which races matter: both orders of a race are executed, and what the program then does is compared.
//!
//! The classes and the idea are Portend's (Kasikci 2015, chapter 5). `race` says which accesses are meant
//! and in which order a run made them, `native` which executions are made, `judge` what those of one race
//! say, `conclude` what those of several say together, `models` what weaker memory models allow besides, `paths` what other inputs lead to.
//! Executions are real runs of the program, one thread at a time, in which the order is asked for
//! (`norns_wire::environment::Constraint`) and everything else is up to a seed; so each can be repeated.
//!
//! Compared is what leaves the program: what it prints, the files that it changes, how it ends. What it
//! sends to others is not.
#![forbid(unsafe_code)]

pub mod conclude;
pub mod judge;
pub mod models;
pub mod native;
pub mod paths;
pub mod race;

pub use judge::{Execution, Executions, Shown, Unclassified};
pub use native::{Executed, Found, Options, Program, classify};
pub use race::{Order, Race};
