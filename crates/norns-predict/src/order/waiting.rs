//! Where threads can stand at the same time, by how they wait for each other: a proof of
//! impossibility by exploring all states of conditions, semaphores and barriers.
//!
//! Everything else is left out: a thread is the list of its acts on these objects, a state says
//! how many each has done. Threads that wait for each other often cannot come far apart, so the
//! states are few, however long the trace; where they are many, the exploration is given up and
//! says nothing. It is done once for a trace. A bug is impossible when no state has the threads
//! of two of its events where these are. (The search of the solver proves the same in far more
//! steps, one cut of the schedule at a time.)
//!
//! More is allowed than in a schedule: locks are not seen, a wait on a semaphore that failed asks
//! for nothing, and the n-th exit of a thread from a barrier needs n full rounds, no matter who
//! came in which. A wait is done at the moment of the signal that wakes it.

use norns_model::{Model, State as ModelState};
use norns_trace::{EventIndex, ObjectId, Op};
use rustc_hash::FxHashSet;

use super::clocks::Clocks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Wait(ObjectId),
    Signal(ObjectId),
    Broadcast(ObjectId),
    /// Adds to a semaphore, or to the entries of a barrier.
    Give(ObjectId),
    Take(ObjectId),
    /// Needs so much to be there, and takes nothing.
    Pass(ObjectId, i64),
}

impl Act {
    fn object(self) -> ObjectId {
        match self {
            Act::Wait(o) | Act::Signal(o) | Act::Broadcast(o) => o,
            Act::Give(o) | Act::Take(o) | Act::Pass(o, _) => o,
        }
    }

    fn change(self) -> i64 {
        match self {
            Act::Give(_) => 1,
            Act::Take(_) => -1,
            _ => 0,
        }
    }
}

/// One thread.
#[derive(Default)]
struct Line {
    acts: Vec<Act>,
    /// The position of each act in its thread.
    positions: Vec<u32>,
    /// For each act other threads and how many acts they must have done before.
    after: Vec<Vec<(usize, usize)>>,
    /// What the acts before each act have given to its object, less what they took. By object.
    given: Vec<(ObjectId, Vec<i64>)>,
    /// Where the number of acts done stands in a state.
    shift: u32,
    mask: u128,
}

impl Line {
    fn done(&self, state: u128) -> usize {
        ((state >> self.shift) & self.mask) as usize
    }

    fn next(&self, state: u128) -> Option<Act> {
        self.acts.get(self.done(state)).copied()
    }

    /// How many acts come before this position.
    fn count(&self, position: u32) -> usize {
        self.positions.partition_point(|&other| other < position)
    }

    fn one_more(&self) -> u128 {
        1 << self.shift
    }
}

/// Sleepers that a broadcast can wake in any combination.
const MOST_SLEEPERS: usize = 10;

pub(super) struct Waiting {
    lines: Vec<Line>,
    /// For two threads, the first with the smaller number, which numbers of acts they can have
    /// done at the same time: a bit for each.
    together: Vec<Vec<u64>>,
}

impl Waiting {
    /// `None` when the states are more than `budget`, or the threads too many.
    pub fn new(model: &Model<'_>, clocks: &Clocks, budget: usize) -> Option<Self> {
        let lines = lines(model, clocks)?;
        let states = explore(model, &lines, budget)?;
        let mut together = Vec::new();
        for (t, one) in lines.iter().enumerate() {
            for other in &lines[t + 1..] {
                let columns = other.acts.len() + 1;
                let bits = (one.acts.len() + 1) * columns;
                // More than a few per state would be a waste.
                if bits / 64 > 16 * (budget + 64) {
                    return None;
                }
                let mut table = vec![0u64; bits.div_ceil(64)];
                for &state in &states {
                    let bit = one.done(state) * columns + other.done(state);
                    table[bit / 64] |= 1 << (bit % 64);
                }
                together.push(table);
            }
        }
        Some(Waiting { lines, together })
    }

    /// Whether these events, of different threads, can all be next.
    pub fn allows(&self, model: &Model<'_>, events: &[EventIndex]) -> bool {
        let place = |&event: &EventIndex| {
            let thread = model.thread_of(event).index();
            let done = self.lines[thread].count(model.position[event.index()]);
            (thread, done)
        };
        let mut places: Vec<(usize, usize)> = events.iter().map(place).collect();
        places.sort_unstable();
        let pairs = places.iter().enumerate();
        let mut pairs = pairs.flat_map(|(k, one)| places[k + 1..].iter().map(move |o| (one, o)));
        pairs.all(|(&(t, i), &(s, j))| {
            let before: usize = (0..t).map(|k| self.lines.len() - 1 - k).sum();
            let table = &self.together[before + s - t - 1];
            let bit = i * (self.lines[s].acts.len() + 1) + j;
            table[bit / 64] & (1 << (bit % 64)) != 0
        })
    }
}

