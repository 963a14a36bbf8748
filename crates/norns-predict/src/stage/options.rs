//! What is asked of a prediction, and what it answers.

use std::collections::BTreeSet;

use norns_model::{Meaning, NotAnalysed, Witness};
use norns_trace::{EventIndex, Trace};

use crate::candidate::Filtered;

/// Which engines take part after the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// All, cheapest first.
    Auto,
    Linear,
    Exact,
    /// The ordering solver.
    Order,
    /// The refinement checker on the model as CSPM.
    Csp,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// One witness for every pair of places.
    Places,
    /// In addition every event that races with an earlier one, and every deadlocked set of
    /// events.
    Events,
    /// In addition every racy pair of events.
    Pairs,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Only `Engine::Auto` and `Engine::Order` can compare values; the others answer
    /// `Meaning::SameValues` as `Meaning::Faithful`.
    pub meaning: Meaning,
    pub engine: Engine,
    pub detail: Detail,
    pub races: bool,
    pub deadlocks: bool,
    /// Steps of exact search for one candidate.
    pub budget: usize,
    pub reductions: Reductions,
    /// Of longer schedules only the end is kept in the result; they are checked as a whole. For
    /// callers that show witnesses and do not replay them.
    pub longest_kept: usize,
}

/// Reductions of section 5.5 of Carril (2017). None of them changes a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reductions {
    /// Leave out accesses that race only where another of their place does.
    pub redundant: bool,
    /// Rule out pairs that are always ordered or have a common lock before any engine looks.
    pub hybrid: bool,
    /// In the optimistic meaning, decide each pair of segments once.
    pub same_segments: bool,
}

impl Reductions {
    pub const ALL: Reductions = Reductions {
        redundant: true,
        hybrid: true,
        same_segments: true,
    };
    pub const NONE: Reductions = Reductions {
        redundant: false,
        hybrid: false,
        same_segments: false,
    };
}

impl Options {
    /// The usual options for a trace.
    pub fn usual(trace: &Trace) -> Options {
        Options {
            meaning: Meaning::usual(trace),
            engine: Engine::Auto,
            detail: Detail::Places,
            races: true,
            deadlocks: true,
            budget: 200_000,
            reductions: Reductions::ALL,
            longest_kept: usize::MAX,
        }
    }

    /// The meaning that this engine answers.
    pub fn answered_meaning(&self) -> Meaning {
        match self.engine {
            Engine::Auto | Engine::Order => self.meaning,
            Engine::Linear | Engine::Exact | Engine::Csp => self.meaning.without_values(),
        }
    }
}

/// How many candidates each stage decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub candidates: usize,
    pub filtered: Filtered,
    pub linear: usize,
    pub exact: usize,
    pub order: usize,
    pub impossible: usize,
    pub undecided: usize,
    /// Predicted, but values forbid it; and those of which the solver could not say that.
    pub refuted: usize,
    pub unsifted: usize,
    /// Found by an engine, but refused by the checker.
    pub refused: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// One witness for every pair of places and accesses, sorted.
    pub races: Vec<Witness>,
    /// One witness for every set of places.
    pub deadlocks: Vec<Witness>,
    pub stuck: Vec<Witness>,
    /// The blocked events of all such waits that were found, of which `stuck` has one for places.
    pub stuck_sets: Vec<Vec<EventIndex>>,
    /// What synchronisation allows and values forbid, one of each pair or set of places, with the
    /// schedule that they forbid.
    pub refuted: Vec<Witness>,
    /// Events that race with an earlier one; only with `Detail::Events` and more.
    pub racy_events: BTreeSet<EventIndex>,
    /// Sorted sets of blocked acquisitions; only with `Detail::Events` and more.
    pub deadlocked_events: BTreeSet<Vec<EventIndex>>,
    /// Only with `Detail::Pairs`.
    pub racy_pairs: BTreeSet<(EventIndex, EventIndex)>,
    /// Candidates that no engine could decide within its budget.
    pub undecided: Vec<Vec<EventIndex>>,
    pub race_counts: Counts,
    pub deadlock_counts: Counts,
    pub not_analysed: Vec<NotAnalysed>,
}
