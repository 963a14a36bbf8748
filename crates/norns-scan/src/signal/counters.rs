//! Counters: variables that threads only count up or down, such as the number of users of a block or of threads
//! that are done.
//!
//! Every thread counts at most once at each place, and the number of threads is known, so the values that are
//! possible while a thread has not counted yet are known as well. Whoever reads another value comes after that
//! thread's counting.

use std::collections::BTreeSet;

use norns_ir::{AtomicUpdate, BinaryOperator, Kind, Operand};
use rustc_hash::{FxHashMap, FxHashSet};

use super::variables::{Link, initial_value, link};
use super::{MOST_SIGNALS, Reading, SignalKind, Signals};
use crate::access::{Access, Act};
use crate::code::Code;
use crate::external::Effect;
use crate::instance::{Point, ThreadId};
use crate::lock_set::LockSets;
use crate::object::Location;
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::Symbols;

/// Counters with more places or values than these are statistics.
const MOST_UPDATES: usize = 12;
const MOST_VALUES: usize = 256;

/// One place that counts, as one kind of thread executes it.
struct Update<'a> {
    access: &'a Access,
    thread: ThreadId,
    /// How many threads of that kind there are.
    threads: u64,
    by: i64,
    is_locked: bool,
}

impl Signals {
    pub(super) fn find_counter(
        &mut self,
        code: &Code,
        symbols: &mut Symbols,
        (parallel, locks): (&Parallel, &LockSets),
        at: Location,
        accesses: &[Access],
        asked: &FxHashSet<Point>,
    ) {
        let mut starts: Vec<i64> = initial_value(code, at).into_iter().collect();
        let mut updates = Vec::new();
        // What comes after the block was freed says nothing of the counter.
        let counts = |access: &&Access| access.act.writes() && access.act != Act::Free;
        for access in accesses.iter().filter(counts) {
            if parallel.is_alone(code, access.point)
                && let Some(value) = stored(code, access.point)
            {
                starts.push(value);
                continue;
            }
            let Some((by, is_locked)) = counted(code, symbols, locks, access) else {
                return;
            };
            for &thread in code.threads_of(access.point.instance) {
                let Some(threads) = parallel.count(thread) else {
                    return;
                };
                updates.push(Update {
                    access,
                    thread,
                    threads,
                    by,
                    is_locked,
                });
            }
            if updates.len() > MOST_UPDATES || !is_once_in_thread(code, access.point) {
                return;
            }
        }
        if starts.is_empty() || updates.is_empty() || !add_up(code, symbols, locks, &updates) {
            return;
        }
        let first = self.all.len();
        let mut signals: FxHashMap<ThreadId, u32> = FxHashMap::default();
        let mut kinds: Vec<ThreadId> = updates.iter().map(|update| update.thread).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for load in accesses.iter().filter(|load| asked.contains(&load.point)) {
            let &[reader] = code.threads_of(load.point.instance) else {
                continue;
            };
            for &of in &kinds {
                let Some(unless) = values_without(&starts, &updates, of, reader) else {
                    continue;
                };
                let own = updates.iter().filter(|update| update.thread == of);
                let links: Option<Vec<Link>> = own
                    .map(|update| link(code, symbols, locks, update.access, load))
                    .collect();
                let Some(links) = links else {
                    continue;
                };
                let known = signals.get(&of).copied();
                if known.is_none() && self.all.len() >= MOST_SIGNALS {
                    return;
                }
                let signal = known.unwrap_or_else(|| {
                    let variable = u32::try_from(first).expect("fewer signals than instructions");
                    let signal = self.add(SignalKind::Counter { of, variable });
                    let mut points: Vec<Point> =
                        updates.iter().map(|update| update.access.point).collect();
                    points.dedup();
                    for point in points {
                        self.release(code, signal, point);
                    }
                    signals.insert(of, signal);
                    signal
                });
                self.readings.entry(load.point).or_default().push(Reading {
                    signal,
                    unless,
                    is_relaxed: links.contains(&Link::Relaxed),
                    only: None,
                });
            }
        }
    }
}

fn stored(code: &Code, point: Point) -> Option<i64> {
    match code.kind(point) {
        Kind::Store {
            value: Operand::Constant(id),
            ..
        } => constant_integer(code.program, *id),
        _ => None,
    }
}

