//! Misuse of locks and conditions that a recorded run shows.
//!
//! What glibc's own data tells at the moment of the call, the runtime notes as a `Misuse` event just
//! before the operation. Two sorts need more than one call: a lock that a thread still holds when it
//! ends, and waits on one condition at the same time with different mutexes. These happened: no other
//! schedule is asked for.
//!
//! `WaitOnce` and `TestUnlocked` are known by the plug-in for clang: the run shows that the program comes
//! there, not that it goes wrong.
//!
//! A lock that its thread never released but another one did is only reported there, and a robust
//! mutex may be left locked. What was destroyed or freed while it was held is another bug: its later
//! release belongs to no lock.

use std::collections::BTreeMap;

use norns_trace::effect::{OnCondition, OnLock, OnThread};
use norns_trace::{
    Effect, Event, EventIndex, ObjectId, ObjectKind, Op, PlaceId, ThreadId, Trace, misuse,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    UnlockNotLocked,
    UnlockOfOther,
    WaitNotLocked,
    DestroyLocked,
    LeftLocked,
    TwoMutexes,
    UseDestroyed,
    DestroyWaited,
    Contradicted,
    WaitOnce,
    TestUnlocked,
}

impl How {
    /// What the runtime means by one of `norns_wire::misuse`.
    fn of_note(note: u32) -> Option<How> {
        match u64::from(note) {
            misuse::UNLOCK_NOT_LOCKED => Some(How::UnlockNotLocked),
            misuse::UNLOCK_OF_OTHER => Some(How::UnlockOfOther),
            misuse::WAIT_NOT_LOCKED => Some(How::WaitNotLocked),
            misuse::DESTROY_LOCKED => Some(How::DestroyLocked),
            misuse::USE_DESTROYED => Some(How::UseDestroyed),
            misuse::DESTROY_WAITED => Some(How::DestroyWaited),
            misuse::CONTRADICTED => Some(How::Contradicted),
            misuse::WAIT_ONCE => Some(How::WaitOnce),
            misuse::TEST_UNLOCKED => Some(How::TestUnlocked),
            _ => None,
        }
    }
}

/// One misuse, as often as it happened at these places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misuse {
    pub how: How,
    /// The misused object.
    pub object: ObjectId,
    /// What was done wrong, the first time; of `TwoMutexes` both unlocks that begin the waits.
    pub events: Vec<EventIndex>,
}

/// All misuses in a trace, one for each way and set of places, in the order of the trace.
pub fn misuses(trace: &Trace) -> Vec<Misuse> {
    let mut found = Found::default();
    noted(trace, &mut found);
    left_locked(trace, &mut found);
    two_mutexes(trace, &mut found);
    let mut all: Vec<Misuse> = found.0.into_values().collect();
    all.sort_by_key(|misuse| (misuse.events[0], misuse.how));
    all
}

#[derive(Default)]
struct Found(BTreeMap<(How, Vec<PlaceId>), Misuse>);

impl Found {
    fn add(&mut self, trace: &Trace, how: How, object: ObjectId, events: Vec<EventIndex>) {
        let place = |event: &EventIndex| trace.events[event.index()].place;
        let mut places: Vec<PlaceId> = events.iter().map(place).collect();
        places.sort_unstable();
        self.0.entry((how, places)).or_insert(Misuse {
            how,
            object,
            events,
        });
    }
}

/// What the runtime has noted and the events before it do not contradict.
///
/// The runtime reads the bytes of the object, which are not those of a lock any more when its memory was
/// freed. So a thread that has locked an object, and not unlocked it since, does not misuse it by an
/// unlock or a wait; a lock that another one is said to hold was locked by somebody; and of memory that is
/// freed nothing is believed: that is a use after free. Before the first thread the locks are not in the
/// trace, and the runtime has compared its notes with them itself.
fn noted(trace: &Trace, found: &mut Found) {
    let mut holders = Holders::new(trace);
    for (i, event) in trace.events.iter().enumerate() {
        if let Op::Misuse { object, how } = event.op
            && let Some(how) = How::of_note(how)
            && holders.agree(trace.object(object).address, event.thread, how)
        {
            found.add(trace, how, object, vec![EventIndex::from_index(i)]);
        }
        holders.step(event);
    }
}

/// Who holds which locks, by their addresses, in a walk over a trace.
struct Holders<'t> {
    trace: &'t Trace,
    /// By thread: what it has locked and not unlocked, whatever became of the lock.
    held: Vec<Vec<u64>>,
    /// By thread: the lock that its last event has released, which may be the beginning of a wait.
    released: Vec<Option<u64>>,
    /// The first addresses and ends of blocks that were freed and not allocated again.
    freed: BTreeMap<u64, u64>,
    has_forked: bool,
}

