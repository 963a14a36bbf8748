//! The options of a prediction and its result.

use std::collections::BTreeSet;

use norns_model::{Meaning, NotAnalysed, Witness};
use norns_trace::{EventIndex, Trace};

use crate::candidate::Filtered;

/// Which engines are used after the filters.
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

/// How detailed the result is.
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
    /// How many steps of exact search one candidate may take.
    pub budget: usize,
    pub reductions: Reductions,
    /// Of longer schedules the result has only the end, although they are checked as a whole. For
    /// callers that show witnesses and do not replay them.
    pub longest_kept: usize,
}

/// Reductions of section 5.5 of Carril (2017). None of them changes a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reductions {
    /// Leave out accesses that race only if another access of the same place does.
    pub redundant: bool,
    /// Before any engine is asked, rule out pairs that are always ordered or have a common lock.
    pub hybrid: bool,
    /// In the optimistic meaning, decide each pair of segments only once.
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
    /// Predicted optimistically and refuted by values.
    pub refuted: usize,
    /// Predicted optimistically; the solver could not decide whether values allow it.
    pub unsifted: usize,
    /// Found, but not listed: the schedules of the others fill the memory set aside for them.
    pub unlisted: usize,
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
    /// The blocked events of all such waits that were found; `stuck` has one for each set of places.
    pub stuck_sets: Vec<Vec<EventIndex>>,
    /// What synchronisation allows and values forbid: one witness for each pair or set of places, with
    /// the schedule that values forbid.
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
