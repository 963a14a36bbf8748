//! Every point at which a thread takes a lock or waits for something else, with what it holds there.

use crate::code::Code;
use crate::external::{Effect, Mode};
use crate::instance::{Point, ThreadId};
use crate::lock_set::{Held, LockSets};
use crate::object::{Location, Origin};
use crate::parallel::Parallel;
use crate::symbol::{Symbol, Symbols};

#[derive(Clone, Debug)]
pub struct Acquisition {
    pub point: Point,
    pub lock: Symbol,
    pub mode: Mode,
    /// The places that the lock can be.
    pub places: Vec<Location>,
    /// Surely held.
    pub held: Vec<Held>,
    /// Held on some way that leads here.
    pub may_hold: Vec<Held>,
}

/// A wait for something other than a lock.
#[derive(Clone, Debug)]
pub struct Blocking {
    pub point: Point,
    pub held: Vec<Held>,
    pub wakers: Vec<ThreadId>,
    pub word: &'static str,
    /// The lock that a wait for a condition gives back.
    pub mutex: Option<Symbol>,
    /// The places that it can be.
    pub mutex_places: Vec<Location>,
    pub is_timed: bool,
}

/// All acquisitions that block, in the order of the code.
pub fn acquisitions(
    code: &Code,
    symbols: &mut Symbols,
    parallel: &Parallel,
    locks: &LockSets,
) -> Vec<Acquisition> {
    let mut all = Vec::new();
    for point in calls(code, parallel) {
        let Some((effects, arguments)) = code.external(point) else {
            continue;
        };
        for effect in effects {
            let (argument, mode) = match *effect {
                Effect::Lock(argument, mode) => (argument, mode),
                Effect::SemaphoreWait {
                    semaphore,
                    is_sure: true,
                } => (semaphore, Mode::Exclusive),
                _ => continue,
            };
            let Some(&operand) = arguments.get(argument) else {
                continue;
            };
            let lock = symbols.of(point.instance, operand);
            let is_semaphore = matches!(effect, Effect::SemaphoreWait { .. });
            if is_semaphore && !locks.is_lock(lock) {
                continue;
            }
            all.push(Acquisition {
                point,
                lock,
                mode,
                places: code.points_to.locations(point.instance, operand),
                held: locks.before(point).to_vec(),
                may_hold: locks.may_hold_before(point).to_vec(),
            });
        }
    }
    all
}

/// All waits for a condition, semaphore, barrier or thread.
pub fn blocking(
    code: &Code,
    symbols: &mut Symbols,
    parallel: &Parallel,
    locks: &LockSets,
) -> Vec<Blocking> {
    let mut all = Vec::new();
    let points = calls(code, parallel);
    for &point in &points {
        let Some((effects, arguments)) = code.external(point) else {
            continue;
        };
        for effect in effects {
            let mut mutex_places = Vec::new();
            let (argument, word, mutex, is_timed) = match *effect {
                Effect::WaitBehind { condition, lock } => {
                    let mutex = arguments.get(lock).map(|&operand| {
                        let lock = symbols.of(point.instance, operand);
                        let locks = code.points_to.locations(point.instance, operand);
                        mutex_places = { locks.into_iter() }
                            .flat_map(|at| code.points_to.behind(at))
                            .collect();
                        symbols.loaded(lock)
                    });
                    (condition, "wait for a condition", mutex, false)
                }
                Effect::Wait {
                    condition,
                    mutex,
                    is_timed,
                } => {
                    let mutex = arguments.get(mutex).map(|&operand| {
                        mutex_places = code.points_to.locations(point.instance, operand);
                        symbols.of(point.instance, operand)
                    });
                    (condition, "wait for a condition", mutex, is_timed)
                }
                Effect::SemaphoreWait { semaphore, is_sure } => {
                    let is_lock = arguments.get(semaphore).is_some_and(|&operand| {
                        let lock = symbols.of(point.instance, operand);
                        locks.is_lock(lock)
                    });
                    if is_lock {
                        continue;
                    }
                    (semaphore, "wait for a semaphore", None, !is_sure)
                }
                Effect::BarrierWait(barrier) => (barrier, "wait for a barrier", None, false),
                Effect::Join { handle, .. } => (handle, "join", None, false),
                Effect::JoinBehind(handle) => (handle, "join", None, false),
                _ => continue,
            };
            let Some(&operand) = arguments.get(argument) else {
                continue;
            };
            let mut places = code.points_to.locations(point.instance, operand);
            if let Effect::JoinBehind(_) = effect {
                places = places
                    .into_iter()
                    .flat_map(|at| code.points_to.behind(at))
                    .collect();
            }
            all.push(Blocking {
                point,
                held: locks.before(point).to_vec(),
                wakers: wakers(code, &points, &places),
                word,
                mutex,
                mutex_places,
                is_timed,
            });
        }
    }
    all
}

/// The threads that end a wait for one of these: those that post, signal or arrive, or that are joined.
fn wakers(code: &Code, points: &[Point], places: &[Location]) -> Vec<ThreadId> {
    let objects = &code.points_to.objects;
    let mut threads: Vec<ThreadId> = Vec::new();
    for at in places {
        if let Origin::Thread(thread) = objects.origin(at.object) {
            threads.push(thread);
        }
    }
    for &point in points {
        let Some((effects, arguments)) = code.external(point) else {
            continue;
        };
        for effect in effects {
            let (Effect::SemaphorePost(argument)
            | Effect::Signal(argument)
            | Effect::BarrierWait(argument)) = *effect
            else {
                continue;
            };
            let Some(&operand) = arguments.get(argument) else {
                continue;
            };
            let released = code.points_to.locations(point.instance, operand);
            if released.iter().any(|at| places.contains(at)) {
                threads.extend(code.threads_of(point.instance));
            }
        }
    }
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// The calls of external functions that some thread can come to.
#[must_use]
pub fn calls(code: &Code, parallel: &Parallel) -> Vec<Point> {
    let calls = code.points().filter(|&point| {
        let external = code.external(point);
        external.is_some_and(|(effects, _)| !effects.is_empty()) && parallel.is_reached(point)
    });
    calls.collect()
}
