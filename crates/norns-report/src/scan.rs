//! The candidates of a scan: as text, JSON and SARIF, and which of them a change has added.
//!
//! A candidate is code that looks wrong. No run has shown it, so the words are not those of findings.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use norns_scan::{Candidate, CandidateKind, NotAnalysed, Place, Scan, SourcePlace};
use serde_json::{Value, json};

use crate::escape;

/// The version of the JSON.
const FORMAT: u64 = 1;

/// The candidates as JSON, in the order of their rank. Files under `folder` are named relative to it.
#[must_use]
pub fn json(scan: &Scan, folder: &Path) -> Value {
    let candidates = (1..).zip(&scan.candidates);
    let candidates: Vec<Value> = candidates
        .map(|(id, candidate)| candidate_json(id, candidate, folder))
        .collect();
    let not_analysed: Vec<String> = scan.not_analysed.iter().map(not_analysed).collect();
    json!({"format": FORMAT, "candidates": candidates, "not_analysed": not_analysed})
}

/// One candidate as JSON.
#[must_use]
pub fn candidate_json(id: usize, candidate: &Candidate, folder: &Path) -> Value {
    let places = candidate.places.iter();
    let places: Vec<Value> = places.map(|at| place(at, folder)).collect();
    json!({
        "id": id,
        "kind": candidate.kind.name(),
        "rank": candidate.rank,
        "object": candidate.object,
        "places": places,
    })
}

fn place(place: &Place, folder: &Path) -> Value {
    let mut all = source(&place.at, folder);
    if !place.inside.is_empty() {
        let inside = place.inside.iter().map(|at| source(at, folder));
        all["inside"] = inside.collect();
    }
    all["access"] = json!(place.access);
    all["held"] = json!(place.held);
    let chain: Vec<Value> = place.chain.iter().map(|at| source(at, folder)).collect();
    all["chain"] = json!(chain);
    all["created"] = place
        .created
        .as_ref()
        .map_or(Value::Null, |at| source(at, folder));
    all
}

fn source(at: &SourcePlace, folder: &Path) -> Value {
    json!({
        "file": relative(&at.file, folder),
        "line": at.line,
        "column": at.column,
        "function": at.function,
    })
}

