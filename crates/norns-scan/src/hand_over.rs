//! Order between threads that is not a lock: one thread gives a signal, another goes on only after it.
//!
//! A *signal* is a semaphore that begins at 0, a variable that is read and written under one lock or with
//! acquire and release order, a connected pair of descriptors, all units of a semaphore or eventfd, a barrier, a
//! `once` or the guard of a static variable. The rule: if every release of a signal comes after access `a` (all are made by `a`'s thread, and
//! none can precede `a`), and access `b` is only executed after the signal was seen, then `a` comes before `b`.
//! For a barrier in which all threads take part it is enough that `a` comes before the arrival of which `b`
//! has seen the end. Signals that go to and fro in a loop prove nothing here.

use norns_ir::{AtomicOrder, BlockId, Kind};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::Code;
use crate::condition::Condition;
use crate::dataflow::{Problem, Solution};
use crate::instance::{InstanceId, Point, ThreadId};
use crate::lock_set::LockSets;
use crate::parallel::Parallel;
use crate::signal::{SignalKind, Signals};
use crate::symbol::Symbols;

/// More than this many rounds of one barrier count as any number.
const MANY: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Count {
    signal: u32,
    times: u8,
}

/// What is known of signals at a point of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// Seen at least so often; sorted.
    seen: Vec<Count>,
    /// Seen by a relaxed load that no fence has followed yet; sorted.
    relaxed: Vec<Count>,
    /// Loaded before this thread could have released them itself; sorted.
    clean: Vec<Count>,
    /// Released by this thread at most so often; sorted.
    released: Vec<Count>,
}

/// Counts one more; only the rounds of a barrier are told apart.
fn raise(counts: &mut Vec<Count>, signal: u32, kind: SignalKind) {
    match counts.binary_search_by_key(&signal, |count| count.signal) {
        Ok(_) if !matches!(kind, SignalKind::Barrier { .. }) => {}
        Ok(at) => counts[at].times = (counts[at].times + 1).min(MANY),
        Err(at) => counts.insert(at, Count { signal, times: 1 }),
    }
}

fn times(counts: &[Count], signal: u32) -> u8 {
    let found = counts.binary_search_by_key(&signal, |count| count.signal);
    found.map_or(0, |at| counts[at].times)
}

/// What both have, with the lower number.
fn meet(into: &mut Vec<Count>, other: &[Count]) {
    into.retain_mut(|count| {
        count.times = count.times.min(times(other, count.signal));
        count.times > 0
    });
}

struct Order<'a, 'b, 'p> {
    code: &'a Code<'p>,
    signals: &'b Signals,
    /// The state in which each thread begins.
    starts: Vec<Known>,
    conditions: FxHashMap<Point, Option<Condition>>,
    /// For each instance the signals that it or what it calls releases.
    releasing: Vec<FxHashSet<u32>>,
}

