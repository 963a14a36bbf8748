//! Prediction of races, deadlocks and waits that nothing ends, from one trace.
//!
//! `stage` is the entry: it takes a trace and `Options`, collects candidates and passes each through
//! the engines, from the cheapest to the most expensive, until one decides it. No witness leaves this
//! crate unless the independent checker of `norns-model` accepts it.
//!
//! | module | contents |
//! | --- | --- |
//! | `stage` | options, results, and the order in which engines are asked |
//! | `candidate` | conflicting accesses and cycles of locks, and the filters that need no engine |
//! | `linear` | near-linear prediction: sound, finds witnesses without search |
//! | `exact` | exact search over position vectors, within a budget of steps |
//! | `order` | the ordering engine: schedules as total orders, decided by `norns-order` |
//! | `atomicity` | interleavings of what was probably meant to be one step |
//! | `known_reads` | predictions whose schedules keep what every read saw, where that is known |
//! | `values` | refutes optimistic predictions by recorded values |
//! | `csp` | the refinement checker on the model as CSPM, for small traces |
//! | `happens_before` | happens-before of the recorded run |
//! | `generate` | generated traces with planted bugs, for tests and benchmarks |
#![forbid(unsafe_code)]

pub mod atomicity;
pub mod candidate;
pub mod csp;
pub mod exact;
pub mod generate;
pub mod happens_before;
mod known_reads;
pub mod linear;
pub mod order;
pub mod stage;
pub mod values;

pub use atomicity::{Interleavings, predict_atomicity};
pub use known_reads::predict_keeping_reads;
pub use stage::{Detail, Engine, Options, Prediction, predict, predict_within};
