//! What a replay that did not follow its witness teaches.
//!
//! The program left the schedule because a read before that point saw something else than in
//! the recording. The nearest such read is found: one whose last write, in the recording by
//! another thread, the witness puts later or leaves out. That write must come before that read;
//! the ordering solver is asked for a witness under this constraint. If there is none, and the witness
//! let the read see another write, the read is tried before all writes: what it finds there first is
//! often what the last write left again. When no such read is found,
//! only the very order of the witness is ruled out. The solver cannot be asked for waits that
//! nothing ends under such a constraint: for those, every read of another witness sees what it saw
//! in the recording.
//!
//! The order of plain accesses in a recording is known only between synchronisation operations,
//! so the constraint can be wrong: it can cost a finding, never make one.

use norns_budget::Budget;
use norns_model::{Bug, Meaning, Witness};
use norns_predict::order::{Constraint, Engine, Outcome, too_long};
use norns_report::describe::place_name;
use norns_trace::{Access, Event, EventIndex, Op, Touch, TouchKind, Trace};

/// How many events of the thread before the point of divergence are looked at.
const LOOK_BACK: usize = 400;
/// The part of what is left that one question to the solver may take.
const QUESTION: (u32, u32) = (1, 10);

pub struct Refinement<'t> {
    trace: &'t Trace,
    /// What is left for all questions; each may take `QUESTION` of it.
    work: Budget,
    /// Made when the first replay did not follow its witness.
    engine: Option<Engine<'t>>,
    /// Writes that must come before reads, learned from all witnesses so far.
    learned: Vec<(EventIndex, EventIndex)>,
    /// Waits that nothing ends, in schedules in which every read sees what it saw.
    stuck: Option<Vec<Witness>>,
}

/// What earlier replays say about a witness that was not replayed yet.
pub enum Screened {
    /// Nothing speaks against it.
    Fits,
    /// It cannot be followed, but this one of the same bug may be.
    Other(Again),
    /// No witness of this bug can be followed.
    Impossible(Lesson),
}

/// Another witness, and what was learned from the one before.
#[derive(Debug)]
pub struct Again {
    pub witness: Witness,
    pub lesson: Lesson,
}

/// Why another schedule could not be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lesson {
    /// The read must see the write.
    MustSee {
        write: EventIndex,
        read: EventIndex,
    },
    /// The read must come before the write.
    MustNotSee {
        write: EventIndex,
        read: EventIndex,
    },
    /// All reads must see what they saw.
    SameReads,
    Unknown,
}

impl Lesson {
    pub fn words(self, trace: &Trace) -> String {
        let at = |event: EventIndex, what: &str| match place_name(trace, event).as_str() {
            "" => what.to_string(),
            place => format!("{what} at {place}"),
        };
        match self {
            Lesson::MustSee { write, read } => format!(
                "another schedule could not be followed, since {} must see {}",
                at(read, "the read"),
                at(write, "the write")
            ),
            Lesson::MustNotSee { write, read } => format!(
                "another schedule could not be followed, since {} must come before {}",
                at(read, "the read"),
                at(write, "the write")
            ),
            Lesson::SameReads => {
                "another schedule could not be followed: reads must see what they saw".into()
            }
            Lesson::Unknown => "another schedule could not be followed".into(),
        }
    }
}

impl<'t> Refinement<'t> {
    pub fn new(trace: &'t Trace, work: Budget) -> Self {
        Self {
            work,
            trace,
            engine: None,
            learned: Vec::new(),
            stuck: None,
        }
    }

    /// Compares a witness with what the witnesses of other bugs have taught.
    pub fn screen(&mut self, witness: &Witness) -> Screened {
        if matches!(witness.bug, Bug::Stuck { .. }) {
            return Screened::Fits;
        }
        let position = positions(self.trace, witness);
        let violated = self.learned.iter().copied().find(|(write, read)| {
            let read = position[read.index()];
            read != usize::MAX && position[write.index()] > read
        });
        let (Some((write, read)), Some(engine)) = (violated, self.engine.as_mut()) else {
            return Screened::Fits;
        };
        let lesson = Lesson::MustSee { write, read };
        let find = || engine.find(witness.bug.clone());
        match self.work.stage(QUESTION.0, QUESTION.1, find) {
            Outcome::Witness(witness) => Screened::Other(Again { witness, lesson }),
            Outcome::Impossible => Screened::Impossible(lesson),
            Outcome::Undecided => Screened::Fits,
        }
    }