impl Problem for Order<'_, '_, '_> {
    type State = Known;

    fn start(&self, entry: InstanceId) -> Known {
        let thread = self.code.points_to.instances.entered_by(entry);
        thread.map_or_else(Known::default, |thread| self.starts[thread.index()].clone())
    }

    fn join(&self, into: &mut Known, other: &Known) {
        meet(&mut into.seen, &other.seen);
        meet(&mut into.relaxed, &other.relaxed);
        meet(&mut into.clean, &other.clean);
        for count in &other.released {
            match into
                .released
                .binary_search_by_key(&count.signal, |count| count.signal)
            {
                Ok(at) => into.released[at].times = into.released[at].times.max(count.times),
                Err(at) => into.released.insert(at, *count),
            }
        }
    }

    fn step(&mut self, point: Point, state: &mut Known) {
        if let Kind::Fence(order) = self.code.kind(point)
            && *order != AtomicOrder::Release
        {
            let relaxed = std::mem::take(&mut state.relaxed);
            for count in relaxed {
                if times(&state.seen, count.signal) == 0 {
                    raise(
                        &mut state.seen,
                        count.signal,
                        self.signals.get(count.signal).kind,
                    );
                }
            }
        }
        for reading in self.signals.read_at(point) {
            let is_clean = times(&state.released, reading.signal) == 0;
            state.clean.retain(|count| count.signal != reading.signal);
            if is_clean {
                raise(
                    &mut state.clean,
                    reading.signal,
                    self.signals.get(reading.signal).kind,
                );
            }
        }
        for &signal in self.signals.released_at(point) {
            raise(&mut state.released, signal, self.signals.get(signal).kind);
        }
        for &signal in self.signals.seen_at(point) {
            let kind = self.signals.get(signal).kind;
            let is_own = times(&state.released, signal) > 0 && !kind.counts_arrivals();
            if !is_own {
                raise(&mut state.seen, signal, self.signals.get(signal).kind);
            }
        }
    }

    fn branch(&mut self, point: Point, to: BlockId, state: &mut Known) {
        let code = self.code;
        for &signal in self.signals.seen_on(point, to) {
            raise(&mut state.seen, signal, self.signals.get(signal).kind);
        }
        let known = self.conditions.entry(point);
        let condition = known.or_insert_with(|| Condition::of_branch(code, point));
        let Some(condition) = condition else {
            return;
        };
        for reading in self.signals.read_at(condition.load) {
            let is_signal = reading.is_seen(|value| condition.excludes(code, point, to, value));
            if !is_signal || times(&state.clean, reading.signal) == 0 {
                continue;
            }
            match reading.is_relaxed {
                true => raise(
                    &mut state.relaxed,
                    reading.signal,
                    self.signals.get(reading.signal).kind,
                ),
                false => raise(
                    &mut state.seen,
                    reading.signal,
                    self.signals.get(reading.signal).kind,
                ),
            }
        }
    }

    fn enter(&mut self, _: Point, _: InstanceId, state: &Known) -> Known {
        state.clone()
    }

    fn leave(
        &mut self,
        _: Point,
        callee: InstanceId,
        before: &Known,
        inside: (&Known, &Known),
    ) -> Known {
        if self.code.points_to.instances.only_caller(callee).is_some() {
            return inside.1.clone();
        }
        let mut after = inside.1.clone();
        // What was released in other contexts of the function does not count here.
        after.released.clone_from(&before.released);
        for &signal in &self.releasing[callee.index()] {
            let kind = self.signals.get(signal).kind;
            raise(&mut after.released, signal, kind);
            if matches!(kind, SignalKind::Barrier { .. }) {
                let at = after
                    .released
                    .partition_point(|count| count.signal < signal);
                after.released[at].times = MANY;
            }
        }
        // What the caller had seen before is still seen.
        for count in &before.seen {
            if times(&after.seen, count.signal) == 0 {
                let at = after
                    .seen
                    .partition_point(|other| other.signal < count.signal);
                after.seen.insert(at, *count);
            }
        }
        after
    }
}

fn releasing(code: &Code, signals: &Signals) -> Vec<FxHashSet<u32>> {
    let instances = &code.points_to.instances;
    let mut all = vec![FxHashSet::default(); instances.len()];
    for (point, signal) in signals.releases() {
        let mut stack = vec![point.instance];
        while let Some(at) = stack.pop() {
            if all[at.index()].insert(signal) {
                stack.extend(instances.get(at).callers.iter().map(|call| call.instance));
            }
        }
    }
    all
}

pub struct HandOver {
    /// For each instance what is known before each instruction.
    before: Vec<Vec<Option<u32>>>,
    states: Vec<Known>,
    signals: Signals,
}

