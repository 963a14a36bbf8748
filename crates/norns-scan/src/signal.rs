//! Signals: objects through which one thread tells another that it may go on.

use norns_ir::{AtomicOrder, Constant, ConstantId, Kind, Operand, Type};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::{Access, accesses};
use crate::code::Code;
use crate::condition::Condition;
use crate::external::Effect;
use crate::instance::{Point, ThreadId};
use crate::lock_set::LockSets;
use crate::object::{Location, ObjectId, Origin};
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::{Symbol, Symbols};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    Semaphore,
    Variable,
    Channel,
    /// `takes_all`: as many threads wait for it as it is made for.
    Barrier {
        takes_all: bool,
    },
    /// What is done once is done under this lock.
    Once(Symbol),
}

impl SignalKind {
    /// Whether a thread that releases also waits for the others.
    #[must_use]
    pub fn counts_arrivals(self) -> bool {
        matches!(self, Self::Barrier { .. } | Self::Once(_))
    }
}

#[derive(Clone, Debug)]
pub struct Signal {
    pub kind: SignalKind,
    /// The threads that release it; sorted.
    pub releasers: Vec<ThreadId>,
}

/// A load of a signal: a branch on the value has seen the signal unless the value may be one of these.
#[derive(Clone, Debug)]
pub struct Reading {
    pub signal: u32,
    pub unless: Vec<i64>,
    /// A fence has to follow.
    pub is_relaxed: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Signals {
    all: Vec<Signal>,
    releases: FxHashMap<Point, Vec<u32>>,
    seen: FxHashMap<Point, Vec<u32>>,
    readings: FxHashMap<Point, Vec<Reading>>,
}

/// A variable with more stores than this is a statistic, not a signal.
const MOST_STORES: usize = 16;

/// Signals beyond this number are not looked at; more candidates remain then.
const MOST_SIGNALS: usize = 32;

impl Signals {
    pub fn new(code: &Code, symbols: &mut Symbols, parallel: &Parallel, locks: &LockSets) -> Self {
        let mut signals = Self::default();
        signals.find_objects(code, symbols, parallel);
        signals.find_variables(code, symbols, parallel, locks);
        signals
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    #[must_use]
    pub fn get(&self, signal: u32) -> &Signal {
        &self.all[signal as usize]
    }

    #[must_use]
    pub fn released_at(&self, point: Point) -> &[u32] {
        self.releases.get(&point).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn seen_at(&self, point: Point) -> &[u32] {
        self.seen.get(&point).map_or(&[], Vec::as_slice)
    }

    #[must_use]
    pub fn read_at(&self, point: Point) -> &[Reading] {
        self.readings.get(&point).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, kind: SignalKind) -> u32 {
        self.all.push(Signal {
            kind,
            releasers: Vec::new(),
        });
        u32::try_from(self.all.len() - 1).expect("fewer signals than instructions")
    }

    fn release(&mut self, code: &Code, signal: u32, point: Point) {
        self.releases.entry(point).or_default().push(signal);
        let releasers = &mut self.all[signal as usize].releasers;
        releasers.extend(code.threads_of(point.instance));
        releasers.sort_unstable();
        releasers.dedup();
    }

    /// Semaphores, barriers, channels, `once` and guards.
    fn find_objects(&mut self, code: &Code, symbols: &mut Symbols, parallel: &Parallel) {
        let uses = uses(code, parallel);
        let mut by_place: FxHashMap<(Key, Location), Vec<&Use>> = FxHashMap::default();
        for found in &uses {
            for &place in &found.places {
                by_place
                    .entry((found.key(), place))
                    .or_default()
                    .push(found);
            }
        }
        let mut places: Vec<_> = by_place.into_iter().collect();
        places.sort_by_key(|((key, at), _)| (*key, at.object, at.offset));
        for ((key, place), uses) in places {
            let is_element = code.points_to.objects.is_element(code.program, place);
            if !code.is_unique(place.object) || is_element {
                continue;
            }
            let kind = match key {
                Key::Semaphore if begins_at_zero(code, &uses) => SignalKind::Semaphore,
                Key::Semaphore => continue,
                Key::Channel => SignalKind::Channel,
                Key::Barrier => SignalKind::Barrier {
                    takes_all: takes_all(code, parallel, &uses),
                },
                Key::Once => {
                    let Some(control) = uses.first().and_then(|found| found.operand) else {
                        continue;
                    };
                    SignalKind::Once(symbols.of(uses[0].point.instance, control))
                }
            };
            let signal = self.add(kind);
            for found in uses {
                let is_only = found.places.len() == 1;
                match found.effect {
                    Effect::SemaphorePost(_) | Effect::Sends(_) => {
                        self.release(code, signal, found.point);
                    }
                    Effect::BarrierWait(_) => {
                        self.release(code, signal, found.point);
                        self.seen.entry(found.point).or_default().push(signal);
                    }
                    Effect::SemaphoreWait { is_sure: true, .. }
                    | Effect::Once { .. }
                    | Effect::GuardRelease(_)
                        if is_only =>
                    {
                        self.seen.entry(found.point).or_default().push(signal);
                    }
                    // A failed call returns -1.
                    Effect::SemaphoreWait { is_sure: false, .. } | Effect::Receives(_)
                        if is_only =>
                    {
                        self.readings.entry(found.point).or_default().push(Reading {
                            signal,
                            unless: vec![-1],
                            is_relaxed: false,
                        });
                    }
                    Effect::GuardAcquire(_) if is_only => {
                        self.readings.entry(found.point).or_default().push(Reading {
                            signal,
                            unless: vec![1],
                            is_relaxed: false,
                        });
                    }
                    _ => {}
                }
            }
            if let SignalKind::Once(_) = kind {
                self.read_guard(code, parallel, signal, place);
            }
        }
    }

    /// The compiler reads the first byte of a guard before it asks for it.
    fn read_guard(&mut self, code: &Code, parallel: &Parallel, signal: u32, place: Location) {
        for access in accesses(code, parallel) {
            if !matches!(code.kind(access.point), Kind::Load { order: Some(_), .. }) {
                continue;
            }
            let places = code
                .points_to
                .locations(access.point.instance, access.address);
            if places == [place] {
                self.readings
                    .entry(access.point)
                    .or_default()
                    .push(Reading {
                        signal,
                        unless: vec![0],
                        is_relaxed: false,
                    });
            }
        }
    }

    /// Variables that a thread waits or asks for.
    fn find_variables(
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
            self.find_variable(
                code,
                symbols,
                (parallel, locks),
                Location { object, offset },
                &accesses,
                &asked,
            );
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
            });
        }
    }
}

