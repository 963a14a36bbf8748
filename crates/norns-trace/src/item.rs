//! A trace as a stream of items: what stands in a trace file and in the text form, in order.
//!
//! Threads, objects, places and customs are numbered in the order of their definitions, and
//! defined before their first use, so that a reader needs to keep nothing and any beginning of a
//! stream is a stream. A `Trace` is the stream collected.

use thiserror::Error;

use crate::event::{Access, AtomicKind, Event, EventIndex, MemoryOrder, ObjectId, Op, ThreadId};
use crate::trace::{Custom, Object, ObjectKind, Place, Symbol, Thread, Trace, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Info(Info),
    Thread(Thread),
    Object(Object),
    Place(Place),
    Symbol(Symbol),
    Custom(Custom),
    Event(Event, Option<AccessValue>),
}

/// Something known about the run: `command ./bank 10`, `exit 0`. The keys that Norns itself writes
/// are the constants of `info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub key: String,
    pub values: Vec<String>,
}

/// What an access read or wrote; see `trace::Value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessValue {
    pub read: Vec<u8>,
    pub written: Vec<u8>,
}

/// Keys of `Info`.
pub mod info {
    /// The program and its arguments, one value each.
    pub const COMMAND: &str = "command";
    /// The working directory.
    pub const DIRECTORY: &str = "directory";
    /// One variable, `NAME=VALUE`.
    pub const ENVIRONMENT: &str = "environment";
    /// Start, end and file offset of a mapping of a file (hexadecimal), its path, its build id
    /// (hexadecimal; empty when it has none).
    pub const MODULE: &str = "module";
    /// `ordered` when the order of plain accesses of different threads is the true one.
    pub const ACCESSES: &str = "accesses";
    /// The number that decided who ran when, in a recording with values.
    pub const SEED: &str = "seed";
    /// A number that the recorder counted: its name and the number.
    pub const COUNTER: &str = "counter";
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    #[error("{what} {number} is not defined ({defined} are)")]
    Undefined {
        what: &'static str,
        number: u32,
        defined: u32,
    },
    #[error("an access of {size} bytes at {address:#x} is empty or leaves the address space")]
    Access { address: u64, size: u32 },
    #[error("a trace has fewer than 2^32 of them: {0}")]
    TooMany(&'static str),
}

/// How much of a stream has been seen: what the next item may refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defined {
    pub threads: u32,
    pub objects: u32,
    pub places: u32,
    pub customs: u32,
    pub events: u32,
}

impl Defined {
    /// Takes the next item of the stream in.
    pub fn accept(&mut self, item: &Item) -> Result<(), Invalid> {
        match item {
            Item::Info(_) | Item::Symbol(_) => Ok(()),
            Item::Thread(thread) => {
                if let Some(parent) = thread.parent {
                    self.thread(parent)?;
                }
                count(&mut self.threads, "threads")
            }
            Item::Object(_) => count(&mut self.objects, "objects"),
            Item::Place(_) => count(&mut self.places, "places"),
            Item::Custom(_) => count(&mut self.customs, "custom events"),
            Item::Event(event, _) => {
                self.thread(event.thread)?;
                within("place", event.place.0, self.places)?;
                match operands(event.op).1 {
                    Operands::None | Operands::Order(_) => {}
                    Operands::Thread(thread) => self.thread(thread)?,
                    Operands::Object(object) | Operands::Counted(object, _) => {
                        within("object", object.0, self.objects)?;
                    }
                    Operands::Memory(access) => valid(access)?,
                    Operands::Atomic { address, size, .. } => valid(Access {
                        address,
                        size: u32::from(size),
                    })?,
                    Operands::Custom(custom) => within("custom", custom, self.customs)?,
                }
                count(&mut self.events, "events")
            }
        }
    }

    fn thread(&self, thread: ThreadId) -> Result<(), Invalid> {
        within("thread", thread.0, self.threads)
    }
}

