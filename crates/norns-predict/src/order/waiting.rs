//! Where threads can stand at the same time, by how they wait for each other: a proof of
//! impossibility by exploring all states of conditions, semaphores and barriers (`acts`).
//!
//! Threads that wait for each other often cannot come far apart, so the states are few, however
//! long the trace. They are explored once for a trace; where they are too many, nothing is known
//! to be impossible. Otherwise a bug is when no state has the threads of its events where these
//! are. (The search of the solver proves the same in far more steps, one cut of the schedule at a
//! time.)
//!
//! A bug that may be possible gets a way to a state that has it, for a search to begin with: from
//! all states if they are known, else by a short search from the state that the trace was in when
//! it came to the first of the bug's events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use norns_model::Model;
use norns_trace::EventIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::acts::{Act, Line, Rules, lines};
use super::clocks::Clocks;

/// One step: an event, and the waits that it ends.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub event: EventIndex,
    pub wakes: Vec<EventIndex>,
}

/// How to come to a state.
pub(super) struct Way {
    /// Without signals that nobody needs.
    pub moves: Vec<Move>,
    /// For each thread between which numbers of events it is then.
    pub ranges: Vec<(u32, u32)>,
}

/// What can be said about a bug.
pub(super) enum Prospect {
    Impossible,
    Unknown,
    Way(Way),
}

pub(super) struct Waiting {
    lines: Vec<Line>,
    /// The value of each semaphore at the beginning, and the count of each barrier.
    initial: Vec<i64>,
    /// The steps of the trace itself, with the state after each.
    observed: Vec<(EventIndex, u128)>,
    explored: Option<Explored>,
}

/// What is asked of a state: of each thread how many acts at least and at most.
type Ranges = Vec<(usize, usize)>;

/// How many states a search for a way may look at.
const SHORT_SEARCH: usize = 500;