impl<'t> Holders<'t> {
    fn new(trace: &'t Trace) -> Self {
        Holders {
            trace,
            held: vec![Vec::new(); trace.threads.len()],
            released: vec![None; trace.threads.len()],
            freed: BTreeMap::new(),
            has_forked: false,
        }
    }

    /// Whether the events so far allow this misuse of the object at the address.
    fn agree(&self, object: u64, thread: ThreadId, how: How) -> bool {
        if !self.has_forked {
            return true;
        }
        let freed = self.freed.range(..=object).next_back();
        if freed.is_some_and(|(_, &end)| object < end) {
            return false;
        }
        let holds = |held: &Vec<u64>| held.contains(&object);
        let is_held = self.held.iter().any(holds);
        match how {
            How::UnlockNotLocked | How::WaitNotLocked => !holds(&self.held[thread.index()]),
            How::UnlockOfOther => is_held && !holds(&self.held[thread.index()]),
            How::DestroyLocked => is_held || self.released.contains(&Some(object)),
            How::UseDestroyed
            | How::DestroyWaited
            | How::Contradicted
            | How::WaitOnce
            | How::TestUnlocked
            | How::LeftLocked
            | How::TwoMutexes => true,
        }
    }

    fn step(&mut self, event: &Event) {
        let thread = event.thread.index();
        if !matches!(
            event.op,
            Op::Enter | Op::Leave | Op::Use(_) | Op::Misuse { .. }
        ) {
            self.released[thread] = None;
        }
        if let Op::Free(block) = event.op {
            let end = block.address + u64::from(block.size);
            self.freed.insert(block.address, end);
        }
        if let Op::Allocate(block) = event.op {
            let end = block.address + u64::from(block.size);
            while let Some((&start, &freed)) = self.freed.range(..end).next_back()
                && freed > block.address
            {
                self.freed.remove(&start);
            }
        }
        // A lock that some thread releases for another one is taken and given.
        if let Op::Take(lock) = event.op {
            self.held[thread].push(self.trace.object(lock).address);
        }
        if let Op::Give(lock) = event.op {
            self.release(thread, self.trace.object(lock).address);
        }
        match event.op.effect() {
            Effect::Lock(lock, OnLock::Acquire(_)) => {
                self.held[thread].push(self.trace.object(lock).address);
            }
            Effect::Lock(lock, OnLock::Release) => {
                self.release(thread, self.trace.object(lock).address);
            }
            Effect::Thread(OnThread::Fork(_)) => self.has_forked = true,
            Effect::Lock(_, OnLock::FailedAcquire(_))
            | Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => {}
        }
    }

    /// A thread has released a lock: its own, or for another thread.
    fn release(&mut self, thread: usize, lock: u64) {
        self.released[thread] = Some(lock);
        let own = std::iter::once(thread);
        for thread in own.chain(0..self.held.len()) {
            let held = &mut self.held[thread];
            if let Some(at) = held.iter().rposition(|&other| other == lock) {
                held.remove(at);
                return;
            }
        }
    }
}

/// Locks that a thread holds when it ends, each at its last acquisition that was not released.
fn left_locked(trace: &Trace, found: &mut Found) {
    let mut held: Vec<Vec<(ObjectId, EventIndex)>> = vec![Vec::new(); trace.threads.len()];
    let mut left: Vec<(ObjectId, EventIndex)> = Vec::new();
    for (i, event) in trace.events.iter().enumerate() {
        if let Op::Destroy(life) | Op::Free(life) = event.op {
            let ends = life.address..life.address + u64::from(life.size);
            for held in &mut held {
                held.retain(|&(lock, _)| !ends.contains(&trace.object(lock).address));
            }
        }
        let held = &mut held[event.thread.index()];
        match event.op.effect() {
            Effect::Lock(lock, OnLock::Acquire(_)) => held.push((lock, EventIndex::from_index(i))),
            Effect::Lock(lock, OnLock::Release) => {
                match held.iter().rposition(|&(other, _)| other == lock) {
                    Some(at) => {
                        held.remove(at);
                    }
                    // Released for another thread, which may have ended by now.
                    None => left.retain(|&(other, _)| other != lock),
                }
            }
            Effect::Thread(OnThread::End) => left.append(held),
            Effect::Lock(_, OnLock::FailedAcquire(_))
            | Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => {}
        }
    }
    for (lock, event) in left {
        if trace.object(lock).kind != ObjectKind::RobustMutex {
            found.add(trace, How::LeftLocked, lock, vec![event]);
        }
    }
}

