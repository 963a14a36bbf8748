//! What a finding is about, in words: the variable, the block of memory, or the locks. Findings are
//! told apart and grouped by it.
//!
//! Elements of an array are one object here, and so are all blocks from the same line: a person
//! who mends one of them mends all.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::Bug;
use norns_trace::{Access, EventIndex, Op, Touch, Trace, descriptor_number};

use crate::describe::{object_name, place_name};

/// The object of a bug, unless it is in a block of memory: those are looked up by `blocks`, for
/// all findings together.
pub fn of_bug(trace: &Trace, bug: &Bug) -> Option<String> {
    match bug {
        Bug::Atomicity { accesses } => {
            let names: BTreeSet<String> = { accesses.iter() }
                .filter_map(|event| {
                    let touch = Touch::of(trace.events[event.index()].op)?;
                    let symbol = trace.symbol_at(touch.access.address)?;
                    Some(without_indices(&symbol.name))
                })
                .collect();
            let names: Vec<String> = names.into_iter().collect();
            (!names.is_empty()).then(|| names.join(", "))
        }
        Bug::Race { first, .. } => {
            let touch = Touch::of(trace.events[first.index()].op)?;
            if let Some(number) = descriptor_number(touch.access.address) {
                return Some(format!("descriptor {number}"));
            }
            let symbol = trace.symbol_at(touch.access.address)?;
            Some(without_indices(&symbol.name))
        }
        Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => {
            let objects = blocked.iter();
            let objects = objects.filter_map(|event| trace.events[event.index()].op.object());
            let names: BTreeSet<String> = objects.map(|id| object_name(trace, id)).collect();
            let names: Vec<String> = names.into_iter().collect();
            (!names.is_empty()).then(|| names.join(", "))
        }
        // A rule speaks of events, not of memory.
        Bug::Order { .. } => None,
    }
}

/// `table[].lock` for `table[3].lock`.
pub fn without_indices(name: &str) -> String {
    let mut rest = name;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        out.push('[');
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

/// Memory that a bug is about: an address, at the moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub address: u64,
    pub event: EventIndex,
}

impl Query {
    /// The memory of a race.
    pub fn of(trace: &Trace, bug: &Bug) -> Option<Query> {
        let Bug::Race { first, .. } = *bug else {
            return None;
        };
        let touch = Touch::of(trace.events[first.index()].op)?;
        Some(Query {
            address: touch.access.address,
            event: first,
        })
    }
}

/// The blocks that hold the queried memory: by the line that allocated them or, if that was before
/// the first thread, by the one that frees them. One pass over the trace.
pub fn blocks(trace: &Trace, queries: &[Query]) -> Vec<Option<String>> {
    let mut names = vec![None; queries.len()];
    let mut order: Vec<usize> = (0..queries.len()).collect();
    order.sort_by_key(|&query| queries[query].event);
    let mut open = order.into_iter().peekable();
    if open.peek().is_none() {
        return names;
    }
    let mut live: BTreeMap<u64, (u32, EventIndex)> = BTreeMap::new();
    let mut freed: BTreeMap<u64, (u32, EventIndex)> = BTreeMap::new();
    for (index, event) in trace.events.iter().enumerate() {
        let index = EventIndex::from_index(index);
        while let Some(query) = open.next_if(|&query| queries[query].event <= index) {
            let block = holder(&live, queries[query].address);
            names[query] = block.map(|block| allocated(trace, block));
        }
        if let Op::Allocate(Access { address, size }) = event.op {
            live.insert(address, (size, index));
        }
        // A block of which only the end is seen existed before the first thread.
        if let Op::Free(Access { address, size }) = event.op
            && live.remove(&address).is_none()
        {
            freed.entry(address).or_insert((size, index));
        }
    }
    for (name, query) in names.iter_mut().zip(queries) {
        let block = || holder(&freed, query.address).filter(|&block| block >= query.event);
        if name.is_none()
            && let Some(block) = block()
        {
            *name = Some(format!("block freed at {}", place_name(trace, block)));
        }
    }
    names
}

fn holder(blocks: &BTreeMap<u64, (u32, EventIndex)>, address: u64) -> Option<EventIndex> {
    let (start, &(size, event)) = blocks.range(..=address).next_back()?;
    (address - start < u64::from(size)).then_some(event)
}

fn allocated(trace: &Trace, block: EventIndex) -> String {
    let event = &trace.events[block.index()];
    // The runtime itself tells a thread's stack, without a place.
    match trace.place(event.place).pc {
        0 => format!("stack of {}", trace.thread(event.thread).name),
        _ => format!("block allocated at {}", place_name(trace, block)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_an_array_are_one_object() {
        assert_eq!(without_indices("balance"), "balance");
        assert_eq!(without_indices("table[13].row[2]"), "table[].row[]");
    }

    #[test]
    fn a_block_is_known_by_its_allocation_or_else_by_its_end() {
        let mut trace = norns_model::script::trace(
            "T0: write p, write p, free p, write p, write p
             T0: write q, free q",
        );
        for allocation in [0, 3] {
            if let Op::Write(block) = trace.events[allocation].op {
                trace.events[allocation].op = Op::Allocate(block);
            }
        }
        for (event, line) in trace.events.iter_mut().zip(1..) {
            event.place = norns_trace::PlaceId::from_index(trace.places.len());
            trace.places.push(norns_trace::Place {
                pc: line,
                frames: vec![norns_trace::SourcePlace {
                    file: "bank.c".into(),
                    line: line as u32,
                    ..Default::default()
                }],
            });
        }
        let write = |event: u32| Query {
            address: Touch::of(trace.events[event as usize].op)
                .expect("a write")
                .access
                .address,
            event: EventIndex(event),
        };
        let names = blocks(&trace, &[write(4), write(1), write(5)]);
        let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "block allocated at bank.c:4",
                "block allocated at bank.c:1",
                "block freed at bank.c:7"
            ]
        );
    }
}
