//! An order to start a search from that follows a given way through the waits.
//!
//! The threads are run by the rules of the model: of those that can go on, the one whose next
//! event came first in the trace. Signals and whatever else makes others wait come in the order
//! of the way, and each wakes whom the way says. Where nobody can go on, because the way leads
//! into a deadlock of locks that it does not see, a rule is broken and the search has to mend it.
//! Values are not looked at. So the result is a good guess and no more.

use norns_model::step::{Readiness, Step};
use norns_model::{Model, State};
use norns_order::Node;
use norns_trace::{EventIndex, Op, ThreadId};
use rustc_hash::FxHashSet;

use super::clocks::Clocks;
use super::frame::node;
use super::waiting::{Move, Waiting};

/// How far each thread goes.
pub(super) struct Stops {
    /// At least so many events.
    pub wanted: Vec<u32>,
    /// At most so many.
    pub limits: Vec<u32>,
}

/// Where the critical sections end.
pub(super) struct Sections {
    /// For an event with which its thread begins to hold locks: the position from which on it
    /// holds none. 0 for others.
    end: Vec<u32>,
}

impl Sections {
    pub fn new(model: &Model<'_>) -> Self {
        let mut end = vec![0; model.trace.events.len()];
        for events in &model.threads {
            let mut depth = 0u32;
            let mut first = None;
            for (k, &event) in events.iter().enumerate() {
                match model.op(event) {
                    Op::Lock(_) | Op::ReadLock(_) => {
                        first = first.or(Some(event));
                        depth += 1;
                    }
                    Op::Unlock(_) => {
                        depth = depth.saturating_sub(1);
                        if depth == 0
                            && let Some(first) = first.take()
                        {
                            end[first.index()] = k as u32 + 1;
                        }
                    }
                    _ => {}
                }
            }
            if let Some(first) = first {
                end[first.index()] = events.len() as u32;
            }
        }
        Sections { end }
    }

    /// The position from which on the thread holds no locks, when it holds some after so many
    /// events.
    pub fn end_around(&self, events: &[EventIndex], count: u32) -> Option<u32> {
        let before = events[..count as usize].iter().rev();
        let first = before
            .map(|event| self.end[event.index()])
            .find(|&end| end != 0)?;
        (first > count).then_some(first)
    }
}

struct Rehearsal<'r, 't> {
    model: &'r Model<'t>,
    clocks: &'r Clocks,
    waiting: &'r Waiting,
    way: &'r [Move],
    on_way: FxHashSet<EventIndex>,
    sections: &'r Sections,
    /// How many moves of the way are done.
    moves: usize,
    state: State,
    /// Of each thread: whether the wait that is next has been woken.
    woken: Vec<bool>,
    done: Vec<Node>,
}

