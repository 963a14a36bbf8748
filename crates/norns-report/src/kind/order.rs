//! Orders of events that a rule of the user does not allow.

use super::{Definition, Group, Party, PlaceOrder, Severity};
use crate::sketch::Operation;

pub(super) const DEFINITION: Definition = Definition {
    code: "NR0301",
    name: "order",
    words: "wrong order of events",
    group: Group::Order,
    severity: Severity::High,
    order: PlaceOrder::Happening,
    moment: "the event that breaks the rule has happened",
    page: include_str!("../../../../docs/explain/NR0301.md"),
    title,
    why,
};

fn title(parties: &[Party]) -> String {
    let events: Vec<String> = parties.iter().map(Party::sentence).collect();
    format!("wrong order: {}", events.join(", then "))
}

fn why(_: &[Operation]) -> String {
    "No lock, join, signal or other synchronisation keeps these events in an order that the rule allows."
        .into()
}
