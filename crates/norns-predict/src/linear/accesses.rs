//! The accesses of every shared and written location, in the order of the trace.

use norns_model::Model;
use norns_model::location::LocationId;
use norns_trace::{EventIndex, Touch};

pub struct Accesses {
    /// For every location, where its accesses begin in `events`; with one entry more for the end.
    starts: Vec<u32>,
    events: Vec<EventIndex>,
}

impl Accesses {
    pub fn of(model: &Model) -> Accesses {
        let locations = &model.locations;
        let touched = |i: usize| {
            let range = locations.of_event(EventIndex::from_index(i));
            range.filter(|&l| locations.is_shared_and_written(LocationId(l)))
        };
        let mut starts = vec![0u32; locations.len() + 1];
        for i in 0..model.trace.events.len() {
            for location in touched(i) {
                starts[location as usize + 1] += 1;
            }
        }
        for i in 1..starts.len() {
            starts[i] = starts[i]
                .checked_add(starts[i - 1])
                .expect("a trace has fewer than 2^32 accesses to locations");
        }
        let mut next = starts.clone();
        let mut events = vec![EventIndex(0); starts[locations.len()] as usize];
        for i in 0..model.trace.events.len() {
            for location in touched(i) {
                let at = &mut next[location as usize];
                events[*at as usize] = EventIndex::from_index(i);
                *at += 1;
            }
        }
        Accesses { starts, events }
    }

    pub fn of_location(&self, location: LocationId) -> &[EventIndex] {
        let from = self.starts[location.0 as usize] as usize;
        &self.events[from..self.starts[location.0 as usize + 1] as usize]
    }

    /// The locations that have accesses.
    pub fn locations(&self) -> impl Iterator<Item = LocationId> {
        let used = |&i: &usize| self.starts[i] < self.starts[i + 1];
        (0..self.starts.len() - 1)
            .filter(used)
            .map(|i| LocationId(i as u32))
    }
}

/// Whether the event writes to memory.
pub fn writes(model: &Model, event: EventIndex) -> bool {
    Touch::of(model.op(event)).is_some_and(|touch| touch.writes)
}

/// Whether the event reads memory.
pub fn reads(model: &Model, event: EventIndex) -> bool {
    Touch::of(model.op(event)).is_some_and(|touch| touch.reads)
}
