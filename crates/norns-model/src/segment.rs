//! Segments: the events of one thread between two of its synchronisation operations.
//!
//! In the optimistic meaning all events of a segment are alike for what other threads can do
//! meanwhile: two threads can be in two segments at once or they cannot, wherever in them they
//! are. An atomic operation is an access and ends no segment; an allocation or a use of memory
//! that another thread allocated does, since it waits for other threads.

use norns_trace::{Effect, EventIndex, Op, TouchKind};

use crate::model::Model;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

pub struct Segments {
    of_event: Vec<SegmentId>,
    count: u32,
}

impl Segments {
    pub fn of(model: &Model) -> Segments {
        let mut of_event = vec![SegmentId(0); model.trace.events.len()];
        let mut count = 0;
        for events in &model.threads {
            let mut open = false;
            for &event in events {
                let waits = model.needed_before(event).next().is_some();
                if !open || waits || !is_local(model.op(event)) {
                    count += 1;
                }
                of_event[event.index()] = SegmentId(count - 1);
                // A synchronisation operation is alone: what follows is another segment.
                open = is_local(model.op(event));
            }
        }
        Segments { of_event, count }
    }

    pub fn of_event(&self, event: EventIndex) -> SegmentId {
        self.of_event[event.index()]
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Whether the operation neither waits for another thread nor lets one go on.
fn is_local(op: Op) -> bool {
    match op.effect() {
        Effect::Local => true,
        Effect::Memory(touch) => match touch.kind {
            TouchKind::Plain | TouchKind::Atomic => true,
            TouchKind::Free
            | TouchKind::Allocate
            | TouchKind::Use
            | TouchKind::Destroy
            | TouchKind::Initialise => false,
        },
        Effect::Thread(_)
        | Effect::Lock(..)
        | Effect::Once(..)
        | Effect::Condition(..)
        | Effect::Barrier(..)
        | Effect::Semaphore(..)
        | Effect::Channel(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meaning;
    use crate::script::trace;

    #[test]
    fn synchronisation_ends_a_segment() {
        let trace = trace("A: read x, write x, lock m, write y, read x, unlock m, write x");
        let model = Model::new(&trace, Meaning::Optimistic);
        let segments = Segments::of(&model);
        let found: Vec<u32> = (0..trace.events.len())
            .map(|i| segments.of_event(EventIndex::from_index(i)).0)
            .collect();
        assert_eq!(found, [0, 0, 1, 2, 2, 3, 4]);
    }
}