/// By how much a write changes the variable, and whether a lock makes the change one step.
fn counted(
    code: &Code,
    symbols: &mut Symbols,
    locks: &LockSets,
    access: &Access,
) -> Option<(i64, bool)> {
    let number = |operand: Operand| match operand {
        Operand::Constant(id) => constant_integer(code.program, id),
        _ => None,
    };
    let store = access.point;
    let (address, value) = match *code.kind(store) {
        Kind::Update { update, value, .. } => {
            let by = number(value)?;
            return match update {
                AtomicUpdate::Add => Some((by, false)),
                AtomicUpdate::Subtract => Some((-by, false)),
                _ => None,
            };
        }
        Kind::Store { address, value, .. } => (address, value),
        _ => return None,
    };
    let at = |operand: Operand| match operand {
        Operand::Result(instruction) => Some(Point {
            instance: store.instance,
            instruction,
        }),
        _ => None,
    };
    let (operand, by) = match *code.kind(at(value)?) {
        Kind::Binary(BinaryOperator::Add, a, b) => (a, number(b)?),
        Kind::Binary(BinaryOperator::Subtract, a, b) => (a, -number(b)?),
        _ => return None,
    };
    let load = at(operand)?;
    let Kind::Load { address: from, .. } = *code.kind(load) else {
        return None;
    };
    let is_same = symbols.of(store.instance, from) == symbols.of(store.instance, address);
    (is_same && is_one_section(code, locks, load, store)).then_some((by, true))
}

/// Whether a lock is held from one instruction to the next without a break.
pub(crate) fn is_one_section(code: &Code, locks: &LockSets, load: Point, store: Point) -> bool {
    let flow = code.flow(store.instance);
    let (Some((block, from)), Some((other, to))) = (
        flow.position(load.instruction),
        flow.position(store.instruction),
    ) else {
        return false;
    };
    if block != other || from > to {
        return false;
    }
    let between = &code.function(store.instance).blocks[block.index()].instructions[from..to];
    let has_call = between.iter().any(|&instruction| {
        let point = Point {
            instance: store.instance,
            instruction,
        };
        let is_call = matches!(code.kind(point), Kind::Call { .. } | Kind::Invoke { .. });
        let keeps_locks = |effects: &[Effect]| effects.is_empty();
        is_call
            && !code
                .external(point)
                .is_some_and(|(effects, _)| keeps_locks(effects))
    });
    !has_call && {
        let held = locks.before(load);
        held.iter().any(|held| locks.before(store).contains(held))
    }
}

/// Whether no change is lost: all are atomic, or all under one lock.
fn add_up(code: &Code, symbols: &mut Symbols, locks: &LockSets, updates: &[Update]) -> bool {
    if updates.iter().all(|update| !update.is_locked) {
        return true;
    }
    let place = |update: &Update| (update.access.point, update.access.address);
    updates.iter().all(|first| {
        first.is_locked
            && updates
                .iter()
                .all(|second| locks.exclude(code, symbols, place(first), place(second)))
    })
}

/// Whether a thread executes an instruction at most once.
pub(super) fn is_once_in_thread(code: &Code, point: Point) -> bool {
    let instances = &code.points_to.instances;
    let mut at = point;
    for _ in 0..instances.len() {
        if code.flow(at.instance).is_in_cycle(at.instruction) {
            return false;
        }
        if instances.entered_by(at.instance).is_some() {
            return instances.get(at.instance).callers.is_empty();
        }
        match instances.only_caller(at.instance) {
            Some(call) if !code.is_call_of_library(call) => at = call,
            _ => return false,
        }
    }
    false
}

/// The values that a thread of kind `reader`, which has not counted yet, can read while another thread, of kind
/// `of`, has not counted yet either.
fn values_without(
    starts: &[i64],
    updates: &[Update],
    of: ThreadId,
    reader: ThreadId,
) -> Option<Vec<i64>> {
    let mut values: BTreeSet<i64> = starts.iter().copied().collect();
    for update in updates {
        let idle = u64::from(update.thread == of) + u64::from(update.thread == reader);
        // The only thread of its kind is the reader itself.
        let others = update.threads.checked_sub(idle)?;
        let mut next = values.clone();
        for _ in 0..others {
            let more: Vec<i64> = values.iter().map(|value| value + update.by).collect();
            next.extend(&more);
            values = next.clone();
            if values.len() > MOST_VALUES {
                return None;
            }
        }
    }
    Some(values.into_iter().collect())
}
