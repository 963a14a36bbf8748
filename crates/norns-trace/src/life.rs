//! The life of synchronisation objects: their uses as accesses to memory.
//!
//! To lock a mutex while another thread destroys it, makes it anew or frees its memory is a bug of the
//! same shape as a data race. So where such an end is not obviously ordered, every operation on the
//! object is preceded by a `Use`, a read of its first byte; `Destroy` and `Initialise` write that byte,
//! and `Free` writes all of its block. All analyses of races then look for this one too.
//!
//! POSIX allows to destroy an object as soon as no thread needs it any more, also while others still
//! return from their calls: a condition after it has woken its waiters, a barrier after it was left, a
//! mutex after it was unlocked. So a use stands before its operation, and of a wait only the use of the
//! mutex, which is locked again, stands after it.
//!
//! Descriptors have the same life: the runtime tells their uses and their end, at addresses that stand
//! for them (`norns_wire::descriptor_address`). Here those are left out that no other thread ends.
//!
//! Libraries that are not instrumented may count references with atomic operations that nobody sees.
//! So only what the program's own code does counts, and what the C++ library does for it.
//!
//! An end is obviously ordered if all other threads that use the object were joined by then.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::effect::{Effect, OnBarrier, OnCondition, OnLock, OnSemaphore, OnThread};
use crate::event::{Access, Event, EventIndex, ObjectId, Op, ThreadId};
use crate::trace::{SourcePlace, Trace};
use norns_wire::descriptor_number;

/// Adds the uses of objects whose life may end too early.
pub fn show_uses(trace: &mut Trace) {
    let own = own_places(trace);
    let mortal = find(trace, &own);
    let is_left_out = |event: &Event| {
        let (Op::Use(object) | Op::Destroy(object) | Op::Initialise(object)) = event.op else {
            return false;
        };
        let safe = descriptor_number(object.address).is_some();
        !own[event.place.index()] || safe && !mortal.contains(&object.address)
    };
    if mortal.is_empty() && !trace.events.iter().any(is_left_out) {
        return;
    }
    let next = next_in_thread(trace);
    let use_of = |object: Option<ObjectId>, event: Event| {
        let access = Access {
            address: trace.object(object?).address,
            size: 1,
        };
        let op = Op::Use(access);
        mortal
            .contains(&access.address)
            .then_some(Event { op, ..event })
    };
    let mut events = Vec::with_capacity(trace.events.len());
    // By event: where it is now.
    let mut moved = Vec::with_capacity(trace.events.len());
    let mut last = vec![Op::Start; trace.threads.len()];
    for (i, &event) in trace.events.iter().enumerate() {
        let last = std::mem::replace(&mut last[event.thread.index()], event.op);
        let next = next[i].map(|next: u32| trace.events[next as usize].op);
        let ([first, second], after) = used(event.op, last, next);
        if is_left_out(&event) {
            moved.push(EventIndex::from_index(events.len()));
            continue;
        }
        // A trace that was written with its uses has them already.
        if !matches!(last, Op::Use(_)) && own[event.place.index()] {
            events.extend(use_of(first, event));
            events.extend(use_of(second, event));
        }
        moved.push(EventIndex::from_index(events.len()));
        events.push(event);
        if !matches!(next, Some(Op::Use(_))) && own[event.place.index()] {
            events.extend(use_of(after, event));
        }
    }
    for value in &mut trace.values {
        value.event = moved[value.event.index()];
    }
    trace.events = events;
}

