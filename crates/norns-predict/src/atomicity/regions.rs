//! Which accesses a thread probably meant as one step, and what does not fit between them.
//!
//! A *region* is what one call of a function does between two of its places, the later one further down
//! in the code: two accesses of one variable, or the critical sections of one lock with an access of one
//! variable each. (From the end of a loop's body to its beginning nobody expects a step.) The thread
//! waits for nobody in between, except for locks.
//!
//! Two critical sections that begin at the same place, and two that each update the variable as a whole, such
//! as those that count up and down, are no step.
//!
//! Two variables belong together if every critical section that writes one of them touches both.

use norns_model::Model;
use norns_model::location::LocationId;
use norns_trace::effect::{OnCondition, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, Op, PlaceId, ThreadId, Touch, TouchKind, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::linear::critical::{CriticalSections, Held, LockSet, NOTHING};

/// The first access of the region, those of the other thread, the last access of the region.
pub type Interleaving = Vec<EventIndex>;

/// What may have been meant as one step, with the interleavings that would break it.
pub struct Region {
    pub interleavings: Vec<Interleaving>,
}

/// How many calls of one region are looked at, and how many accesses of others for each.
const CALLS: usize = 4;
const OTHERS: usize = 6;
/// How many accesses or critical sections back a region can begin.
const BACK: usize = 4;
/// How many synchronisation operations of its thread a region may have.
const LONGEST: u32 = 32;
/// How many variables of a critical section are looked at, and how many critical sections with a
/// variable.
const VARIABLES: usize = 16;
const SECTIONS: usize = 64;

pub fn propose(model: &Model<'_>) -> Vec<Region> {
    let mut walk = Walk::new(model);
    for index in 0..model.trace.events.len() {
        walk.event(EventIndex::from_index(index));
    }
    walk.regions()
}

/// Where a thread is: how it came there, and what it holds.
#[derive(Clone, Copy)]
struct Position {
    /// In `Walk::calls`.
    call: u32,
    /// How often the thread has waited for others so far.
    waits: u32,
    synchronisations: u32,
    held: Held,
}

#[derive(Clone, Copy)]
struct Seen {
    event: EventIndex,
    place: PlaceId,
    touch: Touch,
    at: Position,
}

/// One call of a function.
#[derive(Clone, Copy)]
struct Call {
    caller: u32,
    /// Where the caller calls it.
    place: PlaceId,
    depth: u32,
}

/// What a critical section does to one variable.
#[derive(Clone, Copy)]
struct Variable {
    location: LocationId,
    first: EventIndex,
    write: Option<EventIndex>,
}

struct Section {
    thread: ThreadId,
    place: PlaceId,
    at: Position,
    variables: Vec<Variable>,
}

impl Section {
    fn variable(&self, location: LocationId) -> Option<&Variable> {
        let mut all = self.variables.iter();
        all.find(|variable| variable.location == location)
    }
}

struct Walk<'m> {
    model: &'m Model<'m>,
    critical: CriticalSections,
    calls: Vec<Call>,
    /// By thread.
    positions: Vec<Position>,
    /// The last accesses of a thread to a shared variable.
    recent: FxHashMap<(ThreadId, LocationId), Vec<Seen>>,
    /// All accesses of a shared variable.
    accesses: FxHashMap<LocationId, Vec<(EventIndex, LockSet)>>,
    /// Pairs of accesses, by their places.
    pairs: Vec<Vec<(Seen, Seen, LocationId)>>,
    pair_of: FxHashMap<(PlaceId, PlaceId), usize>,
    /// The critical sections of each lock that have ended, and those that have not, by the acquisition.
    sections: FxHashMap<ObjectId, Vec<Section>>,
    open: FxHashMap<EventIndex, Section>,
    /// The variables that are read and those that are written since an acquisition.
    read: FxHashSet<(EventIndex, LocationId)>,
    written: FxHashSet<(EventIndex, LocationId)>,
}

