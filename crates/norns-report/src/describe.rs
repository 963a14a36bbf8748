//! An event in a few words, as every view shows it.
//!
//! Names come from symbols where the trace has them. `origin` looks a heap block up by scanning
//! the trace: it is for the few operations of a bug.

use norns_model::Bug;
use norns_trace::effect::{OnBarrier, OnCondition, OnLock, OnSemaphore, OnThread};
use norns_trace::origin::How;
use norns_trace::{
    Access, AtomicKind, Effect, Event, EventIndex, Mode, ObjectId, ObjectKind, Op, SourcePlace,
    Touch, TouchKind, Trace, descriptor_number,
};
use norns_wire::environment::{FAILURE, Failing};
use serde::{Deserialize, Serialize};

use crate::finding::AccessKind;
use crate::kind::Kind;

/// What kind of step this is: decides the shape and colour of its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    Read,
    Write,
    Free,
    /// Acquires or releases a lock.
    Lock,
    Sync,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub mark: Mark,
    pub what: String,
    /// The value read or written, where it is known.
    pub value: String,
}

pub fn describe(trace: &Trace, index: EventIndex) -> Description {
    let event = &trace.events[index.index()];
    let (mark, what) = words(trace, event.op);
    Description {
        mark,
        what,
        value: value(trace, event, index),
    }
}

/// What an operation does, also one that is no event of the trace.
pub fn operation_words(trace: &Trace, op: Op) -> String {
    words(trace, op).1
}

fn words(trace: &Trace, op: Op) -> (Mark, String) {
    let object = |id| object_name(trace, id);
    // For sentences that say the kind of the object themselves.
    let bare = |id| known_name(trace, id).unwrap_or_else(|| origin_of(trace, id).1);
    let thread = |id| trace.thread(id).name.clone();
    match op {
        Op::Start => (Mark::Sync, "thread start".into()),
        Op::End => (Mark::Sync, "thread exit".into()),
        Op::Fork(child) => (Mark::Sync, format!("create {}", thread(child))),
        Op::Join(child) => (Mark::Sync, format!("join {}", thread(child))),
        Op::FailedJoin(child) => (Mark::Sync, format!("join {} gives up", thread(child))),
        Op::Detach(child) => (Mark::Sync, format!("detach {}", thread(child))),
        Op::Lock(o) => (Mark::Lock, format!("lock {}", object(o))),
        Op::FailedLock(o) => (Mark::Lock, format!("lock {} fails", object(o))),
        Op::ReadLock(o) => (Mark::Lock, format!("read-lock {}", object(o))),
        Op::FailedReadLock(o) => (Mark::Lock, format!("read-lock {} fails", object(o))),
        Op::Unlock(o) => (Mark::Lock, format!("unlock {}", object(o))),
        Op::OnceBegin(o) => (Mark::Sync, format!("once {} begins", bare(o))),
        Op::OnceEnd(o) => (Mark::Sync, format!("once {} ends", bare(o))),
        Op::OncePass(o) => (Mark::Sync, format!("once {} is done", bare(o))),
        Op::Wait(o) => (Mark::Sync, format!("wait {}", object(o))),
        Op::FailedWait(o) => (Mark::Sync, format!("wait {} times out", object(o))),
        Op::Signal(o) => (Mark::Sync, format!("signal {}", object(o))),
        Op::Broadcast(o) => (Mark::Sync, format!("broadcast {}", object(o))),
        Op::BarrierInit { barrier, count } => {
            (Mark::Sync, format!("barrier {} for {count}", bare(barrier)))
        }
        Op::BarrierEnter(o) => (Mark::Sync, format!("enter barrier {}", bare(o))),
        Op::BarrierExit(o) => (Mark::Sync, format!("leave barrier {}", bare(o))),
        Op::SemInit { sem, value } => (Mark::Sync, format!("semaphore {} at {value}", bare(sem))),
        Op::SemWait(o) => (Mark::Sync, format!("sem wait {}", object(o))),
        Op::FailedSemWait(o) => (Mark::Sync, format!("sem wait {} fails", object(o))),
        Op::SemPost(o) => (Mark::Sync, format!("sem post {}", object(o))),
        Op::Send(_) => (Mark::Sync, "send through the kernel".into()),
        Op::Receive(_) => (Mark::Sync, "receive through the kernel".into()),
        Op::Atomic {
            address,
            size,
            kind,
            ..
        } => {
            let memory = memory_name(
                trace,
                Access {
                    address,
                    size: u32::from(size),
                },
            );
            match kind {
                AtomicKind::Load => (Mark::Read, format!("atomic load {memory}")),
                AtomicKind::Store => (Mark::Write, format!("atomic store {memory}")),
                AtomicKind::ReadModifyWrite => (Mark::Write, format!("atomic update {memory}")),
                AtomicKind::FailedExchange => (Mark::Read, format!("exchange {memory} fails")),
            }
        }
        Op::Fence(_) => (Mark::Sync, "fence".into()),
        Op::Read(access) => (Mark::Read, format!("read {}", memory_name(trace, access))),
        Op::Write(access) => (Mark::Write, format!("write {}", memory_name(trace, access))),
        Op::Allocate(access) => (Mark::Sync, format!("allocate {:#x}", access.address)),
        Op::Free(access) => (Mark::Free, format!("free {}", memory_name(trace, access))),
        Op::Use(access) => (Mark::Sync, format!("use {}", memory_name(trace, access))),
        Op::Destroy(access) => (
            Mark::Free,
            format!("destroy {}", memory_name(trace, access)),
        ),
        Op::Initialise(access) => (
            Mark::Write,
            format!("initialise {}", memory_name(trace, access)),
        ),
        Op::Take(o) => (Mark::Lock, format!("lock {}", object(o))),
        Op::FailedTake(o) => (Mark::Lock, format!("lock {} fails", object(o))),
        Op::Give(o) => (Mark::Lock, format!("unlock {}", object(o))),
        Op::Misuse { object: o, .. } => (Mark::Sync, format!("misuse {}", object(o))),
        Op::LoopExit(o) => (Mark::Sync, format!("leave the wait loop on {}", object(o))),
        Op::Enter => (Mark::Sync, "enter function".into()),
        Op::Leave => (Mark::Sync, "leave function".into()),
        Op::Custom(custom) => (Mark::Sync, custom_name(trace, custom)),
    }
}

