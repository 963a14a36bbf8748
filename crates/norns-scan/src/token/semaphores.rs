//! Semaphores between which one unit goes round: with one unit in all, whoever has it is alone.
//!
//! Semaphores belong together if a thread waits for one and posts the other. If none of them has a unit at the
//! beginning, the thread that makes them has the token. Semaphores of System V begin at 0.

use std::collections::BTreeMap;

use norns_ir::Operand;

use super::Uses;
use crate::code::Code;
use crate::external::Effect;
use crate::instance::{Point, ThreadId};
use crate::object::ObjectId;
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::{Root, RootId, Symbol, Symbols};

/// What is done with one semaphore.
#[derive(Default)]
struct Semaphore {
    made: Vec<(Point, Option<i64>)>,
    waits: Vec<Point>,
    posts: Vec<Point>,
    is_unclear: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Place(ObjectId, u64),
    /// The call of `semget` that made it.
    Key(RootId),
}

pub(super) fn find(code: &Code, symbols: &mut Symbols, parallel: &Parallel, uses: &mut Uses) {
    let mut all: BTreeMap<Name, Semaphore> = BTreeMap::new();
    for point in code.points() {
        let Some((effects, arguments)) = code.external(point) else {
            continue;
        };
        if !parallel.is_reached(point) {
            continue;
        }
        for &effect in effects {
            match effect {
                Effect::SemaphoreInit(at)
                | Effect::SemaphorePost(at)
                | Effect::SemaphoreWait { semaphore: at, .. } => {
                    put(code, &mut all, (point, effect, at), arguments);
                }
                Effect::SemaphoreSet | Effect::SemaphoreChange | Effect::SemaphoreControl => {
                    put_by_key(code, symbols, &mut all, (point, effect), arguments);
                }
                _ => {}
            }
        }
    }
    all.retain(|_, semaphore| !semaphore.posts.is_empty() && !semaphore.waits.is_empty());
    let mut semaphores: Vec<Semaphore> = all.into_values().collect();
    while let Some(first) = semaphores.pop() {
        let mut group = vec![first];
        while let Some(at) = semaphores
            .iter()
            .position(|other| group.iter().any(|member| belong(code, member, other)))
        {
            group.push(semaphores.swap_remove(at));
        }
        add(code, parallel, &group, uses);
    }
}

fn constant(code: &Code, operand: Option<&Operand>) -> Option<i64> {
    match operand {
        Some(Operand::Constant(id)) => constant_integer(code.program, *id),
        _ => None,
    }
}

fn put(
    code: &Code,
    all: &mut BTreeMap<Name, Semaphore>,
    (point, effect, at): (Point, Effect, usize),
    arguments: &[Operand],
) {
    let Some(&operand) = arguments.get(at) else {
        return;
    };
    let places = code.points_to.locations(point.instance, operand);
    for at in &places {
        let semaphore = all.entry(Name::Place(at.object, at.offset)).or_default();
        semaphore.is_unclear |= places.len() > 1
            || !code.is_unique(at.object)
            || code.points_to.objects.is_element(code.program, *at);
        match effect {
            Effect::SemaphoreInit(_) => {
                semaphore
                    .made
                    .push((point, constant(code, arguments.get(2))));
            }
            Effect::SemaphorePost(_) => semaphore.posts.push(point),
            // A wait that may fail takes nothing that is counted on.
            Effect::SemaphoreWait { is_sure: true, .. } => semaphore.waits.push(point),
            _ => {}
        }
    }
}

/// `semget(IPC_PRIVATE, 1, …)`, `semop` with one change, and `semctl`.
fn put_by_key(
    code: &Code,
    symbols: &mut Symbols,
    all: &mut BTreeMap<Name, Semaphore>,
    (point, effect): (Point, Effect),
    arguments: &[Operand],
) {
    const PRIVATE: i64 = 0;
    const REMOVE: i64 = 0;
    if effect == Effect::SemaphoreSet {
        let name = symbols.of(point.instance, Operand::Result(point.instruction));
        let semaphore = all.entry(Name::Key(name.root)).or_default();
        let is_one = constant(code, arguments.first()) == Some(PRIVATE)
            && constant(code, arguments.get(1)) == Some(1);
        semaphore.is_unclear |= !is_one;
        semaphore.made.push((point, Some(0)));
        return;
    }
    let [set, operation, last, ..] = *arguments else {
        return;
    };
    let is_removal = constant(code, Some(&last)) == Some(REMOVE);
    if effect == Effect::SemaphoreControl && is_removal {
        return;
    }
    let name = symbols.of(point.instance, set);
    let is_known = matches!(symbols.root(name.root), Root::Value(..)) && name.offset == 0;
    if !is_known {
        // It could be any of them.
        let keys = all.iter_mut();
        let keys = keys.filter(|(name, _)| matches!(name, Name::Key(_)));
        keys.for_each(|(_, semaphore)| semaphore.is_unclear = true);
    }
    let is_one = constant(code, Some(&last)) == Some(1);
    let change = match effect {
        Effect::SemaphoreChange if is_one => change(symbols, point, operation),
        _ => None,
    };
    let semaphore = all.entry(Name::Key(name.root)).or_default();
    match change {
        Some(1) => semaphore.posts.push(point),
        Some(-1) => semaphore.waits.push(point),
        _ => semaphore.is_unclear = true,
    }
}

/// By how much a `struct sembuf` changes its semaphore, if that never fails.
fn change(symbols: &mut Symbols, point: Point, operation: Operand) -> Option<i64> {
    const OFFSET_OF_CHANGE: i64 = 2;
    const OFFSET_OF_FLAGS: i64 = 4;
    const NO_WAIT: i64 = 0o4000;
    let start = symbols.of(point.instance, operation);
    let mut number = |offset: i64| {
        let loaded = symbols.loaded(Symbol {
            offset: start.offset.saturating_add(offset),
            ..start
        });
        (symbols.root(loaded.root) == Root::Number).then_some(loaded.offset)
    };
    let waits = number(OFFSET_OF_FLAGS)? & NO_WAIT == 0;
    waits.then(|| number(OFFSET_OF_CHANGE)).flatten()
}

/// Whether one thread waits for one of two semaphores and posts the other.
fn belong(code: &Code, a: &Semaphore, b: &Semaphore) -> bool {
    let threads = |points: &[Point]| -> Vec<ThreadId> {
        let all = points.iter().flat_map(|at| code.threads_of(at.instance));
        all.copied().collect()
    };
    let hands_on = |from: &Semaphore, to: &Semaphore| {
        let posts = threads(&to.posts);
        threads(&from.waits).iter().any(|at| posts.contains(at))
    };
    hands_on(a, b) || hands_on(b, a)
}

fn add(code: &Code, parallel: &Parallel, group: &[Semaphore], uses: &mut Uses) {
    let mut units = 0;
    for semaphore in group {
        let &[(made, Some(value))] = semaphore.made.as_slice() else {
            return;
        };
        let is_alone = parallel.is_alone(code, made) && code.is_executed_once(made);
        if semaphore.is_unclear || !is_alone {
            return;
        }
        units += value;
    }
    if !(0..=1).contains(&units) {
        return;
    }
    let Some(token) = uses.token() else {
        return;
    };
    for semaphore in group {
        if units == 0 {
            uses.take(semaphore.made[0].0, token);
        }
        semaphore
            .posts
            .iter()
            .for_each(|&post| uses.give(post, token));
        semaphore
            .waits
            .iter()
            .for_each(|&wait| uses.take(wait, token));
    }
}
