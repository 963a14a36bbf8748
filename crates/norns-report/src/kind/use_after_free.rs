//! Memory that one thread frees while another may still use it.

use super::{Definition, Group, Party, PlaceOrder, Severity, nothing_keeps_apart};
use crate::finding::AccessKind;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0002",
    name: "use-after-free",
    words: "use after free",
    group: Group::Race,
    severity: Severity::High,
    order: PlaceOrder::Sorted,
    moment: "both threads are about to access the same memory",
    page: include_str!("../../../../docs/explain/NR0002.md"),
    title,
    why: nothing_keeps_apart,
};

fn title(parties: &[Party]) -> String {
    let (frees, uses): (Vec<&Party>, Vec<&Party>) = parties
        .iter()
        .partition(|party| party.access == AccessKind::Free);
    let uses: Vec<String> = uses.into_iter().map(Party::sentence).collect();
    let freers: Vec<&str> = { frees.into_iter() }
        .map(|party| party.operation.thread.as_str())
        .collect();
    format!(
        "{}: {} after {} frees it",
        DEFINITION.words,
        uses.join(" and "),
        freers.join(" and ")
    )
}
