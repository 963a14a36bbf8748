//! Candidates: pairs of conflicting accesses, and cycles of acquisitions, that cheap filters
//! could not rule out.
//!
//! The filters, each with its count: two accesses that stand in one order in every schedule, two
//! accesses under a common lock (Carril 2017, section 5.5.2), and for cycles a gate
//! lock that two members hold (Havelund 2000) or an order between two members.

use norns_model::Model;
use norns_model::location::LocationId;
use norns_model::lock_set::Mode;
use norns_trace::{EventIndex, ObjectId, Op, ThreadId};
use rustc_hash::FxHashMap;

use crate::exact::index::Index;

/// What the filters ruled out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    pub ordered: usize,
    pub common_lock: usize,
    /// Accesses that race only where another of their place does.
    pub redundant: usize,
    /// Pairs whose answer is that of another pair of the same two segments.
    pub same_segments: usize,
}

/// The conflicting accesses of every shared location.
pub struct Accesses {
    /// For every location that is shared and written, its accesses in the order of the trace.
    by_location: Vec<(LocationId, Vec<EventIndex>)>,
}

impl Accesses {
    /// All accesses but those that `left_out` marks; an empty list marks none.
    pub fn of(model: &Model, left_out: &[bool]) -> Accesses {
        let mut by_location: FxHashMap<LocationId, Vec<EventIndex>> = FxHashMap::default();
        for i in 0..model.trace.events.len() {
            let event = EventIndex::from_index(i);
            let redundant = left_out.get(i).copied().unwrap_or(false);
            if redundant || matches!(model.op(event), Op::Allocate(_)) {
                continue;
            }
            for location in model.locations.of_event(event).map(LocationId) {
                if model.locations.is_shared_and_written(location) {
                    by_location.entry(location).or_default().push(event);
                }
            }
        }
        let mut by_location: Vec<_> = by_location.into_iter().collect();
        by_location.sort_unstable_by_key(|(location, _)| *location);
        Accesses { by_location }
    }

    /// At most this many pairs are there.
    pub fn most_pairs(&self) -> usize {
        let pairs = |(_, events): &(_, Vec<EventIndex>)| {
            events.len().saturating_mul(events.len().saturating_sub(1)) / 2
        };
        self.by_location
            .iter()
            .map(pairs)
            .fold(0, usize::saturating_add)
    }

    /// Every pair of conflicting accesses, the earlier first; each once.
    pub fn for_pairs(&self, model: &Model, mut then: impl FnMut(EventIndex, EventIndex)) {
        for (location, events) in &self.by_location {
            for (j, &second) in events.iter().enumerate() {
                for &first in &events[..j] {
                    let starts = |event| model.locations.of_event(event).start;
                    // Where two accesses share several locations, the first is theirs.
                    if starts(first).max(starts(second)) == location.0
                        && model.conflict(first, second)
                    {
                        then(first, second);
                    }
                }
            }
        }
    }
}

/// How many accesses of one class a new access of the location is paired with.
const RECENT: usize = 2;

