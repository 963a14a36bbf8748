//! Which threads have ended after a join, and how many threads a loop creates.

use norns_ir::{BinaryOperator, BlockId, Callee, InstructionId, Kind, Operand};
use rustc_hash::FxHashSet;

use crate::code::Code;
use crate::external::Effect;
use crate::instance::{Point, ThreadId};
use crate::object::{Location, ObjectId, Origin};
use crate::parallel::Alive;
use crate::symbol::Root;
use crate::threads::Threads;
use crate::turns::{self, Bounds, is_in_every_turn};

/// The threads whose name a call of join can get.
pub(crate) fn named(code: &Code, point: Point) -> Vec<ThreadId> {
    let Some((effects, arguments)) = code.external(point) else {
        return Vec::new();
    };
    let points_to = &code.points_to;
    let names = effects.iter().find_map(|effect| match effect {
        Effect::Join { handle, .. } => {
            let operand = *arguments.get(*handle)?;
            Some(points_to.locations(point.instance, operand))
        }
        Effect::JoinBehind(argument) | Effect::ThreadIsOver(argument) => {
            let operand = *arguments.get(*argument)?;
            let behind = points_to.locations(point.instance, operand).into_iter();
            Some(behind.flat_map(|at| points_to.behind(at)).collect())
        }
        _ => None,
    });
    let names = names.unwrap_or_default().into_iter();
    let mut threads: Vec<ThreadId> = names
        .filter_map(|at| match points_to.objects.origin(at.object) {
            Origin::Thread(thread) => Some(thread),
            _ => None,
        })
        .collect();
    threads.dedup();
    threads
}

/// `std::swap` of the names of threads, by which variables of the C++ library are moved.
const SWAP_OF_NAMES: &str = "_ZSt4swapINSt6thread2idEE";

/// The name of the function that a call by name leads to.
fn called<'p>(code: &Code<'p>, point: Point) -> Option<&'p str> {
    let (Kind::Call { callee, .. } | Kind::Invoke { callee, .. }) = code.kind(point) else {
        return None;
    };
    match callee {
        Callee::Function(id) => Some(code.program.function(*id).name.as_str()),
        _ => None,
    }
}

/// The variables of the C++ library whose thread is detached or moved to another variable.
pub(crate) fn given_away(code: &Code) -> FxHashSet<Location> {
    const NAMES: [&str; 2] = ["_ZNSt6thread6detachEv", "_ZNSt6thread4swapERS_"];
    let mut found = FxHashSet::default();
    for point in code.points() {
        let (Kind::Call {
            callee: Callee::Function(called),
            arguments,
            ..
        }
        | Kind::Invoke {
            callee: Callee::Function(called),
            arguments,
            ..
        }) = code.kind(point)
        else {
            continue;
        };
        if NAMES.contains(&code.program.function(*called).name.as_str()) {
            for &operand in arguments {
                found.extend(code.points_to.locations(point.instance, operand));
            }
        }
    }
    found
}

