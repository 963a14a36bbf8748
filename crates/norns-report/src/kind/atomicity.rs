//! Steps that were probably meant to be atomic, and that another thread can come into.

use super::{Definition, Group, Party, PlaceOrder, Severity};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0401",
    name: "atomicity",
    words: "step that is not atomic",
    group: Group::Atomicity,
    severity: Severity::Medium,
    order: PlaceOrder::Happening,
    moment: "another thread has come between two accesses of one step",
    page: include_str!("../../../../docs/explain/NR0401.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    let accesses: Vec<String> = parties.iter().map(Party::sentence).collect();
    format!("not atomic: {}", accesses.join(", then "))
}

fn why(operations: &[Operation]) -> String {
    let own = operations.first().map_or("", |operation| &operation.thread);
    let locks = operations
        .iter()
        .flat_map(|operation| &operation.locks_held);
    match locks.map(|lock| &lock.name).next() {
        Some(lock) => format!(
            "Each access is under `{lock}` or another lock, and {own} releases it in between: what it saw \
             before need not be true any more."
        ),
        None => format!(
            "Each access is atomic, but {own} makes two of them: what it saw before need not be true any \
             more."
        ),
    }
}