/// How a load that sees a store comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Synchronises,
    /// If a fence follows the load.
    Relaxed,
}

fn link(
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
fn initial_value(code: &Code, at: Location) -> Option<i64> {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Semaphore,
    Barrier,
    Channel,
    Once,
}

/// A call on an object that gives signals.
struct Use {
    point: Point,
    effect: Effect,
    operand: Option<Operand>,
    arguments: Vec<Operand>,
    places: Vec<Location>,
}

impl Use {
    fn key(&self) -> Key {
        match self.effect {
            Effect::BarrierInit(_) | Effect::BarrierWait(_) => Key::Barrier,
            Effect::Sends(_) | Effect::Receives(_) => Key::Channel,
            Effect::Once { .. } | Effect::GuardAcquire(_) | Effect::GuardRelease(_) => Key::Once,
            _ => Key::Semaphore,
        }
    }
}

fn uses(code: &Code, parallel: &Parallel) -> Vec<Use> {
    let mut all = Vec::new();
    for point in code.points() {
        let instance = point.instance;
        let Some((effects, arguments)) = code.external(point) else {
            continue;
        };
        if !parallel.is_reached(point) {
            continue;
        }
        for &effect in effects {
            let argument = match effect {
                Effect::SemaphoreInit(argument)
                | Effect::SemaphorePost(argument)
                | Effect::SemaphoreWait {
                    semaphore: argument,
                    ..
                }
                | Effect::BarrierInit(argument)
                | Effect::BarrierWait(argument)
                | Effect::Sends(argument)
                | Effect::Receives(argument)
                | Effect::GuardAcquire(argument)
                | Effect::GuardRelease(argument) => argument,
                Effect::Once { .. } => 0,
                _ => continue,
            };
            let operand = arguments.get(argument).copied();
            let mut places = operand.map_or_else(Vec::new, |operand| {
                code.points_to.locations(instance, operand)
            });
            if matches!(effect, Effect::Sends(_) | Effect::Receives(_)) {
                let objects = &code.points_to.objects;
                places.retain(|at| {
                    matches!(
                        objects.origin(at.object),
                        Origin::Channel(..) | Origin::Queues
                    )
                });
            }
            all.push(Use {
                point,
                effect,
                operand,
                arguments: arguments.to_vec(),
                places,
            });
        }
    }
    all
}

fn constant_argument(code: &Code, found: &Use, number: usize) -> Option<i64> {
    match found.arguments.get(number) {
        Some(Operand::Constant(id)) => constant_integer(code.program, *id),
        _ => None,
    }
}

fn begins_at_zero(code: &Code, uses: &[&Use]) -> bool {
    let mut made = uses
        .iter()
        .filter(|found| matches!(found.effect, Effect::SemaphoreInit(_)))
        .peekable();
    made.peek().is_some() && made.all(|found| constant_argument(code, found, 2) == Some(0))
}

/// Whether a barrier is made once, for exactly the number of threads that wait for it.
fn takes_all(code: &Code, parallel: &Parallel, uses: &[&Use]) -> bool {
    let mut made = uses
        .iter()
        .filter(|found| matches!(found.effect, Effect::BarrierInit(_)));
    let (Some(made), None) = (made.next(), made.next()) else {
        return false;
    };
    let mut threads: Vec<ThreadId> = Vec::new();
    for found in uses {
        if matches!(found.effect, Effect::BarrierWait(_)) {
            threads.extend(code.threads_of(found.point.instance));
        }
    }
    threads.sort_unstable();
    threads.dedup();
    let total: Option<u64> = threads.iter().map(|&thread| parallel.count(thread)).sum();
    let wanted = constant_argument(code, made, 2).and_then(|count| u64::try_from(count).ok());
    total.is_some() && total == wanted
}
