//! One operation of a bug: what it does, where, with which locks held, and its source.

use norns_trace::effect::{OnLock, OnThread};
use norns_trace::{Effect, Event, EventIndex, Op, Touch, TouchKind, Trace};

use super::Sources;
use super::names::Names;
use super::visible::held_at;
use crate::describe::{
    describe, is_of_the_system, is_runtime, memory_name, object_name, origin, place_name,
    shown_frame,
};
use crate::expression::{self, Role};
use crate::sketch::{Frame, HeldLock, Operation, SourceLine};

/// Lines of source shown above and below an operation.
const SNIPPET_MARGIN: u32 = 3;
/// A source line is cut here, a stack here: a report stays small whatever the program holds.
const LONGEST_LINE: usize = 200;
const DEEPEST_STACK: usize = 64;

/// Everything that is shown of one operation of the bug.
pub(super) fn operation(
    trace: &Trace,
    index: EventIndex,
    sources: Sources,
    names: &Names,
) -> Operation {
    let event = &trace.events[index.index()];
    let history: Vec<EventIndex> = (0..index.index())
        .map(EventIndex::from_index)
        .filter(|other| trace.events[other.index()].thread == event.thread)
        .collect();
    let frame = shown_frame(trace, index).cloned().unwrap_or_default();
    let memory = Touch::of(event.op).filter(|touch| touch.kind != TouchKind::Atomic);
    Operation {
        thread: trace.thread(event.thread).name.clone(),
        what: names.apply(with_expression(trace, index, sources, doing(trace, index))),
        snippet: snippet(sources(&frame.file).as_deref(), frame.line),
        stack: stack(trace, &history, event),
        locks_held: held_at(trace, &history, index)
            .into_iter()
            .map(|(object, taken)| HeldLock {
                name: names.apply(object_name(trace, object)),
                taken_at: place_name(trace, taken),
                made_at: names.made_at(object),
            })
            .collect(),
        origin: memory
            .map(|touch| origin(trace, touch.access, index))
            .unwrap_or_default(),
        file: if frame.line == 0 && frame.file.is_empty() {
            place_name(trace, index)
        } else {
            frame.file
        },
        line: frame.line,
        function: frame.function,
    }
}

/// The text about an event with the source's own words for memory that has no name of its own.
pub(super) fn with_expression(
    trace: &Trace,
    index: EventIndex,
    sources: Sources,
    text: String,
) -> String {
    let event = &trace.events[index.index()];
    let Some(Touch {
        access,
        writes,
        kind,
        ..
    }) = Touch::of(event.op)
    else {
        return text;
    };
    let role = match (kind, writes) {
        (TouchKind::Plain, false) => Role::Read,
        (TouchKind::Plain, true) => Role::Write,
        (TouchKind::Free | TouchKind::Use | TouchKind::Destroy | TouchKind::Initialise, _) => {
            Role::Call
        }
        (TouchKind::Atomic | TouchKind::Allocate, _) => return text,
    };
    let whole = trace.symbol_at(access.address);
    if whole.is_some_and(|symbol| symbol.address == access.address) {
        return text;
    }
    let frame = trace.place(event.place).frames.first();
    let frame = frame.filter(|frame| !is_of_the_system(frame));
    let expression = frame.and_then(|frame| {
        let source = sources(&frame.file)?;
        let line = source.lines().nth(frame.line.checked_sub(1)? as usize)?;
        expression::at(line, frame.column, role)
    });
    match expression {
        Some(expression) => text.replace(&memory_name(trace, access), &expression),
        None => text,
    }
}

/// What the thread is about to do, as a verb in the third person.
fn doing(trace: &Trace, index: EventIndex) -> String {
    let event = &trace.events[index.index()];
    if let Op::Custom(_) = event.op {
        return format!("does `{}`", describe(trace, index).what);
    }
    let stands_before = || format!("is before `{}`", describe(trace, index).what);
    match event.op.effect() {
        Effect::Memory(touch) => {
            let memory = memory_name(trace, touch.access);
            match (touch.kind, touch.writes) {
                (TouchKind::Plain, false) => {
                    format!("reads {} bytes of `{memory}`", touch.access.size)
                }
                (TouchKind::Plain, true) => {
                    format!("writes {} bytes of `{memory}`", touch.access.size)
                }
                (TouchKind::Free, _) => format!("frees `{memory}`"),
                (TouchKind::Use, _) => format!("uses `{memory}`"),
                (TouchKind::Destroy, _) => format!("destroys `{memory}`"),
                (TouchKind::Initialise, _) => format!("initialises `{memory}`"),
                (TouchKind::Atomic | TouchKind::Allocate, _) => stands_before(),
            }
        }
        Effect::Lock(lock, OnLock::Acquire(_)) => {
            format!("waits for `{}`", object_name(trace, lock))
        }
        Effect::Lock(object, OnLock::FailedAcquire(_) | OnLock::Release)
        | Effect::Once(object, _)
        | Effect::Condition(object, _)
        | Effect::Barrier(object, _)
        | Effect::Semaphore(object, _) => {
            format!("waits at `{}`", object_name(trace, object))
        }
        Effect::Thread(OnThread::Join(child)) => {
            format!("waits for {} to end", trace.thread(child).name)
        }
        Effect::Thread(
            OnThread::Start
            | OnThread::End
            | OnThread::Fork(_)
            | OnThread::FailedJoin(_)
            | OnThread::Detach(_),
        )
        | Effect::Channel(..)
        | Effect::Local => stands_before(),
    }
}

/// The frames of the event's own place, then its callers from the recorded calls.
fn stack(trace: &Trace, history: &[EventIndex], event: &Event) -> Vec<Frame> {
    let mut calls: Vec<&Event> = Vec::new();
    for &index in history {
        let call = &trace.events[index.index()];
        if call.op == Op::Enter {
            calls.push(call);
        } else if call.op == Op::Leave {
            calls.pop();
        }
    }
    let own = trace.place(event.place).frames.iter();
    let callers = calls
        .iter()
        .rev()
        .flat_map(|call| trace.place(call.place).frames.iter());
    own.chain(callers)
        .filter(|frame| !is_runtime(frame))
        .map(|frame| Frame {
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
        })
        .take(DEEPEST_STACK)
        .collect()
}

/// The source around a line.
pub(super) fn snippet(source: Option<&str>, line: u32) -> Vec<SourceLine> {
    let Some(source) = source.filter(|_| line > 0) else {
        return Vec::new();
    };
    let first = line.saturating_sub(SNIPPET_MARGIN).max(1);
    source
        .lines()
        .zip(1..)
        .skip_while(|&(_, number)| number < first)
        .take_while(|&(_, number)| number <= line + SNIPPET_MARGIN)
        .map(|(text, number)| SourceLine {
            number,
            text: text.chars().take(LONGEST_LINE).collect(),
        })
        .collect()
}
