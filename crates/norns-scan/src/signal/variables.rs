//! Signals of variables that a thread sets and another asks for.

use norns_ir::{AtomicOrder, Constant, ConstantId, Kind, Operand, Type};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{MOST_SIGNALS, Reading, SignalKind, Signals};
use crate::access::{Access, accesses};
use crate::code::Code;
use crate::condition::Condition;
use crate::instance::{Point, ThreadId};
use crate::lock_set::LockSets;
use crate::object::{Location, ObjectId, Origin};
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::Symbols;

/// A variable with more stores than this is a statistic, not a signal.
const MOST_STORES: usize = 16;

impl Signals {
    /// Variables that a thread waits or asks for.
    pub(super) fn find_variables(
        &mut self,
        code: &Code,
        symbols: &mut Symbols,
        parallel: &Parallel,
        locks: &LockSets,
    ) {
        let asked = asked(code, parallel);
        if asked.is_empty() {
            return;
        }
        let mut by_place: FxHashMap<(ObjectId, u64), Vec<Access>> = FxHashMap::default();
        let mut wanted: FxHashSet<(ObjectId, u64)> = FxHashSet::default();
        let all = accesses(code, parallel);
        let places: Vec<Vec<Location>> = all.iter().map(|access| access.places(code)).collect();
        for (access, places) in all.iter().zip(&places) {
            if let ([only], true) = (places.as_slice(), asked.contains(&access.point)) {
                let is_element = code.points_to.objects.is_element(code.program, *only);
                if code.is_unique(only.object) && !is_element {
                    wanted.insert((only.object, only.offset));
                }
            }
        }
        for (access, places) in all.into_iter().zip(&places) {
            for at in places {
                let key = (at.object, at.offset);
                if wanted.contains(&key) {
                    by_place.entry(key).or_default().push(access.clone());
                }
            }
        }
        let mut by_place: Vec<_> = by_place.into_iter().collect();
        by_place.sort_by_key(|(key, _)| *key);
        for ((object, offset), accesses) in by_place {
            let at = Location { object, offset };
            let orders = (parallel, locks);
            self.find_variable(code, symbols, orders, at, &accesses, &asked);
            self.find_counter(code, symbols, orders, at, &accesses, &asked);
        }
    }

    fn find_variable(
        &mut self,
        code: &Code,
        symbols: &mut Symbols,
        (parallel, locks): (&Parallel, &LockSets),
        at: Location,
        accesses: &[Access],
        asked: &FxHashSet<Point>,
    ) {
        let mut initial: Vec<i64> = initial_value(code, at).into_iter().collect();
        let mut stores = Vec::new();
        for access in accesses.iter().filter(|access| access.act.writes()) {
            let stored = match code.kind(access.point) {
                Kind::Store {
                    value: Operand::Constant(id),
                    ..
                } => constant_integer(code.program, *id),
                Kind::Store { .. } | Kind::Update { .. } | Kind::CompareExchange { .. } => None,
                // Written by an external function.
                _ => return,
            };
            if parallel.is_alone(code, access.point) {
                match stored {
                    Some(value) => initial.push(value),
                    None => return,
                }
            } else {
                stores.push((access, stored));
            }
        }
        if initial.is_empty() || stores.len() > MOST_STORES {
            return;
        }
        stores.retain(|(_, stored)| stored.is_none_or(|value| !initial.contains(&value)));
        // The rule speaks of a signal that one thread gives to another.
        let mut releasers: Vec<ThreadId> = stores
            .iter()
            .flat_map(|(store, _)| code.threads_of(store.point.instance))
            .copied()
            .collect();
        releasers.sort_unstable();
        releasers.dedup();
        if releasers.len() > 2 || releasers.iter().all(|&thread| parallel.is_multiple(thread)) {
            return;
        }
        let mut readings = Vec::new();
        for load in accesses
            .iter()
            .filter(|access| asked.contains(&access.point))
        {
            let links: Option<Vec<Link>> = stores
                .iter()
                .map(|(store, _)| link(code, symbols, locks, store, load))
                .collect();
            if let Some(links) = links {
                readings.push((load.point, links.contains(&Link::Relaxed)));
            }
        }
        if stores.is_empty() || readings.is_empty() || self.all.len() >= MOST_SIGNALS {
            return;
        }
        let signal = self.add(SignalKind::Variable);
        for (store, _) in &stores {
            self.release(code, signal, store.point);
            for fence in release_fences(code, store.point) {
                self.release(code, signal, fence);
            }
        }
        for (point, is_relaxed) in readings {
            self.readings.entry(point).or_default().push(Reading {
                signal,
                unless: initial.clone(),
                is_relaxed,
                only: None,
            });
        }
    }
}

