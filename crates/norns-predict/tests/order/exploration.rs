//! Every schedule of a small trace in which the relevant reads see what they saw in the trace.
//!
//! The steps are those of the model; values and branches are followed here, byte by byte, along each
//! schedule. Without branch events, schedules that lead to the same state and memory are explored
//! once. With branch events the history counts, so all of them are explored.
//!
//! Races that no complete run of the trace passes are counted separately: every schedule that shows
//! one leads into a deadlock, or to reads that see another value. An encoding that orders the whole
//! trace would miss them.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::location::Touch;
use norns_model::{Meaning, Model, State};
use norns_trace::{EventIndex, Op, Trace};

use crate::agreement::Found;

/// The last event that wrote a byte; `None` if no event did.
type Writer = Option<EventIndex>;

/// A byte of one block: the allocation of the block, if it has one, and the address.
type Byte = (Option<EventIndex>, u64);

/// The positions of the threads, and the last writer of every byte.
type StateKey = (Vec<u32>, Vec<(Byte, Writer)>);

struct Explorer<'t> {
    model: Model<'t>,
    meaning: Meaning,
    has_branches: bool,
    /// The value that a writer left in a byte, if it is known.
    contents: BTreeMap<(Writer, Byte), u8>,
    /// For each byte that an event reads, its last writer in the trace.
    saw: BTreeMap<(EventIndex, Byte), Writer>,
    found: Found,
    /// Races that some complete run passes.
    passed: BTreeSet<(EventIndex, EventIndex)>,
    /// For each state, whether a schedule through it completes the trace.
    seen: BTreeMap<StateKey, bool>,
    steps_left: usize,
}

pub struct Explored {
    pub found: Found,
    /// The number of races and deadlocks that no complete run passes.
    pub doomed: usize,
}

/// `None` if there are too many schedules.
pub fn explore(trace: &Trace, meaning: Meaning, limit: usize) -> Option<Explored> {
    let mut explorer = Explorer {
        model: Model::new(trace, Meaning::Optimistic),
        meaning,
        has_branches: trace.customs.iter().any(|custom| custom.name == "branch"),
        contents: BTreeMap::new(),
        saw: BTreeMap::new(),
        found: Found::default(),
        passed: BTreeSet::new(),
        seen: BTreeMap::new(),
        steps_left: limit,
    };
    explorer.watch_trace();
    let start = State::initial(&explorer.model);
    explorer.go(start, BTreeMap::new(), Vec::new())?;
    let found = explorer.found;
    let doomed = found.races.difference(&explorer.passed).count() + found.deadlocks.len();
    Some(Explored { found, doomed })
}

fn bytes(model: &Model, event: EventIndex, touch: Touch) -> impl Iterator<Item = Byte> + use<> {
    let block = model.lifetimes.block(event);
    let size = u64::from(touch.access.size);
    (0..size).map(move |k| (block, touch.access.address + k))
}

