//! All races of a trace: every access that races with an earlier one, and every pair of places.
//!
//! The accesses to a location are grouped into classes: same thread, same kind, same locks held.
//! For two classes that can race, the accesses of the second are taken in order, each
//! with the first access of the first class that is not in the ideal of the pair. Ideals of later
//! pairs contain those of earlier ones, so neither side ever goes back (SyncP, Mathur et al. 2021).
//! The state is one ideal for each pair of classes of the current location; RAPID's implementation of
//! the idea keeps a cursor for each lock, thread, pair of threads and location of the trace at the
//! same time.
//!
//! Accesses and pairs of places for which this finds no race are then tried with reversed critical
//! sections, but only with the nearest earlier accesses of every class. What may have been missed is
//! listed as open.

use norns_budget::Budget;
use norns_model::location::LocationId;
use norns_trace::{EventIndex, ThreadId, Touch, TouchKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::critical::LockSet;
use super::{Linear, Options, Plan};
use crate::candidate::{Listing, Side, sides};

/// A race with the schedule that shows it.
#[derive(Clone, Debug)]
pub struct FoundRace {
    /// The smaller side first.
    pub sides: (Side, Side),
    pub first: EventIndex,
    pub second: EventIndex,
    pub plan: Plan,
}

/// Two sides that may race as far as this analysis knows, with an access of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRace {
    pub sides: (Side, Side),
    pub first: EventIndex,
    pub second: EventIndex,
}

#[derive(Clone, Debug, Default)]
pub struct RaceReport {
    /// Every access that was found to race with an earlier one. Sorted.
    pub racy: Vec<EventIndex>,
    /// For each of `racy`, the earlier access.
    pub partners: Vec<EventIndex>,
    /// One race for every pair of sides. Sorted by sides.
    pub races: Vec<FoundRace>,
    /// Pairs of sides for which no race was found, but which neither common locks nor orders that hold
    /// in every schedule rule out. Sorted by sides.
    pub open: Vec<OpenRace>,
    /// Accesses that may race with an earlier one, although no race was found. Sorted.
    pub open_events: Vec<EventIndex>,
    /// What was not looked at because the work was spent.
    pub cut: Cut,
    /// For how many pairs of sides a race was found that `races` does not have, because the plans
    /// of the others fill the memory set aside for them.
    pub unlisted: usize,
}

/// Locations whose accesses were not all compared with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    pub locations: usize,
    pub accesses: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ClassKey {
    thread: ThreadId,
    writes: bool,
    atomic: bool,
    locks: LockSet,
}

struct Class {
    key: ClassKey,
    /// In the order of the trace.
    events: Vec<EventIndex>,
}

/// The progress of the search for two classes.
struct Cursor {
    /// The first class.
    class: usize,
    /// The index of the next access of the first class.
    next: usize,
    ideal: Vec<u32>,
}

#[derive(Clone, Copy)]
enum Closure {
    /// What a schedule needs that keeps the order of sections. The result has a schedule.
    KeepOrder,
    /// What every schedule needs. If the closure fails, there is no schedule.
    Needed,
}

/// The plans of a report together have at most this many numbers.
const MOST_KEPT: usize = 50_000_000;
/// For a pair of places, this many times more pairs of accesses are tried than for an access.
const TRIES_PER_NEAREST: usize = 4;

struct Search<'a, 'm> {
    linear: &'a Linear<'m>,
    options: &'a Options,
    /// From the later access to the earlier one.
    racy: FxHashMap<EventIndex, EventIndex>,
    open_events: FxHashSet<EventIndex>,
    found: FxHashMap<(Side, Side), FoundRace>,
    open: FxHashMap<(Side, Side), OpenRace>,
    cut: Cut,
    /// The size of all plans in `found`.
    kept: usize,
    /// Pairs of sides whose plans were not kept.
    unlisted: FxHashSet<(Side, Side)>,
}

