//! Turns the records of a raw recording into items: names threads and objects, numbers places and
//! custom events, matches the ends of calls with their beginnings.
//!
//! An object is an address until it is destroyed, initialised again or its memory freed; what is at
//! the address from then on is another object. A robust mutex that a thread holds when it ends is
//! unlocked by an event just before the end: its next owner learns of it in the same way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::cursor::Owned;
use crate::effect::{Effect, Mode, OnLock, OnThread};
use crate::error::Warning;
use crate::event::{Access, AtomicKind, Event, MemoryOrder, ObjectId, Op, PlaceId, ThreadId};
use crate::item::{AccessValue, Info, Item, OBJECT_KINDS, ORDERS};
use crate::operation::Operands;
use crate::symbolise::Symboliser;
use crate::trace::{Custom, Object, ObjectKind, Place, Thread};
use norns_wire::{Code, channel_object, descriptor_number, ended, lost, object};

/// What threads are named by.
pub struct Names<'a> {
    /// For every thread whose beginning is known: its parent, and which child of the parent it is.
    pub starts: &'a FxHashMap<u32, (u32, u64)>,
}

/// What is known of the run so far.
pub struct Convert {
    symboliser: Symboliser,
    pub warnings: Vec<Warning>,
    threads: FxHashMap<u32, ThreadId>,
    names: Vec<String>,
    /// How many children each thread has forked so far.
    forks: FxHashMap<u32, u64>,
    /// How many functions each thread is in.
    depths: FxHashMap<u32, u64>,
    places: FxHashMap<u64, PlaceId>,
    customs: FxHashMap<Vec<u8>, u32>,
    /// The object that is at each address now: its kind, and its id once it has been used.
    objects: BTreeMap<u64, (ObjectKind, Option<ObjectId>)>,
    object_count: usize,
    /// For every channel the last message of each thread, by the address of all its messages.
    sent: FxHashMap<u64, BTreeMap<ThreadId, ObjectId>>,
    /// The globals whose name is in the trace, if they have one only.
    globals_seen: FxHashSet<usize>,
    /// Where the parts of other globals begin whose names are in the trace.
    parts_seen: FxHashSet<u64>,
    /// Threads whose first chunk is missing or cannot be decoded.
    pub unknown_beginning: FxHashSet<u32>,
    /// Events may be missing without a mark: check that each event can follow.
    suspect: bool,
    /// Robust mutexes that each thread holds: its end releases them.
    robust: FxHashMap<ThreadId, Vec<ObjectId>>,
    /// Who holds each lock exclusively, and how often. Only kept when suspect.
    owners: FxHashMap<ObjectId, (ThreadId, u32)>,
    /// Threads that have been forked or have started, and have not ended. Only kept when suspect.
    alive: FxHashSet<ThreadId>,
    /// How many events the trace has so far.
    events: u64,
    /// The trace ends here, since events are missing; a warning says which.
    pub stop: bool,
}

impl Convert {
    pub fn new(symboliser: Symboliser, suspect: bool, warnings: Vec<Warning>) -> Convert {
        Convert {
            symboliser,
            warnings,
            threads: FxHashMap::default(),
            names: Vec::new(),
            forks: FxHashMap::default(),
            depths: FxHashMap::default(),
            places: FxHashMap::default(),
            customs: FxHashMap::default(),
            objects: BTreeMap::new(),
            object_count: 0,
            sent: FxHashMap::default(),
            globals_seen: FxHashSet::default(),
            parts_seen: FxHashSet::default(),
            unknown_beginning: FxHashSet::default(),
            suspect,
            robust: FxHashMap::default(),
            owners: FxHashMap::default(),
            alive: FxHashSet::default(),
            events: 0,
            stop: false,
        }
    }