fn count(number: &mut u32, what: &'static str) -> Result<(), Invalid> {
    *number = number.checked_add(1).ok_or(Invalid::TooMany(what))?;
    Ok(())
}

fn within(what: &'static str, number: u32, defined: u32) -> Result<(), Invalid> {
    if number < defined {
        Ok(())
    } else {
        Err(Invalid::Undefined {
            what,
            number,
            defined,
        })
    }
}

fn valid(access: Access) -> Result<(), Invalid> {
    let Access { address, size } = access;
    if size > 0 && address.checked_add(u64::from(size)).is_some() {
        Ok(())
    } else {
        Err(Invalid::Access { address, size })
    }
}

/// What an operation works on, apart from its kind: the part that the file and the text form
/// write for every kind of the same shape in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    None,
    Thread(ThreadId),
    Object(ObjectId),
    Counted(ObjectId, u32),
    Memory(Access),
    Atomic {
        address: u64,
        size: u8,
        order: MemoryOrder,
    },
    Order(MemoryOrder),
    Custom(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    None,
    Thread,
    Object,
    Counted,
    Memory,
    Atomic,
    Order,
    Custom,
}

/// Number, name in the text form and shape of every operation. The number is the position, and
/// part of the file format: add at the end only.
pub const OPERATIONS: [(&str, Shape); 37] = [
    ("start", Shape::None),
    ("end", Shape::None),
    ("fork", Shape::Thread),
    ("join", Shape::Thread),
    ("failed-join", Shape::Thread),
    ("detach", Shape::Thread),
    ("lock", Shape::Object),
    ("failed-lock", Shape::Object),
    ("read-lock", Shape::Object),
    ("failed-read-lock", Shape::Object),
    ("unlock", Shape::Object),
    ("once-begin", Shape::Object),
    ("once-end", Shape::Object),
    ("once-pass", Shape::Object),
    ("wait", Shape::Object),
    ("failed-wait", Shape::Object),
    ("signal", Shape::Object),
    ("broadcast", Shape::Object),
    ("barrier-init", Shape::Counted),
    ("barrier-enter", Shape::Object),
    ("barrier-exit", Shape::Object),
    ("sem-init", Shape::Counted),
    ("sem-wait", Shape::Object),
    ("failed-sem-wait", Shape::Object),
    ("sem-post", Shape::Object),
    ("atomic-load", Shape::Atomic),
    ("atomic-store", Shape::Atomic),
    ("atomic-rmw", Shape::Atomic),
    ("atomic-failed", Shape::Atomic),
    ("fence", Shape::Order),
    ("read", Shape::Memory),
    ("write", Shape::Memory),
    ("allocate", Shape::Memory),
    ("free", Shape::Memory),
    ("enter", Shape::None),
    ("leave", Shape::None),
    ("custom", Shape::Custom),
];