/// How a load that sees a store comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Synchronises,
    /// If a fence follows the load.
    Relaxed,
}

pub(crate) fn link(
    code: &Code,
    symbols: &mut Symbols,
    locks: &LockSets,
    store: &Access,
    load: &Access,
) -> Option<Link> {
    let (a, b) = ((store.point, store.address), (load.point, load.address));
    if locks.exclude(code, symbols, a, b) {
        return Some(Link::Synchronises);
    }
    let releases = match order(code, store.point)? {
        AtomicOrder::Release
        | AtomicOrder::AcquireRelease
        | AtomicOrder::SequentiallyConsistent => true,
        AtomicOrder::Relaxed | AtomicOrder::Acquire => {
            !release_fences(code, store.point).is_empty()
        }
    };
    if !releases {
        return None;
    }
    Some(match order(code, load.point)? {
        AtomicOrder::Relaxed | AtomicOrder::Release => Link::Relaxed,
        _ => Link::Synchronises,
    })
}

fn order(code: &Code, point: Point) -> Option<AtomicOrder> {
    match code.kind(point) {
        Kind::Load { order, .. } | Kind::Store { order, .. } => *order,
        Kind::Update { order, .. } => Some(*order),
        Kind::CompareExchange { success, .. } => Some(*success),
        _ => None,
    }
}

/// The fences that always come before a relaxed store in its function.
fn release_fences(code: &Code, store: Point) -> Vec<Point> {
    let is_relaxed = matches!(
        order(code, store),
        Some(AtomicOrder::Relaxed | AtomicOrder::Acquire)
    );
    if !is_relaxed {
        return Vec::new();
    }
    let flow = code.flow(store.instance);
    let listed = code.function(store.instance).listed();
    let fences = listed.filter(|(_, id, instruction)| match instruction.kind {
        Kind::Fence(order) => {
            order != AtomicOrder::Acquire && flow.precedes(*id, store.instruction)
        }
        _ => false,
    });
    let instance = store.instance;
    fences
        .map(|(_, instruction, _)| Point {
            instance,
            instruction,
        })
        .collect()
}

/// The loads on which a branch depends.
fn asked(code: &Code, parallel: &Parallel) -> FxHashSet<Point> {
    let mut all = FxHashSet::default();
    for instance in code.points_to.instances.ids() {
        for block in &code.function(instance).blocks {
            let Some(&instruction) = block.instructions.last() else {
                continue;
            };
            let point = Point {
                instance,
                instruction,
            };
            if parallel.is_reached(point) {
                all.extend(Condition::of_branch(code, point).map(|condition| condition.load));
            }
        }
    }
    all
}

/// The number in a global before the program begins.
pub(crate) fn initial_value(code: &Code, at: Location) -> Option<i64> {
    let Origin::Global(global) = code.points_to.objects.origin(at.object) else {
        return None;
    };
    value_at(code, code.program.global(global).initial?, at.offset)
}

fn value_at(code: &Code, constant: ConstantId, offset: u64) -> Option<i64> {
    let types = &code.program.types;
    match code.program.constant(constant) {
        Constant::Zero(_) | Constant::Null(_) => Some(0),
        Constant::Aggregate(r#type, parts) => {
            let starts: Vec<u64> = match types.get(*r#type) {
                Type::Struct {
                    fields, is_packed, ..
                } => types.field_offsets(fields, *is_packed),
                _ => return None,
            };
            let field = starts.iter().rposition(|&start| start <= offset)?;
            value_at(code, *parts.get(field)?, offset - starts[field])
        }
        _ if offset == 0 => constant_integer(code.program, constant),
        _ => None,
    }
}
