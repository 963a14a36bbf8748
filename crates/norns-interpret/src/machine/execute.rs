//! The loop that executes operations.

use norns_ir::{AtomicUpdate, BinaryOperator, Predicate};

use super::symbolic::{Shadow, follow};
use super::{Machine, Pause, Stop, give_up};
use crate::memory::{Region, address_of};
use crate::op::{FloatOperator, Op};
use crate::outcome::End;

/// Why the inner loop was left. The program counter stands on the operation.
enum Leave {
    Slice,
    Call(u32),
    Return {
        first: u32,
        count: u32,
    },
    /// An operation that needs more than the registers and memory.
    Special(Op),
    Fault(Stop),
}

fn is_true(value: bool) -> u64 {
    u64::from(value)
}

/// The low `64 - s` bits, sign-extended.
fn signed(value: u64, s: u8) -> i64 {
    ((value << s) as i64) >> s
}

fn narrow(value: u64, s: u8) -> u64 {
    (value << s) >> s
}

impl Machine<'_> {
    /// Runs the current thread for at most `slice` operations.
    pub(super) fn run(&mut self, slice: u64) -> Result<Pause, Stop> {
        match (self.watches, self.symbolic.is_some()) {
            (_, true) => self.execute::<true, true>(slice),
            (true, false) => self.execute::<true, false>(slice),
            (false, false) => self.execute::<false, false>(slice),
        }
    }

    #[allow(clippy::too_many_lines)] // One arm an operation.
    fn execute<const WATCH: bool, const FOLLOW: bool>(
        &mut self,
        slice: u64,
    ) -> Result<Pause, Stop> {
        let code = self.code;
        let end = slice.min(self.how.limits.steps.saturating_sub(self.state.steps));
        if end == 0 {
            return Err(Box::new(End::OutOfSteps));
        }
        let mut left = end;
        loop {
            let memory = &mut self.state.memory;
            let thread = &mut self.state.threads[self.state.current];
            let Some(frame) = thread.frames.last_mut() else {
                return Ok(Pause::Blocked);
            };
            let function = &code.functions[frame.function as usize];
            let ops = &function.ops[..];
            let base = frame.base as usize;
            let registers = &mut thread.registers[base..base + function.template.len()];
            let mut pc = frame.pc as usize;
            let started = left;
            macro_rules! r {
                ($register:expr) => {
                    registers[*$register as usize]
                };
            }
            let leave = loop {
                if left == 0 {
                    break Leave::Slice;
                }
                left -= 1;
                if FOLLOW && let Some(symbolic) = &mut self.symbolic {
                    let shadow = Shadow {
                        base,
                        registers,
                        expressions: &mut thread.shadow,
                    };
                    follow(
                        symbolic,
                        function,
                        &ops[pc],
                        shadow,
                        (frame.function, pc as u32),
                    );
                }
                match &ops[pc] {
                    Op::Add { s, d, a, b } => r!(d) = narrow(r!(a).wrapping_add(r!(b)), *s),
                    Op::Subtract { s, d, a, b } => r!(d) = narrow(r!(a).wrapping_sub(r!(b)), *s),
                    Op::Multiply { s, d, a, b } => r!(d) = narrow(r!(a).wrapping_mul(r!(b)), *s),
                    Op::DivideUnsigned { d, a, b } => match r!(a).checked_div(r!(b)) {
                        Some(quotient) => r!(d) = quotient,
                        None => break Leave::Fault(Box::new(End::Signal(8))),
                    },
                    Op::RemainderUnsigned { d, a, b } => match r!(a).checked_rem(r!(b)) {
                        Some(rest) => r!(d) = rest,
                        None => break Leave::Fault(Box::new(End::Signal(8))),
                    },
                    Op::DivideSigned { s, d, a, b } => {
                        match signed(r!(a), *s).checked_div(signed(r!(b), *s)) {
                            Some(quotient) => r!(d) = narrow(quotient as u64, *s),
                            None => break Leave::Fault(Box::new(End::Signal(8))),
                        }
                    }
                    Op::RemainderSigned { s, d, a, b } => {
                        match signed(r!(a), *s).checked_rem(signed(r!(b), *s)) {
                            Some(rest) => r!(d) = narrow(rest as u64, *s),
                            None => break Leave::Fault(Box::new(End::Signal(8))),
                        }
                    }
                    Op::ShiftLeft { s, d, a, b } => {
                        r!(d) = narrow(r!(a).wrapping_shl(r!(b) as u32), *s);
                    }
                    Op::ShiftRightLogical { d, a, b } => {
                        r!(d) = r!(a).wrapping_shr(r!(b) as u32);
                    }
                    Op::ShiftRightArithmetic { s, d, a, b } => {
                        r!(d) = narrow(signed(r!(a), *s).wrapping_shr(r!(b) as u32) as u64, *s);
                    }
                    Op::And { d, a, b } => r!(d) = r!(a) & r!(b),
                    Op::Or { d, a, b } => r!(d) = r!(a) | r!(b),
                    Op::Xor { d, a, b } => r!(d) = r!(a) ^ r!(b),
                    Op::Float {
                        operator,
                        is_double,
                        d,
                        a,
                        b,
                    } => {
                        r!(d) = float(*operator, *is_double, r!(a), r!(b));
                    }
                    Op::Negate { is_double, d, a } => {
                        r!(d) = r!(a) ^ if *is_double { 1 << 63 } else { 1 << 31 };
                    }
                    Op::Equal { d, a, b } => r!(d) = is_true(r!(a) == r!(b)),
                    Op::NotEqual { d, a, b } => r!(d) = is_true(r!(a) != r!(b)),
                    Op::UnsignedLess { d, a, b } => r!(d) = is_true(r!(a) < r!(b)),
                    Op::UnsignedLessOrEqual { d, a, b } => r!(d) = is_true(r!(a) <= r!(b)),
                    Op::SignedLess { s, d, a, b } => {
                        r!(d) = is_true(signed(r!(a), *s) < signed(r!(b), *s));
                    }
                    Op::SignedLessOrEqual { s, d, a, b } => {
                        r!(d) = is_true(signed(r!(a), *s) <= signed(r!(b), *s));
                    }
                    Op::CompareFloats {
                        predicate,
                        is_double,
                        d,
                        a,
                        b,
                    } => {
                        r!(d) = compare_floats(*predicate, *is_double, r!(a), r!(b));
                    }
                    Op::Select { d, condition, a, b } => {
                        r!(d) = if r!(condition) & 1 == 1 { r!(a) } else { r!(b) };
                    }
                    Op::Move { d, a } => r!(d) = r!(a),
                    Op::Truncate { s, d, a } => r!(d) = narrow(r!(a), *s),
                    Op::SignExtend { from, to, d, a } => {
                        r!(d) = narrow(signed(r!(a), *from) as u64, *to);
                    }
                    Op::ToFloat {
                        is_signed,
                        s,
                        is_double,
                        d,
                        a,
                    } => {
                        r!(d) = match (is_signed, is_double) {
                            (true, true) => (signed(r!(a), *s) as f64).to_bits(),
                            (false, true) => (r!(a) as f64).to_bits(),
                            (true, false) => (signed(r!(a), *s) as f32).to_bits().into(),
                            (false, false) => (r!(a) as f32).to_bits().into(),
                        };
                    }
                    Op::FromFloat {
                        is_signed,
                        s,
                        is_double,
                        d,
                        a,
                    } => {
                        let value = match is_double {
                            true => f64::from_bits(r!(a)),
                            false => f32::from_bits(r!(a) as u32).into(),
                        };
                        let number = match is_signed {
                            true => value as i64 as u64,
                            false => value as u64,
                        };
                        r!(d) = narrow(number, *s);
                    }
                    Op::FloatExtend { d, a } => {
                        r!(d) = f64::from(f32::from_bits(r!(a) as u32)).to_bits();
                    }
                    Op::FloatTruncate { d, a } => {
                        r!(d) = (f64::from_bits(r!(a)) as f32).to_bits().into();
                    }
                    Op::Address {
                        s,
                        d,
                        base,
                        index,
                        scale,
                    } => {
                        let step = signed(r!(index), *s).wrapping_mul(i64::from(*scale));
                        r!(d) = r!(base).wrapping_add(step as u64);
                    }
                    Op::Load {
                        bytes,
                        is_strict,
                        d,
                        address,
                    } if !WATCH => {
                        let loaded = match is_strict {
                            false => memory.load(r!(address), *bytes),
                            true => memory.load_strict(r!(address), *bytes),
                        };
                        match loaded {
                            Ok(value) => r!(d) = value,
                            Err(error) => break Leave::Fault(error.into()),
                        }
                    }
                    Op::Store {
                        bytes,
                        address,
                        value,
                    } if !WATCH => {
                        if let Err(error) = memory.store(r!(address), *bytes, r!(value)) {
                            break Leave::Fault(error.into());
                        }
                    }
                    Op::Jump(target) => {
                        pc = *target as usize;
                        continue;
                    }
                    Op::Branch {
                        condition,
                        then,
                        otherwise,
                    } => {
                        pc = match r!(condition) & 1 {
                            0 => *otherwise as usize,
                            _ => *then as usize,
                        };
                        continue;
                    }
                    Op::Switch { value, table } => {
                        let table = &function.switches[*table as usize];
                        let value = r!(value);
                        pc = match table.cases.binary_search_by_key(&value, |case| case.0) {
                            Ok(found) => table.cases[found].1 as usize,
                            Err(_) => table.default as usize,
                        };
                        continue;
                    }
                    Op::Call { call } => break Leave::Call(*call),
                    Op::Return { first, count } => {
                        break Leave::Return {
                            first: *first,
                            count: *count,
                        };
                    }
                    op @ (Op::Load { .. }
                    | Op::Store { .. }
                    | Op::Wide { .. }
                    | Op::CompareWide { .. }
                    | Op::ThreadLocal { .. }
                    | Op::Allocate { .. }
                    | Op::Copy { .. }
                    | Op::AtomicLoad { .. }
                    | Op::AtomicStore { .. }
                    | Op::Update { .. }
                    | Op::CompareExchange { .. }
                    | Op::Fence(_)
                    | Op::LandingPad { .. }
                    | Op::Resume { .. }
                    | Op::GiveUp(_)
                    | Op::Unreachable) => break Leave::Special(*op),
                }
                pc += 1;
            };
            frame.pc = pc as u32;
            self.state.steps += started - left;
            let pause = match leave {
                Leave::Slice => return Ok(Pause::Yield),
                Leave::Fault(stop) => return Err(stop),
                Leave::Call(call) => self.call(call)?,
                Leave::Return { first, count } => self.return_from(first, count)?,
                Leave::Special(op) => self.special(op)?,
            };
            if let Some(pause) = pause {
                return Ok(pause);
            }
        }
    }

    /// Executes an operation that is not one of registers alone.
    fn special(&mut self, op: Op) -> Result<Option<Pause>, Stop> {
        match op {
            Op::ThreadLocal { d, global } => {
                let address = self.thread_local(global.index() as u32)?;
                self.set(d, address);
            }
            Op::Allocate { d, count, size } => {
                let bytes = self.get(count).saturating_mul(u64::from(size));
                if bytes > 8 << 20 {
                    // The stack of a thread has 8 MB.
                    return Err(Box::new(End::Signal(11)));
                }
                let region = Region::Stack(self.state.current as u32);
                let object = self.state.memory.allocate(bytes, region, false);
                let thread = self.thread();
                thread.stack.push(object);
                if thread.stack.len() > 4_000_000 {
                    return Err(Box::new(End::Signal(11)));
                }
                self.set(d, address_of(object));
            }
            Op::Copy { to, from, bytes } => {
                self.drain_buffer(self.state.current)?;
                let (to, from) = (self.get(to), self.get(from));
                self.state.memory.copy(to, from, u64::from(bytes))?;
            }
            Op::LandingPad { d } => {
                let (exception, selector) = self.thread().thrown;
                self.set(d, exception);
                self.set(d + 1, selector);
            }
            Op::Resume { exception } => {
                let exception = self.get(exception);
                self.leave_frame();
                self.unwind(exception)?;
                return Ok(None);
            }
            Op::GiveUp(reason) => {
                let code = self.code;
                let frame = self
                    .thread()
                    .frames
                    .last()
                    .expect("an operation was executed");
                let function = &code.functions[frame.function as usize];
                return give_up(function.reasons[reason as usize].clone());
            }
            Op::Wide { operator, d, a, b } => {
                let Some(result) = wide(operator, self.get_wide(a), self.get_wide(b)) else {
                    return Err(Box::new(End::Signal(8)));
                };
                self.set(d, result as u64);
                self.set(d + 1, (result >> 64) as u64);
            }
            Op::CompareWide { predicate, d, a, b } => {
                let holds = compare_wide(predicate, self.get_wide(a), self.get_wide(b));
                self.set(d, is_true(holds));
            }
            Op::Unreachable => return give_up("code that the compiler calls unreachable"),
            _ => return self.access(op),
        }
        self.advance_pc();
        Ok(None)
    }

    pub(super) fn advance_pc(&mut self) {
        if let Some(frame) = self.thread().frames.last_mut() {
            frame.pc += 1;
        }
    }

    fn get_wide(&self, register: u32) -> u128 {
        u128::from(self.get(register)) | u128::from(self.get(register + 1)) << 64
    }

    pub(super) fn get(&self, register: u32) -> u64 {
        let thread = &self.state.threads[self.state.current];
        let base = thread.frames.last().map_or(0, |frame| frame.base);
        thread.registers[(base + register) as usize]
    }

    pub(super) fn set(&mut self, register: u32, value: u64) {
        let thread = &mut self.state.threads[self.state.current];
        let base = thread.frames.last().map_or(0, |frame| frame.base);
        thread.registers[(base + register) as usize] = value;
        if !thread.shadow.is_empty() {
            thread.put_shadow((base + register) as usize, None);
        }
    }
}

