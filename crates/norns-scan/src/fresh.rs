//! Objects that no other thread can know yet: from their allocation until their address is stored somewhere
//! or passed to a new thread.

use norns_ir::{AtomicOrder, BlockId, Kind, Operand};
use rustc_hash::FxHashSet;

use crate::code::Code;
use crate::dataflow::{Problem, Solution};
use crate::external::Effect;
use crate::instance::{InstanceId, Point};
use crate::lock_set::LockSets;
use crate::object::{ObjectId, Origin};
use crate::parallel::Parallel;
use crate::symbol::{Root, Symbols};

/// Sorted.
type Objects = Vec<ObjectId>;

struct NotShared<'a, 'b, 'p> {
    code: &'a Code<'p>,
    symbols: &'b mut Symbols<'a, 'p>,
    escaped: &'b FxHashSet<ObjectId>,
}

impl Problem for NotShared<'_, '_, '_> {
    type State = Objects;

    fn start(&self, _: InstanceId) -> Objects {
        Objects::new()
    }

    fn join(&self, into: &mut Objects, other: &Objects) {
        into.retain(|object| other.binary_search(object).is_ok());
    }

    fn step(&mut self, point: Point, state: &mut Objects) {
        let instance = point.instance;
        match self.code.kind(point) {
            Kind::Store { address, value, .. } if !self.is_private(instance, *address) => {
                self.publish(instance, *value, state);
            }
            Kind::Update { value, .. } => self.publish(instance, *value, state),
            Kind::CompareExchange { new, .. } => self.publish(instance, *new, state),
            Kind::Call {
                callee, arguments, ..
            }
            | Kind::Invoke {
                callee, arguments, ..
            } => {
                let is_known = match self.code.external(point) {
                    Some((effects, _)) => !effects.iter().any(is_publication),
                    None => {
                        let callees = self.code.points_to.instances.callees(point);
                        let is_clone = |&id: &InstanceId| {
                            self.code.points_to.instances.only_caller(id).is_some()
                        };
                        !self.code.is_call_of_library(point)
                            && !callees.is_empty()
                            && callees.iter().all(is_clone)
                    }
                };
                let is_intrinsic = matches!(callee, norns_ir::Callee::Function(id)
                    if self.code.program.function(*id).name.starts_with("llvm."));
                if !is_known && !is_intrinsic {
                    for &argument in arguments {
                        self.publish(instance, argument, state);
                    }
                }
                let origin = Origin::Heap(instance, point.instruction);
                if let Some(object) = self.code.points_to.objects.known(origin)
                    && let Err(at) = state.binary_search(&object)
                {
                    state.insert(at, object);
                }
            }
            _ => {}
        }
    }

    fn branch(&mut self, _: Point, _: BlockId, _: &mut Objects) {}

    fn enter(&mut self, _: Point, _: InstanceId, state: &Objects) -> Objects {
        state.clone()
    }

    fn leave(
        &mut self,
        _: Point,
        callee: InstanceId,
        before: &Objects,
        inside: (&Objects, &Objects),
    ) -> Objects {
        if self.code.points_to.instances.only_caller(callee).is_some() {
            return inside.1.clone();
        }
        // What is new stays new: a shared function was not given it.
        let mut after = inside.1.clone();
        after.extend(before);
        after.sort_unstable();
        after.dedup();
        after
    }
}

fn is_publication(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Create { .. }
            | Effect::CreateFromState
            | Effect::Calls { .. }
            | Effect::CallsLater(_)
            | Effect::AtExit { .. }
            | Effect::Copies { .. }
    )
}

impl NotShared<'_, '_, '_> {
    /// Whether what is stored there can be seen by the storing thread only.
    fn is_private(&self, instance: InstanceId, address: Operand) -> bool {
        let places = self.code.points_to.locations(instance, address);
        places.iter().all(|at| !self.escaped.contains(&at.object))
    }

    fn publish(&mut self, instance: InstanceId, value: Operand, state: &mut Objects) {
        if state.is_empty() {
            return;
        }
        let symbol = self.symbols.of(instance, value);
        match self.symbols.root(symbol.root) {
            Root::Object(object) => state.retain(|&other| other != object),
            Root::Number => {}
            _ => {
                let places = self.code.points_to.locations(instance, value);
                state.retain(|object| places.iter().all(|at| at.object != *object));
            }
        }
    }
}

/// The objects whose address is given to other threads by something that does not order memory: a plain store
/// without a lock. Whoever finds such an object may not see what was written to it before.
fn carelessly_published(
    code: &Code,
    parallel: &Parallel,
    locks: &LockSets,
    escaped: &FxHashSet<ObjectId>,
) -> FxHashSet<ObjectId> {
    let mut found = FxHashSet::default();
    for point in code.points() {
        let Kind::Store {
            address,
            value,
            order,
            ..
        } = *code.kind(point)
        else {
            continue;
        };
        let is_release = order.is_some_and(|order| order != AtomicOrder::Relaxed);
        let is_ordered =
            is_release || !locks.before(point).is_empty() || parallel.is_alone(code, point);
        if is_ordered || !parallel.is_reached(point) {
            continue;
        }
        let places = code.points_to.locations(point.instance, address);
        if places.iter().any(|at| escaped.contains(&at.object)) {
            let values = code.points_to.locations(point.instance, value);
            found.extend(values.iter().map(|at| at.object));
        }
    }
    found
}

/// The points at which an object that is accessed by its own name is not shared yet.
pub struct Fresh {
    before: Vec<Vec<Option<u32>>>,
    states: Vec<Objects>,
    careless: FxHashSet<ObjectId>,
}

impl Fresh {
    pub fn new<'a, 'p>(
        code: &'a Code<'p>,
        symbols: &mut Symbols<'a, 'p>,
        (parallel, locks): (&Parallel, &LockSets),
        escaped: &FxHashSet<ObjectId>,
    ) -> Self {
        let mut problem = NotShared {
            code,
            symbols,
            escaped,
        };
        let mut solution = Solution::new(code, &mut problem);
        let mut fresh = Self {
            before: Vec::new(),
            states: Vec::new(),
            careless: carelessly_published(code, parallel, locks, escaped),
        };
        let mut numbers = rustc_hash::FxHashMap::default();
        for instance in code.points_to.instances.ids() {
            let mut before = vec![None; code.function(instance).instructions.len()];
            solution.for_each(code, &mut problem, instance, |instruction, state| {
                if state.is_empty() {
                    return;
                }
                let number = *numbers.entry(state.clone()).or_insert_with(|| {
                    fresh.states.push(state.clone());
                    u32::try_from(fresh.states.len() - 1).expect("fewer states than instructions")
                });
                before[instruction.index()] = Some(number);
            });
            fresh.before.push(before);
        }
        fresh
    }

    /// Whether an access at this point to this object is to the one that was just allocated.
    #[must_use]
    pub fn is_fresh(
        &self,
        symbols: &mut Symbols,
        point: Point,
        address: Operand,
        object: ObjectId,
    ) -> bool {
        let Some(number) = self.before[point.instance.index()][point.instruction.index()] else {
            return false;
        };
        if self.careless.contains(&object)
            || self.states[number as usize].binary_search(&object).is_err()
        {
            return false;
        }
        let mut symbol = symbols.of(point.instance, address);
        loop {
            match symbols.root(symbol.root) {
                Root::Object(own) => return own == object,
                Root::Element(start, ..) => symbol = start,
                _ => return false,
            }
        }
    }
}
