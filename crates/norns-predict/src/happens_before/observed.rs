//! The races of the recorded run itself: conflicting accesses that happened in it and that
//! happens-before leaves unordered (`memory_model`), as a detector such as ThreadSanitizer reports
//! them, with every pair of places and not only the last accesses of each variable.
//!
//! One walk over the trace. A location keeps its last access of every thread, place and kind, at
//! most `MOST_KEPT` of them, so the cost is linear in the number of accesses. Their order in the
//! recording, which is not the true one, plays no part: what is unordered is so either way.
//!
//! An access may be recorded after the next allocation of its bytes, and then seems to belong to that
//! block. An access to a block whose allocation does not happen before it is therefore left out here.

use norns_model::checker::Checker;
use norns_model::location::LocationId;
use norns_model::{Bug, Meaning, Model, Witness};
use norns_trace::{EventIndex, ThreadId, Touch, TouchKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::flows::{Flow, Flows};
use super::memory_model::MemoryModel;
use super::{Clock, HappensBefore};
use crate::candidate::{Side, sides};

/// How many accesses to one location are remembered.
const MOST_KEPT: usize = 64;
/// How many races between the same sides are looked at for one that no loop may have ordered.
const MOST_CLOSEST: usize = 16;
/// How many events the schedules of all races may have together, and be checked.
const MOST_SCHEDULED: usize = 20_000_000;
/// The longest schedule that a replay is asked to follow.
const LONGEST: usize = 200_000;

/// A race that the recorded run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The recorded order, reduced to what happens before either access, as far as a replay can be
    /// asked to follow that; an empty schedule if not.
    pub witness: Witness,
    /// Whether a loop that waits for a plain variable may stand between the accesses
    /// (`Flows::may_have_waited`).
    pub may_wait: bool,
}

/// One race for every pair of sides, in the order of the sides, and the variables that threads may wait
/// for.
pub fn observed_races(model: &Model) -> (Vec<Observed>, Flows) {
    let mut search = Search::new(model);
    search.walk();
    let mut pairs: Vec<_> = search.found.into_iter().collect();
    pairs.sort_unstable_by_key(|(sides, _)| *sides);
    let flows = Flows::of(model, &search.flows);
    let choose = |found: Found| {
        let pairs = std::iter::once(found.first).chain(found.closest);
        let mut proved = pairs.filter(|&(one, other)| !flows.may_have_waited(model, one, other));
        proved
            .next()
            .map_or((found.first, true), |pair| (pair, false))
    };
    let chosen: Vec<_> = pairs.into_iter().map(|(_, found)| choose(found)).collect();
    let pairs: Vec<_> = chosen.iter().map(|chosen| chosen.0).collect();
    let schedules = schedules(model, &pairs);
    let observed = chosen.into_iter().zip(schedules);
    let races = observed.map(|(((first, second), may_wait), schedule)| Observed {
        may_wait,
        witness: Witness {
            schedule,
            bug: Bug::Race { first, second },
        },
    });
    (races.collect(), flows)
}

/// Races between the same sides.
struct Found {
    first: (EventIndex, EventIndex),
    /// Those with the fewest events between them, the closest first: the less there is between two accesses,
    /// the less can have ordered them.
    closest: Vec<(EventIndex, EventIndex)>,
}

impl Found {
    fn add(&mut self, pair: (EventIndex, EventIndex)) {
        let distance = |pair: &(EventIndex, EventIndex)| pair.1.0 - pair.0.0;
        let at = self
            .closest
            .partition_point(|known| distance(known) <= distance(&pair));
        if at < MOST_CLOSEST {
            self.closest.insert(at, pair);
            self.closest.truncate(MOST_CLOSEST);
        }
    }
}

/// An access to a location, as later ones are compared with it.
#[derive(Clone, Copy)]
struct Kept {
    event: EventIndex,
    thread: ThreadId,
    side: Side,
    /// The entry of the thread in its own clock.
    epoch: u32,
    /// The allocation of the block that it touches.
    block: Option<EventIndex>,
}

impl Kept {
    fn conflicts(&self, other: &Kept) -> bool {
        self.thread != other.thread
            && (self.side.writes || other.side.writes)
            && !(self.side.atomic && other.side.atomic)
            && self.block == other.block
    }
}

struct Search<'m> {
    model: &'m Model<'m>,
    before: MemoryModel,
    /// For every shared location.
    kept: FxHashMap<u32, Vec<Kept>>,
    /// The epochs of allocations.
    allocated: FxHashMap<EventIndex, u32>,
    found: FxHashMap<(Side, Side), Found>,
    flows: FxHashSet<Flow>,
}

impl<'m> Search<'m> {
    fn new(model: &'m Model<'m>) -> Self {
        Self {
            model,
            before: MemoryModel::new(model),
            kept: FxHashMap::default(),
            allocated: FxHashMap::default(),
            found: FxHashMap::default(),
            flows: FxHashSet::default(),
        }
    }

