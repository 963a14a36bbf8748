//! What each of several threads that one loop creates has for itself: an element of an array by the loop's
//! counter, a block that is allocated in the same turn of the loop, an element of another array by a number that
//! only this thread's element holds.

use norns_ir::{BinaryOperator, Constant, Kind, Operand};
use rustc_hash::FxHashSet;

use crate::code::Code;
use crate::external::Effect;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::object::{ObjectId, Origin};
use crate::points_to::constant_integer;
use crate::symbol::{Root, Symbol, Symbols};

/// What the argument of a thread is, if every thread gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    /// A block of its own.
    Block,
    /// An element of this many bytes of the array `of`.
    Element { bytes: u64, of: ObjectId },
    /// A number.
    Number,
}

pub struct Own {
    /// By thread.
    arguments: Vec<Option<(InstanceId, Argument)>>,
    /// Places in the elements that threads get which hold another number in every element.
    numbers: FxHashSet<(ObjectId, i64)>,
}

impl Own {
    pub fn new(code: &Code, symbols: &mut Symbols) -> Self {
        let count = code.points_to.instances.threads.len();
        let threads = (0..count).map(ThreadId::from_index);
        let arguments: Vec<_> = threads
            .map(|thread| argument(code, symbols, thread))
            .collect();
        let mut arrays: Vec<(ObjectId, u64)> = Vec::new();
        for &(_, argument) in arguments.iter().flatten() {
            if let Argument::Element { bytes, of } = argument
                && !arrays.contains(&(of, bytes))
            {
                arrays.push((of, bytes));
            }
        }
        let numbers = arrays
            .into_iter()
            .flat_map(|(array, bytes)| numbers_of(code, symbols, array, bytes));
        Self {
            numbers: numbers.collect(),
            arguments,
        }
    }

    /// Whether an access of this thread goes to memory that no other thread of its kind has.
    #[must_use]
    pub fn is_own(&self, symbols: &Symbols, thread: ThreadId, address: Symbol, size: u64) -> bool {
        let Some((entry, argument)) = self.arguments[thread.index()] else {
            return false;
        };
        let is_parameter = |symbol: Symbol| symbols.root(symbol.root) == Root::Parameter(entry, 0);
        let fits = |stride: u64| {
            let end = u64::try_from(address.offset)
                .ok()
                .and_then(|start| start.checked_add(size));
            end.is_some_and(|end| end <= stride)
        };
        match (argument, symbols.root(address.root)) {
            (Argument::Block, _) => {
                let mut symbol = address;
                while let Root::Element(start, ..) = symbols.root(symbol.root) {
                    symbol = start;
                }
                is_parameter(symbol)
            }
            (Argument::Element { bytes, .. }, _) if is_parameter(address) => fits(bytes),
            // An element of another array, by the number in the own element.
            (Argument::Element { of, .. }, Root::Element(_, index, stride)) => {
                let Root::Loaded(at) = symbols.root(index.root) else {
                    return false;
                };
                index.offset == 0
                    && is_parameter(at)
                    && self.numbers.contains(&(of, at.offset))
                    && fits(stride)
            }
            (Argument::Element { .. }, _) => false,
            (Argument::Number, Root::Element(_, index, stride)) => {
                is_parameter(index) && fits(stride)
            }
            (Argument::Number, _) => false,
        }
    }
}

fn argument(
    code: &Code,
    symbols: &mut Symbols,
    thread: ThreadId,
) -> Option<(InstanceId, Argument)> {
    let thread = code.points_to.instances.thread(thread);
    let ([created], [entry]) = (thread.created.as_slice(), thread.entries.as_slice()) else {
        return None;
    };
    if !code.is_entered_once(created.instance) {
        return None;
    }
    let passed = symbols.of(created.instance, thread.argument?);
    let argument = match symbols.root(passed.root) {
        Root::Object(object) => match code.points_to.objects.origin(object) {
            Origin::Heap(instance, instruction) => {
                let is_same_turn = instance == created.instance
                    && code
                        .flow(instance)
                        .precedes(instruction, created.instruction)
                    && cycle(code, *created).is_some()
                    && cycle(code, *created)
                        == cycle(
                            code,
                            Point {
                                instance,
                                instruction,
                            },
                        );
                is_same_turn.then_some(Argument::Block)?
            }
            _ => return None,
        },
        Root::Element(start, index, bytes) if passed.offset == 0 => {
            let Root::Object(of) = symbols.root(start.root) else {
                return None;
            };
            let is_own = is_counter(code, symbols, *created, index);
            is_own.then_some(Argument::Element { bytes, of })?
        }
        Root::Value(..) => {
            is_counter(code, symbols, *created, passed).then_some(Argument::Number)?
        }
        _ => return None,
    };
    Some((*entry, argument))
}