impl<'m> Walk<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        let root = Call {
            caller: 0,
            place: PlaceId(0),
            depth: 0,
        };
        // The first functions of the threads are calls of their own.
        let threads = model.trace.threads.len() as u32;
        let position = |call| Position {
            call,
            waits: 0,
            synchronisations: 0,
            held: NOTHING,
        };
        Walk {
            model,
            critical: CriticalSections::of(model),
            calls: vec![root; threads as usize],
            positions: (0..threads).map(position).collect(),
            recent: FxHashMap::default(),
            accesses: FxHashMap::default(),
            pairs: Vec::new(),
            pair_of: FxHashMap::default(),
            sections: FxHashMap::default(),
            open: FxHashMap::default(),
            read: FxHashSet::default(),
            written: FxHashSet::default(),
        }
    }

    fn trace(&self) -> &'m Trace {
        self.model.trace
    }

    fn event(&mut self, index: EventIndex) {
        let event = self.trace().events[index.index()];
        let position = &mut self.positions[event.thread.index()];
        if event.op == Op::Enter {
            self.calls.push(Call {
                caller: position.call,
                place: event.place,
                depth: self.calls[position.call as usize].depth + 1,
            });
            position.call = self.calls.len() as u32 - 1;
            return;
        }
        if event.op == Op::Leave {
            position.call = self.calls[position.call as usize].caller;
            return;
        }
        match event.op.effect() {
            Effect::Memory(touch) => self.access(index, touch),
            Effect::Lock(lock, _) => {
                position.synchronisations += 1;
                self.lock(index, lock);
            }
            Effect::Thread(OnThread::Detach(_))
            | Effect::Condition(_, OnCondition::Signal | OnCondition::Broadcast)
            | Effect::Semaphore(_, OnSemaphore::Post | OnSemaphore::Init(_)) => {
                position.synchronisations += 1;
            }
            Effect::Thread(_)
            | Effect::Condition(..)
            | Effect::Semaphore(..)
            | Effect::Once(..)
            | Effect::Barrier(..)
            | Effect::Channel(..) => position.waits += 1,
            Effect::Local => {}
        }
    }

    /// The section of an outermost acquisition begins, that of a last release ends.
    fn lock(&mut self, index: EventIndex, lock: ObjectId) {
        let event = self.trace().events[index.index()];
        let position = &mut self.positions[event.thread.index()];
        let done = self.model.position[index.index()] + 1;
        let before = std::mem::replace(
            &mut position.held,
            self.critical.held(self.model, event.thread, done),
        );
        let innermost = self.critical.chain(position.held).next();
        if innermost.is_some_and(|section| section.acquired == index) {
            let section = Section {
                thread: event.thread,
                place: event.place,
                at: *position,
                variables: Vec::new(),
            };
            self.open.insert(index, section);
        }
        let mut ended = self.critical.chain(before);
        if let Some(ended) = ended.find(|section| section.released == Some(index))
            && let Some(section) = self.open.remove(&ended.acquired)
        {
            self.sections.entry(lock).or_default().push(section);
        }
    }

    fn access(&mut self, index: EventIndex, touch: Touch) {
        if !matches!(touch.kind, TouchKind::Plain | TouchKind::Atomic) {
            return;
        }
        let locations = &self.model.locations;
        let mut shared = locations.of_event(index).map(LocationId);
        // Of a copy of many variables the first that is shared stands for all.
        let Some(location) = shared.find(|&one| locations.is_shared_and_written(one)) else {
            return;
        };
        let event = self.trace().events[index.index()];
        let seen = Seen {
            event: index,
            place: event.place,
            touch,
            at: self.positions[event.thread.index()],
        };
        for held in self.critical.chain(seen.at.held) {
            if let Some(section) = self.open.get_mut(&held.acquired) {
                section.touch(index, location, touch);
            }
            if touch.reads {
                self.read.insert((held.acquired, location));
            }
            if touch.writes {
                self.written.insert((held.acquired, location));
            }
        }
        let accesses = self.accesses.entry(location).or_default();
        accesses.push((index, self.critical.lock_set(seen.at.held)));
        let mut recent = self
            .recent
            .remove(&(event.thread, location))
            .unwrap_or_default();
        for earlier in recent.iter().rev() {
            if self.is_region(&earlier.at, earlier.place, &seen.at, seen.place) {
                let number = self.pairs.len();
                let key = (earlier.place, seen.place);
                let number = *self.pair_of.entry(key).or_insert(number);
                if number == self.pairs.len() {
                    self.pairs.push(Vec::new());
                }
                if self.pairs[number].len() < CALLS {
                    self.pairs[number].push((*earlier, seen, location));
                }
            }
        }
        recent.retain(|earlier| earlier.place != seen.place);
        if recent.len() == BACK {
            recent.remove(0);
        }
        recent.push(seen);
        self.recent.insert((event.thread, location), recent);
    }

    /// Whether the thread went from the first place on to the second one in one call of a function,
    /// and did not wait for others there.
    fn is_region(&self, from: &Position, first: PlaceId, to: &Position, second: PlaceId) -> bool {
        if from.waits != to.waits || to.synchronisations - from.synchronisations > LONGEST {
            return false;
        }
        let (mut one, mut other) = ((from.call, first), (to.call, second));
        let call = |place: (u32, PlaceId)| self.calls[place.0 as usize];
        let up = |place: (u32, PlaceId)| (call(place).caller, call(place).place);
        while one.0 != other.0 {
            let (a, b) = (call(one).depth, call(other).depth);
            if a == 0 && b == 0 {
                return false;
            }
            if a >= b {
                one = up(one);
            }
            if b >= a {
                other = up(other);
            }
        }
        self.code(one.1) < self.code(other.1)
    }

    /// Where a place is in its function.
    fn code(&self, place: PlaceId) -> (u32, u64) {
        let place = self.trace().place(place);
        let line = place.frames.last().map_or(0, |frame| frame.line);
        (line, place.pc)
    }

    fn regions(self) -> Vec<Region> {
        let mut regions: Vec<(EventIndex, Region)> = Vec::new();
        // Of the regions between the same critical sections one is enough.
        let mut known: FxHashSet<(PlaceId, PlaceId)> = FxHashSet::default();
        let pairs = self
            .pairs
            .iter()
            .filter_map(|calls| self.of_one_variable(calls));
        for (key, first, region) in pairs {
            if known.insert(key) {
                regions.push((first, region));
            }
        }
        for (key, first, region) in self.of_two_variables() {
            if known.insert(key) {
                regions.push((first, region));
            }
        }
        regions.sort_by_key(|(first, _)| *first);
        regions.into_iter().map(|(_, region)| region).collect()
    }

    /// Where the critical section of an access begins, or the place of the access.
    fn beginning(&self, seen: &Seen) -> PlaceId {
        let outermost = self.critical.chain(seen.at.held).last();
        outermost.map_or(seen.place, |section| {
            self.trace().events[section.acquired.index()].place
        })
    }

    fn of_one_variable(
        &self,
        calls: &[(Seen, Seen, LocationId)],
    ) -> Option<((PlaceId, PlaceId), EventIndex, Region)> {
        let mut interleavings = Vec::new();
        for (first, last, location) in calls {
            let all = &self.accesses[location];
            let from = all.partition_point(|&(event, _)| event <= first.event);
            let to = all.partition_point(|&(event, _)| event < last.event);
            let breaks =
                |&&(event, locks): &&(EventIndex, LockSet)| self.breaks(first, event, locks, last);
            if all[from..to].iter().any(|other| breaks(&other)) {
                return None;
            }
            let before = all[..from].iter().rev().filter(breaks).take(OTHERS / 2);
            let after = all[to..].iter().filter(breaks).take(OTHERS / 2);
            let others = after.chain(before).map(|&(event, _)| event);
            interleavings.extend(others.map(|other| vec![first.event, other, last.event]));
        }
        let (first, last, location) = &calls[0];
        let key = (self.beginning(first), self.beginning(last));
        if key.0 == key.1 || self.are_updates(first, last, *location) {
            return None;
        }
        let region = Region { interleavings };
        (!region.interleavings.is_empty()).then_some((key, first.event, region))
    }

    /// Whether both critical sections write the variable and one of them looks at it first.
    fn are_updates(&self, first: &Seen, last: &Seen, location: LocationId) -> bool {
        let either = |seen: &Seen, own: bool, all: &FxHashSet<(EventIndex, LocationId)>| {
            let mut held = self.critical.chain(seen.at.held);
            own || held.any(|section| all.contains(&(section.acquired, location)))
        };
        let reads = |seen: &Seen| either(seen, seen.touch.reads, &self.read);
        let writes = |seen: &Seen| either(seen, seen.touch.writes, &self.written);
        writes(first) && writes(last) && (reads(first) || reads(last))
    }

    /// Whether an access of another thread does not fit between the two of a region, although it has
    /// no race with them.
    fn breaks(&self, first: &Seen, other: EventIndex, locks: LockSet, last: &Seen) -> bool {
        let event = self.trace().events[other.index()];
        let own = self.trace().events[first.event.index()].thread;
        let Some(touch) = Touch::of(event.op).filter(|_| event.thread != own) else {
            return false;
        };
        let conflict = |seen: &Seen| seen.touch.writes || touch.writes;
        let is_read = first.touch.reads || touch.reads || last.touch.reads;
        let atomic = |touch: Touch| touch.kind == TouchKind::Atomic;
        let has_no_race = |seen: &Seen| {
            let own = self.critical.lock_set(seen.at.held);
            atomic(seen.touch) && atomic(touch) || !self.critical.compatible(own, locks)
        };
        // A read-modify-write at the end is most often one that looks again.
        let looks_again = atomic(last.touch) && last.touch.reads && last.touch.writes;
        let holds_throughout = |lock: ObjectId| {
            let held = |seen: &Seen| {
                let mut chain = self.critical.chain(seen.at.held);
                chain.find(|section| section.lock == lock)
            };
            let both = held(first).zip(held(last));
            both.is_some_and(|(first, last)| first.acquired == last.acquired)
        };
        let other_holds = self.critical.locks(locks);
        conflict(first)
            && conflict(last)
            && is_read
            && has_no_race(first)
            && has_no_race(last)
            && !looks_again
            && !other_holds.iter().any(|&(lock, _)| holds_throughout(lock))
    }

    fn of_two_variables(&self) -> Vec<((PlaceId, PlaceId), EventIndex, Region)> {
        let mut found: FxHashMap<(PlaceId, PlaceId), (EventIndex, Region)> = FxHashMap::default();
        let mut locks: Vec<&ObjectId> = self.sections.keys().collect();
        locks.sort_unstable();
        for lock in locks {
            let sections = &self.sections[lock];
            let with = sections_with(sections);
            let mut last: FxHashMap<ThreadId, Vec<usize>> = FxHashMap::default();
            for (number, section) in sections.iter().enumerate() {
                let earlier = last.entry(section.thread).or_default();
                for &before in earlier.iter().rev().take(BACK) {
                    let before = &sections[before];
                    let key = (before.place, section.place);
                    let calls = found
                        .get(&key)
                        .map_or(0, |(_, region)| region.interleavings.len());
                    let is_region =
                        self.is_region(&before.at, before.place, &section.at, section.place);
                    if calls >= CALLS || !is_region {
                        continue;
                    }
                    let broken = between(sections, &with, before, section);
                    if let Some(first) = broken.first() {
                        let none = || {
                            (
                                first[0],
                                Region {
                                    interleavings: Vec::new(),
                                },
                            )
                        };
                        let (_, region) = found.entry(key).or_insert_with(none);
                        region.interleavings.extend(broken);
                    }
                }
                earlier.push(number);
            }
        }
        let all = found.into_iter();
        let mut all: Vec<_> = all
            .map(|(key, (first, region))| (key, first, region))
            .collect();
        all.sort_by_key(|&(key, first, _)| (first, key));
        all
    }
}