    fn walk(&mut self) {
        for (i, event) in self.model.trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            self.before.acquire(event);
            if let Some(touch) = Touch::of(event.op) {
                self.touch(here, event.thread, touch);
            }
            self.before.release(event);
        }
    }

    fn touch(&mut self, here: EventIndex, thread: ThreadId, touch: Touch) {
        let clock = self.before.clock(thread.index());
        let epoch = clock[thread.index()];
        if touch.kind == TouchKind::Allocate {
            self.allocated.insert(here, epoch);
            return;
        }
        if !self.is_of_its_block(here, clock) {
            return;
        }
        let access = Kept {
            event: here,
            thread,
            side: Side::of(self.model, here),
            epoch,
            block: self.model.lifetimes.block(here),
        };
        for location in self.model.locations.of_event(here) {
            if !(self.model.locations).is_shared_and_written(LocationId(location)) {
                continue;
            }
            let kept = self.kept.entry(location).or_default();
            let own = kept
                .iter_mut()
                .find(|other| other.thread == thread && other.side == access.side);
            // A later access of the same epoch is unordered to nothing else.
            let repeats = |own: &Kept| own.epoch == epoch && own.block == access.block;
            if own.as_deref().is_some_and(repeats) {
                continue;
            }
            if let Some(own) = own {
                *own = access;
            } else if kept.len() < MOST_KEPT {
                kept.push(access);
            } else {
                kept.remove(0);
                kept.push(access);
            }
            for other in kept.iter().filter(|other| other.conflicts(&access)) {
                if other.epoch <= clock[other.thread.index()] {
                    continue;
                }
                let sides = sides(self.model, other.event, here);
                let pair = (other.event, here);
                let found = self.found.entry(sides).or_insert_with(|| Found {
                    first: pair,
                    closest: Vec::new(),
                });
                found.add(pair);
                for (one, another) in [(other, &access), (&access, other)] {
                    if one.side.writes && !another.side.writes && !another.side.atomic {
                        let location = LocationId(location);
                        self.flows.insert((location, one.thread, another.thread));
                    }
                }
            }
        }
    }

    /// Whether the allocation of the block that the event touches happens before it.
    fn is_of_its_block(&self, event: EventIndex, clock: &Clock) -> bool {
        let Some(allocation) = self.model.lifetimes.block(event) else {
            return true;
        };
        let thread = self.model.thread_of(allocation).index();
        let epoch = self.allocated.get(&allocation);
        epoch.is_some_and(|&epoch| epoch <= clock[thread])
    }
}

