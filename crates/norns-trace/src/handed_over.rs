//! Mutexes that are handed over: one thread locks them, another one unlocks them.
//!
//! POSIX leaves this undefined, but glibc frees a normal mutex or a spin lock whoever unlocks it. Such
//! a lock has no owner and no critical sections: it is a semaphore. Its operations become `Take`,
//! `FailedTake` and `Give`, so that the model goes on with what the program really does. An unlock
//! that found the lock free stays an `Unlock`, which releases nothing.
//!
//! The value of a semaphore counts, while a mutex that is unlocked twice is only free: in other orders
//! than the recorded one the model may then allow more than the program can do. A mutex that a wait on
//! a condition releases too is left as it is.

use rustc_hash::FxHashSet;

use crate::effect::{Effect, Mode, OnCondition, OnLock};
use crate::event::{ObjectId, Op, ThreadId};
use crate::trace::{ObjectKind, Trace};

/// Renames the operations on locks that are handed over.
pub fn rename(trace: &mut Trace) {
    let handed_over = find(trace);
    if handed_over.is_empty() {
        return;
    }
    let mut holder = vec![None; trace.objects.len()];
    for event in &mut trace.events {
        let Effect::Lock(lock, act) = event.op.effect() else {
            continue;
        };
        if !handed_over.contains(&lock) {
            continue;
        }
        let holder = &mut holder[lock.index()];
        event.op = match act {
            OnLock::Acquire(_) => {
                *holder = Some(event.thread);
                Op::Take(lock)
            }
            OnLock::FailedAcquire(_) => Op::FailedTake(lock),
            OnLock::Release if holder.take().is_some() => Op::Give(lock),
            OnLock::Release => event.op,
        };
    }
}

fn find(trace: &Trace) -> FxHashSet<ObjectId> {
    let mut holder: Vec<Option<ThreadId>> = vec![None; trace.objects.len()];
    let mut handed_over = FxHashSet::default();
    let mut with_condition = FxHashSet::default();
    // By thread: the lock that its last event released.
    let mut released: Vec<Option<ObjectId>> = vec![None; trace.threads.len()];
    for event in &trace.events {
        let released = &mut released[event.thread.index()];
        let just_released = released.take();
        match event.op.effect() {
            Effect::Lock(lock, OnLock::Acquire(Mode::Write)) => {
                holder[lock.index()] = Some(event.thread);
            }
            Effect::Lock(lock, OnLock::Release) => {
                let has_no_owner = matches!(
                    trace.object(lock).kind,
                    ObjectKind::Mutex | ObjectKind::SpinLock
                );
                let holder = holder[lock.index()].take();
                if has_no_owner && holder.is_some_and(|holder| holder != event.thread) {
                    handed_over.insert(lock);
                }
                *released = Some(lock);
            }
            Effect::Condition(_, OnCondition::Wait | OnCondition::TimedOut) => {
                with_condition.extend(just_released);
            }
            Effect::Lock(_, OnLock::Acquire(Mode::Read) | OnLock::FailedAcquire(_))
            | Effect::Condition(_, OnCondition::Signal | OnCondition::Broadcast)
            | Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => {}
        }
    }
    handed_over.retain(|lock| !with_condition.contains(lock));
    handed_over
}
