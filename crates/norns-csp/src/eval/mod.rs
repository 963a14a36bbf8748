//! Evaluation: from a checked script to values and process terms.
//!
//! Evaluation is lazy where a script can tell: arguments of functions, definitions and the
//! tails of sequences are computed when they are needed. Processes are computed up to the next
//! named process: a process with its arguments is one `Call` of the term arena, unfolded when
//! the engine first needs it, and so is what follows an input. Evaluation recurses along the
//! nesting of expressions and of function calls (never along prefixes or chains of operators),
//! up to `MAX_DEPTH`; callers give it a large stack (`crate::script`).

mod application;
mod budget;
mod builtins;
mod channels;
mod closures;
mod collections;
mod dots;
mod machine;
mod operators;
mod pattern;
mod prefix;
mod process;
mod replicated;
mod sequences;
mod set;
mod show;
mod timed;
mod value;

pub use budget::Limits;
pub use machine::{Evaluator, MAX_DEPTH};
pub use set::Set;
pub use value::Value;
