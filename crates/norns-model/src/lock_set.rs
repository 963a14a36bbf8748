//! Lock sets: which locks a thread holds just before each of its events.
//!
//! Follows Eraser (Savage et al. 1997), section 2, with read locks kept apart from write locks
//! as in section 5.5.2 of Carril (2017). What a thread holds depends on its own events
//! only, so a lock set is the same in every schedule. Equal sets are stored once.

pub use norns_trace::Mode;
use norns_trace::effect::OnLock;
use norns_trace::{Effect, EventIndex, ObjectId, ThreadId, Trace};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockSetId(pub u32);

/// The locks that a thread holds, sorted by lock, each once and in the strongest mode in which it is
/// held.
pub type LockSet = Vec<(ObjectId, Mode)>;

pub struct LockSets {
    sets: Vec<LockSet>,
    of_event: Vec<LockSetId>,
    at_end: Vec<LockSetId>,
    /// For the acquisition of a lock that the thread did not hold: the event that releases its
    /// last level, if there is one.
    releases: FxHashMap<EventIndex, Option<EventIndex>>,
    /// For the acquisition of a lock that the thread held already: the outermost acquisition.
    outermost: FxHashMap<EventIndex, EventIndex>,
}

/// A lock that a thread holds.
#[derive(Clone)]
struct Held {
    lock: ObjectId,
    mode: Mode,
    /// How many times the thread has acquired the lock and not released it.
    levels: u32,
    /// The outermost acquisition.
    acquired: EventIndex,
}

impl LockSets {
    pub fn of(trace: &Trace) -> LockSets {
        let mut known: FxHashMap<LockSet, LockSetId> = FxHashMap::default();
        let mut sets = LockSets {
            sets: vec![Vec::new()],
            of_event: Vec::with_capacity(trace.events.len()),
            at_end: Vec::new(),
            releases: FxHashMap::default(),
            outermost: FxHashMap::default(),
        };
        known.insert(Vec::new(), LockSetId(0));
        let mut held: Vec<Vec<Held>> = vec![Vec::new(); trace.threads.len()];
        let mut current = vec![LockSetId(0); trace.threads.len()];
        for (i, event) in trace.events.iter().enumerate() {
            let thread = event.thread.index();
            sets.of_event.push(current[thread]);
            let here = EventIndex::from_index(i);
            let Effect::Lock(lock, act) = event.op.effect() else {
                continue;
            };
            let changed = match act {
                OnLock::Acquire(mode) => sets.acquire(&mut held[thread], lock, mode, here),
                OnLock::Release => sets.release(&mut held[thread], lock, here),
                OnLock::FailedAcquire(_) => false,
            };
            if changed {
                let mut set: LockSet = held[thread]
                    .iter()
                    .map(|held| (held.lock, held.mode))
                    .collect();
                set.sort_unstable();
                current[thread] = *known.entry(set).or_insert_with_key(|set| {
                    sets.sets.push(set.clone());
                    LockSetId(sets.sets.len() as u32 - 1)
                });
            }
        }
        sets.at_end = current;
        sets
    }

    /// The locks that the thread of the event holds just before it.
    pub fn before(&self, event: EventIndex) -> LockSetId {
        self.of_event[event.index()]
    }

    /// The locks that the thread holds after its last event.
    pub fn at_end(&self, thread: ThreadId) -> LockSetId {
        self.at_end[thread.index()]
    }

    pub fn set(&self, id: LockSetId) -> &LockSet {
        &self.sets[id.0 as usize]
    }

    /// Whether a lock is in both sets and one of them holds it for writing.
    pub fn exclude(&self, one: LockSetId, other: LockSetId) -> bool {
        let (one, other) = (self.set(one), self.set(other));
        one.iter().any(|&(lock, mode)| {
            other
                .iter()
                .any(|&(l, m)| l == lock && (mode == Mode::Write || m == Mode::Write))
        })
    }

    /// The event after which the thread no longer holds what this acquisition acquired; `None`
    /// when there is none, or the thread held the lock before.
    pub fn release_of(&self, acquisition: EventIndex) -> Option<EventIndex> {
        self.releases.get(&acquisition).copied().flatten()
    }

    /// The acquisition that began to hold the lock: this one, unless the lock was held already.
    pub fn outermost(&self, acquisition: EventIndex) -> EventIndex {
        self.outermost
            .get(&acquisition)
            .copied()
            .unwrap_or(acquisition)
    }

    /// Whether the lock set changes.
    fn acquire(
        &mut self,
        all: &mut Vec<Held>,
        lock: ObjectId,
        mode: Mode,
        here: EventIndex,
    ) -> bool {
        if let Some(held) = all.iter_mut().find(|held| held.lock == lock) {
            held.levels += 1;
            self.outermost.insert(here, held.acquired);
            let stronger = mode > held.mode;
            held.mode = held.mode.max(mode);
            return stronger;
        }
        all.push(Held {
            lock,
            mode,
            levels: 1,
            acquired: here,
        });
        self.releases.insert(here, None);
        true
    }

    /// Whether the lock set changes.
    fn release(&mut self, all: &mut Vec<Held>, lock: ObjectId, here: EventIndex) -> bool {
        let Some(at) = all.iter().position(|held| held.lock == lock) else {
            return false;
        };
        all[at].levels -= 1;
        if all[at].levels > 0 {
            return false;
        }
        let released = all.remove(at);
        self.releases.insert(released.acquired, Some(here));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::trace;

    fn check(script: &str, expected: &[&str]) {
        let trace = trace(script);
        let sets = LockSets::of(&trace);
        let found: Vec<String> = (0..trace.events.len())
            .map(|i| {
                let set = sets.set(sets.before(EventIndex::from_index(i)));
                let name = |&(lock, mode): &(ObjectId, Mode)| {
                    let name = &trace.object(lock).name;
                    if mode == Mode::Read {
                        format!("{name}?")
                    } else {
                        name.clone()
                    }
                };
                set.iter().map(name).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn read_and_write_locks_and_levels() {
        check(
            "A: lock m, read-lock r, write x, unlock r, lock m, unlock m, write x, unlock m, end",
            &["", "m", "m r?", "m r?", "m", "m", "m", "m", ""],
        );
    }

    #[test]
    fn readers_do_not_exclude_each_other() {
        let trace = trace(
            "A: read-lock r, write x, unlock r
             B: read-lock r, write x, unlock r
             C: lock r, write x, unlock r",
        );
        let sets = LockSets::of(&trace);
        let at = |i| sets.before(EventIndex(i));
        assert!(!sets.exclude(at(1), at(4)));
        assert!(sets.exclude(at(1), at(7)));
    }
}