/// For every pair the events that come before either of them in the run, in the recorded order.
/// Empty where these include one of the two, where the checker refuses the schedule, and where it
/// would be too long.
fn schedules(model: &Model, pairs: &[(EventIndex, EventIndex)]) -> Vec<Vec<EventIndex>> {
    let wanted: FxHashSet<EventIndex> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    let mut before = HappensBefore::new(model.trace);
    let mut clocks: FxHashMap<EventIndex, Clock> = FxHashMap::default();
    let mut epochs = Vec::with_capacity(model.trace.events.len());
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        before.acquire(event);
        let clock = before.clock(event.thread.index());
        epochs.push(clock[event.thread.index()]);
        if wanted.contains(&here) {
            clocks.insert(here, clock.clone());
        }
        before.release(event);
    }
    let checker = Checker::new(model.trace, Meaning::Optimistic);
    let mut left = MOST_SCHEDULED;
    let schedule = |&(first, second): &(EventIndex, EventIndex)| {
        let last = first.max(second).index();
        if last > left {
            return Vec::new();
        }
        left -= last;
        let comes_before = |event: EventIndex, access: EventIndex| {
            let thread = model.thread_of(event);
            if thread == model.thread_of(access) {
                event < access
            } else {
                epochs[event.index()] <= clocks[&access][thread.index()]
            }
        };
        let events = (0..last).map(EventIndex::from_index);
        let schedule: Vec<_> = events
            .filter(|&event| comes_before(event, first) || comes_before(event, second))
            .collect();
        let witness = Witness {
            schedule,
            bug: Bug::Race { first, second },
        };
        if witness.schedule.len() <= LONGEST && checker.check(&witness).is_ok() {
            witness.schedule
        } else {
            Vec::new()
        }
    };
    pairs.iter().map(schedule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_model::script::trace;
    use norns_trace::{MemoryOrder, Op};

    /// The races of the run, as pairs of events, each with `?` if a loop may stand between them.
    fn check(script: &str, expected: &str) {
        check_relaxed(script, &[], expected);
    }

    /// The same with these atomic operations relaxed; the others are sequentially consistent.
    fn check_relaxed(script: &str, relaxed: &[usize], expected: &str) {
        let mut trace = trace(script);
        for &event in relaxed {
            if let Op::Atomic { order, .. } = &mut trace.events[event].op {
                *order = MemoryOrder::Relaxed;
            }
        }
        let (races, _) = observed_races(&Model::new(&trace, Meaning::Optimistic));
        let words: Vec<String> = races
            .iter()
            .map(|race| {
                let events = race.witness.bug.events();
                let mark = if race.may_wait { "?" } else { "" };
                format!("{}-{}{mark}", events[0].0, events[1].0)
            })
            .collect();
        assert_eq!(words.join(" "), expected, "{script}");
    }

    #[test]
    fn every_pair_of_places_is_found() {
        check("T1: write x, write x\nT2: read x", "0-2 1-2");
    }

    #[test]
    fn synchronisation_orders() {
        for script in [
            "T1: write x, lock m, unlock m\nT2: lock m, unlock m, write x",
            "T1: write x, read-lock m, unlock m\nT2: lock m, unlock m, write x",
            "T1: write x, post s\nT2: sem-wait s, write x",
            "T1: fork T2\nT2: write x\nT1: join T2, write x",
            "T1: write x, store a\nT2: load a, write x",
        ] {
            check(script, "");
        }
    }

    #[test]
    fn atomic_operations_order_by_their_memory_order() {
        let flag = "T1: write x, store a\nT2: load a, write x";
        check_relaxed(flag, &[1], "0-3");
        check_relaxed(flag, &[2], "0-3");
        let fences = "T1: write x, fence, store a\nT2: load a, fence, write x";
        check_relaxed(fences, &[2, 3], "");
        let sequence = "T1: write x, store a\nT3: rmw a\nT2: load a, write x";
        check_relaxed(sequence, &[2], "");
        let broken = "T1: write x, store a\nT3: store a\nT2: load a, write x";
        check_relaxed(broken, &[2], "0-4");
    }

    #[test]
    fn readers_do_not_order_each_other() {
        check(
            "T1: write x, read-lock m, unlock m\nT2: read-lock m, unlock m, write x",
            "0-5",
        );
    }

    #[test]
    fn a_plain_flag_may_be_waited_for() {
        check("T1: write x, write f\nT2: read f, write x", "0-3? 1-2");
        check("T1: write x, write f\nT2: write x, read f", "0-2 1-3");
        // The reads say what they order only if they are atomic.
        check("T1: write x, rmw f\nT2: read f, write x", "0-3? 1-2");
        check("T1: write x, write f\nT2: load f, write x", "0-3 1-2");
    }

    #[test]
    fn a_read_that_came_before_the_write_has_not_waited_for_it() {
        check(
            "T2: read f, lock n, unlock n
             T1: lock m, unlock m, write x, write f
             T2: write x",
            "0-6 5-7",
        );
        check(
            "T1: lock m, unlock m, write x, write f
             T2: read f, lock n, unlock n
             T2: write x",
            "2-7? 3-4",
        );
    }

    /// Of two races between the same places a loop may have ordered the first one only.
    #[test]
    fn one_race_that_no_loop_ordered_is_enough() {
        let mut trace = trace(
            "T1: write x, write f
             T2: read f, write x, lock n, unlock n
             T1: lock m, unlock m, write x
             T2: write x",
        );
        trace.events[8].place = trace.events[0].place;
        trace.events[9].place = trace.events[3].place;
        let (races, _) = observed_races(&Model::new(&trace, Meaning::Optimistic));
        let is_it = |race: &&Observed| race.witness.bug.events()[1] == EventIndex(9);
        let race = races.iter().find(is_it);
        assert!(race.is_some_and(|race| !race.may_wait), "{races:?}");
    }

    #[test]
    fn a_third_thread_may_have_waited() {
        let waits = "T1: fork T2, fork T3
                     T2: write x, write f
                     T3: read f
                     T1: join T3, write x";
        check(waits, "2-6? 3-4");
        let too_late = "T1: fork T2, fork T3
                        T2: write f, write x
                        T3: read f
                        T1: join T3, write x";
        check(too_late, "2-4 3-6");
        let not_joined = "T1: fork T2, fork T3
                          T2: write x, write f
                          T3: read f
                          T1: write x";
        check(not_joined, "2-5 3-4");
    }

    #[test]
    fn one_loop_may_wait_for_another() {
        let waits = "T1: write x, write f
                     T2: read f, write g
                     T3: read g, write x";
        check(waits, "0-5? 1-2 3-4");
        let too_early = "T1: write x, write f
                         T2: write g, read f
                         T3: read g, write x";
        check(too_early, "0-5 1-3 2-4");
    }

    #[test]
    fn a_free_may_wait_for_a_flag_in_its_own_block() {
        check(
            "T1: write b
             T2: read b, free b",
            "0-1 0-2?",
        );
    }

    #[test]
    fn the_schedule_has_what_happens_before() {
        let trace = trace(
            "T1: lock m, unlock m, write x
             T3: lock n, unlock n
             T2: lock m, unlock m, write x",
        );
        let (races, _) = observed_races(&Model::new(&trace, Meaning::Optimistic));
        let schedule = &races[0].witness.schedule;
        let events: Vec<u32> = schedule.iter().map(|event| event.0).collect();
        assert_eq!(events, [0, 1, 5, 6]);
    }
}
