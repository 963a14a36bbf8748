//! Type inference and checking.
//!
//! Hindley–Milner with the dot types of FDR3 (Gibson-Robinson's libcspm is the executable
//! definition): a channel `c : A.B` has the type `A=>B=>Event`, and `c.a` one of `B=>Event`. A
//! dot stays symbolic (`Dot`) until it is known what its parts are, and is then evaluated by the
//! longest match rule (`unify::Types::eval_dots`). Functions at the top level are generalised,
//! those in a `let` only if annotated, as FDR does.

mod annotations;
mod builtins;
mod constraints;
mod decls;
mod dots;
mod infer;
mod messages;
mod patterns;
mod ty;
mod typed;
mod unify;

pub use decls::check;
pub use ty::{Constraint, Scheme, Ty, TyId, Types};
pub use typed::Typed;
