//! A trace as a stream of items: what stands in a trace file and in the text form, in order.
//!
//! Threads, objects, places and custom events are numbered in the order of their definitions, and
//! defined before their first use, so that any prefix of a stream is a valid stream. A `Trace` is a
//! whole stream in memory.

use norns_wire::object;
use thiserror::Error;

use crate::event::{Access, Event, EventIndex, MemoryOrder, ThreadId};
use crate::operation::Operands;
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
    /// The names of the variables that were set. Their values are not kept.
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
    /// Counts the next item of the stream, if it refers only to what is defined.
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
                match event.op.operands() {
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

/// Names of memory orders and object kinds in the text form; the position is the number in a file.
pub const ORDERS: [(&str, MemoryOrder); 6] = [
    ("relaxed", MemoryOrder::Relaxed),
    ("consume", MemoryOrder::Consume),
    ("acquire", MemoryOrder::Acquire),
    ("release", MemoryOrder::Release),
    ("acq-rel", MemoryOrder::AcqRel),
    ("seq-cst", MemoryOrder::SeqCst),
];

pub const OBJECT_KINDS: [(&str, ObjectKind); 11] = {
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
        ("channel", Channel),
    ]
};

impl ObjectKind {
    /// The code in the raw stream.
    pub fn wire_code(self) -> u8 {
        match self {
            ObjectKind::Mutex => object::MUTEX,
            ObjectKind::RecursiveMutex => object::RECURSIVE_MUTEX,
            ObjectKind::ErrorCheckingMutex => object::ERROR_CHECKING_MUTEX,
            ObjectKind::RobustMutex => object::ROBUST_MUTEX,
            ObjectKind::ReaderWriterLock => object::READER_WRITER_LOCK,
            ObjectKind::SpinLock => object::SPIN_LOCK,
            ObjectKind::Once => object::ONCE,
            ObjectKind::Condition => object::CONDITION,
            ObjectKind::Barrier => object::BARRIER,
            ObjectKind::Semaphore => object::SEMAPHORE,
            ObjectKind::Channel => object::CHANNEL,
        }
    }

    /// The word of the text form.
    pub fn word(self) -> &'static str {
        let entry = OBJECT_KINDS.iter().find(|(_, kind)| *kind == self);
        entry.expect("the table has every kind").0
    }
}

/// The items of a trace, all definitions before the first event.
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
