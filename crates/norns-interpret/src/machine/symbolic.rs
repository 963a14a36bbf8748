//! What operations do with values that depend on the input.

use std::ops::Range;

use super::Machine;
use crate::memory::{Region, address_of, object_of};
use crate::op::{CallSite, CodeFunction, Op, Register};
use crate::symbolic::{Condition, Expression, Expressions, Operator, Part, Path, Symbolic};

/// The most entries of a table that a value is read from by a byte of the input.
const TABLE: u64 = 4096;

/// The registers of a frame, and what is known of them.
pub(super) struct Shadow<'a> {
    pub(super) base: usize,
    pub(super) registers: &'a [u64],
    pub(super) expressions: &'a mut Vec<Option<Expression>>,
}

impl Shadow<'_> {
    fn known(&self, register: Register) -> Option<Expression> {
        let at = self.base + register as usize;
        self.expressions.get(at).copied().flatten()
    }

    fn has_one(&self, registers: &[Register]) -> bool {
        registers.iter().any(|&one| self.known(one).is_some())
    }

    fn get(&self, register: Register, all: &mut Expressions) -> Expression {
        match self.known(register) {
            Some(expression) => expression,
            None => all.constant(self.registers[register as usize]),
        }
    }

    fn put(&mut self, register: Register, expression: Option<Expression>) {
        let at = self.base + register as usize;
        if self.expressions.len() <= at {
            if expression.is_none() {
                return;
            }
            self.expressions.resize(at + 1, None);
        }
        self.expressions[at] = expression;
    }
}

/// An operation on two registers: whether its operands and its result have less than 64 bits.
struct Binary {
    operator: Operator,
    signed: Option<u8>,
    narrowed: Option<u8>,
    d: Register,
    a: Register,
    b: Register,
}

fn binary(op: &Op) -> Option<Binary> {
    let of = |operator, signed, narrowed, (d, a, b): (&Register, &Register, &Register)| {
        Some(Binary {
            operator,
            signed,
            narrowed,
            d: *d,
            a: *a,
            b: *b,
        })
    };
    match op {
        Op::Add { s, d, a, b } => of(Operator::Add, None, Some(*s), (d, a, b)),
        Op::Subtract { s, d, a, b } => of(Operator::Subtract, None, Some(*s), (d, a, b)),
        Op::Multiply { s, d, a, b } => of(Operator::Multiply, None, Some(*s), (d, a, b)),
        Op::DivideUnsigned { d, a, b } => of(Operator::DivideUnsigned, None, None, (d, a, b)),
        Op::RemainderUnsigned { d, a, b } => of(Operator::RemainderUnsigned, None, None, (d, a, b)),
        Op::DivideSigned { s, d, a, b } => {
            of(Operator::DivideSigned, Some(*s), Some(*s), (d, a, b))
        }
        Op::RemainderSigned { s, d, a, b } => {
            of(Operator::RemainderSigned, Some(*s), Some(*s), (d, a, b))
        }
        Op::ShiftLeft { s, d, a, b } => of(Operator::ShiftLeft, None, Some(*s), (d, a, b)),
        Op::ShiftRightLogical { d, a, b } => of(Operator::ShiftRightLogical, None, None, (d, a, b)),
        Op::And { d, a, b } => of(Operator::And, None, None, (d, a, b)),
        Op::Or { d, a, b } => of(Operator::Or, None, None, (d, a, b)),
        Op::Xor { d, a, b } => of(Operator::Xor, None, None, (d, a, b)),
        Op::Equal { d, a, b } => of(Operator::Equal, None, None, (d, a, b)),
        Op::UnsignedLess { d, a, b } => of(Operator::UnsignedLess, None, None, (d, a, b)),
        Op::UnsignedLessOrEqual { d, a, b } => {
            of(Operator::UnsignedLessOrEqual, None, None, (d, a, b))
        }
        Op::SignedLess { s, d, a, b } => of(Operator::SignedLess, Some(*s), None, (d, a, b)),
        Op::SignedLessOrEqual { s, d, a, b } => {
            of(Operator::SignedLessOrEqual, Some(*s), None, (d, a, b))
        }
        _ => None,
    }
}

