//! The locks that a thread may hold at each instruction.
//!
//! A state is a set of places, one bit for each place that some call releases.

use norns_ir::BlockId;
use rustc_hash::FxHashMap;

use crate::code::Code;
use crate::dataflow::{Problem, Solution};
use crate::external::Effect;
use crate::instance::{InstanceId, Point};
use crate::object::Location;

/// One bit for each place that is released anywhere.
type Bits = Vec<u64>;

struct MayHold<'a, 'p> {
    code: &'a Code<'p>,
    numbers: FxHashMap<Location, usize>,
    /// The places of the locks that are taken or released at a point.
    places: FxHashMap<Point, Vec<Location>>,
}

impl<'a, 'p> MayHold<'a, 'p> {
    fn new(code: &'a Code<'p>) -> Self {
        let mut problem = Self {
            code,
            numbers: FxHashMap::default(),
            places: FxHashMap::default(),
        };
        for point in code.points() {
            let Some((effects, arguments)) = code.external(point) else {
                continue;
            };
            for effect in effects {
                let (argument, is_release) = match *effect {
                    Effect::Lock(argument, _) | Effect::TryLock(argument, _) => (argument, false),
                    Effect::Unlock(argument) => (argument, true),
                    _ => continue,
                };
                let Some(&operand) = arguments.get(argument) else {
                    continue;
                };
                let places = code.points_to.locations(point.instance, operand);
                if is_release {
                    for &at in &places {
                        let next = problem.numbers.len();
                        problem.numbers.entry(at).or_insert(next);
                    }
                }
                problem.places.entry(point).or_default().extend(places);
            }
        }
        problem
    }

    fn is_held(&self, state: &Bits, at: &Location) -> bool {
        let number = self.numbers.get(at);
        number.is_some_and(|&number| state[number / 64] >> (number % 64) & 1 == 1)
    }
}

impl Problem for MayHold<'_, '_> {
    type State = Bits;

    fn start(&self, _: InstanceId) -> Bits {
        vec![0; self.numbers.len().div_ceil(64)]
    }

    fn join(&self, into: &mut Bits, other: &Bits) {
        for (word, other) in into.iter_mut().zip(other) {
            *word |= other;
        }
    }

    fn step(&mut self, point: Point, state: &mut Bits) {
        let Some(places) = self.places.get(&point) else {
            return;
        };
        let (effects, _) = self.code.external(point).unwrap_or_default();
        for effect in effects {
            match effect {
                Effect::Lock(..) | Effect::TryLock(..) => {
                    for number in places.iter().filter_map(|at| self.numbers.get(at)) {
                        state[number / 64] |= 1 << (number % 64);
                    }
                }
                Effect::Unlock(_) => {
                    let objects = &self.code.points_to.objects;
                    if let [only] = places.as_slice()
                        && self.code.is_unique(only.object)
                        && !objects.is_element(self.code.program, *only)
                        && let Some(number) = self.numbers.get(only)
                    {
                        state[number / 64] &= !(1 << (number % 64));
                    }
                }
                _ => {}
            }
        }
    }

    fn branch(&mut self, _: Point, _: BlockId, _: &mut Bits) {}

    fn enter(&mut self, _: Point, _: InstanceId, state: &Bits) -> Bits {
        state.clone()
    }

    fn leave(
        &mut self,
        _: Point,
        callee: InstanceId,
        before: &Bits,
        inside: (&Bits, &Bits),
    ) -> Bits {
        let mut after = inside.1.clone();
        if self.code.points_to.instances.only_caller(callee).is_none() {
            self.join(&mut after, before);
        }
        after
    }
}

/// The unlocks of locks that nothing has taken before, with the places of the lock.
pub fn unlocks_without_lock(code: &Code) -> Vec<(Point, Vec<Location>)> {
    let mut problem = MayHold::new(code);
    let mut solution = Solution::new(code, &mut problem);
    let mut releases: Vec<Point> = problem.places.keys().copied().collect();
    releases.sort_unstable();
    releases.dedup_by_key(|point| point.instance);
    let mut found = Vec::new();
    for instance in releases.into_iter().map(|point| point.instance) {
        let mut states: Vec<(Point, Bits)> = Vec::new();
        solution.for_each(code, &mut problem, instance, |instruction, state| {
            let point = Point {
                instance,
                instruction,
            };
            let releases = |effect: &Effect| matches!(effect, Effect::Unlock(_));
            if code
                .external(point)
                .is_some_and(|(effects, _)| effects.iter().any(releases))
            {
                states.push((point, state.clone()));
            }
        });
        for (point, state) in states {
            // A lock that cannot be named says nothing.
            let places = problem.places.get(&point).cloned().unwrap_or_default();
            if !places.is_empty() && places.iter().all(|at| !problem.is_held(&state, at)) {
                found.push((point, places));
            }
        }
    }
    found
}
