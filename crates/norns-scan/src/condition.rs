//! Branches on a variable: what taking one says of the value that was loaded.

use norns_ir::{BinaryOperator, BlockId, Constant, Kind, Operand, Predicate, Type};

use crate::code::Code;
use crate::external::Effect;
use crate::instance::{InstanceId, Point};
use crate::points_to::constant_integer;

/// A branch whose condition is computed from one loaded value and constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The load, atomic update or compare-and-exchange.
    pub load: Point,
    value: Operand,
    leaf: Leaf,
}

/// Where a condition takes its value from: the load, or a phi of it and of constants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Leaf {
    load: Option<Point>,
    at: Option<Point>,
    constants: Vec<i64>,
}

/// Conditions are a few operators deep.
const DEEPEST: u32 = 16;

impl Condition {
    #[must_use]
    pub fn of_branch(code: &Code, point: Point) -> Option<Self> {
        let value = match *code.kind(point) {
            Kind::Branch { condition, .. } => condition,
            Kind::Switch { value, .. } => value,
            _ => return None,
        };
        Self::of_result(code, point, value)
    }

    /// The condition that a value is, as the branch at this point sees it.
    #[must_use]
    pub fn of_result(code: &Code, point: Point, value: Operand) -> Option<Self> {
        let mut leaf = Leaf::default();
        find_load(code, point.instance, value, &mut leaf, DEEPEST)?;
        Some(Self {
            load: leaf.load?,
            value,
            leaf,
        })
    }

    /// The number that a value always is: computed from constants, also those that the only call of a function
    /// passes.
    #[must_use]
    pub fn constant(code: &Code, instance: InstanceId, value: Operand) -> Option<i64> {
        evaluate(code, instance, value, None, DEEPEST)
    }

    /// Whether the branch cannot go to this block if the load gave this value.
    #[must_use]
    pub fn excludes(&self, code: &Code, branch: Point, to: BlockId, value: i64) -> bool {
        let constants = self.leaf.constants.iter();
        let mut values = constants.chain([&value]);
        values.all(|&value| self.excludes_leaf(code, branch, to, value))
    }

    fn excludes_leaf(&self, code: &Code, branch: Point, to: BlockId, value: i64) -> bool {
        let leaf = self.leaf.at.unwrap_or(self.load);
        let loaded = Some((leaf, value));
        let result = evaluate(code, branch.instance, self.value, loaded, DEEPEST);
        let Some(result) = result else {
            return false;
        };
        match code.kind(branch) {
            Kind::Branch {
                then, otherwise, ..
            } => {
                let taken = if result & 1 == 1 { then } else { otherwise };
                *taken != to
            }
            Kind::Switch { default, cases, .. } => {
                let case = cases
                    .iter()
                    .find(|(id, _)| constant_integer(code.program, *id) == Some(result));
                case.map_or(*default, |&(_, block)| block) != to
            }
            _ => false,
        }
    }
}

/// Finds the only load that a value depends on; `None` if there are others, or what is not understood.
fn find_load(
    code: &Code,
    instance: InstanceId,
    value: Operand,
    leaf: &mut Leaf,
    depth: u32,
) -> Option<()> {
    let instruction = match value {
        Operand::Constant(id) => return constant_integer(code.program, id).map(|_| ()),
        Operand::Parameter(_) => return Condition::constant(code, instance, value).map(|_| ()),
        Operand::Result(instruction) => instruction,
    };
    let depth = depth.checked_sub(1)?;
    let point = Point {
        instance,
        instruction,
    };
    let also = |operand: Operand, leaf: &mut Leaf| find_load(code, instance, operand, leaf, depth);
    match code.kind(point) {
        Kind::Load { .. } | Kind::Update { .. } | Kind::CompareExchange { .. } => {
            if leaf.load.is_some_and(|known| known != point) {
                return None;
            }
            leaf.load = Some(point);
            leaf.at = Some(point);
            Some(())
        }
        Kind::Cast(_, inner) | Kind::Freeze(inner) | Kind::ExtractValue(inner, _) => {
            also(*inner, leaf)
        }
        Kind::Binary(_, a, b) | Kind::Compare(_, a, b) => {
            also(*a, leaf)?;
            also(*b, leaf)
        }
        Kind::Phi(incoming) if leaf.load.is_none() => {
            for (_, operand) in incoming {
                if let Some(constant) = Condition::constant(code, instance, *operand) {
                    leaf.constants.push(constant);
                    continue;
                }
                match operand {
                    operand if *operand == value => {}
                    Operand::Result(inner) => {
                        let inner = Point {
                            instance,
                            instruction: *inner,
                        };
                        let is_load = matches!(code.kind(inner), Kind::Load { .. });
                        if !is_load || leaf.load.is_some_and(|known| known != inner) {
                            return None;
                        }
                        leaf.load = Some(inner);
                    }
                    Operand::Constant(_) | Operand::Parameter(_) => return None,
                }
            }
            leaf.at = Some(point);
            leaf.load.map(|_| ())
        }
        Kind::Call { .. }
            if code
                .external(point)
                .is_some_and(|(effects, _)| tells_by_result(effects)) =>
        {
            if leaf.load.is_some() {
                return None;
            }
            leaf.load = Some(point);
            leaf.at = Some(point);
            Some(())
        }
        _ => None,
    }
}

