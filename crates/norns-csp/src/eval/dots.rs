//! Dotted values: channels and constructors with some or all of their fields.

use std::sync::Arc;

use super::machine::{Evaluator, Result};
use super::pattern::dot_of;
use super::set::Set;
use super::value::Value;
use crate::event::EventSet;
use crate::resolve::{DefId, DefKind};
use crate::syntax::ast::*;
use crate::syntax::source::Span;

/// The channel or constructor at the head of a value.
pub(super) fn head(value: &Value) -> Option<DefId> {
    match value {
        // What completes a complete value is a dot without parts.
        Value::Dot(items) => match items.first() {
            Some(Value::Head(def)) => Some(*def),
            _ => None,
        },
        _ => None,
    }
}

impl Evaluator {
    /// The sets of the fields of a channel or constructor.
    pub(super) fn fields_of(&mut self, def: DefId, span: Span) -> Result<Arc<Vec<Arc<Set>>>> {
        if let Some(fields) = self.fields.get(&def) {
            return Ok(fields.clone());
        }
        let body = match self.resolved.def(def).kind {
            DefKind::Channel(decl) => match self.ast().decl(decl) {
                Decl::Channel(_, fields) => *fields,
                _ => None,
            },
            DefKind::Constructor(decl, index) => match self.ast().decl(decl) {
                Decl::Datatype { constructors, .. } => constructors[index as usize].fields,
                _ => None,
            },
            _ => None,
        };
        let _ = span;
        let sets = match body {
            Some(body) => self.field_sets(body)?,
            None => Vec::new(),
        };
        let fields = Arc::new(sets);
        self.fields.insert(def, fields.clone());
        Ok(fields)
    }

    /// The sets that a type expression like `A.B` or `(A, B)` stands for.
    pub(super) fn field_sets(&mut self, body: ExprId) -> Result<Vec<Arc<Set>>> {
        let span = self.span(body);
        let value = self.eval(body, &None)?;
        let mut sets = Vec::new();
        self.split(value, span, &mut sets)?;
        Ok(sets)
    }

    fn split(&mut self, value: Value, span: Span, out: &mut Vec<Arc<Set>>) -> Result<()> {
        match value {
            Value::Dot(items) => {
                for item in items.iter() {
                    self.split(item.clone(), span, out)?;
                }
                Ok(())
            }
            Value::Tuple(items) => {
                let mut sets = Vec::new();
                for item in items.iter() {
                    let mut inner = Vec::new();
                    self.split(item.clone(), span, &mut inner)?;
                    sets.push(match inner.len() {
                        1 => inner.remove(0),
                        _ => Arc::new(Set::Dots(inner)),
                    });
                }
                out.push(Arc::new(Set::Tuples(sets)));
                Ok(())
            }
            Value::Set(set) => self.split_set(set, span, out),
            _ => unreachable!("the type checker allows only sets here"),
        }
    }

