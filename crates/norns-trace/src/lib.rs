//! Traces: the events of one run, as values, as a file and as text.
//!
//! `event` has the event types that every analysis uses, `trace` a whole run in memory.
#![forbid(unsafe_code)]

pub mod event;
pub mod schedule;
pub mod std_format;
pub mod trace;
pub mod wire;

pub use event::{
    Access, AtomicKind, Event, EventIndex, MemoryOrder, ObjectId, Op, PlaceId, ThreadId,
};
pub use trace::{Object, ObjectKind, Place, SourcePlace, Symbol, Thread, Trace};
