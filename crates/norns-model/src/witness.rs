//! A witness: one reordering of a trace that shows a bug.

use norns_trace::{EventIndex, Trace};

/// What counts as another schedule of the same trace.
///
/// The engines that walk through states (`Model`, `checker`) do not know values: to them
/// `SameValues` is the same as `Optimistic`, and whoever asks has to sift their answers with the
/// ordering solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// Program order and what the synchronisation objects allow; a read may see any write.
    Optimistic,
    /// In addition every executed read sees the write that it saw in the trace. Where the trace
    /// has branch events, the ordering solver asks this only of the reads that an executed branch
    /// depends on.
    Faithful,
    /// In addition to `Optimistic` every executed read sees the value that it saw in the trace,
    /// whichever write left it there; with branch events as above.
    SameValues,
}

impl Meaning {
    /// The most precise meaning for which the trace holds the information: its values, or at
    /// least the order of its accesses.
    pub fn usual(trace: &Trace) -> Meaning {
        match (trace.accesses_ordered, trace.values.is_empty()) {
            (true, false) => Meaning::SameValues,
            (true, true) => Meaning::Faithful,
            (false, _) => Meaning::Optimistic,
        }
    }

    /// The meaning for an engine that cannot compare values: a read that keeps its write keeps
    /// its value as well.
    pub fn without_values(self) -> Meaning {
        match self {
            Meaning::SameValues => Meaning::Faithful,
            meaning => meaning,
        }
    }
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
    /// These custom events are the last ones of the schedule that a rule of the user speaks of, in its
    /// order: after the others, the rule does not allow the last one.
    Order { events: Vec<EventIndex> },
    /// The first and the last access are of one thread and were meant as one step; the others, of one
    /// other thread, come between them. In no order of the two steps as wholes would all accesses see
    /// and leave the same. All but the last have happened, in this order; the last is the next event of
    /// its thread.
    Atomicity { accesses: Vec<EventIndex> },
}

impl Bug {
    /// The events that the bug is about, in the order in which it names them.
    pub fn events(&self) -> Vec<EventIndex> {
        match self {
            Bug::Race { first, second } => vec![*first, *second],
            Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => blocked.clone(),
            Bug::Order { events } => events.clone(),
            Bug::Atomicity { accesses } => accesses.clone(),
        }
    }

    /// Those of its events that have not happened after the schedule: each is the next one of its
    /// thread.
    pub fn pending(&self) -> Vec<EventIndex> {
        match self {
            Bug::Race { .. } | Bug::LockDeadlock { .. } | Bug::Stuck { .. } => self.events(),
            Bug::Order { .. } => Vec::new(),
            Bug::Atomicity { accesses } => accesses.last().copied().into_iter().collect(),
        }
    }

    /// The same bug with other events in the places of its own.
    pub fn map_events(&self, other: impl Fn(&EventIndex) -> EventIndex) -> Bug {
        match self {
            Bug::Race { first, second } => Bug::Race {
                first: other(first),
                second: other(second),
            },
            Bug::LockDeadlock { blocked } => Bug::LockDeadlock {
                blocked: blocked.iter().map(other).collect(),
            },
            Bug::Stuck { blocked } => Bug::Stuck {
                blocked: blocked.iter().map(other).collect(),
            },
            Bug::Order { events } => Bug::Order {
                events: events.iter().map(other).collect(),
            },
            Bug::Atomicity { accesses } => Bug::Atomicity {
                accesses: accesses.iter().map(other).collect(),
            },
        }
    }

    /// The word for this sort of bug in files.
    pub fn word(&self) -> &'static str {
        match self {
            Bug::Race { .. } => "race",
            Bug::LockDeadlock { .. } => "lock-deadlock",
            Bug::Stuck { .. } => "stuck",
            Bug::Order { .. } => "order",
            Bug::Atomicity { .. } => "atomicity",
        }
    }

    /// The bug with this `word` and these `events`; `None` when there is no such bug.
    pub fn from_word(word: &str, events: Vec<EventIndex>) -> Option<Bug> {
        match (word, &events[..]) {
            ("race", &[first, second]) => Some(Bug::Race { first, second }),
            ("lock-deadlock", _) => Some(Bug::LockDeadlock { blocked: events }),
            ("stuck", _) => Some(Bug::Stuck { blocked: events }),
            ("order", _) => Some(Bug::Order { events }),
            ("atomicity", _) => Some(Bug::Atomicity { accesses: events }),
            _ => None,
        }
    }
}

/// A legal sequence of events, at most one prefix of every thread, and the bug that follows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Witness {
    pub schedule: Vec<EventIndex>,
    pub bug: Bug,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_its_word_and_its_events() {
        let blocked = vec![EventIndex(3), EventIndex(5)];
        for bug in [
            Bug::Race {
                first: EventIndex(3),
                second: EventIndex(5),
            },
            Bug::LockDeadlock {
                blocked: blocked.clone(),
            },
            Bug::Stuck {
                blocked: blocked.clone(),
            },
            Bug::Order {
                events: blocked.clone(),
            },
            Bug::Atomicity { accesses: blocked },
        ] {
            assert_eq!(Bug::from_word(bug.word(), bug.events()), Some(bug));
        }
        assert_eq!(Bug::from_word("race", vec![EventIndex(3)]), None);
    }
}
