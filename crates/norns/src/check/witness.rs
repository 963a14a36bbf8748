//! A witness as it is kept, so that the finding can be replayed.

use norns_check::Tried;
use norns_model::{Bug, Witness};
use norns_replay::schedule::{Accesses, Way};
use norns_trace::EventIndex;
use serde::{Deserialize, Serialize};

/// The version of the form.
const FORMAT: u32 = 2;

/// A witness as it is kept: positions in the trace.
#[derive(Serialize, Deserialize)]
pub struct SavedWitness {
    pub format: u32,
    /// The file of the trace, in the same folder.
    pub trace: String,
    /// The positions of its events, as differences from one to the next, each with how often it
    /// occurs in a row: a schedule mostly keeps the order of the trace.
    pub schedule: Vec<(i64, u32)>,
    /// Whether a replay must also order conflicting plain accesses.
    pub ordered_accesses: bool,
    /// Whether threads linger at its places after the schedule, instead of being held.
    #[serde(default)]
    pub near: bool,
    /// Whether it was found by lingering at its places, without this schedule.
    #[serde(default)]
    pub hunted: bool,
    /// Whether only the order of its custom events is enforced.
    #[serde(default)]
    pub events_only: bool,
    /// The seed of random priorities, if it was found with them.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The word of `Bug`.
    pub bug: String,
    pub events: Vec<u32>,
}

impl SavedWitness {
    pub fn of(tried: &Tried, trace: &str) -> Self {
        let witness = &tried.witness;
        let numbers = |events: &[EventIndex]| events.iter().map(|event| event.0).collect();
        Self {
            format: FORMAT,
            trace: trace.into(),
            ordered_accesses: tried.way == Way::Schedule(Accesses::Ordered),
            near: tried.way == Way::Near,
            hunted: tried.way == Way::Hunt,
            events_only: tried.way == Way::Events,
            seed: match tried.way {
                Way::Priorities(seed) => Some(seed),
                _ => None,
            },
            schedule: differences(&witness.schedule),
            bug: witness.bug.word().into(),
            events: numbers(&witness.bug.events()),
        }
    }

    /// The way in which it was shown.
    pub fn way(&self) -> Way {
        match self.seed {
            Some(seed) => Way::Priorities(seed),
            None if self.hunted => Way::Hunt,
            None if self.events_only => Way::Events,
            None if self.near => Way::Near,
            None if self.ordered_accesses => Way::Schedule(Accesses::Ordered),
            None => Way::Schedule(Accesses::Free),
        }
    }

    pub fn witness(&self) -> Option<Witness> {
        let events: Vec<EventIndex> = self.events.iter().map(|&event| EventIndex(event)).collect();
        Some(Witness {
            schedule: positions(&self.schedule)?,
            bug: Bug::from_word(&self.bug, events)?,
        })
    }
}

/// The first position counts from 0.
fn differences(events: &[EventIndex]) -> Vec<(i64, u32)> {
    let mut all: Vec<(i64, u32)> = Vec::new();
    let mut before = 0;
    for event in events {
        let position = i64::from(event.0);
        let difference = position - before;
        before = position;
        match all.last_mut() {
            Some((same, count)) if *same == difference => *count += 1,
            _ => all.push((difference, 1)),
        }
    }
    all
}

/// `None` if a position is not one of a trace.
fn positions(differences: &[(i64, u32)]) -> Option<Vec<EventIndex>> {
    let mut events = Vec::new();
    let mut position = 0i64;
    for &(difference, count) in differences {
        for _ in 0..count {
            position = position.checked_add(difference)?;
            events.push(EventIndex(u32::try_from(position).ok()?));
        }
    }
    Some(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_keep_every_order() {
        for order in [&[][..], &[0], &[5, 6, 7, 8, 2, 3, 9], &[4, 3, 2, 1, 0]] {
            let events: Vec<EventIndex> = order.iter().map(|&event| EventIndex(event)).collect();
            assert_eq!(positions(&differences(&events)), Some(events));
        }
        assert_eq!(differences(&[3, 4, 5].map(EventIndex)), [(3, 1), (1, 2)]);
        assert_eq!(positions(&[(-1, 1)]), None);
    }
}
