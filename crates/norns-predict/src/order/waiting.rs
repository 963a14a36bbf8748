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
//! More is allowed than in a schedule: locks are not seen, and a wait on a semaphore that failed
//! asks for nothing. A wait is done at the moment of the signal that wakes it, and a barrier is
//! left at the moment when its round is full.

use norns_model::{Model, State as ModelState};
use norns_trace::{EventIndex, ObjectId, Op};
use rustc_hash::FxHashMap;

use super::clocks::Clocks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Wait(ObjectId),
    Signal(ObjectId),
    Broadcast(ObjectId),
    /// Adds one to a semaphore.
    Give(ObjectId),
    Take(ObjectId),
    Enter(ObjectId),
    /// Comes after every entry; at the end of a thread that did not leave, too.
    Leave(ObjectId),
}

impl Act {
    fn object(self) -> ObjectId {
        match self {
            Act::Wait(o) | Act::Signal(o) | Act::Broadcast(o) => o,
            Act::Give(o) | Act::Take(o) | Act::Enter(o) | Act::Leave(o) => o,
        }
    }

    /// Whether an act of another thread completes it.
    fn is_passive(self) -> bool {
        matches!(self, Act::Wait(_) | Act::Leave(_))
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

/// One step of the exploration: an event, and the waits that it ends.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub event: EventIndex,
    pub wakes: Vec<EventIndex>,
}

/// A state.
pub(super) struct Target(u32);

pub(super) struct Waiting {
    lines: Vec<Line>,
    states: States,
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
                for &state in &states.states {
                    let bit = one.done(state) * columns + other.done(state);
                    table[bit / 64] |= 1 << (bit % 64);
                }
                together.push(table);
            }
        }
        Some(Waiting {
            lines,
            states,
            together,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.states.states.len() == 1
    }

    fn act(&self, model: &Model<'_>, event: EventIndex) -> Option<Act> {
        let line = &self.lines[model.thread_of(event).index()];
        let k = line.positions.binary_search(&model.position[event.index()]);
        k.ok().map(|k| line.acts[k])
    }

    pub fn is_wait(&self, model: &Model<'_>, event: EventIndex) -> bool {
        matches!(self.act(model, event), Some(Act::Wait(_)))
    }

    /// The state nearest to `wish` (all as numbers of events of each thread) in which the threads
    /// of `events` are there and all others have done what is `needed` and not more than
    /// `limits` say. `None` when there is none.
    pub fn target(
        &self,
        model: &Model<'_>,
        events: &[EventIndex],
        needed: &[u32],
        limits: &[u32],
        wish: &[u32],
    ) -> Option<Target> {
        let mut ranges: Vec<(usize, usize)> = (0..self.lines.len())
            .map(|t| {
                let line = &self.lines[t];
                let all = limits[t] as usize == model.threads[t].len();
                let most = if all {
                    line.acts.len()
                } else {
                    line.count(limits[t])
                };
                (line.count(needed[t]), most)
            })
            .collect();
        for &event in events {
            let thread = model.thread_of(event).index();
            let done = self.lines[thread].count(model.position[event.index()]);
            ranges[thread] = (done, done);
        }
        let wish: Vec<usize> = (0..self.lines.len())
            .map(|t| {
                self.lines[t]
                    .count(wish[t])
                    .clamp(ranges[t].0, ranges[t].1.max(ranges[t].0))
            })
            .collect();
        let mut best: Option<(usize, u32)> = None;
        for (number, &state) in self.states.states.iter().enumerate() {
            let mut distance = 0;
            let fits = self.lines.iter().enumerate().all(|(t, line)| {
                let done = line.done(state);
                distance += done.abs_diff(wish[t]);
                ranges[t].0 <= done && done <= ranges[t].1
            });
            if fits && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, number as u32));
            }
        }
        best.map(|(_, number)| Target(number))
    }

    /// For each thread between which numbers of events it is in this state.
    pub fn positions(&self, target: &Target) -> impl Iterator<Item = (u32, u32)> {
        let state = self.states.states[target.0 as usize];
        self.lines.iter().map(move |line| {
            let done = line.done(state);
            let least = done.checked_sub(1).map_or(0, |k| line.positions[k] + 1);
            (least, line.positions.get(done).copied().unwrap_or(u32::MAX))
        })
    }

    /// How to come to a state, as near to the order of the trace as can be seen from behind:
    /// always from the state whose step came last in the trace. Signals that nobody needs are
    /// left out.
    pub fn way(&self, model: &Model<'_>, target: &Target) -> Vec<Move> {
        let mut way = Vec::new();
        let mut number = target.0;
        while number != 0 {
            let steps = self.states.before(number);
            let steps = steps.map(|before| (before, self.step(model, before, number)));
            let best = steps.max_by_key(|(_, step)| {
                // As if it had woken in the trace whom it wakes.
                let late = step.wakes.iter().filter(|&&wait| wait < step.event);
                let distance = step.wakes.iter().map(|w| w.0.abs_diff(step.event.0));
                let (late, distance) = (late.count(), distance.sum::<u32>());
                let reverse = std::cmp::Reverse((late, distance));
                (
                    step.event,
                    std::cmp::Reverse(late),
                    step.wakes.len(),
                    reverse,
                )
            });
            let (before, step) = best.expect("every state but the first was reached from one");
            let wakes = matches!(
                self.act(model, step.event),
                Some(Act::Signal(_) | Act::Broadcast(_))
            );
            if !wakes || !step.wakes.is_empty() {
                way.push(step);
            }
            number = before;
        }
        way.reverse();
        way
    }

    /// What leads from one state to the next.
    fn step(&self, model: &Model<'_>, before: u32, after: u32) -> Move {
        let states = &self.states.states;
        let (before, after) = (states[before as usize], states[after as usize]);
        let mut event = None;
        let mut wakes = Vec::new();
        for (line, thread) in self.lines.iter().zip(&model.threads) {
            let (from, to) = (line.done(before), line.done(after));
            if from == to {
                continue;
            }
            match line.acts[from] {
                Act::Wait(_) => wakes.push(thread[line.positions[from] as usize]),
                Act::Leave(_) => {}
                _ => event = Some(thread[line.positions[from] as usize]),
            }
        }
        let event = event.expect("each step has one act that is not passive");
        Move { event, wakes }
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
    let mut waited_for = vec![false; model.trace.objects.len()];
    let start = ModelState::initial(model);
    for thread in &model.threads {
        let mut taken: FxHashMap<ObjectId, i64> = FxHashMap::default();
        for &event in thread {
            match model.op(event) {
                Op::Wait(o) => waited_for[o.index()] |= model.wait_needs_signal(event),
                // What a thread gives back itself it uses like a lock.
                Op::SemWait(o) => {
                    let taken = taken.entry(o).or_default();
                    *taken += 1;
                    waited_for[o.index()] |= *taken > start.value(o);
                }
                Op::SemPost(o) => *taken.entry(o).or_default() -= 1,
                _ => {}
            }
        }
    }
    let mut lines: Vec<Line> = Vec::new();
    // For each act the event that it needs to be possible.
    let mut events: Vec<Vec<EventIndex>> = Vec::new();
    for thread in &model.threads {
        let mut line = Line::default();
        let mut own_events = Vec::new();
        for (k, &event) in thread.iter().enumerate() {
            let mut needed = event;
            let act = match model.op(event) {
                Op::Wait(o) if model.wait_needs_signal(event) && k > 0 => {
                    needed = thread[k - 1];
                    Act::Wait(o)
                }
                Op::Signal(o) if waited_for[o.index()] => Act::Signal(o),
                Op::Broadcast(o) if waited_for[o.index()] => Act::Broadcast(o),
                Op::SemWait(o) if waited_for[o.index()] => Act::Take(o),
                Op::SemPost(o) if waited_for[o.index()] => Act::Give(o),
                Op::BarrierEnter(o) => Act::Enter(o),
                Op::BarrierExit(o) if line.acts.last() == Some(&Act::Enter(o)) => Act::Leave(o),
                _ => continue,
            };
            line.acts.push(act);
            line.positions.push(k as u32);
            own_events.push(needed);
        }
        if let (Some(&Act::Enter(o)), Some(&last)) = (line.acts.last(), own_events.last()) {
            line.acts.push(Act::Leave(o));
            line.positions.push(thread.len() as u32);
            own_events.push(last);
        }
        // An entry that something else follows than its exit: nobody knows what that means.
        let unclear = line.acts.windows(2).any(|pair| match pair[0] {
            Act::Enter(o) => pair[1] != Act::Leave(o),
            _ => false,
        });
        if unclear {
            return None;
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

/// Which states follow on which.
struct Rules<'l> {
    lines: &'l [Line],
    /// The value of each semaphore at the beginning, and the count of each barrier.
    initial: Vec<i64>,
}

impl<'l> Rules<'l> {
    fn new(model: &Model<'_>, lines: &'l [Line]) -> Self {
        let start = ModelState::initial(model);
        let objects = (0..model.trace.objects.len()).map(ObjectId::from_index);
        Rules {
            lines,
            initial: objects.map(|o| start.value(o)).collect(),
        }
    }

    fn there(&self, state: u128, object: ObjectId) -> i64 {
        let given = self.lines.iter().flat_map(|line| {
            let of_object = line.given.iter().filter(move |(o, _)| *o == object);
            of_object.map(move |(_, given)| given[line.done(state)])
        });
        self.initial[object.index()] + given.sum::<i64>()
    }

    /// Whether must-happen-before lets the thread do its next act.
    fn may(&self, state: u128, line: &Line) -> bool {
        let mut after = line.after[line.done(state)].iter();
        after.all(|&(s, count)| self.lines[s].done(state) >= count)
    }

    /// Adds the states that the next act of a thread leads to. Returns whether these are all.
    fn after(&self, state: u128, thread: usize, next: &mut Vec<u128>) -> bool {
        let line = &self.lines[thread];
        let Some(act) = line.next(state) else {
            return true;
        };
        if act.is_passive() || !self.may(state, line) {
            return true;
        }
        let done = state + line.one_more();
        let sleepers = self.lines.iter().enumerate().filter(|&(s, other)| {
            s != thread
                && other.next(state) == Some(Act::Wait(act.object()))
                && self.may(state, other)
        });
        match act {
            Act::Wait(_) | Act::Leave(_) => {}
            Act::Give(_) => next.push(done),
            Act::Take(o) if self.there(state, o) < 1 => {}
            Act::Take(_) => next.push(done),
            Act::Enter(o) => {
                let inside = self
                    .lines
                    .iter()
                    .filter(|l| l.next(done) == Some(Act::Leave(o)));
                let full = inside.clone().count() as i64 >= self.initial[o.index()];
                let leave = inside.map(Line::one_more).sum::<u128>();
                next.push(if full { done + leave } else { done });
            }
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
                        return false;
                    }
                    for i in first..next.len() {
                        next.push(next[i] + other.one_more());
                    }
                }
            }
        }
        true
    }
}

