//! Loops that wait for a variable, as replays have shown them, and the accesses that they order.
//!
//! A run shows a race to the detector, but not always the loop that orders its accesses: the
//! variable may be set when the thread first reads it. If an earlier replay has seen the loop, the
//! trace tells whether it stands between the two accesses.
//!
//! A counter is waited for until several threads have written to it. That one write ends the wait is
//! seen of one thread only, in a replay that held it back; the same write of the other threads is
//! taken to be waited for as well.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::{Bug, Model};
use norns_predict::happens_before::Flows;
use norns_replay::Proof;
use norns_trace::{Access, Event, EventIndex, Op, Touch, TouchKind, Trace};

use crate::program::Replayed;
use crate::refine::written_by;

#[derive(Default)]
pub struct WaitLoops<'t> {
    /// Program counters of the reads that the loops repeat, each with those of the writes that were
    /// held back until the loop went round.
    reads: BTreeMap<u64, BTreeSet<u64>>,
    /// The variables that loops may wait for, once the races of the recorded run are known.
    flows: Option<(Model<'t>, Flows)>,
}

impl<'t> WaitLoops<'t> {
    pub fn know_flows(&mut self, model: Model<'t>, flows: Flows) {
        self.flows = Some((model, flows));
    }

    /// Learns from a run that the detector saw accesses with these program counters unordered. If a loop
    /// on a plain variable is what orders two accesses in that run, the variable is among these: in the
    /// recorded run its accesses may have been ordered by chance, by a lock that only one of them needs.
    pub fn see_races(&mut self, races: impl Iterator<Item = [u64; 2]>) {
        if let Some((model, flows)) = &mut self.flows {
            flows.add_races(model, races);
        }
    }

    /// Whether there are variables that loops may wait for.
    pub fn are_possible(&self) -> bool {
        self.flows
            .as_ref()
            .is_some_and(|(_, flows)| !flows.is_empty())
    }

    /// Whether a loop that waits for a variable, seen or not, may order the two accesses of a race.
    pub fn may_order(&self, bug: &Bug) -> bool {
        match (bug, &self.flows) {
            (&Bug::Race { first, second }, Some((model, flows))) => {
                flows.may_wait(model, first, second)
            }
            _ => false,
        }
    }

    /// Whether a thread of a race was seen to go round in a loop that may order it.
    pub fn go_round(&self, bug: &Bug) -> bool {
        match (bug, &self.flows) {
            (&Bug::Race { first, second }, Some((model, flows))) => {
                flows.is_polled(model, first, second)
            }
            _ => false,
        }
    }

    /// Learns from a run that was to show this bug.
    pub fn learn(&mut self, trace: &Trace, bug: &Bug, replayed: &Replayed) {
        let Some(read) = replayed.wait_loop else {
            return;
        };
        let writes = self.reads.entry(read).or_default();
        let sides = sides(trace, bug).into_iter();
        writes.extend(sides.filter(|side| side.1 == read).map(|side| side.0));
    }

    /// Whether a loop is known that waits for the one access of this race with the other.
    pub fn waits(&self, trace: &Trace, bug: &Bug) -> bool {
        sides(trace, bug).into_iter().any(|(write, read)| {
            let held_back = self.reads.get(&read);
            held_back.is_some_and(|writes| writes.contains(&write))
        })
    }

    /// Whether one of the loops orders the two accesses of a race, although a replay gave this
    /// proof of it. That both accesses were next at one moment proves a race whatever a loop does;
    /// and so does everything about the variable of the loop itself.
    pub fn order(&self, trace: &Trace, bug: &Bug, proof: Proof) -> bool {
        let Bug::Race { first, second } = *bug else {
            return false;
        };
        proof == Proof::Detector
            && (self.stands_between(trace, first, second)
                || self.stands_between(trace, second, first)
                || self.links(trace, first, second))
    }

    /// Whether some thread has waited, in one of the loops, for a write that one of the accesses must
    /// precede, and the other one must come after that; or several threads, one after the other.
    fn links(&self, trace: &Trace, first: EventIndex, second: EventIndex) -> bool {
        let pc = |event: EventIndex| trace.place(trace.events[event.index()].place).pc;
        let Some((model, flows)) = &self.flows else {
            return false;
        };
        flows.wait(model, first, second, |link| {
            let held_back = self.reads.get(&pc(link.read));
            held_back.is_some_and(|writes| writes.contains(&pc(link.write)))
        })
    }