/// The events that take place, in an order that agrees with must-happen-before. `None` when the
/// way cannot be followed.
pub(super) fn rehearse(
    model: &Model<'_>,
    clocks: &Clocks,
    waiting: &Waiting,
    sections: &Sections,
    way: &[Move],
    stops: &Stops,
) -> Option<Vec<Node>> {
    let mut rehearsal = Rehearsal {
        model,
        clocks,
        waiting,
        way,
        on_way: way.iter().map(|step| step.event).collect(),
        sections,
        moves: 0,
        state: State::initial(model),
        woken: vec![false; model.threads.len()],
        done: Vec::new(),
    };
    loop {
        let state = &rehearsal.state;
        let lacking = |(position, wanted): (&u32, &u32)| position < wanted;
        if !state.positions.iter().zip(&stops.wanted).any(lacking) {
            return Some(rehearsal.done);
        }
        // Who holds a lock that others want may go on beyond where it should stop.
        let next = rehearsal
            .first(stops, &stops.wanted, Rules::Careful)
            .or_else(|| rehearsal.first(stops, &stops.limits, Rules::Careful))
            .or_else(|| rehearsal.first(stops, &stops.wanted, Rules::All))
            .or_else(|| rehearsal.first(stops, &stops.wanted, Rules::Order))?;
        rehearsal.take(next);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Those of the model, and no critical section is entered in which the thread would have to
    /// wait for its turn, or in which it stops.
    Careful,
    All,
    /// Only must-happen-before and the way.
    Order,
}

impl Rehearsal<'_, '_> {
    /// Of the threads that have not come so far and can go on, one that fails to acquire something,
    /// else the one whose next event is the first in the trace.
    fn first(&self, stops: &Stops, ends: &[u32], rules: Rules) -> Option<EventIndex> {
        let threads = ends.iter().enumerate();
        let next = threads.filter_map(|(t, &stop)| {
            let position = self.state.positions[t];
            (position < stop).then(|| self.model.threads[t][position as usize])
        });
        // What fails must find somebody in the way, who may be gone soon.
        let mut next: Vec<EventIndex> = next.collect();
        next.sort_unstable_by_key(|&event| {
            let op = self.model.op(event);
            let fails = matches!(
                op,
                Op::FailedLock(_) | Op::FailedReadLock(_) | Op::FailedSemWait(_)
            );
            (!fails, event)
        });
        next.into_iter().find(|&event| {
            self.can(event, rules) && (rules != Rules::Careful || self.may_enter(event, stops))
        })
    }

    /// Whether the critical section that this event begins, if it does, can be left again soon.
    fn may_enter(&self, event: EventIndex, stops: &Stops) -> bool {
        let end = self.sections.end[event.index()];
        if end == 0 {
            return true;
        }
        let thread = self.model.thread_of(event).index();
        let position = self.model.position[event.index()];
        if (position..end).contains(&stops.wanted[thread]) {
            return false;
        }
        // What the way has in the section has to be next on it.
        let inside = &self.model.threads[thread][position as usize..end as usize];
        let mut way = self.way[self.moves..].iter();
        let mut steps = inside.iter().filter(|event| self.on_way.contains(event));
        let is_next = |&step: &EventIndex| way.next().is_some_and(|next| next.event == step);
        match steps.clone().next() {
            None => true,
            Some(_) => steps.all(is_next) && self.all_asleep(&self.way[self.moves]),
        }
    }

    fn all_asleep(&self, step: &Move) -> bool {
        step.wakes.iter().all(|&wait| {
            let thread = self.model.thread_of(wait).index();
            self.model.position[wait.index()] == self.state.positions[thread]
        })
    }

    fn can(&self, event: EventIndex, rules: Rules) -> bool {
        let thread = self.model.thread_of(event);
        let positions = self.state.positions.iter().enumerate();
        let mut others = positions.filter(|&(s, _)| s != thread.index());
        if others.any(|(s, &position)| self.clocks.known(event, s) > position) {
            return false;
        }
        if self.waiting.is_wait(self.model, event) {
            if !self.woken[thread.index()] {
                return false;
            }
        } else if self.on_way.contains(&event) {
            let Some(next) = self.way.get(self.moves).filter(|next| next.event == event) else {
                return false;
            };
            if !self.all_asleep(next) {
                return false;
            }
        }
        rules == Rules::Order || self.model.readiness(&self.state, thread) == Readiness::Ready
    }

    fn take(&mut self, event: EventIndex) {
        let thread = self.model.thread_of(event);
        let mut wakes: Option<ThreadId> = None;
        if self.waiting.is_wait(self.model, event) {
            self.woken[thread.index()] = false;
        } else if self.on_way.contains(&event) {
            for &wait in &self.way[self.moves].wakes {
                let sleeper = self.model.thread_of(wait);
                self.woken[sleeper.index()] = true;
                wakes = Some(sleeper);
            }
            self.moves += 1;
        }
        self.model.take(&mut self.state, Step { thread, wakes });
        self.state.forget_trail();
        self.done.push(node(event));
    }
}
