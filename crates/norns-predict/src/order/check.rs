//! An independent check that the reads of a schedule see what they have to.
//!
//! Knows nothing of registers, locations or the solver: memory is bytes, and the schedule is run
//! through it once.

use norns_model::Model;
use norns_model::location::Touch;
use norns_trace::{EventIndex, trace::Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Reads;
use super::needs::is_branch;

/// What a byte holds: its value when known, and who wrote it (`None`: nobody in the trace).
type Byte = (Option<u8>, Option<EventIndex>);

/// The first event of the schedule that sees something else than in the trace, although it
/// matters.
pub(super) fn check_reads(
    model: &Model<'_>,
    reads: Reads,
    schedule: &[EventIndex],
) -> Result<(), EventIndex> {
    let all: Vec<EventIndex> = (0..model.trace.events.len())
        .map(EventIndex::from_index)
        .collect();
    // What a write left, or was there from the beginning, and is not recorded: the first read
    // that saw it tells.
    let mut told = FxHashMap::default();
    let first = run(model, reads, &all, &told);
    let mut saw: Vec<_> = first.iter().collect();
    saw.sort_unstable_by_key(|entry| *entry.0);
    for (&(event, address), &(value, writer)) in saw {
        if value.is_none()
            && let Some(byte) = read_byte(model, event, address)
        {
            told.entry((writer, address)).or_insert(byte);
        }
    }
    let observed = run(model, reads, &all, &told);
    let seen = run(model, reads, schedule, &told);
    let matters = reads_that_matter(model, schedule, &seen);
    let mut wrong: Vec<EventIndex> = seen
        .iter()
        .filter(|((event, _), _)| matters.contains(event))
        .filter(|(key, now)| {
            let then = &observed[*key];
            let same_value = then.0.is_some() && then.0 == now.0;
            then.1 != now.1 && !(reads == Reads::SameValue && same_value)
        })
        .map(|((event, _), _)| *event)
        .collect();
    wrong.sort_unstable();
    wrong.first().map_or(Ok(()), |&event| Err(event))
}

fn value<'t>(model: &Model<'t>, event: EventIndex) -> Option<&'t Value> {
    let values = &model.trace.values;
    let at = values
        .binary_search_by_key(&event, |value| value.event)
        .ok()?;
    Some(&values[at])
}

fn read_byte(model: &Model<'_>, event: EventIndex, address: u64) -> Option<u8> {
    let touch = Touch::of(model.op(event))?;
    value(model, event)?
        .read
        .get((address - touch.access.address) as usize)
        .copied()
}

/// For every byte that an event reads: what it finds there.
fn run(
    model: &Model<'_>,
    reads: Reads,
    schedule: &[EventIndex],
    told: &FxHashMap<(Option<EventIndex>, u64), u8>,
) -> FxHashMap<(EventIndex, u64), Byte> {
    let mut memory: FxHashMap<u64, Byte> = FxHashMap::default();
    let mut found = FxHashMap::default();
    for &event in schedule {
        let Some(touch) = Touch::of(model.op(event)) else {
            continue;
        };
        for offset in 0..u64::from(touch.access.size) {
            let address = touch.access.address + offset;
            let told = |writer| {
                told.get(&(writer, address))
                    .copied()
                    .filter(|_| reads == Reads::SameValue)
            };
            if touch.reads {
                let byte = memory.get(&address).copied().unwrap_or((told(None), None));
                found.insert((event, address), byte);
            }
            if touch.writes {
                let written = value(model, event)
                    .and_then(|value| value.written.get(offset as usize).copied())
                    .filter(|_| reads == Reads::SameValue);
                memory.insert(address, (written.or(told(Some(event))), Some(event)));
            }
        }
    }
    found
}

/// Without branches all; otherwise those before a branch, and those before a write that a read
/// that matters sees.
fn reads_that_matter(
    model: &Model<'_>,
    schedule: &[EventIndex],
    seen: &FxHashMap<(EventIndex, u64), Byte>,
) -> FxHashSet<EventIndex> {
    let all = (0..model.trace.events.len()).map(EventIndex::from_index);
    let branches = all.clone().any(|event| is_branch(model, event));
    if !branches {
        return schedule.iter().copied().collect();
    }
    let taken: FxHashSet<EventIndex> = schedule.iter().copied().collect();
    // Of every thread, up to which position reads matter.
    let mut until: Vec<usize> = model
        .threads
        .iter()
        .map(|events| {
            let last = events
                .iter()
                .rposition(|&e| taken.contains(&e) && is_branch(model, e));
            last.unwrap_or(0)
        })
        .collect();
    loop {
        let before = until.clone();
        for (&(event, _), &(_, writer)) in seen {
            let Some(writer) = writer else { continue };
            if model.position_of(event) < until[model.thread_of(event).index()] {
                let limit = &mut until[model.thread_of(writer).index()];
                // The write of a read-modify-write depends on its own read.
                *limit = (*limit).max(model.position_of(writer) + 1);
            }
        }
        if until == before {
            break;
        }
    }
    let matters =
        |&event: &EventIndex| model.position_of(event) < until[model.thread_of(event).index()];
    schedule.iter().copied().filter(matters).collect()
}
