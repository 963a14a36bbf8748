//! What each of several threads that one loop creates has for itself: an element of an array by the loop's
//! counter, a block that is allocated in the same turn of the loop.

use norns_ir::{BinaryOperator, Kind, Operand};

use crate::code::Code;
use crate::instance::{InstanceId, Point, ThreadId};
use crate::object::Origin;
use crate::points_to::constant_integer;
use crate::symbol::{Root, Symbol, Symbols};

/// What the argument of a thread is, if every thread gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    /// A block of its own.
    Block,
    /// An element of this many bytes.
    Element(u64),
    /// A number.
    Number,
}

pub struct Own {
    /// By thread.
    arguments: Vec<Option<(InstanceId, Argument)>>,
}

impl Own {
    pub fn new(code: &Code, symbols: &mut Symbols) -> Self {
        let count = code.points_to.instances.threads.len();
        let threads = (0..count).map(ThreadId::from_index);
        Self {
            arguments: threads
                .map(|thread| argument(code, symbols, thread))
                .collect(),
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
            (Argument::Element(stride), _) => is_parameter(address) && fits(stride),
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
        Root::Element(_, index, stride) if passed.offset == 0 => {
            is_counter(code, symbols, *created, index).then_some(Argument::Element(stride))?
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
