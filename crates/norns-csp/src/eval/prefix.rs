//! Prefixes: `c.x!y?z:S$w -> P`.

use super::machine::{CallKey, Evaluator, Result};
use super::timed::Clock;
use super::value::{Env, Slot, Value, frame};
use crate::event::EventId;
use crate::process::ProcId;
use crate::resolve::DefId;
use crate::syntax::ast::*;
use crate::syntax::source::Span;

/// A prefix whose fields are being read.
struct Reading<'a> {
    fields: &'a [Field],
    body: ExprId,
    span: Span,
    clock: Option<Clock>,
    /// The body is a call or a chain that ends in one: evaluated at once, not as a call.
    simple: bool,
}

impl Evaluator {
    /// A prefix without inputs is one event; its value is returned too.
    pub(super) fn output_event(
        &mut self,
        event: ExprId,
        fields: &[Field],
        env: &Env,
    ) -> Result<(EventId, Value)> {
        let mut span = self.span(event);
        let mut value = self.eval(event, env)?;
        for field in fields {
            let Field::Output(output) = field else {
                unreachable!("called for prefixes without inputs");
            };
            span = span.to(self.span(*output));
            let part = self.eval(*output, env)?;
            value = self.combine(value, part, span)?;
        }
        Ok((self.event(&value, span)?, value))
    }

    /// `clock` is that of the timed section around the prefix, if there is one.
    pub(super) fn input_prefix(
        &mut self,
        event: ExprId,
        fields: &[Field],
        body: ExprId,
        env: &Env,
        clock: Option<Clock>,
    ) -> Result<ProcId> {
        let mut span = self.span(event);
        for field in fields {
            span = span.to(match field {
                Field::Output(value) => self.span(*value),
                Field::Input(pat, _) | Field::Nondeterministic(pat, _) => self.ast().pat_span(*pat),
            });
        }
        let reading = Reading {
            fields,
            body,
            span,
            clock,
            simple: self.is_simple(body),
        };
        let base = self.eval(event, env)?;
        let mut choices = Vec::new();
        self.read(&reading, 0, base, env, &mut choices)?;
        Ok(self.processes.external_choice(choices))
    }

    /// Whether the body of an input costs little: a name, a call, or prefixes before one.
    fn is_simple(&mut self, body: ExprId) -> bool {
        if let Some(&simple) = self.simple.get(&body) {
            return simple;
        }
        let mut id = body;
        let mut length = 0;
        let simple = loop {
            length += 1;
            if length > 16 {
                break false;
            }
            match self.ast().expr(id) {
                Expr::Prefix { fields, body, .. }
                    if fields.iter().all(|f| matches!(f, Field::Output(_))) =>
                {
                    id = *body;
                }
                Expr::Var(_) | Expr::App(..) => break true,
                _ => break false,
            }
        };
        self.simple.insert(body, simple);
        simple
    }

    fn read(
        &mut self,
        reading: &Reading,
        index: usize,
        base: Value,
        env: &Env,
        out: &mut Vec<ProcId>,
    ) -> Result<()> {
        let Some(field) = reading.fields.get(index) else {
            let event = self.event(&base, reading.span)?;
            let then = match reading.simple {
                true => self.process(reading.body, env)?,
                false => {
                    let key = self.captured(reading.body, env);
                    let Value::Process(call) = self.call(CallKey::Body(reading.body, key), env)?
                    else {
                        unreachable!("calls are processes");
                    };
                    call
                }
            };
            let then = self.after(&base, then, reading.clock.as_ref(), env, reading.span)?;
            out.push(self.processes.prefix(event, then));
            return Ok(());
        };
        match field {
            Field::Output(value) => {
                let part = self.eval(*value, env)?;
                let base = self.combine(base, part, reading.span)?;
                self.read(reading, index + 1, base, env, out)
            }
            Field::Input(pat, set) => {
                for (base, env) in self.inputs(reading, index, *pat, *set, base, env)? {
                    self.read(reading, index + 1, base, &env, out)?;
                }
                Ok(())
            }
            Field::Nondeterministic(pat, set) => {
                let mut choices = Vec::new();
                for (base, env) in self.inputs(reading, index, *pat, *set, base, env)? {
                    let mut inner = Vec::new();
                    self.read(reading, index + 1, base, &env, &mut inner)?;
                    choices.push(self.processes.external_choice(inner));
                }
                if choices.is_empty() {
                    return self.error_help(
                        self.ast().pat_span(*pat),
                        "`$` chooses from an empty set",
                        "an internal choice needs at least one alternative",
                    );
                }
                out.push(self.processes.internal_choice(choices));
                Ok(())
            }
        }
    }

    /// The values that an input takes: the event so far, and the variables bound.
    fn inputs(
        &mut self,
        reading: &Reading,
        index: usize,
        pat: PatId,
        set: Option<ExprId>,
        base: Value,
        env: &Env,
    ) -> Result<Vec<(Value, Env)>> {
        let span = self.ast().pat_span(pat);
        if let Some(set) = set {
            let at = self.span(set);
            let set = self.set(set, env)?;
            let mut found = Vec::new();
            for value in self.elements(&set, at)? {
                let mut slots = Vec::new();
                if self.bind(pat, &Slot::Value(value.clone()), env, &mut slots)? {
                    let base = self.combine(base.clone(), value, reading.span)?;
                    found.push((base, frame(slots, env)));
                }
            }
            return Ok(found);
        }
        let last_field = index + 1 == reading.fields.len();
        let parts = match self.ast().pat(pat) {
            Pat::Dot(pats) => pats.to_vec(),
            _ => vec![pat],
        };
        let mut found: Vec<(Value, Vec<(DefId, Slot)>)> = vec![(base, Vec::new())];
        for (position, &part) in parts.iter().enumerate() {
            let last = last_field && position + 1 == parts.len();
            let constructor = match self.ast().pat(part) {
                Pat::Var(_) => self
                    .resolved
                    .pat(part)
                    .filter(|&def| self.resolved.is_constructor(def)),
                _ => None,
            };
            let mut next = Vec::new();
            for (base, slots) in found {
                if let Some(def) = constructor {
                    let value = Value::Dot([Value::Head(def)].into());
                    let base = self.combine(base, value, span)?;
                    next.push((base, slots));
                    continue;
                }
                let values = match last {
                    true => self.extensions(&base, span)?,
                    false => self.next_field(&base, span)?,
                };
                for value in values {
                    let mut slots = slots.clone();
                    if self.bind(part, &Slot::Value(value.clone()), env, &mut slots)? {
                        let base = self.combine(base.clone(), value, span)?;
                        next.push((base, slots));
                    }
                }
            }
            found = next;
        }
        Ok(found
            .into_iter()
            .map(|(base, slots)| (base, frame(slots, env)))
            .collect())
    }
}
