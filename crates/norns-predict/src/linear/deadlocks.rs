//! Lock deadlocks: cycles of threads, each of which waits for a lock that the next one holds.
//!
//! Acquisitions are grouped into classes: same thread, lock, mode, place, and locks held. A pattern
//! is a cycle of classes of different threads whose held locks do not exclude each other, which rules
//! out gate locks and cycles within one thread. The instances of a pattern are searched with one
//! growing ideal: an acquisition that is inside the ideal is replaced by the next one of its class
//! (SPDOffline, Tunç et al. 2023, there without modes). A pattern without an instance is tried with
//! reversed critical sections and otherwise left open.

use norns_csp::graph::strongly_connected;
use norns_trace::{EventIndex, Mode, ObjectId, PlaceId, ThreadId};
use rustc_hash::FxHashMap;

use super::critical::LockSet;
use super::ideal::{Passed, Target};
use super::{Linear, Options, Plan};
use crate::candidate::excludes;

/// A deadlock with the schedule that shows it.
#[derive(Clone, Debug)]
pub struct FoundDeadlock {
    /// Each waits for a lock that the thread of the next one holds. The first is the smallest event.
    pub blocked: Vec<EventIndex>,
    pub plan: Plan,
}

#[derive(Clone, Debug, Default)]
pub struct DeadlockReport {
    /// One for each cycle of threads, locks, held locks and places. Sorted.
    pub deadlocks: Vec<FoundDeadlock>,
    /// One instance of each pattern for which no schedule was found. Sorted.
    pub open: Vec<Vec<EventIndex>>,
    /// How many patterns are proved to have no schedule.
    pub impossible: usize,
    /// Whether the search for cycles ran out of steps, so that there may be more patterns.
    pub cut: bool,
    /// How many patterns were not looked at because the work was spent.
    pub not_looked_at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ClassKey {
    thread: ThreadId,
    lock: ObjectId,
    mode: Mode,
    place: PlaceId,
    held: LockSet,
}

struct Class {
    key: ClassKey,
    /// In the order of the trace.
    events: Vec<EventIndex>,
}

struct Search<'a, 'm> {
    linear: &'a Linear<'m>,
    classes: Vec<Class>,
    /// For every lock, the classes that hold it.
    holding: FxHashMap<ObjectId, Vec<usize>>,
    /// For every class, the strongly connected component of its lock. A cycle stays within one.
    group: Vec<u32>,
    patterns: Vec<Vec<usize>>,
    /// How many steps are left.
    steps: usize,
    /// Whether some path has reached the current length.
    longer_paths: bool,
}

impl Linear<'_> {
    pub fn lock_deadlocks(&self, options: &Options) -> DeadlockReport {
        let mut search = Search::new(self, options.cycle_steps);
        // Short cycles first, so that long ones are missing if the steps run out.
        for length in 2..=self.model.threads.len() {
            search.longer_paths = false;
            for start in 0..search.classes.len() {
                search.extend(&mut vec![start], length);
            }
            if !search.longer_paths {
                break;
            }
        }
        let mut report = DeadlockReport {
            cut: search.steps == 0,
            ..DeadlockReport::default()
        };
        self.work.count((options.cycle_steps - search.steps) as u64);
        for pattern in &search.patterns {
            if self.work.is_spent() {
                report.not_looked_at += 1;
                continue;
            }
            let lists: Vec<&[EventIndex]> = pattern
                .iter()
                .map(|&class| search.classes[class].events.as_slice())
                .collect();
            let found = self
                .instance(&lists, |ideal, targets| self.keep_order(ideal, targets))
                .or_else(|| self.instance_reversed(&lists, options));
            match found {
                Some((blocked, plan)) => {
                    report.deadlocks.push(FoundDeadlock {
                        blocked: smallest_first(blocked),
                        plan,
                    });
                }
                None if self.is_impossible_pattern(&lists) => report.impossible += 1,
                None => {
                    let example = lists.iter().map(|events| events[0]).collect();
                    report.open.push(smallest_first(example));
                }
            }
        }
        report
            .deadlocks
            .sort_unstable_by(|one, other| one.blocked.cmp(&other.blocked));
        report.open.sort_unstable();
        report
    }

    /// The first instance whose ideal can be closed. Ideals only grow, so none is missed.
    fn instance(
        &self,
        lists: &[&[EventIndex]],
        close: impl Fn(&mut [u32], &[Target]) -> Result<(), Passed>,
    ) -> Option<(Vec<EventIndex>, Plan)> {
        let mut next = vec![0; lists.len()];
        let mut ideal = vec![0; self.model.threads.len()];
        loop {
            let mut events = Vec::with_capacity(lists.len());
            for (list, next) in lists.iter().zip(&mut next) {
                while self.is_inside(&ideal, *list.get(*next)?) {
                    *next += 1;
                }
                events.push(list[*next]);
            }
            for &event in &events {
                self.clocks.approach(self.model, &mut ideal, event);
            }
            let targets: Vec<_> = events.iter().map(|&event| self.target(event)).collect();
            if close(&mut ideal, &targets).is_ok() {
                return Some((
                    events,
                    Plan {
                        ideal: ideal.into(),
                        reordering: None,
                    },
                ));
            }
            if !events.iter().any(|&event| self.is_inside(&ideal, event)) {
                // The ideal exceeds the limits of the trace, and so does every larger one.
                return None;
            }
        }
    }

