//! Loops that wait for a variable, as replays have shown them, and what they keep apart.
//!
//! A run shows a race to the detector, but not always the loop that orders its accesses: it may
//! find the variable set at once. If a replay has seen the loop before, the trace tells whether it
//! stands between the two accesses.

use std::collections::BTreeSet;

use norns_model::Bug;
use norns_replay::{Proof, Report};
use norns_trace::{Event, EventIndex, Trace};

use super::refine::{read_by, written_by};

#[derive(Default)]
pub struct WaitLoops {
    /// Program counters of the reads that the loops repeat.
    reads: BTreeSet<u64>,
}

impl WaitLoops {
    pub fn learn(&mut self, report: &Report) {
        self.reads.extend(report.spin.as_ref().map(|spin| spin.pc));
    }

    /// Whether one of the loops orders the two accesses of a race, although this proof was seen:
    /// that both were next at one moment says of a loop's own read nothing, of others all.
    pub fn order(&self, trace: &Trace, bug: &Bug, proof: Proof) -> bool {
        let Bug::Race { first, second } = *bug else {
            return false;
        };
        [(first, second), (second, first)]
            .into_iter()
            .any(|(before, after)| {
                let event = trace.events[after.index()];
                let is_own_read = self.reads.contains(&trace.place(event.place).pc);
                (is_own_read || proof == Proof::Detector)
                    && self.stands_between(trace, before, after)
            })
    }

    /// Whether the thread of `after` has waited, up to it, for a variable that only the thread of
    /// `before` sets, and only from there on.
    fn stands_between(&self, trace: &Trace, before: EventIndex, after: EventIndex) -> bool {
        let thread = |event: EventIndex| trace.events[event.index()].thread;
        let earlier = trace.events[..=after.index()].iter().rev();
        let mut loops = earlier.filter(|event| {
            event.thread == thread(after) && self.reads.contains(&trace.place(event.place).pc)
        });
        let Some(waited_for) = loops.find_map(|event| read_by(event.op)) else {
            return false;
        };
        let mut sets = (0..).zip(&trace.events).filter(|(_, event)| {
            let sets = written_by(event.op).is_some_and(|write| write.overlaps(waited_for));
            sets && event.thread != thread(after)
        });
        let is_later = |(index, event): (u32, &Event)| {
            event.thread == thread(before) && EventIndex(index) >= before
        };
        sets.next().is_some_and(is_later) && sets.all(is_later)
    }
}
