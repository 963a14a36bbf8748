//! Annotations of a program's own locks that contradict each other.

use super::{Definition, Group, Party, PlaceOrder, Severity, misuse};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0209",
    name: "contradicted",
    words: "annotation that contradicts another",
    group: Group::Misuse,
    severity: Severity::Medium,
    order: PlaceOrder::Sorted,
    moment: "a thread is about to misuse the object",
    page: include_str!("../../../../docs/explain/NR0209.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    misuse(DEFINITION.words, parties)
}

fn why(_: &[Operation]) -> String {
    "The program said that it takes a lock of its own that is held, or releases one that is not held \
     in that way."
        .into()
}
