//! Operators on values: arithmetic, comparison, concatenation.

use std::sync::Arc;

use super::machine::{Evaluator, Result, Thunk};
use super::set::Set;
use super::value::{Env, Seq, Slot, Value};
use crate::event::EventSet;
use crate::syntax::ast::*;
use crate::syntax::source::Span;

impl Evaluator {
    pub(super) fn binary(&mut self, id: ExprId, env: &Env) -> Result<Value> {
        let Expr::Binary(op, left, right) = *self.ast().expr(id) else {
            unreachable!("called for binary operators");
        };
        match op {
            BinaryOp::And | BinaryOp::Or => {
                // The left side is a chain; its right operands are looked at in order.
                let mut path = Vec::new();
                let mut first = id;
                while let Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) =
                    *self.ast().expr(first)
                {
                    path.push((op, right));
                    first = left;
                }
                let mut value = self.boolean(first, env)?;
                while let Some((op, right)) = path.pop() {
                    value = match (op, value) {
                        (BinaryOp::And, false) => false,
                        (BinaryOp::Or, true) => true,
                        _ => self.boolean(right, env)?,
                    };
                }
                Ok(Value::Bool(value))
            }
            BinaryOp::Plus
            | BinaryOp::Minus
            | BinaryOp::Times
            | BinaryOp::Divide
            | BinaryOp::Modulo => {
                let mut path = Vec::new();
                let mut first = id;
                while let Expr::Binary(
                    op @ (BinaryOp::Plus
                    | BinaryOp::Minus
                    | BinaryOp::Times
                    | BinaryOp::Divide
                    | BinaryOp::Modulo),
                    left,
                    right,
                ) = *self.ast().expr(first)
                {
                    path.push((op, right, first));
                    first = left;
                }
                let mut value = self.int(first, env)?;
                while let Some((op, right, whole)) = path.pop() {
                    let other = self.int(right, env)?;
                    value = match self.arithmetic(op, value, other, whole, right)? {
                        Value::Int(value) => value,
                        _ => unreachable!("arithmetic yields integers"),
                    };
                }
                Ok(Value::Int(value))
            }
            BinaryOp::Concat => {
                let mut parts = Vec::new();
                let mut first = id;
                while let Expr::Binary(BinaryOp::Concat, left, right) = *self.ast().expr(first) {
                    parts.push(right);
                    first = left;
                }
                let mut value = self.seq(first, env)?;
                while let Some(right) = parts.pop() {
                    value = self.concat(value, right, env)?;
                }
                Ok(Value::Seq(value))
            }
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let a = self.eval(left, env)?;
                let b = self.eval(right, env)?;
                let equal = self.equal(a, b, self.span(id))?;
                Ok(Value::Bool(equal == (op == BinaryOp::Equal)))
            }
            _ => {
                let a = self.eval(left, env)?;
                let b = self.eval(right, env)?;
                let order = self.compare(a, b, self.span(id))?;
                use std::cmp::Ordering::*;
                Ok(Value::Bool(match op {
                    BinaryOp::Less => order == Some(Less),
                    BinaryOp::LessEqual => matches!(order, Some(Less | Equal)),
                    BinaryOp::Greater => order == Some(Greater),
                    _ => matches!(order, Some(Greater | Equal)),
                }))
            }
        }
    }

    fn concat(&mut self, left: Seq, right: ExprId, env: &Env) -> Result<Seq> {
        // A right side that is at hand is taken at once, any other when it is needed.
        let value = match self.at_hand(right, env) {
            Some(Slot::Value(Value::Seq(seq))) if left.rest.is_none() => {
                let mut items = left.items().to_vec();
                items.extend(seq.items().iter().cloned());
                return Ok(Seq::with_rest(items, seq.rest));
            }
            Some(Slot::Thunk(thunk)) => self.append(left, thunk)?,
            _ => {
                let simple = matches!(self.ast().expr(right), Expr::Items(..) | Expr::Str(_));
                if simple && left.rest.is_none() {
                    let seq = self.seq(right, env)?;
                    let mut items = left.items().to_vec();
                    items.extend(seq.items().iter().cloned());
                    return Ok(Seq::with_rest(items, seq.rest));
                }
                let thunk = self.thunk(Thunk::Expr(right, env.clone()));
                self.append(left, thunk)?
            }
        };
        match value {
            Value::Seq(seq) => Ok(seq),
            _ => unreachable!("sequences concatenate to sequences"),
        }
    }

    pub(super) fn arithmetic(
        &self,
        op: BinaryOp,
        a: i64,
        b: i64,
        id: ExprId,
        right: ExprId,
    ) -> Result<Value> {
        if b == 0 && matches!(op, BinaryOp::Divide | BinaryOp::Modulo) {
            return self.error(self.span(right), "division by zero");
        }
        let value = match op {
            BinaryOp::Plus => a.checked_add(b),
            BinaryOp::Minus => a.checked_sub(b),
            BinaryOp::Times => a.checked_mul(b),
            // Rounded towards minus infinity, as FDR does.
            BinaryOp::Divide => {
                a.checked_div(b)
                    .map(|quotient| match a % b != 0 && (a < 0) != (b < 0) {
                        true => quotient - 1,
                        false => quotient,
                    })
            }
            _ => a
                .checked_rem(b)
                .map(|rest| match rest != 0 && (rest < 0) != (b < 0) {
                    true => rest + b,
                    false => rest,
                }),
        };
        self.number(value, id)
    }

    pub(super) fn equal(&mut self, a: Value, b: Value, span: Span) -> Result<bool> {
        let a = self.listed(a, span)?;
        let b = self.listed(b, span)?;
        Ok(a == b)
    }

    /// Canonical, and `Events` without some events listed too.
    fn listed(&mut self, value: Value, span: Span) -> Result<Value> {
        let value = self.canonical(value, span)?;
        Ok(match value {
            Value::Set(set) if matches!(*set, Set::Events(EventSet::AllBut(_))) => {
                let listed = Arc::new(Set::Explicit(self.elements(&set, span)?));
                Value::Set(self.canonical_set(&listed, span)?)
            }
            other => other,
        })
    }

    /// Numbers by size, sequences by prefix, sets by inclusion, tuples by their first
    /// difference; none if neither is less.
    fn compare(&mut self, a: Value, b: Value, span: Span) -> Result<Option<std::cmp::Ordering>> {
        use std::cmp::Ordering::*;
        let a = self.listed(a, span)?;
        let b = self.listed(b, span)?;
        Ok(match (&a, &b) {
            (Value::Seq(x), Value::Seq(y)) => {
                let (x, y) = (x.items(), y.items());
                match x.len().cmp(&y.len()) {
                    Equal if x == y => Some(Equal),
                    Less if y.starts_with(x) => Some(Less),
                    Greater if x.starts_with(y) => Some(Greater),
                    _ => None,
                }
            }
            (Value::Set(x), Value::Set(y)) => {
                match (self.is_subset(x, y, span)?, self.is_subset(y, x, span)?) {
                    (true, true) => Some(Equal),
                    (true, false) => Some(Less),
                    (false, true) => Some(Greater),
                    (false, false) => None,
                }
            }
            (Value::Tuple(x), Value::Tuple(y)) => {
                for (p, q) in x.iter().zip(y.iter()) {
                    match self.compare(p.clone(), q.clone(), span)? {
                        Some(Equal) => {}
                        other => return Ok(other),
                    }
                }
                Some(Equal)
            }
            _ => Some(a.cmp(&b)),
        })
    }

    // Functions
}
