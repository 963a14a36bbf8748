//! The destruction of a condition on which a thread waits.

use super::{Definition, Group, Party, PlaceOrder, Severity, misuse};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0208",
    name: "destroy-waited",
    words: "destruction of a condition with waiters",
    group: Group::Misuse,
    severity: Severity::Medium,
    order: PlaceOrder::Sorted,
    moment: "a thread is about to misuse the object",
    page: include_str!("../../../../docs/explain/NR0208.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    misuse(DEFINITION.words, parties)
}

fn why(_: &[Operation]) -> String {
    "A thread waited on the condition, and nobody had woken it, when the condition was destroyed."
        .into()
}
