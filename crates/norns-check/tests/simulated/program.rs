//! A program that is simulated from the model of its trace.
//!
//! Every thread does the events of the trace, one after the other, wherever the step rules allow
//! the next one. Some reads decide which way the thread goes: if such a read sees another write
//! than in the recording, the thread leaves the trace and does nothing more. So there are
//! schedules that the model allows, and that this program cannot follow.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::rc::Rc;

use norns_check::{Outcome, Program, Recorded, Replayed, Rerun, WholeRun};
use norns_model::{Bug, Meaning, Model, Readiness, State, Step, Witness};
use norns_random::Random;
use norns_replay::schedule::{Accesses, Way};
use norns_replay::{Behaviour, Course, Ended, Proof, Sighting};
use norns_trace::{EventIndex, Op, ThreadId, Touch, TouchKind, Trace};

pub struct Simulated {
    pub trace: Trace,
    /// The reads that decide which way their thread goes.
    pub deciding: BTreeSet<EventIndex>,
    /// Whether it follows its own recording.
    pub is_reliable: bool,
    /// How many replays there were: the clock of the test.
    pub replays: Rc<Cell<usize>>,
    pub log: Vec<(Witness, Way)>,
    /// Whether everything that orders its threads is understood, so that the recorded run can prove
    /// a race.
    pub is_understood: bool,
}

impl Program for Simulated {
    type Error = Infallible;

    fn record(&mut self, _run: u32) -> Result<Recorded, Infallible> {
        Ok(Recorded {
            trace: self.trace.clone(),
            ended: Ended::Exited(0),
            warnings: Vec::new(),
            is_impatient: false,
            unseen_order: (!self.is_understood).then(|| "a library may".into()),
            last_lines: Vec::new(),
            not_analysed: Vec::new(),
            others: Vec::new(),
        })
    }

    fn record_every_access(&mut self, run: u32) -> Result<Recorded, Infallible> {
        self.record(run)
    }

    fn has_time_for_another(&self) -> bool {
        true
    }

    fn replay_recording(&mut self, _trace: &Trace) -> Result<Rerun, Infallible> {
        Ok(Rerun {
            left: (!self.is_reliable).then(|| "it read the clock".into()),
            hang: None,
        })
    }

    fn replay(
        &mut self,
        trace: &Trace,
        witness: &Witness,
        way: Way,
    ) -> Result<Replayed, Infallible> {
        self.replays.set(self.replays.get() + 1);
        self.log.push((witness.clone(), way));
        let model = Model::new(trace, Meaning::Optimistic);
        let recorded = seen_in_recording(trace, &self.deciding);
        let world = World::new(&model, &recorded);
        let outcome = match way {
            Way::Schedule(Accesses::Ordered) => world.follow(witness, |_| false),
            Way::Schedule(Accesses::Free) | Way::Near => world.follow(witness, is_free),
            // A simulated program has no custom events.
            Way::Hunt | Way::Events => world.wander(&witness.bug, 0),
            Way::Priorities(seed) => world.wander(&witness.bug, seed),
        };
        Ok(Replayed {
            outcome,
            wait_loop: None,
            sightings: Vec::new(),
            forked: false,
            loaded_later: false,
            events: Vec::new(),
        })
    }

    fn behave(&mut self, _trace: &Trace, _course: Course) -> Result<Behaviour, Infallible> {
        Ok(Behaviour {
            followed: true,
            hung: false,
            ended: Ended::Exited(0),
            lines: Vec::new(),
        })
    }

    /// Simulated recordings have all of their run.
    fn detect(&mut self, _trace: &Trace) -> Result<WholeRun, Infallible> {
        Ok(WholeRun::default())
    }

    /// A run of its own for every race: what a steered run meets at all, it has met.
    fn steer(
        &mut self,
        trace: &Trace,
        races: &[&Bug],
        seed: Option<u64>,
    ) -> Result<Vec<Sighting>, Infallible> {
        self.replays.set(self.replays.get() + 1);
        let model = Model::new(trace, Meaning::Optimistic);
        let recorded = seen_in_recording(trace, &self.deciding);
        let pc = |event: EventIndex| trace.place(trace.events[event.index()].place).pc;
        let met = races.iter().filter_map(|bug| {
            let world = World::new(&model, &recorded);
            let Outcome::Confirmed(proof) = world.wander(bug, seed.unwrap_or(0)) else {
                return None;
            };
            let events = bug.events();
            let pcs = Sighting::places(pc(events[0]), pc(events[1]));
            Some(Sighting {
                pcs,
                proof: Some(proof),
            })
        });
        Ok(met.collect())
    }
}

/// Whether a replay leaves it to the program when this is done.
fn is_free(op: Op) -> bool {
    Touch::of(op).is_some_and(|touch| touch.kind != TouchKind::Atomic)
}

/// The last writes that a read sees, byte by byte.
type Writes = Vec<Option<EventIndex>>;

/// What the deciding reads saw in the recording.
pub fn seen_in_recording(
    trace: &Trace,
    deciding: &BTreeSet<EventIndex>,
) -> BTreeMap<EventIndex, Writes> {
    let mut memory = Memory::default();
    let mut seen = BTreeMap::new();
    for index in 0..trace.events.len() {
        let event = EventIndex::from_index(index);
        let read = memory.access(event, trace.events[index].op);
        if deciding.contains(&event) {
            seen.extend(read.map(|writes| (event, writes)));
        }
    }
    seen
}

/// Who wrote each byte last.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory(BTreeMap<u64, EventIndex>);

