//! The findings of a check so far. The same bug, met in another schedule or recording, is one
//! finding.

use std::collections::BTreeMap;

use norns_report::{AccessKind, Finding, Findings, Kind, Status};

/// What makes two findings the same to a person: kind and places, whichever thread and order.
fn key(finding: &Finding) -> (Kind, Vec<(&str, u32, AccessKind)>) {
    let places = finding.places.iter();
    let mut places: Vec<_> = places
        .map(|place| (place.file.as_str(), place.line, place.access))
        .collect();
    places.sort();
    (finding.kind, places)
}

/// What a finding is about, if that is variables. The names of other objects tell where they were
/// made, and in which order, which need not be the same in another recording.
fn variables(finding: &Finding) -> Option<&str> {
    let object = finding.object.as_deref()?;
    let mut names = object.split(", ");
    names.all(|name| !name.contains(' ')).then_some(object)
}

/// Whether two findings are about different objects, as far as both are known by now.
fn differ_in_object(one: &Finding, other: &Finding) -> bool {
    let known = one.object.is_some() && other.object.is_some();
    known && variables(one) != variables(other)
}

/// Whether two findings are of the same bug. Nearly all that are not differ in their lines, which
/// costs less to compare: a list can have thousands of findings.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let lines = |finding: &Finding| -> u64 {
        let places = finding.places.iter();
        places.map(|place| u64::from(place.line)).sum()
    };
    one.kind == other.kind
        && lines(one) == lines(other)
        && key(one) == key(other)
        && !differ_in_object(one, other)
}

/// Whether the same bug is confirmed already, or known to be ordered by a loop.
pub fn is_settled(all: &Findings, finding: &Finding) -> bool {
    all.findings
        .iter()
        .any(|known| known.status != Status::Predicted && is_same(known, finding))
}

/// Whether the same bug is in the list.
pub fn is_listed(all: &Findings, finding: &Finding) -> bool {
    let mut known = all.findings.iter();
    known.any(|known| is_same(known, finding))
}

/// Adds a finding, or replaces the one of the same bug if this one says more. Whether the list
/// has changed.
pub fn add(all: &mut Findings, finding: Finding) -> bool {
    let known = all
        .findings
        .iter_mut()
        .find(|known| is_same(known, &finding));
    match known {
        Some(known) if finding.status < known.status => *known = finding,
        Some(_) => return false,
        None => all.findings.push(finding),
    }
    true
}

/// Adds a finding, in place of the one of the same bug if there is one.
pub fn put(all: &mut Findings, finding: Finding) {
    let mut known = all.findings.iter_mut();
    match known.find(|known| is_same(known, &finding)) {
        Some(known) => *known = finding,
        None => all.findings.push(finding),
    }
}

/// A bug as a person tells it from others: its kind, file, line and access of its places, and the
/// variables that it is about.
type Bug = (Kind, Vec<(String, u32, AccessKind)>, Option<String>);

/// Bugs, each with the recording in which it was first replayed.
#[derive(Default)]
pub struct Bugs {
    runs: BTreeMap<Bug, u32>,
}

impl Bugs {
    /// In which recording the bug of this finding was first replayed: this one, if in none before.
    pub fn first_run(&mut self, finding: &Finding, run: u32) -> u32 {
        let (kind, places) = key(finding);
        let owned = |(file, line, access): (&str, u32, AccessKind)| (file.into(), line, access);
        let object = variables(finding).map(String::from);
        let key = (kind, places.into_iter().map(owned).collect(), object);
        *self.runs.entry(key).or_insert(run)
    }
}