impl Alive<'_, '_, '_> {
    /// The thread that has ended after a join, with what it has itself joined.
    ///
    /// A variable can hold the names of several threads one after the other: only those that may be alive can
    /// be joined here.
    pub(crate) fn joined(&mut self, point: Point, alive: &Threads) -> Vec<ThreadId> {
        let mut named = named(self.code, point);
        named.retain(|&thread| alive.contains(thread));
        if named.is_empty() || self.is_given_away(point) {
            return Vec::new();
        }
        if named.len() > 1 {
            self.keep_by_element(point, &mut named);
        }
        let &[thread] = named.as_slice() else {
            return Vec::new();
        };
        let created = &self.code.points_to.instances.thread(thread).created;
        match created.as_slice() {
            [only] if self.code.is_executed_once(*only) => vec![thread],
            // Created and joined in one turn of a loop: the name lies in a variable of its own.
            [only] if only.instance == point.instance => {
                let flow = self.code.flow(point.instance);
                let cycle =
                    |id: InstructionId| flow.position(id).and_then(|(block, _)| flow.cycle(block));
                let is_same_turn = cycle(only.instruction) == cycle(point.instruction)
                    && flow.precedes(only.instruction, point.instruction)
                    && self.has_one_name(*only);
                if is_same_turn {
                    vec![thread]
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        }
    }

    /// Of threads whose names lie in one array, keeps those whose names were put where this join takes one from.
    fn keep_by_element(&mut self, join: Point, named: &mut Vec<ThreadId>) {
        let code = self.code;
        let Some(([Effect::Join { handle, .. }], arguments)) = code.external(join) else {
            return;
        };
        let Some(&handle) = arguments.get(*handle) else {
            return;
        };
        let handle = self.symbols.of(join.instance, handle);
        let (Root::Loaded(from), 0) = (self.symbols.root(handle.root), handle.offset) else {
            return;
        };
        let Root::Object(array) = self.symbols.root(from.root) else {
            return;
        };
        if !code.is_unique(array) || self.has_other_stores(array) {
            return;
        }
        named.retain(|&thread| {
            let created = &code.points_to.instances.thread(thread).created;
            let [only] = created.as_slice() else {
                return true;
            };
            let Kind::Call { arguments, .. } = code.kind(*only) else {
                return true;
            };
            let Some(&to) = arguments.first() else {
                return true;
            };
            let to = self.symbols.of(only.instance, to);
            self.symbols.root(to.root) != Root::Object(array) || to.offset == from.offset
        });
    }

    /// Whether something else than the creation of threads may write to an object.
    fn has_other_stores(&self, object: ObjectId) -> bool {
        let code = self.code;
        let reaches = |instance, operand| {
            let places = code.points_to.locations(instance, operand);
            places.iter().any(|at| at.object == object)
        };
        code.points().any(|point| match code.kind(point) {
            Kind::Store { address, .. }
            | Kind::Update { address, .. }
            | Kind::CompareExchange { address, .. } => reaches(point.instance, *address),
            Kind::Call { .. } | Kind::Invoke { .. } => {
                let Some((effects, arguments)) = code.external(point) else {
                    return false;
                };
                effects.iter().any(|effect| match effect {
                    Effect::Copies { to, .. } => arguments
                        .get(*to)
                        .is_some_and(|&operand| reaches(point.instance, operand)),
                    _ => false,
                })
            }
            _ => false,
        })
    }

    /// Whether the end of a variable says nothing, since the thread in it may have been detached or moved.
    fn is_given_away(&self, point: Point) -> bool {
        let Some(([Effect::ThreadIsOver(argument)], arguments)) = self.code.external(point) else {
            return false;
        };
        arguments.get(*argument).is_none_or(|&operand| {
            let places = self.code.points_to.locations(point.instance, operand);
            places.iter().any(|at| self.given_away.contains(at))
        })
    }

    /// Whether the name of the thread is put into a variable, not an element of an array.
    fn has_one_name(&mut self, created: Point) -> bool {
        let Kind::Call { arguments, .. } = self.code.kind(created) else {
            return false;
        };
        let Some(&handle) = arguments.first() else {
            return false;
        };
        let places = self.code.points_to.locations(created.instance, handle);
        let objects = &self.code.points_to.objects;
        places
            .iter()
            .all(|&at| !objects.is_element(self.code.program, at))
    }

    /// The threads that have all ended when a loop of joins is left: it runs over the names that were given
    /// out, from the same start to the same end as the loop that created them.
    pub(crate) fn joined_by_loop(&mut self, last: Point, to: BlockId) -> Vec<ThreadId> {
        let code = self.code;
        let flow = code.flow(last.instance);
        let Some((header, _)) = flow.position(last.instruction) else {
            return Vec::new();
        };
        let Some(cycle) = flow.cycle(header) else {
            return Vec::new();
        };
        if flow.cycle(to) == Some(cycle) {
            return Vec::new();
        }
        let bounds = turns::bounds(code, self.symbols, last);
        let is_range = bounds.is_none() && self.is_over_range(last, header);
        if bounds.is_none() && !is_range {
            return Vec::new();
        }
        let mut joined = Vec::new();
        for (block, id, _) in code.function(last.instance).listed() {
            if flow.cycle(block) != Some(cycle) {
                continue;
            }
            let point = Point {
                instance: last.instance,
                instruction: id,
            };
            // The join is in every turn: no way round it from the header to the header.
            let named = named(self.code, point);
            if named.is_empty() || !is_in_every_turn(code, point, header) {
                continue;
            }
            if is_range {
                joined.extend(
                    named
                        .into_iter()
                        .filter(|&thread| self.is_only_in(thread, point)),
                );
                continue;
            }
            let Some(bounds) = bounds else {
                continue;
            };
            let number = i64::try_from(named.len()).unwrap_or(i64::MAX);
            let are_single = named.iter().all(|&thread| {
                let created = &code.points_to.instances.thread(thread).created;
                created.iter().all(|&at| code.is_executed_once(at))
            });
            if are_single && bounds.turns.is_some_and(|turns| turns >= number) {
                joined.extend(named);
                continue;
            }
            for thread in named {
                if self.has_bounds(thread, bounds) {
                    joined.push(thread);
                }
            }
        }
        joined
    }

    /// Whether a branch ends a loop over all elements of a container of the C++ library: from its `begin` to
    /// its `end`, one further in every turn.
    fn is_over_range(&mut self, last: Point, header: BlockId) -> bool {
        let code = self.code;
        let function = code.function(last.instance);
        let at = |instruction| Point {
            instance: last.instance,
            instruction,
        };
        let Kind::Branch { condition, .. } = *code.kind(last) else {
            return false;
        };
        let mut compared = condition;
        let (first, end) = loop {
            let Operand::Result(instruction) = compared else {
                return false;
            };
            match code.kind(at(instruction)) {
                // `!(a == b)`
                Kind::Binary(BinaryOperator::Xor, inner, _) => compared = *inner,
                Kind::Call { arguments, .. } | Kind::Invoke { arguments, .. } => {
                    let is_comparison = called(code, at(instruction)).is_some_and(|name| {
                        let compares = ["_ZN9__gnu_cxxne", "_ZN9__gnu_cxxeq"]
                            .iter()
                            .any(|start| name.starts_with(start));
                        compares && name.contains("__normal_iterator")
                    });
                    match (is_comparison, arguments.as_slice()) {
                        (true, &[first, end]) => break (first, end),
                        _ => return false,
                    }
                }
                _ => return false,
            }
        };
        let instance = last.instance;
        let (first, end) = (
            self.symbols.of(instance, first),
            self.symbols.of(instance, end),
        );
        let mut starts = Vec::new();
        let mut ends = Vec::new();
        let mut steps = false;
        for (_, id, instruction) in function.listed() {
            match &instruction.kind {
                Kind::Store {
                    address,
                    value: Operand::Result(value),
                    ..
                } => {
                    let target = self.symbols.of(instance, *address);
                    let Some(name) = called(code, at(*value)) else {
                        if target == first || target == end {
                            return false;
                        }
                        continue;
                    };
                    let this = match code.kind(at(*value)) {
                        Kind::Call { arguments, .. } | Kind::Invoke { arguments, .. } => arguments
                            .first()
                            .map(|&this| self.symbols.of(instance, this)),
                        _ => None,
                    };
                    if target == first {
                        starts.push((name.ends_with("5beginEv"), this));
                    } else if target == end {
                        ends.push((name.ends_with("3endEv"), this));
                    }
                }
                Kind::Call { arguments, .. } | Kind::Invoke { arguments, .. } => {
                    let is_step = called(code, at(id)).is_some_and(|name| name.ends_with("EppEv"))
                        && arguments
                            .first()
                            .is_some_and(|&this| self.symbols.of(instance, this) == first);
                    steps |= is_step && is_in_every_turn(code, at(id), header);
                }
                _ => {}
            }
        }
        match (starts.as_slice(), ends.as_slice()) {
            (&[(true, container)], &[(true, other)]) => {
                steps && container.is_some() && container == other
            }
            _ => false,
        }
    }

    /// Whether the name of a thread lies only where a call of join takes it from, and where it was moved away.
    fn is_only_in(&self, thread: ThreadId, join: Point) -> bool {
        let code = self.code;
        let Some(([Effect::JoinBehind(argument)], arguments)) = code.external(join) else {
            return false;
        };
        let Some(&operand) = arguments.get(*argument) else {
            return false;
        };
        let taken = code.points_to.locations(join.instance, operand);
        let objects = &code.points_to.objects;
        let is_name = |at: &Location| objects.origin(at.object) == Origin::Thread(thread);
        (0..objects.len()).map(ObjectId::from_index).all(|object| {
            let is_known = taken.iter().any(|at| at.object == object);
            let is_swapped = matches!(objects.origin(object), Origin::Stack(instance, _)
                if code.function(instance).name.starts_with(SWAP_OF_NAMES));
            is_known
                || is_swapped
                || objects.places(object).iter().all(|&(offset, _)| {
                    let place = Location { object, offset };
                    self.given_away.contains(&place)
                        || !code.points_to.behind(place).iter().any(is_name)
                })
        })
    }

    /// Whether the thread is created in a loop with these bounds only.
    fn has_bounds(&mut self, thread: ThreadId, bounds: Bounds) -> bool {
        let code = self.code;
        let [created] = code.points_to.instances.thread(thread).created.as_slice() else {
            return false;
        };
        if !code.is_entered_once(created.instance) {
            return false;
        }
        let flow = code.flow(created.instance);
        let Some(cycle) = flow
            .position(created.instruction)
            .and_then(|(block, _)| flow.cycle(block))
        else {
            return false;
        };
        let function = code.function(created.instance);
        let exits = function
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(block, list)| {
                let block = BlockId::from_index(block);
                let leaves = flow
                    .successors(block)
                    .iter()
                    .any(|to| flow.cycle(*to) != Some(cycle));
                (flow.cycle(block) == Some(cycle) && leaves).then_some(*list.instructions.last()?)
            });
        let exits: Vec<InstructionId> = exits.collect();
        exits.iter().any(|&instruction| {
            let instance = created.instance;
            let other = turns::bounds(
                self.code,
                self.symbols,
                Point {
                    instance,
                    instruction,
                },
            );
            other.is_some_and(|other| other.start == bounds.start && other.end == bounds.end)
        })
    }

    /// How many threads of this kind there are in a run.
    pub(crate) fn count(&mut self, thread: ThreadId) -> Option<u64> {
        let [created] = self
            .code
            .points_to
            .instances
            .thread(thread)
            .created
            .as_slice()
        else {
            return (thread.index() == 0).then_some(1);
        };
        if self.code.is_executed_once(*created) {
            return Some(1);
        }
        if !self.code.is_entered_once(created.instance) {
            return None;
        }
        let flow = self.code.flow(created.instance);
        let (block, _) = flow.position(created.instruction)?;
        let cycle = flow.cycle(block)?;
        let blocks = self
            .code
            .function(created.instance)
            .blocks
            .iter()
            .enumerate();
        let mut exits = blocks.filter_map(|(at, list)| {
            let at = BlockId::from_index(at);
            let leaves = flow
                .successors(at)
                .iter()
                .any(|to| flow.cycle(*to) != Some(cycle));
            (flow.cycle(at) == Some(cycle) && leaves).then_some(*list.instructions.last()?)
        });
        let (Some(instruction), None) = (exits.next(), exits.next()) else {
            return None;
        };
        let instance = created.instance;
        let turns = turns::bounds(
            self.code,
            self.symbols,
            Point {
                instance,
                instruction,
            },
        );
        turns?.turns.and_then(|turns| u64::try_from(turns).ok())
    }
}