    /// Takes in the next record of the thread with this number, and the value that follows it in a
    /// recording with values.
    pub fn take(
        &mut self,
        number: u32,
        record: &Owned,
        value: Option<AccessValue>,
        names: &Names,
        out: &mut VecDeque<Item>,
    ) {
        let thread = self.thread(number, names, out);
        if record.code == Code::Receive && record.address == channel_object::all(record.address) {
            self.receive_everything(thread, record, out);
            return;
        }
        let times = match record.code {
            Code::Leave => self.leave(number, record.address),
            _ => 1,
        };
        let Some(op) = self.operation(number, thread, record, names, out) else {
            return;
        };
        if let Some(problem) = self.cannot_follow(thread, op) {
            self.stop_because(problem);
            return;
        }
        let place = self.place(record.pc, out);
        if op == Op::End {
            let robust = self.robust.remove(&thread).unwrap_or_default();
            for mutex in robust.into_iter().rev() {
                let op = Op::Unlock(mutex);
                self.cannot_follow(thread, op);
                self.events += 1;
                out.push_back(Item::Event(Event { thread, place, op }, None));
            }
        }
        for _ in 0..times {
            self.events += 1;
            out.push_back(Item::Event(Event { thread, place, op }, value.clone()));
        }
        if let Op::Fork(_) = op
            && self.unknown_beginning.contains(&(record.address as u32))
        {
            self.stop_because(format!(
                "the beginning of the thread forked at {:#x} is missing",
                record.pc
            ));
        }
    }

    /// One event for each message that was the last one of its thread.
    fn receive_everything(&mut self, thread: ThreadId, record: &Owned, out: &mut VecDeque<Item>) {
        let sent = self.sent.get(&record.address).into_iter().flatten();
        let mut messages: Vec<ObjectId> = sent
            .filter(|(sender, _)| **sender != thread)
            .map(|(_, &message)| message)
            .collect();
        messages.sort_unstable();
        messages.dedup();
        if messages.is_empty() {
            return;
        }
        let place = self.place(record.pc, out);
        for message in messages {
            let op = Op::Receive(message);
            self.events += 1;
            out.push_back(Item::Event(Event { thread, place, op }, None));
        }
    }

    fn stop_because(&mut self, problem: String) {
        self.warnings.push(Warning::Inconsistent {
            events: self.events,
            problem,
        });
        self.stop = true;
    }

    /// How many functions of the recording the thread leaves. Those that it entered before the
    /// recording began are left without an event.
    fn leave(&mut self, number: u32, count: u64) -> u64 {
        let depth = self.depths.entry(number).or_default();
        let times = count.min(*depth);
        *depth -= times;
        times
    }

    /// The operation of a record, and what it defines for the first time. `None` for a record that is
    /// no event of the trace.
    fn operation(
        &mut self,
        number: u32,
        thread: ThreadId,
        record: &Owned,
        names: &Names,
        out: &mut VecDeque<Item>,
    ) -> Option<Op> {
        match record.code {
            // Main begins before the recording does.
            Code::Start => (number != 0).then_some(Op::Start),
            Code::End => Some(Op::End),
            Code::Fork | Code::Join | Code::FailedJoin | Code::Detach => {
                let other_number = u32::try_from(record.address).unwrap_or(u32::MAX);
                if record.code == Code::Fork {
                    *self.forks.entry(number).or_default() += 1;
                    self.name_child(other_number, number, thread, names, out);
                }
                let other = self.thread(other_number, names, out);
                Op::with_code(record.code, Operands::Thread(other))
            }
            Code::Read
            | Code::Write
            | Code::ReadRange
            | Code::WriteRange
            | Code::Allocate
            | Code::Free => self.memory_operation(record, out),
            Code::Atomic => {
                let size = 1 << (record.detail & 7).min(7);
                access_of(record, size)?;
                self.name_memory(record.address, out);
                Some(Op::Atomic {
                    address: record.address,
                    size: size as u8,
                    kind: AtomicKind::from_number(record.detail >> 3),
                    order: order_of(record.detail >> 5),
                })
            }
            Code::Fence => Some(Op::Fence(order_of(record.detail))),
            Code::Enter => {
                *self.depths.entry(number).or_default() += 1;
                Some(Op::Enter)
            }
            Code::Leave => Some(Op::Leave),
            Code::Init | Code::Destroy => self.new_object(thread, record, out),
            Code::Misuse => {
                let object = self.object(record, kind_of(record.detail)?, out);
                let how = u32::try_from(record.operands[0]).unwrap_or(0);
                Some(Op::Misuse { object, how })
            }
            Code::Use => Some(Op::Use(access_of(record, 1)?)),
            Code::Custom => Some(Op::Custom(self.custom(&record.bytes, out))),
            Code::ValueRead | Code::ValueWritten | Code::Turn => None,
            Code::Lost => {
                self.warnings.push(Warning::Lost {
                    thread: self.names[thread.index()].clone(),
                    events: record.operands[0],
                    why: match record.detail {
                        lost::SIGNAL_HANDLER => "a signal handler interrupted the recorder",
                        lost::DISK => "the file could not be written",
                        _ => "the recorder lost them",
                    },
                });
                None
            }
            Code::UnknownCall => {
                self.warnings.push(Warning::UnknownCall {
                    call: call_name(record.address),
                    thread: self.names[thread.index()].clone(),
                });
                None
            }
            Code::ProcessEnd => {
                let how = match record.detail {
                    ended::EXIT => "exit",
                    ended::IMMEDIATE_EXIT => "immediate-exit",
                    ended::ABORT => "abort",
                    ended::SIGNAL => "signal",
                    ended::EXEC => "exec",
                    _ => "unknown",
                };
                out.push_back(info_item(how, vec![record.operands[0].to_string()]));
                None
            }
            Code::Lock
            | Code::FailedLock
            | Code::ReadLock
            | Code::FailedReadLock
            | Code::Unlock
            | Code::OnceBegin
            | Code::OnceEnd
            | Code::OncePass
            | Code::Wait
            | Code::FailedWait
            | Code::Signal
            | Code::Broadcast
            | Code::BarrierEnter
            | Code::BarrierExit
            | Code::SemWait
            | Code::FailedSemWait
            | Code::SemPost
            | Code::Send
            | Code::Receive
            | Code::LoopExit => self.object_operation(thread, record, out),
        }
    }

