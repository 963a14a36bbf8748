//! Redundant accesses: those that race only where another access of their place does.
//!
//! Section 5.5.1 of Carril's dissertation drops an access that an earlier one of the same segment
//! covers, whatever its place; here every pair of places counts, so only an access of the same
//! place does. In the faithful meaning even that would lose races, since what lies between the
//! two may not be possible everywhere: there only a read is redundant that directly follows a
//! read.
//!
//! Nothing is taken out of the model; a redundant access is only no candidate.

use norns_trace::EventIndex;
use rustc_hash::FxHashMap;

use crate::Meaning;
use crate::location::{Touch, TouchKind};
use crate::model::Model;
use crate::segment::Segments;

/// For every event whether it is a redundant access.
pub fn redundant_accesses(model: &Model, segments: &Segments) -> Vec<bool> {
    let mut redundant = vec![false; model.trace.events.len()];
    for events in &model.threads {
        // The accesses of the segment so far, by place.
        let mut earlier: FxHashMap<u32, Vec<(EventIndex, Touch)>> = FxHashMap::default();
        let mut segment = None;
        for &event in events {
            let here = segments.of_event(event);
            if segment.replace(here) != Some(here) {
                earlier.clear();
            }
            let Some(touch) = Touch::of(model.op(event)) else {
                continue;
            };
            let covered = |&(other, before): &(EventIndex, Touch)| {
                before.kind == touch.kind
                    && before.reads == touch.reads
                    && before.writes == touch.writes
                    && before.access.address <= touch.access.address
                    && touch.access.address + u64::from(touch.access.size)
                        <= before.access.address + u64::from(before.access.size)
                    && model.lifetimes.block(other) == model.lifetimes.block(event)
            };
            let place = model.trace.events[event.index()].place.0;
            if model.meaning == Meaning::Faithful
                && (touch.writes || touch.kind != TouchKind::Plain)
            {
                earlier.clear();
                continue;
            }
            let known = earlier.entry(place).or_default();
            if known.iter().any(covered) {
                redundant[event.index()] = true;
                continue;
            }
            known.push((event, touch));
            if model.meaning == Meaning::Faithful {
                // Only the read just before counts.
                let last = (place, vec![(event, touch)]);
                earlier.clear();
                earlier.insert(last.0, last.1);
            }
        }
    }
    redundant
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::trace;

    /// Places are given by number, in the order of the events.
    fn check(meaning: Meaning, script: &str, places: &[u32], expected: &[u32]) {
        let mut trace = trace(script);
        for (event, &place) in trace.events.iter_mut().zip(places) {
            event.place = norns_trace::PlaceId(place);
        }
        let model = Model::new(&trace, meaning);
        let redundant = redundant_accesses(&model, &Segments::of(&model));
        let found: Vec<u32> = (0..redundant.len() as u32)
            .filter(|&i| redundant[i as usize])
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_access_of_the_same_place_and_segment_covers() {
        let script = "A: write 0+4, write 1+1, write 0+8, lock m, write 0+4, unlock m";
        check(Meaning::Optimistic, script, &[0, 0, 0, 1, 0, 1], &[1]);
        check(Meaning::Optimistic, script, &[0, 2, 0, 1, 0, 1], &[]);
    }

    #[test]
    fn a_faithful_read_after_a_read() {
        let script = "A: read x, read x, read y, read x, write x, read x, read x";
        check(Meaning::Faithful, script, &[0; 7], &[1, 6]);
    }
}
