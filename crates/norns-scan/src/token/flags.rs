//! Flags that the first thread sets: whoever finds one unset and sets it in the same step goes on alone until it
//! resets the flag, if ever.
//!
//! The step is atomic, as in locks that programs make themselves of an exchange, or the load and the store are in
//! one critical section.

use std::collections::BTreeMap;

use norns_ir::{AtomicOrder, AtomicUpdate, Kind, Operand};

use super::Uses;
use crate::access::{Access, accesses};
use crate::code::Code;
use crate::instance::Point;
use crate::lock_set::LockSets;
use crate::object::Location;
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::signal::{initial_value, is_one_section};
use crate::symbol::Symbols;

/// What is done with a variable that may be a flag.
#[derive(Default)]
struct Flag {
    /// Loads that find it unset and are followed by the store.
    tests: Vec<Access>,
    sets: Vec<Access>,
    resets: Vec<Access>,
    starts: Vec<i64>,
    /// What it can be set to.
    values: Vec<i64>,
    is_unclear: bool,
}

pub(super) fn find(
    code: &Code,
    symbols: &mut Symbols,
    parallel: &Parallel,
    locks: &LockSets,
    uses: &mut Uses,
) {
    let mut flags: BTreeMap<(crate::object::ObjectId, u64), Flag> = BTreeMap::new();
    for access in accesses(code, parallel) {
        if !access.act.writes() {
            continue;
        }
        let places = access.places(code);
        for at in &places {
            let flag = flags.entry((at.object, at.offset)).or_default();
            if flag.is_unclear {
                continue;
            }
            let is_one = places.len() == 1
                && code.is_unique(at.object)
                && !code.points_to.objects.is_element(code.program, *at);
            flag.is_unclear |= !is_one;
            if is_one {
                put(code, symbols, parallel, locks, flag, &access);
            }
        }
    }
    for ((object, offset), mut flag) in flags {
        let at = Location { object, offset };
        flag.starts.extend(initial_value(code, at));
        let is_unset = !flag.starts.is_empty() && flag.starts.iter().all(|&start| start == 0);
        if flag.is_unclear || flag.tests.is_empty() || !is_unset {
            continue;
        }
        if !is_ordered(code, symbols, locks, &flag) {
            continue;
        }
        let Some(token) = uses.token() else {
            return;
        };
        for test in &flag.tests {
            uses.find(test.point, token, flag.values.clone());
        }
        for reset in &flag.resets {
            uses.give(reset.point, token);
        }
    }
}

fn number(code: &Code, operand: Operand) -> Option<i64> {
    match operand {
        Operand::Constant(id) => constant_integer(code.program, id),
        _ => None,
    }
}

fn put(
    code: &Code,
    symbols: &mut Symbols,
    parallel: &Parallel,
    locks: &LockSets,
    flag: &mut Flag,
    access: &Access,
) {
    match *code.kind(access.point) {
        Kind::Update {
            update: AtomicUpdate::Exchange,
            value,
            ..
        } if number(code, value).is_some_and(|value| value != 0) => {
            flag.tests.push(access.clone());
            flag.sets.push(access.clone());
            flag.values.extend(number(code, value));
        }
        Kind::CompareExchange { expected, new, .. }
            if number(code, expected) == Some(0)
                && number(code, new).is_some_and(|value| value != 0) =>
        {
            flag.tests.push(access.clone());
            flag.sets.push(access.clone());
            flag.values.extend(number(code, new));
        }
        Kind::Store { value, address, .. } => match number(code, value) {
            Some(start) if parallel.is_alone(code, access.point) => flag.starts.push(start),
            Some(0) => flag.resets.push(access.clone()),
            Some(value) => match test_of(code, symbols, locks, access, address) {
                Some(test) => {
                    flag.tests.push(test);
                    flag.sets.push(access.clone());
                    flag.values.push(value);
                }
                None => flag.is_unclear = true,
            },
            None => flag.is_unclear = true,
        },
        _ => flag.is_unclear = true,
    }
}

/// The load of the same variable that the critical section of a store has before it.
fn test_of(
    code: &Code,
    symbols: &mut Symbols,
    locks: &LockSets,
    store: &Access,
    address: Operand,
) -> Option<Access> {
    let instance = store.point.instance;
    let wanted = symbols.of(instance, address);
    let (block, at) = code.flow(instance).position(store.point.instruction)?;
    let before = &code.function(instance).blocks[block.index()].instructions[..at];
    before.iter().rev().find_map(|&instruction| {
        let load = Point {
            instance,
            instruction,
        };
        let Kind::Load { address, .. } = *code.kind(load) else {
            return None;
        };
        let is_same = symbols.of(instance, address) == wanted;
        (is_same && is_one_section(code, locks, load, store.point)).then(|| Access {
            point: load,
            address,
            ..store.clone()
        })
    })
}

/// Whether who finds the flag unset comes after who has reset it, and whether the steps exclude each other.
fn is_ordered(code: &Code, symbols: &mut Symbols, locks: &LockSets, flag: &Flag) -> bool {
    let is_step = |access: &Access| {
        matches!(
            code.kind(access.point),
            Kind::Update { .. } | Kind::CompareExchange { .. }
        )
    };
    let acquires = |access: &Access| {
        let order = match *code.kind(access.point) {
            Kind::Update { order, .. } => order,
            Kind::CompareExchange { success, .. } => success,
            _ => return false,
        };
        !matches!(order, AtomicOrder::Relaxed | AtomicOrder::Release)
    };
    let releases = |access: &Access| match *code.kind(access.point) {
        Kind::Store { order, .. } => {
            order.is_some_and(|order| !matches!(order, AtomicOrder::Relaxed | AtomicOrder::Acquire))
        }
        _ => false,
    };
    let all_steps = flag.tests.iter().all(is_step);
    if all_steps {
        return flag.resets.is_empty()
            || flag.tests.iter().all(acquires) && flag.resets.iter().all(releases);
    }
    let place = |access: &Access| (access.point, access.address);
    flag.tests.iter().all(|test| {
        let mut others = flag.sets.iter().chain(&flag.resets);
        others.all(|other| locks.exclude(code, symbols, place(test), place(other)))
    })
}
