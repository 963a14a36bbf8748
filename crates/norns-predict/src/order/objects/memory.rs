//! Shared memory locations as registers, with the values that the trace recorded.
//!
//! A write whose value is not recorded gets the value that the next read of the location sees. If
//! values are not asked for, every write has a value of its own, so that a read needs exactly the
//! write that it saw.

use norns_model::location::LocationId;
use norns_model::{Meaning, Model};
use norns_order::Node;
use norns_trace::{EventIndex, Touch};
use rustc_hash::FxHashMap;

use super::registers::{Access, Register};

/// The accesses to one location, collected in the order of the trace.
struct Builder {
    accesses: Vec<Access>,
    /// Values are numbered: equal numbers mean equal values.
    numbers: FxHashMap<Vec<u8>, u32>,
    next: u32,
    initial: u32,
    current: u32,
    unknown: Option<Origin>,
}

/// Where the current value of a location comes from, as long as neither a write nor a read has
/// recorded which value it is.
#[derive(Clone, Copy)]
enum Origin {
    Initial,
    /// The access with this index.
    Write(usize),
}

impl Builder {
    fn new() -> Self {
        Builder {
            accesses: Vec::new(),
            numbers: FxHashMap::default(),
            next: 1,
            initial: 0,
            current: 0,
            unknown: Some(Origin::Initial),
        }
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn number(&mut self, bytes: &[u8]) -> u32 {
        if let Some(&number) = self.numbers.get(bytes) {
            return number;
        }
        let number = self.fresh();
        self.numbers.insert(bytes.to_vec(), number);
        number
    }

    /// Returns whether the read saw the value that the last recorded write left there.
    fn read(&mut self, node: Node, bytes: Option<&[u8]>) -> bool {
        let mut agrees = true;
        if let Some(bytes) = bytes {
            let seen = self.number(bytes);
            if self.unknown.is_some() {
                // Earlier reads since then whose values are not recorded saw the same value.
                let unknown = Some(self.current);
                let since = self.accesses.iter_mut().rev();
                since
                    .take_while(|access| access.needs == unknown && access.writes.is_none())
                    .for_each(|access| access.needs = Some(seen));
            }
            match self.unknown.take() {
                Some(Origin::Initial) => (self.initial, self.current) = (seen, seen),
                Some(Origin::Write(writer)) => {
                    self.accesses[writer].writes = Some(seen);
                    self.current = seen;
                }
                None => agrees = seen == self.current,
            }
        }
        self.accesses.push(Access {
            node,
            needs: Some(self.current),
            writes: None,
        });
        agrees
    }

    fn write(&mut self, node: Node, bytes: Option<&[u8]>) {
        let number = match bytes {
            Some(bytes) => self.number(bytes),
            None => self.fresh(),
        };
        self.current = number;
        match self.accesses.last_mut() {
            Some(access) if access.node == node => access.writes = Some(number),
            _ => self.accesses.push(Access {
                node,
                needs: None,
                writes: Some(number),
            }),
        }
        let unknown = bytes.is_none();
        self.unknown = unknown.then(|| Origin::Write(self.accesses.len() - 1));
    }
}

/// The registers of a trace's shared memory.
#[derive(Default)]
pub struct Locations {
    pub registers: Vec<Register>,
    /// How many reads did not see the last write that the trace has, because something that is not
    /// recorded wrote there. Each is taken to need the last recorded write before it.
    pub mismatches: usize,
}

pub fn locations(model: &Model<'_>, meaning: Meaning) -> Locations {
    if meaning == Meaning::Optimistic {
        return Locations::default();
    }
    let trace = model.trace;
    let mut builders: FxHashMap<u32, Builder> = FxHashMap::default();
    let mut mismatches = 0;
    let mut values = trace.values.iter().peekable();
    for (i, event) in trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        while values.next_if(|value| value.event < here).is_some() {}
        let value = values.next_if(|value| value.event == here);
        let Some(touch) = Touch::of(event.op) else {
            continue;
        };
        let value = value.filter(|_| meaning == Meaning::SameValues);
        for location in model.locations.of_event(here).map(LocationId) {
            if !model.locations.is_shared_and_written(location) {
                continue;
            }
            let (address, size) = model.locations.bytes(location);
            let offset = (address - touch.access.address) as usize;
            let part = |bytes: &'_ Vec<u8>| -> Option<std::ops::Range<usize>> {
                let range = offset..offset + size as usize;
                (range.end <= bytes.len()).then_some(range)
            };
            let builder = builders.entry(location.0).or_insert_with(Builder::new);
            let node = Node(i as u32);
            if touch.reads {
                let bytes = value.and_then(|v| part(&v.read).map(|range| &v.read[range]));
                mismatches += usize::from(!builder.read(node, bytes));
            }
            if touch.writes {
                let bytes = value.and_then(|v| part(&v.written).map(|range| &v.written[range]));
                builder.write(node, bytes);
            }
        }
    }
    let mut builders: Vec<(u32, Builder)> = builders.into_iter().collect();
    builders.sort_unstable_by_key(|&(location, _)| location);
    let registers = builders
        .into_iter()
        .map(|(_, builder)| Register::new(model, builder.accesses, builder.initial))
        .collect();
    Locations {
        registers,
        mismatches,
    }
}
