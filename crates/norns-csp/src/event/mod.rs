//! Events, sets of events, renamings and priorities.
//!
//! An event is a number; its name stands in the [`Events`] table. The internal event tau and
//! the termination event tick have numbers of their own and are never members of a set, so
//! hiding, synchronisation and renaming cannot touch them by accident. The events of a channel with
//! finite fields have consecutive numbers, in the order of their fields, so that sets and renamings
//! of whole channels cost one entry.

mod names;
mod priority;
mod renaming;
mod set;

pub use names::Events;
pub(crate) use names::FieldNames;
pub use priority::Priority;
pub use renaming::Renaming;
pub use set::{EventSet, Runs};

/// One event: tau, tick, or a visible event with a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(pub u32);

impl EventId {
    /// The internal event.
    pub const TAU: EventId = EventId(0);
    /// Successful termination.
    pub const TICK: EventId = EventId(1);

    /// Neither tau nor tick: an event that a script can name.
    pub fn is_visible(self) -> bool {
        self.0 > 1
    }
}
