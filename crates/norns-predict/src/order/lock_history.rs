//! Lock acquisition histories: which locks each thread holds, and which it has acquired since.
//!
//! Two events cannot both be next if their threads hold the same lock, or if their histories
//! contradict each other (Kahlon et al. 2005): each thread acquired, after a lock that it still
//! holds, the lock that the other thread still holds.

use norns_model::Model;
use norns_trace::effect::OnLock;
use norns_trace::{Effect, EventIndex, Mode, ObjectId};

use crate::candidate::excludes;

/// A lock that a thread holds before an event.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub lock: ObjectId,
    pub mode: Mode,
    /// The position of the outermost acquisition in its thread.
    since: usize,
    /// How many acquisitions of the lock are not yet released.
    depth: u32,
}

/// What a thread holds from one of its lock operations to the next.
struct HeldFrom {
    /// The position after the lock operation.
    position: usize,
    locks: Vec<Held>,
}

struct Acquisition {
    position: usize,
    lock: ObjectId,
    mode: Mode,
}

/// The history of one thread, in program order.
#[derive(Default)]
struct ThreadHistory {
    held: Vec<HeldFrom>,
    acquired: Vec<Acquisition>,
}

pub struct LockHistory {
    threads: Vec<ThreadHistory>,
}

impl LockHistory {
    pub fn of(model: &Model<'_>) -> Self {
        let threads = model.threads.iter();
        LockHistory {
            threads: threads
                .map(|events| thread_history(model, events))
                .collect(),
        }
    }

    /// The locks that the event's thread holds just before the event.
    pub fn held_before(&self, model: &Model<'_>, event: EventIndex) -> &[Held] {
        let held = &self.threads[model.thread_of(event).index()].held;
        let position = model.position_of(event);
        let after = held.partition_point(|from| from.position <= position);
        after.checked_sub(1).map_or(&[], |k| &held[k].locks)
    }

    /// Whether the thread of `event` acquired the lock of `theirs`, in a mode that excludes `theirs`,
    /// between the acquisition of `mine` and the event.
    fn acquired_since(
        &self,
        model: &Model<'_>,
        event: EventIndex,
        mine: &Held,
        theirs: &Held,
    ) -> bool {
        let acquired = &self.threads[model.thread_of(event).index()].acquired;
        let from = acquired.partition_point(|a| a.position <= mine.since);
        let to = acquired.partition_point(|a| a.position < model.position_of(event));
        acquired[from..to.max(from)]
            .iter()
            .any(|a| a.lock == theirs.lock && excludes(a.mode, theirs.mode))
    }

    /// Whether locks alone prevent the two events from being next at the same time.
    pub fn contradict(&self, model: &Model<'_>, one: EventIndex, other: EventIndex) -> bool {
        self.held_before(model, one).iter().any(|mine| {
            self.held_before(model, other).iter().any(|theirs| {
                if mine.lock == theirs.lock {
                    return excludes(mine.mode, theirs.mode);
                }
                self.acquired_since(model, one, mine, theirs)
                    && self.acquired_since(model, other, theirs, mine)
            })
        })
    }
}

fn thread_history(model: &Model<'_>, events: &[EventIndex]) -> ThreadHistory {
    let mut history = ThreadHistory::default();
    let mut now: Vec<Held> = Vec::new();
    for (position, &event) in events.iter().enumerate() {
        let Effect::Lock(lock, act) = model.op(event).effect() else {
            continue;
        };
        match act {
            OnLock::Acquire(mode) => {
                history.acquired.push(Acquisition {
                    position,
                    lock,
                    mode,
                });
                let mut held = now.iter_mut();
                match held.find(|held| held.lock == lock && held.mode == mode) {
                    Some(held) => held.depth += 1,
                    None => now.push(Held {
                        lock,
                        mode,
                        since: position,
                        depth: 1,
                    }),
                }
            }
            OnLock::Release => {
                let mine = (0..now.len()).filter(|&k| now[k].lock == lock);
                // A thread that holds the lock in both modes releases `Mode::Write` first.
                let Some(k) = mine.max_by_key(|&k| now[k].mode) else {
                    continue;
                };
                now[k].depth -= 1;
                if now[k].depth == 0 {
                    now.remove(k);
                }
            }
            OnLock::FailedAcquire(_) => continue,
        }
        history.held.push(HeldFrom {
            position: position + 1,
            locks: now.clone(),
        });
    }
    history
}
