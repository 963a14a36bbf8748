//! Redundant accesses: those that race only where another access of their place does.
//!
//! Section 5.5.1 of Carril (2017) drops an access that an earlier one of the same segment
//! covers, whatever its place; here every pair of places counts, so only an access of the same
//! place does. In the faithful meaning even that would lose races, since what lies between the
//! two may not be possible everywhere: there only a read is redundant that directly follows a
//! read.
//!
//! Nothing is taken out of the model; a redundant access is only no candidate.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::Meaning;
use crate::location::{Touch, TouchKind};
use crate::model::Model;
use crate::segment::Segments;

/// The byte ranges of the accesses of one place, kind and block in a segment, by their start. No
/// range lies within another, so their ends are in the same order as their starts.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range and returns true, unless a known range covers it.
    fn add(&mut self, from: u64, to: u64) -> bool {
        let before = self.0.range(..=from).next_back();
        if before.is_some_and(|(_, &end)| to <= end) {
            return false;
        }
        while let Some((&start, &end)) = self.0.range(from..).next()
            && end <= to
        {
            self.0.remove(&start);
        }
        self.0.insert(from, to);
        true
    }
}

/// For every event whether it is a redundant access.
pub fn redundant_accesses(model: &Model, segments: &Segments) -> Vec<bool> {
    let mut redundant = vec![false; model.trace.events.len()];
    for events in &model.threads {
        let mut earlier: FxHashMap<_, Ranges> = FxHashMap::default();
        let mut segment = None;
        for &event in events {
            let here = segments.of_event(event);
            if segment.replace(here) != Some(here) {
                earlier.clear();
            }
            let Some(touch) = Touch::of(model.op(event)) else {
                continue;
            };
            let Touch {
                access,
                reads,
                writes,
                kind,
            } = touch;
            if model.meaning == Meaning::Faithful && (writes || kind != TouchKind::Plain) {
                earlier.clear();
                continue;
            }
            let place = model.trace.events[event.index()].place.0;
            let key = (place, kind, reads, writes, model.lifetimes.block(event));
            let end = access.address + u64::from(access.size);
            if !earlier.entry(key).or_default().add(access.address, end) {
                redundant[event.index()] = true;
            } else if model.meaning == Meaning::Faithful {
                // Only the read just before counts.
                earlier.clear();
                earlier.entry(key).or_default().add(access.address, end);
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
