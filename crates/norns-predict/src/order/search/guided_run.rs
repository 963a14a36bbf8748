//! A run of the model that follows a path through the waits, as the order that a search starts from.
//!
//! The threads are run by the rules of the model; of those that can continue, the one whose next
//! event came first in the trace does. Signals and the other operations that make threads wait come
//! in the order of the path, and each wakes the threads that the path says. The path knows nothing
//! of locks; where it leads into a deadlock, a rule is broken and the search has to repair it.
//! Values are ignored. So the result is a good guess and no more.

use norns_model::step::{Readiness, Step};
use norns_model::{Model, State};
use norns_order::Node;
use norns_trace::effect::{OnLock, OnSemaphore};
use norns_trace::{Effect, EventIndex, ThreadId};
use rustc_hash::FxHashSet;

use super::critical_sections::CriticalSections;
use crate::order::known::clocks::Clocks;
use crate::order::known::waits::{PathStep, WaitStates};
use crate::order::objects::clause::node;

/// How far each thread goes, as numbers of events.
pub struct Stops {
    /// At least this far.
    pub wanted: Vec<u32>,
    /// At most this far.
    pub limits: Vec<u32>,
}

/// What a guided run is made from.
pub struct Guide<'r, 't> {
    pub model: &'r Model<'t>,
    pub clocks: &'r Clocks,
    pub waits: &'r WaitStates,
    pub sections: &'r CriticalSections,
    pub path: &'r [PathStep],
    pub stops: &'r Stops,
}

struct GuidedRun<'r, 't> {
    guide: Guide<'r, 't>,
    /// The events of the path.
    on_path: FxHashSet<EventIndex>,
    /// How many steps of the path are done.
    steps: usize,
    state: State,
    /// For each thread, whether its next event is a failed acquisition.
    fails_next: Vec<bool>,
    /// For each thread, whether the wait that is its next event has been woken.
    woken: Vec<bool>,
    done: Vec<Node>,
}

/// Which rules decide whether a thread can continue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Those of the model. In addition, no thread enters a critical section in which it would have
    /// to wait for its turn on the path, or in which it stops.
    Careful,
    Model,
    /// Only must-happen-before and the path.
    Order,
}

impl Guide<'_, '_> {
    /// The events that take place, in an order that agrees with must-happen-before. `None` if the
    /// path cannot be followed.
    pub fn run(self) -> Option<Vec<Node>> {
        let mut run = GuidedRun {
            on_path: self.path.iter().map(|step| step.event).collect(),
            steps: 0,
            state: State::initial(self.model),
            fails_next: vec![false; self.model.threads.len()],
            woken: vec![false; self.model.threads.len()],
            done: Vec::new(),
            guide: self,
        };
        for thread in run.guide.model.thread_ids() {
            run.look_at_next(thread);
        }
        while let Some(next) = run.next()? {
            run.take(next);
        }
        Some(run.done)
    }
}

impl GuidedRun<'_, '_> {
    /// The next event; `Some(None)` once all threads are as far as they should be, `None` if no
    /// thread can continue.
    fn next(&self) -> Option<Option<EventIndex>> {
        let Stops { wanted, limits } = self.guide.stops;
        let mut pairs = self.state.positions.iter().zip(wanted);
        if pairs.all(|(position, wanted)| position >= wanted) {
            return Some(None);
        }
        // Under `limits` a thread that holds a lock others want may run beyond where it should stop.
        let next = self
            .first(wanted, Rules::Careful)
            .or_else(|| self.first(limits, Rules::Careful))
            .or_else(|| self.first(wanted, Rules::Model))
            .or_else(|| self.first(wanted, Rules::Order))?;
        Some(Some(next))
    }

