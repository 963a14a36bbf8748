//! Priorities of events.

use rustc_hash::FxHashMap;

use super::{EventId, EventSet};

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
        let below_tau = events.union(&EventSet::only(mentioned)).difference(maximal);
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
