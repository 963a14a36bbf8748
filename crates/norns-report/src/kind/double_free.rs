//! Memory that two threads free.

use super::{Definition, Group, Party, PlaceOrder, Severity, nothing_keeps_apart};

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0003",
    name: "double-free",
    words: "double free",
    group: Group::Race,
    severity: Severity::High,
    order: PlaceOrder::Sorted,
    moment: "both threads are about to access the same memory",
    page: include_str!("../../../../docs/explain/NR0003.md"),
    title,
    why: nothing_keeps_apart,
};

fn title(parties: &[Party]) -> String {
    let threads: Vec<&str> = parties
        .iter()
        .map(|party| party.operation.thread.as_str())
        .collect();
    let what = parties
        .first()
        .map_or("", |party| party.operation.what.as_str());
    format!(
        "{}: {} both {}",
        DEFINITION.words,
        threads.join(" and "),
        what.replacen("frees", "free", 1)
    )
}