/// `None` for a division that has no result.
fn wide(operator: BinaryOperator, a: u128, b: u128) -> Option<u128> {
    Some(match operator {
        BinaryOperator::Add => a.wrapping_add(b),
        BinaryOperator::Subtract => a.wrapping_sub(b),
        BinaryOperator::Multiply => a.wrapping_mul(b),
        BinaryOperator::DivideUnsigned => a.checked_div(b)?,
        BinaryOperator::RemainderUnsigned => a.checked_rem(b)?,
        BinaryOperator::DivideSigned => (a as i128).checked_div(b as i128)? as u128,
        BinaryOperator::RemainderSigned => (a as i128).checked_rem(b as i128)? as u128,
        BinaryOperator::ShiftLeft => a.wrapping_shl(b as u32),
        BinaryOperator::ShiftRightLogical => a.wrapping_shr(b as u32),
        BinaryOperator::ShiftRightArithmetic => (a as i128).wrapping_shr(b as u32) as u128,
        BinaryOperator::And => a & b,
        BinaryOperator::Or => a | b,
        BinaryOperator::Xor => a ^ b,
        BinaryOperator::AddFloat
        | BinaryOperator::SubtractFloat
        | BinaryOperator::MultiplyFloat
        | BinaryOperator::DivideFloat
        | BinaryOperator::RemainderFloat => return None,
    })
}