    fn memory_operation(&mut self, record: &Owned, out: &mut VecDeque<Item>) -> Option<Op> {
        let size = match record.code {
            Code::Read | Code::Write => u64::from(record.detail),
            _ => record.operands[0],
        };
        let access = access_of(record, size)?;
        match record.code {
            Code::Read | Code::ReadRange => {
                self.name_memory(access.address, out);
                Some(Op::Read(access))
            }
            Code::Write | Code::WriteRange => {
                self.name_memory(access.address, out);
                Some(Op::Write(access))
            }
            Code::Allocate => Some(Op::Allocate(access)),
            _ => {
                self.end_objects(access);
                Some(Op::Free(access))
            }
        }
    }

    /// An object begins or ends at an address. Barriers and semaphores have an event more for the
    /// count or value that they begin with.
    fn new_object(
        &mut self,
        thread: ThreadId,
        record: &Owned,
        out: &mut VecDeque<Item>,
    ) -> Option<Op> {
        let life = access_of(record, 1)?;
        if descriptor_number(record.address).is_some() {
            return Some(Op::Destroy(life));
        }
        let kind = kind_of(record.detail)?;
        self.note_shared(record);
        self.objects.remove(&record.address);
        self.name_memory(record.address, out);
        if record.code == Code::Destroy {
            return Some(Op::Destroy(life));
        }
        self.objects.insert(record.address, (kind, None));
        let amount = u32::try_from(record.operands[0]).unwrap_or(u32::MAX);
        let begins = Op::Initialise(life);
        let counted = match kind {
            ObjectKind::Barrier => Op::BarrierInit {
                barrier: self.object(record, kind, out),
                count: amount,
            },
            ObjectKind::Semaphore => Op::SemInit {
                sem: self.object(record, kind, out),
                value: amount,
            },
            ObjectKind::Mutex
            | ObjectKind::RecursiveMutex
            | ObjectKind::ErrorCheckingMutex
            | ObjectKind::RobustMutex
            | ObjectKind::ReaderWriterLock
            | ObjectKind::SpinLock
            | ObjectKind::Condition => return (amount == 0).then_some(begins),
            // An initialiser that failed is begun again, in the same object.
            ObjectKind::Once | ObjectKind::Channel => return None,
        };
        let place = self.place(record.pc, out);
        self.events += 1;
        let begins = Event {
            thread,
            place,
            op: begins,
        };
        out.push_back(Item::Event(begins, None));
        Some(counted)
    }