impl Linear<'_> {
    /// Goes through all locations. Each may take the part of the work that its accesses are of all
    /// accesses that are left, twice over, and hands back what it does not need.
    pub fn races(&self, options: &Options) -> RaceReport {
        let mut search = Search {
            linear: self,
            options,
            racy: FxHashMap::default(),
            open_events: FxHashSet::default(),
            found: FxHashMap::default(),
            open: FxHashMap::default(),
            cut: Cut::default(),
            kept: 0,
            unlisted: FxHashSet::default(),
        };
        let count = |location| self.accesses.of_location(location).len();
        let mut left: usize = self.accesses.locations().map(count).sum();
        for location in self.accesses.locations() {
            let accesses = count(location);
            let (part, whole) = ((2 * accesses).min(left), left);
            left -= accesses;
            let is_complete = self.work.share(part as u64, whole as u64, || {
                search.location(location);
                !self.work.is_spent()
            });
            if !is_complete {
                search.cut.locations += 1;
                search.cut.accesses += accesses;
            }
        }
        search.report()
    }
}

impl Linear<'_> {
    /// Earlier accesses with which this one may race as far as this analysis knows, the nearest first.
    /// Considers at most `most` accesses of each of its locations.
    pub fn earlier_rivals(&self, second: EventIndex, most: usize) -> Listing<EventIndex> {
        let model = self.model;
        let mut known = vec![0; model.threads.len()];
        self.clocks.approach(model, &mut known, second);
        let mut rivals = Vec::new();
        let mut is_complete = true;
        for location in model.locations.of_event(second).map(LocationId) {
            let accesses = self.accesses.of_location(location);
            let here = accesses.partition_point(|&event| event < second);
            // If an access of a thread must come before this one, so must the thread's earlier ones.
            let mut ordered = vec![false; model.threads.len()];
            ordered[model.thread_of(second).index()] = true;
            for (looked_at, &first) in accesses[..here].iter().rev().enumerate() {
                if ordered.iter().all(|&done| done) {
                    break;
                }
                if looked_at == most {
                    is_complete = false;
                    break;
                }
                let target = self.target(first);
                if self.exact_clocks && target.position < known[target.thread] {
                    ordered[target.thread] = true;
                } else if model.conflict(first, second) && !self.is_impossible(&[first, second]) {
                    rivals.push(first);
                }
            }
        }
        rivals.sort_unstable_by(|one, other| other.cmp(one));
        rivals.dedup();
        Listing {
            items: rivals,
            is_complete,
        }
    }
}

impl Search<'_, '_> {
    fn report(self) -> RaceReport {
        let mut races: Vec<FoundRace> = self.found.into_values().collect();
        races.sort_unstable_by_key(|race| race.sides);
        let found: FxHashSet<(Side, Side)> = races.iter().map(|race| race.sides).collect();
        let mut open: Vec<OpenRace> = self
            .open
            .into_values()
            .filter(|race| !found.contains(&race.sides) && !self.unlisted.contains(&race.sides))
            .collect();
        open.sort_unstable_by_key(|race| race.sides);
        let mut racy: Vec<(EventIndex, EventIndex)> = self.racy.into_iter().collect();
        racy.sort_unstable();
        let (racy, partners): (Vec<_>, Vec<_>) = racy.into_iter().unzip();
        let mut open_events: Vec<EventIndex> = self
            .open_events
            .into_iter()
            .filter(|event| racy.binary_search(event).is_err())
            .collect();
        open_events.sort_unstable();
        RaceReport {
            racy,
            partners,
            races,
            open,
            open_events,
            cut: self.cut,
            unlisted: self.unlisted.len(),
        }
    }

    fn location(&mut self, location: LocationId) {
        let classes = self.classes(location);
        for second in 0..classes.len() {
            if !self.work().spend(classes.len() as u64) {
                return;
            }
            let rivals: Vec<usize> = (0..classes.len())
                .filter(|&first| self.can_race(&classes[first].key, &classes[second].key))
                .collect();
            if rivals.is_empty() {
                continue;
            }
            self.racy_accesses(&classes, second, &rivals);
            for &first in &rivals {
                self.racy_places(&classes[first], &classes[second]);
            }
            if self.options.nearest > 0 {
                self.reversed(&classes, second, &rivals);
            }
        }
    }

    fn work(&self) -> &Budget {
        &self.linear.work
    }

