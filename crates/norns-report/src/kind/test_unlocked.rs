//! A loop that waits on a condition and tests without the mutex.

use super::{Definition, Group, Party, PlaceOrder, Severity, misuse};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0212",
    name: "test-unlocked",
    words: "wait that is decided without its mutex",
    group: Group::Misuse,
    severity: Severity::Low,
    order: PlaceOrder::Sorted,
    moment: "a thread is about to misuse the object",
    page: include_str!("../../../../docs/explain/NR0212.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    misuse(DEFINITION.words, parties)
}

fn why(_: &[Operation]) -> String {
    "What the thread waits for is tested without the mutex of the wait. \
     A signal that comes after the test and before the wait wakes nobody."
        .into()
}
