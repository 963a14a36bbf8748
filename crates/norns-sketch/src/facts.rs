//! What was seen in one run, as facts that are true or false of it.
//!
//! Orders and patterns of accesses are those of Figure 12 and section 4.4 of Kasikci (2015). A statement
//! is a program counter: it is the same in all runs of one build. Memory that is handed out again is
//! other memory. Operations on locks, conditions and semaphores count as writes to their object, so that
//! the orders of a hang are found as well.
//!
//! `memory` follows the accesses to one location, `two_locations` steps that are about two.
//!
//! Bounded: of a statement the first `VALUES` different values are kept.

use std::collections::{BTreeMap, BTreeSet};

use norns_trace::{Effect, Event, EventIndex, Op, PlaceId, ThreadId, Trace};
use serde::{Deserialize, Serialize};

use crate::memory::{Memory, One, Seen};
use crate::steps::is_failure;
use crate::two_locations::TwoLocations;

const VALUES: usize = 64;

/// A place of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Statement {
    pub pc: u64,
    pub file: String,
    /// 0 if it is not known.
    pub line: u32,
    pub function: String,
}

impl Statement {
    /// The innermost frame that is the program's own.
    pub fn of(trace: &Trace, place: PlaceId) -> Statement {
        let place = trace.place(place);
        let mut frames = place.frames.iter();
        let frame = frames.find(|frame| frame.line > 0 && !is_of_system(&frame.file));
        let frame = frame.cloned().unwrap_or_default();
        Statement {
            pc: place.pc,
            file: frame.file,
            line: frame.line,
            function: frame.function,
        }
    }
}

/// The calls that are open in each thread, from the first event on.
///
/// What an inline function of a library accesses, such as one of `std::vector`, belongs to the program's statement
/// that called it: other statements call it as well.
pub struct OpenCalls {
    of_thread: Vec<Vec<PlaceId>>,
    /// For each place whether it is in the program's own code.
    is_own: Vec<bool>,
}

impl OpenCalls {
    pub fn new(trace: &Trace) -> Self {
        let places = (0..trace.places.len()).map(PlaceId::from_index);
        Self {
            of_thread: vec![Vec::new(); trace.threads.len()],
            is_own: places
                .map(|place| Statement::of(trace, place).line > 0)
                .collect(),
        }
    }

    pub fn add(&mut self, event: &Event) {
        let calls = &mut self.of_thread[event.thread.index()];
        if event.op == Op::Enter {
            calls.push(event.place);
        } else if event.op == Op::Leave {
            calls.pop();
        }
    }

    /// The calls of a thread, innermost last.
    pub fn of(&self, thread: ThreadId) -> &[PlaceId] {
        &self.of_thread[thread.index()]
    }

    fn is_own(&self, place: PlaceId) -> bool {
        self.is_own[place.index()]
    }

    /// The place of the statement to which an event belongs that has just been added.
    fn place(&self, event: &Event) -> PlaceId {
        if self.is_own(event.place) || matches!(event.op, Op::Enter | Op::Leave) {
            return event.place;
        }
        let mut callers = self.of(event.thread).iter().rev();
        *callers
            .find(|&&call| self.is_own(call))
            .unwrap_or(&event.place)
    }
}

/// For each event the place of its statement.
pub fn places(trace: &Trace) -> Vec<PlaceId> {
    let mut calls = OpenCalls::new(trace);
    let events = trace.events.iter();
    events
        .map(|event| {
            calls.add(event);
            calls.place(event)
        })
        .collect()
}

/// Whether the file belongs to the C library, to a library of the system or to the runtime.
fn is_of_system(file: &str) -> bool {
    let roots = ["/usr/", "/rustc/", "./", "../"];
    file.is_empty()
        || roots.iter().any(|root| file.starts_with(root))
        || file.contains("norns-rt/src/")
}

/// An order of accesses to one location: R is a read, W a write, and neighbours are of different threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Pattern {
    WW,
    WR,
    RW,
    RWR,
    WWR,
    RWW,
    WRW,
}

impl Pattern {
    pub fn name(self) -> &'static str {
        match self {
            Pattern::WW => "WW",
            Pattern::WR => "WR",
            Pattern::RW => "RW",
            Pattern::RWR => "RWR",
            Pattern::WWR => "WWR",
            Pattern::RWW => "RWW",
            Pattern::WRW => "WRW",
        }
    }

    /// The same accesses in the other order.
    pub fn reversed(self) -> Pattern {
        match self {
            Pattern::WR => Pattern::RW,
            Pattern::RW => Pattern::WR,
            Pattern::WWR => Pattern::RWW,
            Pattern::RWW => Pattern::WWR,
            same @ (Pattern::WW | Pattern::RWR | Pattern::WRW) => same,
        }
    }

    pub(crate) fn of_two(first: bool, second: bool) -> Option<Pattern> {
        match (first, second) {
            (true, true) => Some(Pattern::WW),
            (true, false) => Some(Pattern::WR),
            (false, true) => Some(Pattern::RW),
            (false, false) => None,
        }
    }

    /// The other patterns of three accesses can be put in sequence.
    pub(crate) fn of_three(first: bool, other: bool, last: bool) -> Option<Pattern> {
        match (first, other, last) {
            (false, true, false) => Some(Pattern::RWR),
            (true, true, false) => Some(Pattern::WWR),
            (false, true, true) => Some(Pattern::RWW),
            (true, false, true) => Some(Pattern::WRW),
            _ => None,
        }
    }
}

