//! Waits on one condition at the same time with different mutexes.

use super::{Definition, Group, Party, PlaceOrder, Severity, misuse};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0204",
    name: "two-mutexes",
    words: "wait with two mutexes",
    group: Group::Misuse,
    severity: Severity::Medium,
    order: PlaceOrder::Sorted,
    moment: "a thread is about to misuse the object",
    page: include_str!("../../../../docs/explain/NR0204.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    misuse(DEFINITION.words, parties)
}

fn why(_: &[Operation]) -> String {
    "The waits overlapped. All threads that wait on a condition have to use the same mutex.".into()
}