impl Waiting {
    /// `None` when no thread makes another wait, or the threads are too many. More than `budget`
    /// states are not explored.
    pub fn new(model: &Model<'_>, clocks: &Clocks, budget: usize) -> Option<Self> {
        let lines = lines(model, clocks)?;
        if lines.iter().all(|line| line.acts.is_empty()) {
            return None;
        }
        let start = norns_model::State::initial(model);
        let objects = (0..model.trace.objects.len()).map(norns_trace::ObjectId::from_index);
        let mut waiting = Waiting {
            lines,
            initial: objects.map(|o| start.value(o)).collect(),
            observed: Vec::new(),
            explored: None,
        };
        waiting.observed = waiting.observe(model);
        waiting.explored = Explored::new(&waiting.lines, &waiting.rules(), budget);
        Some(waiting)
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            lines: &self.lines,
            initial: &self.initial,
        }
    }

    /// What an event does, when it is one of the acts.
    fn act(&self, model: &Model<'_>, event: EventIndex) -> Option<Act> {
        let line = &self.lines[model.thread_of(event).index()];
        let k = line.positions.binary_search(&model.position[event.index()]);
        k.ok().map(|k| line.acts[k])
    }

    pub fn is_wait(&self, model: &Model<'_>, event: EventIndex) -> bool {
        matches!(self.act(model, event), Some(Act::Wait(_)))
    }

    /// What can be said about a schedule after which `events` are next, in which each thread has
    /// done what is `needed` and not more than `limits` say (all as numbers of its events). A
    /// way leads near to what is wished, if to anything.
    pub fn prospect(
        &self,
        model: &Model<'_>,
        events: &[EventIndex],
        [needed, limits, wish]: [&[u32]; 3],
    ) -> Prospect {
        let mut ranges: Ranges = Vec::new();
        for (t, line) in self.lines.iter().enumerate() {
            let all = limits[t] as usize == model.threads[t].len();
            let most = if all {
                line.acts.len()
            } else {
                line.count(limits[t])
            };
            ranges.push((line.count(needed[t]), most));
        }
        for &event in events {
            let thread = model.thread_of(event).index();
            let done = self.lines[thread].count(model.position[event.index()]);
            ranges[thread] = (done, done);
        }
        if ranges.iter().any(|(least, most)| least > most) {
            return Prospect::Impossible;
        }
        let counts = self.lines.iter().zip(wish);
        let wish = counts.zip(&ranges).map(|((line, &wish), &(least, most))| {
            let count = line.count(wish);
            count.clamp(least, most)
        });
        let wish: Vec<usize> = wish.collect();
        let states = match &self.explored {
            Some(explored) if !explored.allows(&self.lines, events, model) => None,
            Some(explored) => explored
                .nearest(&self.lines, &ranges, &wish)
                .map(|target| explored.way(self, model, target)),
            None => match self.search(events, &ranges) {
                Some(states) => Some(states),
                None => return Prospect::Unknown,
            },
        };
        match states {
            Some(states) => Prospect::Way(self.way(model, &states)),
            None => Prospect::Impossible,
        }
    }

    /// The steps of the trace. A signal wakes the one whose wait ended first.
    fn observe(&self, model: &Model<'_>) -> Vec<(EventIndex, u128)> {
        let rules = self.rules();
        let mut state = 0;
        let mut observed = Vec::new();
        let mut next = Vec::new();
        for i in 0..model.trace.events.len() {
            let event = EventIndex::from_index(i);
            let Some(act) = self.act(model, event).filter(|act| !act.is_passive()) else {
                continue;
            };
            let thread = model.thread_of(event).index();
            next.clear();
            rules.after(state, thread, &mut next);
            let natural = next.iter().copied().min_by_key(|&after| {
                let step = self.step(model, state, after);
                let unborn = step.wakes.iter().filter(|&&wait| {
                    let own = &model.threads[model.thread_of(wait).index()];
                    wait < event || event < own[model.position_of(wait) - 1]
                });
                let wakes: u32 = step.wakes.iter().map(|wait| wait.0).sum();
                let few = match act {
                    Act::Broadcast(_) => usize::MAX - step.wakes.len(),
                    _ => usize::from(step.wakes.is_empty()),
                };
                (unborn.count(), few, wakes)
            });
            let Some(natural) = natural else {
                // The trace is not quite in order.
                break;
            };
            state = natural;
            observed.push((event, state));
        }
        observed
    }

    /// States from the beginning to one within the ranges: those of the trace to the first of the
    /// events, then what a search finds that prefers to come nearer.
    fn search(&self, events: &[EventIndex], ranges: &Ranges) -> Option<Vec<u128>> {
        let first = events.iter().min()?;
        let before = self.observed.partition_point(|(event, _)| event < first);
        let mut way = vec![0];
        way.extend(self.observed[..before].iter().map(|&(_, state)| state));
        let rules = self.rules();
        let lacking = |state: u128| {
            let mut lacking = 0;
            for (line, &(least, most)) in self.lines.iter().zip(ranges) {
                let done = line.done(state);
                if done > most {
                    return None;
                }
                lacking += least.saturating_sub(done);
            }
            Some(lacking)
        };
        let start = way[way.len() - 1];
        // State, the one before it, how many steps led to it.
        let mut found: Vec<(u128, u32, u32)> = vec![(start, 0, 0)];
        let mut known: FxHashSet<u128> = FxHashSet::default();
        known.insert(start);
        let mut open = BinaryHeap::new();
        open.push((Reverse(lacking(start)?), Reverse(0), 0u32));
        let mut next = Vec::new();
        while let Some((_, _, number)) = open.pop() {
            let (state, _, depth) = found[number as usize];
            if lacking(state) == Some(0) {
                let mut at = number;
                let mut steps = Vec::new();
                while at != 0 {
                    steps.push(found[at as usize].0);
                    at = found[at as usize].1;
                }
                way.extend(steps.iter().rev());
                return Some(way);
            }
            if found.len() > SHORT_SEARCH {
                return None;
            }
            next.clear();
            for thread in 0..self.lines.len() {
                rules.after(state, thread, &mut next);
            }
            for &after in &next {
                if let Some(lacking) = lacking(after)
                    && known.insert(after)
                {
                    let value = Reverse(depth as usize + 1 + 3 * lacking);
                    open.push((value, Reverse(found.len()), found.len() as u32));
                    found.push((after, number, depth + 1));
                }
            }
        }
        None
    }

    fn way(&self, model: &Model<'_>, states: &[u128]) -> Way {
        let steps = states.windows(2).map(|s| self.step(model, s[0], s[1]));
        let needed = steps.filter(|step| {
            let act = self.act(model, step.event);
            !step.wakes.is_empty() || !matches!(act, Some(Act::Signal(_) | Act::Broadcast(_)))
        });
        let last = states.last().copied().unwrap_or(0);
        let ranges = self.lines.iter().map(|line| {
            let done = line.done(last);
            let least = done.checked_sub(1).map_or(0, |k| line.positions[k] + 1);
            (least, line.positions.get(done).copied().unwrap_or(u32::MAX))
        });
        Way {
            moves: needed.collect(),
            ranges: ranges.collect(),
        }
    }

    /// What leads from one state to the next.
    fn step(&self, model: &Model<'_>, before: u128, after: u128) -> Move {
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
}

/// All states, each as the numbers of acts done by every thread.
struct Explored {
    states: Vec<u128>,
    /// For each state one of the edges that lead to it.
    last_edge: Vec<u32>,
    /// The state that an edge comes from, and another edge that leads to the same state.
    edges: Vec<(u32, u32)>,
    /// For two threads, the first with the smaller number, which numbers of acts they can have
    /// done at the same time: a bit for each. Empty when one of them has no acts.
    together: Vec<Vec<u64>>,
}

