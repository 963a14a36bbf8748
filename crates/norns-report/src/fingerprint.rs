//! What makes two findings of two versions of a program the same: the kind and what the places
//! do, without line numbers, addresses or threads, so that unrelated edits do not change it.
//!
//! A place is its function, the last part of its file, the kind of access and, where the source
//! can be read, its statement without white space.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use crate::build::Sources;
use crate::describe::base_name;
use crate::finding::{Finding, Place};
use crate::kind::Kind;

/// 64 bits of FNV-1a over the sorted places, as 16 hexadecimal digits.
pub fn fingerprint(kind: Kind, places: &[Place], sources: Sources) -> String {
    let mut keys: Vec<String> = places
        .iter()
        .map(|place| place_key(place, sources))
        .collect();
    keys.sort();
    let mut text = kind.definition().code.to_string();
    for key in keys {
        text.push('\n');
        text.push_str(&key);
    }
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn place_key(place: &Place, sources: Sources) -> String {
    let statement = sources(&place.file)
        .and_then(|source| {
            let line = source.lines().nth((place.line as usize).checked_sub(1)?)?;
            Some(line.split_whitespace().collect::<String>())
        })
        .unwrap_or_default();
    format!(
        "{} {} {:?} {statement}",
        place.function,
        base_name(&place.file),
        place.access
    )
}

/// Gives every finding its id: the shortest prefix of its fingerprint, of four digits or more,
/// that no other finding here begins with; findings with the same fingerprint get `-2`, `-3`, ….
pub fn name_findings(findings: &mut [Finding], sources: Sources) {
    // Each file is read once, however many places it has.
    let read: RefCell<HashMap<String, Option<String>>> = RefCell::default();
    let sources = |file: &str| {
        let mut read = read.borrow_mut();
        let source = read.entry(file.into()).or_insert_with(|| sources(file));
        source.clone()
    };
    let prints: Vec<String> = findings
        .iter()
        .map(|f| fingerprint(f.kind, &f.places, &sources))
        .collect();
    let distinct: BTreeSet<&str> = prints.iter().map(String::as_str).collect();
    let mut used: HashMap<&str, usize> = HashMap::new();
    for (finding, print) in findings.iter_mut().zip(&prints) {
        let print = print.as_str();
        // Those that share the longest prefix are its neighbours in the sorted list.
        let before = distinct.range(..print).next_back();
        let after = distinct
            .range::<str, _>((Excluded(print), Unbounded))
            .next();
        let shared = before.into_iter().chain(after);
        let shared = shared.map(|other| shared_prefix(print, other)).max();
        let length = shared.map_or(4, |shared| (shared + 1).clamp(4, 16));
        let same = used.entry(print).or_default();
        *same += 1;
        finding.id = match *same {
            1 => print[..length].to_string(),
            same => format!("{}-{same}", &print[..length]),
        };
    }
}

/// How many of the first bytes two texts share.
fn shared_prefix(one: &str, other: &str) -> usize {
    let pairs = one.bytes().zip(other.bytes());
    pairs.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{AccessKind, Status};

    fn place(line: u32, access: AccessKind) -> Place {
        Place {
            file: "src/bank.c".into(),
            line,
            function: "deposit".into(),
            thread: "T0.1".into(),
            access,
        }
    }

    #[test]
    fn line_numbers_and_the_order_of_places_do_not_matter() {
        let before = |_: &str| Some("a;\nint old = balance;\nbalance = old;\n".to_string());
        let after = |_: &str| Some("a;\nb;\nint old  = balance;\nbalance = old;\n".to_string());
        let old = [place(2, AccessKind::Read), place(3, AccessKind::Write)];
        let new = [place(4, AccessKind::Write), place(3, AccessKind::Read)];
        assert_eq!(
            fingerprint(Kind::DataRace, &old, &before),
            fingerprint(Kind::DataRace, &new, &after)
        );
        assert_ne!(
            fingerprint(Kind::DataRace, &old, &before),
            fingerprint(Kind::UseAfterFree, &old, &before)
        );
    }

    #[test]
    fn every_finding_has_its_own_id() {
        let finding = |line| Finding {
            id: String::new(),
            kind: Kind::DataRace,
            status: Status::Predicted,
            places: vec![place(line, AccessKind::Write)],
            witness: None,
            verdict: None,
            rule: None,
            region: None,
            known: false,
            object: None,
            consequence: None,
            variants: Vec::new(),
        };
        let mut findings = vec![finding(1), finding(2), finding(3)];
        name_findings(&mut findings, &|_| Some("x = 1;\nx = 1;\ny = 2;".into()));
        assert_eq!(findings[1].id, format!("{}-2", findings[0].id));
        assert_ne!(findings[0].id, findings[2].id);
    }
}
