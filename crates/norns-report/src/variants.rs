//! Findings as a person counts them: one for each pair of source places and object. What differs
//! only in what the places do, such as the read and the write of `count++`, is a variant of it.

use std::collections::HashMap;

use crate::finding::Finding;
use crate::kind::Kind;

/// Puts variants into the finding that they belong to: the one that is proved best, and of those
/// the first. The order of the findings stays.
pub fn gather(findings: Vec<Finding>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::with_capacity(findings.len());
    let mut known: HashMap<Key, usize> = HashMap::new();
    for finding in findings {
        let key = Key::of(&finding);
        let Some(&at) = known.get(&key) else {
            known.insert(key, all.len());
            all.push(finding);
            continue;
        };
        let first = &mut all[at];
        let mut variant = finding;
        if variant.status < first.status {
            std::mem::swap(first, &mut variant);
            first.variants = std::mem::take(&mut variant.variants);
        }
        first.variants.push(variant);
    }
    all
}

/// What makes two findings variants of one.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    object: Option<String>,
    /// Files and lines, sorted.
    places: Vec<(String, u32)>,
}

impl Key {
    fn of(finding: &Finding) -> Key {
        let places = finding.places.iter();
        let mut places: Vec<(String, u32)> = places
            .map(|place| (place.file.clone(), place.line))
            .collect();
        places.sort();
        Key {
            kind: finding.kind,
            object: finding.object.clone(),
            places,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{AccessKind, Place, Status};

    fn finding(id: &str, status: Status, object: &str, lines: [u32; 2]) -> Finding {
        let places = lines.map(|line| Place {
            file: "bank.c".into(),
            line,
            function: "deposit".into(),
            thread: "T0.1".into(),
            access: AccessKind::Write,
        });
        Finding {
            id: id.into(),
            kind: Kind::DataRace,
            status,
            places: places.to_vec(),
            witness: None,
            verdict: None,
            rule: None,
            region: None,
            known: false,
            object: Some(object.into()),
            consequence: None,
            variants: Vec::new(),
        }
    }

    #[test]
    fn variants_are_in_the_finding_that_is_proved_best() {
        let all = gather(vec![
            finding("a", Status::Predicted, "x", [1, 2]),
            finding("b", Status::Predicted, "x", [2, 1]),
            finding("c", Status::Confirmed, "x", [1, 2]),
            finding("d", Status::Confirmed, "y", [1, 2]),
            finding("e", Status::Confirmed, "x", [1, 3]),
        ]);
        let shown: Vec<(&str, Vec<&str>)> = all
            .iter()
            .map(|finding| {
                let variants = finding.variants.iter();
                let variants = variants.map(|variant| variant.id.as_str());
                (finding.id.as_str(), variants.collect())
            })
            .collect();
        assert_eq!(shown, [("c", vec!["b", "a"]), ("d", vec![]), ("e", vec![])]);
    }
}
