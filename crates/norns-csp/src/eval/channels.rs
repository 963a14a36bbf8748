//! The numbers of events.
//!
//! The events of a channel with finite fields are numbered together when the first of them is
//! needed, in the order of their fields. So `{| c |}` is a run of numbers, `[[ c <- d ]]` moves one
//! run onto another, and neither lists events. Channels with infinite or very large fields have
//! their events numbered one by one, as they occur.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::dots::head;
use super::machine::{Evaluator, Result};
use super::set::Set;
use super::value::{Env, Value};
use crate::event::{EventId, EventSet, FieldNames};
use crate::resolve::{DefId, DefKind};
use crate::syntax::ast::{Bracket, ExprId, Stmt};
use crate::syntax::source::Span;

// Fields with more values are not listed only to number a channel.
const MAX_FIELD: usize = 1 << 16;

/// The numbers that events have.
#[derive(Default)]
pub(super) struct Numbering {
    // By channel; none if its events are numbered one by one.
    of: FxHashMap<DefId, Option<Arc<Channel>>>,
    // Sorted by their first events.
    channels: Vec<Arc<Channel>>,
    // Equal fields are the same field. The key of the first is the address of a set that is kept.
    by_set: FxHashMap<usize, (Arc<Set>, Arc<Field>)>,
    by_values: FxHashMap<Vec<Value>, Arc<Field>>,
    // Events that were numbered one by one.
    single: FxHashMap<Value, EventId>,
    single_values: FxHashMap<EventId, Value>,
    // Values in `by_values`.
    listed: usize,
}

/// A channel whose events have consecutive numbers.
pub(super) struct Channel {
    def: DefId,
    first: EventId,
    count: u32,
    fields: Vec<Arc<Field>>,
}

struct Field {
    // Sorted.
    values: Vec<Value>,
    places: FxHashMap<Value, u32>,
    names: Arc<FieldNames>,
}

impl Channel {
    /// The events that begin with these values; none if one is not a value of its field.
    fn run(&self, values: &[Value]) -> Option<(EventId, u32)> {
        let mut place = 0;
        let mut count = self.count;
        for (field, value) in self.fields.iter().zip(values) {
            count /= field.values.len() as u32;
            place += field.places.get(value)? * count;
        }
        (values.len() <= self.fields.len()).then_some((EventId(self.first.0 + place), count))
    }

    fn value(&self, event: EventId) -> Value {
        let mut place = (event.0 - self.first.0) as usize;
        let mut items = Vec::with_capacity(self.fields.len() + 1);
        for field in self.fields.iter().rev() {
            items.push(field.values[place % field.values.len()].clone());
            place /= field.values.len();
        }
        items.push(Value::Head(self.def));
        items.reverse();
        Value::Dot(items.into())
    }
}

impl Numbering {
    /// Memory of the numbers, roughly.
    pub fn bytes(&self) -> usize {
        self.single.len() * 160 + self.listed * 160
    }

    fn channel_at(&self, event: EventId) -> Option<&Arc<Channel>> {
        let after = self.channels.partition_point(|c| c.first <= event);
        let channel = &self.channels[after.checked_sub(1)?];
        (event.0 - channel.first.0 < channel.count).then_some(channel)
    }

    /// The value of an event.
    pub fn value(&self, event: EventId) -> Value {
        match self.channel_at(event) {
            Some(channel) => channel.value(event),
            None => self.single_values[&event].clone(),
        }
    }

    /// What exactly these events begin with, if they are several: a channel, maybe with some of
    /// its fields.
    pub fn beginning(&self, first: EventId, count: u32) -> Option<Value> {
        let channel = self.channel_at(first).filter(|_| count > 1)?;
        let mut rest = channel.count;
        let mut given = 0;
        while rest > count {
            rest /= channel.fields[given].values.len() as u32;
            given += 1;
        }
        if rest != count || !(first.0 - channel.first.0).is_multiple_of(count) {
            return None;
        }
        let Value::Dot(items) = channel.value(first) else {
            unreachable!("events are dots");
        };
        Some(Value::Dot(items[..=given].into()))
    }

    /// A run of numbers, split where a channel begins or ends.
    pub fn split(&self, first: EventId, count: u32) -> Vec<(EventId, u32)> {
        let mut parts = Vec::new();
        let (mut first, mut left) = (first.0, count);
        while left > 0 {
            let at = self.channels.partition_point(|c| c.first.0 <= first);
            let next = self.channels.get(at).map(|c| c.first.0 - first);
            let within = self
                .channel_at(EventId(first))
                .map(|c| c.count - (first - c.first.0));
            let length = within.or(next).unwrap_or(left).min(left);
            parts.push((EventId(first), length));
            first += length;
            left -= length;
        }
        parts
    }
}

impl Evaluator {
    /// How a channel is numbered; none if its events are numbered one by one.
    fn channel(&mut self, def: DefId, span: Span) -> Result<Option<Arc<Channel>>> {
        if let Some(known) = self.numbering.of.get(&def) {
            return Ok(known.clone());
        }
        let channel = self.number_channel(def, span)?.map(Arc::new);
        self.numbering.channels.extend(channel.clone());
        self.numbering.of.insert(def, channel.clone());
        Ok(channel)
    }

