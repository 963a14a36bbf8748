//! Sequences that are computed as far as they are needed, and values in their final form.

use super::machine::{Evaluator, Result};
use super::set::{MAX_LISTED_EVENTS, Set};
use super::value::{Seq, Value};
use crate::event::EventSet;
use crate::syntax::source::Span;

impl Evaluator {
    /// At least `count` items known, unless the sequence is shorter.
    pub(super) fn seq_prefix(&mut self, mut seq: Seq, count: usize) -> Result<Seq> {
        while seq.items().len() < count {
            let Some(rest) = seq.rest else {
                return Ok(seq);
            };
            let Value::Seq(more) = self.force(rest)? else {
                unreachable!("the rest of a sequence is a sequence");
            };
            let mut items = seq.items().to_vec();
            items.extend(more.items().iter().cloned());
            seq = Seq::with_rest(items, more.rest);
        }
        Ok(seq)
    }

    /// All items.
    pub(super) fn seq_full(&mut self, seq: Seq, span: Span) -> Result<Seq> {
        let Some(mut rest) = seq.rest else {
            return Ok(seq);
        };
        let mut items = seq.items().to_vec();
        loop {
            let Value::Seq(more) = self.force(rest)? else {
                unreachable!("the rest of a sequence is a sequence");
            };
            items.extend(more.items().iter().cloned());
            if items.len() > self.limits.elements {
                return Err(self.spent(
                    span,
                    format!("this sequence has more than {} items", self.limits.elements),
                    "is it infinite? Only its beginning can be used, with head, tail or patterns",
                ));
            }
            match more.rest {
                Some(next) => rest = next,
                None => return Ok(Seq::new(items)),
            }
        }
    }

    /// The value with all its sequences computed and its finite sets listed, as it must be to
    /// be compared, to be in a set or to be the argument of a process.
    pub(super) fn canonical(&mut self, value: Value, span: Span) -> Result<Value> {
        Ok(match value {
            Value::Seq(seq) => {
                let seq = self.seq_full(seq, span)?;
                if seq.items().iter().all(is_canonical) {
                    return Ok(Value::Seq(seq));
                }
                let mut items = Vec::with_capacity(seq.items().len());
                for item in seq.items() {
                    items.push(self.canonical(item.clone(), span)?);
                }
                Value::Seq(Seq::new(items))
            }
            Value::Set(set) => Value::Set(self.canonical_set(&set, span)?),
            Value::Tuple(items) if !items.iter().all(is_canonical) => {
                let mut all = Vec::with_capacity(items.len());
                for item in items.iter() {
                    all.push(self.canonical(item.clone(), span)?);
                }
                Value::Tuple(all.into())
            }
            Value::Dot(items) if !items.iter().all(is_canonical) => {
                let mut all = Vec::with_capacity(items.len());
                for item in items.iter() {
                    all.push(self.canonical(item.clone(), span)?);
                }
                Value::Dot(all.into())
            }
            other => other,
        })
    }
}

/// Whether a value has no lazy sequence or symbolic set in it.
pub(super) fn is_canonical(value: &Value) -> bool {
    match value {
        Value::Seq(seq) => seq.rest.is_none() && seq.items().iter().all(is_canonical),
        Value::Set(set) => match &**set {
            // Larger sets may be sets of events.
            Set::Explicit(elements) => {
                elements.len() <= MAX_LISTED_EVENTS || !matches!(elements[0], Value::Dot(_))
            }
            Set::Events(EventSet::Only(members)) => members.len() > MAX_LISTED_EVENTS,
            Set::Events(EventSet::AllBut(_)) => true,
            _ => false,
        },
        Value::Tuple(items) | Value::Dot(items) => items.iter().all(is_canonical),
        _ => true,
    }
}