impl Memory {
    /// Does what the event does to memory; what it reads, if it reads.
    fn access(&mut self, event: EventIndex, op: Op) -> Option<Writes> {
        let touch = Touch::of(op)?;
        let bytes = touch.access.address..touch.access.address + u64::from(touch.access.size);
        let read = bytes
            .clone()
            .map(|byte| self.0.get(&byte).copied())
            .collect();
        if touch.writes {
            self.0.extend(bytes.map(|byte| (byte, event)));
        }
        touch.reads.then_some(read)
    }
}

/// One run of the program.
#[derive(Clone)]
pub struct World<'m> {
    pub model: &'m Model<'m>,
    pub state: State,
    pub memory: Memory,
    /// The threads that have left the trace.
    pub left: Vec<bool>,
    recorded: &'m BTreeMap<EventIndex, Writes>,
}

impl<'m> World<'m> {
    pub fn new(model: &'m Model<'m>, recorded: &'m BTreeMap<EventIndex, Writes>) -> Self {
        World {
            model,
            state: State::initial(model),
            memory: Memory::default(),
            left: vec![false; model.threads.len()],
            recorded,
        }
    }

    pub fn steps(&self, thread: ThreadId) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.left[thread.index()] {
            self.model.steps(&self.state, thread, &mut steps);
        }
        steps
    }

    pub fn take(&mut self, step: Step) {
        let event = self.model.take(&mut self.state, step);
        let read = self.memory.access(event, self.model.op(event));
        let recorded = self.recorded.get(&event);
        if recorded.is_some_and(|recorded| Some(recorded) != read.as_ref()) {
            self.left[step.thread.index()] = true;
        }
    }

    /// The next event of a thread that has not left the trace.
    pub fn next(&self, thread: ThreadId) -> Option<EventIndex> {
        let next = self.model.next(&self.state, thread);
        next.filter(|_| !self.left[thread.index()])
    }

    /// Follows a witness; events for which `is_free` holds are done when their thread needs them.
    fn follow(mut self, witness: &Witness, is_free: impl Fn(Op) -> bool) -> Outcome {
        let mut last = vec![None; self.left.len()];
        for &event in &witness.schedule {
            last[self.model.thread_of(event).index()] = Some(event);
        }
        let enforced = |event: &&EventIndex| !is_free(self.model.op(**event));
        let enforced: Vec<EventIndex> = witness.schedule.iter().filter(enforced).copied().collect();
        let rest = last.into_iter().flatten();
        for event in enforced.iter().copied().chain(rest) {
            if self.come_to(event, &witness.schedule, &is_free).is_none() {
                return Outcome::Infeasible {
                    event: Some(event),
                    why: format!("event {} cannot be done", event.0),
                };
            }
        }
        self.outcome(&witness.bug, Proof::BothHeld)
    }

    /// Runs a thread until it has done the event; `None` when it does not come there.
    fn come_to(
        &mut self,
        event: EventIndex,
        schedule: &[EventIndex],
        is_free: impl Fn(Op) -> bool,
    ) -> Option<()> {
        let thread = self.model.thread_of(event);
        while !self.model.executed(&self.state, event) {
            let next = self.next(thread)?;
            if next != event && !is_free(self.model.op(next)) {
                return None;
            }
            let steps = self.steps(thread);
            // A signal wakes the sleeper that goes on first.
            let wait_of = |step: &Step| {
                let wakes = step.wakes.and_then(|sleeper| self.next(sleeper));
                schedule.iter().position(|&event| Some(event) == wakes)
            };
            let first = |step: &Step| wait_of(step).unwrap_or(usize::MAX);
            let step = steps.into_iter().min_by_key(first)?;
            self.take(step);
        }
        Some(())
    }

    /// Runs without a schedule, and looks at every moment for the bug.
    fn wander(mut self, bug: &Bug, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        loop {
            match self.outcome(bug, Proof::BothHeld) {
                Outcome::NoBug => {}
                outcome => return outcome,
            }
            let steps: Vec<Step> = self.all_steps();
            if steps.is_empty() {
                return Outcome::NoBug;
            }
            self.take(steps[random.below(steps.len())]);
        }
    }

    pub fn all_steps(&self) -> Vec<Step> {
        let threads = self.model.thread_ids();
        threads.flat_map(|thread| self.steps(thread)).collect()
    }

    /// The next events of the threads that wait in an operation.
    pub fn blocked(&self) -> BTreeSet<EventIndex> {
        let blocked = self
            .model
            .thread_ids()
            .filter(|&thread| self.model.readiness(&self.state, thread) == Readiness::Blocked);
        blocked.filter_map(|thread| self.next(thread)).collect()
    }

    fn outcome(&self, bug: &Bug, proof_of_race: Proof) -> Outcome {
        let has_left = |event: &EventIndex| self.left[self.model.thread_of(*event).index()];
        match bug {
            Bug::Race { first, second } => {
                let pair = (*first, *second);
                let shows = self.model.races_at(&self.state).contains(&pair);
                if shows && !has_left(first) && !has_left(second) {
                    return Outcome::Confirmed(proof_of_race);
                }
            }
            Bug::LockDeadlock { blocked } => {
                let cycles = self.model.lock_cycles_at(&self.state);
                if cycles.contains(blocked) && !blocked.iter().any(has_left) {
                    return Outcome::Confirmed(Proof::Cycle);
                }
            }
            Bug::Stuck { blocked } => {
                let mut end = self.clone();
                while let Some(&step) = end.all_steps().first() {
                    end.take(step);
                }
                if blocked.iter().all(|event| end.blocked().contains(event)) {
                    return Outcome::Confirmed(Proof::NobodyRuns);
                }
            }
            Bug::Order { .. } | Bug::Atomicity { .. } => {}
        }
        Outcome::NoBug
    }
}
