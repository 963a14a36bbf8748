//! A lock that its thread still holds when it ends.

use super::{Definition, Group, Party, PlaceOrder, Severity, misuse};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0205",
    name: "left-locked",
    words: "lock left locked",
    group: Group::Misuse,
    severity: Severity::Medium,
    order: PlaceOrder::Sorted,
    moment: "a thread is about to misuse the object",
    page: include_str!("../../../../docs/explain/NR0205.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    misuse(DEFINITION.words, parties)
}

fn why(_: &[Operation]) -> String {
    "The thread ended without unlocking it as often as it had locked it: nobody can lock it again."
        .into()
}
