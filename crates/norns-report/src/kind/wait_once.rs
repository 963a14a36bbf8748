//! A wait on a condition after which nothing tests again what it waits for.

use super::{Definition, Group, Party, PlaceOrder, Severity, misuse};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0211",
    name: "wait-once",
    words: "wait outside a loop",
    group: Group::Misuse,
    severity: Severity::Low,
    order: PlaceOrder::Sorted,
    moment: "a thread is about to misuse the object",
    page: include_str!("../../../../docs/explain/NR0211.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    misuse(DEFINITION.words, parties)
}

fn why(_: &[Operation]) -> String {
    "A wait may return without a signal, and between a signal and the return another thread may take what was waited for. \
     Nothing tests it again after this wait."
        .into()
}
