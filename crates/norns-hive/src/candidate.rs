//! Candidates: their identity over rebuilds, their sites, and where they come from.
//!
//! The identity of a candidate is what its two places do: function, last part of the file, kind of access and
//! the source line without white space. Unrelated edits, other line numbers and another order of the places
//! do not change it, and verdicts stay with it. What it cannot see is a lock that was put around an unchanged
//! line: then the scan of the new build no longer has the candidate, and its old verdict is not shown for
//! that build.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::id::{CandidateId, SiteNumber};
use crate::protocol::{Access, Candidate, Origin, Place, Site};

/// The text of a source, by the path that places have; nothing if it cannot be read.
pub type Sources<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A suspicion without identity: what a scan or a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspicion {
    pub origin: Origin,
    pub rank: u32,
    pub object: String,
    pub places: [Place; 2],
}

/// The data races among the candidates of `norns scan --format json`, or among the findings of
/// `norns check --format json`. The other kinds cannot be validated by sites at accesses.
#[must_use]
pub fn suspicions(listed: &Value) -> Vec<Suspicion> {
    let scanned = listed["candidates"]
        .as_array()
        .map(|list| (Origin::Scan, list));
    let checked = listed["findings"]
        .as_array()
        .map(|list| (Origin::Predicted, list));
    let lists = scanned.into_iter().chain(checked);
    lists
        .flat_map(|(origin, list)| list.iter().map(move |value| (origin, value)))
        .filter(|(_, value)| value["kind"] == "data-race")
        .filter_map(|(origin, value)| suspicion(origin, value))
        .collect()
}

fn suspicion(origin: Origin, value: &Value) -> Option<Suspicion> {
    let places: Vec<Place> = value["places"]
        .as_array()?
        .iter()
        .filter_map(place)
        .collect();
    let places = match <[Place; 2]>::try_from(places) {
        Ok(places) => places,
        // One place races with itself.
        Err(one) => {
            let [only] = <[Place; 1]>::try_from(one).ok()?;
            [only.clone(), only]
        }
    };
    let object = value["object"]
        .as_str()
        .or_else(|| value["object"]["name"].as_str());
    Some(Suspicion {
        origin,
        rank: number(&value["rank"]),
        object: object.unwrap_or_default().to_owned(),
        places,
    })
}

fn place(value: &Value) -> Option<Place> {
    let access = value["access"].as_str()?;
    let access = match access {
        _ if access.contains("update") || access.contains("read-write") => Access::Update,
        _ if access.contains("write") || access.contains("free") => Access::Write,
        _ if access.contains("read") => Access::Read,
        _ => return None,
    };
    // A site is where the access itself stands, which can be in a header of the system.
    let at = match &value["inside"][0] {
        Value::Null => value,
        inside => inside,
    };
    Some(Place {
        file: at["file"].as_str()?.to_owned(),
        line: number(&at["line"]),
        column: number(&at["column"]),
        function: at["function"].as_str().unwrap_or_default().to_owned(),
        access,
    })
}

