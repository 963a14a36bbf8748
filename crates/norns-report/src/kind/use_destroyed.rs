//! The use of a mutex or condition that was destroyed before.

use super::{Definition, Group, Party, PlaceOrder, Severity, misuse};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0207",
    name: "use-destroyed",
    words: "use of a destroyed object",
    group: Group::Misuse,
    severity: Severity::Medium,
    order: PlaceOrder::Sorted,
    moment: "a thread is about to misuse the object",
    page: include_str!("../../../../docs/explain/NR0207.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    misuse(DEFINITION.words, parties)
}

fn why(_: &[Operation]) -> String {
    "The object was destroyed before, or was never initialised: the call does nothing, or anything."
        .into()
}
