//! All reachable states of the abstraction, found by breadth-first exploration.

use std::cmp::Reverse;

use norns_budget::Budget;
use norns_model::Model;
use norns_trace::EventIndex;
use rustc_hash::FxHashMap;

use super::operations::{Successors, ThreadOps, Transitions, WaitState};
use super::{Range, WaitStates};

pub struct StateSpace {
    /// The initial state is the first.
    states: Vec<WaitState>,
    /// For each state, the edge to it that was found last; `NONE` for the initial state.
    last_edge: Vec<u32>,
    edges: Vec<Edge>,
    /// For each pair of threads, in the order (0, 1), (0, 2), …, (1, 2), ….
    together: Vec<PairTable>,
}

/// An edge to a state.
#[derive(Clone, Copy)]
struct Edge {
    /// The index of the state that it comes from.
    from: u32,
    /// Another edge to the same state, or `NONE`.
    next: u32,
}

/// Which numbers of operations two threads can have done at the same time: one bit for each pair of
/// numbers. Empty if one of the threads has no operations, because then all pairs are possible.
struct PairTable {
    columns: usize,
    bits: Vec<u64>,
}

const NONE: u32 = u32::MAX;
/// After each such number of states the exploration extrapolates: it gives up if the operations done
/// so far have led to so many states that in total they would exceed twice the budget.
const LOOK_AHEAD: usize = 1 << 13;
/// A `PairTable` with more words than this for each state of the budget is not worth its memory.
const WORDS_PER_STATE: usize = 16;

impl PairTable {
    /// `None` if the table would be too large for the budget.
    fn new(
        states: &[WaitState],
        one: &ThreadOps,
        other: &ThreadOps,
        budget: usize,
    ) -> Option<PairTable> {
        let columns = other.ops.len() + 1;
        if one.ops.is_empty() || other.ops.is_empty() {
            let bits = Vec::new();
            return Some(PairTable { columns, bits });
        }
        let size = (one.ops.len() + 1) * columns;
        if size / 64 > WORDS_PER_STATE * (budget + 64) {
            return None;
        }
        let mut bits = vec![0u64; size.div_ceil(64)];
        for &state in states {
            let bit = one.done(state) * columns + other.done(state);
            bits[bit / 64] |= 1 << (bit % 64);
        }
        Some(PairTable { columns, bits })
    }

    fn allows(&self, one: usize, other: usize) -> bool {
        let bit = one * self.columns + other;
        self.bits.is_empty() || self.bits[bit / 64] & (1 << (bit % 64)) != 0
    }
}

impl StateSpace {
    /// `None` if there are more than `most` states, or the budget is spent.
    pub fn explore(transitions: &Transitions<'_>, most: usize, budget: &Budget) -> Option<Self> {
        let threads = transitions.threads;
        let mut known: FxHashMap<WaitState, u32> = FxHashMap::default();
        known.insert(WaitState::INITIAL, 0);
        let mut space = StateSpace {
            states: vec![WaitState::INITIAL],
            last_edge: vec![NONE],
            edges: Vec::new(),
            together: Vec::new(),
        };
        let all: usize = threads.iter().map(|ops| ops.ops.len()).sum();
        let done = |state: WaitState| threads.iter().map(|ops| ops.done(state)).sum::<usize>();
        let mut at = 0;
        let mut next = Vec::new();
        while let Some(&state) = space.states.get(at) {
            next.clear();
            for thread in 0..threads.len() {
                if transitions.after(state, thread, &mut next) == Successors::TooMany {
                    return None;
                }
            }
            for &after in &next {
                let number = *known.entry(after).or_insert_with(|| {
                    space.states.push(after);
                    space.last_edge.push(NONE);
                    space.states.len() as u32 - 1
                });
                let last = &mut space.last_edge[number as usize];
                let next = std::mem::replace(last, space.edges.len() as u32);
                let from = at as u32;
                space.edges.push(Edge { from, next });
            }
            at += 1;
            let too_many = space.states.len() > most
                || at % LOOK_AHEAD == 0 && space.states.len() / 2 > most * done(state) / all;
            if too_many || !budget.spend(20 * threads.len() as u64) {
                return None;
            }
        }
        for (t, one) in threads.iter().enumerate() {
            for other in &threads[t + 1..] {
                let table = PairTable::new(&space.states, one, other, most)?;
                space.together.push(table);
            }
        }
        Some(space)
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether these events, taken two at a time, can be next at the same time.
    pub fn allows(&self, threads: &[ThreadOps], events: &[EventIndex], model: &Model<'_>) -> bool {
        let place = |&event: &EventIndex| {
            let thread = model.thread_of(event).index();
            let done = threads[thread].count_before(model.position[event.index()]);
            (thread, done)
        };
        let mut places: Vec<(usize, usize)> = events.iter().map(place).collect();
        places.sort_unstable();
        let pairs = places.iter().enumerate();
        let mut pairs = pairs.flat_map(|(k, one)| places[k + 1..].iter().map(move |o| (one, o)));
        pairs.all(|(&(t, i), &(s, j))| {
            let before: usize = (0..t).map(|k| threads.len() - 1 - k).sum();
            self.together[before + s - t - 1].allows(i, j)
        })
    }

    /// The state within the ranges that is nearest to the preferred numbers of operations.
    pub fn nearest(
        &self,
        threads: &[ThreadOps],
        ranges: &[Range<usize>],
        preferred: &[usize],
    ) -> Option<u32> {
        let mut best: Option<(usize, u32)> = None;
        for (number, &state) in self.states.iter().enumerate() {
            let mut distance = 0;
            let fits = threads.iter().enumerate().all(|(t, ops)| {
                let done = ops.done(state);
                distance += done.abs_diff(preferred[t]);
                ranges[t].contains(done)
            });
            if fits && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, number as u32));
            }
        }
        best.map(|(_, number)| number)
    }

    /// The states on a path to this one that keeps near to the order of the trace: going backwards,
    /// it always undoes the step that came last in the trace.
    pub fn path(&self, waits: &WaitStates, model: &Model<'_>, mut goal: u32) -> Vec<WaitState> {
        let mut path = vec![self.states[goal as usize]];
        while goal != 0 {
            let state = self.states[goal as usize];
            let best = self.predecessors(goal).max_by_key(|&before| {
                let step = waits.step(model, self.states[before as usize], state);
                // Prefers to wake the threads that the event is likely to have woken in the trace.
                let late = step.wakes.iter().filter(|&&wait| wait < step.event);
                let distance = step.wakes.iter().map(|w| w.0.abs_diff(step.event.0));
                let (late, distance) = (Reverse(late.count()), Reverse(distance.sum::<u32>()));
                (step.event, late, step.wakes.len(), distance)
            });
            goal = best.expect("every state but the first was reached from another");
            path.push(self.states[goal as usize]);
        }
        path.reverse();
        path
    }

    /// The states from which one step leads to this one.
    fn predecessors(&self, number: u32) -> impl Iterator<Item = u32> {
        let edge = |edge: u32| (edge != NONE).then(|| self.edges[edge as usize]);
        let first = edge(self.last_edge[number as usize]);
        std::iter::successors(first, move |last| edge(last.next)).map(|edge| edge.from)
    }
}
