//! Race candidates: two accesses that may touch the same memory at the same time, at least one of them a
//! write, not both atomic, without a common lock.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::access::{Access, Act, Target, accesses, escaped, is_data, is_made_by};
use crate::candidate::{Candidate, CandidateKind, Place, SourcePlace};
use crate::code::Code;
use crate::describe;
use crate::fresh::Fresh;
use crate::hand_over::HandOver;
use crate::instance::ThreadId;
use crate::lock_set::LockSets;
use crate::object::{Location, ObjectId};
use crate::parallel::Parallel;
use crate::symbol::{Root, Symbols};

/// Pairs of accesses of one object that are looked at; what is beyond is said.
const MOST_PAIRS: usize = 4_000_000;

pub struct Races<'a, 'b, 'p> {
    pub code: &'a Code<'p>,
    pub symbols: &'b mut Symbols<'a, 'p>,
    pub parallel: &'b Parallel,
    pub locks: &'b LockSets,
    pub hand_over: &'b HandOver,
    escaped: FxHashSet<ObjectId>,
    fresh: Fresh,
    /// Objects with more pairs than were looked at.
    pub cut_off: Vec<String>,
}

/// An access to one place of one object.
#[derive(Clone, Copy, Debug)]
struct Touch {
    access: usize,
    start: u64,
    end: u64,
}

impl<'a, 'b, 'p> Races<'a, 'b, 'p> {
    pub fn new(
        code: &'a Code<'p>,
        symbols: &'b mut Symbols<'a, 'p>,
        parallel: &'b Parallel,
        locks: &'b LockSets,
        hand_over: &'b HandOver,
    ) -> Self {
        let escaped = escaped(code);
        let fresh = Fresh::new(code, symbols, (parallel, locks), &escaped);
        Self {
            code,
            symbols,
            parallel,
            locks,
            hand_over,
            escaped,
            fresh,
            cut_off: Vec::new(),
        }
    }

    pub fn candidates(&mut self) -> Vec<Candidate> {
        let all = accesses(self.code, self.parallel);
        let mut by_object: BTreeMap<ObjectId, Vec<Touch>> = BTreeMap::new();
        for (number, access) in all.iter().enumerate() {
            for at in access.places(self.code) {
                let is_shared = self.escaped.contains(&at.object) && is_data(self.code, at.object);
                if is_shared
                    && !self
                        .fresh
                        .is_fresh(self.symbols, access.point, access.address, at.object)
                {
                    by_object.entry(at.object).or_default().push(Touch {
                        access: number,
                        start: at.offset,
                        end: at.offset.saturating_add(access.size),
                    });
                }
            }
        }
        let mut found: BTreeMap<(SourcePlace, SourcePlace), Candidate> = BTreeMap::new();
        for (object, touches) in by_object {
            self.of_object(&all, object, touches, &mut found);
        }
        found.into_values().collect()
    }

    fn of_object(
        &mut self,
        all: &[Access],
        object: ObjectId,
        mut touches: Vec<Touch>,
        found: &mut BTreeMap<(SourcePlace, SourcePlace), Candidate>,
    ) {
        let mut threads: Vec<ThreadId> = touches
            .iter()
            .flat_map(|touch| self.code.threads_of(all[touch.access].point.instance))
            .copied()
            .collect();
        threads.sort_unstable();
        threads.dedup();
        let is_shared = match threads.as_slice() {
            [only] => self.parallel.is_multiple(*only),
            _ => true,
        };
        if !is_shared || touches.iter().all(|touch| !all[touch.access].act.writes()) {
            return;
        }
        touches.sort_by_key(|touch| (touch.start, touch.end, touch.access));
        let mut pairs = 0;
        for (at, first) in touches.iter().enumerate() {
            for second in &touches[at..] {
                if second.start >= first.end {
                    break;
                }
                pairs += 1;
                if pairs > MOST_PAIRS {
                    self.cut_off.push(describe::location(
                        self.code,
                        Location { object, offset: 0 },
                    ));
                    return;
                }
                self.pair(all, object, (first, second), found);
            }
        }
    }

