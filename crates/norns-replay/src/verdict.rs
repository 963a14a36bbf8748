//! What the replay of a witness means, decided from what was seen of it.
//!
//! A confirmation is never inferred. A race is confirmed by both threads standing before their
//! accesses at one moment, or by the detector's report of the same two places in that run; a
//! deadlock by the cycle, or by the state without a running thread, that the runtime saw. Whatever
//! else a run shows is not a confirmation.

use norns_model::{Bug, Witness};
use norns_trace::{Access, EventIndex, Op, Touch, TouchKind, Trace};
use norns_wire::report::{Shape, Waiting};

use crate::process::Ended;
use crate::report::{Deadlock, Diverged, Race, Report, Spin};

/// What the replay of a witness showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Confirmed(Proof),
    /// The accesses of a race cannot happen at once: one thread waits in a loop for what the other
    /// writes.
    OrderedBySpinLoop,
    /// The schedule was followed to its end, and the bug did not show.
    NoBug,
    /// The program left the schedule.
    Infeasible(Left),
    /// The run hit a limit on time or memory, or hung; or one thread of a race was held for as long as
    /// threads are held, and the other one did not come.
    TimedOut,
}

/// How the program left its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// A thread cannot do what the schedule expects.
    Diverged(Diverged),
    /// The program ended before the schedule was done.
    Ended(Ended),
}

impl Left {
    /// The event of the trace that could not be done, where that is known.
    pub fn event(&self) -> Option<EventIndex> {
        match self {
            Left::Diverged(diverged) => diverged.expected_event,
            Left::Ended(_) => None,
        }
    }
}

/// What confirmed a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Two threads stopped with both accesses next.
    BothHeld,
    /// The detector's report of the same two places. A loop that waits for a plain variable may have
    /// ordered them.
    Detector,
    /// The detector's report of accesses that no such loop can have ordered.
    DetectorWithoutLoop,
    /// A cycle of threads, each waiting for a lock that the next one has.
    Cycle,
    /// No thread of the program can go on.
    NobodyRuns,
}

impl Proof {
    /// What a report of the detector proves by itself.
    pub fn of_detector(race: &Race) -> Self {
        match race.waits {
            Waiting::MayWait => Proof::Detector,
            Waiting::DoesNotWait => Proof::DetectorWithoutLoop,
        }
    }

    /// The proof of a race that leaves less in doubt.
    pub fn stronger(self, other: Proof) -> Proof {
        match (self, other) {
            (Proof::BothHeld, _) | (_, Proof::Detector) => self,
            (_, Proof::BothHeld) | (Proof::Detector, _) => other,
            _ => self,
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Proof::BothHeld => "both threads were stopped with their accesses next",
            Proof::Detector | Proof::DetectorWithoutLoop => {
                "the race detector saw both accesses, unordered, in one run"
            }
            Proof::Cycle => "the runtime saw the cycle of waiting threads",
            Proof::NobodyRuns => "the runtime saw that no thread can go on",
        }
    }
}

/// Two accesses that a run showed to race, whatever it was meant to show: their program counters, the
/// smaller first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub pcs: [u64; 2],
    /// `None` if something that the detector does not know of may have ordered them in that run.
    pub proof: Option<Proof>,
}

impl Sighting {
    pub fn places(first: u64, second: u64) -> [u64; 2] {
        [first.min(second), first.max(second)]
    }

    /// All that a run showed. A loop that waits for a plain variable, and a system call that is not
    /// understood, may order what the detector saw.
    pub fn of(report: &Report) -> Vec<Sighting> {
        let held = report.held.iter().map(|(one, other)| Sighting {
            pcs: Self::places(one.pc, other.pc),
            proof: Some(Proof::BothHeld),
        });
        let races = report.races.iter().map(|race| {
            let proof = Proof::of_detector(race);
            let may_wait = proof == Proof::Detector && report.spin.is_some();
            Sighting {
                pcs: Self::places(race.earlier.pc, race.later.pc),
                proof: (!may_wait && !report.unknown_call).then_some(proof),
            }
        });
        held.chain(races).collect()
    }
}

