//! The core, driven through whole runs in one thread, with a clock of its own.

mod events;
mod nonsense;
mod scenarios;
mod serial;
mod witnesses;
mod world;