    fn classes(&self, location: LocationId) -> Vec<Class> {
        let accesses = self.linear.accesses.of_location(location).len();
        self.work().count(10 * accesses as u64);
        let model = self.linear.model;
        let mut ids: FxHashMap<ClassKey, usize> = FxHashMap::default();
        let mut classes: Vec<Class> = Vec::new();
        for &event in self.linear.accesses.of_location(location) {
            let touch = Touch::of(model.op(event)).expect("accesses touch memory");
            if touch.kind == TouchKind::Allocate {
                continue;
            }
            let thread = model.thread_of(event);
            let held = self
                .linear
                .sections
                .held(model, thread, model.position[event.index()]);
            let key = ClassKey {
                thread,
                writes: touch.writes,
                atomic: touch.kind == TouchKind::Atomic,
                locks: self.linear.sections.lock_set(held),
            };
            let id = *ids.entry(key).or_insert(classes.len());
            if id == classes.len() {
                classes.push(Class {
                    key,
                    events: Vec::new(),
                });
            }
            classes[id].events.push(event);
        }
        classes
    }

    fn can_race(&self, one: &ClassKey, other: &ClassKey) -> bool {
        one.thread != other.thread
            && (one.writes || other.writes)
            && !(one.atomic && other.atomic)
            && self.linear.sections.compatible(one.locks, other.locks)
    }

    /// Finds, for each access of the second class, one race with an earlier access.
    fn racy_accesses(&mut self, classes: &[Class], second: usize, rivals: &[usize]) {
        let mut cursors: Vec<Cursor> = rivals.iter().map(|&class| self.cursor(class)).collect();
        for &event in &classes[second].events {
            if self.racy.contains_key(&event) {
                continue;
            }
            for i in 0..cursors.len() {
                if self.work().is_spent() {
                    return;
                }
                let events = &classes[cursors[i].class].events;
                if let Some(first) =
                    self.advance(&mut cursors[i], events, event, Closure::KeepOrder)
                {
                    self.note(first, event, &cursors[i].ideal);
                    // The class that gave a race often gives the next one, too.
                    cursors.swap(0, i);
                    break;
                }
            }
        }
    }

    fn cursor(&self, class: usize) -> Cursor {
        Cursor {
            class,
            next: 0,
            ideal: vec![0; self.linear.model.threads.len()],
        }
    }

    /// The first of `firsts`, from the cursor on, that comes before `second` and whose ideal with it
    /// can be closed.
    fn advance(
        &self,
        cursor: &mut Cursor,
        firsts: &[EventIndex],
        second: EventIndex,
        closure: Closure,
    ) -> Option<EventIndex> {
        let linear = self.linear;
        let model = linear.model;
        let mut approached = false;
        loop {
            self.work().count(1);
            let first = *firsts.get(cursor.next)?;
            if first > second {
                return None;
            }
            if !approached {
                approached = true;
                linear.clocks.approach(model, &mut cursor.ideal, second);
            }
            let target = linear.target(first);
            if target.position < cursor.ideal[target.thread] {
                cursor.next += 1;
                continue;
            }
            linear.clocks.approach(model, &mut cursor.ideal, first);
            let targets = [target, linear.target(second)];
            let closed = match closure {
                Closure::KeepOrder => linear.keep_order(&mut cursor.ideal, &targets),
                Closure::Needed => linear.close_needed(&mut cursor.ideal, &targets),
            };
            if closed.is_ok() {
                return Some(first);
            }
            if cursor.ideal[target.thread] <= target.position {
                // The ideal exceeds the limits of the trace, and so does every larger one.
                cursor.next = firsts.len();
            }
        }
    }

    /// Finds one race for each pair of places of the two classes.
    fn racy_places(&mut self, first: &Class, second: &Class) {
        let firsts = self.by_side(first);
        let seconds = self.by_side(second);
        let total = first.events.len() + second.events.len();
        let mut left = self.options.pairs_per_access.saturating_mul(total);
        for (one, first_events) in &firsts {
            for (other, second_events) in &seconds {
                let sides = (*one.min(other), *one.max(other));
                if !self.work().spend(2) {
                    return;
                }
                if self.found.contains_key(&sides) || self.unlisted.contains(&sides) {
                    continue;
                }
                if left == 0 {
                    let pair = (first_events[0], second_events[0]);
                    self.note_open(pair.0.min(pair.1), pair.0.max(pair.1));
                    continue;
                }
                left = left.saturating_sub(first_events.len() + second_events.len());
                if !self.in_order(first_events, second_events) {
                    self.with_reversal(first_events, second_events);
                }
            }
        }
    }