    /// Another witness of the same bug, after the program could not do `event` where `witness`
    /// has it (or did not come to the bug at all).
    pub fn again(&mut self, witness: &Witness, event: Option<EventIndex>) -> Option<Again> {
        if too_long(self.trace) {
            return None;
        }
        if let Bug::Stuck { blocked } = &witness.bug {
            return self.stuck_again(witness, blocked);
        }
        // Where the program left the schedule, or else where it should have come to.
        let mut goals: Vec<EventIndex> = event.into_iter().collect();
        goals.extend(witness.bug.events());
        let missing = goals
            .iter()
            .find_map(|&goal| missing_write(self.trace, witness, goal));
        self.learned.extend(missing);
        let (constraint, lesson) = match missing {
            Some((write, read)) => (
                Constraint::Before(write, read),
                Lesson::MustSee { write, read },
            ),
            None => (
                Constraint::NotInThisOrder(witness.schedule.clone()),
                Lesson::Unknown,
            ),
        };
        let trace = self.trace;
        let work = self.work.clone();
        let outcome = work.stage(QUESTION.0, QUESTION.1, || {
            let make = || Engine::within(trace, meaning(trace), work.clone());
            let engine = self.engine.get_or_insert_with(make);
            engine.add(constraint);
            engine.find(witness.bug.clone())
        });
        match outcome {
            Outcome::Witness(witness) => Some(Again { witness, lesson }),
            Outcome::Impossible => self.before_all_writes(witness, missing?.1),
            Outcome::Undecided => None,
        }
    }

    /// Another witness of the same bug, in which the read comes before the first write to what it reads
    /// by another thread. `None` if it does so already.
    fn before_all_writes(&self, witness: &Witness, read: EventIndex) -> Option<Again> {
        let (trace, work) = (self.trace, self.work.clone());
        let Event { thread, op, .. } = trace.events[read.index()];
        let access = read_by(op)?;
        let is_write = |event: &Event| {
            let written = written_by(event.op);
            event.thread != thread && written.is_some_and(|written| written.overlaps(access))
        };
        let write = EventIndex::from_index(trace.events.iter().position(is_write)?);
        let position = positions(trace, witness);
        if position[write.index()] > position[read.index()] {
            return None;
        }
        // Not what was learned so far: the read then sees no write.
        let outcome = work.stage(QUESTION.0, QUESTION.1, || {
            let mut engine = Engine::within(trace, meaning(trace), work.clone());
            engine.add(Constraint::Before(read, write));
            engine.find(witness.bug.clone())
        });
        let lesson = Lesson::MustNotSee { write, read };
        match outcome {
            Outcome::Witness(witness) => Some(Again { witness, lesson }),
            Outcome::Impossible | Outcome::Undecided => None,
        }
    }

    fn stuck_again(&mut self, witness: &Witness, blocked: &[EventIndex]) -> Option<Again> {
        let (trace, work) = (self.trace, self.work.clone());
        let stuck = self.stuck.get_or_insert_with(|| {
            let options = norns_predict::Options {
                meaning: match Meaning::usual(trace) {
                    Meaning::SameValues => Meaning::SameValues,
                    Meaning::Faithful | Meaning::Optimistic => Meaning::Faithful,
                },
                races: false,
                ..norns_predict::Options::usual(trace)
            };
            let predict = || norns_predict::predict_within(trace, &options, &work);
            work.stage(QUESTION.0, QUESTION.1, predict).stuck
        });
        let place = |event: &EventIndex| trace.events[event.index()].place;
        let places: Vec<_> = blocked.iter().map(place).collect();
        let index = stuck.iter().position(|other| {
            let Bug::Stuck { blocked } = &other.bug else {
                return false;
            };
            blocked.iter().map(place).eq(places.iter().copied())
                && other.schedule != witness.schedule
        })?;
        Some(Again {
            witness: stuck.swap_remove(index),
            lesson: Lesson::SameReads,
        })
    }
}

/// Where values are known, another witness has to keep them; otherwise what a read saw is a guess,
/// and only what was learned is asked for.
fn meaning(trace: &Trace) -> Meaning {
    match Meaning::usual(trace) {
        Meaning::SameValues => Meaning::SameValues,
        Meaning::Faithful | Meaning::Optimistic => Meaning::Optimistic,
    }
}

/// The bytes that an event reads.
fn read_by(op: Op) -> Option<Access> {
    let touch = Touch::of(op)?;
    touch.reads.then_some(touch.access)
}

/// The bytes that an event writes, other than by giving out or freeing a block.
pub fn written_by(op: Op) -> Option<Access> {
    let touch = Touch::of(op)?;
    let stores = matches!(touch.kind, TouchKind::Plain | TouchKind::Atomic);
    (touch.writes && stores).then_some(touch.access)
}

/// Where the schedule has every event; `usize::MAX` for those that it leaves out.
fn positions(trace: &Trace, witness: &Witness) -> Vec<usize> {
    let mut position = vec![usize::MAX; trace.events.len()];
    for (at, event) in witness.schedule.iter().enumerate() {
        position[event.index()] = at;
    }
    position
}

