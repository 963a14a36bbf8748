//! Wait loops that never had to wait: what made their condition true comes first in every schedule.
//!
//! A thread that finds its condition true at once leaves no wait in the trace, only the exit of its loop,
//! which the plug-in for clang marks. After section 4.3.2 of Carril (2017) such an exit counts as a wait
//! that was over: it needs what made the condition true. That is taken to be a critical section of the same
//! mutex, in another thread, which wrote something that this thread read under the mutex before it left
//! the loop; where no such reads are known, one that signals the condition. A `Send` before that section's
//! unlock and a `Receive` at the exit keep the order; the lock itself had ordered them in the run.
//!
//! Of several sections the first since the thread last held the mutex is taken, since its writes may have
//! been enough. Gets wrong: a condition that was true from the beginning, of a semaphore that starts with
//! a count. Schedules in which the exit comes first are then not looked for.

use rustc_hash::FxHashMap;

use crate::effect::{Effect, OnCondition, OnLock, Touch};
use crate::event::{Access, Event, EventIndex, ObjectId, Op, ThreadId};
use crate::trace::{Object, ObjectKind, Trace};

/// A critical section, as positions in the events of its thread.
struct Section {
    thread: ThreadId,
    begin: usize,
    end: usize,
    unlock: EventIndex,
}

/// Adds the orders of wait loops that never waited. Their exits become receives.
pub fn order(trace: &mut Trace) {
    let is_exit = |event: &Event| matches!(event.op, Op::LoopExit(_));
    if !trace.events.iter().any(is_exit) {
        return;
    }
    let orders = find(trace);
    let mut sends: FxHashMap<EventIndex, Vec<ObjectId>> = FxHashMap::default();
    for (unlock, exit) in orders {
        let channel = ObjectId::from_index(trace.objects.len());
        trace.objects.push(Object {
            kind: ObjectKind::Channel,
            address: 0,
            name: String::new(),
        });
        trace.events[exit.index()].op = Op::Receive(channel);
        sends.entry(unlock).or_default().push(channel);
    }
    let mut events = Vec::with_capacity(trace.events.len() + sends.len());
    // By event: where it is now.
    let mut moved = Vec::with_capacity(trace.events.len());
    for (i, &event) in trace.events.iter().enumerate() {
        let channels = sends.get(&EventIndex::from_index(i)).into_iter().flatten();
        events.extend(channels.map(|&channel| Event {
            op: Op::Send(channel),
            ..event
        }));
        moved.push(EventIndex::from_index(events.len()));
        events.push(event);
    }
    for value in &mut trace.values {
        value.event = moved[value.event.index()];
    }
    trace.events = events;
}

/// For each exit that needs one, the unlock that comes before it.
fn find(trace: &Trace) -> Vec<(EventIndex, EventIndex)> {
    let mut of_thread: Vec<Vec<EventIndex>> = vec![Vec::new(); trace.threads.len()];
    // By thread: the locks that it holds, each with the position of its acquisition.
    let mut held: Vec<Vec<(ObjectId, usize)>> = vec![Vec::new(); trace.threads.len()];
    let mut sections: FxHashMap<ObjectId, Vec<Section>> = FxHashMap::default();
    // By thread and mutex: how many sections there were when it last released the mutex.
    let mut known: FxHashMap<(ThreadId, ObjectId), usize> = FxHashMap::default();
    let mut orders = Vec::new();
    for (i, event) in trace.events.iter().enumerate() {
        let here = EventIndex::from_index(i);
        let thread = event.thread;
        let position = of_thread[thread.index()].len();
        of_thread[thread.index()].push(here);
        let held = &mut held[thread.index()];
        if let Effect::Lock(lock, act) = event.op.effect() {
            match act {
                OnLock::Acquire(_) => held.push((lock, position)),
                OnLock::Release => {
                    let Some(at) = held.iter().rposition(|(other, _)| *other == lock) else {
                        continue;
                    };
                    let (_, begin) = held.remove(at);
                    let all = sections.entry(lock).or_default();
                    all.push(Section {
                        thread,
                        begin,
                        end: position,
                        unlock: here,
                    });
                    known.insert((thread, lock), all.len());
                }
                OnLock::FailedAcquire(_) => {}
            }
        }
        let Op::LoopExit(condition) = event.op else {
            continue;
        };
        let Some(&(mutex, begin)) = held.last() else {
            continue;
        };
        let own = &of_thread[thread.index()];
        if begin > 0 && has_waited(trace, own[begin - 1]) {
            continue;
        }
        let reads: Vec<Access> = touches(trace, &own[begin..position])
            .filter(|touch| touch.reads)
            .map(|touch| touch.access)
            .collect();
        let from = known.get(&(thread, mutex)).copied().unwrap_or(0);
        let earlier = sections
            .get(&mutex)
            .map_or(&[][..], |all| &all[from.min(all.len())..]);
        let makes_true = |section: &&Section| {
            let events = &of_thread[section.thread.index()];
            section.thread != thread
                && match reads.is_empty() {
                    true => signals(
                        trace,
                        &events[section.begin..],
                        section.end - section.begin,
                        condition,
                    ),
                    false => touches(trace, &events[section.begin..section.end])
                        .filter(|touch| touch.writes)
                        .any(|write| reads.iter().any(|read| read.overlaps(write.access))),
                }
        };
        if let Some(section) = earlier.iter().find(makes_true) {
            orders.push((section.unlock, here));
        }
    }
    orders
}

fn has_waited(trace: &Trace, event: EventIndex) -> bool {
    matches!(
        trace.events[event.index()].op.effect(),
        Effect::Condition(_, OnCondition::Wait | OnCondition::TimedOut)
    )
}

/// The accesses of these events to memory.
fn touches(trace: &Trace, events: &[EventIndex]) -> impl Iterator<Item = Touch> {
    let ops = events.iter().map(|event| trace.events[event.index()].op);
    ops.filter_map(Touch::of)
}

/// Whether the condition is signalled in the section, or after it before the thread locks again.
fn signals(trace: &Trace, events: &[EventIndex], end: usize, condition: ObjectId) -> bool {
    for (i, event) in events.iter().enumerate() {
        match trace.events[event.index()].op.effect() {
            Effect::Condition(object, OnCondition::Signal | OnCondition::Broadcast)
                if object == condition =>
            {
                return true;
            }
            Effect::Lock(_, OnLock::Acquire(_)) if i > end => return false,
            Effect::Thread(_)
            | Effect::Lock(..)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => {}
        }
    }
    false
}
