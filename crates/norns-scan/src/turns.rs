//! How often a loop that counts is run through.

use norns_ir::{BinaryOperator, BlockId, Kind, Operand, Predicate};

use crate::code::Code;
use crate::instance::{InstanceId, Point};
use crate::points_to::constant_integer;
use crate::symbol::{Root, Symbol, Symbols};

/// From where to where a loop counts.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub start: Symbol,
    pub end: Symbol,
    pub turns: Option<i64>,
}

/// Whether an instruction is executed in every turn of a loop that begins at this block: there is no way round
/// it from the header to the header.
#[must_use]
pub fn is_in_every_turn(code: &Code, point: Point, header: BlockId) -> bool {
    let flow = code.flow(point.instance);
    let Some((block, _)) = flow.position(point.instruction) else {
        return false;
    };
    let cycle = flow.cycle(header);
    let back = flow.predecessors(header).iter();
    let mut back = back.filter(|from| flow.cycle(**from) == cycle);
    back.all(|&from| flow.dominates(block, from))
}

/// The bounds of the loop that this branch ends.
pub fn bounds(code: &Code, symbols: &mut Symbols, last: Point) -> Option<Bounds> {
    let Kind::Branch { condition, .. } = *code.kind(last) else {
        return None;
    };
    let Operand::Result(condition) = condition else {
        return None;
    };
    let condition = Point {
        instance: last.instance,
        instruction: condition,
    };
    let Kind::Compare(predicate, counter, end) = *code.kind(condition) else {
        return None;
    };
    let end = symbols.of(last.instance, end);
    let (start, is_counted) = first_value(code, symbols, last.instance, counter)?;
    let number = |symbol: Symbol| match symbols.root(symbol.root) {
        Root::Number => Some(symbol.offset),
        _ => None,
    };
    let turns = match (predicate, number(start), number(end)) {
        (
            Predicate::SignedLess | Predicate::UnsignedLess | Predicate::NotEqual,
            Some(start),
            Some(end),
        ) => Some(end - start),
        (Predicate::SignedLessOrEqual | Predicate::UnsignedLessOrEqual, Some(start), Some(end)) => {
            Some(end - start + 1)
        }
        _ => None,
    };
    let turns = turns.filter(|_| is_counted);
    Some(Bounds { start, end, turns })
}

/// What a counter begins with, the value from outside of a phi, and whether every turn adds one to it.
fn first_value(
    code: &Code,
    symbols: &mut Symbols,
    instance: InstanceId,
    counter: Operand,
) -> Option<(Symbol, bool)> {
    let mut counter = counter;
    for _ in 0..4 {
        let Operand::Result(instruction) = counter else {
            return None;
        };
        match code.kind(Point {
            instance,
            instruction,
        }) {
            Kind::Cast(_, inner) => counter = *inner,
            Kind::Phi(incoming) => {
                let flow = code.flow(instance);
                let (block, _) = flow.position(instruction)?;
                let cycle = flow.cycle(block);
                let outside = incoming
                    .iter()
                    .find(|(from, _)| flow.cycle(*from) != cycle)?;
                let mut inside = incoming
                    .iter()
                    .filter(|(from, _)| flow.cycle(*from) == cycle);
                let is_next = |next: Operand| {
                    let Operand::Result(next) = next else {
                        return false;
                    };
                    let point = Point {
                        instance,
                        instruction: next,
                    };
                    let Kind::Binary(BinaryOperator::Add, from, Operand::Constant(step)) =
                        *code.kind(point)
                    else {
                        return false;
                    };
                    from == Operand::Result(instruction)
                        && constant_integer(code.program, step) == Some(1)
                };
                let is_counted = inside.all(|&(_, next)| is_next(next));
                return Some((symbols.of(instance, outside.1), is_counted));
            }
            _ => return None,
        }
    }
    None
}