/// An order that was seen, by the statements in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Order {
    pub pattern: Pattern,
    pub statements: Vec<u64>,
    pub how: How,
}

/// How the accesses of an order belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// One came some time after the other.
    Anywhere,
    /// Nothing that conflicts came between.
    Adjacent,
    /// The first is to another location than the last.
    TwoLocations,
}

/// The values that a statement read or wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    pub writes: bool,
    pub bytes: u32,
    pub least: i64,
    pub greatest: i64,
    /// Different values, at most `VALUES`, each with its first event.
    pub seen: BTreeMap<i64, u32>,
}

/// The facts of one run: plain data, the version of which is `FORMAT`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub format: u32,
    /// With the events of one occurrence.
    #[serde(with = "pairs")]
    pub orders: BTreeMap<Order, Vec<u32>>,
    /// By statement and whether it writes there.
    #[serde(with = "pairs")]
    pub values: BTreeMap<(u64, bool), Values>,
    /// The statements at which a branch arrived, with the first event.
    pub branches: BTreeMap<u64, u32>,
    /// Where the statements are that ran.
    pub statements: BTreeMap<u64, Statement>,
    /// Statements that are operations on locks, conditions, threads and the like.
    #[serde(default)]
    pub operations: BTreeSet<u64>,
    /// The first event of each.
    pub first: BTreeMap<u64, u32>,
    /// Orders of two in which the second was the first event of its statement.
    pub before_first: BTreeSet<(Pattern, u64, u64)>,
}

pub const FORMAT: u32 = 1;

impl Facts {
    /// The facts of a run of which all accesses are known in their order.
    pub fn of(trace: &Trace) -> Facts {
        let mut facts = Facts {
            format: FORMAT,
            ..Facts::default()
        };
        let mut memory = Memory::default();
        let mut accesses: Vec<(Seen, One)> = Vec::new();
        let mut values = trace.values.iter().peekable();
        let mut calls = OpenCalls::new(trace);
        for (index, event) in trace.events.iter().enumerate() {
            let index = EventIndex::from_index(index);
            while values.next_if(|value| value.event < index).is_some() {}
            calls.add(event);
            if trace.place(event.place).pc == 0 {
                continue;
            }
            let place = calls.place(event);
            let pc = trace.place(place).pc;
            if !matches!(event.op.effect(), Effect::Memory(_) | Effect::Local) {
                facts.operations.insert(pc);
            }
            // What follows a failure does not explain it: the handlers of `exit`, for example.
            if is_failure(trace, event.op) {
                break;
            }
            if is_branch(trace, event.op) {
                facts.branches.entry(pc).or_insert(index.0);
                facts.know(trace, place, index);
                continue;
            }
            let Some(seen) = Seen::of(trace, event.op) else {
                continue;
            };
            facts.know(trace, place, index);
            // A call of a library's function is many accesses, of which only an atomic one is what it is about.
            let is_of_statement = place == event.place || event.op.plain_access().is_none();
            let value = values.next_if(|value| value.event == index);
            if let Some(value) = value.filter(|_| is_of_statement) {
                for (bytes, writes) in [(&value.read, false), (&value.written, true)] {
                    facts.value(pc, writes, bytes, index);
                }
            }
            let access = One {
                thread: event.thread,
                pc,
                writes: seen.writes,
                event: index,
            };
            memory.access(seen, access, &mut facts);
            accesses.push((seen, access));
        }
        TwoLocations::of(&facts).add(&accesses, &mut facts);
        facts
    }

    fn know(&mut self, trace: &Trace, place: PlaceId, event: EventIndex) {
        let pc = trace.place(place).pc;
        self.first.entry(pc).or_insert(event.0);
        self.statements
            .entry(pc)
            .or_insert_with(|| Statement::of(trace, place));
    }

    fn value(&mut self, pc: u64, writes: bool, bytes: &[u8], event: EventIndex) {
        let Some(value) = signed(bytes) else {
            return;
        };
        let values = self.values.entry((pc, writes)).or_insert_with(|| Values {
            writes,
            bytes: bytes.len() as u32,
            least: value,
            greatest: value,
            seen: BTreeMap::new(),
        });
        values.least = values.least.min(value);
        values.greatest = values.greatest.max(value);
        if values.seen.len() < VALUES {
            values.seen.entry(value).or_insert(event.0);
        }
    }

    pub(crate) fn order(&mut self, pattern: Option<Pattern>, accesses: &[One], how: How) {
        let Some(pattern) = pattern else {
            return;
        };
        let order = Order {
            pattern,
            statements: accesses.iter().map(|access| access.pc).collect(),
            how,
        };
        let events = accesses.iter().map(|access| access.event.0).collect();
        self.orders.insert(order, events);
    }
}

fn is_branch(trace: &Trace, op: Op) -> bool {
    let Op::Custom(custom) = op else {
        return false;
    };
    trace.customs[custom as usize].name == "branch"
}

/// A little-endian number with its sign; `None` if it is longer than a word.
pub fn signed(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let shift = 64 - 8 * bytes.len() as u32;
    Some((i64::from_le_bytes(word) << shift) >> shift)
}

/// Maps whose keys JSON does not allow, as lists of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K, V, S>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
    where
        K: Serialize,
        V: Serialize,
        S: Serializer,
    {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        let pairs: Vec<(K, V)> = Vec::deserialize(deserializer)?;
        Ok(pairs.into_iter().collect())
    }
}
