//! What a value is as a function of the program's input: a graph of operations in which equal ones are one.
//!
//! Every value has 64 bits, as the registers of the interpreter do: a narrower integer is zero-extended, and
//! what narrows a result is an operation of its own. Simplifications are local: constants, and masks of
//! bits that are known to be zero.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

/// An operation of the graph. Its operands have smaller numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expression(pub(crate) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Constant(u64),
    /// A byte of the input.
    Input(u32),
    Binary(Operator, Expression, Expression),
    /// The low `64 - s` bits, sign-extended.
    SignExtend(u8, Expression),
    /// The second if the first is not zero, otherwise the third.
    Choose(Expression, Expression, Expression),
}

/// Comparisons are 1 or 0. Division by zero is 0; the interpreter ends a run before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    DivideUnsigned,
    DivideSigned,
    RemainderUnsigned,
    RemainderSigned,
    ShiftLeft,
    ShiftRightLogical,
    ShiftRightArithmetic,
    And,
    Or,
    Xor,
    Equal,
    UnsignedLess,
    UnsignedLessOrEqual,
    SignedLess,
    SignedLessOrEqual,
}

impl Operator {
    pub(crate) fn apply(self, a: u64, b: u64) -> u64 {
        let (signed_a, signed_b) = (a as i64, b as i64);
        match self {
            Operator::Add => a.wrapping_add(b),
            Operator::Subtract => a.wrapping_sub(b),
            Operator::Multiply => a.wrapping_mul(b),
            Operator::DivideUnsigned => a.checked_div(b).unwrap_or_default(),
            Operator::RemainderUnsigned => a.checked_rem(b).unwrap_or_default(),
            Operator::DivideSigned => signed_a.checked_div(signed_b).unwrap_or_default() as u64,
            Operator::RemainderSigned => signed_a.checked_rem(signed_b).unwrap_or_default() as u64,
            Operator::ShiftLeft => a.wrapping_shl(b as u32),
            Operator::ShiftRightLogical => a.wrapping_shr(b as u32),
            Operator::ShiftRightArithmetic => signed_a.wrapping_shr(b as u32) as u64,
            Operator::And => a & b,
            Operator::Or => a | b,
            Operator::Xor => a ^ b,
            Operator::Equal => u64::from(a == b),
            Operator::UnsignedLess => u64::from(a < b),
            Operator::UnsignedLessOrEqual => u64::from(a <= b),
            Operator::SignedLess => u64::from(signed_a < signed_b),
            Operator::SignedLessOrEqual => u64::from(signed_a <= signed_b),
        }
    }

    pub(crate) fn is_comparison(self) -> bool {
        match self {
            Operator::Equal
            | Operator::UnsignedLess
            | Operator::UnsignedLessOrEqual
            | Operator::SignedLess
            | Operator::SignedLessOrEqual => true,
            Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::DivideUnsigned
            | Operator::DivideSigned
            | Operator::RemainderUnsigned
            | Operator::RemainderSigned
            | Operator::ShiftLeft
            | Operator::ShiftRightLogical
            | Operator::ShiftRightArithmetic
            | Operator::And
            | Operator::Or
            | Operator::Xor => false,
        }
    }
}

pub(crate) fn sign_extend(s: u8, value: u64) -> u64 {
    (((value << s) as i64) >> s) as u64
}

/// All expressions of a run.
#[derive(Clone, Debug, Default)]
pub struct Expressions {
    nodes: Vec<Node>,
    /// For each node, how many low bits can be other than zero.
    bits: Vec<u8>,
    /// For each node, the bytes of the input that it depends on, ascending.
    inputs: Vec<Rc<[u32]>>,
    known: FxHashMap<Node, Expression>,
}

