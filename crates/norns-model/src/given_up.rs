//! Objects that are given up: the recorded order of their operations is none of the model's.
//!
//! The program did something to them that the model does not know, or something that is not seen did.
//! They are then taken to order nothing and to block nobody, and the rest of the trace is analysed as
//! always. More schedules are allowed then than the program has; what is predicted is for a replay to
//! try.
//!
//! A try can fail although, in the recorded order, it would not: an unlock is recorded just before it takes
//! effect and a lock just after, and the try came in between. Such a try says nothing of the lock, and is left
//! out alone.
//!
//! A once whose initialiser ran before the recording began, so before the first thread, also orders nothing and
//! blocks nobody. That is understood, and nothing is given up.

use std::borrow::Cow;

use rustc_hash::FxHashSet;

use norns_trace::effect::{Effect, Mode, OnLock, OnSemaphore};
use norns_trace::{EventIndex, MemoryOrder, ObjectId, Op, ThreadId, Trace};

use crate::checker::Checker;
use crate::not_analysed::NotAnalysed;
use crate::witness::Meaning;

/// With more objects than this, it is the trace that is not understood.
const MOST: usize = 32;

/// The trace without the operations on objects that are given up, and which these are. Every event
/// keeps its place.
pub fn give_up_objects(trace: &Trace) -> (Cow<'_, Trace>, Vec<NotAnalysed>) {
    let observed: Vec<EventIndex> = (0..trace.events.len())
        .map(EventIndex::from_index)
        .collect();
    let mut rest = without_done_onces(trace);
    leave_out_crossed_tries(&mut rest);
    let mut given_up = Vec::new();
    loop {
        // What reads see is the same in every meaning, as long as the order is the recorded one.
        let checker = Checker::new(&rest, Meaning::Optimistic);
        let Err(refusal) = checker.check_schedule(&observed) else {
            return (rest, given_up);
        };
        let object = refusal
            .event
            .and_then(|event| rest.events[event.index()].op.object());
        let Some(object) = object.filter(|_| given_up.len() < MOST) else {
            given_up.push(NotAnalysed::RecordedOrder(refusal));
            return (rest, given_up);
        };
        given_up.push(NotAnalysed::Object {
            name: name(trace, object),
            refusal,
        });
        take_out(&mut rest, |known| known == object);
    }
}

/// Puts what orders nothing in the place of all operations on these objects.
fn take_out(trace: &mut Cow<Trace>, is_one: impl Fn(ObjectId) -> bool) {
    for event in &mut trace.to_mut().events {
        if event.op.object().is_some_and(&is_one) {
            event.op = Op::Fence(MemoryOrder::Relaxed);
        }
    }
}

/// Takes out the tries that failed while, as recorded, they could have succeeded.
fn leave_out_crossed_tries(trace: &mut Cow<Trace>) {
    #[derive(Clone, Copy, Default)]
    struct Held {
        writer: Option<ThreadId>,
        levels: u32,
        /// Of a semaphore its value.
        readers: u32,
    }
    let mut held = vec![Held::default(); trace.objects.len()];
    let mut crossed = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        match event.op.effect() {
            Effect::Lock(lock, act) => {
                let held = &mut held[lock.index()];
                match act {
                    OnLock::Acquire(Mode::Write) => {
                        held.writer = Some(event.thread);
                        held.levels += 1;
                    }
                    OnLock::Acquire(Mode::Read) => held.readers += 1,
                    OnLock::Release if held.writer.is_none() => {
                        held.readers = held.readers.saturating_sub(1);
                    }
                    OnLock::Release => {
                        held.levels = held.levels.saturating_sub(1);
                        held.writer = held.writer.filter(|_| held.levels > 0);
                    }
                    OnLock::FailedAcquire(mode) => {
                        let is_free = mode == Mode::Read || held.readers == 0;
                        if held.writer.is_none() && is_free {
                            crossed.push(index);
                        }
                    }
                }
            }
            Effect::Semaphore(semaphore, act) => {
                let value = &mut held[semaphore.index()].readers;
                match act {
                    OnSemaphore::Init(first) => *value = first,
                    OnSemaphore::Post => *value = value.saturating_add(1),
                    OnSemaphore::Wait => *value = value.saturating_sub(1),
                    OnSemaphore::FailedWait if *value > 0 => crossed.push(index),
                    OnSemaphore::FailedWait => {}
                }
            }
            Effect::Thread(_)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Channel(..)
            | Effect::Memory(_)
            | Effect::Local => {}
        }
    }
    if !crossed.is_empty() {
        let events = &mut trace.to_mut().events;
        for index in crossed {
            events[index].op = Op::Fence(MemoryOrder::Relaxed);
        }
    }
}

/// The trace without the passes of onces that no thread of it initialises.
fn without_done_onces(trace: &Trace) -> Cow<'_, Trace> {
    let (mut passed, mut begun) = (FxHashSet::default(), FxHashSet::default());
    for event in &trace.events {
        if let Op::OncePass(once) = event.op {
            passed.insert(once);
        } else if let Op::OnceBegin(once) = event.op {
            begun.insert(once);
        }
    }
    let mut rest = Cow::Borrowed(trace);
    passed.retain(|once| !begun.contains(once));
    if !passed.is_empty() {
        take_out(&mut rest, |object| passed.contains(&object));
    }
    rest
}

fn name(trace: &Trace, id: ObjectId) -> String {
    let object = trace.object(id);
    let symbol = trace.symbol_at(object.address);
    match (object.name.as_str(), symbol) {
        ("", Some(symbol)) => symbol.name.clone(),
        ("", None) => format!("the {} at {:#x}", object.kind.word(), object.address),
        (name, _) => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::trace;

    #[test]
    fn only_the_object_that_is_not_understood_is_given_up() {
        let trace = trace(
            "A: lock m, lock n
             B: lock m, unlock m
             A: unlock n",
        );
        let (rest, given_up) = give_up_objects(&trace);
        assert_eq!(given_up.len(), 1);
        let kept = |op: &Op| op.object().is_some();
        let kept: Vec<bool> = rest.events.iter().map(|event| kept(&event.op)).collect();
        assert_eq!(kept, [false, true, false, false, true]);
    }

    #[test]
    fn a_try_that_an_unlock_crossed_is_left_out_alone() {
        let trace = trace(
            "A: lock m, unlock m
             B: try-lock m
             A: lock m
             B: try-lock m
             A: unlock m",
        );
        let (rest, given_up) = give_up_objects(&trace);
        assert_eq!(given_up, []);
        let kept = |op: &Op| op.object().is_some();
        let kept: Vec<bool> = rest.events.iter().map(|event| kept(&event.op)).collect();
        assert_eq!(kept, [true, true, false, true, true, true]);
    }

    #[test]
    fn a_once_that_was_done_before_the_recording_is_understood() {
        let trace = trace(
            "A: once-pass o, once-begin p, once-end p
             B: once-pass o, once-pass p",
        );
        let (rest, given_up) = give_up_objects(&trace);
        assert_eq!(given_up, []);
        let kept: Vec<bool> = { rest.events.iter() }
            .map(|event| event.op.object().is_some())
            .collect();
        assert_eq!(kept, [false, true, true, false, true]);
    }

    #[test]
    fn what_is_understood_stays() {
        let trace = trace("A: lock m, unlock m\nB: lock m, unlock m");
        let (rest, given_up) = give_up_objects(&trace);
        assert_eq!(given_up, []);
        assert!(matches!(rest, Cow::Borrowed(_)));
    }
}
