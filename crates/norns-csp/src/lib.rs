//! Norns' CSP: the machine-readable language CSPM and a refinement checker, useful alone.
//!
//! A script is read by the front end (`syntax`, `resolve`, `types`, `eval`) into process terms
//! (`process`); the `engine` compiles a term to a network of components, normalises the
//! specification and searches the product of both. Nothing here knows of traces.
//!
//! ```
//! use norns_csp::check::Options;
//! use norns_csp::script::{Answer, Script, no_includes};
//!
//! let text = "channel a\nP = a -> P\nassert P :[deadlock free]\n";
//! let mut script = Script::load("script.csp", text, &mut no_includes)?;
//! let (answer, _) = script.check(0, &Options::default(), &mut |_| {})?;
//! assert!(matches!(answer, Answer::Holds));
//! # Ok::<(), norns_csp::script::ScriptError>(())
//! ```
//!
//! [`script`] checks scripts, [`analysis`] answers what an editor asks about them, and
//! [`process`] builds processes without a script. `examples/` has programs that use each of them.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod builtin;
pub mod diagnostic;
pub mod engine;
mod error;
pub mod eval;
pub mod event;
pub mod graph;
mod interner;
pub mod process;
pub mod resolve;
pub mod script;
pub mod syntax;
pub mod types;
pub mod vocabulary;

pub use engine::{Budget, DONE, Progress, Reduction};
pub use engine::{check, compress, counterexample, lts, normal, semantics};
pub use error::CheckError;
