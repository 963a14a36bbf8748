//! A descriptor that one thread closes while another may still use it.

use super::{Definition, Group, Party, PlaceOrder, Severity, nothing_keeps_apart};

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0005",
    name: "closed-in-use",
    words: "closed in use",
    group: Group::Race,
    severity: Severity::High,
    order: PlaceOrder::Sorted,
    moment: "one thread is about to use what the other is about to close",
    page: include_str!("../../../../docs/explain/NR0005.md"),
    title,
    why: nothing_keeps_apart,
};

fn title(parties: &[Party]) -> String {
    let sentences: Vec<String> = parties
        .iter()
        .map(|party| party.sentence().replace("destroys", "closes"))
        .collect();
    format!("{}: {}", DEFINITION.words, sentences.join(" while "))
}