    fn number_channel(&mut self, def: DefId, span: Span) -> Result<Option<Channel>> {
        if !matches!(self.resolved.def(def).kind, DefKind::Channel(_)) {
            return Ok(None);
        }
        let sets = self.fields_of(def, span)?;
        for set in sets.iter() {
            if self.at_most(set, span).is_none_or(|size| size > MAX_FIELD) {
                return Ok(None);
            }
        }
        let mut fields = Vec::with_capacity(sets.len());
        for set in sets.iter() {
            let field = self.field(set, span)?;
            if field.values.is_empty() {
                return Ok(None);
            }
            fields.push(field);
        }
        let names = fields.iter().map(|field| field.names.clone()).collect();
        let name = self.resolved.name(def).to_owned();
        let first = self.processes.events.number(&name, names);
        Ok(first.map(|first| Channel {
            def,
            first,
            count: fields
                .iter()
                .map(|field| field.values.len() as u32)
                .product(),
            fields,
        }))
    }

    fn field(&mut self, set: &Arc<Set>, span: Span) -> Result<Arc<Field>> {
        let address = Arc::as_ptr(set) as usize;
        if let Some((_, field)) = self.numbering.by_set.get(&address) {
            return Ok(field.clone());
        }
        let values = self.elements(set, span)?;
        let field = match self.numbering.by_values.get(&values) {
            Some(field) => field.clone(),
            None => {
                let names = FieldNames::new(values.iter().map(|value| self.show(value)));
                let places = values.iter().cloned().zip(0..);
                let field = Arc::new(Field {
                    places: places.collect(),
                    names: Arc::new(names),
                    values: values.clone(),
                });
                self.numbering.listed += values.len();
                self.numbering.by_values.insert(values, field.clone());
                field
            }
        };
        let kept = (set.clone(), field.clone());
        self.numbering.by_set.insert(address, kept);
        Ok(field)
    }

    pub(super) fn event(&mut self, value: &Value, span: Span) -> Result<EventId> {
        self.work(1, span)?;
        if let (Value::Dot(items), Some(def)) = (value, head(value))
            && let Some(channel) = self.channel(def, span)?
            && items.len() - 1 == channel.fields.len()
            && let Some((event, _)) = channel.run(&items[1..])
        {
            return Ok(event);
        }
        if let Some(&event) = self.numbering.single.get(value) {
            return Ok(event);
        }
        if !self.is_complete(value, span)? {
            let shown = self.show(value);
            return self.error(span, format!("the event {shown} is not complete"));
        }
        let name = self.show(value);
        let event = self.processes.events.intern(&name);
        self.numbering.single.insert(value.clone(), event);
        self.numbering.single_values.insert(event, value.clone());
        Ok(event)
    }

    /// The events that a value of a numbered channel can be completed to.
    pub(super) fn run_of(&mut self, value: &Value, span: Span) -> Result<Option<(EventId, u32)>> {
        let (Value::Dot(items), Some(def)) = (value, head(value)) else {
            return Ok(None);
        };
        let channel = self.channel(def, span)?;
        Ok(channel.and_then(|channel| channel.run(&items[1..])))
    }

    /// What `[[ from <- to ]]` does to the completions of `from`, if those of `to` are the same.
    pub(super) fn parallel_runs(
        &mut self,
        from: &Value,
        to: &Value,
        span: Span,
    ) -> Result<Option<(EventId, EventId, u32)>> {
        let mut missing = Vec::with_capacity(2);
        for value in [from, to] {
            let (Value::Dot(items), Some(def)) = (value, head(value)) else {
                return Ok(None);
            };
            let Some(channel) = self.channel(def, span)? else {
                return Ok(None);
            };
            missing.push((channel, items.len() - 1));
        }
        let [(a, given_a), (b, given_b)] = &missing[..] else {
            unreachable!("two values were looked at");
        };
        let (Some(rest_a), Some(rest_b)) = (a.fields.get(*given_a..), b.fields.get(*given_b..))
        else {
            return Ok(None);
        };
        let alike = rest_a.len() == rest_b.len()
            && rest_a.iter().zip(rest_b).all(|(x, y)| Arc::ptr_eq(x, y));
        if !alike {
            return Ok(None);
        }
        let runs = (self.run_of(from, span)?, self.run_of(to, span)?);
        Ok(match runs {
            (Some((from, count)), Some((to, _))) => Some((from, to, count)),
            _ => None,
        })
    }

