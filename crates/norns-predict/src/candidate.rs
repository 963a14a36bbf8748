//! Candidates: pairs of conflicting accesses, and cycles of acquisitions, that cheap filters cannot
//! rule out.
//!
//! The filters drop two accesses that have the same order in every schedule, two accesses under a
//! common lock (Carril 2017, section 5.5.2), and cycles of which two members hold a gate lock
//! (Havelund 2000) or are ordered.

use norns_budget::Budget;
use norns_model::Model;
use norns_model::location::LocationId;
use norns_model::lock_set::LockSetId;
use norns_trace::{EventIndex, Mode, ObjectId, ObjectKind, PlaceId, ThreadId, Touch, TouchKind};
use rustc_hash::FxHashMap;

use crate::exact::index::Index;

/// How many candidates each filter dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    pub ordered: usize,
    pub common_lock: usize,
    /// Accesses that race only if another access of the same place does.
    pub redundant: usize,
    /// Pairs that got the answer of another pair of the same two segments.
    pub same_segments: usize,
}

/// A list that may be incomplete because of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    pub items: Vec<T>,
    pub is_complete: bool,
}

/// Whether two threads cannot hold a lock in these modes at the same time.
pub fn excludes(one: Mode, other: Mode) -> bool {
    one == Mode::Write || other == Mode::Write
}

/// One side of a race: a place in the program and the kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Side {
    pub place: PlaceId,
    pub writes: bool,
    pub atomic: bool,
    pub frees: bool,
}

impl Side {
    /// The side that this access is on.
    pub fn of(model: &Model, event: EventIndex) -> Side {
        let event = model.trace.events[event.index()];
        let touch = Touch::of(event.op).expect("the events of a race are accesses");
        Side {
            place: event.place,
            writes: touch.writes,
            atomic: touch.kind == TouchKind::Atomic,
            frees: touch.kind == TouchKind::Free,
        }
    }
}

/// The two sides of a race, the smaller first.
pub fn sides(model: &Model, first: EventIndex, second: EventIndex) -> (Side, Side) {
    let (one, other) = (Side::of(model, first), Side::of(model, second));
    (one.min(other), one.max(other))
}

/// The conflicting accesses of every shared location.
pub struct Accesses {
    /// Sorted by location; the accesses of each in the order of the trace.
    by_location: Vec<(LocationId, Vec<EventIndex>)>,
}

impl Accesses {
    /// All accesses except those that `left_out` marks. An empty list marks none.
    pub fn of(model: &Model, left_out: &[bool]) -> Accesses {
        let mut by_location: FxHashMap<LocationId, Vec<EventIndex>> = FxHashMap::default();
        for i in 0..model.trace.events.len() {
            let event = EventIndex::from_index(i);
            let redundant = left_out.get(i).copied().unwrap_or(false);
            let touch = Touch::of(model.op(event));
            if redundant || touch.is_some_and(|touch| touch.kind == TouchKind::Allocate) {
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

    /// An upper bound for the number of pairs.
    pub fn most_pairs(&self) -> usize {
        let pairs = |(_, events): &(_, Vec<EventIndex>)| {
            events.len().saturating_mul(events.len().saturating_sub(1)) / 2
        };
        self.by_location
            .iter()
            .map(pairs)
            .fold(0, usize::saturating_add)
    }

    /// Calls `then` once for every pair of conflicting accesses, with the earlier one first.
    pub fn for_pairs(&self, model: &Model, mut then: impl FnMut(EventIndex, EventIndex)) {
        for (location, events) in &self.by_location {
            for (j, &second) in events.iter().enumerate() {
                for &first in &events[..j] {
                    let starts = |event| model.locations.of_event(event).start;
                    // A pair that shares several locations is counted at the first of them.
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

/// With how many accesses of each class an access is paired in `for_near_pairs`.
const RECENT: usize = 2;

impl Accesses {
    /// Calls `then` for pairs of conflicting accesses that are near each other: every access with the
    /// most recent ones of each class (thread, place and set of locks). Their number is linear in the
    /// number of accesses. A pair may occur twice. Stops when the work is spent.
    pub fn for_near_pairs(
        &self,
        model: &Model,
        index: &Index,
        work: &Budget,
        mut then: impl FnMut(EventIndex, EventIndex),
    ) {
        for (_, events) in &self.by_location {
            let mut recent: Vec<(ClassKey, Vec<EventIndex>)> = Vec::new();
            for &second in events {
                if !work.spend(recent.len() as u64) {
                    return;
                }
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
    place: PlaceId,
    locks: LockSetId,
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

/// Whether a filter proves that the two events can never be next at the same time. Counts it.
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

/// All cycles of acquisitions by different threads, each of which waits for a lock that the next one
/// holds. Each cycle begins with its smallest event. The search takes at most `steps` steps.
pub fn lock_cycles(
    model: &Model,
    index: &Index,
    filtered: &mut Filtered,
    mut steps: usize,
) -> Listing<Vec<EventIndex>> {
    let mut search = CycleSearch {
        model,
        index,
        filtered,
        holding: FxHashMap::default(),
        cycles: Vec::new(),
    };
    let acquisitions: Vec<EventIndex> = (0..model.trace.events.len())
        .map(EventIndex::from_index)
        .filter(|&event| model.op(event).acquires().is_some())
        .collect();
    for &event in &acquisitions {
        let sets = &index.lock_sets;
        for &(lock, mode) in sets.set(sets.before(event)) {
            search.holding.entry(lock).or_default().push((event, mode));
        }
    }
    let is_complete = acquisitions
        .iter()
        .all(|&event| search.extend(&mut vec![event], &mut steps));
    Listing {
        items: search.cycles,
        is_complete,
    }
}

struct CycleSearch<'a> {
    model: &'a Model<'a>,
    index: &'a Index,
    filtered: &'a mut Filtered,
    /// For every lock, the acquisitions made while it is held, with the mode in which it is held.
    holding: FxHashMap<ObjectId, Vec<(EventIndex, Mode)>>,
    cycles: Vec<Vec<EventIndex>>,
}

impl CycleSearch<'_> {
    /// Adds the cycles that begin with `path`. Returns whether there were enough steps.
    fn extend(&mut self, path: &mut Vec<EventIndex>, steps: &mut usize) -> bool {
        let (start, last) = (path[0], path[path.len() - 1]);
        let (lock, mode) = self
            .model
            .op(last)
            .acquires()
            .expect("a path consists of acquisitions");
        let next = self.holding.get(&lock).map_or(0, Vec::len);
        for i in 0..next {
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            let (event, held) = self.holding[&lock][i];
            if event < start || !excludes(mode, held) {
                continue;
            }
            if event == start {
                if !self.is_reentrant(path, lock) {
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

    /// Whether the path is one acquisition of a recursive mutex that its own thread holds, which does
    /// not block.
    fn is_reentrant(&self, path: &[EventIndex], lock: ObjectId) -> bool {
        path.len() == 1 && self.model.kind(lock) == ObjectKind::RecursiveMutex
    }

    /// Whether the event can be blocked together with those of the path.
    fn fits(&mut self, path: &[EventIndex], event: EventIndex) -> bool {
        let thread = |event: EventIndex| -> ThreadId { self.model.thread_of(event) };
        path.iter().all(|&other| thread(other) != thread(event))
            && path
                .iter()
                .all(|&other| !is_ruled_out(self.model, self.index, self.filtered, other, event))
    }
}