    /// Whether the thread of `after` has waited, up to it, for a variable that only the thread of
    /// `before` sets, and only from there on; or for a write that this thread makes for the first
    /// time from there on.
    fn stands_between(&self, trace: &Trace, before: EventIndex, after: EventIndex) -> bool {
        let thread = |event: EventIndex| trace.events[event.index()].thread;
        let earlier = trace.events[..=after.index()].iter().rev();
        let mut loops = earlier.filter(|event| {
            event.thread == thread(after) && self.reads.contains_key(&trace.place(event.place).pc)
        });
        let read = loops.find_map(|event| Some((event, plain_read(event.op)?)));
        let Some((read, waited_for)) = read else {
            return false;
        };
        let held_back = &self.reads[&trace.place(read.place).pc];
        let touch = Touch::of(trace.events[after.index()].op);
        let is_own =
            |touch: Touch| touch.kind != TouchKind::Free && touch.access.overlaps(waited_for);
        if touch.is_some_and(is_own) {
            return false;
        }
        let mut sets = (0..).zip(&trace.events).filter(|(_, event)| {
            let sets = written_by(event.op).is_some_and(|write| write.overlaps(waited_for));
            sets && event.thread != thread(after)
        });
        let is_later = |(index, event): (u32, &Event)| {
            event.thread == thread(before) && EventIndex(index) >= before
        };
        let mut ends_wait = sets.clone().filter(|(_, event)| {
            event.thread == thread(before) && held_back.contains(&trace.place(event.place).pc)
        });
        ends_wait.next().is_some_and(is_later)
            || sets.next().is_some_and(is_later) && sets.all(is_later)
    }
}

/// The program counters of a write and the other access of a race; of two writes both ways.
pub(crate) fn sides(trace: &Trace, bug: &Bug) -> Vec<(u64, u64)> {
    let Bug::Race { first, second } = *bug else {
        return Vec::new();
    };
    let event = |event: EventIndex| trace.events[event.index()];
    let sides = [(first, second), (second, first)].into_iter();
    sides
        .filter(|side| written_by(event(side.0).op).is_some())
        .map(|(write, other)| {
            [write, other]
                .map(|side| trace.place(event(side).place).pc)
                .into()
        })
        .collect()
}