fn cycle(code: &Code, point: Point) -> Option<usize> {
    let flow = code.flow(point.instance);
    flow.position(point.instruction)
        .and_then(|(block, _)| flow.cycle(block))
}

/// Whether a value is another one in every turn of the loop around a call.
fn is_counter(code: &Code, symbols: &Symbols, created: Point, symbol: Symbol) -> bool {
    let Root::Value(instance, instruction) = symbols.root(symbol.root) else {
        return false;
    };
    let point = Point {
        instance,
        instruction,
    };
    let Kind::Phi(incoming) = code.kind(point) else {
        return false;
    };
    let around = cycle(code, created);
    if instance != created.instance || around.is_none() || cycle(code, point) != around {
        return false;
    }
    let flow = code.flow(instance);
    let mut back = incoming
        .iter()
        .filter(|(from, _)| flow.cycle(*from) == around);
    back.all(|(_, next)| {
        let Operand::Result(next) = next else {
            return false;
        };
        let step = code.kind(Point {
            instance,
            instruction: *next,
        });
        match *step {
            Kind::Binary(BinaryOperator::Add, a, Operand::Constant(step)) => {
                a == Operand::Result(instruction)
                    && constant_integer(code.program, step).is_some_and(|step| step != 0)
            }
            _ => false,
        }
    })
}

/// The offsets in the elements of an array at which every element holds another number: the array is filled by one
/// statement, in a loop with its counter or from a constant.
fn numbers_of(
    code: &Code,
    symbols: &mut Symbols,
    array: ObjectId,
    bytes: u64,
) -> Vec<(ObjectId, i64)> {
    let mut found: Vec<(i64, Point)> = Vec::new();
    for point in code.points() {
        match *code.kind(point) {
            Kind::Store { address, value, .. } => {
                let places = code.points_to.locations(point.instance, address);
                if places.iter().all(|at| at.object != array) {
                    continue;
                }
                let (address, value) = (
                    symbols.of(point.instance, address),
                    symbols.of(point.instance, value),
                );
                match symbols.root(address.root) {
                    Root::Element(start, index, stride)
                        if symbols.root(start.root) == Root::Object(array)
                            && (start.offset, stride) == (0, bytes)
                            && value == index
                            && is_counter(code, symbols, point, index) =>
                    {
                        found.push((address.offset, point));
                    }
                    // Something else is put there.
                    _ => found.extend(places.iter().flat_map(|at| {
                        let offset = i64::try_from(at.offset).unwrap_or(0);
                        [(offset, point), (offset, point)]
                    })),
                }
            }
            Kind::Call { .. } | Kind::Invoke { .. } => {
                let writes = code.external(point).is_some_and(|(effects, arguments)| {
                    effects.iter().any(|effect| {
                        let Effect::Writes(number, _) = effect else {
                            return false;
                        };
                        arguments.get(*number).is_some_and(|&operand| {
                            let places = code.points_to.locations(point.instance, operand);
                            places.iter().any(|at| at.object == array)
                        })
                    })
                });
                if !writes {
                    continue;
                }
                match copied_numbers(code, symbols, array, point) {
                    Some(offset) => found.push((offset, point)),
                    None => return Vec::new(),
                }
            }
            _ => {}
        }
    }
    let mut offsets: Vec<i64> = found.iter().map(|&(offset, _)| offset).collect();
    offsets.sort_unstable();
    let only = offsets.iter().filter(|&&offset| {
        let same = offsets.iter().filter(|&&other| other == offset);
        same.count() == 1
    });
    only.map(|&offset| (array, offset)).collect()
}

/// Where a copy of a constant puts another number into every element.
fn copied_numbers(code: &Code, symbols: &mut Symbols, array: ObjectId, copy: Point) -> Option<i64> {
    let (effects, arguments) = code.external(copy)?;
    let &Effect::Copies { to, from } = effects
        .iter()
        .find(|effect| matches!(effect, Effect::Copies { .. }))?
    else {
        return None;
    };
    let to = symbols.of(copy.instance, *arguments.get(to)?);
    let from = symbols.of(copy.instance, *arguments.get(from)?);
    if symbols.root(to.root) != Root::Object(array) || (to.offset, from.offset) != (0, 0) {
        return None;
    }
    let Root::Object(source) = symbols.root(from.root) else {
        return None;
    };
    let Origin::Global(global) = code.points_to.objects.origin(source) else {
        return None;
    };
    let global = code.program.global(global);
    let initial = code.program.constant(global.initial?);
    let numbers: Vec<u64> = match initial {
        Constant::Numbers(_, numbers) => numbers.clone(),
        _ => return None,
    };
    let different: FxHashSet<u64> = numbers.iter().copied().collect();
    (global.is_constant && different.len() == numbers.len()).then_some(0)
}
