//! A cycle of threads, each of which waits for a lock that the next one holds.

use super::{Definition, Group, Party, PlaceOrder, Severity, holds, waits};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0101",
    name: "deadlock",
    words: "deadlock",
    group: Group::Deadlock,
    severity: Severity::High,
    order: PlaceOrder::Cycle,
    moment: "the threads wait for each other",
    page: include_str!("../../../../docs/explain/NR0101.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    waits(DEFINITION.words, parties)
}

fn why(operations: &[Operation]) -> String {
    let held: Vec<String> = operations
        .iter()
        .map(|operation| format!("{} and {}", holds(operation), operation.what))
        .collect();
    format!(
        "{}. Each waits for what another one holds.",
        held.join("; ")
    )
}