/// The number of an operation in `OPERATIONS`, and its operands.
pub fn operands(op: Op) -> (u8, Operands) {
    match op {
        Op::Start => (0, Operands::None),
        Op::End => (1, Operands::None),
        Op::Fork(thread) => (2, Operands::Thread(thread)),
        Op::Join(thread) => (3, Operands::Thread(thread)),
        Op::FailedJoin(thread) => (4, Operands::Thread(thread)),
        Op::Detach(thread) => (5, Operands::Thread(thread)),
        Op::Lock(object) => (6, Operands::Object(object)),
        Op::FailedLock(object) => (7, Operands::Object(object)),
        Op::ReadLock(object) => (8, Operands::Object(object)),
        Op::FailedReadLock(object) => (9, Operands::Object(object)),
        Op::Unlock(object) => (10, Operands::Object(object)),
        Op::OnceBegin(object) => (11, Operands::Object(object)),
        Op::OnceEnd(object) => (12, Operands::Object(object)),
        Op::OncePass(object) => (13, Operands::Object(object)),
        Op::Wait(object) => (14, Operands::Object(object)),
        Op::FailedWait(object) => (15, Operands::Object(object)),
        Op::Signal(object) => (16, Operands::Object(object)),
        Op::Broadcast(object) => (17, Operands::Object(object)),
        Op::BarrierInit { barrier, count } => (18, Operands::Counted(barrier, count)),
        Op::BarrierEnter(object) => (19, Operands::Object(object)),
        Op::BarrierExit(object) => (20, Operands::Object(object)),
        Op::SemInit { sem, value } => (21, Operands::Counted(sem, value)),
        Op::SemWait(object) => (22, Operands::Object(object)),
        Op::FailedSemWait(object) => (23, Operands::Object(object)),
        Op::SemPost(object) => (24, Operands::Object(object)),
        Op::Atomic {
            address,
            size,
            kind,
            order,
        } => {
            let operands = Operands::Atomic {
                address,
                size,
                order,
            };
            (25 + kind.number(), operands)
        }
        Op::Fence(order) => (29, Operands::Order(order)),
        Op::Read(access) => (30, Operands::Memory(access)),
        Op::Write(access) => (31, Operands::Memory(access)),
        Op::Allocate(access) => (32, Operands::Memory(access)),
        Op::Free(access) => (33, Operands::Memory(access)),
        Op::Enter => (34, Operands::None),
        Op::Leave => (35, Operands::None),
        Op::Custom(custom) => (36, Operands::Custom(custom)),
    }
}

/// The operation with this number; `None` when the operands have not its shape.
pub fn operation(number: u8, operands: Operands) -> Option<Op> {
    use Operands as With;
    Some(match (number, operands) {
        (0, With::None) => Op::Start,
        (1, With::None) => Op::End,
        (2, With::Thread(thread)) => Op::Fork(thread),
        (3, With::Thread(thread)) => Op::Join(thread),
        (4, With::Thread(thread)) => Op::FailedJoin(thread),
        (5, With::Thread(thread)) => Op::Detach(thread),
        (6, With::Object(object)) => Op::Lock(object),
        (7, With::Object(object)) => Op::FailedLock(object),
        (8, With::Object(object)) => Op::ReadLock(object),
        (9, With::Object(object)) => Op::FailedReadLock(object),
        (10, With::Object(object)) => Op::Unlock(object),
        (11, With::Object(object)) => Op::OnceBegin(object),
        (12, With::Object(object)) => Op::OnceEnd(object),
        (13, With::Object(object)) => Op::OncePass(object),
        (14, With::Object(object)) => Op::Wait(object),
        (15, With::Object(object)) => Op::FailedWait(object),
        (16, With::Object(object)) => Op::Signal(object),
        (17, With::Object(object)) => Op::Broadcast(object),
        (18, With::Counted(barrier, count)) => Op::BarrierInit { barrier, count },
        (19, With::Object(object)) => Op::BarrierEnter(object),
        (20, With::Object(object)) => Op::BarrierExit(object),
        (21, With::Counted(sem, value)) => Op::SemInit { sem, value },
        (22, With::Object(object)) => Op::SemWait(object),
        (23, With::Object(object)) => Op::FailedSemWait(object),
        (24, With::Object(object)) => Op::SemPost(object),
        (
            25..=28,
            With::Atomic {
                address,
                size,
                order,
            },
        ) => Op::Atomic {
            address,
            size,
            kind: AtomicKind::from_number(number - 25),
            order,
        },
        (29, With::Order(order)) => Op::Fence(order),
        (30, With::Memory(access)) => Op::Read(access),
        (31, With::Memory(access)) => Op::Write(access),
        (32, With::Memory(access)) => Op::Allocate(access),
        (33, With::Memory(access)) => Op::Free(access),
        (34, With::None) => Op::Enter,
        (35, With::None) => Op::Leave,
        (36, With::Custom(custom)) => Op::Custom(custom),
        _ => return None,
    })
}

