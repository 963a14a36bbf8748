//! What the comments of a test program say about its findings, and whether that is what was found.
//!
//! On a line of the program:
//!
//! - `// finds: KIND [ACCESS]`: a confirmed finding of this kind has a place here, with this access
//!   (`read`, `write`) if one is named. A race also names the line of its other access: `// finds:
//!   data-race read, with line 4`, `with lines 4, 9` or, where a line races with itself, `with
//!   itself`. Both lines must say so.
//! - `// may find: KIND …`: as `finds`, but not every run executes the line; the program says why.
//! - `// spins`: the line belongs to a spin loop. Something is reported here, but not confirmed.
//! - `// in the witness`: the schedule of every confirmed finding has this line; without it the
//!   program cannot follow, so the first witness was refined.
//!
//! `// all refuted` anywhere says that nothing is left as merely predicted. Whatever is confirmed
//! must be expected, and whatever is expected by `finds` must be confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Two lines in ascending order and what lies between them.
type Race = (u64, u64, String);

#[derive(Default)]
pub struct Expected {
    finds: BTreeMap<u64, Place>,
    may_find: BTreeMap<u64, Place>,
    spins: BTreeSet<u64>,
    in_witness: BTreeSet<u64>,
    all_refuted: bool,
}

struct Place {
    kind: String,
    access: Option<String>,
    /// The lines of the other accesses; empty unless `kind` is a race.
    partners: BTreeSet<u64>,
}

fn is_race(kind: &str) -> bool {
    matches!(
        kind,
        "data-race" | "use-after-free" | "destroyed-in-use" | "closed-in-use"
    )
}

/// The expectations in a program, or what is wrong with their notation.
pub fn read(program: &Path) -> Result<Expected, String> {
    let cannot = |cause| format!("cannot read {}: {cause}", program.display());
    let text = fs::read_to_string(program).map_err(cannot)?;
    let mut expected = Expected {
        all_refuted: text.contains("// all refuted"),
        ..Expected::default()
    };
    for (number, line) in (1..).zip(text.lines()) {
        if let Some((_, what)) = line.split_once("// finds: ") {
            expected.finds.insert(number, place(number, what)?);
        }
        if let Some((_, what)) = line.split_once("// may find: ") {
            expected.may_find.insert(number, place(number, what)?);
        }
        if line.contains("// spins") {
            expected.spins.insert(number);
        }
        if line.contains("// in the witness") {
            expected.in_witness.insert(number);
        }
    }
    for (line, place) in expected.finds.iter().chain(&expected.may_find) {
        for partner in &place.partners {
            let other = expected.at(*partner);
            if !other.is_some_and(|other| other.kind == place.kind && other.partners.contains(line))
            {
                return Err(format!(
                    "line {line} names line {partner}, which does not name it"
                ));
            }
        }
    }
    Ok(expected)
}

/// `KIND [ACCESS][, with line N | lines N, M | itself]`.
fn place(line: u64, text: &str) -> Result<Place, String> {
    let (what, with) = text.split_once(", with ").unwrap_or((text, ""));
    let mut words = what.split_whitespace().map(str::to_string);
    let kind = words.next().ok_or(format!("line {line} names no kind"))?;
    let numbers = with
        .trim_start_matches("lines ")
        .trim_start_matches("line ");
    let partners: Result<BTreeSet<u64>, _> = match with.trim() {
        "" => Ok(BTreeSet::new()),
        "itself" => Ok([line].into()),
        _ => numbers
            .split(',')
            .map(|number| number.trim().parse())
            .collect(),
    };
    let partners = partners.map_err(|_| format!("line {line}: no line numbers in `{with}`"))?;
    if is_race(&kind) == partners.is_empty() {
        return Err(format!(
            "line {line}: races, and only they, name the other line"
        ));
    }
    Ok(Place {
        kind,
        access: words.next(),
        partners,
    })
}

impl Expected {
    fn at(&self, line: u64) -> Option<&Place> {
        self.finds.get(&line).or_else(|| self.may_find.get(&line))
    }

    /// What is wrong with the findings of the program; empty when nothing is.
    pub fn compare(&self, found: &Value, status: Option<i32>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        let mut races: BTreeSet<Race> = BTreeSet::new();
        let mut spun = BTreeSet::new();
        let findings = array(&found["findings"])
            .flat_map(|finding| std::iter::once(finding).chain(array(&finding["variants"])));
        for finding in findings {
            let kind = finding["kind"].as_str().unwrap_or_default();
            let places = || array(&finding["places"]);
            let lines: Vec<u64> = places()
                .filter_map(|place| place["line"].as_u64())
                .collect();
            match finding["status"].as_str().unwrap_or_default() {
                "predicted" if self.all_refuted => {
                    problems.push(format!("{kind} still predicted: {}", finding["places"]));
                }
                "ordered-by-spin-loop" => spun.extend(lines),
                "confirmed" => {
                    let steps = array(&finding["witness"]);
                    let steps = steps.filter_map(|step| step["line"].as_u64()).collect();
                    for line in self.in_witness.difference(&steps) {
                        problems.push(format!("line {line} is not in the witness"));
                    }
                    for place in places() {
                        match self.accepts(kind, place) {
                            Ok(line) => seen.extend(line),
                            Err(problem) => problems.push(problem),
                        }
                    }
                    if is_race(kind)
                        && let [a, b] = lines[..]
                    {
                        races.insert((a.min(b), a.max(b), kind.to_string()));
                    }
                }
                _ => {}
            }
        }
        for (line, place) in &self.finds {
            if !seen.contains(line) {
                problems.push(format!("no {} confirmed at line {line}", place.kind));
            }
        }
        let (must, may) = self.races();
        for (a, b, kind) in must.difference(&races) {
            problems.push(format!("no {kind} confirmed between lines {a} and {b}"));
        }
        for (a, b, kind) in races.iter().filter(|race| !may.contains(race)) {
            problems.push(format!("{kind} confirmed between lines {a} and {b}"));
        }
        for line in self.spins.difference(&spun) {
            problems.push(format!("no spin loop seen at line {line}"));
        }
        let wanted = i32::from(!self.finds.is_empty());
        if status != Some(wanted) && self.may_find.is_empty() {
            problems.push(format!("exit status {status:?} instead of {wanted}"));
        }
        problems
    }

    /// The line of a confirmed place, if its access is the expected one; a problem if nothing of
    /// this kind may be confirmed there.
    fn accepts(&self, kind: &str, place: &Value) -> Result<Option<u64>, String> {
        let line = place["line"].as_u64().unwrap_or(0);
        match self.at(line) {
            Some(expected) if expected.kind == kind => {
                let access = expected.access.as_ref();
                let right = access.is_none_or(|access| place["access"] == **access);
                Ok(right.then_some(line))
            }
            _ => Err(format!("{kind} confirmed at line {line}")),
        }
    }

    /// The races that must be confirmed, and all that may be.
    fn races(&self) -> (BTreeSet<Race>, BTreeSet<Race>) {
        let of = |places: &BTreeMap<u64, Place>| -> BTreeSet<Race> {
            let pairs = places.iter().flat_map(|(&line, place)| {
                let partners = place.partners.iter();
                partners.map(move |&other| (line.min(other), line.max(other), place.kind.clone()))
            });
            pairs.collect()
        };
        let may = of(&self.may_find);
        let must: BTreeSet<Race> = of(&self.finds).difference(&may).cloned().collect();
        let all = must.union(&may).cloned().collect();
        (must, all)
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
