//! Why a program fails: what its failing runs have in common that the good ones have not.
//!
//! The idea is Gist's (Kasikci 2015, chapter 4). `failure` says how a run failed and recognises the same
//! failure again, `facts` what was seen in a run, `predictor` which of these facts predict the failure,
//! and `search` how often the program is run, in which ways, and what follows from it. Beyond the paper:
//! `proof` forces the order that predicts the failure, and forbids it.
//!
//! `slice` is what the code says about the failing statement: of predictors that are equally good those come
//! first whose statements it depends on. `tracking` asks for runs that only watch a part of the slice.
//!
//! Orders are known only of runs in which one thread runs at a time; the other runs say how often the
//! program fails by itself.
#![forbid(unsafe_code)]

pub mod facts;
pub mod failure;
pub mod found;
mod memory;
pub mod predictor;
pub mod proof;
pub mod search;
pub mod slice;
pub mod steps;
pub mod tracking;
mod two_locations;

pub use facts::{Facts, Pattern, Statement};
pub use failure::{Failure, FailureKind, Signs};
pub use predictor::{Fact, Predictor};
pub use proof::Proof;
pub use search::{Options, Program, Seen, Sketch, sketch};
pub use slice::Slice;
pub use steps::Step;