/// `None` when a state does not fit into its number.
fn lines(model: &Model<'_>, clocks: &Clocks) -> Option<Vec<Line>> {
    let waits = model.threads.iter().flatten();
    let waits = waits.filter(|&&event| model.wait_needs_signal(event));
    let mut waited_for = vec![false; model.trace.objects.len()];
    for &event in waits {
        if let Op::Wait(o) | Op::SemWait(o) = model.op(event) {
            waited_for[o.index()] = true;
        }
    }
    let start = ModelState::initial(model);
    let mut lines: Vec<Line> = Vec::new();
    // For each act the event that it needs to be possible.
    let mut events: Vec<Vec<EventIndex>> = Vec::new();
    for thread in &model.threads {
        let mut line = Line::default();
        let mut own_events = Vec::new();
        let mut visits: Vec<(ObjectId, i64)> = Vec::new();
        for (k, &event) in thread.iter().enumerate() {
            let mut needed = event;
            let act = match model.op(event) {
                Op::Wait(o) if model.wait_needs_signal(event) && k > 0 => {
                    needed = thread[k - 1];
                    Act::Wait(o)
                }
                Op::Signal(o) if waited_for[o.index()] => Act::Signal(o),
                Op::Broadcast(o) if waited_for[o.index()] => Act::Broadcast(o),
                Op::SemWait(o) => Act::Take(o),
                Op::SemPost(o) if waited_for[o.index()] => Act::Give(o),
                Op::BarrierEnter(o) => Act::Give(o),
                Op::BarrierExit(o) => {
                    let visit = match visits.iter_mut().find(|visit| visit.0 == o) {
                        Some(visit) => visit,
                        None => {
                            visits.push((o, 0));
                            visits.last_mut().expect("just pushed")
                        }
                    };
                    visit.1 += 1;
                    Act::Pass(o, visit.1 * start.value(o).max(1))
                }
                _ => continue,
            };
            line.acts.push(act);
            line.positions.push(k as u32);
            own_events.push(needed);
        }
        lines.push(line);
        events.push(own_events);
    }
    let mut shift = 0;
    for line in &mut lines {
        let bits = usize::BITS - line.acts.len().leading_zeros();
        line.shift = shift;
        line.mask = (1u128 << bits) - 1;
        shift += bits;
        if shift >= u128::BITS {
            return None;
        }
        for &act in &line.acts {
            if act.change() != 0 && !line.given.iter().any(|(o, _)| *o == act.object()) {
                line.given.push((act.object(), vec![0]));
            }
        }
        for &act in &line.acts {
            for (object, given) in &mut line.given {
                let change = if act.object() == *object {
                    act.change()
                } else {
                    0
                };
                given.push(given[given.len() - 1] + change);
            }
        }
    }
    for t in 0..lines.len() {
        let mut before = vec![0; lines.len()];
        let mut after = Vec::new();
        for &event in &events[t] {
            let mut more = Vec::new();
            for (s, other) in lines.iter().enumerate().filter(|(s, _)| *s != t) {
                let count = other.count(clocks.known(event, s));
                if count > before[s] {
                    before[s] = count;
                    more.push((s, count));
                }
            }
            after.push(more);
        }
        lines[t].after = after;
    }
    Some(lines)
}

/// All states, each with the number of acts done by every thread.
fn explore(model: &Model<'_>, lines: &[Line], budget: usize) -> Option<Vec<u128>> {
    let start = ModelState::initial(model);
    let is_barrier = |o: ObjectId| model.kind(o) == norns_trace::ObjectKind::Barrier;
    let there = |state: u128, object: ObjectId| {
        let initial = if is_barrier(object) {
            0
        } else {
            start.value(object)
        };
        let given = lines.iter().flat_map(|line| {
            let of_object = line.given.iter().filter(move |(o, _)| *o == object);
            of_object.map(move |(_, given)| given[line.done(state)])
        });
        initial + given.sum::<i64>()
    };
    let may = |state: u128, line: &Line| {
        let after = &line.after[line.done(state)];
        after
            .iter()
            .all(|&(s, count)| lines[s].done(state) >= count)
    };
    let mut seen: FxHashSet<u128> = FxHashSet::default();
    let mut found: Vec<u128> = vec![0];
    seen.insert(0);
    let mut at = 0;
    let mut next = Vec::new();
    while at < found.len() {
        let state = found[at];
        at += 1;
        next.clear();
        for (t, line) in lines.iter().enumerate() {
            let Some(act) = line.next(state) else {
                continue;
            };
            if matches!(act, Act::Wait(_)) || !may(state, line) {
                continue;
            }
            let done = state + line.one_more();
            let sleepers = lines.iter().enumerate().filter(|&(s, other)| {
                s != t && other.next(state) == Some(Act::Wait(act.object())) && may(state, other)
            });
            match act {
                Act::Wait(_) => {}
                Act::Give(_) => next.push(done),
                Act::Take(o) if there(state, o) < 1 => {}
                Act::Pass(o, needed) if there(state, o) < needed => {}
                Act::Take(_) | Act::Pass(..) => next.push(done),
                // It may be lost: who stands before a wait need not have begun it.
                Act::Signal(_) => {
                    next.push(done);
                    next.extend(sleepers.map(|(_, other)| done + other.one_more()));
                }
                Act::Broadcast(_) => {
                    let first = next.len();
                    next.push(done);
                    for (k, (_, other)) in sleepers.enumerate() {
                        if k == MOST_SLEEPERS {
                            return None;
                        }
                        for i in first..next.len() {
                            next.push(next[i] + other.one_more());
                        }
                    }
                }
            }
        }
        for &state in &next {
            if seen.insert(state) {
                found.push(state);
            }
        }
        if found.len() > budget {
            return None;
        }
    }
    Some(found)
}
