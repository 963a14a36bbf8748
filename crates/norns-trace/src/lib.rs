//! Traces: the events of one run, as values, as a file and as text.
//!
//! `event` has the event types that every analysis uses, `operation` the table of what each
//! operation is, `effect` what it does; `trace` is a whole run in memory, `item` the same as a
//! stream. `container`, `encoding`, `reader` are the file, `raw_file` and `raw` read what the runtime
//! records (norns-wire) and make a file of it, `observations` reads what a tracked run saw, `lines` finds
//! source lines in a program's file, `text` and `std_format` are the text forms. `life`, `handed_over` and
//! `wait_loops` add to a trace in memory what its events mean for locks, their memory and conditions,
//! `origin` where they come from.
#![forbid(unsafe_code)]

pub mod container;
pub mod effect;
pub mod encoding;
pub mod error;
pub mod event;
mod handed_over;
pub mod item;
mod layout;
mod life;
pub mod lines;
pub mod observations;
pub mod operation;
pub mod origin;
mod raw;
mod raw_file;
pub mod reader;
pub mod std_export;
pub mod std_format;
mod symbol_names;
pub mod symbolise;
pub mod text;
pub mod trace;
mod value_check;
mod wait_loops;

pub use effect::{Effect, Mode, Touch, TouchKind};
pub use error::{Error, Warning};
pub use event::{
    Access, AtomicKind, Event, EventIndex, MemoryOrder, ObjectId, Op, PlaceId, ThreadId,
};
pub use item::{AccessValue, Info, Item, info};
pub use norns_wire::{descriptor_number, misuse};
pub use observations::{Observations, read_observations, read_observations_of};
pub use reader::{
    Reader, Recording, create_raw, event_count, finish, finish_beginning, read, read_recording,
    read_understood, write,
};
pub use symbol_names::symbol_names;
pub use trace::{Object, ObjectKind, Place, SourcePlace, Symbol, Thread, Trace};