    fn split_set(&mut self, set: Arc<Set>, span: Span, out: &mut Vec<Arc<Set>>) -> Result<()> {
        if let Set::Dots(parts) = &*set {
            let headed = matches!(&*parts[0], Set::Explicit(first)
                if matches!(first.first(), Some(Value::Head(_))));
            if !headed {
                out.extend(parts.iter().cloned());
                return Ok(());
            }
        }
        let plain = |value: &Value| match value {
            Value::Dot(items) if head(value).is_none() => Some(items.clone()),
            _ => None,
        };
        let Set::Explicit(elements) = &*set else {
            out.push(set);
            return Ok(());
        };
        let Some(first) = elements.first().and_then(plain) else {
            out.push(set);
            return Ok(());
        };
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); first.len()];
        for element in elements {
            let Some(items) = plain(element).filter(|items| items.len() == columns.len()) else {
                return self.error(span, "the elements of this set have different shapes");
            };
            for (column, item) in columns.iter_mut().zip(items.iter()) {
                column.push(item.clone());
            }
        }
        let columns: Vec<Set> = columns.into_iter().map(Set::explicit).collect();
        let mut size = 1usize;
        for column in &columns {
            if let Set::Explicit(values) = column {
                size = size.saturating_mul(values.len());
            }
        }
        if size != elements.len() {
            return self.error_help(
                span,
                "this set of dotted values is not the product of its fields",
                "the fields of a channel are independent; all combinations must be in the set",
            );
        }
        out.extend(columns.into_iter().map(Arc::new));
        Ok(())
    }

    pub(super) fn is_complete(&mut self, value: &Value, span: Span) -> Result<bool> {
        let mut value = value;
        loop {
            let (Value::Dot(items), Some(def)) = (value, head(value)) else {
                return Ok(true);
            };
            let arity = self.fields_of(def, span)?.len();
            if items.len() - 1 != arity {
                return Ok(false);
            }
            if arity == 0 {
                return Ok(true);
            }
            value = items.last().expect("not empty");
        }
    }

    /// `left.right`.
    pub(super) fn combine(&mut self, left: Value, right: Value, span: Span) -> Result<Value> {
        self.work(1, span)?;
        let parts = match &right {
            Value::Dot(items) if head(&right).is_none() => items.to_vec(),
            _ => vec![right],
        };
        let mut whole = left;
        for part in parts {
            whole = match self.add_field(&whole, &part, None, span)? {
                Some(extended) => extended,
                None => {
                    let mut items = match &whole {
                        Value::Dot(items) if head(&whole).is_none() => items.to_vec(),
                        _ => vec![whole],
                    };
                    items.push(part);
                    Value::Dot(items.into())
                }
            };
        }
        Ok(whole)
    }

    /// The value with one more field, if it is a channel or constructor that takes one.
    /// `within` is the set that the value must be in, if it is a field itself.
    fn add_field(
        &mut self,
        base: &Value,
        part: &Value,
        within: Option<&Arc<Set>>,
        span: Span,
    ) -> Result<Option<Value>> {
        let (Value::Dot(items), Some(def)) = (base, head(base)) else {
            return Ok(None);
        };
        let fields = self.fields_of(def, span)?;
        let count = items.len() - 1;
        if count > 0 {
            let last = items.last().expect("not empty").clone();
            if head(&last).is_some() && !self.is_complete(&last, span)? {
                let field = fields[count - 1].clone();
                let Some(last) = self.add_field(&last, part, Some(&field), span)? else {
                    return Ok(None);
                };
                let mut items = items.to_vec();
                *items.last_mut().expect("not empty") = last.clone();
                if self.is_complete(&last, span)? && !self.contains(&field, &last, span)? {
                    return self.not_in_field(def, count - 1, &last, &field, span);
                }
                return Ok(Some(Value::Dot(items.into())));
            }
        }
        if count == fields.len() {
            return Ok(None);
        }
        let field = fields[count].clone();
        let _ = within;
        if self.is_complete(part, span)? {
            let part = self.canonical(part.clone(), span)?;
            if !self.contains(&field, &part, span)? {
                return self.not_in_field(def, count, &part, &field, span);
            }
            let mut items = items.to_vec();
            items.push(part);
            return Ok(Some(Value::Dot(items.into())));
        }
        let mut items = items.to_vec();
        items.push(part.clone());
        Ok(Some(Value::Dot(items.into())))
    }

    fn not_in_field<T>(
        &mut self,
        def: DefId,
        index: usize,
        value: &Value,
        field: &Set,
        span: Span,
    ) -> Result<T> {
        let name = self.resolved.name(def).to_owned();
        let at = self.resolved.def(def).span;
        let shown = self.show(value);
        let set = self.show_set(field);
        self.error_help(
            span,
            format!("{shown} is not a value of field {} of `{name}`", index + 1),
            format!("the field takes values of {set}"),
        )
        .map_err(|mut error: super::machine::Error| {
            error
                .related
                .push((at, format!("`{name}` is declared here")));
            error
        })
    }

    /// All ways to complete a value, each as the fields that are missing.
    fn completions(&mut self, value: &Value, span: Span) -> Result<Vec<Vec<Value>>> {
        let (Value::Dot(items), Some(def)) = (value, head(value)) else {
            return Ok(vec![Vec::new()]);
        };
        let fields = self.fields_of(def, span)?;
        let count = items.len() - 1;
        let mut starts = vec![Vec::new()];
        if count > 0 {
            let last = items.last().expect("not empty").clone();
            if head(&last).is_some() && !self.is_complete(&last, span)? {
                starts = self.completions_within(&last, &fields[count - 1], span)?;
            }
        }
        if count == fields.len() {
            return Ok(starts);
        }
        let mut all = Vec::new();
        let ends = self.elements(&Set::Dots(fields[count..].to_vec()), span)?;
        for start in &starts {
            for end in &ends {
                let mut parts = start.clone();
                match end {
                    Value::Dot(items) => parts.extend(items.iter().cloned()),
                    other => parts.push(other.clone()),
                }
                all.push(parts);
            }
        }
        Ok(all)
    }

    /// The same for a value that must end up in `field`, which need not be a product.
    fn completions_within(
        &mut self,
        value: &Value,
        field: &Arc<Set>,
        span: Span,
    ) -> Result<Vec<Vec<Value>>> {
        if !self.is_finite(field) {
            return self.completions(value, span);
        }
        let Value::Dot(start) = value else {
            unreachable!("only dots can be incomplete");
        };
        let mut all = Vec::new();
        for element in self.elements(field, span)? {
            if let Value::Dot(items) = &element
                && let Some(rest) = rest_of(items, start)
            {
                all.push(rest);
            }
        }
        Ok(all)
    }

    /// All ways to complete a value, as what must be dotted to it.
    pub(super) fn extensions(&mut self, value: &Value, span: Span) -> Result<Vec<Value>> {
        if self.is_complete(value, span)? {
            return Ok(vec![Value::Dot(Arc::from(Vec::new()))]);
        }
        if let Some(only) = self.last_field(value, span)? {
            return self.elements(&only, span);
        }
        let all = self.completions(value, span)?;
        Ok(all.into_iter().map(dot_of).collect())
    }

    /// The set of the one field that is missing; none if more is missing.
    fn last_field(&mut self, value: &Value, span: Span) -> Result<Option<Arc<Set>>> {
        let (Value::Dot(items), Some(def)) = (value, head(value)) else {
            return Ok(None);
        };
        let fields = self.fields_of(def, span)?;
        if items.len() != fields.len() {
            return Ok(None);
        }
        let last = items.last().expect("not empty").clone();
        let complete = head(&last).is_none() || self.is_complete(&last, span)?;
        let opened = items.len() == 1 || complete;
        Ok(opened.then(|| fields[items.len() - 1].clone()))
    }

    /// All ways to add one field.
    pub(super) fn next_field(&mut self, value: &Value, span: Span) -> Result<Vec<Value>> {
        let (Value::Dot(items), Some(def)) = (value, head(value)) else {
            return Ok(Vec::new());
        };
        let fields = self.fields_of(def, span)?;
        let count = items.len() - 1;
        if count > 0 {
            let last = items.last().expect("not empty").clone();
            if head(&last).is_some() && !self.is_complete(&last, span)? {
                let field = fields[count - 1].clone();
                if !self.is_finite(&field) {
                    return self.next_field(&last, span);
                }
                let all = self.completions_within(&last, &field, span)?;
                let firsts = all.into_iter().filter_map(|rest| rest.into_iter().next());
                let Set::Explicit(firsts) = Set::explicit(firsts.collect()) else {
                    unreachable!("an explicit set was built");
                };
                return Ok(firsts);
            }
        }
        match fields.get(count).cloned() {
            Some(set) => self.elements(&set, span),
            None => Ok(Vec::new()),
        }
    }

    /// All complete values that begin with this one: `{| value |}`.
    pub(super) fn productions(&mut self, value: &Value, span: Span) -> Result<Arc<Set>> {
        if self.is_complete(value, span)? {
            return Ok(Arc::new(Set::one(value.clone())));
        }
        let Value::Dot(items) = value else {
            return Ok(Arc::new(Set::one(value.clone())));
        };
        if let Some((first, count)) = self.run_of(value, span)? {
            return Ok(Arc::new(Set::Events(EventSet::run(first, count))));
        }
        let last = items.last().expect("not empty");
        if head(last).is_some() && items.len() > 1 && !self.is_complete(last, span)? {
            let mut all = Vec::new();
            for extension in self.extensions(value, span)? {
                all.push(self.combine(value.clone(), extension, span)?);
            }
            return Ok(Arc::new(Set::explicit(all)));
        }
        self.productions_shallow(value, span)
    }

    /// The same where all fields that are there are complete.
    pub(super) fn productions_shallow(&mut self, value: &Value, span: Span) -> Result<Arc<Set>> {
        let (Value::Dot(items), Some(def)) = (value, head(value)) else {
            return Ok(Arc::new(Set::one(value.clone())));
        };
        let fields = self.fields_of(def, span)?;
        if items.len() - 1 == fields.len() {
            return Ok(Arc::new(Set::one(value.clone())));
        }
        let mut parts: Vec<Arc<Set>> = items
            .iter()
            .map(|item| Arc::new(Set::one(item.clone())))
            .collect();
        parts.extend(fields[items.len() - 1..].iter().cloned());
        Ok(Arc::new(Set::Dots(parts)))
    }

    pub(super) fn subtype(&mut self, decl: DeclId, span: Span) -> Result<Value> {
        let Decl::Subtype { constructors, .. } = self.ast().decl(decl).clone() else {
            unreachable!("subtypes are declared as such");
        };
        let binds = self.resolved.binds[&decl].clone();
        let mut sets = Vec::new();
        for constructor in &constructors {
            let short = self.ast().name(constructor.name).to_owned();
            let def = binds[1..]
                .iter()
                .copied()
                .find(|&def| self.resolved.name(def).rsplit("::").next() == Some(short.as_str()))
                .expect("the type checker found it");
            let given = match constructor.fields {
                Some(fields) => self.field_sets(fields)?,
                None => Vec::new(),
            };
            let fields = self.fields_of(def, span)?;
            let mut parts = vec![Arc::new(Set::one(Value::Head(def)))];
            let count = given.len();
            parts.extend(given);
            parts.extend(fields.iter().skip(count).cloned());
            sets.push(match parts.len() {
                1 => Arc::new(Set::one(Value::Dot([Value::Head(def)].into()))),
                _ => Arc::new(Set::Dots(parts)),
            });
        }
        Ok(Value::Set(match sets.len() {
            1 => sets.remove(0),
            _ => Arc::new(Set::Union(sets)),
        }))
    }
}

/// The items of a complete value that follow those of an incomplete one.
fn rest_of(items: &[Value], start: &[Value]) -> Option<Vec<Value>> {
    if items.len() < start.len() || items[0] != start[0] {
        return None;
    }
    let count = start.len();
    if items[..count - 1] != start[..count - 1] {
        return None;
    }
    let mut rest = Vec::new();
    match (&items[count - 1], &start[count - 1]) {
        (a, b) if a == b => {}
        (Value::Dot(a), Value::Dot(b)) => rest.push(dot_of(rest_of(a, b)?)),
        _ => return None,
    }
    rest.extend(items[count..].iter().cloned());
    Some(rest)
}
