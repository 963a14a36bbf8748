//! Signals of synchronisation objects: semaphores, barriers, `once`, guards.

use norns_ir::{Kind, Operand};
use rustc_hash::FxHashMap;

use super::{Reading, SignalKind, Signals};
use crate::access::accesses;
use crate::code::Code;
use crate::external::Effect;
use crate::instance::{Point, ThreadId};
use crate::object::Location;
use crate::parallel::Parallel;
use crate::points_to::constant_integer;
use crate::symbol::Symbols;

impl Signals {
    /// Semaphores, barriers, `once` and guards.
    pub(super) fn find_objects(&mut self, code: &Code, symbols: &mut Symbols, parallel: &Parallel) {
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
                    Effect::SemaphorePost(_) => {
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
                    Effect::SemaphoreWait { is_sure: false, .. } if is_only => {
                        self.readings.entry(found.point).or_default().push(Reading {
                            signal,
                            unless: vec![-1],
                            is_relaxed: false,
                            only: None,
                        });
                    }
                    Effect::GuardAcquire(_) if is_only => {
                        self.readings.entry(found.point).or_default().push(Reading {
                            signal,
                            unless: vec![1],
                            is_relaxed: false,
                            only: None,
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
                        only: None,
                    });
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Semaphore,
    Barrier,
    Once,
}

/// A call on an object that gives signals.
pub(super) struct Use {
    pub(super) point: Point,
    pub(super) effect: Effect,
    operand: Option<Operand>,
    pub(super) arguments: Vec<Operand>,
    pub(super) places: Vec<Location>,
}

impl Use {
    fn key(&self) -> Key {
        match self.effect {
            Effect::BarrierInit(_) | Effect::BarrierWait(_) => Key::Barrier,
            Effect::Once { .. } | Effect::GuardAcquire(_) | Effect::GuardRelease(_) => Key::Once,
            _ => Key::Semaphore,
        }
    }
}

pub(super) fn uses(code: &Code, parallel: &Parallel) -> Vec<Use> {
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
                | Effect::GuardAcquire(argument)
                | Effect::GuardRelease(argument) => argument,
                Effect::Once { .. } => 0,
                _ => continue,
            };
            let operand = arguments.get(argument).copied();
            let places = operand.map_or_else(Vec::new, |operand| {
                code.points_to.locations(instance, operand)
            });
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
