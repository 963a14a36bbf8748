//! Events, sets of events, renamings and priorities.
//!
//! An event is a number; its name stands in the [`Events`] table. The internal event tau and
//! the termination event tick have numbers of their own and are never members of a set, so
//! hiding, synchronisation and renaming cannot touch them by accident. A set may be given by
//! what it leaves out, so that `diff(Events, {e})` costs one entry however many events exist.

use std::sync::Arc;

use rustc_hash::FxHashMap;

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

/// The names of the visible events.
#[derive(Clone, Debug)]
pub struct Events {
    names: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, EventId>,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            names: vec!["τ".into(), "✓".into()],
            ids: FxHashMap::default(),
        }
    }
}

impl Events {
    /// The event of that name, new if there was none.
    pub fn intern(&mut self, name: &str) -> EventId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = EventId(u32::try_from(self.names.len()).expect("fewer than 2^32 events"));
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    /// The event of that name, if it was interned.
    pub fn find(&self, name: &str) -> Option<EventId> {
        self.ids.get(name).copied()
    }

    /// The name of an event; `τ` and `✓` for tau and tick.
    pub fn name(&self, event: EventId) -> &str {
        &self.names[event.0 as usize]
    }

    /// How many events exist, tau and tick among them.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: tau and tick always exist.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// A set of visible events, by its members or by what it leaves out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum EventSet {
    // Both lists are sorted and free of duplicates.
    Only(Box<[EventId]>),
    AllBut(Box<[EventId]>),
}

fn sorted(events: impl IntoIterator<Item = EventId>) -> Box<[EventId]> {
    let mut events: Vec<_> = events.into_iter().collect();
    events.sort_unstable();
    events.dedup();
    assert!(
        events.iter().all(|e| e.is_visible()),
        "tau and tick are in no event set"
    );
    events.into()
}

impl EventSet {
    /// The set with these members.
    pub fn only(events: impl IntoIterator<Item = EventId>) -> Self {
        EventSet::Only(sorted(events))
    }

    /// Every visible event except these.
    pub fn all_but(events: impl IntoIterator<Item = EventId>) -> Self {
        EventSet::AllBut(sorted(events))
    }

    /// No event.
    pub fn empty() -> Self {
        EventSet::Only([].into())
    }

    /// Every visible event.
    pub fn all() -> Self {
        EventSet::AllBut([].into())
    }

    /// Whether a visible event is a member; tau and tick never are.
    pub fn contains(&self, event: EventId) -> bool {
        event.is_visible()
            && match self {
                EventSet::Only(members) => members.binary_search(&event).is_ok(),
                EventSet::AllBut(others) => others.binary_search(&event).is_err(),
            }
    }

    /// Every visible event that is not a member.
    pub fn complement(self) -> Self {
        match self {
            EventSet::Only(members) => EventSet::AllBut(members),
            EventSet::AllBut(others) => EventSet::Only(others),
        }
    }

    /// Memory of the list of events.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            EventSet::Only(events) | EventSet::AllBut(events) => events.len() * 4,
        }
    }

    /// The members, if the set is given by them.
    pub fn members(&self) -> Option<&[EventId]> {
        match self {
            EventSet::Only(members) => Some(members),
            EventSet::AllBut(_) => None,
        }
    }
}

/// A renaming: pairs (from, to), sorted, free of duplicates. An event that is no `from` keeps
/// its name; one with several `to` may become any of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Renaming(Box<[(EventId, EventId)]>);

impl Renaming {
    /// The renaming with these pairs.
    pub fn new(pairs: impl IntoIterator<Item = (EventId, EventId)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert!(
            pairs
                .iter()
                .all(|(from, to)| from.is_visible() && to.is_visible()),
            "tau and tick cannot be renamed"
        );
        Renaming(pairs.into())
    }

    /// All pairs, sorted.
    pub fn pairs(&self) -> &[(EventId, EventId)] {
        &self.0
    }