impl Accesses {
    /// Pairs of conflicting accesses that are near each other: every access with the most recent
    /// ones of each other thread, place and set of locks. Their number is linear in the number of
    /// accesses; some are given twice.
    pub fn for_near_pairs(
        &self,
        model: &Model,
        index: &Index,
        mut then: impl FnMut(EventIndex, EventIndex),
    ) {
        for (_, events) in &self.by_location {
            let mut recent: Vec<(ClassKey, Vec<EventIndex>)> = Vec::new();
            for &second in events {
                for (_, firsts) in &recent {
                    for &first in firsts.iter().rev() {
                        if model.conflict(first, second) {
                            then(first, second);
                        }
                    }
                }
                let key = ClassKey::of(model, index, second);
                match recent.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, firsts)) => {
                        if firsts.len() == RECENT {
                            firsts.remove(0);
                        }
                        firsts.push(second);
                    }
                    None => recent.push((key, vec![second])),
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct ClassKey {
    thread: ThreadId,
    place: norns_trace::PlaceId,
    locks: norns_model::lock_set::LockSetId,
}

impl ClassKey {
    fn of(model: &Model, index: &Index, event: EventIndex) -> ClassKey {
        let place = model.trace.events[event.index()].place;
        let locks = index.lock_sets.before(event);
        ClassKey {
            thread: model.thread_of(event),
            place,
            locks,
        }
    }
}

/// Why two events can never be next at the same time; counted.
pub fn is_ruled_out(
    model: &Model,
    index: &Index,
    filtered: &mut Filtered,
    first: EventIndex,
    second: EventIndex,
) -> bool {
    if index.order.ordered(model, first, second) || index.order.ordered(model, second, first) {
        filtered.ordered += 1;
        return true;
    }
    let sets = &index.lock_sets;
    if sets.exclude(sets.before(first), sets.before(second)) {
        filtered.common_lock += 1;
        return true;
    }
    false
}

/// All cycles of acquisitions of different threads, each of which waits for a lock that the next
/// one holds; each begins with its smallest event. The flag says whether these are all.
pub fn lock_cycles(
    model: &Model,
    index: &Index,
    filtered: &mut Filtered,
    mut steps: usize,
) -> (Vec<Vec<EventIndex>>, bool) {
    let mut search = CycleSearch {
        model,
        index,
        filtered,
        holding: FxHashMap::default(),
        cycles: Vec::new(),
    };
    let acquisitions: Vec<EventIndex> = (0..model.trace.events.len())
        .map(EventIndex::from_index)
        .filter(|&event| wanted(model, event).is_some())
        .collect();
    for &event in &acquisitions {
        let sets = &index.lock_sets;
        for &(lock, mode) in sets.set(sets.before(event)) {
            search.holding.entry(lock).or_default().push((event, mode));
        }
    }
    for &event in &acquisitions {
        if !search.extend(&mut vec![event], &mut steps) {
            return (search.cycles, false);
        }
    }
    (search.cycles, true)
}

/// The lock that an event acquires, and how.
pub fn wanted(model: &Model, event: EventIndex) -> Option<(ObjectId, Mode)> {
    model.op(event).acquires()
}

struct CycleSearch<'a> {
    model: &'a Model<'a>,
    index: &'a Index,
    filtered: &'a mut Filtered,
    /// For every lock the acquisitions of others that are made while it is held.
    holding: FxHashMap<ObjectId, Vec<(EventIndex, Mode)>>,
    cycles: Vec<Vec<EventIndex>>,
}

impl CycleSearch<'_> {
    /// Whether there were enough steps.
    fn extend(&mut self, path: &mut Vec<EventIndex>, steps: &mut usize) -> bool {
        let (start, last) = (path[0], path[path.len() - 1]);
        let (lock, mode) = wanted(self.model, last).expect("a path consists of acquisitions");
        let next = self.holding.get(&lock).map_or(0, Vec::len);
        for i in 0..next {
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            let (event, held) = self.holding[&lock][i];
            if event < start || (mode == Mode::Read && held == Mode::Read) {
                continue;
            }
            if event == start {
                if !self.waits_for_itself_in_vain(path, lock) {
                    self.cycles.push(path.clone());
                }
            } else if self.fits(path, event) {
                path.push(event);
                let enough = self.extend(path, steps);
                path.pop();
                if !enough {
                    return false;
                }
            }
        }
        true
    }

    /// A recursive mutex does not block its holder.
    fn waits_for_itself_in_vain(&self, path: &[EventIndex], lock: ObjectId) -> bool {
        path.len() == 1 && self.model.kind(lock) == norns_trace::ObjectKind::RecursiveMutex
    }

    fn fits(&mut self, path: &[EventIndex], event: EventIndex) -> bool {
        let thread = |event: EventIndex| -> ThreadId { self.model.thread_of(event) };
        path.iter().all(|&other| thread(other) != thread(event))
            && path
                .iter()
                .all(|&other| !is_ruled_out(self.model, self.index, self.filtered, other, event))
    }
}