/// A write and a read before `goal`, in its thread, that saw it in the recording but does not in
/// the schedule. The nearest read first; what is read of the racing variable itself cannot be
/// asked for.
fn missing_write(
    trace: &Trace,
    witness: &Witness,
    goal: EventIndex,
) -> Option<(EventIndex, EventIndex)> {
    let races = match witness.bug {
        Bug::Race { first, .. } => {
            let op = trace.events[first.index()].op;
            read_by(op).or_else(|| written_by(op))
        }
        Bug::LockDeadlock { .. }
        | Bug::Stuck { .. }
        | Bug::Order { .. }
        | Bug::Atomicity { .. } => None,
    };
    let position = positions(trace, witness);
    let thread = trace.events[goal.index()].thread;
    let before = (0..goal.index()).rev();
    let own = before.filter(|&index| trace.events[index].thread == thread);
    for read in own.take(LOOK_BACK) {
        let Some(access) = read_by(trace.events[read].op) else {
            continue;
        };
        if races.is_some_and(|races| races.overlaps(access)) {
            continue;
        }
        let write = (0..read).rev().find(|&index| {
            let event = trace.events[index];
            written_by(event.op).is_some_and(|written| written.overlaps(access))
        });
        let Some(write) = write else { continue };
        if trace.events[write].thread != thread && position[write] > position[read] {
            return Some((EventIndex::from_index(write), EventIndex::from_index(read)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording: its accesses are not in their true order.
    fn recording(script: &str) -> Trace {
        Trace {
            accesses_ordered: false,
            ..norns_model::script::trace(script)
        }
    }

    fn race(schedule: &[u32], first: u32, second: u32) -> Witness {
        Witness {
            schedule: schedule.iter().copied().map(EventIndex).collect(),
            bug: Bug::Race {
                first: EventIndex(first),
                second: EventIndex(second),
            },
        }
    }

    const MUST_SEE: Lesson = Lesson::MustSee {
        write: EventIndex(0),
        read: EventIndex(2),
    };

    #[test]
    fn the_next_witness_has_the_missing_write_before_the_read() {
        let trace = recording(
            "T1: write flag, write x
             T2: read flag, write x",
        );
        let mut refinement = Refinement::new(&trace, Budget::unlimited());
        let again = refinement.again(&race(&[2, 0], 1, 3), Some(EventIndex(3)));
        let again = again.expect("the write of the flag can come first");
        assert_eq!(again.lesson, MUST_SEE);
        assert_eq!(again.witness, race(&[0, 2], 1, 3));
    }

    #[test]
    fn a_lesson_holds_for_the_witnesses_of_other_bugs() {
        let trace = recording(
            "T1: write flag, write x
             T2: read flag, write x
             T3: write x",
        );
        let mut refinement = Refinement::new(&trace, Budget::unlimited());
        assert!(matches!(
            refinement.screen(&race(&[2], 3, 4)),
            Screened::Fits
        ));
        refinement.again(&race(&[2, 0], 1, 3), None);
        match refinement.screen(&race(&[2], 3, 4)) {
            Screened::Other(again) => {
                assert_eq!(again.lesson, MUST_SEE);
                assert_eq!(again.witness, race(&[0, 1, 2], 3, 4));
            }
            Screened::Fits | Screened::Impossible(_) => panic!("there is another witness"),
        }
    }

    #[test]
    fn a_bug_that_needs_the_other_order_is_impossible_from_then_on() {
        let trace = recording(
            "T1: write x, write flag
             T2: read flag, write x",
        );
        let mut refinement = Refinement::new(&trace, Budget::unlimited());
        let witness = race(&[2], 0, 3);
        assert!(refinement.again(&witness, Some(EventIndex(3))).is_none());
        let lesson = Lesson::MustSee {
            write: EventIndex(1),
            read: EventIndex(2),
        };
        assert!(matches!(
            refinement.screen(&witness),
            Screened::Impossible(learned) if learned == lesson
        ));
    }

    /// T1 counts up and down, and T2 waits until the count is 0: it was so before T1 came.
    #[test]
    fn a_read_is_tried_before_all_writes() {
        let trace = recording(
            "T1: write count, write x, write count
             T2: read count, write x",
        );
        let mut refinement = Refinement::new(&trace, Budget::unlimited());
        let again = refinement.again(&race(&[0, 3], 1, 4), None);
        let again = again.expect("the read can come first");
        let lesson = Lesson::MustNotSee {
            write: EventIndex(0),
            read: EventIndex(3),
        };
        assert_eq!(again.lesson, lesson);
        assert_eq!(again.witness, race(&[3, 0], 1, 4));
        assert!(refinement.again(&again.witness, None).is_none());
    }

    #[test]
    fn without_a_missing_write_only_this_order_is_ruled_out() {
        let trace = recording(
            "T1: lock m, unlock m, write x
             T2: lock m, unlock m, write x",
        );
        let mut refinement = Refinement::new(&trace, Budget::unlimited());
        let first = race(&[0, 1, 3, 4], 2, 5);
        let again = refinement.again(&first, None).expect("T2 can lock first");
        assert_eq!(again.lesson, Lesson::Unknown);
        assert_eq!(again.witness, race(&[3, 4, 0, 1], 2, 5));
        assert!(refinement.again(&again.witness, None).is_none());
    }
}
