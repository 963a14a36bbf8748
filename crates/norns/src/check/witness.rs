//! A witness as it is kept, so that the finding can be replayed.

use norns_check::Tried;
use norns_model::{Bug, Witness};
use norns_replay::schedule::{Accesses, Way};
use norns_trace::EventIndex;
use serde::{Deserialize, Serialize};

/// A witness as it is kept: positions in the trace.
#[derive(Serialize, Deserialize)]
pub struct SavedWitness {
    pub format: u32,
    /// The file of the trace, in the same folder.
    pub trace: String,
    pub schedule: Vec<u32>,
    /// Whether a replay must also order conflicting plain accesses.
    pub ordered_accesses: bool,
    /// Whether threads linger at its places after the schedule, instead of being held.
    #[serde(default)]
    pub near: bool,
    /// Whether it was found by lingering at its places, without this schedule.
    #[serde(default)]
    pub hunted: bool,
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
            format: 1,
            trace: trace.into(),
            ordered_accesses: tried.way == Way::Schedule(Accesses::Ordered),
            near: tried.way == Way::Near,
            hunted: tried.way == Way::Hunt,
            seed: match tried.way {
                Way::Priorities(seed) => Some(seed),
                _ => None,
            },
            schedule: numbers(&witness.schedule),
            bug: witness.bug.word().into(),
            events: numbers(&witness.bug.events()),
        }
    }

    /// The way in which it was shown.
    pub fn way(&self) -> Way {
        match self.seed {
            Some(seed) => Way::Priorities(seed),
            None if self.hunted => Way::Hunt,
            None if self.near => Way::Near,
            None if self.ordered_accesses => Way::Schedule(Accesses::Ordered),
            None => Way::Schedule(Accesses::Free),
        }
    }

    pub fn witness(&self) -> Option<Witness> {
        let events: Vec<EventIndex> = self.events.iter().map(|&event| EventIndex(event)).collect();
        Some(Witness {
            schedule: self
                .schedule
                .iter()
                .map(|&event| EventIndex(event))
                .collect(),
            bug: Bug::from_word(&self.bug, events)?,
        })
    }
}
