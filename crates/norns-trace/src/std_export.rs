//! What the STD format of RAPID can say of any trace.
//!
//! Kept: fork, join, exclusive locks (a recursive one at its outermost level), plain accesses; a
//! `free` is a write to its block. Variables are locations: the bytes between two neighbouring ends of
//! accesses; an access to several locations is several lines. Locks and variables have different
//! names, since RAPID keeps both in one table, and the location of a line is the number of its place,
//! since RAPID reads 32 bits. Everything else is left out and counted: a reader of the text sees more
//! schedules than the program has.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::effect::{Effect, Mode, OnLock, OnThread, TouchKind};
use crate::event::{Access, Event, ObjectId, Op, ThreadId};
use crate::trace::{Object, ObjectKind, Place, Symbol, Thread, Trace};

/// The part of a trace that `std_format::write` can write, and how many events of which operation
/// were left out.
pub fn project(trace: &Trace) -> (Trace, BTreeMap<&'static str, u64>) {
    let mut left_out: BTreeMap<&'static str, u64> = BTreeMap::new();
    let locations = Locations::of(trace);
    let thread_name = |thread: &Thread| Thread {
        name: plain(&thread.name),
        parent: thread.parent,
    };
    let mut out = Trace {
        threads: trace.threads.iter().map(thread_name).collect(),
        objects: trace
            .objects
            .iter()
            .enumerate()
            .map(|(number, object)| Object {
                kind: ObjectKind::Mutex,
                address: 0,
                name: named("L", number, &object.name),
            })
            .collect(),
        places: (0..trace.places.len() as u64)
            .map(|number| Place {
                pc: number,
                frames: Vec::new(),
            })
            .collect(),
        symbols: locations.symbols(trace),
        accesses_ordered: trace.accesses_ordered,
        ..Trace::default()
    };
    let mut held: FxHashMap<(ThreadId, ObjectId), Held> = FxHashMap::default();
    for event in &trace.events {
        let mut keep = |op: Op| out.events.push(Event { op, ..*event });
        match event.op.effect() {
            Effect::Thread(act) => match act {
                OnThread::Fork(_) | OnThread::Join(_) => keep(event.op),
                OnThread::Start | OnThread::End => {}
                OnThread::FailedJoin(_) | OnThread::Detach(_) => count(&mut left_out, event.op),
            },
            Effect::Lock(lock, act) => {
                let held = held.entry((event.thread, lock)).or_default();
                if held.follow(act) {
                    keep(event.op);
                } else {
                    count(&mut left_out, event.op);
                }
            }
            Effect::Memory(touch) => {
                let make = match (touch.kind, touch.writes) {
                    (TouchKind::Plain | TouchKind::Free, true) => Op::Write,
                    (TouchKind::Plain | TouchKind::Free, false) => Op::Read,
                    (
                        TouchKind::Atomic
                        | TouchKind::Allocate
                        | TouchKind::Use
                        | TouchKind::Destroy
                        | TouchKind::Initialise,
                        _,
                    ) => {
                        count(&mut left_out, event.op);
                        continue;
                    }
                };
                for start in locations.of_access(touch.access) {
                    keep(make(Access {
                        address: start,
                        size: 1,
                    }));
                }
            }
            Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Local => count(&mut left_out, event.op),
        }
    }
    (out, left_out)
}

/// How a thread holds a lock.
#[derive(Default)]
struct Held {
    /// How many times the thread has acquired the lock and not released it.
    depth: u32,
    /// Whether the first of these was for reading.
    reading: bool,
}

impl Held {
    /// Whether the format can tell this operation: the outermost levels of write locks only.
    fn follow(&mut self, act: OnLock) -> bool {
        match act {
            OnLock::Acquire(mode) => {
                self.depth += 1;
                if self.depth == 1 {
                    self.reading = mode == Mode::Read;
                }
                self.depth == 1 && !self.reading
            }
            OnLock::Release => {
                self.depth = self.depth.saturating_sub(1);
                self.depth == 0 && !self.reading
            }
            OnLock::FailedAcquire(_) => false,
        }
    }
}

fn count(left_out: &mut BTreeMap<&'static str, u64>, op: Op) {
    *left_out.entry(op.kind().word).or_default() += 1;
}

fn named(prefix: &str, number: usize, name: &str) -> String {
    if name.is_empty() {
        format!("{prefix}{number}")
    } else {
        format!("{prefix}{number}.{}", plain(name))
    }
}

/// Without what separates in a line of the format.
fn plain(name: &str) -> String {
    name.replace(
        |c: char| c.is_whitespace() || c.is_control() || "|()".contains(c),
        "_",
    )
}

struct Locations {
    /// Where locations begin, or accessed memory ends; sorted.
    bounds: Vec<u64>,
}

impl Locations {
    fn of(trace: &Trace) -> Locations {
        let accesses = trace
            .events
            .iter()
            .filter_map(|event| event.op.plain_access());
        let ends =
            |(access, _): (Access, bool)| [access.address, access.address + u64::from(access.size)];
        let mut bounds: Vec<u64> = accesses.flat_map(ends).collect();
        bounds.sort_unstable();
        bounds.dedup();
        Locations { bounds }
    }

    fn of_access(&self, access: Access) -> impl Iterator<Item = u64> + '_ {
        let first = self.bounds.partition_point(|&bound| bound < access.address);
        let end = access.address + u64::from(access.size);
        self.bounds[first..]
            .iter()
            .copied()
            .take_while(move |&bound| bound < end)
    }

    fn symbols(&self, trace: &Trace) -> Vec<Symbol> {
        let spans = self.bounds.windows(2).enumerate();
        spans
            .map(|(number, span)| Symbol {
                address: span[0],
                size: span[1] - span[0],
                name: named(
                    "V",
                    number,
                    trace.symbol_at(span[0]).map_or("", |symbol| &symbol.name),
                ),
            })
            .collect()
    }
}
