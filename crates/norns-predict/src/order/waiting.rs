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
use norns_trace::{EventIndex, ObjectId, ObjectKind, Op};
use rustc_hash::{FxHashMap, FxHashSet};

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

/// One step of the exploration: an event, and the waits that it ends.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub event: EventIndex,
    pub wakes: Vec<EventIndex>,
}

/// A state.
pub(super) struct Target(u128);

pub(super) struct Waiting {
    lines: Vec<Line>,
    states: Vec<u128>,
    known: FxHashSet<u128>,
    /// For two threads, the first with the smaller number, which numbers of acts they can have
    /// done at the same time: a bit for each.
    together: Vec<Vec<u64>>,
}

impl Waiting {
    /// `None` when the states are more than `budget`, or the threads too many.
    pub fn new(model: &Model<'_>, clocks: &Clocks, budget: usize) -> Option<Self> {
        let lines = lines(model, clocks)?;
        let (states, known) = explore(model, &lines, budget)?;
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
        Some(Waiting {
            lines,
            states,
            known,
            together,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.states.len() == 1
    }

    fn act(&self, model: &Model<'_>, event: EventIndex) -> Option<Act> {
        let line = &self.lines[model.thread_of(event).index()];
        let k = line.positions.binary_search(&model.position[event.index()]);
        k.ok().map(|k| line.acts[k])
    }

    /// Those of some consecutive events of a thread that are acts and do not wait for a signal.
    pub fn acts_among(&self, model: &Model<'_>, events: &[EventIndex]) -> Vec<EventIndex> {
        let (Some(&first), Some(&last)) = (events.first(), events.last()) else {
            return Vec::new();
        };
        let thread = model.thread_of(first).index();
        let line = &self.lines[thread];
        let from = line.count(model.position[first.index()]);
        let to = line.count(model.position[last.index()] + 1);
        (from..to)
            .filter(|&k| !matches!(line.acts[k], Act::Wait(_)))
            .map(|k| model.threads[thread][line.positions[k] as usize])
            .collect()
    }

    pub fn is_act(&self, model: &Model<'_>, event: EventIndex) -> bool {
        self.act(model, event).is_some()
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
                (line.count(needed[t]), line.count(limits[t]))
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
        let mut best: Option<(usize, u128)> = None;
        for &state in &self.states {
            let mut distance = 0;
            let fits = self.lines.iter().enumerate().all(|(t, line)| {
                let done = line.done(state);
                distance += done.abs_diff(wish[t]);
                ranges[t].0 <= done && done <= ranges[t].1
            });
            if fits && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, state));
            }
        }
        best.map(|(_, state)| Target(state))
    }

    /// For each thread between which numbers of events it is in this state.
    pub fn positions(&self, target: &Target) -> impl Iterator<Item = (u32, u32)> {
        let state = target.0;
        self.lines.iter().map(move |line| {
            let done = line.done(state);
            let least = done.checked_sub(1).map_or(0, |k| line.positions[k] + 1);
            (least, line.positions.get(done).copied().unwrap_or(u32::MAX))
        })
    }

    /// How to come to a state, as near to the order of the trace as can be seen from behind.
    pub fn way(&self, model: &Model<'_>, target: &Target) -> Vec<Move> {
        let rules = Rules::new(model, &self.lines);
        let mut way = Vec::new();
        let mut state = target.0;
        let event = |t: usize, k: usize| model.threads[t][self.lines[t].positions[k] as usize];
        let mut next = Vec::new();
        while state != 0 {
            // What each thread has done last, the latest in the trace first.
            let mut last: Vec<(EventIndex, usize)> = Vec::new();
            for (t, line) in self.lines.iter().enumerate() {
                if let Some(k) = line.done(state).checked_sub(1)
                    && !matches!(line.acts[k], Act::Wait(_))
                {
                    last.push((event(t, k), t));
                }
            }
            last.sort_unstable();
            let before = last.iter().rev().find_map(|&(act, t)| {
                let undone = state - self.lines[t].one_more();
                let object = self.lines[t].next(undone).expect("just undone").object();
                let sleepers = self.lines.iter().enumerate().filter(|(s, line)| {
                    let k = line.done(state).checked_sub(1);
                    *s != t && k.is_some_and(|k| line.acts[k] == Act::Wait(object))
                });
                // Combinations of those that it may have woken.
                let mut choices: Vec<(u128, Vec<EventIndex>)> = vec![(undone, Vec::new())];
                for (s, line) in sleepers.take(MOST_SLEEPERS) {
                    for i in 0..choices.len() {
                        let mut wakes = choices[i].1.clone();
                        wakes.push(event(s, line.done(state) - 1));
                        choices.push((choices[i].0 - line.one_more(), wakes));
                    }
                }
                // First those whose waits end soon after it, as if it had woken them in the trace.
                choices.sort_by_key(|(_, wakes)| {
                    let late = wakes.iter().filter(|&&wait| wait < act).count();
                    let distance = wakes.iter().map(|wait| wait.0.abs_diff(act.0)).sum::<u32>();
                    (late, std::cmp::Reverse(wakes.len()), distance)
                });
                let mut choices = choices.into_iter().filter(|(before, _)| {
                    next.clear();
                    rules.after(*before, t, &mut next);
                    self.known.contains(before) && next.contains(&state)
                });
                let (before, wakes) = choices.next()?;
                Some((before, Move { event: act, wakes }))
            });
            let (before, step) = before.expect("every state but the first was reached from one");
            way.push(step);
            state = before;
        }
        way.reverse();
        way
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
                Op::SemWait(o) if waited_for[o.index()] => Act::Take(o),
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

/// Which states follow on which.
struct Rules<'l> {
    lines: &'l [Line],
    /// What is there of each object at the beginning.
    initial: Vec<i64>,
}

impl<'l> Rules<'l> {
    fn new(model: &Model<'_>, lines: &'l [Line]) -> Self {
        let start = ModelState::initial(model);
        let objects = (0..model.trace.objects.len()).map(ObjectId::from_index);
        let initial = objects.map(|o| match model.kind(o) {
            ObjectKind::Barrier => 0,
            _ => start.value(o),
        });
        Rules {
            lines,
            initial: initial.collect(),
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
        if matches!(act, Act::Wait(_)) || !self.may(state, line) {
            return true;
        }
        let done = state + line.one_more();
        let sleepers = self.lines.iter().enumerate().filter(|&(s, other)| {
            s != thread
                && other.next(state) == Some(Act::Wait(act.object()))
                && self.may(state, other)
        });
        match act {
            Act::Wait(_) => {}
            Act::Give(_) => next.push(done),
            Act::Take(o) if self.there(state, o) < 1 => {}
            Act::Pass(o, needed) if self.there(state, o) < needed => {}
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

/// All states, each with the number of acts done by every thread.
fn explore(
    model: &Model<'_>,
    lines: &[Line],
    budget: usize,
) -> Option<(Vec<u128>, FxHashSet<u128>)> {
    let rules = Rules::new(model, lines);
    let mut known: FxHashSet<u128> = FxHashSet::default();
    let mut found: Vec<u128> = vec![0];
    known.insert(0);
    let mut at = 0;
    let mut next = Vec::new();
    while at < found.len() {
        next.clear();
        for thread in 0..lines.len() {
            if !rules.after(found[at], thread, &mut next) {
                return None;
            }
        }
        at += 1;
        found.extend(next.iter().filter(|&&state| known.insert(state)));
        if found.len() > budget {
            return None;
        }
    }
    Some((found, known))
}
