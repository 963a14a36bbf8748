//! Why a check could not be made at all. (A budget that ends is a verdict, not an error.)

use crate::engine::budget::Spent;
use crate::process::UnfoldError;

#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckError {
    #[error("{0}")]
    Unfold(#[from] UnfoldError),
    #[error("the recursion of {0} is not guarded: its first events depend on themselves")]
    Unguarded(String),
    /// Inside the engine only: `Checker::check` makes it the verdict "undecided".
    #[error("{}", .0.0)]
    Spent(Spent),
    #[error("{0} is not supported")]
    Unsupported(String),
}
