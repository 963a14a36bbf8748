//! What the runtime in the program and the tool outside of it say to each other.
//!
//! | message | direction | module |
//! | --- | --- | --- |
//! | which mode to run in, and with which files | tool to runtime | `environment` |
//! | the schedule that a replay enforces | tool to runtime | `schedule` |
//! | the events of a recording | runtime to tool | `code`, `stream`, `chunk`, `tail`, `statistics` |
//! | what happened in a replay or under the detector | runtime to tool | `report` |
//! | what a tracked run is to watch, and what it saw | both | `tracking` |
//! | what a guarded program is to try, and what came of it | both | `guarding` |
//! | what other processes said to the program | runtime to tool | `inputs` |
//! | files that later runs do not find as they were | runtime to tool | `files` |
//!
//! Every message has its writer and its reader in one file and a version that the reader checks.
//! The runtime is a shared object without allocator that must not panic, so nothing here allocates;
//! readers borrow from the text or the bytes that they are given.
#![no_std]
#![forbid(unsafe_code)]
// The runtime interposes `memset` and `memcpy`; loops in this crate must not become calls of them.
#![no_builtins]

mod chunk;
mod code;
pub mod environment;
mod fields;
pub mod files;
pub mod guarding;
pub mod inputs;
pub mod report;
pub mod schedule;
pub mod statistics;
mod stream;
pub mod tail;
pub mod tracking;

pub use chunk::{
    BadHeader, CHUNK_HEADER, CHUNK_MAGIC, ChunkHeader, ChunkKind, STREAM_VERSION, checksum,
};
pub use code::{
    Code, atomic_detail, channel_object, descriptor_address, descriptor_number, ended, lost,
    misuse, object,
};
pub use stream::{Decoder, MAX_EVENT, Malformed, Record, SLOTS, Sites, put_varint};
