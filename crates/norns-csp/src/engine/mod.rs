//! The engine: from process terms to verdicts.
//!
//! | step | files |
//! | --- | --- |
//! | transitions of one term, by the operational semantics | [`semantics`] |
//! | a term explored into an explicit transition system | [`lts`], [`compress`] |
//! | a term split into components and the rules that join them | `shape`, `machine`, `network` |
//! | the specification, determinised | [`normal`] |
//! | the search through the product of both | `search`, `store`, `layout`, `reduce`, `cycles` |
//! | questions, verdicts, counterexamples | [`check`], [`counterexample`] |

pub mod check;
pub mod compress;
pub mod counterexample;
mod cycles;
mod layout;
pub mod lts;
mod machine;
mod network;
pub mod normal;
mod reduce;
mod search;
pub mod semantics;
mod shape;
mod store;

pub use reduce::Reduction;
pub use search::{Budget, Progress};
pub use shape::DONE;
