//! Matching values against patterns.

use std::sync::Arc;

use super::machine::{Evaluator, Result};
use super::value::{Env, Slot, Value};
use crate::diagnostic::{Diagnostic, Stage};
use crate::resolve::DefId;
use crate::syntax::ast::*;

impl Evaluator {
    /// Binds the variables of a pattern to the parts of a value, if it matches. The value is
    /// only computed as far as the pattern looks.
    pub(super) fn bind(
        &mut self,
        pat: PatId,
        slot: &Slot,
        env: &Env,
        out: &mut Vec<(DefId, Slot)>,
    ) -> Result<bool> {
        match self.ast().pat(pat) {
            Pat::Wildcard => return Ok(true),
            Pat::Var(_) => {
                let def = self.resolved.pat(pat).expect("every pattern is resolved");
                if !self.resolved.is_constructor(def) {
                    out.push((def, slot.clone()));
                    return Ok(true);
                }
            }
            _ => {}
        }
        if let (Pat::Tuple(pats), Slot::Thunk(thunk)) = (self.ast().pat(pat).clone(), slot)
            && let Some(items) = self.open_tuple(*thunk)
        {
            for (&pat, item) in pats.iter().zip(items) {
                if !self.bind(pat, &Slot::Thunk(item), env, out)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        // A pattern of variables only always matches a tuple: the tuple is computed when one
        // of the variables is needed.
        if let Slot::Thunk(thunk) = slot
            && !self.is_done(*thunk)
            && let Some(variables) = self.irrefutable(pat)
        {
            out.extend(
                variables
                    .into_iter()
                    .map(|def| (def, Slot::Part(*thunk, pat))),
            );
            return Ok(true);
        }
        let value = match slot {
            Slot::Value(value) => value.clone(),
            Slot::Thunk(thunk) => self.force(*thunk)?,
            Slot::Definition | Slot::Part(..) => unreachable!("only values are matched"),
        };
        self.bind_value(pat, value, env, out)
    }

    /// The variables of a pattern that any value of its type matches; none for other patterns.
    fn irrefutable(&self, pat: PatId) -> Option<Vec<DefId>> {
        let mut variables = Vec::new();
        let mut left = vec![pat];
        while let Some(pat) = left.pop() {
            match self.ast().pat(pat) {
                Pat::Wildcard => {}
                Pat::Tuple(pats) => left.extend(pats.iter()),
                Pat::Var(_) => {
                    let def = self.resolved.pat(pat).expect("every pattern is resolved");
                    if self.resolved.is_constructor(def) {
                        return None;
                    }
                    variables.push(def);
                }
                _ => return None,
            }
        }
        Some(variables)
    }

    fn bind_value(
        &mut self,
        pat: PatId,
        value: Value,
        env: &Env,
        out: &mut Vec<(DefId, Slot)>,
    ) -> Result<bool> {
        let span = self.ast().pat_span(pat);
        match (self.ast().pat(pat).clone(), value) {
            (Pat::Int(a), Value::Int(b)) => Ok(a == b),
            (Pat::Bool(a), Value::Bool(b)) => Ok(a == b),
            (Pat::Char(a), Value::Char(b)) => Ok(a == b),
            (Pat::Var(_), value) => {
                let def = self.resolved.pat(pat).expect("every pattern is resolved");
                Ok(match value {
                    Value::Dot(items) => items.len() == 1 && items[0] == Value::Head(def),
                    _ => false,
                })
            }
            (Pat::Tuple(pats), Value::Tuple(items)) => {
                for (&pat, item) in pats.iter().zip(items.iter()) {
                    if !self.bind(pat, &Slot::Value(item.clone()), env, out)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Pat::Dot(pats), value) => {
                let items: Vec<Value> = match value {
                    Value::Dot(items) => items.to_vec(),
                    other => vec![other],
                };
                self.bind_dot(&pats, items, env, out)
            }
            (Pat::Set(pats), Value::Set(set)) => match pats.first() {
                None => self.is_empty(&set, span),
                Some(&pat) => {
                    if !self.is_finite(&set) {
                        return Ok(false);
                    }
                    let elements = self.elements(&set, span)?;
                    match <[Value; 1]>::try_from(elements) {
                        Ok([only]) => self.bind(pat, &Slot::Value(only), env, out),
                        Err(_) => Ok(false),
                    }
                }
            },
            (Pat::Seq(_) | Pat::Concat(..) | Pat::Str(_), Value::Seq(seq)) => {
                let parts = self.seq_parts(pat)?;
                let seq = match parts.middle {
                    None => self.seq_prefix(seq, parts.front.len() + 1)?,
                    Some(_) if parts.back.is_empty() => self.seq_prefix(seq, parts.front.len())?,
                    Some(_) => self.seq_full(seq, span)?,
                };
                let (front, back) = (parts.front.len(), parts.back.len());
                let known = seq.items().len();
                let fits = match parts.middle {
                    None => known == front && seq.rest.is_none(),
                    Some(_) => known >= front + back,
                };
                if !fits {
                    return Ok(false);
                }
                let items = seq.items().to_vec();
                for (part, item) in parts.front.iter().zip(&items) {
                    if !self.bind_part(part, item, env, out)? {
                        return Ok(false);
                    }
                }
                if let Some(middle) = parts.middle {
                    let rest = Value::Seq(seq.slice(front, back));
                    if !self.bind(middle, &Slot::Value(rest), env, out)? {
                        return Ok(false);
                    }
                }
                for (part, item) in parts.back.iter().zip(&items[known - back..]) {
                    if !self.bind_part(part, item, env, out)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Pat::Both(a, b), value) => {
                let slot = Slot::Value(value);
                Ok(self.bind(a, &slot, env, out)? && self.bind(b, &slot, env, out)?)
            }
            _ => Ok(false),
        }
    }

    fn bind_part(
        &mut self,
        part: &Part,
        item: &Value,
        env: &Env,
        out: &mut Vec<(DefId, Slot)>,
    ) -> Result<bool> {
        match part {
            Part::Pat(pat) => self.bind(*pat, &Slot::Value(item.clone()), env, out),
            Part::Char(character) => Ok(*item == Value::Char(*character)),
        }
    }

    /// A dotted pattern: a constructor opens the value it heads, any other pattern takes one
    /// part, and the last takes all that is left.
    fn bind_dot(
        &mut self,
        pats: &[PatId],
        items: Vec<Value>,
        env: &Env,
        out: &mut Vec<(DefId, Slot)>,
    ) -> Result<bool> {
        let mut items: std::collections::VecDeque<Value> = items.into();
        for (index, &pat) in pats.iter().enumerate() {
            if let Pat::Var(_) = self.ast().pat(pat)
                && let Some(def) = self.resolved.pat(pat)
                && self.resolved.is_constructor(def)
            {
                match items.pop_front() {
                    Some(Value::Head(head)) if head == def => {}
                    Some(Value::Dot(inner)) if inner[0] == Value::Head(def) => {
                        for part in inner[1..].iter().rev() {
                            items.push_front(part.clone());
                        }
                    }
                    _ => return Ok(false),
                }
                continue;
            }
            let value = match (index + 1 == pats.len(), items.len()) {
                (_, 0) => return Ok(false),
                (true, 2..) => {
                    let all: Vec<Value> = items.drain(..).collect();
                    Value::Dot(all.into())
                }
                _ => items.pop_front().expect("not empty"),
            };
            if !self.bind(pat, &Slot::Value(value), env, out)? {
                return Ok(false);
            }
        }
        Ok(items.is_empty())
    }

    fn seq_parts(&self, pat: PatId) -> Result<Parts> {
        let mut parts = Parts::default();
        let mut left = vec![pat];
        while let Some(pat) = left.pop() {
            let fixed: Vec<Part> = match self.ast().pat(pat) {
                Pat::Concat(a, b) => {
                    left.extend([*b, *a]);
                    continue;
                }
                Pat::Seq(pats) => pats.iter().map(|&pat| Part::Pat(pat)).collect(),
                Pat::Str(text) => text.chars().map(Part::Char).collect(),
                _ => {
                    if parts.middle.replace(pat).is_some() {
                        return Err(Box::new(
                            Diagnostic::new(
                                Stage::Evaluation,
                                self.ast().pat_span(pat),
                                "a sequence pattern can have one part of unknown length only",
                            )
                            .help("`xs^ys` does not say where `xs` ends; `<x>^xs^<y>` does"),
                        ));
                    }
                    continue;
                }
            };
            match parts.middle {
                None => parts.front.extend(fixed),
                Some(_) => parts.back.extend(fixed),
            }
        }
        Ok(parts)
    }
}

enum Part {
    Pat(PatId),
    Char(char),
}

/// A sequence pattern: fixed items, then perhaps any number of items, then fixed items.
#[derive(Default)]
struct Parts {
    front: Vec<Part>,
    middle: Option<PatId>,
    back: Vec<Part>,
}

/// A dot from its parts; one part is itself.
pub(super) fn dot_of(mut parts: Vec<Value>) -> Value {
    match parts.len() {
        1 => parts.remove(0),
        _ => Value::Dot(Arc::from(parts)),
    }
}
