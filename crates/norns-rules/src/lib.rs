//! Rules: a user's own events and the orders that they must keep.
//!
//! After chapter 6 of Carril (2017). An [`Aspect`] says which points of the program emit which events; the
//! plug-in of `norns-instrument` puts them into the program, and a trace then has them as custom events. A
//! [`Property`] says, as refinement checks in CSPM or in simple words, which orders are right.
//! [`Property::check`] looks for an order that the synchronisation of a trace allows and the property does
//! not; [`Property::is_broken_by`] asks the same of the events of one run as they happened.
#![forbid(unsafe_code)]

mod aspect;
mod check;
mod layers;
mod property;
mod slice;
mod words;

pub use aspect::{Aspect, AspectError, Field, Order, What, Where};
pub use check::{Broken, Checked, Limits, Observed, Undecided};
pub use property::{Property, PropertyError};
