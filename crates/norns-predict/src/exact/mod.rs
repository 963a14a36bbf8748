//! Exact search over position vectors.
//!
//! `search` decides one goal; `terminal` finds every state in which nothing moves any more. All of them work within a budget, and
//! say so when it is spent.

pub mod cone;
pub mod index;
pub mod projection;
pub mod search;
pub mod stubborn;
pub mod terminal;