/// Whether the result of a call says if a signal was seen.
fn tells_by_result(effects: &[Effect]) -> bool {
    let tells = |effect: &Effect| {
        matches!(
            effect,
            Effect::GuardAcquire(_)
                | Effect::Forks
                | Effect::Receives { .. }
                | Effect::Polls
                | Effect::SystemCall
                | Effect::SemaphoreWait { .. }
        )
    };
    effects.iter().any(tells)
}

fn evaluate(
    code: &Code,
    instance: InstanceId,
    value: Operand,
    loaded: Option<(Point, i64)>,
    depth: u32,
) -> Option<i64> {
    let depth = depth.checked_sub(1)?;
    let instruction = match value {
        Operand::Constant(id) => {
            // A truth has the sign of its type, so that true is -1.
            let is_truth = matches!(code.program.constant(id), Constant::Integer(r#type, _)
                if *code.program.types.get(*r#type) == Type::Integer(1));
            let value = constant_integer(code.program, id)?;
            return Some(if is_truth { value & 1 } else { value });
        }
        Operand::Parameter(number) => {
            let call = code.points_to.instances.only_caller(instance)?;
            let passed = code.argument(call, number as usize)?;
            return evaluate(code, call.instance, passed, None, depth);
        }
        Operand::Result(instruction) => instruction,
    };
    let point = Point {
        instance,
        instruction,
    };
    if let Some((_, value)) = loaded.filter(|(load, _)| *load == point) {
        return Some(value);
    }
    let of = |operand: Operand| evaluate(code, instance, operand, loaded, depth);
    let r#type = code.function(instance).instruction(instruction).r#type;
    let is_truth = *code.program.types.get(r#type) == Type::Integer(1);
    let as_typed = |value: i64| if is_truth { value & 1 } else { value };
    match *code.kind(point) {
        Kind::Cast(norns_ir::Cast::Truncate, inner) => of(inner).map(as_typed),
        Kind::Cast(_, inner) | Kind::Freeze(inner) => of(inner),
        Kind::ExtractValue(inner, ref path) => match (path.as_slice(), of(inner)) {
            ([0], value) => value,
            _ => None,
        },
        Kind::Binary(operator, a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            let value = match operator {
                BinaryOperator::Add => a.wrapping_add(b),
                BinaryOperator::Subtract => a.wrapping_sub(b),
                BinaryOperator::And => a & b,
                BinaryOperator::Or => a | b,
                BinaryOperator::Xor => a ^ b,
                _ => return None,
            };
            Some(as_typed(value))
        }
        Kind::Compare(predicate, a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            let (x, y) = (a.cast_unsigned(), b.cast_unsigned());
            Some(i64::from(match predicate {
                Predicate::Equal => a == b,
                Predicate::NotEqual => a != b,
                Predicate::UnsignedGreater => x > y,
                Predicate::UnsignedGreaterOrEqual => x >= y,
                Predicate::UnsignedLess => x < y,
                Predicate::UnsignedLessOrEqual => x <= y,
                Predicate::SignedGreater => a > b,
                Predicate::SignedGreaterOrEqual => a >= b,
                Predicate::SignedLess => a < b,
                Predicate::SignedLessOrEqual => a <= b,
                Predicate::Float(_) => return None,
            }))
        }
        _ => None,
    }
}
