//! What threads do to make each other wait, and which state of that follows on which.
//!
//! Of each thread its acts on conditions, semaphores and barriers, in their order; a state says
//! how many each has done, packed into one number. More is allowed than in a schedule: locks are
//! not seen, and a wait on a semaphore that failed asks for nothing. A wait is done at the moment
//! of the signal that wakes it, and a barrier is left at the moment when its round is full.

use norns_model::{Model, State as ModelState};
use norns_trace::{EventIndex, ObjectId, Op};
use rustc_hash::FxHashMap;

use super::clocks::Clocks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
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
    pub fn object(self) -> ObjectId {
        match self {
            Act::Wait(o) | Act::Signal(o) | Act::Broadcast(o) => o,
            Act::Give(o) | Act::Take(o) | Act::Enter(o) | Act::Leave(o) => o,
        }
    }

    /// Whether an act of another thread completes it.
    pub fn is_passive(self) -> bool {
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
pub(super) struct Line {
    pub acts: Vec<Act>,
    /// The position of each act in its thread.
    pub positions: Vec<u32>,
    /// For each act other threads and how many acts they must have done before.
    after: Vec<Vec<(usize, usize)>>,
    /// What the acts before each act have given to its object, less what they took. By object.
    given: Vec<(ObjectId, Vec<i64>)>,
    /// Where the number of acts done stands in a state.
    shift: u32,
    mask: u128,
}

impl Line {
    pub fn done(&self, state: u128) -> usize {
        ((state >> self.shift) & self.mask) as usize
    }

    pub fn next(&self, state: u128) -> Option<Act> {
        self.acts.get(self.done(state)).copied()
    }

    /// How many acts come before this position.
    pub fn count(&self, position: u32) -> usize {
        self.positions.partition_point(|&other| other < position)
    }

    pub fn one_more(&self) -> u128 {
        1 << self.shift
    }
}

/// Sleepers that a broadcast can wake in any combination.
const MOST_SLEEPERS: usize = 10;

/// `None` when a state does not fit into its number.
pub(super) fn lines(model: &Model<'_>, clocks: &Clocks) -> Option<Vec<Line>> {
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
pub(super) struct Rules<'l> {
    pub lines: &'l [Line],
    /// The value of each semaphore at the beginning, and the count of each barrier.
    pub initial: &'l [i64],
}

impl Rules<'_> {
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
    pub fn after(&self, state: u128, thread: usize, next: &mut Vec<u128>) -> bool {
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
