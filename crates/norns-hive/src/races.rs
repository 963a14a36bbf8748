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

impl Races {
    /// The true races for code hosts, in SARIF 2.1.0; the others have no proof and would only be noise there.
    #[must_use]
    pub fn sarif(&self, version: &str) -> serde_json::Value {
        use serde_json::{Value, json};
        let location = |place: &Place| {
            json!({
                "physicalLocation": {
                    "artifactLocation": {"uri": place.file},
                    "region": {"startLine": place.line.max(1)},
                },
                "message": {"text": format!("{} in {}", place.access.name(), place.function)},
            })
        };
        let shown = self
            .races
            .iter()
            .filter(|race| race.verdict == Verdict::TrueRace);
        let results: Vec<Value> = shown
            .map(|race| {
                let places: Vec<Value> = race.places.iter().map(location).collect();
                let runs = race.reports.race;
                let text = format!(
                    "data race on {}, seen by {runs} runs of {}",
                    race.object, race.program
                );
                json!({
                    "ruleId": "data-race",
                    "level": "error",
                    "message": {"text": text},
                    "locations": places.first().into_iter().collect::<Vec<_>>(),
                    "relatedLocations": places.get(1..).unwrap_or_default(),
                    "partialFingerprints": {"norns/v1": race.id},
                })
            })
            .collect();
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {"name": "norns hive", "version": version,
                                    "rules": [{"id": "data-race", "name": "DataRace"}]}},
                "results": results,
            }],
        })
    }
}
