//! A whole run in memory.
//!
//! `events` is one sequence. The order of events of one thread, and of synchronisation and
//! atomic events among each other, is always the true one. Whether the order of plain accesses of
//! different threads between them is true too is said by `accesses_ordered`: it is for imported
//! traces and serialised recordings; otherwise accesses stand just before the next
//! synchronisation event of their thread.

use crate::event::{Event, ObjectId, PlaceId, ThreadId};
use crate::origin::{self, Origin};
use crate::{handed_over, life, wait_loops};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub threads: Vec<Thread>,
    pub objects: Vec<Object>,
    pub places: Vec<Place>,
    /// Known names of memory: globals, or the variables of an imported trace. Sorted by address;
    /// no two overlap.
    pub symbols: Vec<Symbol>,
    pub customs: Vec<Custom>,
    pub events: Vec<Event>,
    /// Values of accesses, for recordings made with `--values`: sorted by event, at most one each.
    pub values: Vec<Value>,
    pub accesses_ordered: bool,
    /// By object: where it comes from, if it has no name. Found by `understand`, not in a file.
    pub origins: Vec<Option<Origin>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// `T0`, `T0.1`, `T0.1.2`, or the name in an imported trace.
    pub name: String,
    /// `None` for the main thread and for threads whose creation was not seen.
    pub parent: Option<ThreadId>,
}

impl Thread {
    /// Whether a recorder did not see who created the thread, such as one of the C library for timers:
    /// it is then named `T?n`, and what came before it is not known.
    pub fn comes_unseen(&self) -> bool {
        self.parent.is_none() && self.name.starts_with("T?")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    Mutex,
    RecursiveMutex,
    ErrorCheckingMutex,
    RobustMutex,
    ReaderWriterLock,
    SpinLock,
    Once,
    Condition,
    Barrier,
    Semaphore,
    /// Something in the kernel through which threads order each other: bytes in a pipe, a signal.
    Channel,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub kind: ObjectKind,
    /// 0 in an imported trace.
    pub address: u64,
    /// The name in an imported trace, or the symbol; empty when none is known.
    pub name: String,
}

/// A place in the program. A recorded trace has program counters; an imported one has the
/// location number of its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The address after the call of the hook, or the location number of an imported trace.
    pub pc: u64,
    /// Innermost (possibly inlined) frame first; empty when not symbolised.
    pub frames: Vec<SourcePlace>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePlace {
    pub function: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub address: u64,
    pub size: u64,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Custom {
    pub name: String,
    pub fields: Vec<String>,
}

/// What an access read or wrote. For a read-modify-write both are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub event: crate::event::EventIndex,
    /// Little-endian bytes, as long as the access; empty when nothing was read.
    pub read: Vec<u8>,
    pub written: Vec<u8>,
}

impl Trace {
    /// Adds to the events of a file what they mean for locks and their memory: the operations on mutexes
    /// that are handed over get other names, what wait loops needed is kept in order, uses of objects
    /// whose life may end too early are shown, and the origins of objects without a name are found. Doing it twice changes nothing
    /// more.
    pub fn understand(&mut self) {
        handed_over::rename(self);
        wait_loops::order(self);
        life::show_uses(self);
        self.origins = origin::find(self);
    }

    /// Where an object without a name comes from.
    pub fn origin(&self, id: ObjectId) -> Option<Origin> {
        self.origins.get(id.index()).copied().flatten()
    }

    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.index()]
    }

    pub fn place(&self, id: PlaceId) -> &Place {
        &self.places[id.index()]
    }

    /// The symbol that holds this address.
    pub fn symbol_at(&self, address: u64) -> Option<&Symbol> {
        let after = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols[..after].last()?;
        (address - symbol.address < symbol.size).then_some(symbol)
    }
}