    /// What an event becomes; empty if the renaming does not speak of it.
    pub fn images(&self, event: EventId) -> &[(EventId, EventId)] {
        let start = self.0.partition_point(|&(from, _)| from < event);
        let end = self.0.partition_point(|&(from, _)| from <= event);
        &self.0[start..end]
    }
}

/// Which events give way to which, as an argument of `prioritise` or `prioritisepo`.
///
/// Tau and tick are at the top of every priority: no event stands above them. An event that a
/// priority does not mention neither gives way nor makes another one give way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Priority {
    /// `prioritise(P, <A0, A1, …>)`: an event gives way to those of earlier sets. The events of
    /// the first set are on one level with tau and tick. An event belongs to the first set that
    /// contains it.
    Classes(Box<[EventSet]>),
    /// `prioritisepo(P, events, order, maximal)`.
    Order {
        // (lower, higher), sorted, transitively closed.
        pairs: Box<[(EventId, EventId)]>,
        /// Events that give way to tau and tick.
        below_tau: EventSet,
    },
}

impl Priority {
    /// The priority of `prioritisepo`: `order` has pairs (higher, lower) and need not be
    /// transitive; `events` and the events of `order` give way to tau and tick, except the
    /// `maximal` ones.
    pub fn order(
        events: &EventSet,
        order: impl IntoIterator<Item = (EventId, EventId)>,
        maximal: &EventSet,
    ) -> Self {
        let mut higher: FxHashMap<EventId, Vec<EventId>> = FxHashMap::default();
        let mut mentioned = Vec::new();
        for (high, low) in order {
            higher.entry(low).or_default().push(high);
            mentioned.extend([high, low]);
        }
        let mut pairs = Vec::new();
        for &low in higher.keys() {
            let mut above = vec![low];
            let mut at = 0;
            while at < above.len() {
                for &high in higher.get(&above[at]).into_iter().flatten() {
                    if !above.contains(&high) {
                        above.push(high);
                    }
                }
                at += 1;
            }
            pairs.extend(above[1..].iter().map(|&high| (low, high)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let below_tau = match events {
            EventSet::Only(members) => EventSet::only(
                members
                    .iter()
                    .chain(&mentioned)
                    .copied()
                    .filter(|&e| !maximal.contains(e)),
            ),
            EventSet::AllBut(others) => match maximal {
                EventSet::Only(maximal) => {
                    let others = others.iter().filter(|e| !mentioned.contains(e));
                    EventSet::all_but(others.chain(maximal).copied())
                }
                EventSet::AllBut(lower) => EventSet::only(
                    lower
                        .iter()
                        .copied()
                        .filter(|e| events.contains(*e) || mentioned.contains(e)),
                ),
            },
        };
        Priority::Order {
            pairs: pairs.into(),
            below_tau,
        }
    }

    /// Whether an event may happen where all of `offered` could; sorted, tau and tick included.
    pub fn allows(&self, event: EventId, offered: &[EventId]) -> bool {
        if !event.is_visible() {
            return true;
        }
        let urgent = offered.first().is_some_and(|e| !e.is_visible());
        match self {
            Priority::Classes(classes) => {
                let class = |event: EventId| classes.iter().position(|set| set.contains(event));
                match class(event) {
                    None | Some(0) => true,
                    Some(mine) => {
                        !urgent
                            && !offered
                                .iter()
                                .any(|&other| class(other).is_some_and(|class| class < mine))
                    }
                }
            }
            Priority::Order { pairs, below_tau } => {
                if urgent && below_tau.contains(event) {
                    return false;
                }
                let start = pairs.partition_point(|pair| pair.0 < event);
                !pairs[start..]
                    .iter()
                    .take_while(|pair| pair.0 == event)
                    .any(|pair| offered.binary_search(&pair.1).is_ok())
            }
        }
    }
}