/// The bytes of a plain read. What an atomic one orders, happens-before knows.
fn plain_read(op: Op) -> Option<Access> {
    let touch = Touch::of(op)?;
    (touch.reads && touch.kind == TouchKind::Plain).then_some(touch.access)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Outcome;
    use norns_model::Meaning;
    use norns_predict::happens_before::observed_races;

    /// Whether a loop, whose read is the event `read_of_loop` of the script, orders the race of
    /// two other events.
    fn check(script: &str, read_of_loop: u32, race: [u32; 2], proof: Proof, ordered: bool) {
        let trace = norns_model::script::trace(script);
        let pc = |event: u32| trace.place(trace.events[event as usize].place).pc;
        let mut loops = WaitLoops::default();
        let [first, second] = race.map(EventIndex);
        let bug = Bug::Race { first, second };
        loops.learn(&trace, &bug, &seen(pc(read_of_loop)));
        assert_eq!(loops.order(&trace, &bug, proof), ordered, "{script}");
    }

    /// A run that showed a loop whose read has this program counter.
    fn seen(pc: u64) -> Replayed {
        Replayed {
            outcome: Outcome::NoBug,
            wait_loop: Some(pc),
            sightings: Vec::new(),
            forked: false,
            loaded_later: false,
            events: Vec::new(),
        }
    }

    /// Two workers count down at one place, each after it has used `x`; T0 waits for both.
    #[test]
    fn a_loop_waits_for_the_same_write_of_all_threads() {
        let mut trace = norns_model::script::trace(
            "T1: write x, write n, write x
             T2: write x, write n
             T0: read n, free x",
        );
        let count_down = trace.events[1].place;
        trace.events[4].place = count_down;
        let pc = trace.place(trace.events[5].place).pc;
        let race = |first: u32, second: u32| Bug::Race {
            first: EventIndex(first),
            second: EventIndex(second),
        };
        let mut loops = WaitLoops::default();
        loops.learn(&trace, &race(0, 6), &seen(pc));
        let ordered =
            |loops: &WaitLoops, first| loops.order(&trace, &race(first, 6), Proof::Detector);
        assert!(!ordered(&loops, 0), "the loop may wait for either of them");
        loops.learn(&trace, &race(1, 5), &seen(pc));
        assert!(ordered(&loops, 0) && ordered(&loops, 3));
        assert!(!ordered(&loops, 2), "after the write");
    }

    /// T2 waits until T1 has set a flag, and T0 joins T2: the loop also orders what T0 does then.
    #[test]
    fn a_loop_orders_what_comes_after_its_thread() {
        let trace = norns_model::script::trace(
            "T0: fork T1, fork T2
             T1: write x, write flag, write x
             T2: read flag
             T0: join T2, write x",
        );
        let race = |first: u32, second: u32| Bug::Race {
            first: EventIndex(first),
            second: EventIndex(second),
        };
        let mut loops = WaitLoops::default();
        let model = Model::new(&trace, Meaning::Optimistic);
        let (_, flows) = observed_races(&model);
        loops.know_flows(model, flows);
        assert!(loops.may_order(&race(2, 7)) && !loops.may_order(&race(4, 7)));
        let ordered =
            |loops: &WaitLoops, first| loops.order(&trace, &race(first, 7), Proof::Detector);
        assert!(!ordered(&loops, 2), "the loop was not seen");
        let pc = trace.place(trace.events[5].place).pc;
        loops.learn(&trace, &race(3, 5), &seen(pc));
        assert!(ordered(&loops, 2));
        assert!(!ordered(&loops, 4), "after the write");
    }

    /// T2 polls a flag that T1 sets under a lock. In the recorded run T2 had the lock in between.
    #[test]
    fn a_flag_that_a_lock_happened_to_order_may_be_waited_for() {
        let trace = norns_model::script::trace(
            "T1: write x, lock m, write flag, unlock m
             T2: lock m, unlock m, read flag, write x",
        );
        let race = Bug::Race {
            first: EventIndex(0),
            second: EventIndex(7),
        };
        let pc = |event: usize| trace.place(trace.events[event].place).pc;
        let mut loops = WaitLoops::default();
        let model = Model::new(&trace, Meaning::Optimistic);
        let (_, flows) = observed_races(&model);
        loops.know_flows(model, flows);
        loops.see_races([[pc(0), pc(7)]].into_iter());
        assert!(!loops.may_order(&race), "there is no other variable");
        loops.see_races([[pc(2), pc(6)]].into_iter());
        assert!(loops.may_order(&race));
    }

    /// T2 reads a flag of T1 again and again, with the same or with other operations in between.
    #[test]
    fn a_thread_that_reads_a_flag_in_equal_rounds_polls_it() {
        let script = "T1: write x, write flag
                      T2: read flag, lock m, unlock m, read flag, lock m, unlock m
                      T2: read flag, lock m, unlock m, read flag, lock m, unlock m, write x";
        let polls = |places: usize| {
            let mut trace = norns_model::script::trace(script);
            for event in 2..14 {
                trace.events[event].place = trace.events[2 + (event - 2) % places].place;
            }
            let mut loops = WaitLoops::default();
            let model = Model::new(&trace, Meaning::Optimistic);
            let (_, flows) = observed_races(&model);
            loops.know_flows(model, flows);
            loops.go_round(&Bug::Race {
                first: EventIndex(0),
                second: EventIndex(14),
            })
        };
        assert!(polls(3), "four equal rounds");
        assert!(!polls(6), "every other one is of another place");
    }

    const FLAG: &str = "T1: write x, write flag
                        T2: read flag, read x";

    #[test]
    fn a_loop_orders_what_stands_before_the_write_and_behind_the_read() {
        check(FLAG, 2, [0, 3], Proof::Detector, true);
    }

    #[test]
    fn a_loop_on_a_variable_of_a_block_orders_the_free_of_the_block() {
        let script = "T1: write b
                      T2: read b, free b";
        check(script, 1, [0, 2], Proof::Detector, true);
    }

    #[test]
    fn two_stopped_threads_prove_a_race_in_spite_of_a_loop() {
        check(FLAG, 2, [0, 3], Proof::BothHeld, false);
    }

    #[test]
    fn the_variable_of_the_loop_races_itself() {
        check(FLAG, 2, [1, 2], Proof::BothHeld, false);
        check(FLAG, 2, [1, 2], Proof::Detector, false);
    }

    #[test]
    fn a_relaxed_flag_orders_nothing() {
        let script = "T1: write x, store flag
                      T2: load flag, read x";
        check(script, 2, [0, 3], Proof::Detector, false);
    }

    #[test]
    fn an_access_behind_the_write_is_not_ordered() {
        let script = "T1: write flag, write x
                      T2: read flag, read x";
        check(script, 2, [1, 3], Proof::Detector, false);
    }

    #[test]
    fn a_variable_that_a_third_thread_sets_orders_nothing() {
        let script = "T3: write flag
                      T1: write x, write flag
                      T2: read flag, read x";
        check(script, 3, [1, 4], Proof::Detector, false);
    }
}
