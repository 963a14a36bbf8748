//! Threads that can never continue: `Bug::Stuck`.
//!
//! That nothing can end a wait is a statement about all continuations of a schedule, not about one
//! order. The solver is therefore asked for a schedule that meets necessary conditions: every thread
//! that is not stuck itself and could signal or post has done so for the last time; broadcasts came
//! before the wait began, and so did signals that no other thread could have received. If there is
//! no such schedule, the bug is impossible. A schedule that is found is a witness if the checker of
//! `norns-model` accepts it; otherwise the bug stays undecided, because there may be other schedules.
//! (Which of several waiting threads receives a signal, and how full a barrier is, is left to the
//! checker.)

use norns_model::{Bug, Model, Witness};
use norns_trace::effect::{OnCondition, OnSemaphore, OnThread};
use norns_trace::{Effect, EventIndex, ObjectId, ThreadId};

use super::engine::{Engine, NoSchedule, Outcome};
use super::query::{Required, previous};

impl Engine<'_> {
    pub(super) fn find_stuck(&mut self, blocked: Vec<EventIndex>) -> Outcome {
        let required = required(&self.model, &blocked);
        match self.schedule(&blocked, &required) {
            Err(NoSchedule::Impossible) => Outcome::Impossible,
            Err(NoSchedule::Undecided) => Outcome::Undecided,
            Ok(schedule) => {
                let bug = Bug::Stuck { blocked };
                let witness = Witness { schedule, bug };
                match self.checker.check(&witness) {
                    // The schedule is valid, but its last state is not stuck.
                    Err(refusal) if refusal.event.is_none() => Outcome::Undecided,
                    Ok(()) | Err(_) => {
                        self.assert_valid(&witness);
                        Outcome::Witness(witness)
                    }
                }
            }
        }
    }
}

/// What has taken place when these events are stuck.
pub fn required(model: &Model<'_>, blocked: &[EventIndex]) -> Vec<Required> {
    // Not all predecessors: the end of a thread, say, is what a stuck join waits for.
    let entries = blocked.iter().filter_map(|&event| previous(model, event));
    let mut found: Vec<Required> = entries.map(Required::anywhere).collect();
    let stuck: Vec<ThreadId> = blocked
        .iter()
        .map(|&event| model.thread_of(event))
        .collect();
    let live: Vec<usize> = (0..model.threads.len())
        .filter(|&t| !may_never_run(model, ThreadId::from_index(t), &stuck))
        .collect();
    let last = |t: usize, effect: Effect| {
        let events = model.threads[t].iter().rev();
        events
            .copied()
            .find(|&event| model.op(event).effect() == effect)
    };
    for &event in blocked {
        if model.needed_before(event).next().is_some() {
            continue;
        }
        match model.op(event).effect() {
            Effect::Condition(o, OnCondition::Wait) if model.wait_needs_signal(event) => {
                let Some(entry) = previous(model, event) else {
                    continue;
                };
                let alone = waiters(model, o).all(|thread| thread == model.thread_of(event));
                for &t in &live {
                    let broadcast = last(t, Effect::Condition(o, OnCondition::Broadcast));
                    found.extend(broadcast.map(|broadcast| Required {
                        event: broadcast,
                        before: Some(entry),
                    }));
                    let signal = last(t, Effect::Condition(o, OnCondition::Signal));
                    found.extend(signal.map(|signal| Required {
                        event: signal,
                        before: alone.then_some(entry),
                    }));
                }
            }
            Effect::Semaphore(o, OnSemaphore::Wait) => {
                let post = Effect::Semaphore(o, OnSemaphore::Post);
                let posts = live.iter().filter_map(|&t| last(t, post));
                found.extend(posts.map(Required::anywhere));
            }
            Effect::Condition(..)
            | Effect::Semaphore(..)
            | Effect::Thread(_)
            | Effect::Lock(..)
            | Effect::Once(..)
            | Effect::Barrier(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => {}
        }
    }
    found
}

/// The threads of all waits on a condition.
fn waiters(model: &Model<'_>, condition: ObjectId) -> impl Iterator<Item = ThreadId> {
    let wait = Effect::Condition(condition, OnCondition::Wait);
    let events = model.trace.events.iter();
    events
        .filter(move |event| event.op.effect() == wait)
        .map(|event| event.thread)
}

/// Whether the thread is stuck, or may not be forked because another thread is.
fn may_never_run(model: &Model<'_>, mut thread: ThreadId, stuck: &[ThreadId]) -> bool {
    for _ in 0..=model.threads.len() {
        if stuck.contains(&thread) {
            return true;
        }
        let fork = Effect::Thread(OnThread::Fork(thread));
        let mut events = model.trace.events.iter();
        match events.find(|event| event.op.effect() == fork) {
            Some(fork) => thread = fork.thread,
            None => return false,
        }
    }
    true
}