    /// Pairs of events from pairs of channels, each extended in the same ways.
    pub(super) fn event_pairs(
        &mut self,
        pairs: &[(ExprId, ExprId)],
        stmts: &[Stmt],
        env: &Env,
    ) -> Result<Vec<(EventId, EventId)>> {
        let mut found = Vec::new();
        for (from, to, count) in self.renamed_runs(pairs, stmts, env)? {
            if found.len() + count as usize > self.limits.elements {
                return Err(self.too_large(self.span(pairs[0].0)));
            }
            let both = (from.0..).zip(to.0..).take(count as usize);
            found.extend(both.map(|(from, to)| (EventId(from), EventId(to))));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The same as runs of events: the first of each side, and how many there are.
    pub(super) fn renamed_runs(
        &mut self,
        pairs: &[(ExprId, ExprId)],
        stmts: &[Stmt],
        env: &Env,
    ) -> Result<Vec<(EventId, EventId, u32)>> {
        let mut found = Vec::new();
        for env in self.generate(stmts, env, Bracket::Set)? {
            for &(from, to) in pairs {
                let (from_span, to_span) = (self.span(from), self.span(to));
                let from = self.eval(from, &env)?;
                let to = self.eval(to, &env)?;
                if self.is_complete(&from, from_span)? {
                    found.push((self.event(&from, from_span)?, self.event(&to, to_span)?, 1));
                    continue;
                }
                if let Some(runs) = self.parallel_runs(&from, &to, from_span)? {
                    found.push(runs);
                    continue;
                }
                for extension in self.extensions(&from, from_span)? {
                    let a = self.combine(from.clone(), extension.clone(), from_span)?;
                    let b = self.combine(to.clone(), extension, to_span)?;
                    found.push((self.event(&a, from_span)?, self.event(&b, to_span)?, 1));
                }
            }
        }
        Ok(found)
    }

    /// A set of events by their numbers, if it is known to be one and that is cheap.
    pub(super) fn as_events(&mut self, set: &Set, span: Span) -> Result<Option<EventSet>> {
        match set {
            Set::Events(events) => Ok(Some(events.clone())),
            Set::Explicit(elements) => {
                let Some(first) = elements.first() else {
                    return Ok(Some(EventSet::empty()));
                };
                if !self.is_event(first) {
                    return Ok(None);
                }
                let mut events = Vec::with_capacity(elements.len());
                for element in elements {
                    events.push(self.event(element, span)?);
                }
                Ok(Some(EventSet::only(events)))
            }
            _ => Ok(None),
        }
    }

    /// Whether a value, which is complete, is an event.
    fn is_event(&self, value: &Value) -> bool {
        head(value).is_some_and(|def| matches!(self.resolved.def(def).kind, DefKind::Channel(_)))
    }

    /// The events of a set, sorted as values.
    pub(super) fn values_of(&mut self, events: &EventSet, span: Span) -> Result<Vec<Value>> {
        let events = match events {
            EventSet::Only(_) => events.clone(),
            EventSet::AllBut(_) => {
                let mut all = EventSet::empty();
                for channel in self.channels.clone() {
                    let value = Value::Dot([Value::Head(channel)].into());
                    let set = self.productions(&value, span)?;
                    all = all.union(&self.events_in(&set, span)?);
                }
                all.intersection(events)
            }
        };
        let members = events.members().expect("given by its members");
        if members.len() > self.limits.elements {
            return Err(self.too_large(span));
        }
        let mut values = Vec::with_capacity(members.len());
        for event in members.iter() {
            self.work(1, span)?;
            values.push(self.numbering.value(event));
        }
        values.sort();
        Ok(values)
    }

    /// An upper bound of the number of elements, without listing them; none if there is no small
    /// one.
    fn at_most(&mut self, set: &Set, span: Span) -> Option<usize> {
        let product = |sizes: Vec<usize>| {
            sizes
                .into_iter()
                .try_fold(1usize, |all, size| all.checked_mul(size))
        };
        match set {
            Set::Explicit(elements) => Some(elements.len()),
            Set::Chars => Some(128),
            Set::Ints | Set::IntsFrom(_) | Set::Processes | Set::Seqs(_) => None,
            Set::Events(events) => events.members().map(|members| members.len()),
            Set::Datatype(def) => {
                if !self.is_finite(set) {
                    return None;
                }
                let mut sum = 0usize;
                for constructor in self.constructors(*def) {
                    let fields = self.fields_of(constructor, span).ok()?;
                    let sizes: Option<Vec<usize>> = fields
                        .iter()
                        .map(|field| self.at_most(field, span))
                        .collect();
                    sum = sum.checked_add(product(sizes?)?)?;
                }
                Some(sum)
            }
            Set::Dots(parts) | Set::Tuples(parts) => {
                let sizes: Option<Vec<usize>> =
                    parts.iter().map(|part| self.at_most(part, span)).collect();
                product(sizes?)
            }
            Set::Union(parts) => {
                let sizes: Option<Vec<usize>> =
                    parts.iter().map(|part| self.at_most(part, span)).collect();
                sizes?.into_iter().try_fold(0usize, usize::checked_add)
            }
            Set::Subsets(of) => {
                let size = u32::try_from(self.at_most(of, span)?).ok()?;
                1usize.checked_shl(size)
            }
            Set::Maps(keys, values) => {
                let values = self.at_most(values, span)?.checked_add(1)?;
                values.checked_pow(u32::try_from(self.at_most(keys, span)?).ok()?)
            }
        }
    }
}