const NONE: u32 = u32::MAX;
/// After so many states it is asked how many there will be: where the first half of the acts has
/// led to more than the budget, more is not tried.
const LOOK_AHEAD: usize = 1 << 13;

impl Explored {
    /// `None` when there are more than `budget`.
    fn new(lines: &[Line], rules: &Rules<'_>, budget: usize) -> Option<Self> {
        let mut known: FxHashMap<u128, u32> = FxHashMap::default();
        known.insert(0, 0);
        let mut found = Explored {
            states: vec![0],
            last_edge: vec![NONE],
            edges: Vec::new(),
            together: Vec::new(),
        };
        let all: usize = lines.iter().map(|line| line.acts.len()).sum();
        let done = |state: u128| lines.iter().map(|line| line.done(state)).sum::<usize>();
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
            let too_many = found.states.len() > budget
                || at % LOOK_AHEAD == 0 && found.states.len() / 2 > budget * done(state) / all;
            if too_many {
                return None;
            }
        }
        for (t, one) in lines.iter().enumerate() {
            for other in &lines[t + 1..] {
                if one.acts.is_empty() || other.acts.is_empty() {
                    found.together.push(Vec::new());
                    continue;
                }
                let columns = other.acts.len() + 1;
                let bits = (one.acts.len() + 1) * columns;
                // More than a few per state would be a waste.
                if bits / 64 > 16 * (budget + 64) {
                    return None;
                }
                let mut table = vec![0u64; bits.div_ceil(64)];
                for &state in &found.states {
                    let bit = one.done(state) * columns + other.done(state);
                    table[bit / 64] |= 1 << (bit % 64);
                }
                found.together.push(table);
            }
        }
        Some(found)
    }

    /// Whether these events, two by two, can be next at the same time.
    fn allows(&self, lines: &[Line], events: &[EventIndex], model: &Model<'_>) -> bool {
        let place = |&event: &EventIndex| {
            let thread = model.thread_of(event).index();
            let done = lines[thread].count(model.position[event.index()]);
            (thread, done)
        };
        let mut places: Vec<(usize, usize)> = events.iter().map(place).collect();
        places.sort_unstable();
        let pairs = places.iter().enumerate();
        let mut pairs = pairs.flat_map(|(k, one)| places[k + 1..].iter().map(move |o| (one, o)));
        pairs.all(|(&(t, i), &(s, j))| {
            let before: usize = (0..t).map(|k| lines.len() - 1 - k).sum();
            let table = &self.together[before + s - t - 1];
            let bit = i * (lines[s].acts.len() + 1) + j;
            table.is_empty() || table[bit / 64] & (1 << (bit % 64)) != 0
        })
    }

    /// The state within the ranges that is nearest to what is wished.
    fn nearest(&self, lines: &[Line], ranges: &Ranges, wish: &[usize]) -> Option<u32> {
        let mut best: Option<(usize, u32)> = None;
        for (number, &state) in self.states.iter().enumerate() {
            let mut distance = 0;
            let fits = lines.iter().enumerate().all(|(t, line)| {
                let done = line.done(state);
                distance += done.abs_diff(wish[t]);
                ranges[t].0 <= done && done <= ranges[t].1
            });
            if fits && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, number as u32));
            }
        }
        best.map(|(_, number)| number)
    }

    /// The states on the way to one, as near to the order of the trace as can be seen from
    /// behind: always from the state whose step came last in the trace.
    fn way(&self, waiting: &Waiting, model: &Model<'_>, mut target: u32) -> Vec<u128> {
        let mut way = vec![self.states[target as usize]];
        while target != 0 {
            let state = self.states[target as usize];
            let best = self.before(target).max_by_key(|&before| {
                let step = waiting.step(model, self.states[before as usize], state);
                // As if it had woken in the trace whom it wakes.
                let late = step.wakes.iter().filter(|&&wait| wait < step.event);
                let distance = step.wakes.iter().map(|w| w.0.abs_diff(step.event.0));
                let (late, distance) = (Reverse(late.count()), Reverse(distance.sum::<u32>()));
                (step.event, late, step.wakes.len(), distance)
            });
            target = best.expect("every state but the first was reached from one");
            way.push(self.states[target as usize]);
        }
        way.reverse();
        way
    }

    /// The states from which a step leads to this one.
    fn before(&self, number: u32) -> impl Iterator<Item = u32> {
        let some = |edge: u32| (edge != NONE).then(|| self.edges[edge as usize]);
        let first = some(self.last_edge[number as usize]);
        std::iter::successors(first, move |&(_, other)| some(other)).map(|(from, _)| from)
    }
}
