//! The locks that a thread may hold at each instruction.

use norns_ir::BlockId;

use crate::code::Code;
use crate::dataflow::{Problem, Solution};
use crate::external::Effect;
use crate::instance::{InstanceId, Point};
use crate::object::Location;

/// Sorted.
type Places = Vec<Location>;

struct MayHold<'a, 'p> {
    code: &'a Code<'p>,
}

impl Problem for MayHold<'_, '_> {
    type State = Places;

    fn start(&self, _: InstanceId) -> Places {
        Places::new()
    }

    fn join(&self, into: &mut Places, other: &Places) {
        into.extend(other);
        into.sort_unstable();
        into.dedup();
    }

    fn step(&mut self, point: Point, state: &mut Places) {
        let Some((effects, arguments)) = self.code.external(point) else {
            return;
        };
        for effect in effects {
            let places = |argument: usize| {
                arguments
                    .get(argument)
                    .map_or_else(Places::new, |&operand| {
                        self.code.points_to.locations(point.instance, operand)
                    })
            };
            match *effect {
                Effect::Lock(argument, _) | Effect::TryLock(argument, _) => {
                    let places = places(argument);
                    self.join(state, &places);
                }
                Effect::Unlock(argument) => {
                    let objects = &self.code.points_to.objects;
                    if let [only] = places(argument).as_slice()
                        && self.code.is_unique(only.object)
                        && !objects.is_element(self.code.program, *only)
                    {
                        state.retain(|at| at != only);
                    }
                }
                _ => {}
            }
        }
    }

    fn branch(&mut self, _: Point, _: BlockId, _: &mut Places) {}

    fn enter(&mut self, _: Point, _: InstanceId, state: &Places) -> Places {
        state.clone()
    }

    fn leave(
        &mut self,
        _: Point,
        callee: InstanceId,
        before: &Places,
        inside: (&Places, &Places),
    ) -> Places {
        let mut after = inside.1.clone();
        if self.code.points_to.instances.only_caller(callee).is_none() {
            self.join(&mut after, before);
        }
        after
    }
}

/// The unlocks of locks that nothing has taken before, with the places of the lock.
pub fn unlocks_without_lock(code: &Code) -> Vec<(Point, Places)> {
    let mut problem = MayHold { code };
    let mut solution = Solution::new(code, &mut problem);
    let mut found = Vec::new();
    for instance in code.points_to.instances.ids() {
        solution.for_each(code, &mut problem, instance, |instruction, state| {
            let point = Point {
                instance,
                instruction,
            };
            let Some((effects, arguments)) = code.external(point) else {
                return;
            };
            for effect in effects {
                let (&Effect::Unlock(argument), false) = (effect, arguments.is_empty()) else {
                    continue;
                };
                let places = code.points_to.locations(instance, arguments[argument]);
                // A lock that cannot be named says nothing.
                if !places.is_empty() && places.iter().all(|at| !state.contains(at)) {
                    found.push((point, places));
                }
            }
        });
    }
    found
}
