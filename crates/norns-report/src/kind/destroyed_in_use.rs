//! An object that one thread destroys, or makes anew, while another may still use it.

use super::{Definition, Group, Party, PlaceOrder, Severity, nothing_keeps_apart};
use crate::finding::AccessKind;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0004",
    name: "destroyed-in-use",
    words: "destroyed in use",
    group: Group::Race,
    severity: Severity::High,
    order: PlaceOrder::Sorted,
    moment: "one thread is about to use what the other is about to destroy",
    page: include_str!("../../../../docs/explain/NR0004.md"),
    title,
    why: nothing_keeps_apart,
};

fn title(parties: &[Party]) -> String {
    let (uses, ends): (Vec<&Party>, Vec<&Party>) = parties
        .iter()
        .partition(|party| party.access == AccessKind::Use);
    let sentences = |parties: Vec<&Party>| {
        let sentences: Vec<String> = parties.into_iter().map(Party::sentence).collect();
        sentences.join(" while ")
    };
    match uses.is_empty() {
        true => format!("{}: {}", DEFINITION.words, sentences(ends)),
        false => format!(
            "{}: {} while {}",
            DEFINITION.words,
            sentences(ends),
            sentences(uses)
        ),
    }
}