/// Follows an operation on registers, before it is executed.
pub(super) fn follow(
    symbolic: &mut Symbolic,
    function: &CodeFunction,
    op: &Op,
    mut shadow: Shadow<'_>,
    at: (u32, u32),
) {
    if shadow.expressions.len() <= shadow.base {
        // Nothing in this frame depends on the input.
        return;
    }
    let path = &mut symbolic.path;
    if let Some(binary) = binary(op) {
        let result = shadow
            .has_one(&[binary.a, binary.b])
            .then(|| followed(path, &shadow, &binary, at));
        return shadow.put(binary.d, result);
    }
    let all = &mut path.expressions;
    let (d, result) = match op {
        Op::NotEqual { d, a, b } => (d, {
            shadow.has_one(&[*a, *b]).then(|| {
                let (a, b) = (shadow.get(*a, all), shadow.get(*b, all));
                let equal = all.binary(Operator::Equal, a, b);
                let zero = all.constant(0);
                all.binary(Operator::Equal, equal, zero)
            })
        }),
        Op::ShiftRightArithmetic { s, d, a, b } => (d, {
            shadow.has_one(&[*a, *b]).then(|| {
                let (a, b) = (shadow.get(*a, all), shadow.get(*b, all));
                let a = all.sign_extend(*s, a);
                let shifted = all.binary(Operator::ShiftRightArithmetic, a, b);
                all.narrow(*s, shifted)
            })
        }),
        Op::Select { d, condition, a, b } => (d, {
            shadow.has_one(&[*condition, *a, *b]).then(|| {
                let condition = shadow.get(*condition, all);
                let condition = all.narrow(63, condition);
                let (a, b) = (shadow.get(*a, all), shadow.get(*b, all));
                all.choose(condition, a, b)
            })
        }),
        Op::Move { d, a } => (d, shadow.known(*a)),
        Op::Truncate { s, d, a } => (d, shadow.known(*a).map(|a| all.narrow(*s, a))),
        Op::SignExtend { from, to, d, a } => (d, {
            shadow.known(*a).map(|a| {
                let extended = all.sign_extend(*from, a);
                all.narrow(*to, extended)
            })
        }),
        Op::Address {
            s,
            d,
            base,
            index,
            scale,
        } => (d, {
            shadow.has_one(&[*base, *index]).then(|| {
                let (base, index) = (shadow.get(*base, all), shadow.get(*index, all));
                let index = all.sign_extend(*s, index);
                let scale = all.constant(u64::from(*scale));
                let step = all.binary(Operator::Multiply, index, scale);
                all.binary(Operator::Add, base, step)
            })
        }),
        Op::Float { d, a, b, .. } | Op::CompareFloats { d, a, b, .. } => {
            if shadow.has_one(&[*a, *b]) {
                note_float(path);
            }
            (d, None)
        }
        Op::Negate { d, a, .. }
        | Op::ToFloat { d, a, .. }
        | Op::FromFloat { d, a, .. }
        | Op::FloatExtend { d, a }
        | Op::FloatTruncate { d, a } => {
            if shadow.has_one(&[*a]) {
                note_float(path);
            }
            (d, None)
        }
        Op::Wide { a, b, .. } | Op::CompareWide { a, b, .. } => {
            if shadow.has_one(&[*a, *a + 1, *b, *b + 1]) {
                path.concretised.insert("arithmetic of 128 bits".to_owned());
            }
            return;
        }
        Op::Branch { condition, .. } => {
            if let Some(expression) = shadow.known(*condition) {
                let expression = all.narrow(63, expression);
                let holds = shadow.registers[*condition as usize] & 1 == 1;
                path.add(Condition { expression, holds }, true, at);
            }
            return;
        }
        Op::Switch { value, table } => {
            let Some(expression) = shadow.known(*value) else {
                return;
            };
            let value = shadow.registers[*value as usize];
            for &(case, _) in &function.switches[*table as usize].cases {
                let case_value = path.expressions.constant(case);
                let equal = path
                    .expressions
                    .binary(Operator::Equal, expression, case_value);
                let condition = Condition {
                    expression: equal,
                    holds: case == value,
                };
                // The cases before the one that was taken follow from it.
                path.add(condition, true, (at.0, at.1 ^ ((case as u32) << 16)));
            }
            return;
        }
        _ => return,
    };
    shadow.put(*d, result);
}

fn note_float(path: &mut Path) {
    path.concretised
        .insert("arithmetic of floating-point numbers".to_owned());
}

fn followed(path: &mut Path, shadow: &Shadow<'_>, binary: &Binary, at: (u32, u32)) -> Expression {
    let all = &mut path.expressions;
    let (mut a, mut b) = (shadow.get(binary.a, all), shadow.get(binary.b, all));
    if let Some(s) = binary.signed {
        (a, b) = (all.sign_extend(s, a), all.sign_extend(s, b));
    }
    let result = all.binary(binary.operator, a, b);
    let result = match binary.narrowed {
        Some(s) => all.narrow(s, result),
        None => result,
    };
    match binary.operator {
        Operator::DivideUnsigned
        | Operator::DivideSigned
        | Operator::RemainderUnsigned
        | Operator::RemainderSigned => {
            let holds = shadow.registers[binary.b as usize] != 0;
            path.add(
                Condition {
                    expression: b,
                    holds,
                },
                true,
                at,
            );
        }
        _ => {}
    }
    result
}