impl Expressions {
    pub(crate) fn node(&self, expression: Expression) -> Node {
        self.nodes[expression.0 as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn constant(&mut self, value: u64) -> Expression {
        self.add(Node::Constant(value))
    }

    pub(crate) fn input(&mut self, byte: u32) -> Expression {
        self.add(Node::Input(byte))
    }

    fn as_constant(&self, expression: Expression) -> Option<u64> {
        match self.node(expression) {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn bits(&self, expression: Expression) -> u8 {
        self.bits[expression.0 as usize]
    }

    pub(crate) fn binary(
        &mut self,
        operator: Operator,
        a: Expression,
        b: Expression,
    ) -> Expression {
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(a), Some(b)) => return self.constant(operator.apply(a, b)),
            (_, Some(0))
                if matches!(
                    operator,
                    Operator::Add
                        | Operator::Subtract
                        | Operator::Or
                        | Operator::Xor
                        | Operator::ShiftLeft
                        | Operator::ShiftRightLogical
                        | Operator::ShiftRightArithmetic
                ) =>
            {
                return a;
            }
            (Some(0), _) if matches!(operator, Operator::Add | Operator::Or | Operator::Xor) => {
                return b;
            }
            (_, Some(1)) if operator == Operator::Multiply => return a,
            (_, Some(mask)) if operator == Operator::And => {
                let bits = self.bits(a);
                let all = u64::MAX.checked_shr(64 - u32::from(bits)).unwrap_or(0);
                if mask & all == all {
                    return a;
                }
            }
            _ => {}
        }
        if operator == Operator::Equal && a == b {
            return self.constant(1);
        }
        self.add(Node::Binary(operator, a, b))
    }

    /// The low `64 - s` bits.
    pub(crate) fn narrow(&mut self, s: u8, a: Expression) -> Expression {
        if s == 0 {
            return a;
        }
        let mask = self.constant(u64::MAX >> s);
        self.binary(Operator::And, a, mask)
    }

    pub(crate) fn sign_extend(&mut self, s: u8, a: Expression) -> Expression {
        if let Some(value) = self.as_constant(a) {
            return self.constant(sign_extend(s, value));
        }
        match s == 0 || self.bits(a) < 64 - s {
            true => a,
            false => self.add(Node::SignExtend(s, a)),
        }
    }

    pub(crate) fn choose(&mut self, c: Expression, a: Expression, b: Expression) -> Expression {
        match self.as_constant(c) {
            _ if a == b => a,
            Some(0) => b,
            Some(_) => a,
            None => self.add(Node::Choose(c, a, b)),
        }
    }

    /// One byte of a value, counted from the lowest.
    pub(crate) fn byte(&mut self, a: Expression, at: u8) -> Expression {
        let shift = self.constant(8 * u64::from(at));
        let shifted = self.binary(Operator::ShiftRightLogical, a, shift);
        self.narrow(56, shifted)
    }

    fn add(&mut self, node: Node) -> Expression {
        if let Some(&known) = self.known.get(&node) {
            return known;
        }
        let expression = Expression(self.nodes.len() as u32);
        self.bits.push(self.bits_of(node));
        self.inputs.push(self.inputs_of(node));
        self.nodes.push(node);
        self.known.insert(node, expression);
        expression
    }

    fn bits_of(&self, node: Node) -> u8 {
        let length = |value: u64| (64 - value.leading_zeros()) as u8;
        match node {
            Node::Constant(value) => length(value),
            Node::Input(_) => 8,
            Node::Binary(operator, _, _) if operator.is_comparison() => 1,
            Node::Binary(operator, a, b) => {
                let (bits_a, bits_b) = (self.bits(a), self.bits(b));
                match (operator, self.as_constant(b)) {
                    (Operator::And, _) => bits_a.min(bits_b),
                    (Operator::Or | Operator::Xor, _) => bits_a.max(bits_b),
                    (Operator::Add, _) => 64.min(bits_a.max(bits_b) + 1),
                    (Operator::Multiply, _) => 64.min(bits_a + bits_b),
                    (Operator::ShiftLeft, Some(shift)) if shift < 64 => {
                        64.min(bits_a + shift as u8)
                    }
                    (Operator::ShiftRightLogical, Some(shift)) if shift < 64 => {
                        bits_a.saturating_sub(shift as u8)
                    }
                    (Operator::DivideUnsigned | Operator::RemainderUnsigned, _) => bits_a,
                    _ => 64,
                }
            }
            Node::SignExtend(..) => 64,
            Node::Choose(_, a, b) => self.bits(a).max(self.bits(b)),
        }
    }

    /// The nodes that an expression is made of, itself last.
    pub(crate) fn parts(&self, of: &[Expression]) -> Vec<Expression> {
        let mut seen = vec![false; self.nodes.len()];
        let mut open: Vec<Expression> = of.to_vec();
        while let Some(next) = open.pop() {
            if std::mem::replace(&mut seen[next.0 as usize], true) {
                continue;
            }
            match self.node(next) {
                Node::Constant(_) | Node::Input(_) => {}
                Node::Binary(_, a, b) => open.extend([a, b]),
                Node::SignExtend(_, a) => open.push(a),
                Node::Choose(c, a, b) => open.extend([c, a, b]),
            }
        }
        let all = (0..).zip(seen).filter(|(_, seen)| *seen);
        all.map(|(number, _)| Expression(number)).collect()
    }

    /// Expressions of another run, as expressions of this one.
    pub fn import(&mut self, other: &Expressions, of: &[Expression]) -> Vec<Expression> {
        let mut moved: FxHashMap<Expression, Expression> = FxHashMap::default();
        for part in other.parts(of) {
            let new = |of: Expression| moved[&of];
            let node = match other.node(part) {
                node @ (Node::Constant(_) | Node::Input(_)) => node,
                Node::Binary(operator, a, b) => Node::Binary(operator, new(a), new(b)),
                Node::SignExtend(s, a) => Node::SignExtend(s, new(a)),
                Node::Choose(c, a, b) => Node::Choose(new(c), new(a), new(b)),
            };
            let node = self.add(node);
            moved.insert(part, node);
        }
        of.iter().map(|one| moved[one]).collect()
    }

    /// Whether the two expressions of each pair are equal, for all pairs.
    pub fn all_equal(&mut self, pairs: &[(Expression, Expression)]) -> Expression {
        let mut result = self.constant(1);
        for &(one, other) in pairs {
            let equal = self.binary(Operator::Equal, one, other);
            result = self.binary(Operator::And, result, equal);
        }
        result
    }

    /// The bytes of the input that an expression depends on, ascending.
    #[must_use]
    pub fn inputs(&self, of: Expression) -> &[u32] {
        &self.inputs[of.0 as usize]
    }

    fn inputs_of(&self, node: Node) -> Rc<[u32]> {
        let inputs = |of: Expression| Rc::clone(&self.inputs[of.0 as usize]);
        let both = |a: Rc<[u32]>, b: Rc<[u32]>| -> Rc<[u32]> {
            if a == b || b.is_empty() {
                return a;
            }
            let all: BTreeSet<u32> = a.iter().chain(b.iter()).copied().collect();
            all.into_iter().collect()
        };
        match node {
            Node::Constant(_) => Rc::from([]),
            Node::Input(byte) => Rc::from([byte]),
            Node::Binary(_, a, b) => both(inputs(a), inputs(b)),
            Node::SignExtend(_, a) => inputs(a),
            Node::Choose(c, a, b) => both(both(inputs(c), inputs(a)), inputs(b)),
        }
    }

    /// The value of an expression for an input.
    #[must_use]
    pub fn value(&self, of: Expression, input: &[u8]) -> u64 {
        let parts = self.parts(&[of]);
        let mut values = vec![0; self.nodes.len()];
        self.evaluate(&parts, input, &mut values);
        values[of.0 as usize]
    }

    /// Fills in the values of `parts`, which stand in ascending order.
    pub(crate) fn evaluate(&self, parts: &[Expression], input: &[u8], values: &mut [u64]) {
        for &part in parts {
            let value = |of: Expression| values[of.0 as usize];
            values[part.0 as usize] = match self.node(part) {
                Node::Constant(constant) => constant,
                Node::Input(byte) => input.get(byte as usize).copied().unwrap_or_default().into(),
                Node::Binary(operator, a, b) => operator.apply(value(a), value(b)),
                Node::SignExtend(s, a) => sign_extend(s, value(a)),
                Node::Choose(c, a, b) => match value(c) {
                    0 => value(b),
                    _ => value(a),
                },
            };
        }
    }
}