fn relative(file: &str, folder: &Path) -> String {
    let path = Path::new(file);
    let path = path.strip_prefix(folder).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

/// One candidate in a line, for headings and SARIF.
pub(crate) fn title(kind: &str, object: &str) -> String {
    match kind {
        "data-race" => format!("possible data race on {object}"),
        "deadlock" => format!("possible deadlock on {object}"),
        "self-deadlock" => format!("{object} is taken while it is held"),
        "wait-with-lock" => format!("wait for a condition while {object} is held"),
        "lock-not-released" => format!("{object} is not released on one path"),
        "unlock-without-lock" => format!("{object} is released without being held"),
        "wait-without-loop" => "wait for a condition outside of a loop".to_owned(),
        other => format!("{other} on {object}"),
    }
}

/// The text for a terminal: the candidates of one object together.
#[must_use]
pub fn text(candidates: &Value) -> String {
    let mut out = String::new();
    let list = list(candidates);
    let mut shown: Vec<bool> = vec![false; list.len()];
    for first in 0..list.len() {
        if shown[first] {
            continue;
        }
        let key = |at: usize| (list[at]["kind"].as_str(), list[at]["object"].as_str());
        let heading = title(word(&list[first]["kind"]), word(&list[first]["object"]));
        writeln!(out, "{}", escape::terminal(&heading)).expect("a string takes all text");
        for at in first..list.len() {
            if key(at) == key(first) {
                shown[at] = true;
                candidate(&mut out, list[at]);
            }
        }
        out.push('\n');
    }
    summary(&mut out, candidates, &list);
    out
}

fn list(candidates: &Value) -> Vec<&Value> {
    candidates["candidates"]
        .as_array()
        .into_iter()
        .flatten()
        .collect()
}

pub(crate) fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn candidate(out: &mut String, candidate: &Value) {
    let mut number = format!("{:>4}  ", candidate["id"].as_u64().unwrap_or(0));
    for place in candidate["places"].as_array().into_iter().flatten() {
        let held: Vec<&str> = place["held"]
            .as_array()
            .into_iter()
            .flatten()
            .map(word)
            .collect();
        let held = match held.as_slice() {
            [] => String::new(),
            held => format!(", holding {}", held.join(", ")),
        };
        let line = format!(
            "{number}{} at {}:{} in {}{held}",
            word(&place["access"]),
            word(&place["file"]),
            place["line"],
            word(&place["function"]),
        );
        writeln!(out, "{}", escape::terminal(&line)).expect("a string takes all text");
        let way = way(place);
        if !way.is_empty() {
            writeln!(out, "        {}", escape::terminal(&way)).expect("a string takes all text");
        }
        number = " ".repeat(6);
    }
}

/// How the thread gets to a place.
fn way(place: &Value) -> String {
    let at = |at: &Value| format!("{}:{}", word(&at["file"]), at["line"]);
    let mut parts = Vec::new();
    if !place["created"].is_null() {
        parts.push(format!(
            "in the thread created at {}",
            at(&place["created"])
        ));
    }
    let calls = place["chain"].as_array().into_iter().flatten();
    parts.extend(calls.map(|call| format!("{} calls at {}", word(&call["function"]), at(call))));
    parts.join(", ")
}

/// How many candidates there are, in words.
pub(crate) fn summary_of(count: usize) -> String {
    match count {
        0 => "no candidates".to_owned(),
        1 => "1 candidate".to_owned(),
        count => format!("{count} candidates"),
    }
}

fn summary(out: &mut String, candidates: &Value, list: &[&Value]) {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for candidate in list {
        *kinds.entry(word(&candidate["kind"])).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let (count, kinds) = (summary_of(list.len()), kinds.join(", "));
    let line = match list.len() {
        0 => count,
        1 => format!("{count} ({kinds}); no run has shown it"),
        _ => format!("{count} ({kinds}); no run has shown them"),
    };
    writeln!(out, "{line}").expect("a string takes all text");
    for what in candidates["not_analysed"].as_array().into_iter().flatten() {
        writeln!(out, "not analysed: {}", escape::terminal(word(what)))
            .expect("a string takes all text");
    }
}

/// What a scan left out, in words.
#[must_use]
pub fn not_analysed(what: &NotAnalysed) -> String {
    match what {
        NotAnalysed::Function(name) => format!("{name}: it has no body here and no summary"),
        NotAnalysed::Assembler(1) => "inline assembler at 1 place".to_owned(),
        NotAnalysed::Assembler(count) => format!("inline assembler at {count} places"),
        NotAnalysed::Pairs(object) => format!("some pairs of accesses to {object}: there are too many"),
        NotAnalysed::Wide(count) => format!("accesses at {count} places, through pointers that could point to almost anything"),
        NotAnalysed::Cycles => "some cycles of locks: there are too many".to_owned(),
        NotAnalysed::Read(what) => what.clone(),
        NotAnalysed::NoMain => "how its functions are called: there is no main, so each is taken to be called once by one thread".to_owned(),
    }
}

/// The candidates of a scan as a SARIF 2.1.0 log.
#[must_use]
pub fn sarif(candidates: &Value, version: &str) -> Value {
    let rules: Vec<Value> = CandidateKind::ALL
        .iter()
        .map(|kind| json!({"id": format!("scan/{}", kind.name()), "shortDescription": {"text": title(kind.name(), "an object")}}))
        .collect();
    let results: Vec<Value> = list(candidates).into_iter().map(sarif_result).collect();
    crate::sarif::envelope(&rules, &results, version)
}

fn sarif_result(candidate: &Value) -> Value {
    let places: Vec<&Value> = candidate["places"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let locations: Vec<Value> = places
        .iter()
        .filter(|place| place["line"].as_u64() > Some(0))
        .map(|place| {
            json!({
                "physicalLocation": {
                    "artifactLocation": {"uri": crate::sarif::uri(word(&place["file"]))},
                    "region": {"startLine": place["line"], "startColumn": place["column"].as_u64().unwrap_or(1).max(1)},
                },
                "message": {"text": format!("{} in {}", word(&place["access"]), word(&place["function"]))},
            })
        })
        .collect();
    json!({
        "ruleId": format!("scan/{}", word(&candidate["kind"])),
        "level": "warning",
        "message": {"text": title(word(&candidate["kind"]), word(&candidate["object"]))},
        "locations": locations.first().into_iter().collect::<Vec<_>>(),
        "relatedLocations": locations.iter().skip(1).collect::<Vec<_>>(),
        "partialFingerprints": {"norns/scan/v1": identity(candidate)},
        "rank": candidate["rank"],
    })
}

/// What stays the same of a candidate when lines move: kind, object, and function and access of its places.
fn identity(candidate: &Value) -> String {
    let mut places: Vec<String> = candidate["places"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|place| {
            let file = word(&place["file"]).rsplit('/').next().unwrap_or_default();
            format!(
                "{file} {} {}",
                word(&place["function"]),
                word(&place["access"])
            )
        })
        .collect();
    places.sort();
    let object = without_lines(word(&candidate["object"]));
    format!(
        "{} {object} {}",
        word(&candidate["kind"]),
        places.join("; ")
    )
}

/// Names of allocated blocks have the line of their allocation.
fn without_lines(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon + 1);
        out.push_str(before);
        rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

/// The candidates that the new scan has and the old one has not, each as often as it has more of them.
#[must_use]
pub fn added(old: &Value, new: &Value) -> Value {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for candidate in list(old) {
        *known.entry(identity(candidate)).or_default() += 1;
    }
    let candidates: Vec<Value> = list(new)
        .into_iter()
        .filter(|candidate| match known.get_mut(&identity(candidate)) {
            Some(left @ 1..) => {
                *left -= 1;
                false
            }
            _ => true,
        })
        .cloned()
        .collect();
    json!({"format": FORMAT, "candidates": candidates, "not_analysed": new["not_analysed"]})
}

/// A saved scan, if this is the JSON of one.
///
/// # Errors
///
/// What is wrong with the text.
pub fn read(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match value["format"].as_u64() {
        Some(FORMAT) if value["candidates"].is_array() => Ok(value),
        Some(FORMAT) => Err("it has no list of candidates".to_owned()),
        Some(other) => Err(format!("its format is {other}; {FORMAT} is known")),
        None => Err("it has no format number".to_owned()),
    }
}

/// How many candidates there are.
#[must_use]
pub fn count(candidates: &Value) -> usize {
    list(candidates).len()
}
