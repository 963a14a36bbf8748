//! The engine: from process terms to verdicts.
//!
//! | step | files |
//! | --- | --- |
//! | the terms and definitions that are compiled, and their names | [`context`] |
//! | transitions of one term, by the operational semantics | [`semantics`] |
//! | a term split into components and the rules that join them | `shape`, `compile`, `machine`, `network` |
//! | a term or a network explored into one transition system | [`lts`], `explore`, `confluence`, [`compress`], `bisim`, `watchdog` |
//! | the specification, determinised | [`normal`] |
//! | the search through the product of both | `search`, `store`, `disk`, `layout`, `reduce`, `cycles` |
//! | what all of this may spend | [`budget`] |
//! | questions, verdicts, counterexamples | [`check`], `question`, `witness`, `inside`, [`counterexample`] |

mod bisim;
pub mod budget;
pub mod check;
mod compile;
pub mod compress;
mod confluence;
pub mod context;
pub mod counterexample;
mod cycles;
mod disk;
mod explore;
mod inside;
mod layout;
pub mod lts;
mod machine;
mod network;
pub mod normal;
mod question;
mod reduce;
mod search;
pub mod semantics;
mod shape;
mod store;
mod watchdog;
mod witness;

pub use budget::{Budget, Progress};
pub use reduce::Reduction;

pub use shape::DONE;
