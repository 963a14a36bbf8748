//! The accesses of a run, location by location, and the orders that follow from them.
//!
//! A location is known by its first byte. Bounded: of a location the accesses of the first `DISTINCT`
//! statements are compared with each other, and of the accesses to more than a word the last `WIDE` are
//! compared with locations that become known later.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use norns_trace::effect::{OnCondition, OnLock, OnSemaphore};
use norns_trace::{Access, Effect, EventIndex, Op, ThreadId, Touch, TouchKind, Trace};

use crate::facts::{Facts, How, Pattern};

const DISTINCT: usize = 64;
const WIDE: usize = 256;
const WORD: u32 = 8;

/// What an operation does to memory, or to an object that lies there.
#[derive(Clone, Copy)]
pub struct Seen {
    pub access: Access,
    pub writes: bool,
    pub life: Life,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Life {
    GoesOn,
    Begins,
    Ends,
}

impl Seen {
    pub fn of(trace: &Trace, op: Op) -> Option<Seen> {
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
pub struct One {
    pub thread: ThreadId,
    pub pc: u64,
    pub writes: bool,
    pub event: EventIndex,
}

/// The accesses of a run, by address.
#[derive(Default)]
pub struct Memory {
    locations: BTreeMap<u64, Location>,
    /// Blocks that were freed: their first byte, the byte behind them, and who freed them.
    freed: BTreeMap<u64, (u64, One)>,
    /// The last accesses to more than a word, such as those of `memcpy`, with their ranges. A location in
    /// them may become known only later.
    wide: VecDeque<(Range<u64>, One)>,
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
    pub fn access(&mut self, seen: Seen, one: One, facts: &mut Facts) {
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
        let wide = &self.wide;
        let location = self.locations.entry(address).or_insert_with(|| {
            let mut location = Location::default();
            if let Some(freed) = freed {
                location.access(freed, facts);
            }
            for (_, earlier) in wide
                .iter()
                .rev()
                .filter(|(range, _)| range.contains(&address))
            {
                location.access(*earlier, facts);
            }
            location
        });
        location.access(one, facts);
        if size > WORD {
            for (_, location) in self.locations.range_mut(address + 1..end) {
                location.access(one, facts);
            }
            self.wide.truncate(WIDE - 1);
            self.wide.push_front((address..end, one));
        }
    }

    /// The bytes belong to a new block.
    fn forget(&mut self, address: u64, end: u64) {
        self.wide
            .retain(|(range, _)| range.end <= address || range.start >= end);
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
                facts.order(pattern, &[*earlier, one], How::Anywhere);
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
            facts.order(
                Pattern::of_two(true, one.writes),
                &[write, one],
                How::Adjacent,
            );
        }
        if one.writes {
            self.last_write = Some(one);
        }
        if let Some((mine, between)) = self.last.get(&one.thread) {
            for other in between {
                let pattern = Pattern::of_three(mine.writes, other.writes, one.writes);
                facts.order(pattern, &[*mine, *other, one], How::Adjacent);
            }
            // What the other thread did after this one's read and before its write.
            if one.writes
                && let Some(other) = between.first()
                && !mine.writes
                && mine.pc != other.pc
            {
                facts.order(
                    Pattern::of_two(false, other.writes),
                    &[*mine, *other],
                    How::Adjacent,
                );
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
