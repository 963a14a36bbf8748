//! A witness: one reordering of a trace that shows a bug.

use norns_trace::EventIndex;

/// What counts as another schedule of the same trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// Program order and what the synchronisation objects allow.
    Optimistic,
    /// In addition every executed read sees the write that it saw in the trace.
    Faithful,
}

/// The bug that the state after `Witness::schedule` shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The next events of two threads are these conflicting accesses; `first` is the earlier one
    /// in the trace.
    Race {
        first: EventIndex,
        second: EventIndex,
    },
    /// A cycle of threads, each of whose next event acquires a lock that the next thread of the
    /// cycle holds. In the order of the cycle, beginning with the smallest.
    LockDeadlock { blocked: Vec<EventIndex> },
    /// These are the next events of threads that can take no further step in any continuation.
    /// Sorted.
    Stuck { blocked: Vec<EventIndex> },
}

/// A legal sequence of events, at most one prefix of every thread, and the bug that follows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    pub schedule: Vec<EventIndex>,
    pub bug: Bug,
}