fn compare_wide(predicate: Predicate, a: u128, b: u128) -> bool {
    let (signed_a, signed_b) = (a as i128, b as i128);
    match predicate {
        Predicate::Equal => a == b,
        Predicate::NotEqual => a != b,
        Predicate::UnsignedLess => a < b,
        Predicate::UnsignedLessOrEqual => a <= b,
        Predicate::UnsignedGreater => a > b,
        Predicate::UnsignedGreaterOrEqual => a >= b,
        Predicate::SignedLess => signed_a < signed_b,
        Predicate::SignedLessOrEqual => signed_a <= signed_b,
        Predicate::SignedGreater => signed_a > signed_b,
        Predicate::SignedGreaterOrEqual => signed_a >= signed_b,
        Predicate::Float(_) => false,
    }
}

fn float(operator: FloatOperator, is_double: bool, a: u64, b: u64) -> u64 {
    if is_double {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        let result = match operator {
            FloatOperator::Add => a + b,
            FloatOperator::Subtract => a - b,
            FloatOperator::Multiply => a * b,
            FloatOperator::Divide => a / b,
            FloatOperator::Remainder => a % b,
        };
        return result.to_bits();
    }
    let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
    let result = match operator {
        FloatOperator::Add => a + b,
        FloatOperator::Subtract => a - b,
        FloatOperator::Multiply => a * b,
        FloatOperator::Divide => a / b,
        FloatOperator::Remainder => a % b,
    };
    result.to_bits().into()
}

