//! Predictions that the real program can follow: witnesses in which every executed read still sees
//! the write that it saw, as far as a recording without values tells which one that was.
//!
//! The recorded order of plain accesses is not the true one, but happens-before is known. A read's
//! write is known if happens-before orders all writes of that location with the read, and those
//! before it among each other up to the last one. Otherwise the read itself has a race in the
//! recorded run, and what it saw is a guess.
//!
//! Reads of which that is a guess are taken out of the trace; what is left is predicted in the
//! faithful meaning, and the reads are put back into the schedules. A pair that such a read is part
//! of is not found here. An object that one thread hands to another through a locked queue gives no
//! witness: the reader would have to find the queue as it was.

use norns_budget::Budget;
use norns_model::checker::Checker;
use norns_model::location::LocationId;
use norns_model::{Meaning, Model, Witness};
use norns_trace::{EventIndex, Op, ThreadId, Touch, TouchKind, Trace};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::happens_before::{Clock, MemoryModel};
use crate::stage::{Options, Prediction, UNITS_TO_PREPARE, predict_within};

/// Predicts from a recording without values, only what schedules that keep all known reads show.
/// Nothing if the work is spent before it is known what the reads saw.
pub fn predict_keeping_reads(trace: &Trace, options: &Options, work: &Budget) -> Prediction {
    if work.is_out_of_time() || work.is_spent() {
        return Prediction::default();
    }
    let Some(known) = KnownReads::of(trace, work) else {
        return Prediction::default();
    };
    let faithful = Options {
        meaning: Meaning::Faithful,
        ..*options
    };
    let mut found = predict_within(&known.trace, &faithful, work);
    let checker = Checker::new(trace, Meaning::Optimistic);
    for witnesses in [&mut found.races, &mut found.deadlocks, &mut found.stuck] {
        let all = std::mem::take(witnesses).into_iter();
        *witnesses = all
            .map(|witness| known.restored(trace, witness))
            .filter(|witness| checker.check(witness).is_ok())
            .collect();
    }
    for event in found.undecided.iter_mut().flatten() {
        *event = known.events[event.index()];
    }
    found
}

pub(crate) struct KnownReads {
    /// The trace without the reads whose write is not known.
    pub trace: Trace,
    /// For every event of `trace`, the same event in the whole trace.
    pub events: Vec<EventIndex>,
}

impl KnownReads {
    /// As `of`; the reads in `free` are there, but may see anything.
    pub fn with_free(
        whole: &Trace,
        free: &FxHashSet<EventIndex>,
        work: &Budget,
    ) -> Option<KnownReads> {
        let mut known = KnownReads::of(whole, work)?;
        for (event, original) in known.trace.events.iter_mut().zip(&known.events) {
            if free.contains(original) {
                // It keeps its place in its thread, and touches nothing.
                event.op = Op::Enter;
            }
        }
        Some(known)
    }

    fn of(whole: &Trace, work: &Budget) -> Option<KnownReads> {
        work.count((UNITS_TO_PREPARE * whole.events.len()) as u64);
        let unknown = unknown_reads(&Model::new(whole, Meaning::Optimistic), work)?;
        let kept = |event: &EventIndex| !unknown[event.index()];
        let events: Vec<EventIndex> = (0..whole.events.len())
            .map(EventIndex::from_index)
            .filter(kept)
            .collect();
        let trace = Trace {
            threads: whole.threads.clone(),
            objects: whole.objects.clone(),
            places: whole.places.clone(),
            symbols: Vec::new(),
            customs: whole.customs.clone(),
            events: { events.iter() }
                .map(|event| whole.events[event.index()])
                .collect(),
            values: Vec::new(),
            accesses_ordered: true,
            origins: Vec::new(),
        };
        Some(KnownReads { trace, events })
    }

    /// The same witness in the whole trace: a read that was taken out comes just before the next
    /// event of its thread.
    pub fn restored(&self, whole: &Trace, witness: Witness) -> Witness {
        let original = |event: &EventIndex| self.events[event.index()];
        let bug = witness.bug.map_events(original);
        // For every thread, how far the schedule has come in the whole trace.
        let mut next = vec![0; whole.threads.len()];
        let mut schedule = Vec::with_capacity(witness.schedule.len());
        let mut advance = |to: EventIndex, schedule: &mut Vec<EventIndex>| {
            let thread = whole.events[to.index()].thread;
            let from: usize = std::mem::replace(&mut next[thread.index()], to.index() + 1);
            let between = (from..to.index()).map(EventIndex::from_index);
            let own = |event: &EventIndex| whole.events[event.index()].thread == thread;
            schedule.extend(between.filter(own));
        };
        for event in witness.schedule.iter().map(original) {
            advance(event, &mut schedule);
            schedule.push(event);
        }
        for event in bug.pending() {
            advance(event, &mut schedule);
        }
        Witness { schedule, bug }
    }
}

/// What is known of the accesses to one location so far.
#[derive(Default)]
struct Accesses {
    /// By thread: the epoch of the last plain write, and of the last atomic one; 0 if there is none.
    writes: Vec<(ThreadId, [u32; 2])>,
    /// Whether two writes since the last one that came after all others are unordered.
    is_ambiguous: bool,
    /// The reads that may still turn out to be unordered with a write; one entry for each thread and
    /// kind.
    reads: Vec<Reads>,
}