    /// Notes that other processes may use the object of this record as well, if they may. A robust mutex
    /// does not tell: the C library marks all of them.
    fn note_shared(&mut self, record: &Owned) {
        let is_robust = record.detail & !object::SHARED == object::ROBUST_MUTEX;
        if record.detail & object::SHARED == 0 || is_robust {
            return;
        }
        let noted = self.warnings.iter_mut().find_map(|warning| match warning {
            Warning::ProcessShared { addresses } => Some(addresses),
            _ => None,
        });
        match noted {
            Some(addresses) => _ = addresses.insert(record.address),
            None => self.warnings.push(Warning::ProcessShared {
                addresses: BTreeSet::from([record.address]),
            }),
        }
    }

    fn object_operation(
        &mut self,
        thread: ThreadId,
        record: &Owned,
        out: &mut VecDeque<Item>,
    ) -> Option<Op> {
        let kind = kind_of(record.detail)?;
        self.note_shared(record);
        let object = self.object(record, kind, out);
        if kind == ObjectKind::RobustMutex {
            let held = self.robust.entry(thread).or_default();
            match record.code {
                Code::Lock => held.push(object),
                Code::Unlock => {
                    if let Some(at) = held.iter().rposition(|&other| other == object) {
                        held.remove(at);
                    }
                }
                _ => {}
            }
        }
        if record.code == Code::Send {
            let channel = channel_object::all(record.address);
            self.sent.entry(channel).or_default().insert(thread, object);
        }
        Op::with_code(record.code, Operands::Object(object))
    }

    /// Why this event cannot happen now, so that events before it must be missing. Only asked if
    /// events may be missing; otherwise the answer is always `None`.
    fn cannot_follow(&mut self, thread: ThreadId, op: Op) -> Option<String> {
        if !self.suspect {
            return None;
        }
        if let Effect::Thread(act) = op.effect() {
            match act {
                // All that is left of the child may be this fork.
                OnThread::Fork(child) => {
                    self.alive.insert(child);
                }
                OnThread::Start => {
                    self.alive.insert(thread);
                }
                OnThread::End => {
                    self.alive.remove(&thread);
                }
                OnThread::Join(other) => {
                    if self.alive.contains(&other) {
                        return Some(format!(
                            "{} joins {}, whose end is missing",
                            self.names[thread.index()],
                            self.names[other.index()]
                        ));
                    }
                }
                OnThread::FailedJoin(_) | OnThread::Detach(_) => {}
            }
        }
        if let Effect::Lock(object, act) = op.effect() {
            match act {
                OnLock::Acquire(Mode::Write) => {
                    let (owner, depth) = self.owners.entry(object).or_insert((thread, 0));
                    if *owner != thread && *depth > 0 {
                        return Some(format!(
                            "{} locks what {} holds",
                            self.names[thread.index()],
                            self.names[owner.index()]
                        ));
                    }
                    *owner = thread;
                    *depth = depth.saturating_add(1);
                }
                OnLock::Release => {
                    if let Some((_, depth)) = self.owners.get_mut(&object) {
                        *depth = depth.saturating_sub(1);
                    }
                }
                OnLock::Acquire(Mode::Read) | OnLock::FailedAcquire(_) => {}
            }
        }
        None
    }

    fn thread(&mut self, number: u32, names: &Names, out: &mut VecDeque<Item>) -> ThreadId {
        if let Some(&thread) = self.threads.get(&number) {
            return thread;
        }
        // Parents have smaller numbers, so the recursion ends; a record that says otherwise is
        // ignored.
        let start = names
            .starts
            .get(&number)
            .filter(|(parent, _)| *parent < number);
        let (name, parent) = match start {
            Some(&(parent, ordinal)) => {
                let parent = self.thread(parent, names, out);
                (
                    format!("{}.{ordinal}", self.names[parent.index()]),
                    Some(parent),
                )
            }
            None if number == 0 => ("T0".into(), None),
            None => (format!("T?{number}"), None),
        };
        self.define(number, name, parent, out)
    }

    /// Names a child after the thread that forked it, if its own stream does not have its name.
    fn name_child(
        &mut self,
        child: u32,
        number: u32,
        parent: ThreadId,
        names: &Names,
        out: &mut VecDeque<Item>,
    ) {
        if !self.threads.contains_key(&child) && !names.starts.contains_key(&child) {
            let name = format!("{}.{}", self.names[parent.index()], self.forks[&number]);
            self.define(child, name, Some(parent), out);
        }
    }