    fn pair(
        &mut self,
        all: &[Access],
        object: ObjectId,
        touches: (&Touch, &Touch),
        found: &mut BTreeMap<(SourcePlace, SourcePlace), Candidate>,
    ) {
        let (a, b) = (&all[touches.0.access], &all[touches.1.access]);
        if !a.act.conflicts(b.act) {
            return;
        }
        if self.are_apart(a, b) {
            return;
        }
        let Some(threads) = self.overlapping(a, b, object) else {
            return;
        };
        if self.locks.exclude(
            self.code,
            self.symbols,
            (a.point, a.address),
            (b.point, b.address),
        ) {
            return;
        }
        let mut sides =
            [(a, threads.0), (b, threads.1)].map(|(access, thread)| self.place(access, thread));
        sides.sort();
        let [first, second] = sides;
        let key = (first.at.clone(), second.at.clone());
        let at = Location {
            object,
            offset: touches.0.start.max(touches.1.start),
        };
        let new = Candidate {
            kind: CandidateKind::DataRace,
            rank: 0,
            object: describe::location(self.code, at),
            places: vec![first, second],
        };
        match found.get(&key) {
            Some(old) if old.rank >= new.rank => {}
            _ => {
                found.insert(key, new);
            }
        }
    }

    /// Two threads that may execute the two accesses at the same time.
    fn overlapping(
        &self,
        a: &Access,
        b: &Access,
        object: ObjectId,
    ) -> Option<(ThreadId, ThreadId)> {
        for &first in self.code.threads_of(a.point.instance) {
            for &second in self.code.threads_of(b.point.instance) {
                if first == second {
                    let is_own =
                        is_made_by(self.code, object, first) && !self.escaped.contains(&object);
                    if !self.parallel.is_multiple(first) || is_own {
                        continue;
                    }
                }
                let (a, b) = ((first, a.point), (second, b.point));
                let is_ordered = || {
                    self.hand_over.is_before(self.parallel, self.locks, a, b)
                        || self.hand_over.is_before(self.parallel, self.locks, b, a)
                };
                if self.parallel.may_overlap(a, b) && !is_ordered() {
                    return Some((first, second));
                }
            }
        }
        None
    }

    /// Whether two accesses touch different constant offsets of one object.
    fn are_apart(&mut self, a: &Access, b: &Access) -> bool {
        if a.target != Target::Direct || b.target != Target::Direct {
            return false;
        }
        let first = self.symbols.of(a.point.instance, a.address);
        let second = self.symbols.of(b.point.instance, b.address);
        let is_object = matches!(self.symbols.root(first.root), Root::Object(object) if self.code.is_unique(object));
        if first.root != second.root || !is_object {
            return false;
        }
        let end = |start: i64, size: u64| start.saturating_add_unsigned(size);
        first.offset >= end(second.offset, b.size) || second.offset >= end(first.offset, a.size)
    }

    fn place(&self, access: &Access, thread: ThreadId) -> Place {
        let held = self.locks.before(access.point).iter();
        let created = self.code.points_to.instances.thread(thread).created.first();
        Place {
            at: describe::source(self.code, access.point),
            access: word(access.act),
            held: held
                .map(|held| describe::symbol(self.code, self.symbols, held.lock))
                .collect(),
            chain: describe::chain(self.code, access.point.instance),
            created: created.map(|&at| describe::source(self.code, at)),
        }
    }
}

fn word(act: Act) -> &'static str {
    match act {
        Act::Read => "read",
        Act::Write => "write",
        Act::AtomicRead => "atomic read",
        Act::AtomicWrite => "atomic write",
        Act::Use => "use",
        Act::Renew => "initialise or destroy",
        Act::Free => "free",
    }
}
