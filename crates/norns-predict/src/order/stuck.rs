//! Threads that can never go on: `Bug::Stuck`.
//!
//! That nothing can end a wait speaks of all continuations, not of one order. What the checker of
//! `norns-model` asks of the state can be said in one: all who are not stuck themselves and could
//! signal or post have done so for the last time; a broadcast came before the wait began, and so
//! did a signal where nobody else could have heard it. Without such a schedule the bug is
//! impossible. One that is found is a witness when the checker accepts it; otherwise the bug stays
//! open, since there may be others. (Who absorbs a signal where several wait, and how full a
//! barrier is, is left to the checker.)

use norns_model::{Bug, Model, Witness};
use norns_trace::{EventIndex, ObjectId, Op, ThreadId};

use super::{Earlier, Engine, Open, Outcome, previous};

impl Engine<'_> {
    pub(super) fn find_stuck(&mut self, blocked: Vec<EventIndex>) -> Outcome {
        let earlier = earlier(&self.model, &blocked);
        match self.schedule(&blocked, &earlier) {
            Err(Open::Impossible) => Outcome::Impossible,
            Err(Open::Undecided) => Outcome::Undecided,
            Ok(schedule) => {
                let bug = Bug::Stuck { blocked };
                let witness = Witness { schedule, bug };
                match self.checker.check(&witness) {
                    // It is a schedule, but nobody is stuck after it.
                    Err(refusal) if refusal.event.is_none() => Outcome::Undecided,
                    _ => {
                        self.check(&witness);
                        Outcome::Witness(witness)
                    }
                }
            }
        }
    }
}

/// What has taken place when these are stuck.
pub(super) fn earlier(model: &Model<'_>, blocked: &[EventIndex]) -> Vec<Earlier> {
    // Not what must come before them: that is what a thread that joins another waits for.
    let entries = blocked.iter().filter_map(|&event| previous(model, event));
    let mut found: Vec<Earlier> = entries.map(|entry| (entry, None)).collect();
    let stuck: Vec<ThreadId> = blocked
        .iter()
        .map(|&event| model.thread_of(event))
        .collect();
    let live: Vec<usize> = (0..model.threads.len())
        .filter(|&t| !may_be_dead(model, ThreadId::from_index(t), &stuck))
        .collect();
    let last = |t: usize, op: Op| {
        let events = model.threads[t].iter().rev();
        events.copied().find(|&event| model.op(event) == op)
    };
    for &event in blocked {
        if model.needed_before(event).next().is_some() {
            continue;
        }
        match model.op(event) {
            Op::Wait(o) if model.wait_needs_signal(event) => {
                let Some(entry) = previous(model, event) else {
                    continue;
                };
                let alone = waiters(model, o).all(|thread| thread == model.thread_of(event));
                for &t in &live {
                    found.extend(last(t, Op::Broadcast(o)).map(|b| (b, Some(entry))));
                    let latest = alone.then_some(entry);
                    found.extend(last(t, Op::Signal(o)).map(|signal| (signal, latest)));
                }
            }
            Op::SemWait(o) => {
                let posts = live.iter().filter_map(|&t| last(t, Op::SemPost(o)));
                found.extend(posts.map(|post| (post, None)));
            }
            _ => {}
        }
    }
    found
}

fn waiters(model: &Model<'_>, condition: ObjectId) -> impl Iterator<Item = ThreadId> {
    let events = model.trace.events.iter();
    events
        .filter(move |event| event.op == Op::Wait(condition))
        .map(|event| event.thread)
}

/// Whether the thread is one of these, or might not be forked because of them.
fn may_be_dead(model: &Model<'_>, mut thread: ThreadId, stuck: &[ThreadId]) -> bool {
    for _ in 0..=model.threads.len() {
        if stuck.contains(&thread) {
            return true;
        }
        let forks = model.trace.events.iter();
        match forks.clone().find(|event| event.op == Op::Fork(thread)) {
            Some(fork) => thread = fork.thread,
            None => return false,
        }
    }
    true
}