/// Judges a run under the schedule of `witness`.
pub fn judge(trace: &Trace, witness: &Witness, report: &Report, ended: &Ended) -> Outcome {
    match &witness.bug {
        Bug::Race { first, second } => {
            let is_it = |pcs: [u64; 2]| are_these_places(trace, pcs, *first, *second);
            let mut held = report.held.iter();
            // After a system call that may order threads unseen the detector proves nothing.
            let races = report.races.iter().filter(|_| !report.unknown_call);
            let races = races.filter(|race| is_it([race.earlier.pc, race.later.pc]));
            let proof = if held.any(|(one, other)| is_it([one.pc, other.pc])) {
                Some(Proof::BothHeld)
            } else {
                races.map(Proof::of_detector).reduce(Proof::stronger)
            };
            // Without a proof the run says nothing about the pair, and neither does the loop.
            match (proof, &report.spin) {
                (Some(Proof::Detector), Some(spin)) if may_order(trace, spin, *first, *second) => {
                    return Outcome::OrderedBySpinLoop;
                }
                (Some(proof), _) => return Outcome::Confirmed(proof),
                (None, _) => {}
            }
        }
        Bug::LockDeadlock { blocked } | Bug::Stuck { blocked } => {
            if let Some(deadlock) = &report.deadlock
                && are_blocked(trace, deadlock, blocked)
            {
                return Outcome::Confirmed(match deadlock.shape {
                    Shape::Cycle => Proof::Cycle,
                    Shape::Stuck => Proof::NobodyRuns,
                });
            }
        }
        // Whoever knows the rule looks at the events of the run, and whoever knows how the program
        // usually behaves at what it did.
        Bug::Order { .. } | Bug::Atomicity { .. } => {}
    }
    if let Some(diverged) = &report.diverged {
        return Outcome::Infeasible(Left::Diverged(diverged.clone()));
    }
    match ended {
        Ended::TimedOut | Ended::OutOfMemory | Ended::Hung | Ended::Interrupted | Ended::Killed => {
            Outcome::TimedOut
        }
        // The other thread may have had no processor: that it did not come says nothing.
        _ if report.followed && report.held_in_vain => Outcome::TimedOut,
        _ if report.followed => Outcome::NoBug,
        _ => Outcome::Infeasible(Left::Ended(ended.clone())),
    }
}

/// Whether a loop may order the two accesses although the detector saw them unordered. Not if its
/// variable is atomic, since the detector knows what that orders; and not if it is the variable of the
/// race itself, which then races whatever the loop does. A free is ordered by a loop on a variable in
/// its own block as by any other.
fn may_order(trace: &Trace, spin: &Spin, first: EventIndex, second: EventIndex) -> bool {
    let variable = Access {
        address: spin.address,
        size: 1,
    };
    let touches = [first, second].map(|event| Touch::of(trace.events[event.index()].op));
    let mut touches = touches.into_iter().flatten();
    let frees = touches.clone().any(|touch| touch.kind == TouchKind::Free);
    let is_its_own = !frees && touches.any(|touch| touch.access.overlaps(variable));
    let is_atomic = trace.events.iter().any(|event| {
        matches!(event.op, Op::Atomic { .. }) && trace.place(event.place).pc == spin.pc
    });
    !is_its_own && !is_atomic
}

/// Whether the threads of the predicted events wait where these say. Further threads may wait for
/// them.
fn are_blocked(trace: &Trace, seen: &Deadlock, blocked: &[EventIndex]) -> bool {
    blocked.iter().all(|event| {
        let event = trace.events[event.index()];
        let pc = trace.place(event.place).pc;
        let name = &trace.thread(event.thread).name;
        seen.waits
            .iter()
            .any(|waits| waits.pc == pc && waits.thread == *name)
    })
}

/// Whether the two program counters are those of the predicted accesses, in either order.
fn are_these_places(trace: &Trace, seen: [u64; 2], first: EventIndex, second: EventIndex) -> bool {
    let pc = |event: EventIndex| {
        let event = trace.events[event.index()];
        trace.place(event.place).pc
    };
    let predicted = [pc(first), pc(second)];
    seen == predicted || seen == [predicted[1], predicted[0]]
}