impl Explorer<'_> {
    /// Collects what reads saw in the order of the trace.
    fn watch_trace(&mut self) {
        let trace = self.model.trace;
        let mut memory: BTreeMap<Byte, Writer> = BTreeMap::new();
        for (i, event) in trace.events.iter().enumerate() {
            let here = EventIndex::from_index(i);
            let Some(touch) = Touch::of(event.op) else {
                continue;
            };
            let value = trace.values.iter().find(|value| value.event == here);
            for (offset, byte) in bytes(&self.model, here, touch).enumerate() {
                let writer = memory.get(&byte).copied().flatten();
                if touch.reads {
                    self.saw.insert((here, byte), writer);
                    if let Some(&read) = value.and_then(|value| value.read.get(offset)) {
                        self.contents.entry((writer, byte)).or_insert(read);
                    }
                }
                if touch.writes {
                    memory.insert(byte, Some(here));
                    if let Some(&written) = value.and_then(|value| value.written.get(offset)) {
                        self.contents.insert((Some(here), byte), written);
                    }
                }
            }
        }
    }

    /// Whether a read sees what it saw in the trace if `writer` wrote the byte last.
    fn same(&self, event: EventIndex, byte: Byte, writer: Writer) -> bool {
        let saw = self.saw[&(event, byte)];
        let value = |writer| self.contents.get(&(writer, byte));
        saw == writer
            || (self.meaning == Meaning::SameValues
                && value(saw).is_some()
                && value(saw) == value(writer))
    }

    /// Explores all schedules from this state. `history` has the reads so far: event, byte, last writer.
    /// Returns whether one of the schedules completes the trace.
    fn go(
        &mut self,
        state: State,
        memory: BTreeMap<Byte, Writer>,
        history: Vec<(EventIndex, Byte, Writer)>,
    ) -> Option<bool> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        if !self.is_right(&state, &history) {
            return Some(false);
        }
        let key = (
            state.key().to_vec(),
            memory.iter().map(|(b, w)| (*b, *w)).collect(),
        );
        if !self.has_branches
            && let Some(&completes) = self.seen.get(&key)
        {
            return Some(completes);
        }
        let races = self.model.races_at(&state);
        let threads = self.model.thread_ids();
        let mut completes = threads
            .zip(&self.model.threads)
            .all(|(thread, events)| state.position(thread) == events.len());
        self.found.races.extend(races.iter().copied());
        for mut cycle in self.model.lock_cycles_at(&state) {
            cycle.sort_unstable();
            self.found.deadlocks.insert(cycle);
        }
        let mut steps = Vec::new();
        for thread in self.model.thread_ids() {
            self.model.steps(&state, thread, &mut steps);
        }
        for step in steps {
            let mut next = state.clone();
            let event = self.model.take(&mut next, step);
            next.forget_trail();
            let (mut memory, mut history) = (memory.clone(), history.clone());
            if let Some(touch) = Touch::of(self.model.op(event)) {
                for byte in bytes(&self.model, event, touch) {
                    if touch.reads {
                        history.push((event, byte, memory.get(&byte).copied().flatten()));
                    }
                    if touch.writes {
                        memory.insert(byte, Some(event));
                    }
                }
            }
            completes |= self.go(next, memory, history)?;
        }
        if completes {
            self.passed.extend(races);
        }
        if !self.has_branches {
            self.seen.insert(key, completes);
        }
        Some(completes)
    }

    fn is_branch(&self, event: EventIndex) -> bool {
        let Op::Custom(custom) = self.model.op(event) else {
            return false;
        };
        self.model.trace.customs[custom as usize].name == "branch"
    }

    /// Whether all relevant reads so far see what they saw in the trace.
    fn is_right(&self, state: &State, history: &[(EventIndex, Byte, Writer)]) -> bool {
        let model = &self.model;
        // For each thread, the position up to which its reads are relevant.
        let mut until: Vec<usize> = model
            .thread_ids()
            .map(|thread| {
                let done = state.position(thread);
                let events = &model.threads[thread.index()][..done];
                match self.has_branches {
                    false => done,
                    true => events.iter().rposition(|&e| self.is_branch(e)).unwrap_or(0),
                }
            })
            .collect();
        let matters = |until: &[usize], event: EventIndex| {
            model.position_of(event) < until[model.thread_of(event).index()]
        };
        let mut changed = true;
        while changed {
            changed = false;
            for &(event, _, writer) in history {
                let Some(writer) = writer.filter(|_| matters(&until, event)) else {
                    continue;
                };
                let limit = &mut until[model.thread_of(writer).index()];
                if *limit < model.position_of(writer) + 1 {
                    *limit = model.position_of(writer) + 1;
                    changed = true;
                }
            }
        }
        let mut right = history.iter().filter(|(event, ..)| matters(&until, *event));
        right.all(|&(event, byte, writer)| self.same(event, byte, writer))
    }
}