/// How the program fails, from the fields of the event.
fn failure(fields: &[String]) -> String {
    let field = |at: usize| fields.get(at).map_or("", String::as_str);
    match Failing::parse(field(0)) {
        Some(Failing::Signal) => format!("fails with signal {}", field(1)),
        Some(Failing::Assertion) => format!("fails the assertion {}", field(1)),
        Some(Failing::Abort) => "aborts".into(),
        Some(Failing::Exit) => format!("exits with status {}", field(1)),
        None => "fails".into(),
    }
}

fn custom_name(trace: &Trace, custom: u32) -> String {
    match trace.customs.get(custom as usize) {
        Some(custom) if custom.name == FAILURE => failure(&custom.fields),
        Some(custom) if custom.fields.is_empty() => custom.name.clone(),
        Some(custom) => format!("{} {}", custom.name, custom.fields.join(" ")),
        None => format!("event {custom}"),
    }
}

fn value(trace: &Trace, event: &Event, index: EventIndex) -> String {
    if let Op::Free(access) | Op::Allocate(access) = event.op {
        return if access.size > 1 {
            format!("{} bytes", access.size)
        } else {
            String::new()
        };
    }
    let Ok(found) = trace
        .values
        .binary_search_by_key(&index, |value| value.event)
    else {
        return String::new();
    };
    let value = &trace.values[found];
    match (number(&value.read), number(&value.written)) {
        (Some(read), Some(written)) => format!("{read} → {written}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => String::new(),
    }
}

/// Up to eight bytes as a number, more as hexadecimal digits.
fn number(bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    if bytes.len() > 8 {
        let shown: String = bytes
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        return Some(format!("{shown}…"));
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let number = u64::from_le_bytes(word);
    Some(if number > 0xffff_ffff {
        format!("{number:#x}")
    } else {
        number.to_string()
    })
}

fn known_name(trace: &Trace, id: ObjectId) -> Option<String> {
    let object = trace.object(id);
    if !object.name.is_empty() {
        return Some(object.name.clone());
    }
    symbol_name(trace, object.address)
}

/// What stands before and after the kind of an object that has no name: the number, if several
/// come from the same place, and where that is.
fn origin_of(trace: &Trace, id: ObjectId) -> (String, String) {
    let Some(origin) = trace.origin(id) else {
        return (String::new(), format!("{:#x}", trace.object(id).address));
    };
    let at = place_name(trace, origin.event);
    let number = match origin.number {
        0 => String::new(),
        number => format!(" {number}"),
    };
    let place = match origin.how {
        How::Initialised => format!("made at {at}"),
        How::InBlock { offset: 0 } => format!("in the block allocated at {at}"),
        How::InBlock { offset } => format!("at byte {offset} of the block allocated at {at}"),
        How::OnStack(thread) => {
            let owner = &trace.thread(thread).name;
            format!("on the stack of {owner}, first used at {at}")
        }
        How::FirstUsed => format!("first used at {at}"),
    };
    (number, place)
}

/// The object by its variable or by where it comes from; by its address only in a trace that does
/// not tell either.
pub fn object_name(trace: &Trace, id: ObjectId) -> String {
    if let Some(name) = known_name(trace, id) {
        return name;
    }
    let kind = match trace.object(id).kind {
        ObjectKind::Mutex
        | ObjectKind::RecursiveMutex
        | ObjectKind::ErrorCheckingMutex
        | ObjectKind::RobustMutex => "mutex",
        ObjectKind::ReaderWriterLock => "rwlock",
        ObjectKind::SpinLock => "spin lock",
        ObjectKind::Once => "once",
        ObjectKind::Condition => "condition",
        ObjectKind::Barrier => "barrier",
        ObjectKind::Semaphore => "semaphore",
        ObjectKind::Channel => "channel",
    };
    let (number, place) = origin_of(trace, id);
    format!("{kind}{number} {place}")
}

/// The global that holds these bytes, the descriptor that the address stands for, or the bare
/// address.
pub fn memory_name(trace: &Trace, access: Access) -> String {
    if let Some(number) = descriptor_number(access.address) {
        return format!("descriptor {number}");
    }
    match symbol_name(trace, access.address) {
        Some(name) if reaches_further(trace, access) => {
            // More than the field: the structure that it is in.
            let whole = name
                .rfind(['.', '['])
                .map_or(name.as_str(), |at| &name[..at]);
            whole.to_string()
        }
        Some(name) => name,
        None => format!("{:#x}", access.address),
    }
}

/// Whether an access begins at a named part of memory and goes on beyond it.
fn reaches_further(trace: &Trace, access: Access) -> bool {
    let end = access.address + u64::from(access.size);
    let symbol = trace.symbol_at(access.address);
    symbol.is_some_and(|symbol| {
        symbol.address == access.address && end > symbol.address.saturating_add(symbol.size)
    })
}

fn symbol_name(trace: &Trace, address: u64) -> Option<String> {
    let symbol = trace.symbol_at(address)?;
    Some(match address - symbol.address {
        0 => symbol.name.clone(),
        offset => format!("{}+{offset}", symbol.name),
    })
}

/// How the memory of an access came to be, in a sentence. Scans the trace.
pub fn origin(trace: &Trace, access: Access, index: EventIndex) -> String {
    if let Some(number) = descriptor_number(access.address) {
        return format!("the file that is open as descriptor {number}");
    }
    if let Some(symbol) = trace.symbol_at(access.address) {
        return format!("global `{}` of {} bytes", symbol.name, symbol.size);
    }
    let block = |index: EventIndex, verb| {
        let event = &trace.events[index.index()];
        let (Op::Allocate(block) | Op::Free(block)) = event.op else {
            return None;
        };
        let offset = access.address.saturating_sub(block.address);
        let part = match offset {
            0 => "the".to_string(),
            1 => "1 byte into the".to_string(),
            offset => format!("{offset} bytes into the"),
        };
        block.overlaps(access).then(|| {
            format!(
                "{part} {}-byte block that {} {verb} at {}",
                block.size,
                trace.thread(event.thread).name,
                place_name(trace, index),
            )
        })
    };
    let is_allocation =
        |index: &EventIndex| matches!(trace.events[index.index()].op, Op::Allocate(_));
    let mut before = (0..index.index()).rev().map(EventIndex::from_index);
    if let Some(text) = before.find_map(|at| is_allocation(&at).then(|| block(at, "allocated"))?) {
        return text;
    }
    // A block that was allocated before the first thread was created has only its release in the
    // trace.
    let mut all = (0..trace.events.len()).map(EventIndex::from_index);
    match all.find_map(|at| (!is_allocation(&at)).then(|| block(at, "frees"))?) {
        Some(text) => text,
        None => format!(
            "address {:#x}, neither a known global nor a seen block",
            access.address
        ),
    }
}

/// The kind of a finding that shows this bug.
pub fn bug_kind(trace: &Trace, bug: &Bug) -> Kind {
    let does = |event: &EventIndex| access_kind(trace.events[event.index()].op);
    match bug {
        Bug::Race { first, second } => {
            let touch = Touch::of(trace.events[first.index()].op);
            match touch.and_then(|touch| descriptor_number(touch.access.address)) {
                Some(_) => Kind::ClosedInUse,
                None => Kind::of_race([does(first), does(second)]),
            }
        }
        Bug::LockDeadlock { .. } => Kind::Deadlock,
        Bug::Stuck { .. } => Kind::Stuck,
        Bug::Order { .. } => Kind::Order,
        Bug::Atomicity { .. } => Kind::Atomicity,
    }
}

/// The part of the program that was probably meant to be atomic: the innermost function that is entered
/// before its first access and left after its last one, with the lines of both in it.
pub fn region(trace: &Trace, bug: &Bug) -> Option<String> {
    let Bug::Atomicity { accesses } = bug else {
        return None;
    };
    let mut calls = [*accesses.first()?, *accesses.last()?].map(|event| {
        let mut all = vec![event];
        all.extend(calls(trace, event));
        all
    });
    let in_common = |calls: &[Vec<EventIndex>; 2]| {
        let outer = |calls: &[EventIndex]| calls.get(1..).unwrap_or_default().to_vec();
        outer(&calls[0]) == outer(&calls[1])
    };
    while !in_common(&calls) {
        let deeper = usize::from(calls[1].len() > calls[0].len());
        if calls[deeper].len() < 2 {
            return None;
        }
        calls[deeper].remove(0);
    }
    let [first, last] = calls.map(|calls| {
        let frames = &trace.place(trace.events[calls[0].index()].place).frames;
        frames
            .iter()
            .rev()
            .find(|frame| is_own(frame))
            .or(frames.last())
    });
    let (first, last) = (first?, last?);
    let file = base_name(&first.file);
    Some(match first.line == last.line {
        true => format!("`{}` at {file}:{}", first.function, first.line),
        false => format!(
            "`{}` from {file}:{} to {}",
            first.function, first.line, last.line
        ),
    })
}

/// The entries of the functions that an event happens in, the innermost first.
fn calls(trace: &Trace, index: EventIndex) -> impl Iterator<Item = EventIndex> {
    let thread = trace.events[index.index()].thread;
    let mut returned = 0;
    let earlier = (0..index.index()).rev().map(EventIndex::from_index);
    earlier.filter(move |earlier| {
        let event = trace.events[earlier.index()];
        if event.thread != thread || !is_call(event.op) {
            return false;
        }
        if event.op == Op::Leave {
            returned += 1;
            return false;
        }
        let has_returned = returned > 0;
        returned -= i32::from(has_returned);
        !has_returned
    })
}

/// What an operation of a bug does.
pub fn access_kind(op: Op) -> AccessKind {
    match op.effect() {
        Effect::Thread(act) => match act {
            OnThread::Join(_) => AccessKind::Join,
            OnThread::Start
            | OnThread::End
            | OnThread::Fork(_)
            | OnThread::FailedJoin(_)
            | OnThread::Detach(_) => AccessKind::Event,
        },
        Effect::Lock(_, act) => match act {
            OnLock::Acquire(Mode::Write) => AccessKind::Lock,
            OnLock::Acquire(Mode::Read) => AccessKind::ReadLock,
            OnLock::FailedAcquire(_) | OnLock::Release => AccessKind::Event,
        },
        Effect::Once(..) => AccessKind::Once,
        Effect::Condition(_, act) => match act {
            OnCondition::Wait | OnCondition::TimedOut => AccessKind::Wait,
            OnCondition::Signal | OnCondition::Broadcast => AccessKind::Event,
        },
        Effect::Barrier(_, act) => match act {
            OnBarrier::Enter | OnBarrier::Exit => AccessKind::Barrier,
            OnBarrier::Init(_) => AccessKind::Event,
        },
        Effect::Semaphore(_, act) => match act {
            OnSemaphore::Wait => AccessKind::SemWait,
            OnSemaphore::Init(_) | OnSemaphore::FailedWait | OnSemaphore::Post => AccessKind::Event,
        },
        Effect::Channel(..) => AccessKind::Event,
        Effect::Memory(touch) => match (touch.kind, touch.writes) {
            (TouchKind::Plain, false) => AccessKind::Read,
            (TouchKind::Plain, true) => AccessKind::Write,
            (TouchKind::Atomic, false) => AccessKind::AtomicRead,
            (TouchKind::Atomic, true) => AccessKind::AtomicWrite,
            (TouchKind::Free, _) => AccessKind::Free,
            (TouchKind::Use, _) => AccessKind::Use,
            (TouchKind::Destroy, _) => AccessKind::Destroy,
            (TouchKind::Initialise, _) => AccessKind::Initialise,
            (TouchKind::Allocate, _) => AccessKind::Event,
        },
        Effect::Local => AccessKind::Event,
    }
}

/// Whether this is the entry of a function or its return.
pub fn is_call(op: Op) -> bool {
    op == Op::Enter || op == Op::Leave
}

/// Where a person would say that an event took place: the innermost frame with a line that is
/// not in a header of the system, so that a race within `std::vector` is shown where the program uses
/// the vector. Looks back for the callers only where that is so.
pub fn shown_frame(trace: &Trace, index: EventIndex) -> Option<&SourcePlace> {
    let frames = &trace.place(trace.events[index.index()].place).frames;
    let innermost = frames.first()?;
    let own = frames.iter().find(|frame| is_own(frame));
    own.or_else(|| calling_frame(trace, index))
        .or_else(|| frame_before_failure(trace, index))
        .or(Some(innermost))
}

/// Of a failure in code of a library, or in the runtime: where its thread was last seen in the program.
fn frame_before_failure(trace: &Trace, index: EventIndex) -> Option<&SourcePlace> {
    let event = trace.events[index.index()];
    let Op::Custom(custom) = event.op else {
        return None;
    };
    if trace.customs[custom as usize].name != FAILURE {
        return None;
    }
    let before = trace.events[..index.index()].iter().rev();
    let mut own = before.filter(|earlier| earlier.thread == event.thread);
    own.find_map(|earlier| {
        let frames = &trace.place(earlier.place).frames;
        frames.iter().find(|frame| is_own(frame))
    })
}

/// The innermost frame of the program itself among the callers.
fn calling_frame(trace: &Trace, index: EventIndex) -> Option<&SourcePlace> {
    calls(trace, index).find_map(|call| {
        let frames = &trace.place(trace.events[call.index()].place).frames;
        frames.iter().find(|frame| is_own(frame))
    })
}

pub(crate) fn is_own(frame: &SourcePlace) -> bool {
    frame.line > 0 && !is_of_the_system(frame) && !is_runtime(frame)
}

/// Whether the file came with the compiler or a library of the system.
pub fn is_of_the_system(frame: &SourcePlace) -> bool {
    is_system_file(&frame.file)
}

pub(crate) fn is_system_file(file: &str) -> bool {
    norns_scan::is_of_the_system(file)
}

/// Whether this is code of Norns's own runtime: nothing that a user wants to read about.
pub(crate) fn is_runtime(frame: &SourcePlace) -> bool {
    frame.file.contains("crates/norns-rt/src/")
}

/// `file:line` with the file's last part, or the program counter.
pub fn place_name(trace: &Trace, index: EventIndex) -> String {
    let place = trace.place(trace.events[index.index()].place);
    match shown_frame(trace, index) {
        Some(frame) if frame.line > 0 => format!("{}:{}", base_name(&frame.file), frame.line),
        _ if place.pc == 0 => String::new(),
        _ => format!("{:#x}", place.pc),
    }
}

pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
