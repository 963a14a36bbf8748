//! Random values and branches for random traces.

use std::collections::HashMap;

use norns_model::location::{Touch, TouchKind};
use norns_random::Random;
use norns_trace::trace::{Custom, Value};
use norns_trace::{Event, EventIndex, Op, Trace};

/// Gives accesses the values that they have in the order of the trace: 0 or 1, the same for the four
/// bytes of a word. One access in sixteen has no value.
pub fn with_values(trace: &mut Trace, random: &mut Random) {
    let mut memory: HashMap<u64, u8> = HashMap::new();
    let initial = random.below(2);
    for (i, event) in trace.events.iter().enumerate() {
        let Some(touch) = Touch::of(event.op) else {
            continue;
        };
        let bytes = touch.access.address..touch.access.address + u64::from(touch.access.size);
        let mut value = Value {
            event: EventIndex::from_index(i),
            read: Vec::new(),
            written: Vec::new(),
        };
        if touch.reads {
            value.read = bytes
                .clone()
                .map(|b| {
                    memory
                        .get(&b)
                        .copied()
                        .unwrap_or((b / 8 % 2) as u8 * initial as u8)
                })
                .collect();
        }
        if touch.writes {
            let (same, byte) = (random.below(2), random.below(2));
            let byte = |b: u64| (byte as u64 ^ (b / 4 % 2 * same as u64)) as u8;
            memory.extend(bytes.clone().map(|b| (b, byte(b))));
            // What an allocator leaves in a block is not recorded.
            if !matches!(touch.kind, TouchKind::Allocate | TouchKind::Free) {
                value.written = bytes.map(byte).collect();
            }
        }
        if random.below(16) > 0 {
            trace.values.push(value);
        }
    }
}

/// Adds a branch event after some of the reads.
pub fn with_branches(trace: &mut Trace, random: &mut Random) {
    trace.customs.push(Custom {
        name: "branch".to_string(),
        fields: Vec::new(),
    });
    let branch = Op::Custom(trace.customs.len() as u32 - 1);
    let mut events = Vec::new();
    for &event in &trace.events {
        events.push(event);
        if matches!(event.op, Op::Read(_)) && random.below(3) == 0 {
            events.push(Event {
                op: branch,
                ..event
            });
        }
    }
    // At least one, so that the trace has branch events.
    let first = events[0];
    events.insert(
        1,
        Event {
            op: branch,
            ..first
        },
    );
    trace.events = events;
}
