//! Waits that nothing ends: of a condition, a semaphore, a barrier or another thread.

use super::{Definition, Group, Party, PlaceOrder, Severity, waits};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0102",
    name: "stuck",
    words: "endless wait",
    group: Group::Deadlock,
    severity: Severity::High,
    order: PlaceOrder::Sorted,
    moment: "the threads wait for each other",
    page: include_str!("../../../../docs/explain/NR0102.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    waits("waits for ever", parties)
}

fn why(operations: &[Operation]) -> String {
    let waits: Vec<String> = operations
        .iter()
        .map(|operation| format!("{} {}", operation.thread, operation.what))
        .collect();
    format!(
        "{}. No other thread is left that could end this.",
        waits.join("; ")
    )
}