fn compare_floats(predicate: u8, is_double: bool, a: u64, b: u64) -> u64 {
    let (a, b) = match is_double {
        true => (f64::from_bits(a), f64::from_bits(b)),
        false => (
            f32::from_bits(a as u32).into(),
            f32::from_bits(b as u32).into(),
        ),
    };
    let bit = match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Equal) => 1,
        Some(std::cmp::Ordering::Greater) => 2,
        Some(std::cmp::Ordering::Less) => 4,
        None => 8,
    };
    is_true(predicate & bit != 0)
}

/// What an atomic update stores; `None` for a rare one.
pub(super) fn updated(update: AtomicUpdate, old: u64, value: u64, bytes: u8) -> Option<u64> {
    let s = 64 - 8 * bytes;
    let (old_signed, value_signed) = (signed(old, s), signed(value, s));
    let new = match update {
        AtomicUpdate::Exchange => value,
        AtomicUpdate::Add => old.wrapping_add(value),
        AtomicUpdate::Subtract => old.wrapping_sub(value),
        AtomicUpdate::And => old & value,
        AtomicUpdate::Nand => !(old & value),
        AtomicUpdate::Or => old | value,
        AtomicUpdate::Xor => old ^ value,
        AtomicUpdate::MaximumSigned => old_signed.max(value_signed) as u64,
        AtomicUpdate::MinimumSigned => old_signed.min(value_signed) as u64,
        AtomicUpdate::MaximumUnsigned => old.max(value),
        AtomicUpdate::MinimumUnsigned => old.min(value),
        AtomicUpdate::Other(_) => return None,
    };
    Some(narrow(new, s))
}
