//! Failures of the program, with the order, value or branch that predicts them.

use super::{Definition, Group, Party, PlaceOrder, Severity};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0501",
    name: "failure",
    words: "failure",
    group: Group::Failure,
    severity: Severity::High,
    order: PlaceOrder::Happening,
    moment: "the program has failed",
    page: include_str!("../../../../docs/explain/NR0501.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    let accesses: Vec<String> = parties.iter().map(Party::sentence).collect();
    format!("failure: {}", accesses.join(", then "))
}

fn why(_: &[Operation]) -> String {
    "The failing runs have this in common, and the good ones do not.".into()
}
