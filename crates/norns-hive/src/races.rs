//! The races that a hive, or the runs of one machine, have validated, as people and tools see them:
//! docs/schema/races.json.

use serde::{Deserialize, Serialize};

use crate::id::{CandidateId, ProgramName};
use crate::protocol::{Candidate, Place};
use crate::verdict::{Tally, Verdict};

/// The version of the JSON.
pub const FORMAT: u32 = 1;

/// What `norns hive races --format json` and `norns guard --runs N --format json` print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Races {
    pub format: u32,
    /// True races first, then unknown, then likely false ones.
    pub races: Vec<Race>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Race {
    pub id: CandidateId,
    pub program: ProgramName,
    pub verdict: Verdict,
    #[serde(default)]
    pub object: String,
    pub places: Vec<Place>,
    pub reports: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    pub race: u64,
    pub no_race: u64,
    pub timeout: u64,
    pub not_seen: u64,
}

impl From<Tally> for Counts {
    fn from(tally: Tally) -> Counts {
        Counts {
            race: tally.race,
            no_race: tally.no_race,
            timeout: tally.timeout,
            not_seen: tally.not_seen,
        }
    }
}

impl Races {
    /// The list of these candidates of a program, each with its tally.
    pub fn new<'a>(
        program: &ProgramName,
        candidates: impl IntoIterator<Item = (&'a Candidate, Tally)>,
    ) -> Races {
        let candidates = candidates.into_iter();
        let mut races: Vec<Race> = candidates
            .map(|(candidate, tally)| Race {
                id: candidate.id.clone(),
                program: program.clone(),
                verdict: tally.verdict(),
                object: candidate.object.clone(),
                places: candidate.places.to_vec(),
                reports: tally.into(),
            })
            .collect();
        races.sort_by(|one, other| {
            let key = |race: &Race| match race.verdict {
                Verdict::TrueRace => 0,
                Verdict::Unknown => 1,
                Verdict::LikelyFalse => 2,
            };
            (key(one), &one.places, &one.id).cmp(&(key(other), &other.places, &other.id))
        });
        Races {
            format: FORMAT,
            races,
        }
    }
}
