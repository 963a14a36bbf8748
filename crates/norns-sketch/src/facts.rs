//! What was seen in one run, as facts that are true or false of it.
//!
//! Orders and patterns of accesses are those of Figure 12 and section 4.4 of Kasikci (2015). A statement
//! is a program counter: it is the same in all runs of one build. Memory that is handed out again is
//! other memory. Operations on locks, conditions and semaphores count as writes to their object, so that
//! the orders of a hang are found as well.
//!
//! Bounded: of a location the accesses of the first `DISTINCT` statements are compared with each other,
//! of a statement the first `VALUES` different values are kept, and the widest range of an access is
//! compared byte by byte no further than the locations that were accessed before.

use std::collections::{BTreeMap, BTreeSet};

use norns_trace::effect::{OnCondition, OnLock, OnSemaphore};
use norns_trace::{Access, Effect, EventIndex, Op, PlaceId, ThreadId, Touch, TouchKind, Trace};
use serde::{Deserialize, Serialize};

use crate::steps::is_failure;

const DISTINCT: usize = 64;
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

    fn of_two(first: bool, second: bool) -> Option<Pattern> {
        match (first, second) {
            (true, true) => Some(Pattern::WW),
            (true, false) => Some(Pattern::WR),
            (false, true) => Some(Pattern::RW),
            (false, false) => None,
        }
    }

    /// The other patterns of three accesses can be put in sequence.
    fn of_three(first: bool, other: bool, last: bool) -> Option<Pattern> {
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
    /// Whether nothing that conflicts came between.
    pub adjacent: bool,
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
        let mut values = trace.values.iter().peekable();
        for (index, event) in trace.events.iter().enumerate() {
            let index = EventIndex::from_index(index);
            while values.next_if(|value| value.event < index).is_some() {}
            let place = trace.place(event.place);
            if place.pc == 0 {
                continue;
            }
            // What follows a failure does not explain it: the handlers of `exit`, for example.
            if is_failure(trace, event.op) {
                break;
            }
            if is_branch(trace, event.op) {
                facts.branches.entry(place.pc).or_insert(index.0);
                facts.know(trace, event.place, index);
                continue;
            }
            let Some(seen) = Seen::of(trace, event.op) else {
                continue;
            };
            let place = event.place;
            facts.know(trace, place, index);
            if let Some(value) = values.next_if(|value| value.event == index) {
                for (bytes, writes) in [(&value.read, false), (&value.written, true)] {
                    facts.value(trace.place(place).pc, writes, bytes, index);
                }
            }
            let access = One {
                thread: event.thread,
                pc: trace.place(place).pc,
                writes: seen.writes,
                event: index,
            };
            memory.access(seen, access, &mut facts);
        }
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

    fn order(&mut self, pattern: Option<Pattern>, accesses: &[One], adjacent: bool) {
        let Some(pattern) = pattern else {
            return;
        };
        let order = Order {
            pattern,
            statements: accesses.iter().map(|access| access.pc).collect(),
            adjacent,
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

/// What an operation does to memory, or to an object that lies there.
#[derive(Clone, Copy)]
struct Seen {
    access: Access,
    writes: bool,
    life: Life,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    GoesOn,
    Begins,
    Ends,
}

impl Seen {
    fn of(trace: &Trace, op: Op) -> Option<Seen> {
        let at = |object| Seen {
            access: Access {
                address: trace.object(object).address,
                size: 1,
            },
            writes: true,
            life: Life::GoesOn,
        };
        match op.effect() {
            Effect::Memory(touch) => Some(Seen::of_touch(touch)),
            Effect::Lock(object, OnLock::Acquire(_)) => Some(at(object)),
            Effect::Condition(object, OnCondition::Signal | OnCondition::Broadcast) => {
                Some(at(object))
            }
            Effect::Semaphore(object, OnSemaphore::Wait | OnSemaphore::Post) => Some(at(object)),
            Effect::Thread(_)
            | Effect::Lock(..)
            | Effect::Once(..)
            | Effect::Condition(..)
            | Effect::Barrier(..)
            | Effect::Semaphore(..)
            | Effect::Channel(..)
            | Effect::Local => None,
        }
    }

    fn of_touch(touch: Touch) -> Seen {
        Seen {
            access: touch.access,
            writes: touch.writes,
            life: match touch.kind {
                TouchKind::Allocate => Life::Begins,
                TouchKind::Free => Life::Ends,
                TouchKind::Plain
                | TouchKind::Atomic
                | TouchKind::Use
                | TouchKind::Destroy
                | TouchKind::Initialise => Life::GoesOn,
            },
        }
    }
}

/// One access of a thread.
#[derive(Clone, Copy)]
struct One {
    thread: ThreadId,
    pc: u64,
    writes: bool,
    event: EventIndex,
}

/// The accesses of a run, by address.
#[derive(Default)]
struct Memory {
    locations: BTreeMap<u64, Location>,
    /// Blocks that were freed: their first byte, the byte behind them, and who freed them.
    freed: BTreeMap<u64, (u64, One)>,
}

#[derive(Default)]
struct Location {
    /// The first access of each statement and thread.
    earlier: Vec<One>,
    last_write: Option<One>,
    /// The last access of each thread, and what others have done since.
    last: BTreeMap<ThreadId, (One, Vec<One>)>,
}

impl Memory {
    fn access(&mut self, seen: Seen, one: One, facts: &mut Facts) {
        let Access { address, size } = seen.access;
        let end = address + u64::from(size);
        if seen.life == Life::Begins {
            self.forget(address, end);
            return;
        }
        if seen.life == Life::Ends {
            for (_, location) in self.locations.range_mut(address..end) {
                location.access(one, facts);
            }
            self.freed.insert(address, (end, one));
            return;
        }
        let freed = self.freed.range(..=address).next_back();
        let freed = freed.filter(|(_, (end, _))| address < *end);
        let freed = freed.map(|(_, (_, one))| *one);
        let location = self.locations.entry(address).or_insert_with(|| {
            let mut location = Location::default();
            if let Some(freed) = freed {
                location.access(freed, facts);
            }
            location
        });
        location.access(one, facts);
    }

    /// The bytes belong to a new block.
    fn forget(&mut self, address: u64, end: u64) {
        let old: Vec<u64> = self
            .locations
            .range(address..end)
            .map(|(&at, _)| at)
            .collect();
        for at in old {
            self.locations.remove(&at);
        }
        let before = self.freed.range(..end).rev().take(DISTINCT);
        let old: Vec<u64> = before
            .filter(|(_, (until, _))| *until > address)
            .map(|(&at, _)| at)
            .collect();
        for at in old {
            self.freed.remove(&at);
        }
    }
}

impl Location {
    fn access(&mut self, one: One, facts: &mut Facts) {
        let is_first = facts.first.get(&one.pc) == Some(&one.event.0);
        for earlier in &self.earlier {
            if earlier.thread != one.thread && earlier.pc != one.pc {
                let pattern = Pattern::of_two(earlier.writes, one.writes);
                if let Some(pattern) = pattern.filter(|_| is_first) {
                    facts.before_first.insert((pattern, earlier.pc, one.pc));
                }
                facts.order(pattern, &[*earlier, one], false);
            }
        }
        let is_known = |known: &One| {
            known.thread == one.thread && known.pc == one.pc && known.writes == one.writes
        };
        if self.earlier.len() < DISTINCT && !self.earlier.iter().any(is_known) {
            self.earlier.push(one);
        }
        if let Some(write) = self.last_write
            && write.thread != one.thread
            && write.pc != one.pc
        {
            facts.order(Pattern::of_two(true, one.writes), &[write, one], true);
        }
        if one.writes {
            self.last_write = Some(one);
        }
        if let Some((mine, between)) = self.last.get(&one.thread) {
            for other in between {
                let pattern = Pattern::of_three(mine.writes, other.writes, one.writes);
                facts.order(pattern, &[*mine, *other, one], true);
            }
            // What the other thread did after this one's read and before its write.
            if one.writes
                && let Some(other) = between.first()
                && !mine.writes
                && mine.pc != other.pc
            {
                facts.order(Pattern::of_two(false, other.writes), &[*mine, *other], true);
            }
        }
        for (thread, (_, between)) in &mut self.last {
            let is_new = |known: &One| known.pc != one.pc || known.writes != one.writes;
            if *thread != one.thread && between.len() < DISTINCT && between.iter().all(is_new) {
                between.push(one);
            }
        }
        self.last.insert(one.thread, (one, Vec::new()));
    }
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