    /// Of the threads that are not yet at their `ends` and can continue, one whose next operation
    /// fails, otherwise the one whose next event is first in the trace.
    fn first(&self, ends: &[u32], rules: Rules) -> Option<EventIndex> {
        let model = self.guide.model;
        let threads = ends.iter().enumerate();
        let next = threads.filter_map(|(t, &end)| {
            let position = self.state.positions[t];
            let next = || model.threads[t][position as usize];
            (position < end).then(|| (!self.fails_next[t], next()))
        });
        // An acquisition fails only while another thread is in its way, which may soon be over.
        let mut next: Vec<(bool, EventIndex)> = next.collect();
        next.sort_unstable();
        let mut next = next.into_iter().map(|(_, event)| event);
        next.find(|&event| {
            self.can_take(event, rules) && (rules != Rules::Careful || self.can_leave_soon(event))
        })
    }

    /// Whether the critical section that this event begins, if it does, can be left again without
    /// waiting for a step of another thread.
    fn can_leave_soon(&self, event: EventIndex) -> bool {
        let Guide { model, path, .. } = self.guide;
        let Some(end) = self.guide.sections.end_of(event) else {
            return true;
        };
        let thread = model.thread_of(event).index();
        let position = model.position[event.index()];
        if (position..end).contains(&self.guide.stops.wanted[thread]) {
            return false;
        }
        // The steps of the path that are in the section have to be the next ones on the path.
        let inside = &model.threads[thread][position as usize..end as usize];
        let mut path = path[self.steps..].iter();
        let mut steps = inside.iter().filter(|event| self.on_path.contains(event));
        let is_next = |&step: &EventIndex| path.next().is_some_and(|next| next.event == step);
        match steps.clone().next() {
            None => true,
            Some(_) => steps.all(is_next) && self.all_asleep(&self.guide.path[self.steps]),
        }
    }

    /// Whether the threads that the step wakes are waiting.
    fn all_asleep(&self, step: &PathStep) -> bool {
        let model = self.guide.model;
        step.wakes.iter().all(|&wait| {
            let thread = model.thread_of(wait).index();
            model.position[wait.index()] == self.state.positions[thread]
        })
    }

    fn can_take(&self, event: EventIndex, rules: Rules) -> bool {
        let Guide { model, path, .. } = self.guide;
        let thread = model.thread_of(event);
        let positions = self.state.positions.iter().enumerate();
        let mut others = positions.filter(|&(s, _)| s != thread.index());
        if others.any(|(s, &position)| self.guide.clocks.known(event, s) > position) {
            return false;
        }
        if self.guide.waits.is_wait(model, event) {
            if !self.woken[thread.index()] {
                return false;
            }
        } else if self.on_path.contains(&event) {
            let Some(next) = path.get(self.steps).filter(|next| next.event == event) else {
                return false;
            };
            if !self.all_asleep(next) {
                return false;
            }
        }
        rules == Rules::Order || model.readiness(&self.state, thread) == Readiness::Ready
    }

    fn take(&mut self, event: EventIndex) {
        let Guide { model, path, .. } = self.guide;
        let thread = model.thread_of(event);
        let mut wakes: Option<ThreadId> = None;
        if self.guide.waits.is_wait(model, event) {
            self.woken[thread.index()] = false;
        } else if self.on_path.contains(&event) {
            for &wait in &path[self.steps].wakes {
                let sleeper = model.thread_of(wait);
                self.woken[sleeper.index()] = true;
                wakes = Some(sleeper);
            }
            self.steps += 1;
        }
        model.take(&mut self.state, Step { thread, wakes });
        self.state.forget_trail();
        self.done.push(node(event));
        self.look_at_next(thread);
    }

    /// Updates `fails_next` for this thread.
    fn look_at_next(&mut self, thread: ThreadId) {
        let model = self.guide.model;
        let fails = |event| match model.op(event).effect() {
            Effect::Lock(_, act) => matches!(act, OnLock::FailedAcquire(_)),
            Effect::Semaphore(_, act) => act == OnSemaphore::FailedWait,
            Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => false,
        };
        self.fails_next[thread.index()] = model.next(&self.state, thread).is_some_and(fails);
    }
}