    fn is_impossible_pattern(&self, lists: &[&[EventIndex]]) -> bool {
        let possible = self.instance(lists, |ideal, targets| self.close_needed(ideal, targets));
        self.exact_clocks && possible.is_none()
    }

    /// Tries each acquisition of the first class with the nearest ones of the other classes.
    fn instance_reversed(
        &self,
        lists: &[&[EventIndex]],
        options: &Options,
    ) -> Option<(Vec<EventIndex>, Plan)> {
        let tries = options.nearest.saturating_mul(64);
        let firsts = lists[0].iter().take(tries);
        let mut firsts = firsts.take_while(|_| !self.work.is_spent());
        firsts.find_map(|&first| {
            // Bit i of the choice says on which side of the first event the i-th one lies.
            (0..1u32 << (lists.len() - 1).min(3)).find_map(|choice| {
                let mut events = vec![first];
                for (i, list) in lists[1..].iter().enumerate() {
                    let after = list.partition_point(|&event| event < first);
                    let at = if choice >> i & 1 == 0 {
                        after
                    } else {
                        after.checked_sub(1)?
                    };
                    events.push(*list.get(at)?);
                }
                let plan = self.plan_with_reversal(&events, options)?;
                Some((events, plan))
            })
        })
    }

    fn is_inside(&self, ideal: &[u32], event: EventIndex) -> bool {
        let target = self.target(event);
        target.position < ideal[target.thread]
    }
}

impl<'a, 'm> Search<'a, 'm> {
    fn new(linear: &'a Linear<'m>, steps: usize) -> Self {
        let model = linear.model;
        let mut ids: FxHashMap<ClassKey, usize> = FxHashMap::default();
        let mut classes: Vec<Class> = Vec::new();
        for section in linear.sections.all() {
            let event = model.trace.events[section.acquired.index()];
            let before = model.position[section.acquired.index()];
            let held = linear.sections.held(model, event.thread, before);
            let key = ClassKey {
                thread: event.thread,
                lock: section.lock,
                mode: section.mode,
                place: event.place,
                held: linear.sections.lock_set(held),
            };
            if linear.sections.locks(key.held).is_empty() {
                continue;
            }
            let id = *ids.entry(key).or_insert(classes.len());
            if id == classes.len() {
                classes.push(Class {
                    key,
                    events: Vec::new(),
                });
            }
            classes[id].events.push(section.acquired);
        }
        // An edge leads from a lock to one that is acquired while it is held.
        let mut acquired_inside = vec![Vec::new(); model.trace.objects.len()];
        for class in &classes {
            for &(held, _) in linear.sections.locks(class.key.held) {
                acquired_inside[held.index()].push(class.key.lock.index() as u32);
            }
        }
        let component = strongly_connected(acquired_inside.len(), |lock| {
            acquired_inside[lock as usize].iter().copied()
        });
        let of = |lock: ObjectId| component[lock.index()];
        classes.retain(|class| {
            let mut held = linear.sections.locks(class.key.held).iter();
            held.any(|&(held, _)| of(held) == of(class.key.lock))
        });
        let group = classes.iter().map(|class| of(class.key.lock)).collect();
        let mut holding: FxHashMap<ObjectId, Vec<usize>> = FxHashMap::default();
        for (i, class) in classes.iter().enumerate() {
            for &(lock, _) in linear.sections.locks(class.key.held) {
                holding.entry(lock).or_default().push(i);
            }
        }
        Self {
            linear,
            classes,
            holding,
            group,
            patterns: Vec::new(),
            steps,
            longer_paths: false,
        }
    }

    /// Adds all patterns of this length that begin with `path` and whose first class is the smallest.
    fn extend(&mut self, path: &mut Vec<usize>, length: usize) {
        let last = self.classes[path[path.len() - 1]].key;
        let holders = self.holding.get(&last.lock).cloned().unwrap_or_default();
        for next in holders {
            if next < path[0] || self.steps == 0 || self.group[next] != self.group[path[0]] {
                continue;
            }
            self.steps -= 1;
            let key = self.classes[next].key;
            if !self.waits_for(&last, &key) {
                continue;
            }
            if path.len() == length {
                if next == path[0] {
                    self.patterns.push(path.clone());
                }
                continue;
            }
            let fits = path.iter().all(|&other| {
                let other = self.classes[other].key;
                other.thread != key.thread && self.linear.sections.compatible(other.held, key.held)
            });
            if fits {
                self.longer_paths |= path.len() + 1 == length;
                path.push(next);
                self.extend(path, length);
                path.pop();
            }
        }
    }

    /// Whether the acquisitions of `waiting` need a lock that `holder` holds.
    fn waits_for(&self, waiting: &ClassKey, holder: &ClassKey) -> bool {
        let locks = self.linear.sections.locks(holder.held);
        locks
            .iter()
            .any(|&(lock, mode)| lock == waiting.lock && excludes(mode, waiting.mode))
    }
}

/// Rotates the cycle so that its smallest event comes first.
fn smallest_first(mut cycle: Vec<EventIndex>) -> Vec<EventIndex> {
    let smallest = (0..cycle.len()).min_by_key(|&i| cycle[i]).unwrap_or(0);
    cycle.rotate_left(smallest);
    cycle
}