impl Section {
    fn touch(&mut self, index: EventIndex, location: LocationId, touch: Touch) {
        let write = touch.writes.then_some(index);
        let mut all = self.variables.iter_mut();
        if let Some(known) = all.find(|variable| variable.location == location) {
            known.write = known.write.or(write);
        } else if self.variables.len() < VARIABLES {
            self.variables.push(Variable {
                location,
                first: index,
                write,
            });
        }
    }
}

/// For every variable the critical sections that touch it, as far as they are looked at.
fn sections_with(sections: &[Section]) -> FxHashMap<LocationId, Vec<usize>> {
    let mut with: FxHashMap<LocationId, Vec<usize>> = FxHashMap::default();
    for (number, section) in sections.iter().enumerate() {
        for variable in &section.variables {
            let with = with.entry(variable.location).or_default();
            if with.len() < SECTIONS {
                with.push(number);
            }
        }
    }
    with
}

/// What other threads do in one critical section to a variable of `before` and one of `after`, which
/// belong together.
fn between(
    sections: &[Section],
    with: &FxHashMap<LocationId, Vec<usize>>,
    before: &Section,
    after: &Section,
) -> Vec<Interleaving> {
    let mut found = Vec::new();
    for x in &before.variables {
        for y in &after.variables {
            let is_apart =
                after.variable(x.location).is_none() && before.variable(y.location).is_none();
            if !is_apart {
                continue;
            }
            let numbers: FxHashSet<usize> = { with[&x.location].iter().chain(&with[&y.location]) }
                .copied()
                .collect();
            let mut numbers: Vec<usize> = numbers.into_iter().collect();
            numbers.sort_unstable();
            let of_region =
                |section: &Section| section.place == before.place || section.place == after.place;
            let others = numbers.into_iter().map(|number| &sections[number]);
            let others: Vec<&Section> = others.filter(|section| !of_region(section)).collect();
            let both = |section: &&Section| {
                Some((
                    *section.variable(x.location)?,
                    *section.variable(y.location)?,
                ))
            };
            let writes = |section: &&Section| {
                let writes = |location| {
                    let variable = section.variable(location);
                    variable.is_some_and(|variable| variable.write.is_some())
                };
                writes(x.location) || writes(y.location)
            };
            if { others.iter().copied() }.any(|other| writes(&other) && both(&other).is_none()) {
                continue;
            }
            let others = others.iter().filter(|other| other.thread != before.thread);
            let broken = others.filter_map(|other| {
                let (other_x, other_y) = both(other)?;
                let (first, one) = conflict(x, &other_x)?;
                let (last, two) = conflict(y, &other_y)?;
                Some(vec![first, one.min(two), one.max(two), last])
            });
            found.extend(broken.take(OTHERS / 2));
        }
    }
    found.truncate(OTHERS);
    found
}

/// Conflicting accesses of the same variable, the first one of the region.
fn conflict(own: &Variable, other: &Variable) -> Option<(EventIndex, EventIndex)> {
    match (own.write, other.write) {
        (_, Some(write)) => Some((own.first, write)),
        (Some(write), None) => Some((write, other.first)),
        (None, None) => None,
    }
}