/// Waits on one condition at the same time with different mutexes.
fn two_mutexes(trace: &Trace, found: &mut Found) {
    // By thread: the mutex that its last event released, and where.
    let mut released: Vec<Option<(ObjectId, EventIndex)>> = vec![None; trace.threads.len()];
    // A wait is known to have begun with its unlock only when it ends.
    let mut waits: BTreeMap<ObjectId, Vec<Wait>> = BTreeMap::new();
    for (i, event) in trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        let released = &mut released[event.thread.index()];
        match event.op.effect() {
            Effect::Lock(lock, OnLock::Release) => *released = Some((lock, here)),
            Effect::Condition(condition, OnCondition::Wait | OnCondition::TimedOut) => {
                if let Some((mutex, begin)) = released.take() {
                    waits.entry(condition).or_default().push(Wait {
                        thread: event.thread,
                        mutex,
                        begin,
                        end: here,
                    });
                }
            }
            Effect::Condition(_, OnCondition::Signal | OnCondition::Broadcast)
            | Effect::Lock(_, OnLock::Acquire(_) | OnLock::FailedAcquire(_))
            | Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => *released = None,
        }
    }
    for (condition, mut waits) in waits {
        waits.sort_by_key(|wait| wait.begin);
        // Of the waits so far with each mutex, the one that ends last.
        let mut latest: BTreeMap<ObjectId, Wait> = BTreeMap::new();
        for wait in waits {
            for other in latest.values().filter(|other| {
                let overlap = other.end > wait.begin && other.thread != wait.thread;
                other.mutex != wait.mutex && overlap
            }) {
                let events = vec![other.begin, wait.begin];
                found.add(trace, How::TwoMutexes, condition, events);
            }
            let kept = latest.entry(wait.mutex).or_insert(wait);
            if kept.end < wait.end {
                *kept = wait;
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Wait {
    thread: ThreadId,
    mutex: ObjectId,
    begin: EventIndex,
    end: EventIndex,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::trace;

    fn check(script: &str, expected: &[(How, &[u32])]) {
        let trace = trace(script);
        let found: Vec<(How, Vec<u32>)> = misuses(&trace)
            .into_iter()
            .map(|misuse| (misuse.how, misuse.events.iter().map(|e| e.0).collect()))
            .collect();
        let expected: Vec<_> = expected.iter().map(|(how, e)| (*how, e.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_lock_that_is_held_at_the_end_is_left() {
        check(
            "A: start, lock m:recursive, lock m, unlock m, end",
            &[(How::LeftLocked, &[1])],
        );
        check("A: start, lock m, unlock m, end", &[]);
        check("A: start, lock m:robust, end", &[]);
        check("A: start, lock m", &[]);
        check("A: start, lock m, end\nB: unlock m", &[]);
    }

    #[test]
    fn a_lock_that_was_destroyed_is_not_left() {
        let mut trace = trace("A: start, lock m\nB: destroy m\nA: end");
        trace.objects[0].address = trace.symbols[0].address;
        assert_eq!(misuses(&trace), []);
    }

    #[test]
    fn waits_at_the_same_time_with_two_mutexes() {
        check(
            "A: lock m, unlock m
             B: lock n, unlock n
             C: broadcast c
             A: wait c, lock m
             B: wait c, lock n",
            &[(How::TwoMutexes, &[1, 3])],
        );
        check(
            "A: lock m, unlock m
             C: signal c
             A: wait c, lock m
             B: lock n, unlock n
             C: signal c
             B: wait c, lock n",
            &[],
        );
    }

    #[test]
    fn the_runtime_notes_the_others() {
        check(
            "A: lock m, unlock m, misuse m, unlock m",
            &[(How::UnlockNotLocked, &[2])],
        );
    }

    #[test]
    fn a_note_that_the_events_contradict_is_garbage() {
        check("A: fork B, lock m, misuse m, unlock m", &[]);
        check(
            "A: fork B, lock m\nB: misuse m, unlock m",
            &[(How::UnlockNotLocked, &[2])],
        );
        let mut freed = trace("A: fork B, lock m, unlock m, free b, misuse m");
        freed.objects[0].address = freed.symbols[0].address;
        assert_eq!(misuses(&freed), []);
    }
}