    fn define(
        &mut self,
        number: u32,
        name: String,
        parent: Option<ThreadId>,
        out: &mut VecDeque<Item>,
    ) -> ThreadId {
        let thread = ThreadId::from_index(self.names.len());
        self.threads.insert(number, thread);
        self.names.push(name.clone());
        out.push_back(Item::Thread(Thread { name, parent }));
        thread
    }

    fn place(&mut self, pc: u64, out: &mut VecDeque<Item>) -> PlaceId {
        let next = PlaceId::from_index(self.places.len());
        *self.places.entry(pc).or_insert_with(|| {
            let frames = self.symboliser.frames(pc).to_vec();
            out.push_back(Item::Place(Place { pc, frames }));
            next
        })
    }

    fn object(&mut self, record: &Owned, kind: ObjectKind, out: &mut VecDeque<Item>) -> ObjectId {
        let entry = self.objects.entry(record.address).or_insert((kind, None));
        if entry.0 != kind {
            // An object of another kind was put there by code that the runtime does not see.
            *entry = (kind, None);
        }
        *entry.1.get_or_insert_with(|| {
            let object = ObjectId::from_index(self.object_count);
            self.object_count += 1;
            let name = self.symboliser.name_of(record.address);
            out.push_back(Item::Object(Object {
                kind,
                address: record.address,
                name,
            }));
            object
        })
    }

    fn end_objects(&mut self, block: Access) {
        let end = block.address + u64::from(block.size);
        while let Some((&address, _)) = self.objects.range(block.address..end).next() {
            self.objects.remove(&address);
        }
    }

    fn custom(&mut self, bytes: &[u8], out: &mut VecDeque<Item>) -> u32 {
        let next = self.customs.len() as u32;
        if let Some(&known) = self.customs.get(bytes) {
            return known;
        }
        let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        let mut parts = text
            .split(|&byte| byte == 0)
            .map(|part| String::from_utf8_lossy(part).into_owned());
        let name = parts.next().unwrap_or_default();
        out.push_back(Item::Custom(Custom {
            name,
            fields: parts.collect(),
        }));
        self.customs.insert(bytes.to_vec(), next);
        next
    }

    fn name_memory(&mut self, address: u64, out: &mut VecDeque<Item>) {
        let Some(global) = self.symboliser.global_at(address) else {
            return;
        };
        if self.globals_seen.contains(&global) {
            return;
        }
        let (begin, is_whole) = self.symboliser.part_begin(global, address);
        if is_whole {
            self.globals_seen.insert(global);
        }
        if self.parts_seen.insert(begin) {
            let part = self.symboliser.part_at(global, address);
            out.push_back(Item::Symbol(part));
        }
    }
}

/// The bytes of an access; `None` when it is empty. A freed block whose size is unknown has one byte.
fn access_of(record: &Owned, size: u64) -> Option<Access> {
    let size = match record.code {
        Code::Free => size.max(1),
        _ => size,
    };
    let room = u64::MAX - record.address;
    let size = size.min(room).min(u64::from(u32::MAX)) as u32;
    (size > 0).then_some(Access {
        address: record.address,
        size,
    })
}

fn order_of(number: u8) -> MemoryOrder {
    ORDERS
        .get(usize::from(number))
        .map_or(MemoryOrder::SeqCst, |&(_, order)| order)
}

fn kind_of(detail: u8) -> Option<ObjectKind> {
    let code = detail & !object::SHARED;
    let mut kinds = OBJECT_KINDS.iter().map(|&(_, kind)| kind);
    kinds.find(|kind| kind.wire_code() == code)
}

pub fn info_item(key: &str, values: Vec<String>) -> Item {
    Item::Info(Info {
        key: key.into(),
        values,
    })
}

/// The name of a system call that the runtime does not understand.
fn call_name(number: u64) -> String {
    match number {
        0 => "read of a descriptor of the kernel's".into(),
        1 => "write into a full pipe, which waited for a reader".into(),
        16 => "ioctl".into(),
        45 => "recv of a socket of another family".into(),
        206..=210 => "input and output by `io_submit`".into(),
        321 => "bpf".into(),
        425..=427 => "io_uring".into(),
        449 | 454..=456 => "futex of several words".into(),
        number => format!("system call {number}"),
    }
}
