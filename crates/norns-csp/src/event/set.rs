//! Sets of events.
//!
//! A set may be given by what it leaves out, so that `diff(Events, {e})` costs one entry however many
//! events exist.

use super::EventId;

/// A set of visible events, by its members or by what it leaves out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventSet {
    Only(Runs),
    AllBut(Runs),
}

/// Events as runs of consecutive numbers, so that all events of a channel cost one entry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Runs(
    // (first, last), sorted; there is a gap between two runs.
    Box<[(u32, u32)]>,
);

impl Runs {
    fn new(mut runs: Vec<(u32, u32)>) -> Self {
        runs.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(runs.len());
        for (first, last) in runs {
            assert!(
                EventId(first).is_visible(),
                "tau and tick are in no event set"
            );
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => joined.push((first, last)),
            }
        }
        Runs(joined.into())
    }

    fn contains(&self, event: EventId) -> bool {
        let after = self.0.partition_point(|run| run.0 <= event.0);
        after > 0 && event.0 <= self.0[after - 1].1
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|run| (run.1 - run.0) as usize + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The events in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = EventId> + Clone + '_ {
        self.0.iter().flat_map(|run| (run.0..=run.1).map(EventId))
    }

    /// The runs, each by its first event and its length.
    pub fn runs(&self) -> impl Iterator<Item = (EventId, u32)> + '_ {
        self.0.iter().map(|run| (EventId(run.0), run.1 - run.0 + 1))
    }

    fn union(&self, other: &Runs) -> Runs {
        Runs::new(self.0.iter().chain(&other.0).copied().collect())
    }

    fn difference(&self, other: &Runs) -> Runs {
        let mut left = Vec::with_capacity(self.0.len());
        let mut at = 0;
        for &(mut first, last) in &self.0 {
            while at < other.0.len() && other.0[at].1 < first {
                at += 1;
            }
            let mut next = at;
            while first <= last && next < other.0.len() && other.0[next].0 <= last {
                let (low, high) = other.0[next];
                if low > first {
                    left.push((first, low - 1));
                }
                first = high.saturating_add(1);
                next += 1;
            }
            if first <= last {
                left.push((first, last));
            }
        }
        Runs(left.into())
    }

    fn intersection(&self, other: &Runs) -> Runs {
        self.difference(&self.difference(other))
    }
}

impl EventSet {
    /// The set with these members.
    pub fn only(events: impl IntoIterator<Item = EventId>) -> Self {
        let runs = events.into_iter().map(|event| (event.0, event.0));
        EventSet::Only(Runs::new(runs.collect()))
    }

    /// Every visible event except these.
    pub fn all_but(events: impl IntoIterator<Item = EventId>) -> Self {
        EventSet::only(events).complement()
    }

    /// `count` events, with consecutive numbers from `first` on.
    pub fn run(first: EventId, count: u32) -> Self {
        EventSet::of_runs([(first, count)])
    }

    /// Runs of events with consecutive numbers, each by its first event and its length.
    pub fn of_runs(runs: impl IntoIterator<Item = (EventId, u32)>) -> Self {
        let runs = runs.into_iter().filter(|run| run.1 > 0);
        let runs = runs.map(|(first, count)| (first.0, first.0 + (count - 1)));
        EventSet::Only(Runs::new(runs.collect()))
    }

    /// No event.
    pub fn empty() -> Self {
        EventSet::Only(Runs::default())
    }

    /// Every visible event.
    pub fn all() -> Self {
        EventSet::AllBut(Runs::default())
    }

    /// Whether a visible event is a member; tau and tick never are.
    pub fn contains(&self, event: EventId) -> bool {
        event.is_visible()
            && match self {
                EventSet::Only(members) => members.contains(event),
                EventSet::AllBut(others) => !others.contains(event),
            }
    }

    /// Every visible event that is not a member.
    pub fn complement(self) -> Self {
        match self {
            EventSet::Only(members) => EventSet::AllBut(members),
            EventSet::AllBut(others) => EventSet::Only(others),
        }
    }

    /// The events that are in one of two sets at least.
    pub fn union(&self, other: &EventSet) -> EventSet {
        use EventSet::*;
        match (self, other) {
            (Only(a), Only(b)) => Only(a.union(b)),
            (Only(a), AllBut(b)) | (AllBut(b), Only(a)) => AllBut(b.difference(a)),
            (AllBut(a), AllBut(b)) => AllBut(a.intersection(b)),
        }
    }

    /// The events of this set that are not in the other one.
    pub fn difference(&self, other: &EventSet) -> EventSet {
        self.intersection(&other.clone().complement())
    }

    /// The events that are in both sets.
    pub fn intersection(&self, other: &EventSet) -> EventSet {
        use EventSet::*;
        match (self, other) {
            (Only(a), Only(b)) => Only(a.intersection(b)),
            (Only(a), AllBut(b)) | (AllBut(b), Only(a)) => Only(a.difference(b)),
            (AllBut(a), AllBut(b)) => AllBut(a.union(b)),
        }
    }

    /// Memory of the list of events.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            EventSet::Only(runs) | EventSet::AllBut(runs) => runs.0.len() * 8,
        }
    }

    /// The members, if the set is given by them.
    pub fn members(&self) -> Option<&Runs> {
        match self {
            EventSet::Only(members) => Some(members),
            EventSet::AllBut(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_random::Random;

    const EVENTS: u32 = 24;

    fn random_set(random: &mut Random) -> EventSet {
        let runs: Vec<(EventId, u32)> = (0..random.below(4))
            .map(|_| {
                let first = 2 + random.below(EVENTS as usize - 6) as u32;
                (EventId(first), random.below(6) as u32)
            })
            .collect();
        let set = EventSet::of_runs(runs);
        if random.below(3) == 0 {
            set.complement()
        } else {
            set
        }
    }

    fn members(set: &EventSet) -> Vec<u32> {
        (0..2 + EVENTS)
            .filter(|&event| set.contains(EventId(event)))
            .collect()
    }

    #[test]
    fn operations_are_those_of_sets() {
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let (a, b) = (random_set(&mut random), random_set(&mut random));
            let (in_a, in_b) = (members(&a), members(&b));
            let check = |set: EventSet, wanted: &dyn Fn(&u32) -> bool, what: &str| {
                let wanted: Vec<u32> = (2..2 + EVENTS).filter(wanted).collect();
                assert_eq!(members(&set), wanted, "{what} of {a:?} and {b:?}");
                if let Some(runs) = set.members() {
                    assert_eq!(runs.len(), wanted.len());
                    assert!(runs.iter().map(|event| event.0).eq(wanted.iter().copied()));
                    assert_eq!(
                        set,
                        EventSet::only(wanted.into_iter().map(EventId)),
                        "{what}"
                    );
                }
            };
            check(
                a.union(&b),
                &|e| in_a.contains(e) || in_b.contains(e),
                "union",
            );
            check(
                a.intersection(&b),
                &|e| in_a.contains(e) && in_b.contains(e),
                "intersection",
            );
            check(
                a.difference(&b),
                &|e| in_a.contains(e) && !in_b.contains(e),
                "difference",
            );
        }
    }
}