fn number(value: &Value) -> u32 {
    let number = value.as_u64().unwrap_or(0);
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The candidates of a build: each suspicion with its identity and its sites, each identity once, the
/// predicted ones first.
#[must_use]
pub fn candidates(suspicions: &[Suspicion], sites: &[Site], sources: Sources) -> Vec<Candidate> {
    let mut read: HashMap<String, Vec<String>> = HashMap::new();
    for place in suspicions.iter().flat_map(|it| &it.places) {
        read.entry(place.file.clone()).or_insert_with(|| {
            let text = sources(&place.file).unwrap_or_default();
            text.lines().map(without_white_space).collect()
        });
    }
    let statement = |place: &Place| {
        let lines = read.get(&place.file)?;
        lines.get((place.line as usize).checked_sub(1)?).cloned()
    };
    let mut sorted: Vec<Suspicion> = suspicions.to_vec();
    for suspicion in &mut sorted {
        suspicion.places.sort();
    }
    sorted.sort_by(|one, other| {
        let key = |it: &Suspicion| (it.origin == Origin::Scan, it.places.clone());
        key(one).cmp(&key(other))
    });
    let by_line = SitesByLine::new(sites);
    let mut seen: BTreeMap<String, Vec<[Place; 2]>> = BTreeMap::new();
    let mut found = Vec::new();
    for suspicion in sorted {
        let print = fingerprint(&suspicion.places, &statement);
        let same = seen.entry(print.clone()).or_default();
        // Predicted and scanned, or by way of several calls: the columns may differ.
        if same
            .iter()
            .any(|places| same_lines(places, &suspicion.places))
        {
            continue;
        }
        same.push(suspicion.places.clone());
        let id = match same.len() {
            1 => print,
            number => format!("{print}-{number}"),
        };
        let of = |place: &Place| by_line.of(place);
        let [one, other] = &suspicion.places;
        found.push(Candidate {
            id: CandidateId::new(id).expect("16 hexadecimal digits, and a number"),
            origin: suspicion.origin,
            rank: suspicion.rank,
            object: suspicion.object,
            sites: [of(one), of(other)],
            places: suspicion.places,
        });
    }
    found
}

fn same_lines(one: &[Place; 2], other: &[Place; 2]) -> bool {
    let key = |place: &Place| (place.file.clone(), place.line, place.access);
    one.iter().map(key).eq(other.iter().map(key))
}

fn without_white_space(line: &str) -> String {
    line.split_whitespace().collect()
}

/// 64 bits of FNV-1a over the two places, whichever comes first, as 16 hexadecimal digits.
fn fingerprint(places: &[Place; 2], statement: &dyn Fn(&Place) -> Option<String>) -> String {
    let mut keys = places.each_ref().map(|place| {
        let file = place.file.rsplit('/').next().unwrap_or_default();
        let statement = statement(place).unwrap_or_default();
        format!(
            "{} {file} {} {statement}",
            place.function,
            place.access.name()
        )
    });
    keys.sort();
    let bytes = keys.iter().flat_map(|key| key.bytes().chain([b'\n']));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The sites of each line, by the last part of the file.
struct SitesByLine<'a> {
    sites: HashMap<(&'a str, u32), Vec<&'a Site>>,
}

impl<'a> SitesByLine<'a> {
    fn new(sites: &'a [Site]) -> Self {
        let mut by_line: HashMap<(&str, u32), Vec<&Site>> = HashMap::new();
        for site in sites {
            let name = site.file.rsplit('/').next().unwrap_or_default();
            by_line.entry((name, site.line)).or_default().push(site);
        }
        Self { sites: by_line }
    }

    /// The sites of a place: of its line and access, and of its column where both have one.
    fn of(&self, place: &Place) -> Vec<SiteNumber> {
        let name = place.file.rsplit('/').next().unwrap_or_default();
        let at_line = self.sites.get(&(name, place.line)).into_iter().flatten();
        let fits: Vec<&Site> = at_line
            .copied()
            .filter(|site| same_path(&site.file, &place.file) && covers(site.access, place.access))
            .collect();
        let same_column = |site: &&&Site| site.column != 0 && site.column == place.column;
        let exact: Vec<&Site> = fits.iter().filter(same_column).copied().collect();
        let chosen = if exact.is_empty() { fits } else { exact };
        let mut numbers: Vec<SiteNumber> = chosen.iter().map(|site| site.number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Whether one path is the end of the other: compilers and scans name files from different folders.
fn same_path(one: &str, other: &str) -> bool {
    let parts = |path: &'_ str| -> Vec<String> {
        let parts = path.rsplit('/').filter(|part| !matches!(*part, "." | ""));
        parts.map(str::to_owned).collect()
    };
    parts(one)
        .iter()
        .zip(&parts(other))
        .all(|(one, other)| one == other)
}

/// Whether a site with one access can stand for a place with another.
fn covers(site: Access, place: Access) -> bool {
    site == place || site == Access::Update || place == Access::Update
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OLD: &str = "int balance;\nint old = balance;\nbalance = old;\n";
    const NEW: &str = "int balance;\n// more\nint  old = balance;\nbalance = old;\n";

    fn scan(lines: [u32; 2]) -> Value {
        let place = |line: u32, access: &str| {
            json!({"file": "src/bank.c", "line": line, "column": 5, "function": "deposit", "access": access,
                   "held": [], "chain": [], "created": null})
        };
        json!({"format": 1, "not_analysed": [], "candidates": [
            {"id": 1, "kind": "data-race", "rank": 7, "object": "balance",
             "places": [place(lines[0], "read"), place(lines[1], "write")]},
            {"id": 2, "kind": "deadlock", "rank": 7, "object": "m", "places": [place(1, "lock")]},
            {"id": 3, "kind": "data-race", "rank": 7, "object": "balance", "places": [place(lines[1], "write")]},
        ]})
    }

    fn site(number: u32, file: &str, line: u32, column: u32, access: Access) -> Site {
        let function = "deposit".to_owned();
        let number = SiteNumber(number);
        Site {
            number,
            file: file.to_owned(),
            line,
            column,
            function,
            access,
            size: 4,
        }
    }

    fn of(lines: [u32; 2], sites: &[Site], source: &str) -> Vec<Candidate> {
        candidates(&suspicions(&scan(lines)), sites, &|_| {
            Some(source.to_owned())
        })
    }

    #[test]
    fn a_candidate_keeps_its_identity_when_other_lines_change() {
        let ids = |list: Vec<Candidate>| -> Vec<CandidateId> {
            list.into_iter().map(|it| it.id).collect()
        };
        let old = ids(of([2, 3], &[], OLD));
        assert_eq!(
            old.len(),
            2,
            "deadlocks are no candidates for sites at accesses"
        );
        assert_eq!(old, ids(of([3, 4], &[], NEW)));
        let changed = ids(of([2, 3], &[], &OLD.replace("= old", "= old + 1")));
        assert!(changed.iter().all(|id| !old.contains(id)));
    }

    #[test]
    fn equal_statements_are_told_apart() {
        let mut list = suspicions(&scan([2, 3]));
        let mut later = list[0].clone();
        later.places[0].line = 4;
        later.places[1].line = 5;
        list.push(later);
        let source = "int balance;\nx = balance;\nbalance = x;\nx = balance;\nbalance = x;\n";
        let ids = candidates(&list, &[], &|_| Some(source.to_owned()));
        let ids: Vec<&str> = ids.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids.len(), 3);
        assert!(ids.iter().any(|id| id.ends_with("-2")), "{ids:?}");
    }

    #[test]
    fn what_is_predicted_as_well_is_one_candidate() {
        let mut list = suspicions(&scan([2, 3]));
        let mut predicted = list[0].clone();
        predicted.origin = Origin::Predicted;
        predicted.places[0].column = 0;
        list.push(predicted);
        let found = candidates(&list, &[], &|_| Some(OLD.to_owned()));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].origin, Origin::Predicted);
    }

    #[test]
    fn sites_are_those_of_the_line_the_access_and_the_column() {
        let sites = [
            site(0, "bank.c", 2, 5, Access::Read),
            site(1, "../src/bank.c", 2, 5, Access::Write),
            site(2, "src/bank.c", 3, 5, Access::Write),
            site(3, "src/bank.c", 3, 9, Access::Write),
            site(4, "other/bank.c", 3, 5, Access::Write),
        ];
        let found = of([2, 3], &sites, OLD);
        let pair = found
            .iter()
            .find(|it| it.places[0].line == 2)
            .expect("the pair");
        assert_eq!(pair.sites, [vec![SiteNumber(0)], vec![SiteNumber(2)]]);
    }
}
