//! Locations: the maximal runs of bytes that a trace always accesses together.
//!
//! Carril (2017), section 5.2.2 calls them memory intervals and builds them by merging and
//! splitting neighbours (Figure 5.4). Here the first and one-past-last addresses of all accesses
//! are sorted once; between two neighbouring boundaries lies one location. That gives the same
//! partition, byte-exact: where a boundary lies, some access begins or ends, so the bytes on its
//! two sides are not always accessed together. The bytes of a block that is freed and allocated
//! again are other locations from then on (`lifetime.rs`).
//!
//! Runs between boundaries that nothing accesses are locations too; they have no accesses and do
//! no harm.

use std::ops::Range;

use norns_trace::{Access, Event, EventIndex, ThreadId, Trace};
pub use norns_trace::{Touch, TouchKind};

use crate::lifetime::Lifetimes;

/// An index into the sorted runs of bytes. Bytes of different lifetimes are different runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocationId(pub u32);

/// Which threads access a location, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    first: Option<ThreadId>,
    shared: bool,
    written: bool,
}

/// A byte of one lifetime: the allocation of its block, if that is known, and the address.
type Byte = (Option<EventIndex>, u64);

#[derive(Clone, Debug, Default)]
pub struct Locations {
    /// Sorted, no two equal. Location `i` is the bytes from `boundaries[i]` to
    /// `boundaries[i + 1]`; where these belong to different blocks, nothing accesses it.
    boundaries: Vec<Byte>,
    uses: Vec<Use>,
    /// For every event its locations; an empty range for one that touches no memory.
    ranges: Vec<(u32, u32)>,
}

impl Locations {
    pub fn of(trace: &Trace, lifetimes: &Lifetimes) -> Locations {
        let ends = |i: usize, touch: Touch| {
            let block = lifetimes.block(EventIndex::from_index(i));
            let access = touch.access;
            [(block, access.address), (block, end(access))]
        };
        let mut boundaries = Vec::new();
        for (i, event) in trace.events.iter().enumerate() {
            if let Some(touch) = Touch::of(event.op) {
                boundaries.extend(ends(i, touch));
            }
        }
        boundaries.sort_unstable();
        boundaries.dedup();
        let mut uses = vec![Use::default(); boundaries.len().saturating_sub(1)];
        let index = |byte: Byte| {
            boundaries
                .binary_search(&byte)
                .expect("every end of an access is a boundary") as u32
        };
        let mut ranges = Vec::with_capacity(trace.events.len());
        for (i, event) in trace.events.iter().enumerate() {
            let Some(touch) = Touch::of(event.op) else {
                ranges.push((0, 0));
                continue;
            };
            let range: (u32, u32) = ends(i, touch).map(index).into();
            for location in &mut uses[range.0 as usize..range.1 as usize] {
                location.note(event, touch);
            }
            ranges.push(range);
        }
        Locations {
            boundaries,
            uses,
            ranges,
        }
    }

    /// The locations that an event touches: a run of neighbours.
    pub fn of_event(&self, event: EventIndex) -> Range<u32> {
        let (from, to) = self.ranges[event.index()];
        from..to
    }

    pub fn len(&self) -> usize {
        self.uses.len()
    }

    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// Whether more than one thread accesses the location and at least one writes it. Only such a
    /// location can have a race, or a read that sees another write than in the trace.
    pub fn is_shared_and_written(&self, location: LocationId) -> bool {
        let use_ = self.uses[location.0 as usize];
        use_.shared && use_.written
    }

    /// The first byte and the number of bytes of a location that some event touches.
    pub fn bytes(&self, location: LocationId) -> (u64, u64) {
        let i = location.0 as usize;
        let (from, to) = (self.boundaries[i].1, self.boundaries[i + 1].1);
        (from, to - from)
    }
}

impl Use {
    fn note(&mut self, event: &Event, touch: Touch) {
        match self.first {
            None => self.first = Some(event.thread),
            Some(first) => self.shared |= first != event.thread,
        }
        self.written |= touch.writes;
    }
}

fn end(access: Access) -> u64 {
    access.address + u64::from(access.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::trace;

    /// Figure 5.5: what `t1` and `t2` touch at which address, and the locations of each access.
    #[test]
    fn the_example_of_figure_5_5() {
        let trace = trace(
            "T1: write 0+1, write 1+3, write 4+3
             T2: write 2+2, read 4+1",
        );
        let locations = Locations::of(&trace, &Lifetimes::of(&trace));
        let found: Vec<_> = (0..trace.events.len())
            .map(|i| {
                let range = locations.of_event(EventIndex::from_index(i));
                range
                    .map(|l| locations.bytes(LocationId(l)))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            found,
            [
                vec![(0, 1)],
                vec![(1, 1), (2, 2)],
                vec![(4, 1), (5, 2)],
                vec![(2, 2)],
                vec![(4, 1)]
            ]
        );
        let shared: Vec<_> = (0..locations.len() as u32)
            .filter(|&l| locations.is_shared_and_written(LocationId(l)))
            .map(|l| locations.bytes(LocationId(l)).0)
            .collect();
        assert_eq!(shared, [2, 4]);
    }

    #[test]
    fn bytes_that_are_allocated_again_are_other_locations() {
        let trace = trace(
            "A: alloc 0+8, write 0+4, free 0+8
             B: alloc 0+8, write 0+4, free 0+8
             C: write 0+4",
        );
        let locations = Locations::of(&trace, &Lifetimes::of(&trace));
        let of = |i| locations.of_event(EventIndex(i)).start;
        assert_ne!(of(1), of(4));
        assert_eq!(of(4), of(6));
        let shared = |i| locations.is_shared_and_written(LocationId(of(i)));
        assert_eq!([shared(1), shared(4)], [false, true]);
    }
}