impl Machine<'_> {
    /// What is known of registers of the running function.
    pub(super) fn expressions_of(&self, registers: Range<Register>) -> Vec<Option<Expression>> {
        if self.symbolic.is_none() {
            return Vec::new();
        }
        let thread = &self.state.threads[self.state.current];
        let base = thread.frames.last().map_or(0, |frame| frame.base);
        registers
            .map(|register| thread.shadow_of((base + register) as usize))
            .collect()
    }

    pub(super) fn put_expressions(&mut self, first: Register, all: &[Option<Expression>]) {
        let thread = self.thread();
        let base = thread.frames.last().map_or(0, |frame| frame.base);
        for (register, expression) in (base + first..).zip(all) {
            if expression.is_some() {
                thread.put_shadow(register as usize, *expression);
            }
        }
    }

    pub(super) fn put_result(&mut self, site: &CallSite, expression: Option<Expression>) {
        if expression.is_some() && site.results == 1 {
            self.put_expressions(site.d, &[expression]);
        }
    }

    /// The function and the operation at which the running thread is.
    pub(crate) fn operation(&self) -> (u32, u32) {
        let frame = self.state.threads[self.state.current].frames.last();
        frame.map_or((0, 0), |frame| (frame.function, frame.pc))
    }

    /// Notes a condition that holds, or does not.
    pub(crate) fn note_condition(&mut self, expression: Expression, holds: bool, is_branch: bool) {
        let at = self.operation();
        if let Some(symbolic) = &mut self.symbolic {
            symbolic
                .path
                .add(Condition { expression, holds }, is_branch, at);
        }
    }

    /// Follows the address of an access: whether the access has to be followed at all.
    pub(super) fn follow_address(&mut self, op: Op, address: u64, bytes: u8) -> bool {
        let (Op::Load {
            address: register, ..
        }
        | Op::AtomicLoad {
            address: register, ..
        }
        | Op::Store {
            address: register, ..
        }
        | Op::AtomicStore {
            address: register, ..
        }
        | Op::Update {
            address: register, ..
        }
        | Op::CompareExchange {
            address: register, ..
        }) = op
        else {
            return false;
        };
        if self.symbolic.is_none() {
            return false;
        }
        let known = self.expressions_of(register..register + 1);
        if let Some(Some(expression)) = known.first().copied() {
            self.note_bounds(expression, address, bytes);
            let is_table = matches!(op, Op::Load { .. })
                && self.table_inputs(expression, address, bytes).is_some();
            if !is_table {
                self.note_value(expression, address, true);
            }
        }
        true
    }

    /// A path leads out of the object.
    fn note_bounds(&mut self, expression: Expression, address: u64, bytes: u8) {
        let object = object_of(address);
        let size = self
            .state
            .memory
            .object(object)
            .map_or(0, |object| object.size());
        let Some(symbolic) = &mut self.symbolic else {
            return;
        };
        let all = &mut symbolic.path.expressions;
        let (start, last) = (address_of(object), size.saturating_sub(bytes.into()));
        let (start, last) = (all.constant(start), all.constant(last));
        let offset = all.binary(Operator::Subtract, expression, start);
        let inside = all.binary(Operator::UnsignedLessOrEqual, offset, last);
        self.note_condition(inside, true, true);
    }

    /// The value has become a constant.
    pub(crate) fn note_value(&mut self, expression: Expression, value: u64, is_branch: bool) {
        let Some(symbolic) = &mut self.symbolic else {
            return;
        };
        let all = &mut symbolic.path.expressions;
        let value = all.constant(value);
        let equal = all.binary(Operator::Equal, expression, value);
        self.note_condition(equal, true, is_branch);
    }

    /// The byte by which a table that does not change is read.
    fn table_inputs(&self, expression: Expression, address: u64, bytes: u8) -> Option<u32> {
        let object = self.state.memory.object(object_of(address))?;
        let is_table = matches!(object.region, Region::Constant(_) | Region::Library)
            && object.size() <= TABLE
            && self
                .state
                .memory
                .shadow_of(address & !0xffff_ffff, TABLE * 4)
                .is_empty();
        let all = &self.symbolic.as_ref()?.path.expressions;
        match all.inputs(expression) {
            [input] if is_table && bytes <= 8 => Some(*input),
            _ => None,
        }
    }

    /// What a table gives for each value of the byte by which it is read.
    fn table_value(
        &mut self,
        expression: Expression,
        address: u64,
        bytes: u8,
    ) -> Option<Expression> {
        let input = self.table_inputs(expression, address, bytes)?;
        let memory = &self.state.memory;
        let all = &mut self.symbolic.as_mut()?.path.expressions;
        let mut given = vec![0; input as usize + 1];
        let byte = all.input(input);
        let mut result = None;
        for value in (0..=255).rev() {
            given[input as usize] = value;
            let Ok(found) = memory.load(all.value(expression, &given), bytes) else {
                continue;
            };
            let found = all.constant(found);
            result = Some(match result {
                None => found,
                Some(rest) => {
                    let value = all.constant(u64::from(value));
                    let equal = all.binary(Operator::Equal, byte, value);
                    all.choose(equal, found, rest)
                }
            });
        }
        result
    }

    /// Follows an access that was executed.
    pub(super) fn follow_access(&mut self, op: Op, address: u64, bytes: u8) {
        match op {
            Op::Load {
                d,
                address: register,
                ..
            } => {
                let known = self.expressions_of(register..register + 1);
                let result = match known.first().copied().flatten() {
                    Some(expression) => self.table_value(expression, address, bytes),
                    None => self.loaded(address, bytes),
                };
                self.put_expressions(d, &[result]);
            }
            Op::AtomicLoad { d, .. } => {
                let result = self.loaded(address, bytes);
                self.put_expressions(d, &[result]);
            }
            Op::Store { value, .. } | Op::AtomicStore { value, .. } => {
                let known = self.expressions_of(value..value + 1);
                if let Some(whole) = known.first().copied().flatten() {
                    let parts = (0..bytes).map(|at| {
                        (
                            u64::from(at),
                            Part {
                                whole,
                                at,
                                of: bytes,
                            },
                        )
                    });
                    let parts: Vec<(u64, Part)> = parts.collect();
                    self.state.memory.put_shadow(address, bytes.into(), &parts);
                }
            }
            // The new value was written as a constant; what the old one was is not known any more.
            Op::Update { value, .. } | Op::CompareExchange { new: value, .. } => {
                let known = self.expressions_of(value..value + 1);
                if known.first().copied().flatten().is_some()
                    && let Some(symbolic) = &mut self.symbolic
                {
                    symbolic
                        .path
                        .concretised
                        .insert("atomic updates".to_owned());
                }
            }
            _ => {}
        }
    }

    /// What memory holds as a function of the input.
    pub(crate) fn loaded(&mut self, address: u64, bytes: u8) -> Option<Expression> {
        let parts = self.state.memory.shadow_of(address, bytes.into());
        let (_, first) = *parts.first()?;
        let is_whole = parts.len() == bytes as usize
            && parts.iter().all(|(at, part)| {
                part.whole == first.whole && u64::from(part.at) == *at && part.of == bytes
            });
        let value = self.state.memory.load(address, bytes).ok()?;
        let all = &mut self.symbolic.as_mut()?.path.expressions;
        if is_whole {
            return Some(first.whole);
        }
        let mut result = all.constant(0);
        for at in (0..bytes).rev() {
            let part = parts.iter().find(|(part, _)| *part == u64::from(at));
            let byte = match part {
                Some((_, part)) => all.byte(part.whole, part.at),
                None => all.constant(value >> (8 * at) & 0xff),
            };
            let shift = all.constant(8 * u64::from(at));
            let shifted = all.binary(Operator::ShiftLeft, byte, shift);
            result = all.binary(Operator::Or, result, shifted);
        }
        Some(result)
    }

    /// A function of the program returned to the library, which looks whether the result is positive.
    pub(super) fn follow_sign(&mut self, expressions: &[Option<Expression>]) {
        let Some(Some(expression)) = expressions.first().copied() else {
            return;
        };
        let returned = self.state.threads[self.state.current].returned;
        let Some(symbolic) = &mut self.symbolic else {
            return;
        };
        let all = &mut symbolic.path.expressions;
        let expression = all.sign_extend(32, expression);
        let zero = all.constant(0);
        let positive = all.binary(Operator::SignedLess, zero, expression);
        let holds = returned as i32 > 0;
        self.note_condition(positive, holds, true);
    }

    /// The process ends with this status.
    pub(crate) fn follow_status(&mut self, expression: Option<Expression>) {
        if let (Some(symbolic), Some(expression)) = (&mut self.symbolic, expression) {
            symbolic.path.status = Some(symbolic.path.expressions.narrow(56, expression));
        }
    }
}