    /// Looks for a race without reversing sections. Returns whether there is one.
    fn in_order(&mut self, firsts: &[EventIndex], seconds: &[EventIndex]) -> bool {
        let mut cursor = self.cursor(0);
        let found = seconds.iter().find_map(|&second| {
            let first = self.advance(&mut cursor, firsts, second, Closure::KeepOrder)?;
            Some((first, second))
        });
        if let Some((first, second)) = found {
            self.note(first, second, &cursor.ideal);
        }
        found.is_some()
    }

    /// Looks for a race with reversed sections, and otherwise notes the pair as open.
    fn with_reversal(&mut self, firsts: &[EventIndex], seconds: &[EventIndex]) {
        let mut cursor = self.cursor(0);
        let mut tries = TRIES_PER_NEAREST * self.options.nearest;
        for &second in seconds {
            let Some(first) = self.advance(&mut cursor, firsts, second, Closure::Needed) else {
                if !self.linear.exact_clocks && firsts[0] < second {
                    self.note_open(firsts[0], second);
                }
                continue;
            };
            match self
                .linear
                .plan_with_reversal(&[first, second], self.options)
            {
                Some(plan) => {
                    self.note_plan(first, second, plan);
                    return;
                }
                None => self.note_open(first, second),
            }
            tries = tries.saturating_sub(1);
            if tries == 0 || self.work().is_spent() {
                return;
            }
        }
    }

    /// The accesses of the class, grouped by side.
    fn by_side(&self, class: &Class) -> Vec<(Side, Vec<EventIndex>)> {
        let mut sides: Vec<(Side, EventIndex)> = class
            .events
            .iter()
            .map(|&event| (Side::of(self.linear.model, event), event))
            .collect();
        sides.sort_unstable();
        let groups = sides.chunk_by(|one, other| one.0 == other.0);
        groups
            .map(|group| (group[0].0, group.iter().map(|entry| entry.1).collect()))
            .collect()
    }

    /// Tries the accesses that have no race yet with reversed critical sections.
    fn reversed(&mut self, classes: &[Class], second: usize, rivals: &[usize]) {
        let mut cursors: Vec<Cursor> = rivals.iter().map(|&class| self.cursor(class)).collect();
        for &event in &classes[second].events {
            for cursor in &mut cursors {
                if self.racy.contains_key(&event) || self.work().is_spent() {
                    break;
                }
                let firsts = &classes[cursor.class].events;
                self.reversed_with(cursor, firsts, event);
            }
        }
    }

    fn reversed_with(&mut self, cursor: &mut Cursor, firsts: &[EventIndex], second: EventIndex) {
        let linear = self.linear;
        let earlier = firsts.partition_point(|&first| first < second);
        let Some(earliest) = self.advance(cursor, firsts, second, Closure::Needed) else {
            // Only exact clocks prove that there is no such race.
            if !linear.exact_clocks && earlier > 0 {
                self.open_events.insert(second);
            }
            return;
        };
        let nearest = firsts[..earlier].iter().rev().take(self.options.nearest);
        let nearest = nearest.take_while(|&&first| first > earliest);
        for &first in nearest.chain([&earliest]) {
            if let Some(plan) = linear.plan_with_reversal(&[first, second], self.options) {
                self.note_plan(first, second, plan);
                return;
            }
        }
        self.open_events.insert(second);
    }

    fn note(&mut self, first: EventIndex, second: EventIndex, ideal: &[u32]) {
        self.note_plan(
            first,
            second,
            Plan {
                ideal: ideal.into(),
                reordering: None,
            },
        );
    }

    fn note_plan(&mut self, first: EventIndex, second: EventIndex, plan: Plan) {
        self.racy.entry(second).or_insert(first);
        let sides = sides(self.linear.model, first, second);
        if self.found.contains_key(&sides) {
            return;
        }
        if self.kept + plan.size() > MOST_KEPT {
            self.unlisted.insert(sides);
            return;
        }
        self.kept += plan.size();
        let race = FoundRace {
            sides,
            first,
            second,
            plan,
        };
        self.found.insert(sides, race);
    }

    fn note_open(&mut self, first: EventIndex, second: EventIndex) {
        let sides = sides(self.linear.model, first, second);
        self.open.entry(sides).or_insert(OpenRace {
            sides,
            first,
            second,
        });
    }
}