struct Reads {
    thread: ThreadId,
    is_atomic: bool,
    /// With their epochs, in ascending order.
    events: Vec<(u32, EventIndex)>,
}

/// Units of work for each location that an event touches.
const UNITS_PER_TOUCH: u64 = 5;

/// For every event, whether it is a plain read whose write is not known; `None` if the work is spent
/// before that is clear.
fn unknown_reads(model: &Model, work: &Budget) -> Option<Vec<bool>> {
    let mut unknown = vec![false; model.trace.events.len()];
    let mut before = MemoryModel::new(model);
    let mut accesses: FxHashMap<u32, Accesses> = FxHashMap::default();
    for (i, event) in model.trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        before.acquire(event);
        if let Some(touch) = Touch::of(event.op) {
            let clock = before.clock(event.thread.index());
            let locations = model.locations.of_event(here);
            if !work.spend(UNITS_PER_TOUCH * locations.len() as u64) {
                return None;
            }
            for location in locations {
                if !model.locations.is_shared_and_written(LocationId(location)) {
                    continue;
                }
                let accesses = accesses.entry(location).or_default();
                accesses.add(here, event.thread, touch, clock, &mut unknown);
            }
        }
        before.release(event);
    }
    let is_plain_read = |i: usize| {
        let touch = Touch::of(model.trace.events[i].op);
        touch.is_some_and(|touch| touch.reads && !touch.writes && touch.kind == TouchKind::Plain)
    };
    for (i, unknown) in unknown.iter_mut().enumerate() {
        *unknown &= is_plain_read(i);
    }
    Some(unknown)
}

impl Accesses {
    fn add(
        &mut self,
        here: EventIndex,
        thread: ThreadId,
        touch: Touch,
        clock: &Clock,
        unknown: &mut [bool],
    ) {
        let is_atomic = touch.kind == TouchKind::Atomic;
        // Two atomic operations are in their true order.
        let is_ordered = |other: ThreadId, epoch: u32, atomic: bool| {
            other == thread || is_atomic && atomic || epoch <= clock[other.index()]
        };
        let all_ordered = self.writes.iter().all(|&(other, [plain, atomic])| {
            is_ordered(other, plain, false) && is_ordered(other, atomic, true)
        });
        let epoch = clock[thread.index()];
        if touch.reads {
            if self.is_ambiguous || !all_ordered {
                unknown[here.index()] = true;
            } else {
                let is_own =
                    |known: &&mut Reads| (known.thread, known.is_atomic) == (thread, is_atomic);
                match self.reads.iter_mut().find(is_own) {
                    Some(known) => known.events.push((epoch, here)),
                    None => self.reads.push(Reads {
                        thread,
                        is_atomic,
                        events: vec![(epoch, here)],
                    }),
                }
            }
        }
        if touch.writes {
            self.is_ambiguous = !all_ordered;
            match self.writes.iter_mut().find(|(other, _)| *other == thread) {
                Some((_, epochs)) => epochs[usize::from(is_atomic)] = epoch,
                None => {
                    let mut epochs = [0; 2];
                    epochs[usize::from(is_atomic)] = epoch;
                    self.writes.push((thread, epochs));
                }
            }
            for known in &mut self.reads {
                while let Some(&(epoch, read)) = known.events.last()
                    && !is_ordered(known.thread, epoch, known.is_atomic)
                {
                    unknown[read.index()] = true;
                    known.events.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_model::script;

    /// What is predicted although all known reads keep their writes, as pairs of events.
    fn check(script: &str, expected: &[(u32, u32)]) {
        let trace = Trace {
            accesses_ordered: false,
            ..script::trace(script)
        };
        let options = Options::usual(&trace);
        let found = predict_keeping_reads(&trace, &options, &Budget::unlimited());
        let races: Vec<(u32, u32)> = found
            .races
            .iter()
            .map(|witness| {
                let events = witness.bug.events();
                (events[0].0, events[1].0)
            })
            .collect();
        assert_eq!(races, expected, "{script}");
    }

    #[test]
    fn an_object_handed_over_through_a_locked_queue_has_no_race() {
        check(
            "T1: write x, lock m, write queue, unlock m
             T2: lock m, read queue, unlock m, write x",
            &[],
        );
    }

    #[test]
    fn a_lock_that_hands_nothing_over_hides_a_race() {
        check(
            "T1: write x, lock m, write y, unlock m
             T2: lock m, write y, unlock m, write x",
            &[(0, 7)],
        );
    }

    #[test]
    fn a_read_whose_write_is_a_guess_decides_nothing() {
        check(
            "T1: write x, lock m, unlock m, write flag
             T2: lock m, unlock m, read flag, write x",
            &[(0, 7)],
        );
    }

    #[test]
    fn a_read_after_two_unordered_writes_is_a_guess() {
        let trace = script::trace(
            "T1: write x, post s
             T2: write x, post s
             T3: sem-wait s, sem-wait s, read x
             T3: write x, read x",
        );
        let model = Model::new(&trace, Meaning::Optimistic);
        let unknown = unknown_reads(&model, &Budget::unlimited()).expect("there is no limit");
        let guesses: Vec<usize> = (0..unknown.len()).filter(|&i| unknown[i]).collect();
        assert_eq!(guesses, [6]);
    }
}