/// The objects that an operation uses: from before it on, and until after it. `last` and `next` are
/// its neighbours in the thread: a wait is an unlock, the wait, and a lock.
fn used(op: Op, last: Op, next: Option<Op>) -> ([Option<ObjectId>; 2], Option<ObjectId>) {
    let waits = |op: Op| {
        let Effect::Condition(condition, OnCondition::Wait | OnCondition::TimedOut) = op.effect()
        else {
            return None;
        };
        Some(condition)
    };
    match op.effect() {
        Effect::Lock(lock, OnLock::Acquire(_)) if waits(last).is_some() => {
            ([None, None], Some(lock))
        }
        Effect::Lock(lock, OnLock::Release) => ([Some(lock), next.and_then(waits)], None),
        Effect::Lock(object, _)
        | Effect::Condition(object, OnCondition::Signal | OnCondition::Broadcast)
        | Effect::Barrier(object, OnBarrier::Enter)
        | Effect::Semaphore(
            object,
            OnSemaphore::Wait | OnSemaphore::FailedWait | OnSemaphore::Post,
        ) => ([Some(object), None], None),
        Effect::Condition(_, OnCondition::Wait | OnCondition::TimedOut)
        | Effect::Barrier(_, OnBarrier::Init(_) | OnBarrier::Exit)
        | Effect::Semaphore(_, OnSemaphore::Init(_))
        | Effect::Once(..)
        | Effect::Channel(..)
        | Effect::Thread(_)
        | Effect::Memory(_)
        | Effect::Local => ([None, None], None),
    }
}

fn next_in_thread(trace: &Trace) -> Vec<Option<u32>> {
    let mut next = vec![None; trace.events.len()];
    let mut later = vec![None; trace.threads.len()];
    for (i, event) in trace.events.iter().enumerate().rev() {
        next[i] = later[event.thread.index()].replace(i as u32);
    }
    next
}

/// For every place whether it is in the program's own code, or in the C++ library. Without symbols all
/// places are taken to be.
fn own_places(trace: &Trace) -> Vec<bool> {
    let is_own = |frame: &SourcePlace| {
        frame.line > 0 && !frame.file.starts_with("/usr/") || frame.function.starts_with("std::")
    };
    let places = trace.places.iter();
    if places.clone().all(|place| place.frames.is_empty()) {
        return vec![true; trace.places.len()];
    }
    places
        .map(|place| place.frames.iter().any(is_own))
        .collect()
}

/// The addresses of objects whose life one thread ends or begins while another one may use them.
fn find(trace: &Trace, own: &[bool]) -> FxHashSet<u64> {
    let mut users: BTreeMap<u64, FxHashSet<ThreadId>> = BTreeMap::new();
    let mut seen: FxHashSet<(ObjectId, ThreadId)> = FxHashSet::default();
    for event in trace.events.iter().filter(|event| own[event.place.index()]) {
        if let Op::Use(object) = event.op
            && descriptor_number(object.address).is_some()
        {
            users
                .entry(object.address)
                .or_default()
                .insert(event.thread);
        }
        let (Effect::Lock(object, _)
        | Effect::Condition(object, _)
        | Effect::Barrier(object, OnBarrier::Enter | OnBarrier::Exit)
        | Effect::Semaphore(
            object,
            OnSemaphore::Wait | OnSemaphore::FailedWait | OnSemaphore::Post,
        )) = event.op.effect()
        else {
            continue;
        };
        let address = trace.object(object).address;
        if address > 0 && seen.insert((object, event.thread)) {
            users.entry(address).or_default().insert(event.thread);
        }
    }
    let mut mortal = FxHashSet::default();
    // By thread: the threads that it has joined, itself or through others.
    let mut joined: Vec<FxHashSet<ThreadId>> = vec![FxHashSet::default(); trace.threads.len()];
    for event in &trace.events {
        if let Effect::Thread(OnThread::Join(child)) = event.op.effect() {
            let theirs = std::mem::take(&mut joined[child.index()]);
            let ours = &mut joined[event.thread.index()];
            ours.extend(theirs);
            ours.insert(child);
        }
        let (Op::Destroy(life) | Op::Initialise(life) | Op::Free(life)) = event.op else {
            continue;
        };
        let end = life.address + u64::from(life.size);
        for (&address, users) in users.range(life.address..end) {
            let joined = &joined[event.thread.index()];
            if users
                .iter()
                .any(|user| *user != event.thread && !joined.contains(user))
            {
                mortal.insert(address);
            }
        }
    }
    mortal
}