/// Names of memory orders and object kinds in the text form; the position is the number in a file.
pub const ORDERS: [(&str, MemoryOrder); 6] = [
    ("relaxed", MemoryOrder::Relaxed),
    ("consume", MemoryOrder::Consume),
    ("acquire", MemoryOrder::Acquire),
    ("release", MemoryOrder::Release),
    ("acq-rel", MemoryOrder::AcqRel),
    ("seq-cst", MemoryOrder::SeqCst),
];

pub const OBJECT_KINDS: [(&str, ObjectKind); 10] = {
    use ObjectKind::*;
    [
        ("mutex", Mutex),
        ("recursive-mutex", RecursiveMutex),
        ("error-checking-mutex", ErrorCheckingMutex),
        ("robust-mutex", RobustMutex),
        ("rwlock", ReaderWriterLock),
        ("spin-lock", SpinLock),
        ("once", Once),
        ("condition", Condition),
        ("barrier", Barrier),
        ("semaphore", Semaphore),
    ]
};

impl ObjectKind {
    /// The word of the text form.
    pub fn word(self) -> &'static str {
        let entry = OBJECT_KINDS.iter().find(|(_, kind)| *kind == self);
        entry.expect("the table has every kind").0
    }
}

/// The stream that defines everything first.
pub fn items(trace: &Trace) -> impl Iterator<Item = Item> + '_ {
    let ordered = trace.accesses_ordered.then(|| {
        Item::Info(Info {
            key: info::ACCESSES.into(),
            values: vec!["ordered".into()],
        })
    });
    let mut values = trace.values.iter().peekable();
    let events = trace.events.iter().enumerate().map(move |(index, &event)| {
        let value = values.next_if(|value| value.event.index() == index);
        let value = value.map(|value| AccessValue {
            read: value.read.clone(),
            written: value.written.clone(),
        });
        Item::Event(event, value)
    });
    ordered
        .into_iter()
        .chain(trace.threads.iter().cloned().map(Item::Thread))
        .chain(trace.objects.iter().cloned().map(Item::Object))
        .chain(trace.places.iter().cloned().map(Item::Place))
        .chain(trace.symbols.iter().cloned().map(Item::Symbol))
        .chain(trace.customs.iter().cloned().map(Item::Custom))
        .chain(events)
}

/// Collects a stream into a trace. The items must have been accepted by `Defined`.
#[derive(Default)]
pub struct Collector {
    pub trace: Trace,
    pub info: Vec<Info>,
}

impl Collector {
    pub fn push(&mut self, item: Item) {
        match item {
            Item::Info(info) => {
                if info.key == info::ACCESSES {
                    self.trace.accesses_ordered =
                        info.values.first().is_some_and(|value| value == "ordered");
                } else {
                    self.info.push(info);
                }
            }
            Item::Thread(thread) => self.trace.threads.push(thread),
            Item::Object(object) => self.trace.objects.push(object),
            Item::Place(place) => self.trace.places.push(place),
            Item::Symbol(symbol) => self.trace.symbols.push(symbol),
            Item::Custom(custom) => self.trace.customs.push(custom),
            Item::Event(event, value) => {
                if let Some(AccessValue { read, written }) = value {
                    let event = EventIndex::from_index(self.trace.events.len());
                    self.trace.values.push(Value {
                        event,
                        read,
                        written,
                    });
                }
                self.trace.events.push(event);
            }
        }
    }

    /// The trace, its symbols sorted and without overlaps: of two that overlap the one that
    /// begins first stays.
    pub fn finish(mut self) -> (Trace, Vec<Info>) {
        let symbols = &mut self.trace.symbols;
        symbols.sort_by(|a, b| (a.address, b.size, &a.name).cmp(&(b.address, a.size, &b.name)));
        let mut end = 0;
        symbols.retain(|symbol| {
            let apart = symbol.size > 0 && symbol.address >= end;
            if apart {
                end = symbol.address.saturating_add(symbol.size);
            }
            apart
        });
        (self.trace, self.info)
    }
}
