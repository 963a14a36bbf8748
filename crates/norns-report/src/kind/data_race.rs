//! Two unordered accesses of the same memory, one of them a write.

use super::{Definition, Group, Party, PlaceOrder, Severity, nothing_keeps_apart};

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0001",
    name: "data-race",
    words: "data race",
    group: Group::Race,
    severity: Severity::Medium,
    order: PlaceOrder::Sorted,
    moment: "both threads are about to access the same memory",
    page: include_str!("../../../../docs/explain/NR0001.md"),
    title,
    why: nothing_keeps_apart,
};

fn title(parties: &[Party]) -> String {
    let accesses: Vec<String> = parties.iter().map(Party::sentence).collect();
    format!("{}: {}", DEFINITION.words, accesses.join(" while "))
}