impl HandOver {
    pub fn new<'a, 'p>(
        code: &'a Code<'p>,
        symbols: &mut Symbols<'a, 'p>,
        parallel: &Parallel,
        locks: &LockSets,
    ) -> Self {
        let signals = Signals::new(code, symbols, parallel, locks);
        let instances = &code.points_to.instances;
        let mut hand_over = Self {
            before: Vec::new(),
            states: Vec::new(),
            signals,
        };
        if hand_over.signals.is_empty() {
            hand_over.before = vec![Vec::new(); instances.len()];
            return hand_over;
        }
        let mut problem = Order {
            code,
            signals: &hand_over.signals,
            starts: vec![Known::default(); instances.threads.len()],
            conditions: FxHashMap::default(),
            releasing: releasing(code, &hand_over.signals),
        };
        let mut before = Vec::new();
        let mut states = Vec::new();
        let mut numbers: FxHashMap<Known, u32> = FxHashMap::default();
        // What a creator has seen, its thread has seen as well: once round for every level of threads.
        for round in 0..3 {
            let mut solution = Solution::new(code, &mut problem);
            before.clear();
            let mut starts: Vec<Option<Vec<Count>>> = vec![None; instances.threads.len()];
            for instance in instances.ids() {
                let mut here = vec![None; code.function(instance).instructions.len()];
                solution.for_each(code, &mut problem, instance, |instruction, state| {
                    let number = *numbers.entry(state.clone()).or_insert_with(|| {
                        states.push(state.clone());
                        u32::try_from(states.len() - 1).expect("fewer states than instructions")
                    });
                    here[instruction.index()] = Some(number);
                    let point = Point {
                        instance,
                        instruction,
                    };
                    for thread in instances.creations(point) {
                        match &mut starts[thread.index()] {
                            Some(start) => meet(start, &state.seen),
                            none => *none = Some(state.seen.clone()),
                        }
                    }
                });
                before.push(here);
            }
            let starts = starts.into_iter().map(|seen| Known {
                seen: seen.unwrap_or_default(),
                ..Known::default()
            });
            let starts: Vec<Known> = starts.collect();
            if round == 2 || starts == problem.starts {
                break;
            }
            problem.starts = starts;
        }
        hand_over.before = before;
        hand_over.states = states;
        hand_over
    }

    /// Equal for points at which the same is known.
    #[must_use]
    pub fn number(&self, point: Point) -> Option<u32> {
        *self.before[point.instance.index()].get(point.instruction.index())?
    }

    fn at(&self, point: Point) -> Option<&Known> {
        self.number(point)
            .map(|number| &self.states[number as usize])
    }

    /// Whether the first access, by its thread, always comes before the second.
    #[must_use]
    pub fn is_before(
        &self,
        code: &Code,
        parallel: &Parallel,
        locks: &LockSets,
        a: (ThreadId, Point),
        b: (ThreadId, Point),
    ) -> bool {
        let (Some(at_a), Some(at_b)) = (self.at(a.1), self.at(b.1)) else {
            return false;
        };
        at_b.seen.iter().any(|count| {
            let signal = self.signals.get(count.signal);
            let released = times(&at_a.released, count.signal);
            match signal.kind {
                SignalKind::Barrier { takes_all } => {
                    takes_all && released < count.times && released < MANY
                }
                SignalKind::Counter { of, variable } => {
                    // Each has counted before the other has read: they do not happen in one run.
                    let reverse = SignalKind::Counter { of: b.0, variable };
                    let seen_by_a = &at_a.seen;
                    let never_meet = || {
                        seen_by_a
                            .iter()
                            .any(|count| self.signals.get(count.signal).kind == reverse)
                    };
                    a.0 == of
                        && (released == 0
                            || self.is_in_section(code, locks, count.signal, a)
                            || never_meet())
                }
                SignalKind::Tally => released == 0 && signal.releasers.contains(&a.0),
                SignalKind::Once(lock) => locks.before(a.1).iter().any(|held| held.lock == lock),
                SignalKind::Semaphore | SignalKind::Variable | SignalKind::Channel => {
                    // The second thread has looked before it released anything itself.
                    let is_other =
                        |thread: &&ThreadId| **thread != b.0 || parallel.is_multiple(b.0);
                    let mut others = signal.releasers.iter().filter(is_other);
                    released == 0
                        && !parallel.is_multiple(a.0)
                        && signal.releasers.contains(&a.0)
                        && others.all(|&thread| thread == a.0)
                }
            }
        })
    }

    /// Whether an access comes after its thread's only release of a signal, but in the same critical section.
    fn is_in_section(
        &self,
        code: &Code,
        locks: &LockSets,
        signal: u32,
        (thread, at): (ThreadId, Point),
    ) -> bool {
        let releases = self.signals.releases();
        let mut own = releases.filter(|&(point, released)| {
            released == signal && code.threads_of(point.instance).contains(&thread)
        });
        let (Some((release, _)), None) = (own.next(), own.next()) else {
            return false;
        };
        let is_after = release.instance == at.instance
            && code
                .flow(at.instance)
                .precedes(release.instruction, at.instruction);
        is_after
            && locks.before(release).iter().any(|held| {
                let mut still = locks.before(at).iter();
                still.any(|other| other.lock == held.lock && other.taken == held.taken)
            })
    }
}