/// The states, each as the numbers of acts done by every thread, and how they follow each other.
struct States {
    states: Vec<u128>,
    /// For each state one of the edges that lead to it.
    last_edge: Vec<u32>,
    /// The state that an edge comes from, and another edge that leads to the same state.
    edges: Vec<(u32, u32)>,
}

const NONE: u32 = u32::MAX;

fn explore(model: &Model<'_>, lines: &[Line], budget: usize) -> Option<States> {
    let rules = Rules::new(model, lines);
    let mut known: FxHashMap<u128, u32> = FxHashMap::default();
    known.insert(0, 0);
    let mut found = States {
        states: vec![0],
        last_edge: vec![NONE],
        edges: Vec::new(),
    };
    let mut at = 0;
    let mut next = Vec::new();
    while let Some(&state) = found.states.get(at) {
        next.clear();
        for thread in 0..lines.len() {
            if !rules.after(state, thread, &mut next) {
                return None;
            }
        }
        for &after in &next {
            let number = *known.entry(after).or_insert_with(|| {
                found.states.push(after);
                found.last_edge.push(NONE);
                found.states.len() as u32 - 1
            });
            let edge = (at as u32, found.last_edge[number as usize]);
            found.last_edge[number as usize] = found.edges.len() as u32;
            found.edges.push(edge);
        }
        at += 1;
        if found.states.len() > budget {
            return None;
        }
    }
    Some(found)
}

impl States {
    /// The states from which a step leads to this one.
    fn before(&self, number: u32) -> impl Iterator<Item = u32> {
        let some = |edge: u32| (edge != NONE).then(|| self.edges[edge as usize]);
        let first = some(self.last_edge[number as usize]);
        std::iter::successors(first, move |&(_, other)| some(other)).map(|(from, _)| from)
    }
}
